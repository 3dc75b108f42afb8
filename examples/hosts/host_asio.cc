/*
 * An asio io_context drives the wheel, together with its own timers. A coroutine sleeps with
 * `co_await timer.wait()`. One steady_timer stands for all timers of the wheel. The loop's
 * thread owns the wheel: after it has armed a timer, it posts a poll. For messages of other
 * threads the wake function does.
 */
#include "compare.h"
#include <asio.hpp>
#include <chrono>
#include <memory>
#include <utility>
#include <vector>

static struct comparison comparison;

using at = std::chrono::steady_clock::time_point;
using std::chrono::nanoseconds;

/* The cookie of a timer: continues what waits for it. Its destructor ends a coroutine. */
struct Waiter {
	virtual ~Waiter() = default;
	virtual void resume(asio::error_code error) = 0;
};

/* A wheel in an io_context that one thread runs. */
class Loop {
public:
	explicit Loop(asio::io_context &in)
		: context(in), next(in), work(asio::make_work_guard(in))
	{
		hwheel_options options = {};

		options.size = sizeof options;
		options.wake = [](hwheel *, void *loop) {
			asio::post(static_cast<Loop *>(loop)->context,
				   [loop] { static_cast<Loop *>(loop)->poll(); });
		};
		options.wake_arg = this;
		options.owned = 1;
		if (hwheel_create(&options, &wheel))
			throw std::bad_alloc();
		poll();
	}
	/* Asio's timers also end what still waits. */
	~Loop()
	{
		hwheel_event left[64];
		int n;

		do {
			n = hwheel_drain(wheel, left, 64);
			for (int i = 0; i < n; i++)
				delete reinterpret_cast<Waiter *>(left[i].cookie);
		} while (n == 64);
		hwheel_destroy(wheel);
	}

	/* The loop's thread has armed a timer: polls before the loop sleeps again. */
	void armed()
	{
		if (!std::exchange(is_posted, true))
			asio::post(context, [this] { poll(); });
	}

	asio::io_context &context;
	hwheel *wheel = nullptr;

private:
	/* Callbacks of the wheel continue the coroutines. */
	void poll()
	{
		std::uint64_t next_ns = 0;

		is_posted = false;
		compare_poll(&comparison, wheel, &next_ns);
		if (next_ns == HWHEEL_NEVER)
			return;
		next.expires_at(at(nanoseconds(next_ns))); /* and cancels the wait before */
		next.async_wait([this](asio::error_code error) { error ? void() : poll(); });
	}

	bool is_posted = false;
	asio::steady_timer next;
	asio::executor_work_guard<asio::io_context::executor_type> work;
};

/* For a coroutine of the loop: a point on the wheel's clock to wait for. */
struct Timer {
	Loop &loop;
	std::uint64_t at_ns;

	template <class Token = asio::use_awaitable_t<>>
	auto wait(Token &&token = {}) const
	{
		return asio::async_initiate<Token, void(asio::error_code)>([this](auto handler) {
			std::unique_ptr<Waiter> waiter =
				std::make_unique<Of<decltype(handler)>>(std::move(handler));
			int error = hwheel_once(loop.wheel, at_ns, resume,
				reinterpret_cast<std::uintptr_t>(waiter.get()), HWHEEL_ABS, nullptr);

			if (error == 0) {
				waiter.release(); /* it belongs to the timer */
				loop.armed();
			} else
				asio::post(loop.context, [error, w = std::move(waiter)] {
					w->resume(asio::error_code(-error, asio::system_category()));
				});
		}, token);
	}

private:
	template <class Handler>
	struct Of : Waiter {
		explicit Of(Handler &&h) : handler(std::move(h)) {}
		void resume(asio::error_code error) override { std::move(handler)(error); }

		Handler handler;
	};
	static void resume(hwheel *, const hwheel_event *event)
	{
		std::unique_ptr<Waiter> waiter(reinterpret_cast<Waiter *>(event->cookie));

		waiter->resume(asio::error_code());
	}
};

static asio::awaitable<void> coroutine(Loop &loop, unsigned i)
{
	Timer timer{ loop, deadline_ns(&comparison, i) };

	co_await timer.wait();
	if (compare_fired(&comparison, &comparison.wheel, i))
		loop.context.stop();
}

/* Sleeps until the loop ends. */
static asio::awaitable<void> sleeper(Loop &loop, std::shared_ptr<int>)
{
	Timer timer{ loop, monotonic_ns() + 3600 * HWHEEL_SEC };

	co_await timer.wait();
}

static void run(std::shared_ptr<int> held)
{
	asio::io_context context;
	Loop loop(context);
	std::vector<asio::steady_timer> timers;

	compare_begin(&comparison, "asio");
	timers.reserve(TIMERS + 1);
	for (unsigned i = 0; i < TIMERS; i++) {
		timers.emplace_back(context, at(nanoseconds(deadline_ns(&comparison, i))));
		timers.back().async_wait([&context, i](const asio::error_code &) {
			if (compare_fired(&comparison, &comparison.loop, i))
				context.stop();
		});
		asio::co_spawn(context, coroutine(loop, i), asio::detached);
	}
	asio::co_spawn(context, sleeper(loop, held), asio::detached);
	timers.emplace_back(context, std::chrono::milliseconds(GIVE_UP_MS));
	timers.back().async_wait([&context](const asio::error_code &) { context.stop(); });
	context.run();
}

int main()
{
	auto held = std::make_shared<int>();

	run(held);
	return held.use_count() > 1 || compare_end(&comparison);
}
