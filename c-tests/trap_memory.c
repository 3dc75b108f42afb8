/*
 * Memory and life: timers that keep memory after they were cancelled, or that
 * outlive their owner's interest, their drain, their process or their wheel.
 */
#include <sys/wait.h>
#include "ktap.h"

#define TIMEOUT (300 * SEC)

static _Atomic unsigned fired;
static _Atomic unsigned bad;		/* answers in threads that were not right */

static void count(struct hwheel *w, const struct hwheel_event *e)
{
	fired++;
}

/* The memory of this process that is in use, in bytes. */
static size_t resident(void)
{
	FILE *f = fopen("/proc/self/statm", "r");
	size_t pages = 0;
	int got = f ? fscanf(f, "%*s %zu", &pages) : 0;

	CHECK(f != NULL);
	fclose(f);
	CHECK_EQ(got, 1);
	return pages * (size_t)sysconf(_SC_PAGESIZE);
}

/*
 * 100,000 requests a second, @live at a time, each with a timeout of five
 * minutes and done long before; @seconds of them on the wheel's clock.
 */
static void requests(struct hwheel *w, hwheel_timer_t *open, unsigned live,
		     unsigned seconds, uint64_t *now)
{
	for (unsigned n = 0; n < seconds * 100000; n++) {
		hwheel_timer_t *timer = &open[n % live];

		if (*timer != 0)
			CHECK_EQ(hwheel_timer_delete(w, *timer), 1);
		CHECK_EQ(hwheel_once(w, TIMEOUT, count, n, 0, timer), 0);
		*now += SEC / 100000;
		CHECK_EQ(hwheel_advance(w, *now, NULL, 0, NULL), 0);
	}
}

TEST(f1_cancelled_timers_keep_no_memory)
{
	static hwheel_timer_t open[1000];

	for (unsigned levels = 1; levels <= 4; levels += 3) {
		WHEEL w = ktap_manual(MS, levels, 256, 0);
		uint64_t now = 0, slab;
		size_t before;

		memset(open, 0, sizeof open);
		fired = 0;
		requests(w, open, COUNT(open), 2, &now);
		slab = stats(w).slab_bytes;
		before = resident();
		requests(w, open, COUNT(open), 20, &now);
		CHECK_EQ(stats(w).slab_bytes, slab);
		/* two million cancelled timers of 32 bytes would be 64 MB */
		CHECK(resident() < before + (4 << 20));
		CHECK_EQ(stats(w).live, COUNT(open));
		CHECK_EQ(fired, 0);
	}
}

/* One timer moved on by every request: its old deadlines leave nothing. */
TEST(f1_moved_timers_keep_no_memory)
{
	WHEEL w = ktap_manual(MS, 4, 256, 0);
	size_t before = 0;
	hwheel_timer_t timer = ktap_timer_of(w, count, 0);

	for (unsigned n = 0; n < 2000000; n++) {
		/* every other move is to an earlier deadline */
		CHECK_EQ(hwheel_timer_mod(w, timer, n * MS / 100 + (n % 2 ? SEC : TIMEOUT), HWHEEL_ABS),
			 n > 0);
		CHECK_EQ(hwheel_advance(w, n * MS / 100, NULL, 0, NULL), 0);
		if (n == 200000)
			before = resident();
	}
	CHECK(resident() < before + (4 << 20));
	CHECK_EQ(stats(w).live, 1);
}

TEST(f2_pending_timers_are_bounded)
{
	WHEEL w = MADE(.clock = HWHEEL_CLOCK_MANUAL, .max_timers = 1000);
	hwheel_timer_t timers[1000], more = 77;

	for (unsigned n = 0; n < 1000; n++)
		CHECK_EQ(hwheel_once(w, TIMEOUT, count, n, 0, &timers[n]), 0);
	for (unsigned n = 0; n < 1000; n++) {
		CHECK_EQ(hwheel_once(w, TIMEOUT, count, n, 0, &more), -ENOSPC);
		CHECK_EQ(more, 77);
		CHECK_EQ(stats(w).live, 1000);
		/* room again for exactly one */
		CHECK_EQ(hwheel_timer_delete(w, timers[n]), 1);
		CHECK_EQ(hwheel_once(w, TIMEOUT, count, n, 0, &timers[n]), 0);
	}
	fired = 0;
	CHECK_EQ(hwheel_advance(w, TIMEOUT, NULL, 0, NULL), 0);
	CHECK_EQ(fired, 1000);
}

