/* The queue of workers and executors: when it is full, at the end, and what is taken out. */
#include "crew.h"

/* A timer with a handle, or with its cookie as its key. */
static void add(struct hwheel *w, int by_key, hwheel_fn fn, uint64_t cookie, uint64_t at)
{
	if (by_key)
		CHECK_EQ(hwheel_key_set(w, &cookie, sizeof cookie, at, fn, cookie, HWHEEL_ABS), 0);
	else
		arm(w, fn, cookie, at);
}

/* One worker that is held, a queue of two, five timers. */
static struct hwheel *crowd(uint32_t overload, int by_key)
{
	struct hwheel_options o = defaults();

	reset();
	o.workers = 1;
	o.queue = 2;
	o.overload = overload;
	struct hwheel *w = make(&o);

	add(w, by_key, hold, 0, 1 * MS);
	CHECK_EQ(hwheel_advance(w, 1 * MS, NULL, 0, NULL), 0);
	until(&inside, 1);
	for (uint64_t i = 1; i <= 5; i++)
		add(w, by_key, by_key ? note_key : note, i, (1 + i) * MS);
	return w;
}

/* One with a handle stays, one with a key lives until its callback is over. */
static void check_live(struct hwheel *w, int by_key, uint64_t unfinished)
{
	CHECK_EQ(stats(w).live, by_key ? unfinished : 6);
}

static void end(struct hwheel *w, int by_key)
{
	CHECK_EQ(hwheel_stop(w), 0);
	check_live(w, by_key, 0);
	CHECK_EQ(hwheel_destroy(w), 0);
}

TEST(without_room_the_driver_runs_it)
{
	for (int by_key = 0; by_key < 2; by_key++) {
		struct hwheel *w = crowd(HWHEEL_OVERLOAD_RUN, by_key);

		CHECK_EQ(hwheel_advance(w, 10 * MS, NULL, 0, NULL), 0);
		CHECK_EQ(atomic_load(&order), 345);
		CHECK_EQ(stats(w).queued, 2);
		check_live(w, by_key, 3);
		atomic_store(&release, 1);
		until(&calls, 6);
		CHECK_EQ(atomic_load(&order), 34512);
		end(w, by_key);
	}
}

TEST(without_room_it_is_dropped_and_counted)
{
	const uint64_t last = 5;

	for (int by_key = 0; by_key < 2; by_key++) {
		struct hwheel *w = crowd(HWHEEL_OVERLOAD_DROP, by_key);

		CHECK_EQ(hwheel_advance(w, 10 * MS, NULL, 0, NULL), 0);
		CHECK_EQ(atomic_load(&order), 0);
		CHECK_EQ(stats(w).dropped, 3);
		CHECK_EQ(stats(w).fired, 6);
		check_live(w, by_key, 3);
		CHECK_EQ(hwheel_key_pending(w, &last, sizeof last), 0);
		atomic_store(&release, 1);
		until(&calls, 3);
		CHECK_EQ(hwheel_stop(w), 0);
		CHECK_EQ(atomic_load(&order), 12);
		end(w, by_key);
	}
}

TEST(a_queue_may_have_room_for_one)
{
	atomic_int asked = 0;
	WHEEL w = with_executor(MS, 1, &asked);

	for (uint64_t i = 1; i <= 2; i++) {
		arm(w, note, 2 * i - 1, (2 * i - 1) * MS);
		arm(w, note, 2 * i, 2 * i * MS);
		CHECK_EQ(hwheel_advance(w, 2 * i * MS, NULL, 0, NULL), 0);
		CHECK_EQ(stats(w).queued, 1);
		CHECK_EQ(atomic_load(&asked), i);
		CHECK_EQ(hwheel_run_queued(w), 1);
		CHECK_EQ(hwheel_run_queued(w), 0);
	}
	CHECK_EQ(atomic_load(&order), 2143);
}

TEST(stop_and_destroy_run_what_is_queued)
{
	for (int i = 0; i < 4; i++) {
		struct hwheel *w = crowd(HWHEEL_OVERLOAD_RUN, i / 2);

		CHECK_EQ(hwheel_advance(w, 3 * MS, NULL, 0, NULL), 0);
		CHECK_EQ(stats(w).queued, 2);
		atomic_store(&release, 1);
		if (i % 2 == 0) {
			CHECK_EQ(hwheel_stop(w), 0);
			CHECK_EQ(atomic_load(&calls), 3);
		}
		CHECK_EQ(hwheel_destroy(w), 0);
		CHECK_EQ(atomic_load(&calls), 3);
	}
}

