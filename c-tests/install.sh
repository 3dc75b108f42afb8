#!/bin/bash
# Installs into a directory, builds a consumer outside the tree with pkg-config
# and with CMake, shared and static, in C and C++, runs each, and uninstalls.
set -eu
make=$1 cc=$2 cxx=$3
here=$(cd "$(dirname "$0")/consumer" && pwd)
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
prefix=/opt/hwheel
$make --no-print-directory install DESTDIR="$dir/root" PREFIX=$prefix >/dev/null
lib=$dir/root$prefix/lib

# Runs a program, which must have the version that was installed.
runs() {
	[ "$(LD_LIBRARY_PATH="$lib" "$1")" = "$version" ] ||
		{ echo "$1 does not say $version"; exit 1; }
}

needs_library() {
	readelf -d "$1" | grep -q 'NEEDED.*\[libhwheel\.so\.0\]'
}

if command -v pkg-config >/dev/null; then
	export PKG_CONFIG_SYSROOT_DIR="$dir/root" PKG_CONFIG_PATH="$lib/pkgconfig"
	shared=$(pkg-config --cflags --libs hwheel)
	static=$(pkg-config --static --cflags --libs hwheel)
	version=$(pkg-config --modversion hwheel)
else
	echo '    pkg-config is not installed (apt-get install pkg-config): the flags are spelled out instead'
	shared="-I$dir/root$prefix/include -L$lib -lhwheel"
	static="$shared $(sed -n 's/^Libs.private: //p' "$lib/pkgconfig/hwheel.pc")"
	version=$(sed -n 's/^Version: //p' "$lib/pkgconfig/hwheel.pc")
fi
[ "$("$dir/root$prefix/bin/hwheel-latency" --version)" = "hwheel-latency $version" ]
for page in man/*.[137]; do
	installed=$dir/root$prefix/share/man/man${page##*.}/${page##*/}
	[ -e "$installed" ] || { echo "$page is not installed"; exit 1; }
done
# shellcheck disable=SC2086
{
	$cc -o "$dir/shared" "$here/consumer.c" $shared
	$cxx -o "$dir/shared++" "$here/consumer.cpp" $shared
	# Only this library: where both are, -lhwheel would take the shared one.
	$cc -o "$dir/static" "$here/consumer.c" ${static/-lhwheel/-l:libhwheel.a}
	$cxx -o "$dir/static++" "$here/consumer.cpp" ${static/-lhwheel/-l:libhwheel.a}
}
# What carries the static library is not unloaded under a thread that used it.
$cc -o "$dir/loader" "$here/loader.c" -lpthread -ldl
# shellcheck disable=SC2086
$cc -shared -fPIC -o "$dir/plugin.so" "$here/plugin.c" ${static/-lhwheel/-l:libhwheel.a}
"$dir/loader" "$dir/plugin.so" >/dev/null || { echo 'a plug-in crashes when closed'; exit 1; }
# Its functions are those of the plug-in alone.
exported() {
	nm -D --defined-only "$1" | grep -E ' (hwheel_|rust_)' || true
}
left=$(exported "$dir/plugin.so")
[ -z "$left" ] || { echo "a plug-in exports $left"; exit 1; }
# A program that contains the library, and a plug-in with the shared one.
# shellcheck disable=SC2086
{
	$cc -rdynamic -o "$dir/host" "$here/host.c" ${static/-lhwheel/-l:libhwheel.a} -ldl
	$cc -shared -fPIC -o "$dir/guest.so" "$here/guest.c" $shared
}
[ "$(LD_LIBRARY_PATH="$lib" "$dir/host" "$dir/guest.so")" = 'its own' ] ||
	{ echo 'a plug-in gets the functions of the program'; exit 1; }
