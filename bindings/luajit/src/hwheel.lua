--- A lock-free timing wheel for LuaJIT: timers by the million, in batches.
--
-- A method that fails returns nil, words for the error, its name and its number, as
-- in nil, "the timer no longer exists", "ESTALE", 116. An argument that is not a
-- number from 0 on is a Lua error. Times are nanoseconds: Lua numbers, which are
-- rounded up, or uint64_t. Cookies and keys are integers.

local ffi = require "ffi"

-- The declarations are installed next to this file.
local function declarations()
	local here = debug.getinfo(1, "S").source:match "^@(.*)/[^/]*$" or "."
	local file = assert(io.open(here .. "/../../hwheel/hwheel.cdef"))
	local text = file:read "*a"
	file:close()
	return text
end

-- LuaJIT refuses a second declaration of a struct, which a module that is loaded again makes.
if not pcall(ffi.sizeof, "struct hwheel_options") then ffi.cdef(declarations()) end
-- poll(2), under names that nobody else declares.
if not pcall(ffi.sizeof, "struct hwheel_pollfd") then
	ffi.cdef [[
	struct hwheel_pollfd { int fd; short events, revents; };
	int hwheel_poll_fd(struct hwheel_pollfd *, unsigned long, int) __asm__("poll");
	]]
end

local C = ffi.load "libhwheel.so.0"
local POLLIN = 1

local hwheel = {
	--- A time that never comes.
	NEVER = 0xffffffffffffffffULL,
	--- Nanoseconds in a microsecond, a millisecond and a second.
	USEC = 1e3,
	MSEC = 1e6,
	SEC = 1e9,
	--- Flags of events: drain() has handed it back, list() shows it.
	DRAINED = C.HWHEEL_EVENT_DRAINED,
	LISTED = C.HWHEEL_EVENT_LISTED,
	--- Flag: the time is a point on the wheel's clock, not a delay.
	ABS = C.HWHEEL_ABS,
	--- Flags of mod(): only to an earlier time; only if the timer is pending.
	REDUCE = C.HWHEEL_REDUCE,
	IF_PENDING = C.HWHEEL_IF_PENDING,
	--- Flags of every().
	MISSED_BURST = C.HWHEEL_MISSED_BURST,
	MISSED_DELAY = C.HWHEEL_MISSED_DELAY,
}

local CLOCKS = {
	monotonic = C.HWHEEL_CLOCK_MONOTONIC,
	boottime = C.HWHEEL_CLOCK_BOOTTIME,
	realtime = C.HWHEEL_CLOCK_REALTIME,
	manual = C.HWHEEL_CLOCK_MANUAL,
}

local ERRORS = {
	[1] = "EPERM", [7] = "E2BIG", [11] = "EAGAIN", [12] = "ENOMEM", [16] = "EBUSY", [22] = "EINVAL",
	[23] = "ENFILE", [24] = "EMFILE", [28] = "ENOSPC", [35] = "EDEADLK", [38] = "ENOSYS",
	[87] = "EUSERS", [108] = "ESHUTDOWN", [116] = "ESTALE",
}

local Wheel = {}
Wheel.__index = Wheel

-- A wheel that is closed: every method but close fails.
local function closed()
	return nil, "the wheel is closed", "EINVAL", 22
end

local Closed = {}
function Closed.__index(_, name)
	return name == "close" and Wheel.close or Wheel[name] and closed
end

-- Leaves a wheel without its wheel of C.
local function forget(wheel)
	wheel.wheel = nil
	setmetatable(wheel, Closed)
end

local function failure(result)
	return nil, ffi.string(C.hwheel_strerror(result)), ERRORS[-result] or "errno " .. -result,
		-result
end

-- The failure of a method. One that was taken from a wheel, or that a finalizer interrupts,
-- may find the wheel closed.
local function failed(self, result)
	if not self.wheel then return closed() end
	return failure(result)
end

local function number(self, result)
	if result < 0 then return failed(self, result) end
	return result
end

-- Raises an error of the caller's: with the line from which this module was called.
local here = debug.getinfo(1, "S").source
local function refuse(words)
	local level, frame = 2, nil
	repeat
		level = level + 1
		frame = debug.getinfo(level, "S")
	until not frame or frame.source ~= here and frame.what ~= "C"
	error(words, level)
end

local function check(ok, words)
	if not ok then refuse(words) end
end

-- The wheel of C, nil if it is closed.
local function c(self)
	check(type(self) == "table", "no wheel: call a method with a colon")
	return self.wheel
end

-- A number as a Lua number; nil for any other value. tonumber() also takes text, a bool of C, and
-- the real part of a complex number.
local function real(value)
	if type(value) == "string" or type(value) == "cdata" and (ffi.istype("bool", value) or
		ffi.istype("complex", value) or ffi.istype("complex float", value)) then
		return nil
	end
	return tonumber(value)
