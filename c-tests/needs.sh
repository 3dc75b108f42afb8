#!/bin/bash
# What the library takes of a process and of the system: at most 150,000 bytes of file
# without debug information, less than a page of memory that is zero at first, no static
# thread-local memory, and the C library alone. Prints the figures.
#
#   needs.sh <compiler> <shared library> <static library> <libraries of the system>
set -eu
cc=$1 shared=$2 static=$3 libs=$4
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
here=$(cd "$(dirname "$0")/.." && pwd)
strip=$($cc -print-prog-name=strip)

# The size of a file without debug information, as 141,496.
size() {
	$strip -o "$dir/stripped" "$1"
	stat -c %s "$dir/stripped"
}
printed() {
	echo "$1" | sed -e ':a' -e 's/\B[0-9]\{3\}\>/,&/' -e 'ta'
}
refuse() {
	echo "${shared##*/} $1" >&2
	exit 1
}

bytes=$(size "$shared")
needs=$(readelf -dW "$shared" | sed -n 's/.*(NEEDED).*\[\(.*\)\]/\1/p' | xargs)
zeros=$(printf %d "$(readelf -SW "$shared" | sed -n 's/.* \.bss  *NOBITS *[0-9a-f]* [0-9a-f]* \([0-9a-f]*\) .*/0x\1/p')")
[ "$bytes" -le 150000 ] || refuse "has $(printed "$bytes") bytes, more than 150,000"
[ "$zeros" -lt 4096 ] || refuse "has $(printed "$zeros") bytes of .bss, a page or more"
# glibc before 2.34 has threads in a library of its own; musl's name may have the processor's.
for need in $needs; do
	case $need in
	libc.so.6 | libpthread.so.0 | libc.so | libc.musl-*.so.1) ;;
	*) refuse "needs $need" ;;
	esac
done
[ -n "$needs" ] || refuse 'needs nothing, not even the C library'
! readelf -dW "$shared" | grep -q STATIC_TLS || refuse 'has static thread-local memory'
echo "    figures: ${shared##*/} has $(printed "$bytes") bytes, needs $needs;" \
	"$(readelf -rW "$shared" | grep -c R_) relocations, $(printed "$zeros") bytes of .bss"

# The smallest program, without the library and with the static one in it.
echo 'int main(void) { return 0; }' >"$dir/nothing.c"
for how in '' -static; do
	# shellcheck disable=SC2086
	$cc -O2 $how -o "$dir/nothing" "$dir/nothing.c" || continue
	# shellcheck disable=SC2086
	$cc -O2 $how -Wl,--gc-sections -I"$here/include" -o "$dir/hello" "$here/examples/hello.c" \
		"$static" $libs
	echo "    figures: examples/hello.c ${how:-with the static library} has" \
		"$(printed "$(size "$dir/hello")") bytes, a program that does nothing" \
		"$(printed "$(size "$dir/nothing")")"
done
