/* A test is a program: it ends at the first check that does not hold. */
#ifndef CHECK_HPP
#define CHECK_HPP

#include <cstdio>
#include <cstdlib>
#include <hwheel.hpp>

#define CHECK(cond) do { \
	if (!(cond)) { \
		std::fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #cond); \
		std::exit(1); \
	} \
} while (0)

/* A wheel with a clock of its own and ticks of a microsecond, at time 0. */
inline hwheelpp::Wheel manual()
{
	hwheelpp::Wheel wheel;
	hwheelpp::Options options;

	options.clock = hwheelpp::Options::Clock::manual;
	options.tick = std::chrono::microseconds(1);
	CHECK(wheel.open(options).ok());
	return wheel;
}

#endif
