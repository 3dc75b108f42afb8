#!/bin/bash
# What cargo-c installs is what make installs: the same library, headers and
# pkg-config files, the same SONAME, needs, flags and names of symbols.
set -eu
make=$1 cargo=$2
if ! $cargo cinstall --version >/dev/null 2>&1; then
	echo '  SKIPPED cargo-c is not installed (cargo install --locked cargo-c)'
	exit 0
fi
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
$cargo cinstall --no-default-features --release --prefix=/usr --libdir=lib --destdir="$dir/cargo" >"$dir/log" 2>&1 ||
	{ cat "$dir/log"; exit 1; }
$make --no-print-directory install DESTDIR="$dir/make" PREFIX=/usr >/dev/null

describe() {
	local so=$1/usr/lib/libhwheel.so
	(cd "$1" && find usr/include usr/lib -path '*cmake*' -prune -o ! -type d -print)
	(cd "$1" && sha256sum usr/include/*)
	readelf -d "$so" | grep -E 'SONAME|NEEDED' | sed 's/.*\[//'
	readelf -d "$so" | grep -o NODELETE
	nm -D --defined-only "$so" | awk '$2 == "T" {sub(/@.*/, "", $3); print $3}'
}
for by in make cargo; do
	describe "$dir/$by" | sort > "$dir/$by.txt"
done
grep -q hwheel_create "$dir/make.txt"
diff "$dir/make.txt" "$dir/cargo.txt" ||
	{ echo 'cargo-c (>) does not install what make does (<)'; exit 1; }
