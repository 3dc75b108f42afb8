/* A Wheel owns its wheel: options, the three ways to drive it, and its end. */
#include "check.hpp"
#include <atomic>
#include <poll.h>
#include <thread>

using hwheelpp::Cookie;
using hwheelpp::Event;
using hwheelpp::Missed;
using hwheelpp::Options;
using hwheelpp::Period;
using hwheelpp::Run;
using hwheelpp::Time;
using hwheelpp::Timer;
using hwheelpp::TimePoint;
using hwheelpp::TimerRef;
using hwheelpp::Wheel;
using namespace std::chrono;

static_assert(std::is_nothrow_move_constructible<Wheel>::value, "moves");
static_assert(std::is_nothrow_move_assignable<Wheel>::value, "moves");
static_assert(std::is_nothrow_destructible<Wheel>::value, "ends quietly");
static_assert(!std::is_copy_constructible<Wheel>::value, "has one owner");
static_assert(!std::is_copy_assignable<Wheel>::value, "has one owner");

static void takes_its_options()
{
	Wheel wheel;
	Options options;
	TimePoint now;

	options.slots = 3;
	CHECK(wheel.open(options).value() == -EINVAL && !wheel.get());
	options.slots = 512;
	options.levels = 1;
	options.max_timers = 1;
	options.clock = Options::Clock::manual;
	options.tick = seconds(1);
	options.start = hours(5);
	CHECK(wheel.open(options).ok());
	CHECK(wheel.open(options).value() == -EBUSY);
	now = wheel.now();
	CHECK(now == TimePoint(hours(5)));
	CHECK(wheel.next_expiry(now).value() == 0 && now == TimePoint(hours(5)));
	CHECK(wheel.once(milliseconds(1), Cookie(1)).ok());
	CHECK(wheel.once(milliseconds(1), Cookie(2)).value() == -ENOSPC);
	CHECK(wheel.next_expiry(now).value() == 1 && now == TimePoint(hours(5) + seconds(1)));
	CHECK(wheel.fd().value() == -EINVAL);
	CHECK(wheel.start().value() == -EINVAL);
	CHECK(wheel.close().ok() && !wheel.get());
	CHECK(wheel.close().ok());
	CHECK(wheel.now() == TimePoint::min());
}

static void count(::hwheel *, void *asked)
{
	++*static_cast<int *>(asked);
}

static void has_its_executor_and_bounds()
{
	Wheel wheel;
	Options options;
	int asked = 0, ran = 0;
	auto fire = [&ran](const Event &) { ran++; };

	options.clock = Options::Clock::manual;
	options.executor = count;
	options.executor_arg = &asked;
	options.queue = 2;
	options.overload = Options::Overload::drop;
	CHECK(wheel.open(options).ok());
	for (int i = 0; i < 5; i++)
		CHECK(wheel.once(milliseconds(1), fire).ok());
	Run run(4, hours(1));
	CHECK(wheel.advance(milliseconds(1), &run).ok() && asked == 2 && ran == 0);
	CHECK(run.left == 1);
	CHECK(wheel.run_queued().value() == 1 && wheel.run_queued().value() == 1 && ran == 2);
	CHECK(wheel.run_queued().value() == 0);
	CHECK(wheel.advance(milliseconds(1)).ok() && asked == 3);
	CHECK(wheel.stop().ok() && ran == 3);
	CHECK(wheel.close().ok());

	options.workers = 1;
	CHECK(wheel.open(options).value() == -EINVAL);
	options.workers = 0;
	/* an argument without a function */
	options.executor = nullptr;
	CHECK(wheel.open(options).value() == -EINVAL);
}

static void arms_and_cancels_many()
{
	Wheel wheel = manual();
	Timer timer[2];
	Event events[4];
	std::int32_t results[3] = { 7, 7, 7 };
	::hwheel_timer_t handles[3] = {};
	const std::uint64_t times[3] = { Time(milliseconds(3)).ns(), HWHEEL_NEVER, 0 };

	for (int i = 0; i < 2; i++) {
		CHECK(timer[i].setup(wheel, Cookie(1)).ok());
		handles[i] = timer[i].handle();
	}
	CHECK(wheel.mod_many(handles, times, 3, 0, results).value() == 2);
	CHECK(results[0] == 0 && results[1] == 0 && results[2] == -ESTALE);
	CHECK(wheel.mod_many(handles, times, 2, HWHEEL_ABS).value() == 2);
	CHECK(wheel.advance(milliseconds(3), events).value() == 1);
	CHECK(wheel.cancel_many(handles, 3, results).value() == 2);
	CHECK(results[0] == 0 && results[1] == 1 && results[2] == -ESTALE);
}

static void repeats()
{
	Wheel wheel = manual();
	TimerRef skip, burst, late;
	Event events[16];

	CHECK(wheel.every(milliseconds(1), milliseconds(10), Cookie(0), &skip).ok());
	CHECK(wheel.every(TimePoint(milliseconds(1)),
		Period(milliseconds(10), Missed::burst), Cookie(1), &burst).ok());
	CHECK(wheel.every(milliseconds(1),
		Period(milliseconds(10), nanoseconds(0), Missed::delay), Cookie(2),
		&late).ok());

	int fired[3] = {}, missed[3] = {};
	const int n = wheel.advance(milliseconds(35), events).value();
	for (int i = 0; i < n; i++) {
		fired[events[i].cookie]++;
		missed[events[i].cookie] += static_cast<int>(events[i].missed);
	}
	CHECK(fired[0] == 1 && missed[0] == 3); /* 1, and not 11, 21, 31 */
	CHECK(fired[1] == 4 && missed[1] == 0);
	CHECK(fired[2] == 1 && missed[2] == 3);

	nanoseconds left(0);
	CHECK(skip.remaining(left).value() == 1 && left == milliseconds(6));
	CHECK(late.remaining(left).value() == 1 && left == milliseconds(10));
	CHECK(skip.cancel().value() == 1 && burst.cancel().value() == 1);
	CHECK(wheel.drain(events).value() == 1);
	CHECK(events[0].cookie == 2 && events[0].flags == HWHEEL_EVENT_DRAINED);
	CHECK(wheel.once(seconds(1), Cookie(3)).value() == -ESHUTDOWN);
}

