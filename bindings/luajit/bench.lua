-- Events per second, by batches and by one callback of the library for each
-- timer. The best of thirty rounds; a round is a hundred thousand timers over
-- a thousand ticks.
local ffi = require "ffi"
local hwheel = require "hwheel"

ffi.cdef [[
struct hwheel_timespec { long sec, nsec; };
int hwheel_clock(int, struct hwheel_timespec *) __asm__("clock_gettime");
]]
local C = ffi.load "libhwheel.so.0"
local TIMERS, TICK = 100000, 1e6
local END = 1000 * TICK
local now = ffi.new "struct hwheel_timespec"
local total

local function seconds()
	ffi.C.hwheel_clock(1, now)
	return tonumber(now.sec) + tonumber(now.nsec) / 1e9
end

local function batch()
	local wheel, events = assert(hwheel.new { clock = "manual" }), hwheel.events(1024)
	for cookie = 0, TIMERS - 1 do assert(wheel:once(cookie % 1000 * TICK, cookie, hwheel.ABS)) end
	local begin = seconds()
	repeat
		local n = wheel:advance(END, events)
		for i = 0, n - 1 do total = total + tonumber(events[i].cookie) end
	until n < 1024
	local took = seconds() - begin
	wheel:close()
	return took
end

local function callback()
	local wheel = assert(hwheel.new { clock = "manual" })
	local fired = ffi.cast("hwheel_fn", function(_, event)
		total = total + tonumber(event.cookie)
	end)
	for cookie = 0, TIMERS - 1 do
		assert(C.hwheel_once(wheel.wheel, cookie % 1000 * TICK, fired, cookie, hwheel.ABS, nil) == 0)
	end
	local begin = seconds()
	assert(C.hwheel_advance(wheel.wheel, END, nil, 0, nil) == 0)
	local took = seconds() - begin
	wheel:close()
	fired:free()
	return took
end
-- A call that calls back must not be compiled.
jit.off(callback)

local function rate(way)
	local best = math.huge
	for _ = 1, 30 do
		total = 0
		best = math.min(best, way())
		assert(total == TIMERS * (TIMERS - 1) / 2, "not every timer fired once")
	end
	return TIMERS / best
end

print(("batch %d"):format(rate(batch)))
print(("callback %d"):format(rate(callback)))
