/*
 * hwheel: a lock-free timing wheel, for C++11 and later.
 *
 * Every function is inline, on top of one in hwheel.h that documents it in full.
 * C++ adds owners that clean up, std::chrono and callables. Nothing throws or
 * allocates, except std::error_code::message(), and nothing needs exceptions or
 * RTTI. The namespace is hwheelpp, because struct hwheel has the other name.
 *
 *	hwheelpp::Wheel wheel;
 *	hwheelpp::Timer timer;
 *	if (!wheel.open().ok() || !wheel.start().ok() ||
 *	    !timer.setup(wheel, [this](const hwheelpp::Event &) { close(); }).ok())
 *		return false;
 *	timer.mod(std::chrono::seconds(30));
 *
 * Lifetimes. A Wheel outlives its Timers and is not closed before them, and the
 * data that a callback captures outlives the Timer. So declare the wheel, the data
 * and the timer in this order. The destructor of a Timer waits for its callback,
 * unless it runs in it. Two callbacks that wait for each other never return.
 *
 * Threads. The rules are those of C: any thread arms, cancels and asks. The
 * objects of this header are plain objects: no other thread may use one while it
 * is opened, set up, moved, swapped or destroyed.
 *
 * With Options::owned one thread owns the wheel, and the calls of others give EPERM.
 * Others send it timers by Wheel::once() without a TimerRef, and read. The owner also
 * destroys the Timers: in another thread that would free nothing.
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
#include <string>
#include <system_error>
#include <type_traits>
#include <utility>

#include "hwheel.h"

#if __cplusplus >= 202002L && defined(__cpp_impl_coroutine)
#define HWHEEL_COROUTINES
#include <coroutine>
#endif

#if __cplusplus >= 201703L
#define HWHEEL_NODISCARD [[nodiscard]]
#else
#define HWHEEL_NODISCARD
#endif

namespace hwheelpp {

/** A timer that has fired, or was handed back or listed; see struct hwheel_event. */
using Event = ::hwheel_event;

/** Counts of a wheel; see struct hwheel_stats. */
using Stats = ::hwheel_stats;

/** The errors of the library: std::errc in the words of hwheel_strerror(). */
class Category : public std::error_category {
public:
	const char *name() const noexcept override { return "hwheel"; }
	std::string message(int code) const override { return ::hwheel_strerror(-code); }
	std::error_condition default_error_condition(int code) const noexcept override
	{
		return std::error_condition(code, std::generic_category());
	}

	static const std::error_category &get() noexcept
	{
		static const Category category;

		return category;
	}
};

/** The error EINVAL of a wheel that is closed or was not opened; it has its own text. */
class ClosedCategory : public Category {
public:
	std::string message(int) const override { return "the wheel is closed"; }

	static const std::error_category &get() noexcept
	{
		static const ClosedCategory category;

		return category;
	}
};

/**
 * Result of a call: a number of 0 or above, which hwheel.h explains, or an error.
 * It does not convert to bool, since 0 is a success.
 */
class Result {
public:
	constexpr explicit Result(int value) noexcept : value_(value), closed_(false) {}

	/** Of a wheel that is closed, or not opened: EINVAL. */
	static constexpr Result closed() noexcept { return Result(-EINVAL, true); }

	constexpr bool ok() const noexcept { return value_ >= 0; }

	/** The number; below 0 it is a negative errno value, as in C. */
	constexpr int value() const noexcept { return value_; }

	/**
	 * The error; none if the call was ok(). Compare it with std::errc, or as that
	 * lacks some, with std::error_condition(ESTALE, std::generic_category()).
	 */
	std::error_code error() const noexcept
	{
		return std::error_code(ok() ? 0 : -value_,
			closed_ ? ClosedCategory::get() : Category::get());
	}

	/** A text that describes the result. */
	const char *words() const noexcept
	{
		return closed_ ? "the wheel is closed" : ::hwheel_strerror(value_);
	}

	/** Whether the wheel is closed, or was not opened. */
	constexpr bool is_closed() const noexcept { return closed_; }

private:
	constexpr Result(int value, bool closed) noexcept : value_(value), closed_(closed) {}

	int value_;
	bool closed_;
};

