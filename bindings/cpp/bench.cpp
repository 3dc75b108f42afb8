/*
 * Events per second: by batches, and by one callback for each timer. The best
 * of thirty rounds; a round is a hundred thousand timers over a thousand ticks.
 */
#include "check.hpp"
#include <algorithm>

using namespace std::chrono;

static const std::uint64_t timers = 100000;
static const milliseconds end(1000);
static std::uint64_t total;

static void by_batch(hwheelpp::Wheel &wheel)
{
	hwheelpp::Event events[1024];
	int n;

	do {
		n = wheel.advance(end, events).value();
		for (int i = 0; i < n; i++)
			total += events[i].cookie;
	} while (n == 1024);
}

static void by_callback(hwheelpp::Wheel &wheel)
{
	CHECK(wheel.advance(end).ok());
}

/* Best rate of thirty rounds of firing timers whose target @make gives. */
template <class Make>
static double rate(Make make, void (*fire)(hwheelpp::Wheel &))
{
	double best = 0;

	for (int round = 0; round < 30; round++) {
		hwheelpp::Wheel wheel;
		hwheelpp::Options options;

		options.clock = hwheelpp::Options::Clock::manual;
		CHECK(wheel.open(options).ok());
		for (std::uint64_t i = 0; i < timers; i++)
			CHECK(wheel.once(hwheelpp::TimePoint(milliseconds(i % 1000)), make(i)).ok());
		total = 0;

		const steady_clock::time_point begin = steady_clock::now();
		fire(wheel);
		const duration<double> took = steady_clock::now() - begin;

		CHECK(total == timers * (timers - 1) / 2);
		best = std::max(best, static_cast<double>(timers) / took.count());
	}
	return best;
}

static hwheelpp::Target event(std::uint64_t i)
{
	return hwheelpp::Cookie(i);
}

static hwheelpp::Target callback(std::uint64_t i)
{
	return [i](const hwheelpp::Event &) { total += i; };
}

int main()
{
	std::printf("batch %.0f\n", rate(event, by_batch));
	std::printf("callback %.0f\n", rate(callback, by_callback));
}
