#!/bin/sh
set -eu
. ./env.sh
awk -v to="$SCRATCH/readme" '
	/^```lua$/ { file = to (++n) ".lua"; printf "" > file; next }
	/^```/ { file = "" }
	file { print > file }' README.md
[ "$("$luajit" "$SCRATCH/readme1.lua")" = 'hello 42' ]
[ "$("$luajit" "$SCRATCH/readme2.lua")" = 'all timed out: 500500' ]
ulimit -n 256
"$luajit" test/hostile.lua
"$luajit" test/wheel.lua
