-- No call, in any order, ends the process.
local ffi = require "ffi"
local hwheel = require "hwheel"
ffi.cdef "int fork(void); int waitpid(int, int *, int); void _exit(int);"

local MS = 1e6
local handles = ffi.typeof "uint64_t[?]"

-- Every method of a wheel but close.
local function every_call(wheel, timer)
	local events, timers, times = hwheel.events(4), handles(1, timer), handles(1, 5)
	return {
		now = function() return wheel:now() end,
		prefetch = function() return wheel:prefetch(timer) end,
		next_expiry = function() return wheel:next_expiry() end,
		stats = function() return wheel:stats() end,
		once = function() return wheel:once(MS, 1) end,
		every = function() return wheel:every(0, MS, 2) end,
		setup = function() return wheel:setup(3) end,
		mod = function() return wheel:mod(timer, MS) end,
		mod_range = function() return wheel:mod_range(timer, 0, MS) end,
		set_period = function() return wheel:set_period(timer, 0) end,
		mod_many = function() return wheel:mod_many(timers, times, 1) end,
		delete_many = function() return wheel:delete_many(timers, 1) end,
		delete = function() return wheel:delete(timer) end,
		shutdown = function() return wheel:shutdown(timer) end,
		free = function() return wheel:free(timer) end,
		pending = function() return wheel:pending(timer) end,
		remaining = function() return wheel:remaining(timer) end,
		key_set = function() return wheel:key_set("key", 0, 4) end,
		key_mod = function() return wheel:key_mod("key", 0) end,
		key_delete = function() return wheel:key_delete("key") end,
		key_pending = function() return wheel:key_pending("key") end,
		poll = function() return wheel:poll(events) end,
		advance = function() return wheel:advance(1, events) end,
		drain = function() return wheel:drain(events) end,
		list = function() return wheel:list(ffi.new "uint64_t[1]", events) end,
		fd = function() return wheel:fd() end,
		wait = function() return wheel:wait(0) end,
		own = function() return wheel:own() end,
		disown = function() return wheel:disown() end,
	}
end

-- Every call of a wheel whose owner is gone or closed fails, and names the reason.
local function all_fail(wheel, timer, want)
	local n = 0
	for name, call in pairs(every_call(wheel, timer)) do
		local value, words = call()
		-- A prefetch in a forked child does nothing and returns no error.
		assert(value == nil and (words == want or not want) or name == "prefetch" and not want,
			name .. ": " .. tostring(words))
		n = n + 1
	end
	assert(n == 29)
end

-- Use after close, close twice.
local wheel = assert(hwheel.new())
local timer = wheel:setup(1)
for name in pairs(getmetatable(wheel)) do
	assert(name == "__index" or name == "close" or every_call(wheel, timer)[name],
		"the test leaves out " .. name)
end
for _ = 1, 3 do assert(wheel:close() == true) end
all_fail(wheel, timer, "the wheel is closed")

-- The child of a fork.
wheel = assert(hwheel.new())
timer = wheel:setup(1)
local child = ffi.C.fork()
if child == 0 then
	local ok, words = pcall(all_fail, wheel, timer)
	if not ok then io.stderr:write(words, "\n") end
	ffi.C._exit(ok and wheel:close() and wheel:close() and 0 or 1)
end
local status = ffi.new "int[1]"
assert(ffi.C.waitpid(child, status, 0) == child and status[0] == 0)
assert(wheel:once(0, 1))

-- A wheel that this thread does not own.
assert(wheel:disown())
for name, call in pairs(every_call(wheel, timer)) do
	local value, words, code, errno = call()
	local reads = { now = 1, next_expiry = 1, stats = 1, pending = 1, remaining = 1, prefetch = 1, list = 1 }
	if name ~= "own" then
		assert(reads[name] and value ~= nil or value == nil and code == "EPERM" and errno == 1 and
			words:match "owns the wheel", name .. ": " .. tostring(words))
	end
	if name == "own" then assert(value == true and wheel:disown()) end
end
assert(wheel:own() and wheel:own() and wheel:once(0, 1))
-- The collector frees one that nobody owns, with its descriptor. binding.sh allows 256.
for i = 1, 1000 do
	local left = assert(hwheel.new())
	assert(left:fd() and left:disown())
	if i % 100 == 0 then collectgarbage() end
end
assert(select(3, assert(hwheel.new { owned = false }):disown()) == "EINVAL")

-- Arguments.
for _, bad in ipairs { 0, 1, 12345, -1ULL } do
	for _, name in ipairs { "delete", "free", "shutdown", "pending", "remaining" } do
		local value, words, code = wheel[name](wheel, bad)
		assert(value == nil and words == "the timer no longer exists" and code == "ESTALE")
	end
end
-- The error names a line of this file, the caller's.
local function is_ours(ok, words)
	assert(not ok and words:match "^[^:]*hostile%.lua:%d+: ", tostring(words) .. debug.traceback())
end
local function raises(call, ...)
	is_ours(pcall(call, wheel, ...))
end
-- tonumber() takes these, but a complex number or a bool is no integer.
local complex, bool = ffi.new("complex float", 1, 5), ffi.new("bool", true)
for _, bad in ipairs { -1, -1LL, ffi.new("int32_t", -1), ffi.new("double", -1), 0 / 0, "1", {}, 2 ^ 64,
	1i, complex, bool } do
	raises(wheel.once, bad, 1)
	raises(wheel.mod, timer, bad)
	raises(wheel.set_period, timer, bad)
	raises(wheel.key_set, bad ~= "1" and bad or {}, 0, 1)
