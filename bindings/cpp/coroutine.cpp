/* A coroutine sleeps on a wheel. Before C++20 there is nothing to test. */
#include "check.hpp"

#ifndef __cpp_impl_coroutine
int main() {}
#else

#include <atomic>
#include <coroutine>
#include <thread>

using hwheelpp::Event;
using hwheelpp::Options;
using hwheelpp::Result;
using hwheelpp::TimePoint;
using hwheelpp::Wheel;
using namespace std::chrono;

/* A coroutine that starts at once, and whose frame its owner destroys. */
class Task {
public:
	struct promise_type {
		Task get_return_object() noexcept
		{
			return Task(std::coroutine_handle<promise_type>::from_promise(*this));
		}
		std::suspend_never initial_suspend() noexcept { return {}; }
		std::suspend_always final_suspend() noexcept { return {}; }
		void return_void() noexcept {}
		void unhandled_exception() noexcept { std::abort(); }
	};

	explicit Task(std::coroutine_handle<promise_type> frame) noexcept : frame_(frame) {}
	Task(Task &&other) noexcept : frame_(std::exchange(other.frame_, nullptr)) {}
	~Task()
	{
		if (frame_)
			frame_.destroy();
	}

	bool done() const noexcept { return frame_.done(); }

private:
	std::coroutine_handle<promise_type> frame_;
};

static std::uint64_t live(const Wheel &wheel)
{
	hwheelpp::Stats stats;

	CHECK(wheel.stats(stats).ok());
	return stats.live;
}

static Task sleeps_twice(Wheel &wheel, int &awake)
{
	/* A variable: GCC 12 makes a bad frame of a co_await in a condition. */
	Result first = co_await wheel.sleep(milliseconds(5));
	CHECK(first.ok());
	awake++;
	Result second = co_await wheel.sleep(TimePoint(milliseconds(7)));
	CHECK(second.ok());
	awake++;
}

static void continues_at_its_time()
{
	Wheel wheel = manual();
	int awake = 0;
	Task a = sleeps_twice(wheel, awake), b = sleeps_twice(wheel, awake);

	CHECK(live(wheel) == 2);
	CHECK(wheel.advance(microseconds(4999)).ok() && awake == 0);
	CHECK(wheel.advance(milliseconds(5)).ok() && awake == 2 && live(wheel) == 2);
	CHECK(wheel.advance(microseconds(6999)).ok() && awake == 2 && !a.done());
	CHECK(wheel.advance(milliseconds(7)).ok() && awake == 4 && a.done() && b.done());
	CHECK(live(wheel) == 0);
}

static Task is_refused(Wheel &wheel, int code)
{
	Result refused = co_await wheel.sleep(milliseconds(1));
	CHECK(refused.value() == code);
}

static void continues_at_once_with_an_error()
{
	Wheel none, small;
	Options options;
	int awake = 0;

	CHECK(is_refused(none, -EINVAL).done());
	options.clock = Options::Clock::manual;
	options.max_timers = 1;
	CHECK(small.open(options).ok());
	{
		Task holds_the_only_timer = sleeps_twice(small, awake);
		Event events[1];

		CHECK(is_refused(small, -ENOSPC).done());
		CHECK(small.drain(events).value() == 1);
		CHECK(is_refused(small, -ESHUTDOWN).done());
		CHECK(!holds_the_only_timer.done());
	}
	CHECK(awake == 0 && live(small) == 0);
}

static void cancels_when_it_is_destroyed()
{
	Wheel wheel = manual();
	int awake = 0;

	{
		Task task = sleeps_twice(wheel, awake);
	}
	CHECK(live(wheel) == 0);
	CHECK(wheel.advance(seconds(1)).ok() && awake == 0);
}

static Task sleeps_again(Wheel &wheel, int &awake)
{
	hwheelpp::Sleep sleep = wheel.sleep(milliseconds(5));

	for (int i = 0; i < 3; i++) {
		Result result = co_await sleep;
		CHECK(result.ok());
		awake++;
	}
}

static void one_sleep_can_be_awaited_again()
{
	Wheel wheel = manual();
	int awake = 0;
	Task task = sleeps_again(wheel, awake);

	for (int i = 1; i <= 3; i++)
		CHECK(wheel.advance(milliseconds(5 * i)).ok() && awake == i);
	CHECK(task.done() && live(wheel) == 0);
}

static Task has_no_time_to_wait(Wheel &wheel)
{
	Result zero = co_await wheel.sleep(milliseconds(0));
	CHECK(zero.ok());
	Result now = co_await wheel.sleep(wheel.now());
	CHECK(now.ok());
	Result passed = co_await wheel.sleep(wheel.now() - milliseconds(1));
	CHECK(passed.ok());
}

/* What a program waits for is over at once. */
static void a_time_that_has_passed_is_over()
{
	Wheel wheel = manual(), none;

	CHECK(wheel.advance(milliseconds(5)).ok());
	CHECK(has_no_time_to_wait(wheel).done() && live(wheel) == 0);
	CHECK(wheel.advance(milliseconds(6)).value() == 0);

	Task closed = [](Wheel &empty) -> Task {
		Result refused = co_await empty.sleep(milliseconds(0));
		CHECK(refused.is_closed());
		Result negative = co_await empty.sleep(empty.now() + hours(1));
		CHECK(negative.is_closed());
	}(none);
	CHECK(closed.done());
	Task early = [](Wheel &manual) -> Task {
		Result negative = co_await manual.sleep(milliseconds(-1));
		CHECK(negative.value() == -EINVAL);
		Result other = co_await manual.sleep(system_clock::now());
		CHECK(other.value() == -EINVAL);
	}(wheel);
	CHECK(early.done());
}

static Task sleeps_often(Wheel &wheel, std::atomic<int> &ended)
{
	for (int i = 0; i < 100; i++) {
		Result result = co_await wheel.sleep(microseconds(i % 3 * 100));
		CHECK(result.ok());
	}
	ended++;
}

static void continues_in_the_tick_thread()
{
	Wheel wheel;
	Options options;
	std::atomic<int> ended(0);

	options.tick = microseconds(100);
	CHECK(wheel.open(options).ok() && wheel.start().ok());
	{
		Task a = sleeps_often(wheel, ended), b = sleeps_often(wheel, ended);

		while (ended != 2)
			std::this_thread::yield();
		/* Both have reached their ends when the thread has. */
		CHECK(wheel.stop().ok() && a.done() && b.done());
	}
	CHECK(live(wheel) == 0);
}

int main()
{
	continues_at_its_time();
	continues_at_once_with_an_error();
	cancels_when_it_is_destroyed();
	one_sleep_can_be_awaited_again();
	a_time_that_has_passed_is_over();
	continues_in_the_tick_thread();
}
#endif