/** The clock of a wheel, whatever it is; hwheelpp::Wheel::now() reads it. */
struct Clock {
	using duration = std::chrono::nanoseconds;
	using rep = duration::rep;
	using period = duration::period;
	using time_point = std::chrono::time_point<Clock>;
	static constexpr bool is_steady = true;
};

/** A point on a wheel's clock. */
using TimePoint = Clock::time_point;

/**
 * A number of nanoseconds for C: a duration, or the time of a time point since the
 * epoch of its clock. A fraction is rounded up, as a timer is never early.
 * nanoseconds::max(), which is 292 years, or more is never. A negative one is
 * EINVAL in the call that takes it.
 */
class Time {
public:
	constexpr Time() noexcept : ns_(0) {}

	template <class Rep, class Period>
	constexpr Time(std::chrono::duration<Rep, Period> d) noexcept
		: ns_(convert<std::ratio_divide<Period, std::nano>>(
			d.count(),
			std::integral_constant<bool,
				std::is_integral<Rep>::value && sizeof(Rep) <= 8 &&
				std::ratio_divide<Period, std::nano>::den == 1>()))
	{
	}

	template <class Any, class Duration>
	constexpr Time(std::chrono::time_point<Any, Duration> t) noexcept
		: Time(t.time_since_epoch())
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
	/* A number that the library refuses. */
	static constexpr std::uint64_t negative = limit + 1;

	/* Whole nanoseconds each. */
	template <class Scale, class Rep>
	static constexpr std::uint64_t convert(Rep count, std::true_type) noexcept
	{
		return count < 0 ? negative :
			static_cast<std::uint64_t>(count) >= (limit + Scale::num - 1) / Scale::num ?
			HWHEEL_NEVER : static_cast<std::uint64_t>(count) * Scale::num;
	}

	/* Fractions. A count that is not a number is refused, too. */
	template <class Scale, class Rep>
	static constexpr std::uint64_t convert(Rep count, std::false_type) noexcept
	{
		return round_up(static_cast<long double>(count) * Scale::num / Scale::den);
	}

	static constexpr std::uint64_t round_up(long double ns) noexcept
	{
		return !(ns >= 0) ? negative : ns >= static_cast<long double>(limit) ? HWHEEL_NEVER :
			static_cast<std::uint64_t>(ns) +
			(static_cast<long double>(static_cast<std::uint64_t>(ns)) < ns);
	}

	std::uint64_t ns_;
};

constexpr Time Time::never() noexcept
{
	return Time(std::chrono::nanoseconds::max());
}

/**
 * The wheels that a clock fits: @value is the clock of such a wheel, or any. steady_clock is
 * CLOCK_MONOTONIC in libstdc++ and libc++. A call with a time point of another clock does
 * not compile, unless the program has a specialization for that clock:
 *
 *	template <>
 *	struct hwheelpp::Fits<Boottime> {
 *		static constexpr std::uint32_t value = HWHEEL_CLOCK_BOOTTIME;
 *	};
 */
template <class Any>
struct Fits {
	static_assert(sizeof(Any) == 0,
		"specialize hwheelpp::Fits to say which wheels this clock fits");
	static constexpr std::uint32_t value = 0;
};

template <>
struct Fits<Clock> {
	static constexpr std::uint32_t any = UINT32_MAX;
	static constexpr std::uint32_t value = any;
};

template <>
struct Fits<std::chrono::steady_clock> {
	static constexpr std::uint32_t value = HWHEEL_CLOCK_MONOTONIC;
};

template <>
struct Fits<std::chrono::system_clock> {
	static constexpr std::uint32_t value = HWHEEL_CLOCK_REALTIME;
};

/**
 * When a timer fires: after a duration, or at a time point. A time point of
 * std::chrono::steady_clock fits a monotonic wheel, one of system_clock fits a realtime
 * wheel, and a TimePoint fits every wheel. One that does not fit is EINVAL in the call that
 * takes it. Fits names the wheels of another clock.
 */
class When {
public:
	template <class Rep, class Period>
	constexpr When(std::chrono::duration<Rep, Period> delay) noexcept
		: When(Time(delay))
	{
	}

	template <class Any, class Duration>
	constexpr When(std::chrono::time_point<Any, Duration> deadline) noexcept
		: time_(deadline), flags_(HWHEEL_ABS), fits_(Fits<Any>::value)
	{
	}

