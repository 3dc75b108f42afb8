/*
 * hwheel: a lock-free timing wheel, for C++11 and later.
 *
 * Everything is inline on top of hwheel.h, where each call is documented in
 * full; here is what C++ adds: owners that clean up, std::chrono, callables.
 * Nothing throws, nothing allocates, nothing needs exceptions or RTTI. The
 * namespace is hwheelpp, because struct hwheel already has the other name.
 *
 *	hwheelpp::Wheel wheel;
 *	hwheelpp::Timer timer;
 *	if (!wheel.open().ok() || !wheel.start().ok() ||
 *	    !timer.setup(wheel, [this](const hwheelpp::Event &) { close(); }).ok())
 *		return false;
 *	timer.mod(std::chrono::seconds(30));
 *
 * Lifetimes. A Wheel outlives its Timers, and what a callback reaches through
 * its capture outlives the Timer; so declare in the order wheel, data, timer.
 * When a Timer is gone its callback is over, or is the one that destroyed it.
 *
 * Threads. What may be called at the same time is the same as in C: arm,
 * cancel and ask from any thread. The objects of this header are plain ones:
 * to open, set up, move, swap or destroy one while another thread uses that
 * same object is the caller's to exclude.
 *
 * SPDX-License-Identifier: MIT OR Apache-2.0
 */

#ifndef HWHEEL_HPP
#define HWHEEL_HPP

#include <cerrno>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <system_error>
#include <type_traits>
#include <utility>

#include "hwheel.h"

#if __cplusplus >= 201703L
#define HWHEEL_NODISCARD [[nodiscard]]
#else
#define HWHEEL_NODISCARD
#endif

namespace hwheelpp {

/** A timer that has fired or was handed back; see struct hwheel_event. */
using Event = ::hwheel_event;

/** What a wheel has done; see struct hwheel_stats. */
using Stats = ::hwheel_stats;

/**
 * What a call came to: a number of 0 or above, whose meaning hwheel.h tells,
 * or an error. It does not convert to bool, since 0 is a success.
 */
class Result {
public:
	constexpr explicit Result(int value) noexcept : value_(value) {}

	constexpr bool ok() const noexcept { return value_ >= 0; }

	/** The number; below 0 it is a negative errno value, as in C. */
	constexpr int value() const noexcept { return value_; }

	/** The error, in std::generic_category(); none if the call was ok(). */
	std::error_code error() const noexcept
	{
		return std::error_code(ok() ? 0 : -value_, std::generic_category());
	}

private:
	int value_;
};

/**
 * A length of time, or a point on the wheel's clock as the time since its
 * epoch, in nanoseconds. Made from any std::chrono::duration: one that is
 * negative is 0, a fraction is rounded up, as a timer is never early, and
 * nanoseconds::max(), which is 292 years, or more is never. On a monotonic
 * wheel a time_point of std::chrono::steady_clock is its time_since_epoch(),
 * where that clock is CLOCK_MONOTONIC as in libstdc++ and libc++; on a
 * realtime wheel the same holds of std::chrono::system_clock.
 */
class Time {
public:
	constexpr Time() noexcept : ns_(0) {}

	template <class Rep, class Period>
	constexpr Time(std::chrono::duration<Rep, Period> d) noexcept
		: ns_(convert<std::ratio_divide<Period, std::nano>>(
			d.count(),
			std::integral_constant<bool,
				std::is_integral<Rep>::value &&
				std::ratio_divide<Period, std::nano>::den == 1>()))
	{
	}

	static constexpr Time never() noexcept;

	/** For C: HWHEEL_NEVER is never. */
	constexpr std::uint64_t ns() const noexcept { return ns_; }

	/** From C, with nanoseconds::max() for never. */
	static constexpr std::chrono::nanoseconds from(std::uint64_t ns) noexcept
	{
		return ns >= limit ? std::chrono::nanoseconds::max() :
			std::chrono::nanoseconds(static_cast<std::int64_t>(ns));
	}

private:
	static constexpr std::uint64_t limit = INT64_MAX;

