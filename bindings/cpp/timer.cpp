/* A Timer owns its timer: arm, move, cancel, hand over, clean up. */
#include "check.hpp"
#include <string>

using hwheelpp::Cookie;
using hwheelpp::Event;
using hwheelpp::Result;
using hwheelpp::Timer;
using hwheelpp::TimePoint;
using hwheelpp::TimerRef;
using hwheelpp::Wheel;
using namespace std::chrono;

static_assert(std::is_nothrow_move_constructible<Timer>::value, "moves");
static_assert(std::is_nothrow_move_assignable<Timer>::value, "moves");
static_assert(std::is_nothrow_destructible<Timer>::value, "ends quietly");
static_assert(!std::is_copy_constructible<Timer>::value, "has one owner");
static_assert(!std::is_copy_assignable<Timer>::value, "has one owner");
static_assert(std::is_trivially_copyable<TimerRef>::value, "is only a name");

static bool is(Result result, int code)
{
	return !result.ok() && result.error().value() == code &&
		result.error() == std::error_condition(code, std::generic_category()) &&
		result.error().message() == result.words() &&
		result.value() == -code;
}

static std::uint64_t live(const Wheel &wheel)
{
	hwheelpp::Stats stats;

	CHECK(wheel.stats(stats).ok());
	return stats.live;
}

static void arms_and_cancels()
{
	Wheel wheel = manual();
	Timer timer;
	Event events[4];
	nanoseconds left(0);

	CHECK(timer.setup(wheel, Cookie(7)).ok());
	CHECK(timer.pending().value() == 0);
	CHECK(timer.remaining(left).value() == 0 && left.count() == 0);
	CHECK(timer.mod(milliseconds(5)).value() == 0);
	CHECK(timer.mod(milliseconds(9)).value() == 1);
	CHECK(timer.remaining(left).value() == 1 && left == milliseconds(9));
	CHECK(timer.reduce(milliseconds(20)).value() == 1);
	CHECK(timer.remaining(left).value() == 1 && left == milliseconds(9));
	CHECK(timer.reduce(TimePoint(milliseconds(3))).value() == 1);
	CHECK(wheel.advance(microseconds(2999), events).value() == 0);
	CHECK(wheel.advance(milliseconds(3), events).value() == 1);
	CHECK(events[0].cookie == 7 && hwheelpp::deadline(events[0]) == TimePoint(milliseconds(3)));
	CHECK(events[0].timer == timer.handle());

	CHECK(timer.mod_if_pending(milliseconds(1)).value() == 0);
	CHECK(timer.mod(TimePoint(milliseconds(5))).value() == 0);
	CHECK(timer.mod_if_pending(milliseconds(7)).value() == 1);
	CHECK(timer.mod_if_pending(TimePoint(milliseconds(11))).value() == 1);
	CHECK(timer.cancel().value() == 1);
	CHECK(timer.cancel_sync().value() == 0);
	CHECK(wheel.advance(seconds(1), events).value() == 0);

	CHECK(timer.mod(hwheelpp::Time::never()).value() == 0);
	CHECK(timer.remaining(left).value() == 1 && left == nanoseconds::max());
	CHECK(timer.shutdown().value() == 1);
	CHECK(timer.shutdown_sync().value() == 0);
	CHECK(is(timer.mod(seconds(1)), ESHUTDOWN));
	CHECK(timer.mod(seconds(1)).words() == std::string(hwheel_strerror(-ESHUTDOWN)));
}

static void gets_and_loses_a_period()
{
	Wheel wheel = manual();
	Timer timer;
	Event events[4];

	CHECK(timer.setup(wheel, Cookie(1)).ok());
	CHECK(is(timer.set_period(milliseconds(-1)), EINVAL));
	CHECK(timer.set_period(milliseconds(2)).ok());
	CHECK(timer.mod(milliseconds(1)).value() == 0);
	CHECK(wheel.advance(milliseconds(1), events).value() == 1);
	CHECK(wheel.advance(milliseconds(3), events).value() == 1);
	CHECK(timer.set_period(hwheelpp::Time()).ok());
	CHECK(wheel.advance(milliseconds(5), events).value() == 1);
	CHECK(wheel.advance(milliseconds(9), events).value() == 0);
	CHECK(timer.pending().value() == 0);
}

