-- Each function of tests is a test; all are run.
local ffi = require "ffi"
local hwheel = require "hwheel"

local MS = 1e6
local tests = {}

local function equal(got, want)
	if got ~= want then
		error("got " .. tostring(got) .. ", want " .. tostring(want), 2)
	end
end

local function fails(want, ...)
	local value, words, name, errno = ...
	equal(value, nil)
	equal(name, want)
	equal(errno > 0, true)
	assert(#words > 5 and words ~= name and words ~= "unknown error", words)
end

local function manual(options)
	options = options or {}
	options.clock = "manual"
	return assert(hwheel.new(options))
end

function tests.an_event_tells_timer_cookie_and_deadline()
	local wheel, events = manual(), hwheel.events(4)
	local timer = wheel:once(5 * MS, hwheel.NEVER)
	equal(wheel:advance(5 * MS - 1, events), 0)
	equal(wheel:advance(5 * MS, events), 1)
	equal(events[0].timer, timer)
	equal(events[0].cookie, hwheel.NEVER)
	equal(events[0].deadline_ns, 5000000ULL)
	equal(events[0].missed, 0)
	equal(events[0].flags, 0)
	equal(wheel:advance(6 * MS, events), 0)
end

function tests.a_full_batch_means_there_may_be_more()
	local wheel, events = manual(), hwheel.events(4)
	for cookie = 0, 9 do wheel:once(cookie * MS, cookie, hwheel.ABS) end
	local seen = 0
	for _, want in ipairs { 4, 4, 2, 0 } do
		local n = wheel:advance(20 * MS, events)
		equal(n, want)
		for i = 0, n - 1 do
			equal(events[i].cookie, ffi.cast("uint64_t", seen))
			seen = seen + 1
		end
	end
end

function tests.a_prefetch_takes_any_timer_and_changes_none()
	local wheel, events = manual(), hwheel.events(4)
	local timer = wheel:once(5 * MS, 7)
	for _, any in ipairs { timer, 0, 1, hwheel.NEVER } do equal(wheel:prefetch(any), true) end
	equal(pcall(wheel.prefetch, wheel, -1), false)
	equal(pcall(wheel.prefetch, wheel, "x"), false)
	equal(wheel:pending(timer), true)
	equal(wheel:advance(5 * MS, events), 1)
	wheel:close()
	fails("EINVAL", wheel:prefetch(timer))
end

function tests.missed_periods_are_counted_or_fired()
	local wheel, events = manual(), hwheel.events(16)
	local timer = wheel:every(MS, MS, 1)
	equal(wheel:advance(10 * MS, events), 1)
	equal(events[0].missed, 9)
	equal(wheel:delete(timer), true)
	wheel:every(11 * MS, MS, 2, hwheel.ABS + hwheel.MISSED_BURST)
	equal(wheel:advance(20 * MS, events), 10)
end

function tests.a_timer_is_armed_again_and_again()
	local wheel, events = manual(), hwheel.events(2)
	local timer = wheel:setup(7)
	equal(wheel:pending(timer), false)
	equal(wheel:remaining(timer), hwheel.NEVER)
	equal(wheel:mod(timer, MS, hwheel.IF_PENDING), false)
	equal(wheel:mod(timer, 10 * MS), false)
	equal(wheel:mod(timer, 20 * MS, hwheel.REDUCE), true)
	equal(wheel:remaining(timer), 10000000ULL)
	equal(wheel:mod(timer, 3 * MS, hwheel.ABS), true)
	equal(wheel:next_expiry(), 3000000ULL)
	equal(wheel:advance(3 * MS, events), 1)
	equal(events[0].cookie, 7ULL)
	equal(wheel:mod(timer, hwheel.NEVER), false)
	equal(wheel:next_expiry(), hwheel.NEVER)
	equal(wheel:shutdown(timer), true)
	fails("ESHUTDOWN", wheel:mod(timer, MS))
	equal(wheel:free(timer), false)
	fails("ESTALE", wheel:free(timer))
	local stats = wheel:stats()
	equal(stats.live, 0ULL)
	equal(stats.fired, 1ULL)
	equal(stats.armed, 2ULL)
end

function tests.a_key_that_is_set_again_moves_its_timer()
	for _, key in ipairs { "session 7", 7 } do
		local wheel, events = manual(), hwheel.events(4)
		equal(wheel:key_set(key, MS, 1), false)
		equal(wheel:key_set("other", MS, 2), false)
		equal(wheel:key_set(key, 2 * MS, 3), true)
		equal(wheel:key_mod("other", 3 * MS), true)
		equal(wheel:key_pending(key), true)
		equal(wheel:advance(2 * MS, events), 1)
		equal(events[0].cookie, 3ULL)
		equal(events[0].timer, 0ULL)
		equal(wheel:key_pending(key), false)
		equal(wheel:key_mod(key, MS), false)
		equal(wheel:key_delete(key), false)
		equal(wheel:key_delete("other"), true)
	end
	fails("EINVAL", manual():key_set("", MS, 1))
end

function tests.fractions_are_rounded_up()
	local wheel, events = manual { tick_ns = 1000 }, hwheel.events(1)
	wheel:once(0.25, 1)
	equal(wheel:remaining(wheel:once(math.huge, 2)), hwheel.NEVER)
	equal(wheel:next_expiry(), 1000ULL)
	equal(wheel:advance(1000, events), 1)
	equal(wheel:remaining(wheel:once(ffi.new("double", 1000.5), 3)), 2000ULL)
	equal(wheel:remaining(wheel:once(ffi.new("double", math.huge), 4)), hwheel.NEVER)
end

function tests.an_argument_that_is_no_number_is_an_error()
	local wheel = manual()
	for _, wrong in ipairs { -1, -1LL, 0 / 0, 2^64, "1", {} } do
		equal(pcall(wheel.once, wheel, wrong, 1), false)
		equal(pcall(wheel.once, wheel, 1, wrong), false)
	end
	equal(pcall(wheel.once, wheel, 1), false)
	equal(pcall(hwheel.new, { clock = "sundial" }), false)
	equal(pcall(hwheel.new, { tick = 1 }), false)
	fails("EINVAL", wheel:once(2^63, 1))
	equal(wheel:stats().live, 0ULL)
end

function tests.errors_have_a_name_and_a_number()
	local wheel = manual { max_timers = 1 }
	fails("ESTALE", wheel:delete(12345))
	fails("EINVAL", wheel:every(MS, 0, 1))
	fails("EINVAL", wheel:poll(hwheel.events(1)))
	fails("EINVAL", wheel:fd())
	fails("EINVAL", wheel:wait(0))
	assert(wheel:once(hwheel.NEVER, 1))
	fails("ENOSPC", wheel:once(MS, 2))
	fails("EINVAL", hwheel.new { slots = 3 })
	equal(wheel:close(), true)
	equal(wheel:close(), true)
	fails("EINVAL", wheel:once(MS, 1))
end

function tests.what_is_armed_is_drained()
	local wheel, events = manual(), hwheel.events(2)
	local timer = wheel:once(hwheel.NEVER, 9)
	equal(wheel:drain(events), 1)
	equal(events[0].timer, timer)
	equal(events[0].flags, hwheel.DRAINED)
	fails("ESHUTDOWN", wheel:once(MS, 1))
end

function tests.pending_timers_are_listed()
	local wheel, events = manual(), hwheel.events(2)
	for cookie = 1, 5 do assert(wheel:once(MS, cookie)) end
	local cursor, seen, n = ffi.new "uint64_t[1]", 0
	repeat
		n = wheel:list(cursor, events)
		for i = 0, n - 1 do
			equal(events[i].flags, hwheel.LISTED)
			equal(wheel:delete(events[i].timer), true)
			seen = seen + tonumber(events[i].cookie)
		end
	until n < 2
	equal(seen, 15)
end

function tests.a_range_shares_a_wake_up()
	local wheel, events = manual(), hwheel.events(2)
	local timer = wheel:setup(1)
	equal(wheel:mod_range(timer, 100 * MS, 100 * MS), false)
	equal(wheel:advance(99 * MS, events), 0)
	equal(wheel:advance(200 * MS, events), 1)
	assert(wheel:every(MS, MS, 2, 0, MS / 2))
	fails("EINVAL", wheel:mod_range(timer, MS, 2^63))
end

function tests.none_is_early_lost_or_doubled()
	local wheel, events = assert(hwheel.new()), hwheel.events(256)
	for cookie = 1, 5000 do
		assert(wheel:once(cookie % 20 * MS, cookie))
		equal(wheel:delete(wheel:once(3.6e12, 0)), true)
	end
	local seen, left = {}, 5000
	while left > 0 do
		equal(wheel:wait(60000), true)
		local n, now = wheel:poll(events), wheel:now()
		for i = 0, n - 1 do
			local cookie = tonumber(events[i].cookie)
			equal(events[i].deadline_ns <= now, true)
			equal(seen[cookie], nil)
			seen[cookie] = true
		end
		left = left - n
	end
	equal(wheel:stats().live, 0ULL)
	equal(wheel:poll(events), 0)
	equal(wheel:wait(0), false)
end

function tests.a_wait_may_be_long()
	local wheel, events = assert(hwheel.new()), hwheel.events(4)
	for _, ms in ipairs { 2 ^ 32, 2 ^ 31, 1e18, math.huge, 2LL ^ 32 } do
		wheel:once(20 * MS, 1)
		while wheel:poll(events) == 0 do equal(wheel:wait(ms), true) end
	end
end

function tests.a_signal_ends_a_wait()
	ffi.cdef "void *signal(int, int (*)(int)); unsigned ualarm(unsigned, unsigned); int abs(int);"
	local wheel, events = assert(hwheel.new()), hwheel.events(1)
	ffi.C.signal(14, ffi.C.abs)
	ffi.C.ualarm(20000, 20000)
	while wheel:wait() do equal(wheel:poll(events), 0) end
	ffi.C.ualarm(0, 0)
end

-- binding.sh allows 256 descriptors.
function tests.a_wheel_that_nobody_refers_to_is_destroyed()
	for i = 1, 1000 do
		assert(assert(hwheel.new()):fd())
		if i % 100 == 0 then collectgarbage() end
	end
end

-- As by a test runner that loads each module anew.
function tests.the_module_may_be_loaded_again()
	package.loaded.hwheel = nil
	local again = require "hwheel"
	assert(again ~= hwheel)
	local wheel, events = assert(again.new { clock = "manual" }), again.events(1)
	wheel:once(MS, 1)
	equal(wheel:advance(MS, events), 1)
end

function tests.the_version_is_the_librarys()
	assert(hwheel.version():match "^%d+%.%d+%.%d+$")
end

local n = 0
for name, test in pairs(tests) do
	local passed, why = pcall(test)
	if not passed then error(name .. ": " .. tostring(why), 0) end
	n = n + 1
end
print(n .. " tests passed, and the programs of README.md")