	constexpr When(Time delay) noexcept
		: time_(delay), flags_(0), fits_(Fits<Clock>::any)
	{
	}

	constexpr std::uint64_t ns() const noexcept { return time_.ns(); }

	/** For C, and a number that it refuses if the clock is not the one of the wheel. */
	constexpr std::uint64_t ns(std::uint32_t clock) const noexcept
	{
		return fits_ == Fits<Clock>::any || clock == Fits<Clock>::any || fits_ == clock ?
			time_.ns() : Time(std::chrono::nanoseconds(-1)).ns();
	}

	constexpr std::uint32_t flags() const noexcept { return flags_; }

private:
	Time time_;
	std::uint32_t flags_;
	std::uint32_t fits_;
};

/** The time of an event's timer; see @deadline_ns of struct hwheel_event. */
inline TimePoint deadline(const Event &event) noexcept
{
	return TimePoint(Time::from(event.deadline_ns));
}

/** A cookie, for a timer that is delivered as an event. */
struct Cookie {
	constexpr explicit Cookie(std::uint64_t bits) noexcept : value(bits) {}

	std::uint64_t value;
};

/**
 * The result of a timer that fires: the wheel writes an event with a Cookie, or calls
 * a callable with the event as a const Event &.
 *
 * The 64 bits of the cookie hold the callable by value, so it is at most that large
 * and trivially copyable: a function pointer, a lambda that captures one pointer or
 * reference, or std::ref() of anything larger, which then outlives the timer. The
 * call is const, on the thread that drives the wheel. An exception that leaves the
 * callable ends the process.
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
 * The handle of a timer, which it does not own. Copy it freely: once the timer is
 * gone, every call gives ESTALE. An empty one gives EINVAL. One that is made of a wheel of C
 * does not know which clocks fit.
 */
class TimerRef {
public:
	constexpr TimerRef() noexcept : TimerRef(nullptr, 0) {}
	constexpr TimerRef(::hwheel *wheel, ::hwheel_timer_t handle,
			   std::uint32_t clock = Fits<Clock>::any) noexcept
		: wheel_(handle ? wheel : nullptr), handle_(handle), clock_(clock)
	{
	}

	::hwheel_timer_t handle() const noexcept { return handle_; }
	bool empty() const noexcept { return handle_ == 0; }

	/** Arm it, or move it. value() is 1 if it was pending, 0 if not. */
	Result mod(When when) const noexcept { return mod(when, 0); }

	/** The same, but only to an earlier time. */
	Result reduce(When when) const noexcept { return mod(when, HWHEEL_REDUCE); }

	/** The same, but only if it is pending. */
	Result mod_if_pending(When when) const noexcept
	{
		return mod(when, HWHEEL_IF_PENDING);
	}

	/** Arm it, or move it, to any time up to @slack after @when. */
	Result mod_range(When when, Time slack) const noexcept
	{
		return Result(::hwheel_timer_mod_range(wheel_, handle_, when.ns(clock_),
			slack.ns(), when.flags()));
	}

	/** hwheel_timer_set_period(). A period of 0 or Time::never() is none. */
	Result set_period(Time period) const noexcept
	{
		return Result(::hwheel_timer_set_period(wheel_, handle_, period.ns()));
	}

	/** hwheel_timer_delete(). value() is 1 if it was pending and will not fire. */
	Result cancel() const noexcept
	{
		return Result(::hwheel_timer_delete(wheel_, handle_));
	}

	/** hwheel_timer_delete_sync(): also wait for its callback. */
	Result cancel_sync() const noexcept
	{
		return Result(::hwheel_timer_delete_sync(wheel_, handle_));
	}

	/** Cancel it for good. */
	Result shutdown() const noexcept
	{
		return Result(::hwheel_timer_shutdown(wheel_, handle_));
	}

	Result shutdown_sync() const noexcept
	{
		return Result(::hwheel_timer_shutdown_sync(wheel_, handle_));
	}

	/** value() is 1 if it is pending, 0 if not. */
	Result pending() const noexcept
	{
		return Result(::hwheel_timer_pending(wheel_, handle_));
	}