end
raises(wheel.poll, nil)
raises(wheel.poll, ffi.cast("struct hwheel_event *", hwheel.events(1)))
raises(wheel.poll, handles(100))
raises(wheel.list, handles(2), hwheel.events(1))
raises(wheel.list, ffi.new "uint32_t[1]", hwheel.events(1))
raises(wheel.mod_many, handles(2), handles(1), 2)
raises(wheel.mod_many, handles(2), handles(2), 2, 0, ffi.new("int32_t[?]", 1))
raises(wheel.delete_many, handles(1), 2)
for _, lie in ipairs { 2LL ^ 60 + 10LL ^ 8, 2ULL ^ 61 + 1, 2 ^ 32 + 1, -1, -1LL, 0 / 0, 1i } do
	raises(wheel.mod_many, handles(1), handles(1), lie)
	raises(wheel.delete_many, handles(1), lie)
end
raises(wheel.wait, -1)
for _, bad in ipairs { 0.5, -1, -1LL, 0 / 0, 2 ^ 64, "1", true, {}, 1i, complex, bool } do
	raises(wheel.mod, bad, 0)
	raises(wheel.mod_range, bad, 0, 0)
	raises(wheel.set_period, bad, 0)
	for _, name in ipairs { "delete", "free", "shutdown", "pending", "remaining" } do
		raises(wheel[name], bad)
	end
end
for _, bad in ipairs { 0.5, 1 / 0, ffi.new("double", 0.5), 1i, complex, bool } do
	raises(wheel.once, 0, bad)
	raises(wheel.setup, bad)
	raises(wheel.every, 0, 1, bad)
	raises(wheel.key_set, bad, 0, 1)
	raises(wheel.key_set, 1, 0, bad)
	raises(wheel.key_mod, bad, 0)
end
for _, bad in ipairs { 2 ^ 32, 2 ^ 32 + 1, -1, 0 / 0, 0.5, 2LL ^ 32, "1", {}, 1i, complex, bool } do
	raises(wheel.once, 0, 1, bad)
	raises(wheel.mod, timer, 0, bad)
	for _, option in ipairs { "levels", "slots", "max_timers" } do
		is_ours(pcall(hwheel.new, { [option] = bad }))
	end
end
for _, bad in ipairs { { tick = 1 }, { tick_ns = -1 }, { clock = "sundial" }, { clock = {} }, 1, "1" } do
	is_ours(pcall(hwheel.new, bad))
end
for _, bad in ipairs { -1, 0 / 0, 2 ^ 40, "1", {}, false, 1i, complex, bool } do
	is_ours(pcall(hwheel.events, bad))
	raises(wheel.mod_many, handles(1), handles(1), bad)
	raises(wheel.delete_many, handles(1), bad)
	if bad ~= 2 ^ 40 then raises(wheel.wait, bad) end
end
raises(wheel.poll, {})
raises(wheel.advance, {}, hwheel.events(1))
-- A dot in place of a colon.
for name, method in pairs(getmetatable(wheel)) do
	if name ~= "__index" then
		for _, self in ipairs { 1, "wheel", true } do is_ours(pcall(method, self, 1, 1, 1)) end
		is_ours(pcall(method))
	end
end
do
	local line = debug.getinfo(1, "l").currentline + 1
	local ok, words = pcall(function() local timer = wheel:once(-1, 1) return timer end)
	assert(not ok and words:match(":(%d+):") == tostring(line), words)
end
assert(wheel:mod_many(handles(2, timer), handles(2), 1) == 1)

-- Arrays that a hot loop makes and rarely uses have their length.
local arrays = {}
for i = 1, 1000 do
	local events = hwheel.events(2)
	if i % 100 == 99 then arrays[#arrays + 1] = events end
end
for _, events in ipairs(arrays) do
	assert(ffi.sizeof(events) == 2 * ffi.sizeof "struct hwheel_event")
	assert(events[1].timer == 0)
end

-- The collector closes forgotten wheels.
for _ = 1, 1000 do assert(assert(hwheel.new { tick_ns = 1e6 }):once(1, 1)) end
collectgarbage()
-- The collector may run a finalizer in the middle of a method: one that calls the wheel, and
-- one that closes it.
local own = assert(hwheel.new())
for i = 1, 500000 do
	if i % 5 == 0 then ffi.gc(ffi.new "int[1]", function() own:remaining(own:setup(1)) end) end
	local handle = own:once(MS, i)
	assert(own:pending(handle) and own:delete(handle) == true)
end
jit.off()
for _ = 1, 300 do
	local open
	own, open = assert(hwheel.new()), true
	ffi.gc(ffi.new "int[1]", function() open = not own:close() end)
	while open do
		own:once(1, 1)
		own:every(0, 1, 1)
		own:setup(1)
		own:key_set(1, 0, 1)
	end
end
jit.on()
-- A method that was taken from a wheel works, or fails, also when it is closed.
local short = assert(hwheel.new())
timer = short:setup(1)
local methods = getmetatable(short)
local taken = setmetatable({}, { __index = function(_, name)
	return function(_, ...) return methods[name](short, ...) end
end })
assert(taken:close() == true and taken:close() == true)
all_fail(taken, timer, "the wheel is closed")
-- An open wheel at the end of the program, and methods after the collector.
_G.kept = wheel
_G.last = {}
for i = 1, 50 do
	local own = assert(hwheel.new())
	local final = every_call(own, assert(own:setup(1)))
	local function use()
		for _, call in pairs(final) do call() end
		if i % 2 == 0 then own:close() end
	end
	_G.last[i] = ffi.gc(ffi.new "int[1]", use)
	_G.last[-i] = newproxy(true)
	getmetatable(_G.last[-i]).__gc = use
end
