#!/bin/bash
# Builds a program that has the source of the library in its tree: with CMake by
# add_subdirectory() and by FetchContent, with Meson as a subproject.
#
#   subproject.sh <compiler> <directory> [<source, all of it>]
set -eu
cc=$1 dir=$2 root=${3:-$PWD}
here=$PWD/c-tests/consumer
unset MAKEFLAGS MAKELEVEL MFLAGS
rm -rf "$dir"
mkdir -p "$dir/meson/subprojects"
# The library is quick to build rather than quick.
export CARGO_PROFILE_RELEASE_LTO=off CARGO_PROFILE_RELEASE_CODEGEN_UNITS=16 \
	CARGO_PROFILE_RELEASE_OPT_LEVEL=1
version=$(sed -n 's/^VERSION := //p' Makefile)

runs() {
	[ "$("$1")" = "$version" ] || { echo "$1 does not say $version"; exit 1; }
}

if command -v cmake >/dev/null; then
	for how in subdirectory fetch; do
		mkdir "$dir/$how"
		{
			echo 'cmake_minimum_required(VERSION 3.14)'
			echo 'project(consumer C)'
			if [ $how = subdirectory ]; then
				echo "add_subdirectory($root hwheel)"
			else
				echo 'include(FetchContent)'
				echo "FetchContent_Declare(hwheel SOURCE_DIR $root)"
				echo 'FetchContent_MakeAvailable(hwheel)'
			fi
			for kind in hwheel hwheel_static; do
				echo "add_executable(of_$kind $here/consumer.c)"
				echo "target_link_libraries(of_$kind PRIVATE hwheel::$kind)"
				echo "install(TARGETS of_$kind)"
			done
		} > "$dir/$how/CMakeLists.txt"
		{
			CARGO_TARGET_DIR=$dir/target cmake -S "$dir/$how" -B "$dir/$how/build" \
				-DCMAKE_C_COMPILER="$cc" -DCMAKE_INSTALL_RPATH='$ORIGIN/../lib' &&
				cmake --build "$dir/$how/build" &&
				cmake --install "$dir/$how/build" --prefix "$dir/$how/installed"
		} >"$dir/log" 2>&1 || { cat "$dir/log"; exit 1; }
		runs "$dir/$how/build/of_hwheel"
		runs "$dir/$how/build/of_hwheel_static"
		# The installed program does not need where it was built.
		rm -r "$dir/$how/build"
		runs "$dir/$how/installed/bin/of_hwheel"
		runs "$dir/$how/installed/bin/of_hwheel_static"
	done
else
	echo '    skipped: CMake, it is not installed (apt-get install cmake)'
fi

if command -v meson >/dev/null && command -v ninja >/dev/null; then
	mkdir "$dir/meson/subprojects/hwheel"
	if [ "$root" = "$PWD" ]; then
		cp -r Cargo.toml Cargo.lock build.rs src Makefile meson.build hwheel.map include \
			"$dir/meson/subprojects/hwheel/"
	else
		cp -r "$root/." "$dir/meson/subprojects/hwheel/"
	fi
	cp "$here/consumer.c" "$dir/meson/"
	cat > "$dir/meson/meson.build" <<-END
		project('consumer', 'c')
		executable('consumer', 'consumer.c',
		  dependencies: dependency('hwheel', fallback: 'hwheel'))
	END
	{ CC=$cc PKG_CONFIG_LIBDIR=/nowhere meson setup "$dir/meson/build" "$dir/meson" &&
		ninja -C "$dir/meson/build"; } >"$dir/log" 2>&1 || { cat "$dir/log"; exit 1; }
	runs "$dir/meson/build/consumer"
	grep -q "version: '$version'" meson.build ||
		{ echo "meson.build is not version $version"; exit 1; }
	for lib in $(sed -n 's/^PRIVATE := //p' Makefile); do
		case $lib in -lc) ;; *) grep -q "'$lib'" meson.build ||
			{ echo "meson.build lacks $lib"; exit 1; };; esac
	done
else
	echo '    skipped: Meson, it is not installed (apt-get install meson)'
fi