end

-- A value as a Lua number; -1, which nothing takes, for what is none.
local function plain(value)
	return real(value) or -1
end

-- Where C writes a result. A call takes it away until it has read the result: in between
-- the collector may run a finalizer that calls the wheel as well.
local Out = ffi.typeof "uint64_t[1]"
local function take(self)
	c(self)
	local out = self.out or Out()
	self.out = false
	out[0] = hwheel.NEVER
	return out
end

local function value(self, out, result)
	local number = out[0]
	self.out = out
	if result < 0 then return failed(self, result) end
	return number
end

local function truth(self, result)
	if result < 0 then return failed(self, result) end
	return result == 1
end

-- A value as uint64_t: what C would take of others is not what was meant.
local function u64(value)
	if type(value) == "cdata" and not ffi.istype("uint64_t", value) then
		if ffi.istype("int64_t", value) then
			check(value >= 0, "not a number from 0 to 2^64")
			return ffi.cast("uint64_t", value)
		end
		value = real(value)
	end
	if type(value) == "number" then
		if value == math.huge then return hwheel.NEVER end
		check(value >= 0 and value < 2^64, "not a number from 0 to 2^64")
		return ffi.cast("uint64_t", math.ceil(value))
	end
	check(type(value) == "cdata", "not a number")
	return value
end

-- A cookie, a key or a timer as uint64_t: rounded, it would be another one.
local function integer(value)
	check((real(value) or 0.5) % 1 == 0, "not an integer")
	return u64(value)
end

-- A value as uint32_t: C would take the low bits of a greater number. Flags that the
-- library does not know are its own error.
local function u32(value)
	if not value then return 0 end
	local n = plain(value)
	check(n >= 0 and n < 2^32 and n % 1 == 0, "not an integer from 0 to 2^32")
	return n
end

-- Makes sure that an array has room for n: C cannot.
local function holds(array, kind, n)
	check(type(array) == "cdata" and ffi.istype(kind .. "[?]", array), "not an array of " .. kind)
	n = plain(n)
	check(n >= 0 and n % 1 == 0, "not a number of elements")
	check(n <= ffi.sizeof(array) / ffi.sizeof(kind), "the array is too short")
end

local OPTIONS = {
	clock = true, tick_ns = true, levels = true, slots = true, max_timers = true,
	start_ns = true, owned = true,
}

--- Makes a wheel. Options, each of which may be left out: clock ("monotonic",
-- "boottime", "realtime", "manual"), tick_ns, levels, slots, max_timers,
-- start_ns, owned. close() frees it, or the collector after the last reference.
--
-- The thread of the Lua state owns the wheel, and calls of another thread are "EPERM".
-- With owned = false any thread may use it: for programs that move a state, and do not
-- call disown() and own().
function hwheel.new(options)
	options = options or {}
	check(type(options) == "table", "the options are not a table")
	check(CLOCKS[options.clock or "monotonic"], "no such clock")
	for name in pairs(options) do
		check(OPTIONS[name], "no option is called " .. tostring(name))
	end
	local o = ffi.new "struct hwheel_options"
	o.size = ffi.sizeof(o)
	o.clock = CLOCKS[options.clock or "monotonic"]
	o.tick_ns = u64(options.tick_ns or 0)
	o.levels = u32(options.levels)
	o.slots = u32(options.slots)
	o.max_timers = u32(options.max_timers)
	o.start_ns = u64(options.start_ns or 0)
	check(options.owned == nil or type(options.owned) == "boolean", "owned is not a boolean")
	o.owned = options.owned == false and 0 or 1
	local out = ffi.new "struct hwheel *[1]"
	local result = C.hwheel_create(o, out)
	if result < 0 then return failure(result) end
	local wheel = setmetatable({}, Wheel)
	local weak = setmetatable({ wheel }, { __mode = "v" })
	wheel.weak = weak
	-- At the end of the program all finalizers are called, in any order: others may have
	-- closed the wheel, or still use it.
	wheel.wheel = ffi.gc(out[0], function(c)
		if weak.closed then return end
		if weak[1] then forget(weak[1]) end
		-- Nobody owns it, or its owner's thread has ended.
		if C.hwheel_destroy(c) == -1 and C.hwheel_own(c) == 0 then C.hwheel_destroy(c) end
	end)
	return wheel
end

--- Room for n events, numbered from 0, with the members timer, cookie,
-- deadline_ns, missed and flags.
function hwheel.events(n)
	check(plain(n) >= 0 and plain(n) < 2^26, "not a number of events")
	return ffi.new("struct hwheel_event[?]", n)
end
-- Compiled code puts off making a short array that is rarely used, and LuaJIT 2.1 then makes
-- it too short and writes beyond it.
jit.off(hwheel.events)

