/* A callable is anything that fits into the cookie. It is called as it was given. */
#include "check.hpp"
#include <functional>

using hwheelpp::Event;
using hwheelpp::Target;
using hwheelpp::Wheel;
using namespace std::chrono;

static_assert(noexcept(Target(hwheelpp::Cookie(1))), "does not throw");

static void fire(Wheel &wheel, Target target)
{
	const hwheelpp::TimePoint now = wheel.now();

	CHECK(wheel.once(milliseconds(1), target).ok());
	CHECK(wheel.advance(now + milliseconds(2)).value() == 0);
}

static int calls;
static void count(const Event &) { ++calls; }

struct Counter {
	int calls;

	void hit(const Event &) { ++calls; }
};

/* Larger than a cookie, and not to be copied. */
struct Large {
	int calls = 0;
	char more[100] = {};

	Large() = default;
	Large(const Large &) = delete;
	void operator()(const Event &) { ++calls; }
};

int main()
{
	Wheel wheel = manual();

	fire(wheel, count);
	fire(wheel, [](const Event &) { ++calls; });
	CHECK(calls == 2);

	int local = 0;
	fire(wheel, [&local](const Event &) { ++local; });
	CHECK(local == 1);

	Counter counter = { 0 };
	fire(wheel, [&counter](const Event &e) { counter.hit(e); });
	CHECK(counter.calls == 1);

	Large large;
	fire(wheel, std::ref(large));
	fire(wheel, std::ref(large));
	CHECK(large.calls == 2);

	static int sum;
	short a = 1000, b = -7, c = 3;
	fire(wheel, [a, b, c](const Event &) { sum = a + b + c; });
	CHECK(sum == 996);

	/* The event is the wheel's own. */
	static Event seen;
	hwheelpp::TimerRef timer;
	CHECK(wheel.once(hwheelpp::TimePoint(seconds(1)), [](const Event &e) { seen = e; }, &timer).ok());
	CHECK(wheel.advance(seconds(1)).ok());
	CHECK(seen.timer == timer.handle() && hwheelpp::deadline(seen).time_since_epoch() == seconds(1));
}