	/** Fetches its memory ahead of a call on it; see hwheel_timer_prefetch(). */
	void prefetch() const noexcept
	{
		::hwheel_timer_prefetch(wheel_, handle_);
	}

	/** Like pending(), and if it is pending the time that is left until it fires. */
	Result remaining(std::chrono::nanoseconds &left) const noexcept
	{
		std::uint64_t ns = 0;
		Result result(::hwheel_timer_remaining(wheel_, handle_, &ns));

		if (result.value() == 1)
			left = Time::from(ns);
		return result;
	}

private:
	Result mod(When when, std::uint32_t flags) const noexcept
	{
		return Result(::hwheel_timer_mod(wheel_, handle_, when.ns(clock_),
			when.flags() | flags));
	}

protected:
	::hwheel *wheel_;
	::hwheel_timer_t handle_;
	std::uint32_t clock_;
};

/**
 * A caller's key: a number, a string, or any bytes. The wheel copies the bytes in the
 * call.
 */
class Key {
public:
	template <class Id, class = typename std::enable_if<std::is_integral<Id>::value>::type>
	Key(Id id) noexcept : bytes_(nullptr), size_(sizeof id_),
		id_(static_cast<std::uint64_t>(id))
	{
		static_assert(sizeof id <= sizeof id_, "a number has at most 64 bits");
	}

	Key(const char *text) noexcept : Key(text, text ? std::strlen(text) : 0) {}

	/** A key that is too long, or null, gives EINVAL when it is used. */
	Key(const void *bytes, std::size_t size) noexcept
		: bytes_(bytes), size_(!bytes ? 0 :
			size < 256 ? static_cast<std::uint32_t>(size) : 256),
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

/** How to make a wheel; see struct hwheel_options. Zero is the default. */
struct Options {
	enum class Clock : std::uint32_t {
		monotonic = HWHEEL_CLOCK_MONOTONIC,
		boottime = HWHEEL_CLOCK_BOOTTIME,
		realtime = HWHEEL_CLOCK_REALTIME,
		manual = HWHEEL_CLOCK_MANUAL
	};
	enum class Overload : std::uint32_t {
		run = HWHEEL_OVERLOAD_RUN,
		drop = HWHEEL_OVERLOAD_DROP
	};

	Clock clock = Clock::monotonic;
	Time tick = Time();
	std::uint32_t levels = 0;
	std::uint32_t slots = 0;
	std::uint32_t max_timers = 0;
	Time start = Time();
	std::uint32_t workers = 0;
	std::uint32_t queue = 0;
	Overload overload = Overload::run;
	::hwheel_executor_fn executor = nullptr;
	void *executor_arg = nullptr;
	::hwheel_wake_fn wake = nullptr;
	void *wake_arg = nullptr;
	bool owned = false;
};

/** The treatment of missed periods; see hwheel_every(). */
enum class Missed : std::uint32_t {
	skip = 0,
	burst = HWHEEL_MISSED_BURST,
	delay = HWHEEL_MISSED_DELAY
};

/** How a periodic timer repeats; a duration is a period without slack. */
struct Period {
	template <class Rep, class Ratio>
	constexpr Period(std::chrono::duration<Rep, Ratio> every, Time up_to = Time(),
			 Missed what = Missed::skip) noexcept
		: length(every), slack(up_to), missed(what)
	{
	}

	template <class Rep, class Ratio>
	constexpr Period(std::chrono::duration<Rep, Ratio> every, Missed what) noexcept
		: length(every), slack(), missed(what)
	{
	}

	Time length;
	Time slack;
	Missed missed;
};

/** Bounds of one call that drives, and whether the call left work; zero is no bound. */
struct Run : public ::hwheel_run {
	explicit Run(std::uint64_t fired = 0, Time time = Time()) noexcept : ::hwheel_run()
	{
		size = sizeof(::hwheel_run);
		max_fired = fired;
		max_ns = time.ns();
	}
};

#ifdef HWHEEL_COROUTINES
class Sleep;
#endif

/**
 * Owns a wheel. While it is empty every call but open() and close() gives EINVAL,
 * in the words "the wheel is closed".
 */
class Wheel {
public:
	Wheel() noexcept : wheel_(nullptr), clock_(Fits<Clock>::any) {}
	Wheel(Wheel &&other) noexcept : wheel_(other.release()), clock_(other.clock_) {}
	Wheel &operator=(Wheel &&other) noexcept
	{
		Wheel(std::move(other)).swap(*this);
		return *this;
	}
	Wheel(const Wheel &) = delete;
	Wheel &operator=(const Wheel &) = delete;