--- The version of the library that is loaded, a string.
function hwheel.version()
	return ffi.string(C.hwheel_version_string())
end

-- Whether close() was called by a finalizer in the middle of a method, which may still use
-- the wheel. Then it is left to the collector. LuaJIT since November 2025 runs finalizers in
-- a thread of their own, which cannot yield and does not show the method.
local methods = {}
local function interrupts()
	local thread, main = coroutine.running()
	if thread and not main and not coroutine.isyieldable() then return true end
	local level = 3
	local frame = debug.getinfo(level, "f")
	while frame and not methods[frame.func] do
		level = level + 1
		frame = debug.getinfo(level, "f")
	end
	return frame ~= nil
end

--- Frees the wheel. Pending timers do not fire. The second call does nothing, and
-- every other method fails.
function Wheel:close()
	if not c(self) then return true end
	if interrupts() then
		forget(self)
		return true
	end
	local result = C.hwheel_destroy(c(self))
	if result < 0 then return failure(result) end
	ffi.gc(c(self), nil)
	self.weak.closed = true
	forget(self)
	return true
end

--- Gives the wheel up, so that another thread can own() it.
function Wheel:disown()
	local result = C.hwheel_disown(c(self))
	if result < 0 then return failed(self, result) end
	return true
end

--- Takes a wheel that nobody owns, or whose owner's thread has ended; else "EBUSY".
function Wheel:own()
	local result = C.hwheel_own(c(self))
	if result < 0 then return failed(self, result) end
	return true
end

--- The time on the wheel's clock.
function Wheel:now()
	local out = take(self)
	return value(self, out, C.hwheel_now(c(self), out))
end

--- The time at which to drive the wheel next; NEVER if no timer is pending.
function Wheel:next_expiry()
	local out = take(self)
	return value(self, out, C.hwheel_next_expiry(c(self), out))
end

--- The counts of the wheel: a struct hwheel_stats.
function Wheel:stats()
	local stats = ffi.new "struct hwheel_stats"
	stats.size = ffi.sizeof(stats)
	local result = C.hwheel_get_stats(c(self), stats)
	if result < 0 then return failed(self, result) end
	return stats
end

--- Fires once. Flags: ABS. Returns the timer, a uint64_t.
function Wheel:once(time_ns, cookie, flags)
	local out = take(self)
	return value(self, out, C.hwheel_once(c(self), u64(time_ns), nil, integer(cookie),
		u32(flags), out))
end

--- Fires again and again, each time up to slack_ns late. Flags: ABS, MISSED_BURST,
-- MISSED_DELAY, added. Returns the timer.
function Wheel:every(first_ns, period_ns, cookie, flags, slack_ns)
	local out = take(self)
	return value(self, out, C.hwheel_every(c(self), u64(first_ns), u64(period_ns),
		u64(slack_ns or 0), nil, integer(cookie), u32(flags), out))
end

--- Makes a timer that can be armed again and again, until free().
function Wheel:setup(cookie)
	local out = take(self)
	return value(self, out, C.hwheel_timer_setup(c(self), nil, integer(cookie), out))
end

--- Arms a timer, or moves it. True if it was pending. Flags: ABS, and REDUCE or
-- IF_PENDING, added.
function Wheel:mod(timer, time_ns, flags)
	return truth(self, C.hwheel_timer_mod(c(self), integer(timer), u64(time_ns), u32(flags)))
end

--- As mod, to any time up to slack_ns later, which shares wake-ups. Flags: ABS.
function Wheel:mod_range(timer, time_ns, slack_ns, flags)
	return truth(self, C.hwheel_timer_mod_range(c(self), integer(timer), u64(time_ns),
		u64(slack_ns), u32(flags)))
end

--- Makes a timer periodic from the next time that it fires; 0 ends that.
function Wheel:set_period(timer, period_ns)
	return number(self, C.hwheel_timer_set_period(c(self), integer(timer), u64(period_ns)))
end

--- Does what mod does for n timers, with one call. timers and times are uint64_t[?]
-- with room for n; results, if given, an int32_t[?], which receives 1, 0 or the
-- negative errno of each. Returns the number of timers that were armed or moved.
function Wheel:mod_many(timers, times, n, flags, results)
	holds(timers, "uint64_t", n)
	holds(times, "uint64_t", n)
	if results then holds(results, "int32_t", n) end
	return number(self, C.hwheel_timer_mod_many(c(self), timers, times, n, u32(flags), results))
end

--- Does what delete does for n timers, with one call, as mod_many.
function Wheel:delete_many(timers, n, results)
	holds(timers, "uint64_t", n)
	if results then holds(results, "int32_t", n) end
	return number(self, C.hwheel_timer_delete_many(c(self), timers, n, results))
end

