#!/bin/sh
# CPython's own tests of asyncio. CPYTHON is an installation with its tests, such as pyenv
# or `make install` makes, or a checkout that was built in place.
set -eu
suite=$PWD/suite.py
[ -n "${CPYTHON:-}" ] || { echo 'CPYTHON names no installation'; exit 77; }
for PYTHON in "$CPYTHON/bin/python3" "$CPYTHON/python" ''; do
	[ ! -x "$PYTHON" ] || break
done
[ -n "$PYTHON" ] || { echo "no Python in $CPYTHON"; exit 1; }
cd ../../python
. ./env.sh
cd "$SCRATCH"
for part in timeouts loop uvloop; do
	[ "$part" != uvloop ] || "$python" -c 'import uvloop' || continue
	"$python" "$suite" $part
done
