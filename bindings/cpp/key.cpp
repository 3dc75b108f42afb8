/* Timers by key: numbers, strings and bytes. */
#include "check.hpp"
#include <string>
#include <vector>
#if __cplusplus >= 201703L
#include <string_view>
#endif

using hwheelpp::Cookie;
using hwheelpp::Event;
using hwheelpp::Key;
using hwheelpp::TimePoint;
using hwheelpp::Wheel;
using namespace std::chrono;

static void sets_moves_and_cancels()
{
	Wheel wheel = manual();
	Event events[4];

	CHECK(wheel.pending("a").value() == 0);
	CHECK(wheel.set("a", milliseconds(5), Cookie(1)).value() == 0);
	CHECK(wheel.set("a", milliseconds(9), Cookie(2)).value() == 1);
	CHECK(wheel.pending("a").value() == 1 && wheel.pending("b").value() == 0);
	CHECK(wheel.move("a", milliseconds(20)).value() == 1);
	CHECK(wheel.move("b", milliseconds(20)).value() == 0);
	CHECK(wheel.advance(milliseconds(10), events).value() == 0);
	CHECK(wheel.move("a", TimePoint(milliseconds(12))).value() == 1);
	CHECK(wheel.advance(milliseconds(12), events).value() == 1);
	CHECK(events[0].cookie == 2 && events[0].timer == 0);
	CHECK(wheel.cancel("a").value() == 0);
	CHECK(wheel.set("a", TimePoint(milliseconds(15)), Cookie(3)).value() == 0);
	CHECK(wheel.cancel("a").value() == 1);
	CHECK(wheel.advance(seconds(1), events).value() == 0);
}

static void takes_keys_of_any_kind()
{
	Wheel wheel = manual();
	const std::uint64_t id = 7;
	const std::string text("a\0b", 3), longest(255, 'x'), longer(256, 'x');
	const std::vector<unsigned char> bytes(3, 'y');
	int fired = 0;
	auto count = [&fired](const Event &) { fired++; };

	CHECK(wheel.set(7, seconds(1), count).value() == 0);
	CHECK(wheel.pending(id).value() == 1);
	CHECK(wheel.pending(Key(&id, sizeof id)).value() == 1);
	CHECK(wheel.set(text, seconds(1), count).value() == 0);
	CHECK(wheel.pending("a").value() == 0);
	CHECK(wheel.set(bytes, seconds(1), count).value() == 0);
	CHECK(wheel.pending("yyy").value() == 1);
#if __cplusplus >= 201703L
	CHECK(wheel.pending(std::string_view("yyyy").substr(1)).value() == 1);
#endif
	CHECK(wheel.set(longest, seconds(1), count).value() == 0);
	CHECK(wheel.set(longer, seconds(1), count).value() == -EINVAL);
	CHECK(wheel.set("", seconds(1), count).value() == -EINVAL);
	CHECK(wheel.advance(seconds(1)).value() == 0 && fired == 4);
}

int main()
{
	sets_moves_and_cancels();
	takes_keys_of_any_kind();
}