/* A server: threads come and go, each request makes and frees a timer. */
static void *serve(void *arg)
{
	struct hwheel *w = arg;

	for (unsigned n = 0; n < 2000; n++) {
		hwheel_timer_t timer = 0;

		bad += hwheel_timer_setup(w, count, n, &timer) != 0;
		bad += hwheel_timer_mod(w, timer, TIMEOUT, 0) != 0;
		bad += hwheel_timer_mod(w, timer, TIMEOUT / 2, 0) != 1;
		bad += hwheel_timer_free(w, timer) != 1;
	}
	return NULL;
}

TEST(f3_cancel_and_arm_per_request_leaks_nothing)
{
	WHEEL w = ktap_manual(MS, 4, 256, 0);
	uint64_t slab = 0;
	size_t before = 0;

	bad = 0;
	for (unsigned n = 0; n < 500; n++) {
		pthread_t thread[2];

		for (unsigned t = 0; t < 2; t++)
			CHECK_EQ(pthread_create(&thread[t], NULL, serve, w), 0);
		for (unsigned t = 0; t < 2; t++)
			CHECK_EQ(pthread_join(thread[t], NULL), 0);
		CHECK_EQ(hwheel_advance(w, n * MS, NULL, 0, NULL), 0);
		if (n == 50) {
			before = resident();
			slab = stats(w).slab_bytes;
		}
	}
	CHECK_EQ(bad, 0);
	CHECK_EQ(stats(w).live, 0);
	/* A thread that finds the free list empty takes a run of fresh nodes. */
	CHECK(stats(w).slab_bytes <= slab + 3072);
	CHECK(resident() < before + (4 << 20));
}

/* The old deadline of a timer that was moved is not the timer. */
TEST(f4_moved_timer_is_untouched_by_its_old_deadline)
{
	for (unsigned by = 1; by < 100000; by = by * 3 + 1) {
		WHEEL w = ktap_manual(MS, 4, 16, 0);
		hwheel_timer_t timer = 0;

		fired = 0;
		CHECK_EQ(hwheel_once(w, 5 * MS, count, 0, 0, &timer), 0);
		CHECK_EQ(hwheel_timer_mod(w, timer, (5 + by) * MS, HWHEEL_ABS), 1);
		CHECK_EQ(hwheel_advance(w, 5 * MS, NULL, 0, NULL), 0);
		CHECK_EQ(fired, 0);
		CHECK_EQ(hwheel_timer_pending(w, timer), 1);
		/* and another's old deadline is not this one's */
		CHECK_EQ(hwheel_timer_delete(w, timer), 1);
		CHECK_EQ(hwheel_once(w, (20 + by) * MS, count, 0, HWHEEL_ABS, &timer), 0);
		CHECK_EQ(hwheel_advance(w, (5 + by) * MS, NULL, 0, NULL), 0);
		CHECK_EQ(fired, 0);
		CHECK_EQ(hwheel_advance(w, (20 + by) * MS, NULL, 0, NULL), 0);
		CHECK_EQ(fired, 1);
		CHECK_EQ(stats(w).live, 0);
	}
}

TEST(f4_drain_leaves_no_handle_behind)
{
	WHEEL w = ktap_manual(MS, 4, 256, 0);
	hwheel_timer_t by_key[500], timer = 0;
	struct hwheel_event events[7];
	unsigned handed = 0;
	int n;

	for (unsigned key = 0; key < 500; key++)
		CHECK_EQ(hwheel_once(w, (1 + key * 37) * MS, NULL, key, 0, &by_key[key]), 0);
	/* a key that was set again names the new timer alone */
	CHECK_EQ(hwheel_timer_delete(w, by_key[9]), 1);
	CHECK_EQ(hwheel_once(w, SEC, NULL, 9, 0, &by_key[9]), 0);
	do {
		n = hwheel_drain(w, events, COUNT(events));
		CHECK(n >= 0);
		for (int i = 0; i < n; i++) {
			uint64_t key = events[i].cookie;

			CHECK(key < 500);
			CHECK_EQ(events[i].timer, by_key[key]);
			CHECK_EQ(hwheel_timer_delete(w, by_key[key]), -ESTALE);
			by_key[key] = 0;
			handed++;
		}
	} while (n == (int)COUNT(events));
	CHECK_EQ(handed, 500);
	CHECK_EQ(stats(w).live, 0);
	CHECK_EQ(hwheel_once(w, MS, NULL, 0, 0, &timer), -ESHUTDOWN);
}

