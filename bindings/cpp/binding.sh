#!/bin/bash
# The binding for C++: its tests, package and bench. ../run.sh says how this is called.
set -euo pipefail
. ../lib.sh

# Of each compiler an old one and a new one, as Debian 12 has them.
do_versions() {
	printf '%s\n' g++-12 clang++-14 clang++-19
}

# The tests of include/hwheel.hpp, under each standard and compiler, with
# exceptions and RTTI and without, and once as GNU C++ with the sanitizers of addresses
# and of undefined behaviour; then what the compiler must refuse.
do_test() {
	warn='-Wall -Wextra -Wpedantic -Wshadow -Wconversion -Werror'
	flags="-O1 $warn -I$HWHEEL_PREFIX/include"
	libs="-L$HWHEEL_PREFIX/lib -lhwheel -pthread"
	programs='hello time timer target wheel key hostile'
	compilers=
	case ${VERSION:-} in
	'') ;;
	clang*) need "no $VERSION: apt-get install ${VERSION/++/}" "$VERSION" --version ;;
	*) need "no $VERSION: apt-get install $VERSION" "$VERSION" --version ;;
	esac
	for cxx in ${VERSION:-"$CXX" clang++}; do
		if command -v "$cxx" >/dev/null; then
			compilers="$compilers $cxx"
		else
			echo "not tested with $cxx, which is not installed (apt-get install clang)"
		fi
	done
	[ -n "$compilers" ] || skip 'no C++ compiler: apt-get install g++'

	awk '/^#include/ && !on {on=1} /^```/ && on {exit} on' README.md >"$SCRATCH/readme.cpp"
	tail -n +2 hello.cpp | diff - "$SCRATCH/readme.cpp" ||
		{ echo "README.md's program is not hello.cpp"; exit 1; }

	# Every function of C has its place in C++, but for the two that tell the version.
	for name in $(grep -o '\bhwheel_[a-z_]*(' "$HWHEEL_PREFIX/include/hwheel.h" | tr -d '(' | sort -u); do
		case $name in hwheel_version | hwheel_version_string) continue ;; esac
		grep -q "::$name(" "$HWHEEL_PREFIX/include/hwheel.hpp" ||
			{ echo "hwheel.hpp leaves out $name()"; exit 1; }
	done

	n=0
	# Builds programs with a compiler and its flags, and runs them.
	run() {
		these=$1
		shift
		for program in $these; do
			# shellcheck disable=SC2086
			"$@" $flags -o "$SCRATCH/$program" $program.cpp $libs
			timeout 60 "$SCRATCH/$program" >"$SCRATCH/output" ||
				{ echo "$program failed: $*"; exit 1; }
			n=$((n + 1))
		done
	}

	for cxx in $compilers; do
		for mode in '-fexceptions -frtti' '-fno-exceptions -fno-rtti'; do
			for std in 11 14 17 20; do
				# shellcheck disable=SC2086
				run "$programs" "$cxx" -std=c++$std $mode
			done
			# shellcheck disable=SC2086
			run coroutine "$cxx" -std=c++20 $mode
		done
		sanitize='-fsanitize=address,undefined -fno-sanitize-recover=all'
		# shellcheck disable=SC2086
		if echo 'int main() {}' | $cxx -x c++ $sanitize -o "$SCRATCH/sanitized" - 2>/dev/null; then
			run "$programs coroutine" "$cxx" -std=gnu++20 -g $sanitize
		else
			echo "$cxx has no sanitizers here"
		fi
		# shellcheck disable=SC2086
		$cxx -std=gnu++11 $flags -DREFUSED=0 -fsyntax-only refused.cpp
		for i in $(sed -n 's/^#elif REFUSED == \([0-9]*\).*/\1/p' refused.cpp); do
			# shellcheck disable=SC2086
			if $cxx -std=gnu++11 $flags -DREFUSED="$i" -c -o "$SCRATCH/refused.o" refused.cpp 2>/dev/null; then
				echo "$cxx accepts number $i of refused.cpp"
				exit 1
			fi
			n=$((n + 1))
		done
	done
	echo "$n builds by$compilers: programs that passed, and mistakes that were refused"
}

# Moves an installation to another place, and builds a project of CMake that finds it there,
# with the shared and with the static library.
do_package() {
	alone
	need 'no C++ compiler: apt-get install g++' "$CXX" --version
	need 'no CMake: apt-get install cmake' cmake --version
	mkdir -p "$SCRATCH/clean/include" "$SCRATCH/tree"
	cp "$HWHEEL_PREFIX"/include/hwheel.h* "$SCRATCH/clean/include"
	cp -a "$HWHEEL_PREFIX/lib" "$SCRATCH/clean"
	cp hello.cpp hostile.cpp check.hpp "$SCRATCH/tree"
	cat >"$SCRATCH/tree/CMakeLists.txt" <<'END'
cmake_minimum_required(VERSION 3.14)
project(use LANGUAGES CXX)
find_package(hwheel REQUIRED)
find_package(Threads REQUIRED)
foreach(program hello hostile)
	foreach(library hwheel hwheel_static)
		add_executable(${program}_${library} ${program}.cpp)
		target_link_libraries(${program}_${library} PRIVATE hwheel::${library} Threads::Threads)
	endforeach()
endforeach()
END
	cd "$SCRATCH/tree"
	{ cmake -B built -DCMAKE_PREFIX_PATH="$SCRATCH/clean" -DCMAKE_CXX_COMPILER="$CXX" &&
		cmake --build built; } >"$SCRATCH/log" 2>&1 || { cat "$SCRATCH/log"; exit 1; }
	for library in hwheel hwheel_static; do
		[ "$(built/hello_$library)" = 'request 1 timed out' ]
		timeout 60 built/hostile_$library >/dev/null
	done
	echo "hwheel.hpp: found by CMake, shared and static, first timer fired, hostile calls passed"
}

do_bench() {
	"$CXX" -std=c++11 -O2 -I"$HWHEEL_PREFIX/include" -o "$SCRATCH/bench" bench.cpp \
		-L"$HWHEEL_PREFIX/lib" -lhwheel
	"$SCRATCH/bench"
}

"do_$1"
