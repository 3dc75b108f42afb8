/* hwheel_timer_mod_many() and hwheel_timer_delete_many(): a result each, and no call undone by another. */
#include "ktap.h"

#define N 1000

static struct hwheel_event events[N];
static hwheel_timer_t timers[N];
static uint64_t times[N];
static int32_t results[N];

static struct hwheel *wheel_of(int n)
{
	struct hwheel *w = ktap_manual(0, 0, 0, 0);

	for (int i = 0; i < n; i++) {
		CHECK_EQ(hwheel_timer_setup(w, NULL, (uint64_t)i, &timers[i]), 0);
		times[i] = (uint64_t)(i + 1) * MS;
		results[i] = 77;
	}
	return w;
}

/* The first results of the last call are these. */
#define CHECK_RESULTS(...) do { \
	const int want[] = { __VA_ARGS__ }; \
\
	for (size_t i = 0; i < COUNT(want); i++) \
		CHECK_EQ(results[i], want[i]); \
} while (0)

WHEEL_TEST(each_is_as_a_call_of_its_own, wheel_of(N))
{
	CHECK_EQ(hwheel_timer_mod(w, timers[3], SEC, 0), 0);
	CHECK_EQ(hwheel_timer_mod_many(w, timers, times, N, 0, results), N);
	for (int i = 0; i < N; i++)
		CHECK_EQ(results[i], i == 3);
	CHECK_EQ(hwheel_advance(w, 10 * MS, events, N, NULL), 10);
	for (int i = 0; i < 10; i++) {
		CHECK_EQ(events[i].cookie, i);
		CHECK_EQ(events[i].deadline_ns, times[i]);
	}
	CHECK_EQ(hwheel_timer_delete_many(w, timers, N, results), N);
	for (int i = 0; i < N; i++)
		CHECK_EQ(results[i], i >= 10);
	CHECK_EQ(hwheel_advance(w, SEC, events, N, NULL), 0);
}

WHEEL_TEST(times_are_delays_or_deadlines, wheel_of(4))
{
	CHECK_EQ(hwheel_advance(w, 2 * MS, events, N, NULL), 0);
	times[2] = HWHEEL_NEVER;
	times[3] = INT64_MAX;
	CHECK_EQ(hwheel_timer_mod_many(w, timers, times, 4, 0, results), 4);
	CHECK_EQ(hwheel_advance(w, 3 * MS, events, N, NULL), 1);
	CHECK_EQ(events[0].cookie, 0);
	/* one that has passed fires at the next tick */
	CHECK_EQ(hwheel_timer_mod_many(w, timers, times, 4, HWHEEL_ABS, results), 4);
	CHECK_EQ(hwheel_advance(w, 4 * MS, events, N, NULL), 2);
	CHECK_EQ(events[0].deadline_ns + events[1].deadline_ns, 2 * 4 * MS);
	CHECK_EQ(hwheel_advance(w, 1000000 * SEC, events, N, NULL), 0);
}

WHEEL_TEST(one_that_fails_stops_none, wheel_of(6))
{
	CHECK_EQ(hwheel_timer_shutdown(w, timers[1]), 0);
	CHECK_EQ(hwheel_timer_free(w, timers[3]), 0);
	timers[4] = 0;
	timers[5] = UINT64_MAX;
	CHECK_EQ(hwheel_timer_mod_many(w, timers, times, 6, 0, results), 2);
	CHECK_RESULTS(0, -ESHUTDOWN, 0, -ESTALE, -ESTALE, -ESTALE);
	CHECK_EQ(hwheel_timer_delete_many(w, timers, 6, results), 3);
	CHECK_RESULTS(1, 0, 1, -ESTALE, -ESTALE, -ESTALE);
}