TEST(f4_a_key_names_the_timer_that_it_was_set_to_last)
{
	WHEEL w = ktap_manual(MS, 4, 256, 0);
	struct hwheel_event events[7];
	unsigned handed = 0;
	int n;

	/* the one that was moved, and the one that has another's place */
	CHECK_EQ(hwheel_key_set(w, NUMBER(1), 5 * MS, NULL, 1, 0), 0);
	CHECK_EQ(hwheel_key_mod(w, NUMBER(1), 50 * MS, 0), 1);
	CHECK_EQ(hwheel_key_set(w, NUMBER(2), 5 * MS, count, 2, 0), 0);
	CHECK_EQ(hwheel_key_set(w, NUMBER(2), 50 * MS, NULL, 3, 0), 1);
	fired = 0;
	CHECK_EQ(hwheel_advance(w, 49 * MS, events, COUNT(events), NULL), 0);
	CHECK_EQ(fired, 0);
	CHECK_EQ(hwheel_key_pending(w, NUMBER(1)), 1);
	CHECK_EQ(hwheel_key_pending(w, NUMBER(2)), 1);
	/* none is left behind by a drain */
	for (uint64_t id = 3; id < 500; id++)
		CHECK_EQ(hwheel_key_set(w, NUMBER(id), (1 + id * 37) * MS, count, id + 1, 0), 0);
	do {
		n = hwheel_drain(w, events, COUNT(events));
		CHECK(n >= 0);
		handed += (unsigned)n;
	} while (n == (int)COUNT(events));
	CHECK_EQ(handed, 499);
	for (uint64_t id = 0; id < 500; id++) {
		CHECK_EQ(hwheel_key_pending(w, NUMBER(id)), 0);
		CHECK_EQ(hwheel_key_delete(w, NUMBER(id)), 0);
		CHECK_EQ(hwheel_key_set(w, NUMBER(id), MS, NULL, id, 0), -ESHUTDOWN);
	}
	CHECK_EQ(stats(w).live, 0);
}

enum { DRAINED = 20000 };
static hwheel_timer_t timers[DRAINED];
static _Atomic unsigned ends[DRAINED];	/* how often each was cancelled or drained */

static void *cancel_all(void *arg)
{
	struct hwheel *w = arg;

	for (unsigned n = 0; n < DRAINED; n++) {
		int was = hwheel_timer_delete(w, timers[n]);

		ends[n] += was == 1;
		bad += was != 1 && was != -ESTALE;
	}
	return NULL;
}

/* A drained timer has ended: it is not cancelled or fired as well. */
TEST(f5_drained_timers_have_one_end)
{
	for (unsigned round = 0; round < 20; round++) {
		WHEEL w = ktap_manual(MS, round % 2 ? 1 : 4, 256, 0);
		struct hwheel_event events[64];
		pthread_t thread;
		int n;

		bad = fired = 0;
		for (unsigned i = 0; i < DRAINED; i++) {
			ends[i] = 0;
			CHECK_EQ(hwheel_once(w, (1 + i * 7919 % 99991) * MS, count, i, 0,
					      &timers[i]), 0);
		}
		CHECK_EQ(pthread_create(&thread, NULL, cancel_all, w), 0);
		do {
			n = hwheel_drain(w, events, COUNT(events));
			for (int i = 0; i < n; i++) {
				ends[events[i].cookie]++;
				bad += events[i].flags != HWHEEL_EVENT_DRAINED;
				bad += hwheel_timer_delete(w, events[i].timer) != -ESTALE;
			}
		} while (n == (int)COUNT(events));
		CHECK(n >= 0);
		/* all is done when it says so */
		CHECK_EQ(hwheel_advance(w, TIMEOUT, NULL, 0, NULL), 0);
		CHECK_EQ(pthread_join(thread, NULL), 0);
		CHECK_EQ(fired, 0);
		CHECK_EQ(bad, 0);
		for (unsigned i = 0; i < DRAINED; i++)
			CHECK_EQ(ends[i], 1);
		CHECK_EQ(stats(w).live, 0);
	}
}

