#!/bin/bash
# Measures the library, a line for each figure: "name value". Sizes are bytes, those of files
# without debug information.
#
#   sizes.sh <compiler> <shared library> <static library> <libraries of the system>
set -eu
cc=$1 shared=$2 static=$3 libs=$4
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
here=$(cd "$(dirname "$0")/.." && pwd)
strip=$($cc -print-prog-name=strip)

size() {
	$strip -o "$dir/stripped" "$1"
	stat -c %s "$dir/stripped"
}
# Of each section whose name matches, summed up.
section() {
	local hex sum=0
	for hex in $(readelf -SW "$shared" |
		sed -nE "s/.* ($1)  *[A-Z_]* *[0-9a-f]* [0-9a-f]* ([0-9a-f]*) .*/\2/p"); do
		sum=$((sum + 0x$hex))
	done
	echo $sum
}

echo "file $(size "$shared")"
echo "text $(section '\.text')"
echo "rodata $(section '\.rodata')"
echo "unwind $(section '\.eh_frame|\.eh_frame_hdr|\.gcc_except_table')"
echo "data $(section '\.data|\.data\.rel\.ro|\.got')"
echo "bss $(section '\.bss')"
echo "tls $(section '\.tdata|\.tbss')"
echo "static_tls $(readelf -dW "$shared" | grep -c STATIC_TLS)"
echo "relocations $(readelf -rW "$shared" | grep -c R_)"
echo "needs $(readelf -dW "$shared" | sed -n 's/.*(NEEDED).*\[\(.*\)\]/\1/p' | xargs)"

# The smallest program, without the library and with the static one in it.
echo 'int main(void) { return 0; }' >"$dir/nothing.c"
for how in '' -static; do
	# A C library may lack its archive.
	# shellcheck disable=SC2086
	$cc -O2 $how -o "$dir/nothing" "$dir/nothing.c" || continue
	# shellcheck disable=SC2086
	$cc -O2 $how -Wl,--gc-sections -I"$here/include" -o "$dir/hello" "$here/examples/hello.c" \
		"$static" $libs
	echo "nothing$how $(size "$dir/nothing")"
	echo "hello$how $(size "$dir/hello")"
done
