#!/bin/bash
# Programs that were built with this release run with the next minor one, which has one
# function more. A program that calls that function is refused by this release.
#
#   upgrade.sh <make> <cc> <stage> <soname> <target directory> <directory>
set -euo pipefail
make=$1 cc=$2 stage=$3 soname=$4 target=$5 dir=$6
getconf GNU_LIBC_VERSION >/dev/null 2>&1 ||
	{ echo '    skipped: only glibc checks the versions of symbols'; exit 0; }
unset MAKEFLAGS MAKELEVEL MFLAGS
version=$(sed -n 's/^VERSION := //p' Makefile)
IFS=. read -r major minor _ <<<"$version"
next=$major.$((minor + 1)).0
node=$(sed -n 's/^\(HWHEEL_[0-9.]*\) {/\1/p' hwheel.map | tail -n 1)
new_node=HWHEEL_$major.$((minor + 1))
rm -rf "$dir"
mkdir -p "$dir/next"
cp -r Makefile Cargo.toml Cargo.lock build.rs hwheel.map hwheel.pc.in src include bindings \
	man tools cmake benches verify jobs examples "$dir/next"

# changed <file> <sed script>: the script must change the file.
changed() {
	sed -i "$2" "$dir/next/$1"
	! cmp -s "$1" "$dir/next/$1" || { echo "$1 is as before: $2"; exit 1; }
}
changed Makefile "s/^VERSION := .*/VERSION := $next/"
changed Cargo.toml "0,/^version = /s/^version = .*/version = \"$next\"/"
changed Cargo.lock "/^name = \"hwheel\"/{n;s/.*/version = \"$next\"/}"
changed src/capi/library.rs "s/\(HWHEEL_VERSION_MINOR: u32 = \).*/\1$((minor + 1));/"
changed include/hwheel.h "s/^\(#define HWHEEL_VERSION_MINOR\).*/\1 $((minor + 1))/
	/hwheel_version(void)/i int hwheel_added(int number);"
cat >>"$dir/next/src/capi/library.rs" <<'END'

#[no_mangle]
pub extern "C" fn hwheel_added(number: c_int) -> c_int {
    number + 1
}
END
printf '\n%s {\nglobal:\n\thwheel_added;\n} %s;\n' "$new_node" "$node" >>"$dir/next/hwheel.map"
# Quick to build rather than quick.
CARGO_PROFILE_RELEASE_LTO=off CARGO_PROFILE_RELEASE_CODEGEN_UNITS=16 \
	CARGO_PROFILE_RELEASE_OPT_LEVEL=1 CARGO_TARGET_DIR=$target \
	"$make" --no-print-directory -C "$dir/next" install BUILD=build PREFIX="$dir/root" DESTDIR= \
	>"$dir/log" 2>&1 || { cat "$dir/log"; exit 1; }

# build <root of the library> <program> <source>
build() {
	$cc -std=c11 -D_GNU_SOURCE -I"$1/include" -o "$dir/$2" "$3" -L"$1/lib" -lhwheel -lpthread
}
# with <root of the library> <program>
with() {
	LD_LIBRARY_PATH=$1/lib "$dir/$2"
}
cat >"$dir/says.c" <<'END'
#include <hwheel.h>
#include <stdio.h>
int main(void) { return puts(hwheel_version_string()) < 0; }
END
cat >"$dir/needs.c" <<'END'
#include <hwheel.h>
int main(void) { return hwheel_added(41) != 42; }
END

tests=0
for name in advance arm cancel drain layout periodic poll; do
	build "$stage" "$name" "c-tests/$name.c"
	with "$dir/root" "$name" >"$dir/log" 2>&1 || { cat "$dir/log"; exit 1; }
	tests=$((tests + $(grep -c '^ok ' "$dir/log")))
done
build "$stage" hello examples/hello.c
[ "$(with "$dir/root" hello)" = 'request 1 timed out' ]
build "$stage" of_this "$dir/says.c"
build "$dir/root" of_next "$dir/says.c"
build "$dir/root" needs_next "$dir/needs.c"
for program in of_this of_next; do
	[ "$(with "$stage" $program)" = "$version" ]
	[ "$(with "$dir/root" $program)" = "$next" ]
done
with "$dir/root" needs_next
! with "$stage" needs_next 2>"$dir/refused" || { echo 'a program of the next release is loaded'; exit 1; }
grep -q "$soname: version \`$new_node' not found" "$dir/refused" || { cat "$dir/refused"; exit 1; }
echo "    $tests C tests and 3 programs of $version run with $next; one that needs $next is refused by $version"