TEST(drain_leaves_what_is_queued)
{
	const uint64_t key = 1;

	for (int by_key = 0; by_key < 2; by_key++) {
		struct hwheel *w = crowd(HWHEEL_OVERLOAD_RUN, by_key);
		struct hwheel_event events[8];

		CHECK_EQ(hwheel_advance(w, 3 * MS, NULL, 0, NULL), 0);
		CHECK_EQ(hwheel_drain(w, events, 8), 3);
		for (int i = 0; i < 3; i++)
			CHECK_EQ(events[i].timer == 0, by_key);
		check_live(w, by_key, 3);
		CHECK_EQ(hwheel_key_set(w, &key, sizeof key, MS, note_key, 9, 0), -ESHUTDOWN);
		atomic_store(&release, 1);
		until(&calls, 3);
		CHECK_EQ(hwheel_stop(w), 0);
		CHECK_EQ(atomic_load(&order), 12);
		struct hwheel_stats s = stats(w);

		CHECK_EQ(s.armed, s.fired + s.cancelled + s.drained + s.pending);
		end(w, by_key);
	}
}

static void *release_later(void *arg)
{
	ktap_sleep_ms(50);
	atomic_store(&release, 1);
	return NULL;
}

TEST(sync_delete_takes_out_what_is_queued)
{
	WHEEL w = crowd(HWHEEL_OVERLOAD_RUN, 0);
	hwheel_timer_t t = arm(w, note, 9, 2 * MS);
	struct hwheel_stats before;
	pthread_t thread;

	/* 1 and 9 wait behind the one that runs. */
	CHECK_EQ(hwheel_advance(w, 2 * MS, NULL, 0, NULL), 0);
	before = stats(w);
	CHECK_EQ(before.queued, 2);
	CHECK_EQ(hwheel_timer_delete_sync(w, t), 1);
	CHECK_EQ(stats(w).queued, 1);
	CHECK_EQ(stats(w).fired, before.fired - 1);
	CHECK_EQ(stats(w).cancelled, before.cancelled + 1);
	CHECK_EQ(memcmp(stats(w).lateness, before.lateness, sizeof before.lateness), 0);
	CHECK_EQ(pthread_create(&thread, NULL, release_later, NULL), 0);
	CHECK_EQ(hwheel_stop(w), 0);
	CHECK_EQ(atomic_load(&order), 1);
	CHECK_EQ(pthread_join(thread, NULL), 0);
}

/* At the front or behind it. */
TEST(the_place_of_what_was_taken_out_is_free)
{
	atomic_int asked = 0;
	WHEEL w = with_executor(MS, 2, &asked);

	arm(w, note, 1, 1 * MS);
	hwheel_timer_t second = arm(w, note, 2, 2 * MS);
	CHECK_EQ(hwheel_advance(w, 2 * MS, NULL, 0, NULL), 0);
	CHECK_EQ(stats(w).queued, 2);
	CHECK_EQ(hwheel_timer_delete_sync(w, second), 1);
	CHECK_EQ(hwheel_run_queued(w), 1);
	CHECK_EQ(stats(w).queued, 0);
	hwheel_timer_t third = arm(w, note, 3, 3 * MS);
	arm(w, note, 4, 4 * MS);
	CHECK_EQ(hwheel_advance(w, 4 * MS, NULL, 0, NULL), 0);
	CHECK_EQ(stats(w).queued, 2);
	CHECK_EQ(hwheel_timer_delete_sync(w, third), 1);
	arm(w, note, 5, 5 * MS);
	CHECK_EQ(hwheel_advance(w, 5 * MS, NULL, 0, NULL), 0);
	CHECK_EQ(stats(w).queued, 2);
	while (hwheel_run_queued(w) == 1)
		;
	CHECK_EQ(atomic_load(&order), 145);
}

static uint64_t ran_last, ran_disorder;

static void note_order(struct hwheel *w, const struct hwheel_event *e)
{
	ran_disorder += e->cookie <= ran_last;
	ran_last = e->cookie;
	atomic_fetch_add(&calls, 1);
}

static uint64_t chosen, chances;

static uint64_t choose(uint64_t n)
{
	chances = chances * 6364136223846793005u + 1442695040888963407u;
	return (chances >> 33) % n;
}

/*
 * Timers come into the queue, are taken out of its middle, and run, in any order. It is
 * full when all of its places are taken, and only then.
 */
