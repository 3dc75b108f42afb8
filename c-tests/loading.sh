#!/bin/bash
# Loads the library into processes that other libraries have been loaded into, also if these
# have used up the static thread-local memory.
#
#   loading.sh <compiler> <shared library> <directory with hwheel.h> [<emulator>]
set -eu
cc=$1 shared=$(realpath "$2") include=$3 emulator=${4:-}
here=$(cd "$(dirname "$0")" && pwd)
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT

$cc -std=c11 -O2 -Wall -Wextra -D_GNU_SOURCE -I"$include" -o "$dir/late" "$here/loading/late.c" \
	-lpthread -ldl
# Eighty libraries that insist on static thread-local memory: 64 bytes, and at last 8.
for bytes in 64 8; do
	echo "__attribute__((tls_model(\"initial-exec\"))) __thread char taken[$bytes];" \
		'char *take(void) { return taken; }' >"$dir/taker.c"
	$cc -O2 -shared -fPIC -o "$dir/$bytes.so" "$dir/taker.c"
done
mkdir "$dir/takers"
for i in $(seq 80); do
	cp "$dir/$((i <= 70 ? 64 : 8)).so" "$dir/takers/$i.so"
done
for how in '' "$dir/takers"; do
	# shellcheck disable=SC2086
	$emulator "$dir/late" "$shared" $how >"$dir/log" 2>&1 || { cat "$dir/log"; exit 1; }
	sed -n -e 's/^ok [0-9]* \(.*\) # SKIP \(.*\)/    skipped: \1: \2/p' -e 's/^# \([0-9]\)/    \1/p' "$dir/log"
done