	/* Whole nanoseconds each. */
	template <class Scale, class Rep>
	static constexpr std::uint64_t convert(Rep count, std::true_type) noexcept
	{
		return count <= 0 ? 0 :
			static_cast<std::uint64_t>(count) >= (limit + Scale::num - 1) / Scale::num ?
			HWHEEL_NEVER : static_cast<std::uint64_t>(count) * Scale::num;
	}

	/* Fractions. A count that is not a number is 0. */
	template <class Scale, class Rep>
	static constexpr std::uint64_t convert(Rep count, std::false_type) noexcept
	{
		return round_up(static_cast<long double>(count) * Scale::num / Scale::den);
	}

	static constexpr std::uint64_t round_up(long double ns) noexcept
	{
		return !(ns > 0) ? 0 : ns >= static_cast<long double>(limit) ? HWHEEL_NEVER :
			static_cast<std::uint64_t>(ns) +
			(static_cast<long double>(static_cast<std::uint64_t>(ns)) < ns);
	}

	std::uint64_t ns_;
};

constexpr Time Time::never() noexcept
{
	return Time(std::chrono::nanoseconds::max());
}

/** When an event was due, on the wheel's clock. */
inline std::chrono::nanoseconds deadline(const Event &event) noexcept
{
	return Time::from(event.deadline_ns);
}

/** A cookie, for a timer that is delivered as an event. */
struct Cookie {
	constexpr explicit Cookie(std::uint64_t bits) noexcept : value(bits) {}

	std::uint64_t value;
};

/**
 * What happens when a timer fires: an event with a Cookie, or a callable is
 * called with the event as a const Event &.
 *
 * The callable is kept by value in the 64 bits of the cookie, so it is at
 * most that large and trivially copyable: a function pointer, a lambda that
 * captures one pointer or reference, or std::ref() of anything larger, which
 * then outlives the timer. It is called as const. It runs in the thread that
 * drives the wheel; an exception that leaves it ends the process.
 */
class Target {
public:
	Target(Cookie cookie) noexcept : fn_(nullptr), cookie_(cookie.value) {}

	template <class F>
	Target(F f) noexcept : fn_(call<F>), cookie_(0)
	{
		static_assert(sizeof(F) <= sizeof cookie_,
			"capture one pointer or reference, or pass std::ref()");
		static_assert(std::is_trivially_copyable<F>::value,
			"the wheel copies the bytes; pass std::ref()");
		std::memcpy(&cookie_, &f, sizeof f);
	}

	::hwheel_fn fn() const noexcept { return fn_; }
	std::uint64_t cookie() const noexcept { return cookie_; }

private:
	template <class F>
	static void call(::hwheel *, const Event *event) noexcept
	{
		alignas(F) unsigned char bytes[sizeof(F)];

		std::memcpy(bytes, &event->cookie, sizeof bytes);
		(*reinterpret_cast<const F *>(bytes))(*event);
	}

	::hwheel_fn fn_;
	std::uint64_t cookie_;
};

/**
 * The name of a timer, which it does not own. Copy it freely: if the timer is
 * gone every call gives ESTALE. An empty one gives EINVAL.
 */
class TimerRef {
public:
	constexpr TimerRef() noexcept : wheel_(nullptr), handle_(0) {}
	constexpr TimerRef(::hwheel *wheel, ::hwheel_timer_t handle) noexcept
		: wheel_(wheel), handle_(handle)
	{
	}

	::hwheel_timer_t handle() const noexcept { return handle_; }
	bool empty() const noexcept { return handle_ == 0; }

	/** Arm it, or move it. value() is 1 if it was armed, 0 if not. */
	Result mod(Time delay) const noexcept
	{
		return Result(::hwheel_mod(wheel_, handle_, delay.ns(), 0));
	}

	/** The same, to a deadline. */
	Result mod_at(Time deadline) const noexcept
	{
		return Result(::hwheel_mod_at(wheel_, handle_, deadline.ns(), 0));
	}

	/** Arm it, or move it, to any time up to @slack after @delay. */
	Result mod_range(Time delay, Time slack) const noexcept
	{
		return Result(::hwheel_mod_range(wheel_, handle_, delay.ns(), slack.ns(), 0));
	}