	/**
	 * As close(), also for an owned wheel that nobody owns. When that fails, which is a
	 * mistake of the caller, it leaks.
	 */
	~Wheel()
	{
		if (close().value() == -EPERM && own().ok())
			close();
	}

	void swap(Wheel &other) noexcept
	{
		std::swap(wheel_, other.wheel_);
		std::swap(clock_, other.clock_);
	}

	/** The wheel for calls of C. This object still owns it. */
	::hwheel *get() const noexcept { return wheel_; }

	/** Give the wheel to the caller, who owns it from now on. */
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
		o.workers = options.workers;
		o.queue = options.queue;
		o.overload = static_cast<std::uint32_t>(options.overload);
		o.executor = options.executor;
		o.executor_arg = options.executor_arg;
		o.wake = options.wake;
		o.wake_arg = options.wake_arg;
		o.owned = options.owned;
		clock_ = o.clock;
		return Result(::hwheel_create(&o, &wheel_));
	}

	/**
	 * hwheel_destroy(): stop and free the wheel. Pending timers do not fire. EDEADLK
	 * in a callback of this wheel, EBUSY while another thread stops it, EPERM if another
	 * thread owns it or nobody does.
	 */
	Result close() noexcept
	{
		Result result(::hwheel_destroy(wheel_));

		if (result.ok())
			wheel_ = nullptr;
		return result;
	}

	/** Give up an owned wheel, so that another thread can own() it. */
	HWHEEL_NODISCARD Result disown() noexcept { return of(::hwheel_disown(wheel_)); }

	/** Become the owner of a wheel that nobody owns, or whose owner has ended; or EBUSY. */
	HWHEEL_NODISCARD Result own() noexcept { return of(::hwheel_own(wheel_)); }

	/** The clock that the wheel was opened with, for TimerRef. */
	std::uint32_t clock() const noexcept { return clock_; }

	/**
	 * The time on its clock. TimePoint::min() if the wheel is closed or belongs to the
	 * parent of a forked child: a deadline that is made of it is EINVAL.
	 */
	TimePoint now() const noexcept
	{
		std::uint64_t ns = 0;

		return ::hwheel_now(wheel_, &ns) < 0 ? TimePoint::min() :
			TimePoint(Time::from(ns));
	}

	/** Get the time to drive it next; value() is 0 if there is none. */
	Result next_expiry(TimePoint &time) const noexcept
	{
		std::uint64_t ns = 0;
		Result result = of(::hwheel_next_expiry(wheel_, &ns));

		if (result.value() == 1)
			time = TimePoint(Time::from(ns));
		return result;
	}

	Result stats(Stats &stats) const noexcept
	{
		stats.size = sizeof stats;
		return of(::hwheel_get_stats(wheel_, &stats));
	}

	/** Walk over the pending timers; @cursor is 0 before the first call. */
	HWHEEL_NODISCARD Result list(std::uint64_t &cursor, Event *events,
				     std::uint32_t max) const noexcept
	{
		return of(::hwheel_list(wheel_, &cursor, events, max));
	}

	template <std::size_t N>
	HWHEEL_NODISCARD Result list(std::uint64_t &cursor, Event (&events)[N]) const noexcept
	{
		return list(cursor, events, static_cast<std::uint32_t>(N));
	}

	/**
	 * Makes a timer that fires once and frees itself. It may fire before @timer is
	 * set: its callback uses the timer of the event. Without @timer any thread may call
	 * this on an owned wheel: the target is called in the owner.
	 */
	HWHEEL_NODISCARD Result once(When when, Target target,
				     TimerRef *timer = nullptr) noexcept
	{
		::hwheel_timer_t handle = 0;

		return put(timer, handle, ::hwheel_once(wheel_, when.ns(clock_), target.fn(),
			target.cookie(), when.flags(), timer ? &handle : nullptr));
	}

