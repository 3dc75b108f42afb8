#!/bin/bash
# Builds the way packagers do: for a named target, into a directory that cargo's
# configuration names, with their flags; and cleans up without Rust.
#
#   build.sh <make> <directory>	scratch files; a second run reuses what cargo built
set -eu
make="$1 --no-print-directory" dir=$2
mkdir -p "$dir"
unset MAKEFLAGS MAKELEVEL MFLAGS WERROR
# The library is quick to build rather than quick.
export CARGO_PROFILE_RELEASE_LTO=off CARGO_PROFILE_RELEASE_CODEGEN_UNITS=16 \
	CARGO_PROFILE_RELEASE_OPT_LEVEL=1

# A target and a target directory of cargo's own configuration.
host=$(rustc -vV | sed -n 's/^host: //p')
cp -r Cargo.toml Cargo.lock build.rs src Makefile hwheel.map hwheel.pc.in include tools \
	cmake bindings man "$dir/"
mkdir -p "$dir/.cargo"
printf '[build]\ntarget = "%s"\ntarget-dir = "elsewhere"\n' "$host" > "$dir/.cargo/config.toml"
rm -rf "$dir/build"
env -u CARGO_TARGET_DIR -u CARGO_BUILD_TARGET $make -s -C "$dir" >/dev/null
for want in libhwheel.a libhwheel.so; do
	nm "$dir/build/$want" 2>/dev/null | grep -q ' T hwheel_create' ||
		{ echo "$want, built with a target in cargo's configuration, is empty"; exit 1; }
done

# README.md names the glibc that the library needs, and no older one.
needs=$(objdump -T "$dir/build/libhwheel.so" | grep -v ' w ' |
	grep -o 'GLIBC_[0-9.]*' | sed 's/GLIBC_//' | sort -V | tail -1)
if [ -n "$needs" ]; then # not with musl
	named=$(sed -n 's/.*built with glibc .* needs \(2\.[0-9]*\) or later.*/\1/p' README.md)
	[ -n "$named" ] || { echo 'README.md names no glibc that a library needs'; exit 1; }
	printf '%s\n%s\n' "$needs" "$named" | sort -VC ||
		{ echo "needs glibc $needs, where README.md says $named"; exit 1; }
fi

# A debugger finds the lines of the library, and of the functions inside it.
address=$(nm "$dir/build/libhwheel.so" | sed -n 's/ T hwheel_create$//p')
addr2line -e "$dir/build/libhwheel.so" "$address" | grep -q 'src/.*\.rs:[1-9]' ||
	{ echo 'the library has no line tables'; exit 1; }

# One clear line where the library does not run, and none where it does.
rustc --edition 2021 -o "$dir/script" build.rs
while read -r os env width want; do
	CARGO_CFG_TARGET_OS=$os CARGO_CFG_TARGET_ENV=$env CARGO_CFG_TARGET_POINTER_WIDTH=$width \
		"$dir/script" > "$dir/log"
	[ "$(grep -c '^cargo::error=.*64-bit Linux' "$dir/log")" = "$want" ] ||
		{ echo "build.rs is wrong about $os, $env, $width bits"; exit 1; }
done <<-END
	linux gnu 64 0
	linux musl 64 0
	linux gnu 32 1
	linux uclibc 64 1
	macos none 64 1
	windows gnu 64 1
END

# Another target makes another library: here one that does not exist.
! CARGO_BUILD_TARGET=no-such-target $make -s -C "$dir" >/dev/null 2>"$dir/log" ||
	{ echo 'CARGO_BUILD_TARGET is not respected'; exit 1; }
grep -q no-such-target "$dir/log" || { cat "$dir/log"; exit 1; }

# Each compiler line takes the flags of the caller.
$make -n -B V=1 CARGO=true CFLAGS=-DFLAG_1 CPPFLAGS=-DFLAG_2 LDFLAGS=-Wl,FLAG_3 \
	CC=the-compiler all examples | sed -e ':a;/\\$/{N;s/\\\n//;ba}' |
	grep -- 'the-compiler .*-o' > "$dir/lines"
grep -q hwheel-latency "$dir/lines"
! grep -v 'FLAG_1.*FLAG_3' "$dir/lines" || { echo 'lacks CFLAGS or LDFLAGS'; exit 1; }
! grep -v -e -shared -e FLAG_2 "$dir/lines" || { echo 'lacks CPPFLAGS'; exit 1; }
! grep -e -Werror "$dir/lines" ||
	{ echo 'warnings are errors for everybody'; exit 1; }

# One line says what is missing: Rust, a later one, or a compiler.
printf '#!/bin/sh\necho "cargo 1.65.0"\n' > "$dir/old-cargo"
chmod +x "$dir/old-cargo"
while read -r variable words; do
	! $make -s -C "$dir" lib BUILD="$dir/nothing" "$variable" >/dev/null 2>"$dir/log" ||
		{ echo "builds with $variable"; exit 1; }
	{ [ "$(grep -cv '^make' "$dir/log")" = 1 ] && grep -q "needs $words" "$dir/log"; } ||
		{ cat "$dir/log"; exit 1; }
done <<-END
	CARGO=$dir/old-cargo Rust 1.85 or later, and this is .* with cargo 1.65.0. Debian 13: .* Debian 12: .* Elsewhere: 
	CARGO=no-cargo Rust 1.85 or later, and there is no no-cargo. Debian 13: .* Debian 12: .* Elsewhere: 
	CC=no-cc a C compiler, and there is no no-cc. Debian: 
END

# Without Rust: no noise, and clean works.
mkdir -p "$dir/bin"
for tool in cargo rustc; do
	printf '#!/bin/sh\necho "%s: not found" >&2\nexit 127\n' $tool > "$dir/bin/$tool"
	chmod +x "$dir/bin/$tool"
done
PATH=$dir/bin:$PATH $make -C "$dir" clean >/dev/null 2>"$dir/log"
[ ! -s "$dir/log" ] || { cat "$dir/log"; echo 'make clean needs Rust'; exit 1; }
[ ! -e "$dir/build" ] || { echo 'make clean leaves build'; exit 1; }
