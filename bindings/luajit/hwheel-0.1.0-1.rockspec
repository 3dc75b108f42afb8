rockspec_format = "3.0"
package = "hwheel"
version = "0.1.0-1"
source = {
	-- For the root of the source, where `luarocks make` takes this file as well.
	url = "git+https://github.com/hwheel/hwheel.git",
	tag = "v0.1.0",
}
description = {
	summary = "Timers by the million: a lock-free timing wheel, in batches",
	license = "MIT OR Apache-2.0",
	labels = { "timer", "timeout", "luajit", "ffi" },
}
supported_platforms = { "linux" }
dependencies = { "lua == 5.1" } -- LuaJIT; the module needs its FFI.
-- The library is inside. Building it needs Rust, GNU make and a C compiler.
build = {
	type = "make",
	build_target = "rock",
	build_variables = { CFLAGS = "$(CFLAGS)" },
	install_target = "install-rock",
	install_variables = { ROCK_LUADIR = "$(LUADIR)", ROCK_LIBDIR = "$(LIBDIR)" },
}