--- Cancels a timer. True: the timer was pending and will not fire. False, or nil
-- with "ESTALE": too late, its event has been fetched.
function Wheel:delete(timer)
	return truth(self, C.hwheel_timer_delete(c(self), integer(timer)))
end

--- As delete, and arming the timer again is "ESHUTDOWN".
function Wheel:shutdown(timer)
	return truth(self, C.hwheel_timer_shutdown(c(self), integer(timer)))
end

--- As delete, and frees the timer.
function Wheel:free(timer)
	return truth(self, C.hwheel_timer_free(c(self), integer(timer)))
end

--- Whether a timer is pending.
function Wheel:pending(timer)
	return truth(self, C.hwheel_timer_pending(c(self), integer(timer)))
end

--- Fetches a timer's memory ahead of a call on it. A server calls this when it learns
-- which connection has sent something, before it reads the data. Any number is allowed.
function Wheel:prefetch(timer)
	C.hwheel_timer_prefetch(c(self), integer(timer))
	if not self.wheel then return closed() end
	return true
end

--- Nanoseconds until a timer fires; NEVER also if it is not pending.
function Wheel:remaining(timer)
	local out = take(self)
	return value(self, out, C.hwheel_timer_remaining(c(self), integer(timer), out))
end

-- The bytes of a key, and their number.
local function bytes(key)
	if type(key) == "string" then return key, #key end
	return ffi.new("uint64_t[1]", integer(key)), 8
end

--- Gives a key a timer that fires once. A key is a string of 1 to 255 bytes, or
-- an integer. True if this replaced a pending timer, which then does not fire. The
-- timer of the event is 0. Flags: ABS.
function Wheel:key_set(key, time_ns, cookie, flags)
	local b, n = bytes(key)
	return truth(self, C.hwheel_key_set(c(self), b, n, u64(time_ns), nil, integer(cookie),
		u32(flags)))
end

--- Moves the pending timer of a key, which keeps its cookie. False if the key has
-- none. Flags: ABS.
function Wheel:key_mod(key, time_ns, flags)
	local b, n = bytes(key)
	return truth(self, C.hwheel_key_mod(c(self), b, n, u64(time_ns), u32(flags)))
end

--- Cancels the pending timer of a key. False if the key has none.
function Wheel:key_delete(key)
	local b, n = bytes(key)
	return truth(self, C.hwheel_key_delete(c(self), b, n))
end

--- Whether a key has a pending timer.
function Wheel:key_pending(key)
	local b, n = bytes(key)
	return truth(self, C.hwheel_key_pending(c(self), b, n))
end

-- The number of events in an array; of a pointer nobody knows it.
local Events = ffi.typeof "struct hwheel_event[?]"
local function room(events)
	check(ffi.istype(Events, events), "not an array of events")
	return ffi.sizeof(events) / ffi.sizeof "struct hwheel_event"
end

--- Fetches the events that are due, in the order of their ticks. Returns the number
-- of events; a full array means that there may be more.
function Wheel:poll(events)
	return number(self, C.hwheel_poll(c(self), events, room(events), nil))
end

--- As poll, for a manual clock that moves to now_ns.
function Wheel:advance(now_ns, events)
	return number(self, C.hwheel_advance(c(self), u64(now_ns), events, room(events), nil))
end

--- Shuts the wheel down and fetches its pending timers.
function Wheel:drain(events)
	return number(self, C.hwheel_drain(c(self), events, room(events)))
end

--- Fetches the pending timers, which stay pending. cursor is a uint64_t[1] that is 0
-- before the first call; fewer than there is room for means the end.
function Wheel:list(cursor, events)
	check(ffi.istype("uint64_t[1]", cursor), "the cursor is not a uint64_t[1]")
	return number(self, C.hwheel_list(c(self), cursor, events, room(events)))
end

--- A descriptor that becomes readable when a timer is due, for an event loop, which
-- neither reads nor closes it. It may be readable with nothing due.
function Wheel:fd()
	return number(self, C.hwheel_fd(c(self)))
end

--- Blocks until the descriptor is readable, or for timeout_ms milliseconds; nil is
-- no limit. False after the timeout, and after a signal that the program handles.
function Wheel:wait(timeout_ms)
	if timeout_ms == nil then
		timeout_ms = -1
	else
		timeout_ms = plain(timeout_ms)
		check(timeout_ms >= 0, "not a time")
		timeout_ms = math.ceil(math.min(timeout_ms, 2^31 - 1))
	end
	local fd, words, name, errno = Wheel.fd(self)
	if not fd then return nil, words, name, errno end
	local pollfd = ffi.new("struct hwheel_pollfd", fd, POLLIN)
	return C.hwheel_poll_fd(pollfd, 1, timeout_ms) > 0
end

for _, method in pairs(Wheel) do methods[method] = true end

return hwheel
