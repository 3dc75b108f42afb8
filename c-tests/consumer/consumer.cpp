// A program outside the tree, in C++: it arms a timer and says which library it has.
#include <cstdio>
#include <hwheel.hpp>

int main()
{
	hwheelpp::Wheel wheel;

	if (!wheel.open().ok() ||
	    !wheel.once(std::chrono::microseconds(1), hwheelpp::Cookie(7)).ok())
		return 1;
	std::puts(hwheel_version_string());
	return wheel.close().value();
}
