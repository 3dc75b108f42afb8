#!/bin/bash
# What gdb prints of a program and of its core file, with the script of the installed
# library; and that the script knows where the words are.
#
#   test.sh <compiler> <installed library> <its script> <layout> <directory>
set -euo pipefail
cc=$1 prefix=$2 script=$3 layout=$4 dir=$5
here=$(cd "$(dirname "$0")" && pwd)
sed -n '/^# layout {/,/^# layout }/{//d;p}' "$here/hwheel.py" | diff - "$layout" ||
	{ echo 'tools/gdb/hwheel.py does not have the layout of this library: make gdb-layout'; exit 1; }

# says <pattern> <file>: each is there
says() {
	grep -q -e "$1" "$2" || { echo "gdb does not print: $1"; cat "$2"; exit 1; }
}

rm -rf "$dir/core" "$dir"/*.out
$cc -g -O0 -std=c11 -o "$dir/shared" "$here/timers.c" -I"$prefix/include" -L"$prefix/lib" \
	-lhwheel -Wl,-rpath,"$prefix/lib"
# shellcheck disable=SC2046
$cc -g -O0 -std=c11 -o "$dir/static" "$here/timers.c" -I"$prefix/include" \
	"$prefix/lib/libhwheel.a" $(sed -n 's/^Libs.private: //p' "$prefix/lib/pkgconfig/hwheel.pc")

look=(-ex up -ex 'print none' -ex 'print wheel' -ex 'print gone' -ex 'print soon' -ex 'print far'
	-ex 'print never' -ex 'print rests' -ex 'print ended' -ex 'print freed' -ex 'print repeats'
	-ex 'print c' -ex 'hwheel wheel' -ex 'hwheel wheel 2' -ex 'print stop_here' -ex 'hwheel 4096')
gdb() {
	command gdb -batch -nx "$@" 2>&1
}
# The script is found by itself, as that of a library in gdb's own directory is.
auto=(-iex "set auto-load scripts-directory ${script%%auto-load*}auto-load"
	-iex 'set auto-load safe-path /' -iex 'set print pretty off')
gdb "${auto[@]}" -ex 'break stop_here' -ex run -ex 'print *c' -ex bt "$dir/shared" > "$dir/callback.out" || true
gdb "${auto[@]}" -ex 'break stop_here' -ex run -ex continue "${look[@]}" \
	-ex "gcore $dir/core" "$dir/shared" > "$dir/live.out" || true
if grep -q 'ptrace: Operation not permitted' "$dir/live.out"; then
	echo '    skipped: gdb may not trace here'
	exit 0
fi
gdb "${auto[@]}" "${look[@]}" "$dir/shared" "$dir/core" > "$dir/core.out" || true
gdb -ex "source $script" -ex 'break stop_here' -ex run -ex continue "${look[@]}" \
	"$dir/static" > "$dir/static.out" || true

for out in live core static; do
	out=$dir/$out.out
	says '^\$1 = NULL$' "$out"
	says '{clock manual at 5.01 s, tick 1 ms, hand at 5.01 s, 7 timers, 5 pending, 2 fired}' "$out"
	says '^\$3 = .*{clock monotonic, tick 1 ms, .* 0 timers, 0 pending, 0 fired}' "$out"
	says '^\$4 = .*{pending, due at 5.04 s, 30 ms ahead, calls timed_out, cookie 0x7}' "$out"
	says '^\$5 = .*{pending, due at 63072000[0-9][0-9]\.[0-9]* s, [0-9.]* s ahead, an event, cookie 0x8}' "$out"
	says '^\$6 = .*{pending, due never, calls timed_out, cookie 0x1}' "$out"
	says '^\$7 = .*{not pending, calls timed_out, cookie 0x2}' "$out"
	says '^\$8 = .*{shut down, calls timed_out, cookie 0x3}' "$out"
	says '^\$9 = .*{of no wheel in sight}' "$out"
	says '^\$10 = .*{pending, due at 5.253 s, 243 ms ahead, every 250 ms, burst, calls timed_out' "$out"
	says '^\$11 = {wheel = 0x.*{clock manual .*}, idle = 0x.*{pending, due at 5.253 s' "$out"
	says '^  0x.*{pending, due at 5.09 s, 80 ms ahead, of a key}' "$out"
	says '^  and 5 more$' "$out"
	says '^no memory at 0x' "$out"
done
says '^\$1 = .*, its callback is running, calls timed_out, cookie 0x9}' "$dir/callback.out"
# The library's own functions have lines.
says '^#[0-9]* .* at src/capi/drive.rs:[1-9]' "$dir/callback.out"