	Result mod_range_at(Time deadline, Time slack) const noexcept
	{
		return Result(::hwheel_mod_range(wheel_, handle_, deadline.ns(), slack.ns(),
			HWHEEL_ABSTIME));
	}

	/** Arm it, or move it, but only to an earlier deadline. */
	Result reduce(Time delay) const noexcept
	{
		return Result(::hwheel_reduce(wheel_, handle_, delay.ns(), 0));
	}

	Result reduce_at(Time deadline) const noexcept
	{
		return Result(::hwheel_reduce(wheel_, handle_, deadline.ns(), HWHEEL_ABSTIME));
	}

	/** Move it, but only if it is armed. */
	Result mod_pending(Time delay) const noexcept
	{
		return Result(::hwheel_mod_pending(wheel_, handle_, delay.ns(), 0));
	}

	Result mod_pending_at(Time deadline) const noexcept
	{
		return Result(::hwheel_mod_pending(wheel_, handle_, deadline.ns(),
			HWHEEL_ABSTIME));
	}

	/** hwheel_delete(). value() is 1 if it was armed and will not fire. */
	Result cancel() const noexcept
	{
		return Result(::hwheel_delete(wheel_, handle_));
	}

	/** hwheel_delete_sync(): also wait for its callback. */
	Result cancel_sync() const noexcept
	{
		return Result(::hwheel_delete_sync(wheel_, handle_));
	}

	/** Cancel it for good. */
	Result shutdown() const noexcept
	{
		return Result(::hwheel_shutdown(wheel_, handle_));
	}

	Result shutdown_sync() const noexcept
	{
		return Result(::hwheel_shutdown_sync(wheel_, handle_));
	}

	/** value() is 1 if it is armed, 0 if not. */
	Result pending() const noexcept
	{
		return Result(::hwheel_pending(wheel_, handle_));
	}

	/** The same, and if it is armed how long until its deadline. */
	Result remaining(std::chrono::nanoseconds &left) const noexcept
	{
		std::uint64_t ns = 0;
		Result result(::hwheel_remaining(wheel_, handle_, &ns));

		if (result.value() == 1)
			left = Time::from(ns);
		return result;
	}

protected:
	::hwheel *wheel_;
	::hwheel_timer_t handle_;
};

/**
 * A caller's key: a number, a string, or any bytes. It refers to them, and the
 * wheel copies them in the call.
 */
class Key {
public:
	template <class Id, class = typename std::enable_if<std::is_integral<Id>::value>::type>
	Key(Id id) noexcept : bytes_(nullptr), size_(sizeof id_),
		id_(static_cast<std::uint64_t>(id))
	{
	}

	Key(const char *text) noexcept : Key(text, std::strlen(text)) {}

	/** One that is too long gives EINVAL when it is used. */
	Key(const void *bytes, std::size_t size) noexcept
		: bytes_(bytes), size_(size < 256 ? static_cast<std::uint32_t>(size) : 256),
		  id_(0)
	{
	}

	/** A std::string, a std::string_view, a std::vector of bytes, or the like. */
	template <class Bytes, std::size_t = sizeof *std::declval<const Bytes &>().data()>
	Key(const Bytes &bytes) noexcept : Key(bytes.data(), bytes.size())
	{
		static_assert(sizeof *bytes.data() == 1, "a key is made of bytes");
	}

	const void *data() const noexcept { return bytes_ ? bytes_ : &id_; }
	std::uint32_t size() const noexcept { return size_; }

private:
	const void *bytes_;
	std::uint32_t size_;
	std::uint64_t id_;
};

/** How a wheel is made; see struct hwheel_options. Zero is the default. */
struct Options {
	enum class Clock : std::uint32_t {
		monotonic = HWHEEL_CLOCK_MONOTONIC,
		boottime = HWHEEL_CLOCK_BOOTTIME,
		realtime = HWHEEL_CLOCK_REALTIME,
		manual = HWHEEL_CLOCK_MANUAL
	};
	enum class Overload : std::uint32_t {
		run = HWHEEL_OVERLOAD_RUN,
		block = HWHEEL_OVERLOAD_BLOCK,
		drop = HWHEEL_OVERLOAD_DROP
	};

