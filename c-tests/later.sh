#!/bin/sh
# A program that needs a function of a later release is refused when it is loaded with
# this one; a program of this release runs with the later one.
# usage: later.sh CC LIBRARY MAP SONAME DIRECTORY
set -eu
getconf GNU_LIBC_VERSION >/dev/null 2>&1 ||
	{ echo '    skipped: only glibc checks the versions of symbols'; exit 0; }
cc=$1 library=$(realpath "$2") map=$3 soname=$4 dir=$5
rm -rf "$dir" && mkdir -p "$dir/now" "$dir/later"
ln -s "$library" "$dir/now/$soname"

# The later release: this map, and a node that follows.
node=$(sed -n 's/^\(HWHEEL_[0-9.]*\) {/\1/p' "$map" | tail -1)
{ cat "$map" && printf 'HWHEEL_99 {\nglobal:\n\thwheel_later;\n} %s;\n' "$node"; } > "$dir/map"
cat > "$dir/later.c" <<'END'
unsigned hwheel_version(void) { return 99 << 8; }
unsigned hwheel_later(void) { return 1; }
END
$cc -shared -fPIC -o "$dir/later/$soname" "$dir/later.c" -Wl,--version-script="$dir/map" \
	-Wl,-soname,"$soname"

for name in version later; do
	echo "unsigned hwheel_$name(void); int main(void) { return hwheel_$name() == 0; }" > "$dir/$name.main.c"
done
$cc -o "$dir/needs_now" "$dir/version.main.c" "$dir/now/$soname"
$cc -o "$dir/needs_later" "$dir/later.main.c" "$dir/later/$soname"
for with in now later; do
	LD_LIBRARY_PATH=$dir/$with "$dir/needs_now" || { echo "a program of this release fails with $with"; exit 1; }
done
LD_LIBRARY_PATH=$dir/later "$dir/needs_later" || { echo 'the later program fails'; exit 1; }
if LD_LIBRARY_PATH=$dir/now "$dir/needs_later" 2> "$dir/refused"; then
	echo 'a program that needs a later release is loaded'
	exit 1
fi
grep -q "version \`HWHEEL_99' not found" "$dir/refused" || { cat "$dir/refused"; exit 1; }