	/** Makes a timer that fires periodically until it is cancelled; @timer as above. */
	HWHEEL_NODISCARD Result every(When first, Period period, Target target,
				      TimerRef *timer = nullptr) noexcept
	{
		::hwheel_timer_t handle = 0;

		return put(timer, handle, ::hwheel_every(wheel_, first.ns(clock_),
			period.length.ns(), period.slack.ns(), target.fn(),
			target.cookie(),
			first.flags() | static_cast<std::uint32_t>(period.missed),
			&handle));
	}

	/* A Timer would lose the timer that it owns. */
	template <class Owner>
	Result once(When when, Target target, Owner *timer) = delete;
	template <class Owner>
	Result every(When first, Period period, Target target, Owner *timer) = delete;

#ifdef HWHEEL_COROUTINES
	/** co_await it in a coroutine, which continues in a callback; see Sleep. */
	HWHEEL_NODISCARD Sleep sleep(When when) noexcept;
#endif

	/**
	 * Arm or move many timers, by their handles. value() is the number of timers
	 * whose result is 0 or 1. @flags and @results are as in C.
	 */
	Result mod_many(const ::hwheel_timer_t *timers, const std::uint64_t *times_ns,
			std::uint32_t count, std::uint32_t flags = 0,
			std::int32_t *results = nullptr) noexcept
	{
		return of(::hwheel_timer_mod_many(wheel_, timers, times_ns, count, flags,
			results));
	}

	/** Cancel many timers, by their handles. value() is the number that existed. */
	Result cancel_many(const ::hwheel_timer_t *timers, std::uint32_t count,
			   std::int32_t *results = nullptr) noexcept
	{
		return of(::hwheel_timer_delete_many(wheel_, timers, count, results));
	}

	/**
	 * Give a key a timer that fires once, in place of its pending one. value() is 1
	 * if the key had a pending timer, 0 if not.
	 */
	HWHEEL_NODISCARD Result set(const Key &key, When when, Target target) noexcept
	{
		return of(::hwheel_key_set(wheel_, key.data(), key.size(), when.ns(clock_),
			target.fn(), target.cookie(), when.flags()));
	}

	/** Move the pending timer of a key. value() is 0 if the key has none. */
	Result move(const Key &key, When when) noexcept
	{
		return of(::hwheel_key_mod(wheel_, key.data(), key.size(), when.ns(clock_),
			when.flags()));
	}

	/** Cancel the pending timer of a key. value() is 0 if the key has none. */
	Result cancel(const Key &key) noexcept
	{
		return of(::hwheel_key_delete(wheel_, key.data(), key.size()));
	}

	/** value() is 1 if the key has a pending timer, 0 if not. */
	Result pending(const Key &key) const noexcept
	{
		return of(::hwheel_key_pending(wheel_, key.data(), key.size()));
	}

	/** Move a manual clock and fire what is due; value() is the number of events. */
	Result advance(Time now, Run *run = nullptr) noexcept
	{
		return advance(now, nullptr, 0, run);
	}

	Result advance(Time now, Event *events, std::uint32_t max, Run *run = nullptr) noexcept
	{
		return of(::hwheel_advance(wheel_, now.ns(), events, max, run));
	}

	template <std::size_t N>
	Result advance(Time now, Event (&events)[N], Run *run = nullptr) noexcept
	{
		return advance(now, events, static_cast<std::uint32_t>(N), run);
	}

	/** Fire what is due on a system clock; value() is the number of events. */
	Result poll(Run *run = nullptr) noexcept { return poll(nullptr, 0, run); }

	Result poll(Event *events, std::uint32_t max, Run *run = nullptr) noexcept
	{
		return of(::hwheel_poll(wheel_, events, max, run));
	}

	template <std::size_t N>
	Result poll(Event (&events)[N], Run *run = nullptr) noexcept
	{
		return poll(events, static_cast<std::uint32_t>(N), run);
	}

	/** value() is a descriptor that becomes readable when a timer is due. */
	Result fd() noexcept { return of(::hwheel_fd(wheel_)); }

	/** Start and stop the tick thread. */
	HWHEEL_NODISCARD Result start() noexcept
	{
		return of(::hwheel_start(wheel_));
	}

	Result stop() noexcept { return of(::hwheel_stop(wheel_)); }