	Clock clock = Clock::monotonic;
	Time tick = Time();
	std::uint32_t levels = 0;
	std::uint32_t slots = 0;
	std::uint32_t max_timers = 0;
	Time start = Time();
	bool coarse = false;
	std::uint32_t workers = 0;
	std::uint32_t queue = 0;
	Overload overload = Overload::run;
	std::uint32_t budget_items = 0;
	Time budget = Time();
	::hwheel_executor_fn executor = nullptr;
	void *executor_arg = nullptr;
};

/** What to do with periods that were missed; see hwheel_every(). */
enum class Missed : std::uint32_t {
	skip = 0,
	burst = HWHEEL_MISSED_BURST,
	delay = HWHEEL_MISSED_DELAY
};

/** Owns a wheel. While it is empty every call gives EINVAL. */
class Wheel {
public:
	Wheel() noexcept : wheel_(nullptr) {}
	Wheel(Wheel &&other) noexcept : wheel_(other.release()) {}
	Wheel &operator=(Wheel &&other) noexcept
	{
		Wheel(std::move(other)).swap(*this);
		return *this;
	}
	Wheel(const Wheel &) = delete;
	Wheel &operator=(const Wheel &) = delete;

	/** As close(), whose errors are mistakes of the caller: then it leaks. */
	~Wheel() { close(); }

	void swap(Wheel &other) noexcept { std::swap(wheel_, other.wheel_); }

	/** The wheel for calls of C; it stays owned. */
	::hwheel *get() const noexcept { return wheel_; }

	/** The wheel, which the caller owns from now on. */
	::hwheel *release() noexcept
	{
		::hwheel *wheel = wheel_;

		wheel_ = nullptr;
		return wheel;
	}

	/** Make the wheel; EBUSY if there is one already. */
	HWHEEL_NODISCARD Result open(const Options &options = Options()) noexcept
	{
		::hwheel_options o = ::hwheel_options();

		if (wheel_)
			return Result(-EBUSY);
		o.size = sizeof o;
		o.clock = static_cast<std::uint32_t>(options.clock);
		o.tick_ns = options.tick.ns();
		o.levels = options.levels;
		o.slots = options.slots;
		o.max_timers = options.max_timers;
		o.start_ns = options.start.ns();
		o.flags = options.coarse ? HWHEEL_COARSE : 0;
		o.workers = options.workers;
		o.queue = options.queue;
		o.overload = static_cast<std::uint32_t>(options.overload);
		o.budget_items = options.budget_items;
		o.budget_ns = options.budget.ns();
		o.executor = options.executor;
		o.executor_arg = options.executor_arg;
		return Result(::hwheel_create(&o, 0, &wheel_));
	}

	/**
	 * hwheel_destroy(): stop and free it. Armed timers do not fire. EDEADLK
	 * in a callback of its own, EBUSY while another thread stops it.
	 */
	Result close() noexcept
	{
		Result result(::hwheel_destroy(wheel_));

		if (result.ok())
			wheel_ = nullptr;
		return result;
	}

	/** The time on its clock. */
	Result now(std::chrono::nanoseconds &now) const noexcept
	{
		std::uint64_t ns = 0;
		Result result(::hwheel_now(wheel_, &ns));

		if (result.ok())
			now = Time::from(ns);
		return result;
	}

	/** value() is 1 with the time when it wants to be driven, or 0 if never. */
	Result next_expiry(std::chrono::nanoseconds &deadline) const noexcept
	{
		std::uint64_t ns = 0;
		Result result(::hwheel_next_expiry(wheel_, &ns));

		if (result.value() == 1)
			deadline = Time::from(ns);
		return result;
	}

	Result stats(Stats &stats) const noexcept
	{
		stats.size = sizeof stats;
		return Result(::hwheel_get_stats(wheel_, &stats));
	}

	/** Fire once after a delay; the timer frees itself. */
	HWHEEL_NODISCARD Result after(Time delay, Target target,
				      TimerRef *timer = nullptr) noexcept
	{
		::hwheel_timer_t handle = 0;

		return put(timer, handle, ::hwheel_after(wheel_, delay.ns(), target.fn(),
			target.cookie(), 0, &handle));
	}