static void at_random(uint32_t size, unsigned runs_of_8)
{
	enum { MOST = 64 };
	static atomic_int asked;
	struct hwheel_options o = defaults();
	hwheel_timer_t in_queue[MOST];
	uint64_t dropped = 0, cookie = 0, tick = 0;
	uint32_t n = 0;

	CHECK(size <= MOST);
	reset();
	ran_last = ran_disorder = 0;
	o.queue = size;
	o.overload = HWHEEL_OVERLOAD_DROP;
	o.executor = execute;
	o.executor_arg = &asked;
	WHEEL w = make(&o);

	for (int step = 0; step < 20000; step++) {
		uint64_t what = choose(8);

		if (what < 4) {
			hwheel_timer_t t = arm(w, note_order, ++cookie, ++tick * MS);

			CHECK_EQ(hwheel_advance(w, tick * MS, NULL, 0, NULL), 0);
			if (n < size)
				in_queue[n++] = t;
			else
				dropped++;
		} else if (what < 4 + runs_of_8) {
			CHECK_EQ(hwheel_run_queued(w), n > 0);
			if (n > 0)
				memmove(in_queue, in_queue + 1, --n * sizeof *in_queue);
		} else if (n > 0) {
			/* mostly behind the oldest */
			chosen = choose(4) == 0 ? choose(n) : n - 1 - choose(n) / 2;
			CHECK_EQ(hwheel_timer_delete_sync(w, in_queue[chosen]), 1);
			n--;
			memmove(in_queue + chosen, in_queue + chosen + 1, (n - chosen) * sizeof *in_queue);
		}
		CHECK_EQ(stats(w).queued, n);
		CHECK_EQ(stats(w).dropped, dropped);
	}
	CHECK_EQ(ran_disorder, 0);
}

TEST(it_is_full_when_all_places_are_taken)
{
	for (uint32_t size = 1; size <= 64; size *= 2)
		for (unsigned runs_of_8 = 0; runs_of_8 <= 4; runs_of_8++)
			at_random(size, runs_of_8);
}

/* The oldest stays, as if its executor were stuck, and all others are taken out. */
TEST(the_oldest_holds_up_no_place)
{
	enum { SIZE = 1024 };
	static hwheel_timer_t t[SIZE];
	static atomic_int asked;
	struct hwheel_options o = defaults();
	uint64_t cookie = 0, tick = 0;

	reset();
	ran_last = ran_disorder = 0;
	o.overload = HWHEEL_OVERLOAD_DROP;
	o.executor = execute;
	o.executor_arg = &asked;
	WHEEL w = make(&o);

	t[0] = arm(w, note_order, ++cookie, ++tick * MS);
	for (int round = 0; round < 20; round++) {
		for (int i = 1; i < SIZE; i++)
			t[i] = arm(w, note_order, ++cookie, ++tick * MS);
		CHECK_EQ(hwheel_advance(w, tick * MS, NULL, 0, NULL), 0);
		CHECK_EQ(stats(w).queued, SIZE);
		CHECK_EQ(stats(w).dropped, round);
		/* one too many */
		arm(w, note_order, ++cookie, ++tick * MS);
		CHECK_EQ(hwheel_advance(w, tick * MS, NULL, 0, NULL), 0);
		CHECK_EQ(stats(w).dropped, round + 1);
		for (int i = SIZE - 1; round < 19 && i >= 1; i--)
			CHECK_EQ(hwheel_timer_delete_sync(w, t[i]), 1);
	}
	while (hwheel_run_queued(w) == 1)
		;
	CHECK_EQ(atomic_load(&calls), SIZE);
	CHECK_EQ(ran_disorder, 0);
}

static hwheel_timer_t victim;
static atomic_int answer;

static void delete_victim(struct hwheel *w, const struct hwheel_event *e)
{
	atomic_store(&inside, 1);
	until(&release, 1);
	atomic_store(&answer, hwheel_timer_delete_sync(w, victim));
	atomic_fetch_add(&calls, 1);
}

/* The only worker waits for a callback that is queued behind it. */
TEST(sync_delete_in_a_worker_takes_out_what_it_waits_for)
{
	struct hwheel_options o = defaults();

	reset();
	atomic_store(&answer, -1);
	o.workers = 1;
	WHEEL w = make(&o);

	arm(w, delete_victim, 0, 1 * MS);
	CHECK_EQ(hwheel_advance(w, 1 * MS, NULL, 0, NULL), 0);
	until(&inside, 1);
	victim = arm(w, note, 7, 2 * MS);
	CHECK_EQ(hwheel_advance(w, 2 * MS, NULL, 0, NULL), 0);
	CHECK_EQ(stats(w).queued, 1);
	atomic_store(&release, 1);
	until(&calls, 1);
	CHECK_EQ(atomic_load(&answer), 1);
	CHECK_EQ(hwheel_stop(w), 0);
	CHECK_EQ(atomic_load(&order), 0);
}

/* Timers by key whose callbacks run in workers or an executor. */

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