	/** Run one callback that waits for a worker or the executor. */
	Result run_queued() noexcept { return of(::hwheel_run_queued(wheel_)); }

	/** Shut it down and get every pending timer back. */
	HWHEEL_NODISCARD Result drain(Event *events, std::uint32_t max) noexcept
	{
		return of(::hwheel_drain(wheel_, events, max));
	}

	template <std::size_t N>
	HWHEEL_NODISCARD Result drain(Event (&events)[N]) noexcept
	{
		return drain(events, static_cast<std::uint32_t>(N));
	}

private:
	/* C has one error for a wheel that is null and for a bad argument. */
	Result of(int code) const noexcept { return wheel_ ? Result(code) : Result::closed(); }

	/* @handle is a reference, as the call that sets it is an argument too. */
	Result put(TimerRef *timer, const ::hwheel_timer_t &handle, int code) noexcept
	{
		if (timer && code >= 0)
			*timer = TimerRef(wheel_, handle, clock_);
		return of(code);
	}

	::hwheel *wheel_;
	std::uint32_t clock_;
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
		std::swap(clock_, other.clock_);
	}

	/** Make the timer, not pending; EBUSY if there is one already. */
	HWHEEL_NODISCARD Result setup(Wheel &wheel, Target target) noexcept
	{
		if (!empty())
			return Result(-EBUSY);
		if (!wheel.get())
			return Result::closed();

		Result result(::hwheel_timer_setup(wheel.get(), target.fn(), target.cookie(),
			&handle_));

		if (result.ok()) {
			wheel_ = wheel.get();
			clock_ = wheel.clock();
		}
		return result;
	}

	/**
	 * Cancel it, wait for its callback, and free it. Its own callback does not wait,
	 * and continues.
	 */
	void reset() noexcept
	{
		if (empty())
			return;
		shutdown_sync();
		::hwheel_timer_free(wheel_, handle_);
		forget();
	}

private:
	void forget() noexcept
	{
		wheel_ = nullptr;
		handle_ = 0;
	}
};

#ifdef HWHEEL_COROUTINES
/**
 * Result of Wheel::sleep(), to co_await: a Result, which is an error if no timer could be
 * armed, and then the coroutine continues at once. It also does if the time has passed: a
 * delay of zero, or a deadline that is not after Wheel::now(). Otherwise it continues when
 * the timer fires, in the callback. After a drain it stays suspended, and so it does if its
 * callback is dropped because the queue is full (Overload::drop).
 *
 * A suspended coroutine may be destroyed, which cancels its timer, if no callback of the
 * wheel can run meanwhile: no thread drives it, and no worker or executor has a callback
 * left, as after Wheel::stop(). It must be destroyed before its wheel is closed.
 */
class Sleep {
public:
	Sleep(Wheel &wheel, When when) noexcept : wheel_(wheel), when_(when), result_(0) {}

	bool await_ready() noexcept
	{
		const std::uint64_t ns = when_.ns(wheel_.clock());
		const TimePoint now = when_.flags() & HWHEEL_ABS ? wheel_.now() : TimePoint();

		result_ = wheel_.get() ? Result(0) : Result::closed();
		return result_.ok() && Time::from(ns) <= now.time_since_epoch();
	}

	bool await_suspend(std::coroutine_handle<> coroutine) noexcept
	{
		timer_.reset();
		result_ = timer_.setup(wheel_, [coroutine](const Event &) { coroutine.resume(); });
		if (!result_.ok())
			return false;

		/* From here on the coroutine, and this object, may be gone. */
		const Result armed = timer_.mod(when_);

		if (!armed.ok())
			result_ = armed;
		return armed.ok();
	}

	Result await_resume() const noexcept { return result_; }

private:
	Wheel &wheel_;
	When when_;
	Result result_;
	Timer timer_;
};

inline Sleep Wheel::sleep(When when) noexcept { return Sleep(*this, when); }
#endif

inline void swap(Wheel &a, Wheel &b) noexcept { a.swap(b); }
inline void swap(Timer &a, Timer &b) noexcept { a.swap(b); }

} /* namespace hwheelpp */

#undef HWHEEL_NODISCARD
#undef HWHEEL_COROUTINES

#endif /* HWHEEL_HPP */