	/** Fire once at a deadline; the timer frees itself. */
	HWHEEL_NODISCARD Result at(Time deadline, Target target,
				   TimerRef *timer = nullptr) noexcept
	{
		::hwheel_timer_t handle = 0;

		return put(timer, handle, ::hwheel_at(wheel_, deadline.ns(), target.fn(),
			target.cookie(), 0, &handle));
	}

	/** Fire again and again, until cancelled. */
	HWHEEL_NODISCARD Result every(Time first, Time period, Target target,
				      Missed missed = Missed::skip,
				      TimerRef *timer = nullptr) noexcept
	{
		return repeat(first, period, target, static_cast<std::uint32_t>(missed),
			timer);
	}

	/** The same, each at any time up to @slack after its deadline. */
	HWHEEL_NODISCARD Result every_range(Time first, Time period, Time slack,
					    Target target, Missed missed = Missed::skip,
					    TimerRef *timer = nullptr) noexcept
	{
		::hwheel_timer_t handle = 0;

		return put(timer, handle, ::hwheel_every_range(wheel_, first.ns(),
			period.ns(), slack.ns(), target.fn(), target.cookie(),
			static_cast<std::uint32_t>(missed), &handle));
	}

	/** The same, the first time at a deadline. */
	HWHEEL_NODISCARD Result every_at(Time first, Time period, Target target,
					 Missed missed = Missed::skip,
					 TimerRef *timer = nullptr) noexcept
	{
		return repeat(first, period, target,
			static_cast<std::uint32_t>(missed) | HWHEEL_ABSTIME, timer);
	}

	/**
	 * Arm or move many timers, by their handles. value() counts those that
	 * were; what became of each goes to @results, as in C.
	 */
	Result mod_many(const ::hwheel_timer_t *timers, const std::uint64_t *delays_ns,
			std::uint32_t n, std::int32_t *results = nullptr) noexcept
	{
		return Result(::hwheel_mod_many(wheel_, timers, delays_ns, n, 0, results));
	}

	Result mod_many_at(const ::hwheel_timer_t *timers, const std::uint64_t *deadlines_ns,
			   std::uint32_t n, std::int32_t *results = nullptr) noexcept
	{
		return Result(::hwheel_mod_many(wheel_, timers, deadlines_ns, n,
			HWHEEL_ABSTIME, results));
	}

	/** Cancel many timers, by their handles. value() counts those that exist. */
	Result cancel_many(const ::hwheel_timer_t *timers, std::uint32_t n,
			   std::int32_t *results = nullptr) noexcept
	{
		return Result(::hwheel_delete_many(wheel_, timers, n, results));
	}

	/**
	 * Give a key a timer that fires once, in place of the one it has.
	 * value() is 1 if it had one that was pending, 0 if not.
	 */
	HWHEEL_NODISCARD Result set(const Key &key, Time delay, Target target) noexcept
	{
		return set(key, delay, target, 0);
	}

	HWHEEL_NODISCARD Result set_at(const Key &key, Time deadline, Target target) noexcept
	{
		return set(key, deadline, target, HWHEEL_ABSTIME);
	}

	/** Move the timer of a key. value() is 0 if it has none that is pending. */
	Result move(const Key &key, Time delay) noexcept
	{
		return Result(::hwheel_key_move(wheel_, key.data(), key.size(), delay.ns(), 0));
	}

	Result move_at(const Key &key, Time deadline) noexcept
	{
		return Result(::hwheel_key_move(wheel_, key.data(), key.size(), deadline.ns(),
			HWHEEL_ABSTIME));
	}

	/** Cancel the timer of a key. value() is 0 if it has none that is pending. */
	Result cancel(const Key &key) noexcept
	{
		return Result(::hwheel_key_delete(wheel_, key.data(), key.size()));
	}

	/** value() is 1 if the key has a pending timer, 0 if not. */
	Result pending(const Key &key) const noexcept
	{
		return Result(::hwheel_key_pending(wheel_, key.data(), key.size()));
	}

	/** Move a manual clock and fire what is due; value() counts the events. */
	Result advance(Time now) noexcept { return advance(now, nullptr, 0); }

