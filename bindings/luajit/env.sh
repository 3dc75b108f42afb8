# Sourced by test.sh and bench.sh: $luajit, which finds the installed module.
. ../lib.sh
luajit=$(command -v luajit) || {
	need 'no LuaJIT: apt-get install luajit' debian luajit
	luajit=$(find "$SCRATCH/debian/usr/bin" -name 'luajit*' -type f)
}
export LUA_PATH="$HWHEEL_PREFIX/share/lua/5.1/?.lua;;"
