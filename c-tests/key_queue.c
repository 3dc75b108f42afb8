/* Timers by key whose callbacks run in workers or an executor; queue.c has the full queue. */
#include "crew.h"

static void set(struct hwheel *w, const char *key, hwheel_fn fn, uint64_t cookie, uint64_t at)
{
	CHECK_EQ(hwheel_key_set(w, key, strlen(key), at, fn, cookie, HWHEEL_ABS), 0);
}

TEST(the_key_is_free_while_its_callback_waits)
{
	WHEEL w = on_call(MS);

	set(w, "a", note_key, 1, 1 * MS);
	CHECK_EQ(hwheel_advance(w, 1 * MS, NULL, 0, NULL), 0);
	CHECK_EQ(stats(w).queued, 1);
	CHECK_EQ(stats(w).live, 1);
	CHECK_EQ(hwheel_key_pending(w, "a", 1), 0);
	CHECK_EQ(hwheel_key_mod(w, "a", 1, MS, 0), 0);
	CHECK_EQ(hwheel_key_delete(w, "a", 1), 0);
	/* the same key, while the first callback waits */
	set(w, "a", note_key, 2, 2 * MS);
	CHECK_EQ(stats(w).live, 2);
	CHECK_EQ(hwheel_advance(w, 2 * MS, NULL, 0, NULL), 0);
	CHECK_EQ(stats(w).queued, 2);
	CHECK_EQ(hwheel_run_queued(w), 1);
	CHECK_EQ(stats(w).live, 1);
	CHECK_EQ(hwheel_run_queued(w), 1);
	CHECK_EQ(hwheel_run_queued(w), 0);
	CHECK_EQ(atomic_load(&order), 12);
	CHECK_EQ(stats(w).live, 0);
}

/* Sets its own key again, a thousand times. */
static void set_again(struct hwheel *w, const struct hwheel_event *e)
{
	CHECK_EQ(e->timer, 0);
	CHECK_EQ(hwheel_key_pending(w, "a", 1), 0);
	if (e->cookie < 1000)
		set(w, "a", set_again, e->cookie + 1, e->deadline_ns + MS);
	atomic_fetch_add(&calls, 1);
}

TEST(a_callback_in_a_worker_sets_its_own_key)
{
	struct hwheel_options o = defaults();

	reset();
	o.workers = 2;
	WHEEL w = make(&o);

	set(w, "a", set_again, 1, 1 * MS);
	for (int i = 1; i <= 1000; i++) {
		CHECK_EQ(hwheel_advance(w, (uint64_t)i * 2 * MS, NULL, 0, NULL), 0);
		until(&calls, i);
	}
	CHECK_EQ(hwheel_stop(w), 0);
	CHECK_EQ(stats(w).fired, 1000);
	CHECK_EQ(stats(w).live, 0);
}

TEST(keys_leave_nothing_in_workers)
{
	struct hwheel_options o = defaults();

	reset();
	o.workers = 4;
	o.max_timers = 1 << 10;
	WHEEL w = make(&o);

	/* more than the limit on those that live at once */
	for (int round = 1; round <= 10; round++) {
		for (uint64_t i = 0; i < 1 << 10; i++)
			CHECK_EQ(hwheel_key_set(w, &i, sizeof i, i % 50 * MS, note_key, 0, 0), 0);
		CHECK_EQ(hwheel_advance(w, (uint64_t)round * SEC, NULL, 0, NULL), 0);
		CHECK_EQ(hwheel_stop(w), 0);
		CHECK_EQ(atomic_load(&calls), round << 10);
		CHECK_EQ(stats(w).live, 0);
	}
}
