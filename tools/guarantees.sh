#!/bin/sh
# Compares the guarantees of README.md with those of hwheel(7): their numbers and titles.
set -eu
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
sed -n 's/^\([0-9][0-9]*\)\. \*\*\([^*]*\)\.\*\*.*/\1 \2/p' README.md >"$work/readme"
awk '/^\.SS / { on = $2 == "Guarantees" }
	on && /^\.IP [0-9]/ { n = $2 + 0; getline; sub(/[:.].*/, ""); print n, $0 }
	' man/hwheel.7 >"$work/man"
[ -s "$work/readme" ]
diff "$work/readme" "$work/man"