WHEEL_TEST(one_timer_may_come_twice, wheel_of(1))
{
	for (int i = 1; i < 20; i++) {
		timers[i] = timers[0];
		times[i] = 20 * MS - (uint64_t)i * MS;
	}
	CHECK_EQ(hwheel_timer_mod_many(w, timers, times, 20, 0, results), 20);
	for (int i = 0; i < 20; i++)
		CHECK_EQ(results[i], i > 0);
	/* the last one counts */
	CHECK_EQ(hwheel_advance(w, MS, events, N, NULL), 1);
	CHECK_EQ(hwheel_timer_mod(w, timers[0], MS, 0), 0);
	CHECK_EQ(hwheel_timer_delete_many(w, timers, 20, results), 20);
	for (int i = 0; i < 20; i++)
		CHECK_EQ(results[i], i == 0);
}

WHEEL_TEST(results_need_not_be_asked_for, wheel_of(3))
{
	timers[1] = 1;
	CHECK_EQ(hwheel_timer_mod_many(w, timers, times, 3, 0, NULL), 2);
	CHECK_EQ(hwheel_timer_delete_many(w, timers, 3, NULL), 2);
}

WHEEL_TEST(none_is_no_work, wheel_of(1))
{
	CHECK_EQ(hwheel_timer_mod_many(w, timers, times, 0, 0, results), 0);
	CHECK_EQ(hwheel_timer_mod_many(w, NULL, NULL, 0, HWHEEL_ABS, NULL), 0);
	CHECK_EQ(hwheel_timer_delete_many(w, timers, 0, results), 0);
	CHECK_EQ(hwheel_timer_delete_many(w, NULL, 0, NULL), 0);
	CHECK_EQ(results[0], 77);
	CHECK_EQ(hwheel_timer_pending(w, timers[0]), 0);
}

WHEEL_TEST(bad_arguments_change_nothing, wheel_of(2))
{
	const uint32_t too_many = (uint32_t)INT32_MAX + 1;

	CHECK_EQ(hwheel_timer_mod_many(w, NULL, times, 2, 0, results), -EINVAL);
	CHECK_EQ(hwheel_timer_mod_many(w, timers, NULL, 2, 0, results), -EINVAL);
	CHECK_EQ(hwheel_timer_mod_many(w, timers, times, too_many, 0, results), -EINVAL);
	CHECK_EQ(hwheel_timer_mod_many(w, timers, times, UINT32_MAX, 0, results), -EINVAL);
	CHECK_EQ(hwheel_timer_mod_many(w, timers, times, 2, 8, results), -EINVAL);
	CHECK_EQ(hwheel_timer_pending(w, timers[0]), 0);
	CHECK_EQ(hwheel_timer_mod(w, timers[0], MS, 0), 0);
	CHECK_EQ(hwheel_timer_delete_many(w, NULL, 2, results), -EINVAL);
	CHECK_EQ(hwheel_timer_delete_many(w, timers, too_many, results), -EINVAL);
	CHECK_EQ(hwheel_timer_pending(w, timers[0]), 1);
	CHECK_RESULTS(77, 77);
}

MANUAL_TEST(one_call_timers_are_freed)
{
	for (uint64_t i = 0; i < N; i++)
		CHECK_EQ(hwheel_once(w, SEC, NULL, i, 0, &timers[i]), 0);
	CHECK_EQ(hwheel_timer_delete_many(w, timers, N, results), N);
	CHECK_EQ(hwheel_timer_delete_many(w, timers, N, results), 0);
	for (int i = 0; i < N; i++)
		CHECK_EQ(results[i], -ESTALE);
	CHECK_EQ(stats(w).live, 0);
	CHECK_EQ(stats(w).cancelled, N);
}

WHEEL_TEST(a_drained_wheel_refuses_each, wheel_of(2))
{
	CHECK_EQ(hwheel_drain(w, events, N), 0);
	CHECK_EQ(hwheel_timer_mod_many(w, timers, times, 2, 0, results), 0);
	CHECK_RESULTS(-ESHUTDOWN, -ESHUTDOWN);
}
