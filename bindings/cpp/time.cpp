/* Durations become nanoseconds: never early, never wrapped, and never negative. */
#include "check.hpp"
#include <limits>

using hwheelpp::Cookie;
using hwheelpp::Missed;
using hwheelpp::Options;
using hwheelpp::Period;
using hwheelpp::Time;
using hwheelpp::TimePoint;
using hwheelpp::When;
using namespace std::chrono;

/* Clocks of the program. */
struct Boottime {};
struct Game {};

namespace hwheelpp {
template <>
struct Fits<Boottime> {
	static constexpr std::uint32_t value = HWHEEL_CLOCK_BOOTTIME;
};

template <>
struct Fits<Game> : Fits<Clock> {};
} /* namespace hwheelpp */

static_assert(Time().ns() == 0, "zero");
static_assert(Time(nanoseconds(1)).ns() == 1, "nanoseconds");
static_assert(Time(hours(1)).ns() == 3600000000000, "hours");
/* A number that the library refuses. */
static const std::uint64_t negative = UINT64_C(1) << 63;
static_assert(Time(nanoseconds(-1)).ns() == negative, "negative");
static_assert(Time(nanoseconds::min()).ns() == negative, "most negative");
static_assert(Time(nanoseconds::max()).ns() == HWHEEL_NEVER, "never");
static_assert(Time(nanoseconds::max() - nanoseconds(1)).ns() == INT64_MAX - 1,
	"just below never");
static_assert(Time(hours::max()).ns() == HWHEEL_NEVER, "far above never");
static_assert(Time::never().ns() == HWHEEL_NEVER, "never by name");

/* The last whole second below never, and the first above. */
static_assert(Time(seconds(9223372036)).ns() == 9223372036000000000, "exact");
static_assert(Time(seconds(9223372037)).ns() == HWHEEL_NEVER, "saturated");

/* Fractions go up: a timer that is rounded down is early. */
static_assert(Time(duration<long, std::pico>(1)).ns() == 1, "a picosecond");
static_assert(Time(duration<long, std::pico>(1000)).ns() == 1, "a thousand");
static_assert(Time(duration<long, std::pico>(1001)).ns() == 2, "and one more");
static_assert(Time(duration<int, std::ratio<1, 60>>(1)).ns() == 16666667, "a frame");
static_assert(Time(duration<double>(0.5)).ns() == 500000000, "half a second");
static_assert(Time(duration<double>(1e300)).ns() == HWHEEL_NEVER, "huge");
static_assert(Time(duration<double>(-1e300)).ns() == negative, "huge and negative");
static_assert(Time(duration<unsigned char>(255)).ns() == 255000000000, "a small type");

#ifdef __SIZEOF_INT128__
/* With -std=gnu++ an integral type, too. */
__extension__ typedef __int128 Wide;
static_assert(Time(duration<Wide, std::nano>(static_cast<Wide>(1) << 64)).ns() == HWHEEL_NEVER,
	"wider than 64 bits");
static_assert(Time(duration<Wide, std::nano>(INT64_MAX - 1)).ns() == INT64_MAX - 1, "exact");
static_assert(Time(duration<Wide>(-1)).ns() == negative, "wide and negative");
#endif

static_assert(Time::from(HWHEEL_NEVER) == nanoseconds::max(), "never comes back");
static_assert(Time::from(5) == nanoseconds(5), "and the rest as it is");

/* A duration is a delay, a time point a deadline. */
static_assert(When(seconds(1)).flags() == 0 && When(seconds(1)).ns() == 1000000000, "delay");
static_assert(When(TimePoint(seconds(1))).flags() == HWHEEL_ABS, "deadline");
static_assert(When(system_clock::time_point(seconds(1))).ns() == 1000000000, "any clock's");
static_assert(When(hwheelpp::Time::never()).ns() == HWHEEL_NEVER, "never");

