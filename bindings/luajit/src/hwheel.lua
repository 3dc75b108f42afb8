--- A lock-free timing wheel for LuaJIT: timers by the million, in batches.
--
-- A method that fails returns nil, the name of the error and its number, as
-- in nil, "ESTALE", 116. An argument that is no number is a Lua error.
-- Times are nanoseconds: Lua numbers, fractions rounded up, or uint64_t.

local ffi = require "ffi"

local here = debug.getinfo(1, "S").source:match "^@(.*)/[^/]*$" or "."
local cdef = assert(io.open(here .. "/../../hwheel/hwheel.cdef"))
ffi.cdef(cdef:read "*a")
cdef:close()
-- poll(2), under names that nobody else declares.
ffi.cdef [[
struct hwheel_pollfd { int fd; short events, revents; };
int hwheel_poll_fd(struct hwheel_pollfd *, unsigned long, int) __asm__("poll");
]]

local C = ffi.load "libhwheel.so.0"
local POLLIN = 1

local hwheel = {
	--- A delay or deadline that never comes.
	NEVER = 0xffffffffffffffffULL,
	--- Flag of an event that drain() has handed back.
	DRAINED = C.HWHEEL_EVENT_DRAINED,
	--- Flags of every().
	ABSTIME = C.HWHEEL_ABSTIME,
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
	[7] = "E2BIG", [11] = "EAGAIN", [12] = "ENOMEM", [16] = "EBUSY", [22] = "EINVAL",
	[23] = "ENFILE", [24] = "EMFILE", [28] = "ENOSPC", [35] = "EDEADLK",
	[108] = "ESHUTDOWN", [116] = "ESTALE",
}

local Wheel = {}
Wheel.__index = Wheel

local function failure(result)
	return nil, ERRORS[-result] or "errno " .. -result, -result
end

local function number(result)
	if result < 0 then return failure(result) end
	return result
end

local function truth(result)
	if result < 0 then return failure(result) end
	return result == 1
end

-- A value as uint64_t: what C would take of others is not what was meant.
local function u64(value)
	if type(value) == "number" then
		if value == math.huge then return hwheel.NEVER end
		assert(value >= 0 and value < 2^64, "not a number from 0 to 2^64")
		return ffi.cast("uint64_t", math.ceil(value))
	end
	assert(type(value) == "cdata", "not a number")
	return ffi.cast("uint64_t", value)
end

--- Makes a wheel. Options, each of which may be left out: clock ("monotonic",
-- "boottime", "realtime", "manual"), tick_ns, levels, slots, max_timers,
-- start_ns. It is destroyed by close() or with the last reference to it.
function hwheel.new(options)
	options = options or {}
	local o = ffi.new "struct hwheel_options"
	o.size = ffi.sizeof(o)
	o.clock = assert(CLOCKS[options.clock or "monotonic"], "no such clock")
	o.tick_ns = u64(options.tick_ns or 0)
	o.levels = options.levels or 0
	o.slots = options.slots or 0
	o.max_timers = options.max_timers or 0
	o.start_ns = u64(options.start_ns or 0)
	local out = ffi.new "struct hwheel *[1]"
	local result = C.hwheel_create(o, 0, out)
	if result < 0 then return failure(result) end
	return setmetatable({
		wheel = ffi.gc(out[0], C.hwheel_destroy),
		out = ffi.new "uint64_t[1]",
	}, Wheel)
end

--- Room for n events, numbered from 0, with the members timer, cookie,
-- deadline_ns, missed and flags.
function hwheel.events(n)
	return ffi.new("struct hwheel_event[?]", n)
end

--- The version of the library that is loaded, a string.
function hwheel.version()
	return ffi.string(C.hwheel_version_string())
end

--- Destroys the wheel. What is armed does not fire; a second time does nothing.
function Wheel:close()
	if self.wheel then
		local result = C.hwheel_destroy(self.wheel)
		if result < 0 then return failure(result) end
		ffi.gc(self.wheel, nil)
		self.wheel = nil
	end
	return true
end

--- The time on the wheel's clock.
function Wheel:now()
	local result = C.hwheel_now(self.wheel, self.out)
	if result < 0 then return failure(result) end
	return self.out[0]
end

--- When the wheel wants to be driven next; NEVER if nothing is armed.
function Wheel:next_expiry()
	self.out[0] = hwheel.NEVER
	local result = C.hwheel_next_expiry(self.wheel, self.out)
	if result < 0 then return failure(result) end
	return self.out[0]
end

--- What the wheel has done: a struct hwheel_stats.
function Wheel:stats()
	local stats = ffi.new "struct hwheel_stats"
	stats.size = ffi.sizeof(stats)
	local result = C.hwheel_get_stats(self.wheel, stats)
	if result < 0 then return failure(result) end
	return stats
end

local function timer(self, result)
	if result < 0 then return failure(result) end
	return self.out[0]
end

--- Fires once after a delay. Returns the timer, a uint64_t.
function Wheel:after(delay_ns, cookie)
	return timer(self, C.hwheel_after(self.wheel, u64(delay_ns), nil, u64(cookie), 0, self.out))
end

