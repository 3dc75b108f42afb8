#!/bin/sh
# Compares the versions that docs/BINDINGS.md promises, in the last column of its first
# table, with those that `binding.sh versions` prints and `make test-bindings VERSIONS=all`
# tests.
#
#   versions.sh <document> <language>...
set -u
document=$1 status=0
shift
here=$(dirname "$0")
for language in "$@"; do
	known=$(cd "$here/$language" && ./binding.sh versions) || exit
	[ -n "$known" ] || continue
	known=$(echo "$known" | paste -sd , | sed 's/,/, /g')
	said=$(sed -n "s,^| \[[^]]*\](\.\./bindings/$language/README.md) |.*| \(.*\) |\$,\1,p" "$document")
	[ "$said" = "$known" ] || {
		echo "$document: $language: '$said', and tested with '$known'"
		status=1
	}
done
exit $status
