/* The smallest program: a request that times out, and one that does not. */
#include <cstdio>
#include <hwheel.hpp>
#include <thread>

int main()
{
	hwheelpp::Wheel wheel;
	hwheelpp::TimerRef second;

	if (!wheel.open().ok() || !wheel.start().ok())
		return 1;

	auto first_timed_out = [](const hwheelpp::Event &) {
		std::puts("request 1 timed out");
	};
	auto second_timed_out = [](const hwheelpp::Event &) {
		std::puts("request 2 timed out");
	};
	if (!wheel.once(std::chrono::milliseconds(50), first_timed_out).ok() ||
	    !wheel.once(std::chrono::milliseconds(50), second_timed_out, &second).ok())
		return 1;
	second.cancel(); /* request 2 was answered in time */
	std::this_thread::sleep_for(std::chrono::milliseconds(100));
	return wheel.close().ok() ? 0 : 1;
}