/* Which call of a child gave the wrong answer: its line, or 0. */
static int child(struct hwheel *w, hwheel_timer_t timer)
{
	struct hwheel_event e;
	struct hwheel *own = NULL;

#define EXPECT(call, want) do { if ((call) != (want)) return __LINE__; } while (0)
	/* hanging is failing */
	alarm(20);
	EXPECT(hwheel_timer_delete_sync(w, timer), -ESHUTDOWN);
	EXPECT(hwheel_timer_mod(w, timer, 0, 0), -ESHUTDOWN);
	EXPECT(hwheel_poll(w, &e, 1, NULL), -ESHUTDOWN);
	EXPECT(hwheel_drain(w, &e, 1), -ESHUTDOWN);
	EXPECT(hwheel_stop(w), -ESHUTDOWN);
	EXPECT(hwheel_destroy(w), 0);
	/* and one of its own works */
	EXPECT(hwheel_create(NULL, &own), 0);
	EXPECT(hwheel_start(own), 0);
	EXPECT(hwheel_once(own, 0, count, 0, 0, NULL), 0);
	while (fired == 0)
		ktap_sleep_ms(1);
	EXPECT(hwheel_destroy(own), 0);
	return 0;
}

TEST(f9_child_of_a_fork_does_not_wait_for_the_parents_thread)
{
	WHEEL w = ktap_started(NULL);
	hwheel_timer_t timer = 0;

	CHECK_EQ(hwheel_once(w, TIMEOUT, count, 0, 0, &timer), 0);
	for (unsigned n = 0; n < 20; n++) {
		int status = 0;
		pid_t pid;

		fired = 0;
		pid = fork();
		CHECK(pid >= 0);
		if (pid == 0)
			_exit(child(w, timer) != 0);
		CHECK_EQ(waitpid(pid, &status, 0), pid);
		CHECK_EQ(status, 0);
		/* the parent's went on */
		CHECK_EQ(hwheel_timer_pending(w, timer), 1);
	}
	CHECK_EQ(hwheel_timer_delete(w, timer), 1);
}

/* Every call with a handle that is not one any more. */
static void stale(struct hwheel *w, hwheel_timer_t timer)
{
	uint64_t left = 77;

	CHECK_EQ(hwheel_timer_mod(w, timer, MS, 0), -ESTALE);
	CHECK_EQ(hwheel_timer_mod(w, timer, MS, HWHEEL_ABS), -ESTALE);
	CHECK_EQ(hwheel_timer_mod(w, timer, MS, HWHEEL_REDUCE), -ESTALE);
	CHECK_EQ(hwheel_timer_mod(w, timer, MS, HWHEEL_IF_PENDING), -ESTALE);
	CHECK_EQ(hwheel_timer_delete(w, timer), -ESTALE);
	CHECK_EQ(hwheel_timer_delete_sync(w, timer), -ESTALE);
	CHECK_EQ(hwheel_timer_shutdown(w, timer), -ESTALE);
	CHECK_EQ(hwheel_timer_shutdown_sync(w, timer), -ESTALE);
	CHECK_EQ(hwheel_timer_free(w, timer), -ESTALE);
	CHECK_EQ(hwheel_timer_pending(w, timer), -ESTALE);
	CHECK_EQ(hwheel_timer_remaining(w, timer, &left), -ESTALE);
	CHECK_EQ(left, 77);
}

TEST(f10_freed_handle_is_an_error)
{
	WHEEL w = ktap_manual(MS, 4, 256, 0);
	hwheel_timer_t timer = 0, other = 0;

	timer = ktap_armed(w, count, 0, MS);
	CHECK_EQ(hwheel_timer_free(w, timer), 1);
	stale(w, timer);
	/* also when its place is another's */
	CHECK_EQ(hwheel_once(w, 5 * MS, count, 0, 0, &other), 0);
	stale(w, timer);
	CHECK_EQ(hwheel_timer_pending(w, other), 1);
	fired = 0;
	CHECK_EQ(hwheel_advance(w, 5 * MS, NULL, 0, NULL), 0);
	CHECK_EQ(fired, 1);
	stale(w, other);
}

/* A wheel was destroyed, and another may have its address. */
TEST(f10_handle_of_a_destroyed_wheel_is_an_error)
{
	hwheel_timer_t old[64];

	for (unsigned round = 0; round < 50; round++) {
		WHEEL w = ktap_manual(MS, 4, 256, 0);
		hwheel_timer_t fresh[64];

		for (unsigned n = 0; n < 64; n++)
			CHECK_EQ(hwheel_once(w, MS, count, n, 0, &fresh[n]), 0);
		for (unsigned n = 0; n < 64 && round > 0; n++)
			stale(w, old[n]);
		CHECK_EQ(stats(w).live, 64);
		memcpy(old, fresh, sizeof old);
	}
}