# A program with another static library of Rust, in both orders.
if command -v rustc >/dev/null; then
	rustc -O --crate-type staticlib --crate-name other -o "$dir/libother.a" "$here/other.rs"
	for order in "$dir/libother.a $lib/libhwheel.a" "$lib/libhwheel.a $dir/libother.a"; do
		# shellcheck disable=SC2086
		$cc -o "$dir/both" "$here/both.c" ${static/-lhwheel/$order} -lm -ldl
		"$dir/both" 2>/dev/null || { echo "a program with $order fails"; exit 1; }
	done
else
	echo '    skipped: a program with another library of Rust, there is no rustc'
fi
programs='shared shared++ static static++'
# All of the program static, the C library too.
if echo 'int main(void) { return 0; }' | $cc -static -x c -o "$dir/none" - 2>/dev/null; then
	# shellcheck disable=SC2086
	$cc -static -o "$dir/all-static" "$here/consumer.c" $static
	programs="$programs all-static"
else
	echo '    skipped: a program all static, there is no static C library (apt-get install libc6-dev)'
fi
for program in $programs; do
	runs "$dir/$program"
	if [[ $program == shared* ]]; then
		needs_library "$dir/$program"
	elif needs_library "$dir/$program"; then
		echo "$program is not static"; exit 1
	fi
done

if command -v cmake >/dev/null; then
	configure() {
		cmake -S "$here" -B "$dir/$1" -DCMAKE_PREFIX_PATH="$dir/root$prefix" -DWANT="$2" \
			-DCMAKE_C_COMPILER="$cc" -DCMAKE_CXX_COMPILER="$cxx" >"$dir/$1.log" 2>&1
	}
	configure cmake "$version" || { cat "$dir/cmake.log"; exit 1; }
	cmake --build "$dir/cmake" >"$dir/build.log" 2>&1 || { cat "$dir/build.log"; exit 1; }
	for language in c cpp; do
		runs "$dir/cmake/shared_$language"
		runs "$dir/cmake/static_$language"
		needs_library "$dir/cmake/shared_$language"
		! needs_library "$dir/cmake/static_$language" || { echo 'not static'; exit 1; }
	done
	"$dir/loader" "$dir/cmake/libplugin.so" >/dev/null ||
		{ echo 'a plug-in of CMake crashes when closed'; exit 1; }
	left=$(exported "$dir/cmake/libplugin.so")
	[ -z "$left" ] || { echo "a plug-in of CMake exports $left"; exit 1; }
	! configure future 99.0 || { echo 'CMake takes this version for 99.0'; exit 1; }
else
	echo '    skipped: the CMake package, cmake is not installed (apt-get install cmake)'
fi

# The tree can be moved, and is found without a sysroot.
if command -v pkg-config >/dev/null; then
	cp -r "$dir/root$prefix" "$dir/moved"
	# shellcheck disable=SC2046
	$cc -o "$dir/of-moved" "$here/consumer.c" $(PKG_CONFIG_SYSROOT_DIR='' \
		PKG_CONFIG_PATH="$dir/moved/lib/pkgconfig" pkg-config --cflags --libs hwheel) -v 2>"$dir/log"
	runs "$dir/of-moved"
	grep -q -e "-L$dir/moved/lib" -e "-L$dir/moved/lib/pkgconfig/../../lib" "$dir/log" ||
		{ echo 'hwheel.pc does not move with its tree'; exit 1; }
fi

# The directories may have spaces in their names.
files() {
	(cd "$1" && find . ! -type d ! -path './share/gdb/*' | sort)
}
spaced=(DESTDIR="$dir/a b" PREFIX='/c d')
$make --no-print-directory install "${spaced[@]}" >/dev/null
diff <(files "$dir/root$prefix") <(files "$dir/a b/c d")
$make --no-print-directory uninstall "${spaced[@]}" >/dev/null

$make --no-print-directory uninstall DESTDIR="$dir/root" PREFIX=$prefix >/dev/null
left=$(find "$dir/root" "$dir/a b" -type f -o -type l)
[ -z "$left" ] || { echo "left behind: $left"; exit 1; }