	Result advance(Time now, Event *events, std::uint32_t max) noexcept
	{
		return Result(::hwheel_advance(wheel_, now.ns(), events, max));
	}

	template <std::size_t N>
	Result advance(Time now, Event (&events)[N]) noexcept
	{
		return advance(now, events, static_cast<std::uint32_t>(N));
	}

	/** Fire what is due on a system clock; value() counts the events. */
	Result poll() noexcept { return poll(nullptr, 0); }

	Result poll(Event *events, std::uint32_t max) noexcept
	{
		return Result(::hwheel_poll(wheel_, events, max));
	}

	template <std::size_t N>
	Result poll(Event (&events)[N]) noexcept
	{
		return poll(events, static_cast<std::uint32_t>(N));
	}

	/** value() is a descriptor that becomes readable when a timer is due. */
	Result fd() noexcept { return Result(::hwheel_fd(wheel_)); }

	/** Start and stop the tick thread. */
	HWHEEL_NODISCARD Result start() noexcept
	{
		return Result(::hwheel_start(wheel_, 0));
	}

	Result stop() noexcept { return Result(::hwheel_stop(wheel_)); }

	/** Run one callback that waits for a worker or the executor. */
	Result work() noexcept { return Result(::hwheel_work(wheel_)); }

	/** Shut it down and get every armed timer back. */
	Result drain(Event *events, std::uint32_t max) noexcept
	{
		return Result(::hwheel_drain(wheel_, events, max));
	}

	template <std::size_t N>
	Result drain(Event (&events)[N]) noexcept
	{
		return drain(events, static_cast<std::uint32_t>(N));
	}

private:
	Result set(const Key &key, Time when, Target target, std::uint32_t flags) noexcept
	{
		return Result(::hwheel_key_set(wheel_, key.data(), key.size(), when.ns(),
			target.fn(), target.cookie(), flags));
	}

	Result repeat(Time first, Time period, Target target, std::uint32_t flags,
		      TimerRef *timer) noexcept
	{
		::hwheel_timer_t handle = 0;

		return put(timer, handle, ::hwheel_every(wheel_, first.ns(), period.ns(),
			target.fn(), target.cookie(), flags, &handle));
	}

	/* @handle is a reference, as the call that sets it is an argument too. */
	Result put(TimerRef *timer, const ::hwheel_timer_t &handle, int code) noexcept
	{
		if (timer && code >= 0)
			*timer = TimerRef(wheel_, handle);
		return Result(code);
	}

	::hwheel *wheel_;
};

/** Owns a timer that is armed again and again. */
class Timer : public TimerRef {
public:
	Timer() noexcept {}
	Timer(Timer &&other) noexcept : TimerRef(other) { other.forget(); }
	Timer &operator=(Timer &&other) noexcept
	{
		Timer(std::move(other)).swap(*this);
		return *this;
	}
	Timer(const Timer &) = delete;
	Timer &operator=(const Timer &) = delete;
	~Timer() { reset(); }

	void swap(Timer &other) noexcept
	{
		std::swap(wheel_, other.wheel_);
		std::swap(handle_, other.handle_);
	}

	/** Make the timer, not armed; EBUSY if there is one already. */
	HWHEEL_NODISCARD Result setup(Wheel &wheel, Target target) noexcept
	{
		if (!empty())
			return Result(-EBUSY);

		Result result(::hwheel_setup(wheel.get(), target.fn(), target.cookie(), 0,
			&handle_));

		if (result.ok())
			wheel_ = wheel.get();
		return result;
	}

	/**
	 * Cancel it, wait for its callback, and free it. In its own callback it
	 * does not wait; the callback goes on.
	 */
	void reset() noexcept
	{
		if (empty())
			return;
		shutdown_sync();
		::hwheel_free(wheel_, handle_);
		forget();
	}

private:
	void forget() noexcept
	{
		wheel_ = nullptr;
		handle_ = 0;
	}
};

inline void swap(Wheel &a, Wheel &b) noexcept { a.swap(b); }
inline void swap(Timer &a, Timer &b) noexcept { a.swap(b); }

} /* namespace hwheelpp */

#undef HWHEEL_NODISCARD

#endif /* HWHEEL_HPP */
