rockspec_format = "3.0"
package = "hwheel"
version = "0.1.0-1"
source = {
	-- Made by package.sh, with the library inside.
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
build = {
	type = "builtin",
	modules = {
		["hwheel"] = "src/hwheel.lua",
		["hwheel.cdef"] = "src/cdef.lua",
	},
	install = {
		lib = { ["hwheel.libhwheel"] = "libhwheel.so" },
	},
}