/* A period is a duration of any kind, too. */
static_assert(Period(hours::max(), Missed::burst).length.ns() == HWHEEL_NEVER, "saturated");
static_assert(Period(duration<double>(0.5), Missed::delay).length.ns() == 500000000, "half");

static void refuses_negative_times()
{
	hwheelpp::Wheel wheel = manual();
	hwheelpp::Timer timer;

	CHECK(timer.setup(wheel, Cookie(1)).ok());
	CHECK(timer.mod(milliseconds(-1)).error() == std::errc::invalid_argument);
	CHECK(timer.mod(TimePoint(milliseconds(-1))).value() == -EINVAL);
	CHECK(timer.mod_range(seconds(1), seconds(-1)).value() == -EINVAL);
	CHECK(wheel.once(duration<double>(-0.5), Cookie(2)).value() == -EINVAL);
	CHECK(wheel.every(seconds(1), seconds(-1), Cookie(2)).value() == -EINVAL);
	CHECK(wheel.set("key", seconds(-1), Cookie(2)).value() == -EINVAL);
	CHECK(wheel.advance(seconds(-1)).value() == -EINVAL);
	CHECK(timer.pending().value() == 0);
}

/* A deadline counts on the clock of the wheel, which refuses those of others. */
static void refuses_another_clock()
{
	const steady_clock::time_point steady = steady_clock::now() + hours(1);
	const system_clock::time_point system = system_clock::now() + hours(1);
	const time_point<Boottime, hours> boot(hours(1000000));
	const time_point<Game, hours> game(hours(1000000));
	const Options::Clock clocks[] = { Options::Clock::monotonic, Options::Clock::boottime,
		Options::Clock::realtime, Options::Clock::manual };

	for (Options::Clock clock : clocks) {
		const bool fits_steady = clock == Options::Clock::monotonic;
		const bool fits_system = clock == Options::Clock::realtime;
		Options options;
		hwheelpp::Wheel opened;
		hwheelpp::Timer made;
		hwheelpp::TimerRef ref;

		options.clock = clock;
		CHECK(opened.open(options).ok() && made.setup(opened, Cookie(1)).ok());

		/* Also when they have moved. */
		hwheelpp::Wheel wheel(std::move(opened));
		hwheelpp::Timer timer;
		timer = std::move(made);
		CHECK(timer.mod(steady).value() == (fits_steady ? 0 : -EINVAL));
		CHECK(timer.mod(system).ok() == fits_system);
		CHECK(timer.reduce(system).ok() == fits_system);
		CHECK(timer.mod(boot).ok() == (clock == Options::Clock::boottime));
		CHECK(timer.mod(game).ok());
		CHECK(timer.mod_range(steady, seconds(1)).ok() == fits_steady);
		CHECK(timer.mod(wheel.now() + hours(1)).ok() && timer.pending().value() == 1);
		CHECK(wheel.once(system, Cookie(2)).ok() == fits_system);
		CHECK(wheel.every(steady, seconds(1), Cookie(3)).ok() == fits_steady);
		CHECK(wheel.set("key", system, Cookie(4)).ok() == fits_system);
		CHECK(wheel.set("key", wheel.now() + hours(1), Cookie(4)).ok());
		CHECK(wheel.move("key", steady).ok() == fits_steady);
		CHECK(wheel.once(hours(1), Cookie(5), &ref).ok());
		CHECK(ref.mod(system).ok() == fits_system);
		timer.reset();
	}
}

int main()
{
	typedef std::numeric_limits<double> Double;

	CHECK(Time(duration<double>(Double::infinity())).ns() == HWHEEL_NEVER);
	CHECK(Time(duration<double>(Double::quiet_NaN())).ns() == negative);
	CHECK(Time(duration<double, std::nano>(Double::denorm_min())).ns() == 1);
	CHECK(Time(steady_clock::now().time_since_epoch()).ns() > 0);
	refuses_negative_times();
	refuses_another_clock();
}
