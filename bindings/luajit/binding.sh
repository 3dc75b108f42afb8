#!/bin/bash
# The binding for LuaJIT: its tests, package and bench. ../run.sh says how this is called.
set -euo pipefail
. ../lib.sh

# $luajit, which finds the installed module.
environment() {
	library
	luajit=$(command -v luajit) || {
		need 'no LuaJIT: apt-get install luajit' debian luajit
		luajit=$(find "$SCRATCH/debian/usr/bin" -name 'luajit*' -type f)
	}
	export LUA_PATH="$HWHEEL_PREFIX/share/lua/5.1/?.lua;;"
}

do_test() {
	environment
	awk -v to="$SCRATCH/readme" '
	/^```lua$/ { file = to (++n) ".lua"; printf "" > file; next }
	/^```/ { file = "" }
	file { print > file }' README.md
	# Each error that the header names has its name.
	grep -ohE '\B-E[A-Z0-9]+' "$HWHEEL_PREFIX/include/hwheel.h" | sort -u | tr -d - |
		while read -r name; do
			grep -qF "\"$name\"" src/hwheel.lua || { echo "no name for $name"; exit 1; }
		done
	[ "$("$luajit" "$SCRATCH/readme1.lua")" = 'hello 42' ]
	[ "$("$luajit" "$SCRATCH/readme2.lua")" = 'all timed out: 500500' ]
	ulimit -n 256
	"$luajit" test/hostile.lua
	"$luajit" test/wheel.lua
}

# The module as it is installed, in a tree that was moved.
do_package() {
	environment
	alone
	cp -a "$HWHEEL_PREFIX"/{lib,share} "$SCRATCH/clean"
	hostile=$PWD/test/hostile.lua
	cd /
	export LUA_PATH="$SCRATCH/clean/share/lua/5.1/?.lua" LD_LIBRARY_PATH="$SCRATCH/clean/lib"
	said=$("$luajit" -e '
local hwheel = require "hwheel"
local wheel, events = assert(hwheel.new()), hwheel.events(1)
wheel:once(10e6, 42)
while wheel:poll(events) == 0 do wheel:wait() end
print("hello " .. tonumber(events[0].cookie) .. " from " .. hwheel.version())')
	[ "$said" = "hello 42 from $HWHEEL_VERSION" ]
	"$luajit" "$hostile"
	packaged hwheel.lua "$SCRATCH/clean/share/lua/5.1/hwheel.lua"
}

do_bench() {
	environment
	"$luajit" bench.lua
}

"do_$1"