static void lists_its_timers()
{
	Wheel wheel = manual();
	Event events[2];
	std::uint64_t cursor = 0;
	int sum = 0, n;

	for (std::uint64_t i = 0; i < 5; i++)
		CHECK(wheel.once(seconds(1), Cookie(1)).ok());
	do {
		n = wheel.list(cursor, events).value();
		for (int i = 0; i < n; i++)
			sum += TimerRef(wheel.get(), events[i].timer).cancel().value();
	} while (n == 2);
	CHECK(sum == 5);
}

static void is_driven_by_its_descriptor()
{
	Wheel wheel;
	Event events[4];
	TimePoint now;

	CHECK(wheel.open().ok());
	now = wheel.now();
	CHECK(wheel.once(now + milliseconds(20), Cookie(9)).ok());
	CHECK(wheel.fd().ok());

	pollfd p = { wheel.fd().value(), POLLIN, 0 };
	/* Sets the descriptor. On a busy machine the timer may be due already. */
	int n = wheel.poll(events).value();
	/* Early wake-ups are allowed, early events are not. */
	while (n == 0) {
		CHECK(poll(&p, 1, 5000) == 1);
		n = wheel.poll(events).value();
	}
	CHECK(n == 1 && events[0].cookie == 9);
	CHECK(wheel.now() >= hwheelpp::deadline(events[0]));
}

static void waits_for_a_callback_at_the_end_of_a_timer()
{
	Wheel wheel;
	std::atomic<int> state(0);
	auto slow = [&state](const Event &) {
		state = 1;
		std::this_thread::sleep_for(milliseconds(30));
		state = 2;
	};

	CHECK(wheel.open().ok() && wheel.start().ok());
	CHECK(wheel.start().value() == -EBUSY);
	{
		Timer timer;

		CHECK(timer.setup(wheel, slow).ok());
		CHECK(timer.mod(nanoseconds(0)).ok());
		while (state == 0)
			std::this_thread::yield();
	}
	CHECK(state == 2);
	CHECK(wheel.stop().ok());
}

static void is_not_closed_by_its_own_callback()
{
	Wheel wheel = manual();
	static Wheel *inside;
	static int code;

	inside = &wheel;
	CHECK(wheel.once(nanoseconds(0), [](const Event &) {
		code = inside->close().value();
	}).ok());
	CHECK(wheel.advance(seconds(1)).ok());
	CHECK(code == -EDEADLK && wheel.get());
}

static void has_one_owner_at_a_time()
{
	Wheel a = manual(), b;
	::hwheel *raw = a.get();

	b = std::move(a);
	CHECK(!a.get() && b.get() == raw);
	swap(a, b);
	CHECK(a.get() == raw && !b.get());
	CHECK(a.release() == raw && !a.get());
	CHECK(::hwheel_destroy(raw) == 0);
}

static void belongs_to_one_thread()
{
	Wheel wheel;
	Timer timer;
	Options options;
	std::thread::id in;
	auto answer = [&in](const Event &) { in = std::this_thread::get_id(); };

	CHECK(manual().own().value() == -EINVAL && manual().disown().value() == -EINVAL);
	CHECK(wheel.own().is_closed() && wheel.disown().is_closed());
	options.clock = Options::Clock::manual;
	options.owned = true;
	CHECK(wheel.open(options).ok());
	CHECK(timer.setup(wheel, answer).ok() && timer.mod(seconds(9)).value() == 0);
	std::thread([&] {
		TimerRef ref;

		CHECK(timer.mod(seconds(1)).value() == -EPERM && timer.cancel().value() == -EPERM);
		CHECK(timer.pending().value() == 1);
		CHECK(wheel.once(seconds(1), answer, &ref).value() == -EPERM && ref.empty());
		CHECK(wheel.advance(seconds(1)).value() == -EPERM && wheel.close().value() == -EPERM);
		CHECK(wheel.own().value() == -EBUSY && wheel.disown().value() == -EPERM);
		CHECK(wheel.once(seconds(1), answer).ok());
	}).join();
	CHECK(wheel.advance(seconds(1)).ok() && in == std::this_thread::get_id());
	CHECK(wheel.disown().ok() && timer.mod(seconds(1)).value() == -EPERM);
	std::thread([&] {
		CHECK(wheel.own().ok() && timer.cancel().value() == 1);
		CHECK(wheel.once(seconds(1), answer).ok() && wheel.advance(seconds(3)).ok());
		CHECK(in == std::this_thread::get_id());
		timer.reset();
	}).join();
	/* The thread has ended. The destructor takes the wheel. */
}

int main()
{
	takes_its_options();
	has_its_executor_and_bounds();
	arms_and_cancels_many();
	repeats();
	lists_its_timers();
	is_driven_by_its_descriptor();
	waits_for_a_callback_at_the_end_of_a_timer();
	is_not_closed_by_its_own_callback();
	has_one_owner_at_a_time();
	belongs_to_one_thread();
}
