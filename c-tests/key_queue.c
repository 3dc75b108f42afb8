/* Timers by key whose callbacks wait in the queue of workers or an executor. */
#include "crew.h"

static void set(struct hwheel *w, const char *key, hwheel_fn fn, uint64_t cookie, uint64_t at)
{
	CHECK_EQ(hwheel_key_set(w, key, strlen(key), at, fn, cookie, HWHEEL_ABS), 0);
}

/* Like note, of timers without a handle. */
static void note_key(struct hwheel *w, const struct hwheel_event *e)
{
	CHECK_EQ(e->timer, 0);
	note(w, e);
}

static void the_key_is_free_while_its_callback_waits(void)
{
	struct hwheel *w = on_call(MS);

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
	CHECK_EQ(hwheel_destroy(w), 0);
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

static void a_callback_in_a_worker_sets_its_own_key(void)
{
	struct hwheel_options o = defaults();

	reset();
	o.workers = 2;
	struct hwheel *w = make(&o);

	set(w, "a", set_again, 1, 1 * MS);
	for (int i = 1; i <= 1000; i++) {
		CHECK_EQ(hwheel_advance(w, (uint64_t)i * 2 * MS, NULL, 0, NULL), 0);
		until(&calls, i);
	}
	CHECK_EQ(hwheel_stop(w), 0);
	CHECK_EQ(stats(w).fired, 1000);
	CHECK_EQ(stats(w).live, 0);
	CHECK_EQ(hwheel_destroy(w), 0);
}

static void keys_leave_nothing_in_workers(void)
{
	struct hwheel_options o = defaults();

	reset();
	o.workers = 4;
	o.max_timers = 1 << 10;
	struct hwheel *w = make(&o);

	/* more than the limit on those that live at once */
	for (int round = 1; round <= 10; round++) {
		for (uint64_t i = 0; i < 1 << 10; i++)
			CHECK_EQ(hwheel_key_set(w, &i, sizeof i, i % 50 * MS, note_key, 0, 0), 0);
		CHECK_EQ(hwheel_advance(w, (uint64_t)round * SEC, NULL, 0, NULL), 0);
		CHECK_EQ(hwheel_stop(w), 0);
		CHECK_EQ(atomic_load(&calls), round << 10);
		CHECK_EQ(stats(w).live, 0);
	}
	CHECK_EQ(hwheel_destroy(w), 0);
}

/* One worker held up, a queue of two, five keys. */
static struct hwheel *crowd(uint32_t overload)
{
	static const char *const keys[] = { "a", "b", "c", "d", "e" };
	struct hwheel_options o = defaults();

	reset();
	o.workers = 1;
	o.queue = 2;
	o.overload = overload;
	struct hwheel *w = make(&o);

	set(w, "held", hold, 0, 1 * MS);
	CHECK_EQ(hwheel_advance(w, 1 * MS, NULL, 0, NULL), 0);
	until(&inside, 1);
	for (uint64_t i = 0; i < 5; i++)
		set(w, keys[i], note_key, i + 1, (2 + i) * MS);
	return w;
}

static void all_is_over(struct hwheel *w, uint64_t in_order)
{
	atomic_store(&release, 1);
	CHECK_EQ(hwheel_stop(w), 0);
	CHECK_EQ(atomic_load(&order), in_order);
	CHECK_EQ(stats(w).live, 0);
	CHECK_EQ(hwheel_destroy(w), 0);
}

static void without_room_the_driver_runs_it(void)
{
	struct hwheel *w = crowd(HWHEEL_OVERLOAD_RUN);

	CHECK_EQ(hwheel_advance(w, 10 * MS, NULL, 0, NULL), 0);
	CHECK_EQ(atomic_load(&order), 345);
	CHECK_EQ(stats(w).queued, 2);
	CHECK_EQ(stats(w).live, 3);
	atomic_store(&release, 1);
	until(&calls, 6);
	all_is_over(w, 34512);
}

static void without_room_it_is_dropped(void)
{
	struct hwheel *w = crowd(HWHEEL_OVERLOAD_DROP);

	CHECK_EQ(hwheel_advance(w, 10 * MS, NULL, 0, NULL), 0);
	CHECK_EQ(stats(w).dropped, 3);
	CHECK_EQ(stats(w).live, 3);
	CHECK_EQ(hwheel_key_pending(w, "e", 1), 0);
	atomic_store(&release, 1);
	until(&calls, 3);
	all_is_over(w, 12);
}

static void *advance(void *w)
{
	CHECK_EQ(hwheel_advance(w, 10 * MS, NULL, 0, NULL), 0);
	return NULL;
}

static void without_room_the_driver_waits(void)
{
	struct hwheel *w = crowd(HWHEEL_OVERLOAD_BLOCK);
	pthread_t thread;

	CHECK_EQ(pthread_create(&thread, NULL, advance, w), 0);
	for (int i = 0; i < 20000 && stats(w).queued < 2; i++)
		ktap_sleep_ms(1);
	CHECK_EQ(atomic_load(&order), 0);
	atomic_store(&release, 1);
	CHECK_EQ(pthread_join(thread, NULL), 0);
	until(&calls, 6);
	all_is_over(w, 12345);
}

static void a_drain_leaves_what_is_queued(void)
{
	struct hwheel *w = crowd(HWHEEL_OVERLOAD_RUN);
	struct hwheel_event e[8];

	CHECK_EQ(hwheel_advance(w, 3 * MS, NULL, 0, NULL), 0);
	CHECK_EQ(hwheel_drain(w, e, 8), 3);
	for (int i = 0; i < 3; i++)
		CHECK_EQ(e[i].timer, 0);
	CHECK_EQ(stats(w).live, 3);
	CHECK_EQ(hwheel_key_set(w, "a", 1, MS, note_key, 9, 0), -ESHUTDOWN);
	atomic_store(&release, 1);
	until(&calls, 3);
	all_is_over(w, 12);
}

static void a_destroy_runs_what_is_queued(void)
{
	struct hwheel *w = crowd(HWHEEL_OVERLOAD_RUN);

	CHECK_EQ(hwheel_advance(w, 3 * MS, NULL, 0, NULL), 0);
	CHECK_EQ(stats(w).queued, 2);
	atomic_store(&release, 1);
	CHECK_EQ(hwheel_destroy(w), 0);
	CHECK_EQ(atomic_load(&calls), 3);
}

static const struct ktap_test tests[] = {
	TEST(the_key_is_free_while_its_callback_waits),
	TEST(a_callback_in_a_worker_sets_its_own_key),
	TEST(keys_leave_nothing_in_workers),
	TEST(without_room_the_driver_runs_it),
	TEST(without_room_it_is_dropped),
	TEST(without_room_the_driver_waits),
	TEST(a_drain_leaves_what_is_queued),
	TEST(a_destroy_runs_what_is_queued),
};
KTAP_MAIN(tests)
