/*
 * Calls in every order and from every thread that hwheel.hpp allows: none of them ends
 * the process, and none hangs.
 */
#include "check.hpp"
#include <algorithm>
#include <atomic>
#include <functional>
#include <limits>
#include <memory>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>
#include <vector>

using hwheelpp::Cookie;
using hwheelpp::Event;
using hwheelpp::Key;
using hwheelpp::Options;
using hwheelpp::Result;
using hwheelpp::Time;
using hwheelpp::Timer;
using hwheelpp::TimePoint;
using hwheelpp::TimerRef;
using hwheelpp::Wheel;
using namespace std::chrono;

/* Every call of a wheel but those that end it; @see gets each result. */
template <class See>
static void every_call(Wheel &wheel, TimerRef timer, See see)
{
	Event events[2];
	TimePoint now;
	nanoseconds left;
	hwheelpp::Stats stats;
	std::uint64_t cursor = 0;
	const std::uint64_t times[1] = { 5 };
	::hwheel_timer_t handles[1] = { timer.handle() };
	Timer made;

	see(made.setup(wheel, Cookie(0)));
	see(wheel.once(milliseconds(1), Cookie(1)));
	see(wheel.every(milliseconds(1), seconds(1), Cookie(2)));
	see(wheel.mod_many(handles, times, 1));
	see(wheel.cancel_many(handles, 1));
	see(wheel.set(7, milliseconds(1), Cookie(3)));
	see(wheel.move(7, milliseconds(2)));
	see(wheel.pending(7));
	see(wheel.cancel(7));
	now = wheel.now();
	see(wheel.next_expiry(now));
	see(wheel.stats(stats));
	see(wheel.list(cursor, events));
	see(wheel.advance(milliseconds(1), events));
	see(wheel.poll(events));
	see(wheel.fd());
	see(wheel.run_queued());
	see(timer.mod(milliseconds(1)));
	see(timer.reduce(milliseconds(1)));
	see(timer.mod_if_pending(milliseconds(1)));
	see(timer.mod_range(milliseconds(1), milliseconds(1)));
	see(timer.set_period(milliseconds(1)));
	see(timer.pending());
	see(timer.remaining(left));
	see(timer.cancel());
	see(timer.cancel_sync());
	see(timer.shutdown());
	see(timer.shutdown_sync());
}

/*
 * Every call, and then those that end a wheel: all give @code. On a wheel that is closed
 * all but the eleven calls of the timer say so.
 */
static void all_give(Wheel &wheel, TimerRef timer, int code)
{
	Event events[1];
	int closed = 0, calls = 0;
	const auto same = [&](Result result) {
		CHECK(result.value() == code);
		closed += result.is_closed();
		calls++;
		if (result.is_closed()) {
			CHECK(std::string(result.words()) == "the wheel is closed");
			CHECK(result.error().message() == result.words());
			CHECK(result.error() == std::errc::invalid_argument);
		}
	};

	every_call(wheel, timer, same);
	CHECK(closed == (wheel.get() ? 0 : calls - 11));
	same(wheel.start());
	same(wheel.stop());
	same(wheel.drain(events));
}

static void use_after_close()
{
	Wheel wheel, never_opened;

	all_give(never_opened, TimerRef(), -EINVAL);
	CHECK(wheel.open().ok() && wheel.start().ok());
	for (int i = 0; i < 3; i++)
		CHECK(wheel.close().ok());
	all_give(wheel, TimerRef(), -EINVAL);
	CHECK(wheel.open().ok() && wheel.once(seconds(1), Cookie(1)).ok());
}

static void use_after_move()
{
	Wheel a = manual(), b;
	Timer timer, other;
	Event events[1];

	CHECK(timer.setup(a, Cookie(4)).ok());
	b = std::move(a);
	all_give(a, other, -EINVAL);
	other = std::move(timer);
	all_give(a, timer, -EINVAL);

	/* To itself. */
	Wheel &same_wheel = b;
	Timer &same_timer = other;
	b = std::move(same_wheel);
	other = std::move(same_timer);
	swap(b, same_wheel);
	swap(other, same_timer);
	CHECK(other.mod(milliseconds(1)).value() == 0);
	CHECK(b.advance(milliseconds(1), events).value() == 1 && events[0].cookie == 4);
	timer.reset();
	CHECK(a.close().ok());
}

/* Threads make every call while others start, stop and drain; the last owner closes. */
static void one_closes_while_others_use_it()
{
	for (int round = 0; round < 40; round++) {
		std::shared_ptr<Wheel> wheel = std::make_shared<Wheel>();
		std::vector<std::thread> threads;
		std::atomic<int> fired(0);
		Options options;

		options.workers = round % 3 ? 0 : 2;
		options.tick = microseconds(100);
		CHECK(wheel->open(options).ok());
		for (int n = 0; n < 4; n++)
			threads.emplace_back([wheel, n, round, &fired]() {
				for (int i = 0; i < 20 * (n + 1); i++) {
					Timer timer;
					auto fire = [&fired](const Event &) { fired++; };

					/* Refused when another thread has drained. */
					if (timer.setup(*wheel, fire).ok())
						timer.mod(microseconds(i));
					every_call(*wheel, timer, [](Result) {});
					if (n == 0)
						(void)wheel->start();
					if (n == 1)
						(void)wheel->stop();
					if (n == 2 && round % 2 && i == 40) {
						Event events[64];

						while (wheel->drain(events).value() == 64)
							;
					}
				}
			});
		wheel.reset();
		for (std::thread &thread : threads)
			thread.join();
	}
}