--- Fires once at a deadline on the wheel's clock. Returns the timer.
function Wheel:at(deadline_ns, cookie)
	return timer(self, C.hwheel_at(self.wheel, u64(deadline_ns), nil, u64(cookie), 0, self.out))
end

--- Fires again and again. Flags: ABSTIME, MISSED_BURST, MISSED_DELAY, added.
function Wheel:every(first_ns, period_ns, cookie, flags)
	return timer(self, C.hwheel_every(self.wheel, u64(first_ns), u64(period_ns), nil,
		u64(cookie), flags or 0, self.out))
end

--- A timer that is not armed, to be armed again and again, until free().
function Wheel:setup(cookie)
	return timer(self, C.hwheel_setup(self.wheel, nil, u64(cookie), 0, self.out))
end

--- Arms a timer, or moves it. True if it was armed.
function Wheel:mod(timer, delay_ns)
	return truth(C.hwheel_mod(self.wheel, timer, u64(delay_ns), 0))
end

--- As mod, to a deadline; the clock is not read.
function Wheel:mod_at(timer, deadline_ns)
	return truth(C.hwheel_mod_at(self.wheel, timer, u64(deadline_ns), 0))
end

--- As mod, but only to an earlier deadline.
function Wheel:reduce(timer, delay_ns)
	return truth(C.hwheel_reduce(self.wheel, timer, u64(delay_ns), 0))
end

--- As mod, but only if the timer is armed.
function Wheel:mod_pending(timer, delay_ns)
	return truth(C.hwheel_mod_pending(self.wheel, timer, u64(delay_ns), 0))
end

--- Cancels a timer. True: it was armed and will not fire. False, or nil and
-- "ESTALE": too late, its event has been handed over.
function Wheel:delete(timer)
	return truth(C.hwheel_delete(self.wheel, timer))
end

--- As delete, and arming it again is "ESHUTDOWN".
function Wheel:shutdown(timer)
	return truth(C.hwheel_shutdown(self.wheel, timer))
end

--- As delete, and the timer is no more.
function Wheel:free(timer)
	return truth(C.hwheel_free(self.wheel, timer))
end

--- Whether a timer is armed.
function Wheel:pending(timer)
	return truth(C.hwheel_pending(self.wheel, timer))
end

--- Nanoseconds to a timer's deadline; NEVER also if it is not armed.
function Wheel:remaining(timer)
	self.out[0] = hwheel.NEVER
	local result = C.hwheel_remaining(self.wheel, timer, self.out)
	if result < 0 then return failure(result) end
	return self.out[0]
end

--- Gives a key a timer that fires once. A key is a string of 1 to 255 bytes, or
-- an integer. True: its pending timer was replaced, and does not fire. The
-- timer of the event is 0.
function Wheel:key_set(key, delay_ns, cookie)
	if type(key) == "string" then
		return truth(C.hwheel_key_set(self.wheel, key, #key, u64(delay_ns), nil, u64(cookie), 0))
	end
	return truth(C.hwheel_id_set(self.wheel, u64(key), u64(delay_ns), nil, u64(cookie), 0))
end

--- Moves the pending timer of a key, which keeps its cookie. False if it has
-- none.
function Wheel:key_move(key, delay_ns)
	if type(key) == "string" then
		return truth(C.hwheel_key_move(self.wheel, key, #key, u64(delay_ns), 0))
	end
	return truth(C.hwheel_id_move(self.wheel, u64(key), u64(delay_ns), 0))
end

--- Cancels the pending timer of a key. False if it has none, or not any more.
function Wheel:key_delete(key)
	if type(key) == "string" then
		return truth(C.hwheel_key_delete(self.wheel, key, #key))
	end
	return truth(C.hwheel_id_delete(self.wheel, u64(key)))
end

--- Whether a key has a pending timer.
function Wheel:key_pending(key)
	if type(key) == "string" then
		return truth(C.hwheel_key_pending(self.wheel, key, #key))
	end
	return truth(C.hwheel_id_pending(self.wheel, u64(key)))
end

local function room(events)
	return ffi.sizeof(events) / ffi.sizeof "struct hwheel_event"
end

--- Fetches what is due, in the order of the ticks, and returns how many. If
-- all the room was used there may be more.
function Wheel:poll(events)
	return number(C.hwheel_poll(self.wheel, events, room(events)))
end

--- As poll, for a manual clock that is moved to a time.
function Wheel:advance(now_ns, events)
	return number(C.hwheel_advance(self.wheel, u64(now_ns), events, room(events)))
end

--- Shuts the wheel down and fetches the timers that were armed.
function Wheel:drain(events)
	return number(C.hwheel_drain(self.wheel, events, room(events)))
end

--- A descriptor that is readable when a timer is due, for an event loop; not to
-- be read or closed. It may be readable with nothing due.
function Wheel:fd()
	return number(C.hwheel_fd(self.wheel))
end

--- Blocks until the descriptor is readable, or for so many milliseconds; without
-- a number there is no limit. False if that was up.
function Wheel:wait(timeout_ms)
	local fd, name, errno = self:fd()
	if not fd then return nil, name, errno end
	local pollfd = ffi.new("struct hwheel_pollfd", fd, POLLIN)
	return C.hwheel_poll_fd(pollfd, 1, timeout_ms or -1) > 0
end

return hwheel