static void frees_at_the_end_of_its_scope()
{
	Wheel wheel = manual();
	TimerRef ref;
	Event events[1];

	{
		Timer timer;

		CHECK(timer.setup(wheel, Cookie(1)).ok());
		CHECK(is(timer.setup(wheel, Cookie(2)), EBUSY));
		CHECK(timer.mod(milliseconds(1)).ok());
		ref = timer;
		CHECK(ref.pending().value() == 1);
		CHECK(live(wheel) == 1);
	}
	CHECK(is(ref.pending(), ESTALE));
	CHECK(live(wheel) == 0);
	CHECK(wheel.advance(seconds(1), events).value() == 0);
}

static void has_one_owner_at_a_time()
{
	Wheel wheel = manual();
	Timer a, c;

	CHECK(a.setup(wheel, Cookie(1)).ok());
	CHECK(c.setup(wheel, Cookie(2)).ok());
	CHECK(a.mod(milliseconds(1)).ok());
	const TimerRef first = a, second = c;

	Timer b(std::move(a));
	CHECK(a.empty() && b.handle() == first.handle());
	CHECK(b.pending().value() == 1);
	c = std::move(b);
	CHECK(b.empty() && c.handle() == first.handle());
	CHECK(is(second.pending(), ESTALE)); /* what c owned is gone */
	swap(a, c);
	CHECK(c.empty() && a.pending().value() == 1);
	a.reset();
	a.reset();
	CHECK(a.empty() && live(wheel) == 0);
}

static void is_an_error_while_empty()
{
	Timer timer;
	nanoseconds left(-1);

	CHECK(timer.empty());
	CHECK(is(timer.mod(seconds(1)), EINVAL));
	CHECK(is(timer.cancel(), EINVAL));
	Wheel any = manual();
	CHECK(is(hwheelpp::TimerRef(any.get(), 0).cancel(), EINVAL));
	CHECK(is(timer.remaining(left), EINVAL) && left.count() == -1);

	Wheel none;
	CHECK(is(timer.setup(none, Cookie(1)), EINVAL));
	CHECK(timer.empty());
}

/* An object whose timer deletes it: the timer ends in its own callback. */
struct Session {
	static int alive;
	Timer timer;

	explicit Session(Wheel &wheel)
	{
		++alive;
		CHECK(timer.setup(wheel, [this](const Event &) { delete this; }).ok());
		CHECK(timer.mod(milliseconds(1)).ok());
	}
	~Session() { --alive; }
};
int Session::alive;

static void may_end_in_its_own_callback()
{
	Wheel wheel = manual();

	new Session(wheel);
	CHECK(wheel.advance(microseconds(999)).ok() && Session::alive == 1);
	CHECK(wheel.advance(milliseconds(1)).ok() && Session::alive == 0);
	CHECK(live(wheel) == 0);
}

static void stays_good_when_its_wheel_is_moved()
{
	Wheel wheel = manual();
	Timer timer;
	Event events[1];

	CHECK(timer.setup(wheel, Cookie(5)).ok());
	Wheel other(std::move(wheel));
	CHECK(!wheel.get() && is(wheel.poll(), EINVAL));
	CHECK(timer.mod(milliseconds(1)).ok());
	CHECK(other.advance(milliseconds(1), events).value() == 1);
	timer.reset();
}

int main()
{
	arms_and_cancels();
	gets_and_loses_a_period();
	frees_at_the_end_of_its_scope();
	has_one_owner_at_a_time();
	is_an_error_while_empty();
	may_end_in_its_own_callback();
	stays_good_when_its_wheel_is_moved();
}