/* Timers end before their wheel, in every order, while it fires them. */
static void timers_end_in_any_order()
{
	for (int round = 0; round < 20; round++) {
		Wheel wheel;
		Options options;
		std::atomic<int> fired(0);
		std::vector<Timer> timers(200);
		unsigned seed = 12345u + static_cast<unsigned>(round);

		options.tick = microseconds(50);
		options.workers = round % 2 ? 2 : 0;
		CHECK(wheel.open(options).ok() && wheel.start().ok());
		for (std::size_t i = 0; i < timers.size(); i++) {
			CHECK(timers[i].setup(wheel, [&fired](const Event &) { fired++; }).ok());
			CHECK(timers[i].mod(microseconds(i * 10)).ok());
		}
		for (std::size_t i = timers.size(); i > 1; i--) {
			seed = seed * 1103515245u + 12345u;
			swap(timers[i - 1], timers[(seed >> 16) % i]);
		}
		while (timers.size() > 100)
			timers.pop_back();
		std::thread other([&timers]() { timers.clear(); });
		other.join();
		/* No callback runs any more. */
		const int seen = fired;
		std::this_thread::sleep_for(microseconds(200));
		CHECK(fired == seen);
	}
}

/* A callback makes every call, and those that would wait for itself are refused. */
static void a_callback_calls_everything()
{
	Wheel wheel;
	Timer timer;
	std::atomic<bool> over(false);
	const auto fire = [&](const Event &) {
		Event events[1];

		every_call(wheel, TimerRef(), [](Result) {});
		CHECK(timer.cancel_sync().value() == -EDEADLK);
		CHECK(wheel.stop().value() == -EDEADLK);
		CHECK(wheel.drain(events).value() == -EDEADLK);
		CHECK(wheel.close().value() == -EDEADLK);
		timer.reset();
		over = true;
	};

	CHECK(wheel.open().ok() && timer.setup(wheel, std::ref(fire)).ok());
	CHECK(timer.mod(Time()).ok() && wheel.start().ok());
	while (!over)
		std::this_thread::yield();
	CHECK(wheel.close().ok());
}

static void a_forked_child_gets_errors()
{
	Wheel wheel;
	std::atomic<int> fired(0);
	auto fire = [&fired](const Event &) { fired++; };

	CHECK(wheel.open().ok() && wheel.start().ok());
	Timer timer;
	CHECK(timer.setup(wheel, fire).ok() && timer.mod(milliseconds(5)).ok());
	const pid_t child = fork();
	if (child == 0) {
		all_give(wheel, timer, -ESHUTDOWN);
		timer.reset();
		CHECK(timer.empty() && wheel.close().ok());
		_exit(0);
	}
	int status = -1;
	CHECK(child > 0 && waitpid(child, &status, 0) == child && status == 0);
	while (fired == 0)
		std::this_thread::yield();
}

static void hostile_arguments()
{
	Wheel wheel = manual();
	Timer timer;
	const ::hwheel_timer_t handles[] = { 1, 12345, 1ull << 63, UINT64_MAX };
	const char long_key[256] = {};
	std::uint64_t cursor = UINT64_MAX;
	Event events[1];
	const auto refuses = [](Result result) { CHECK(result.value() == -EINVAL); };

	for (::hwheel_timer_t handle : handles) {
		TimerRef ref(wheel.get(), handle);

		CHECK(ref.mod(seconds(1)).value() == -ESTALE);
		CHECK(ref.cancel().value() == -ESTALE && ref.cancel_sync().value() == -ESTALE);
		CHECK(ref.shutdown().value() == -ESTALE && ref.pending().value() == -ESTALE);
	}
	CHECK(timer.setup(wheel, Cookie(1)).ok());
	refuses(timer.mod(nanoseconds(-1)));
	refuses(timer.mod(TimePoint(nanoseconds::min())));
	refuses(timer.mod(duration<double>(std::numeric_limits<double>::quiet_NaN())));
	refuses(timer.mod_range(seconds(1), hours(-1)));
	refuses(timer.set_period(milliseconds(-1)));
	refuses(wheel.once(minutes(-1), Cookie(1)));
	refuses(wheel.every(seconds(0), seconds(0), Cookie(1)));
	refuses(wheel.every(seconds(0), seconds(-1), Cookie(1)));
	refuses(wheel.set("", seconds(1), Cookie(1)));
	refuses(wheel.set(Key(nullptr, 0), seconds(1), Cookie(1)));
	refuses(wheel.set(Key(nullptr, 8), seconds(1), Cookie(1)));
	refuses(wheel.set(static_cast<const char *>(nullptr), seconds(1), Cookie(1)));
	refuses(wheel.set(Key(long_key, sizeof long_key), seconds(1), Cookie(1)));
	refuses(wheel.mod_many(nullptr, nullptr, 1));
	refuses(wheel.cancel_many(nullptr, 1));
	refuses(wheel.list(cursor, nullptr, 1));
	refuses(wheel.drain(nullptr, 1));
	refuses(wheel.advance(seconds(-1), events));
	CHECK(timer.pending().value() == 0);
}

int main()
{
	use_after_close();
	use_after_move();
	one_closes_while_others_use_it();
	timers_end_in_any_order();
	a_callback_calls_everything();
	a_forked_child_gets_errors();
	hostile_arguments();
}
