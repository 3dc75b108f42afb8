/*
 * Code that a compiler must refuse. binding.sh builds this with -DREFUSED=0, which
 * compiles, and then with each number that must not.
 */
#include <functional>
#include <hwheel.hpp>
#include <memory>

/* As large as a cookie, but it owns something. */
struct Owner {
	std::unique_ptr<int> owned;

	void operator()(const hwheelpp::Event &) const {}
};

void refused(hwheelpp::Wheel &wheel, hwheelpp::Timer &timer)
{
	int a = 0, b = 0;

#if REFUSED == 0
	(void)timer.setup(wheel, [&a](const hwheelpp::Event &) { a = 1; });
#elif REFUSED == 1 /* larger than the cookie */
	(void)timer.setup(wheel, [&a, &b](const hwheelpp::Event &) { a = b; });
#elif REFUSED == 2 /* copying its bytes does not copy it */
	(void)timer.setup(wheel, Owner());
#elif REFUSED == 3 /* its changes would be lost */
	(void)timer.setup(wheel, [a](const hwheelpp::Event &) mutable { a++; });
#elif REFUSED == 4 /* a temporary */
	(void)timer.setup(wheel, std::ref([](const hwheelpp::Event &) {}));
#elif REFUSED == 5 /* a number is not a duration */
	(void)timer.mod(50);
#elif REFUSED == 6 /* a number is not a target */
	(void)timer.setup(wheel, 7);
#elif REFUSED == 7 /* an error is not a bool */
	if (timer.mod(std::chrono::seconds(1)))
		return;
#elif REFUSED == 8 /* two owners */
	hwheelpp::Timer copy(timer);
#elif REFUSED == 9 /* a number of 128 bits would be cut */
	__extension__ typedef __int128 Wide;

	(void)wheel.pending(static_cast<Wide>(7));
#elif REFUSED == 10 /* a Timer owns what it has set up */
	(void)wheel.once(std::chrono::seconds(1), hwheelpp::Cookie(1), &timer);
#elif REFUSED == 11 /* the same */
	(void)wheel.every(std::chrono::seconds(1), std::chrono::seconds(1),
		hwheelpp::Cookie(1), &timer);
#elif REFUSED == 12 /* a clock without a specialization of Fits */
	(void)timer.mod(std::chrono::time_point<Owner, std::chrono::seconds>());
#endif
	(void)wheel, (void)timer, (void)a, (void)b;
}
