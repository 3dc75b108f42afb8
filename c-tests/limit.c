/* The limit on live timers. */
#include <sched.h>
#include "ktap.h"

static struct hwheel *limited(uint32_t max)
{
	return MADE(.clock = HWHEEL_CLOCK_MANUAL, .max_timers = max);
}

static void full(struct hwheel *w)
{
	hwheel_timer_t t = JUNK;

	CHECK_EQ(hwheel_timer_setup(w, NULL, 0, &t), -ENOSPC);
	CHECK_EQ(hwheel_once(w, MS, NULL, 0, 0, &t), -ENOSPC);
	CHECK_EQ(hwheel_once(w, MS, NULL, 0, HWHEEL_ABS, &t), -ENOSPC);
	CHECK_EQ(hwheel_every(w, MS, MS, 0, NULL, 0, 0, &t), -ENOSPC);
	CHECK_EQ(hwheel_once(w, MS, NULL, 0, 0, NULL), -ENOSPC);
	CHECK_EQ(t, JUNK);
}

TEST(the_limit_is_exact)
{
	static const uint32_t limits[] = { 1, 2, 100, 32768, 32769 };

	for (size_t i = 0; i < COUNT(limits); i++) {
		WHEEL w = limited(limits[i]);

		for (uint32_t n = 0; n < limits[i]; n++)
			ktap_timer(w);
		full(w);
		CHECK_EQ(stats(w).live, limits[i]);
	}
}

WHEEL_TEST(there_is_room_again_after_free, limited(3))
{
	hwheel_timer_t t[3];

	for (int i = 0; i < 3; i++)
		t[i] = ktap_timer(w);
	for (int round = 0; round < 1000; round++) {
		int i = round % 3;

		full(w);
		CHECK_EQ(hwheel_timer_free(w, t[i]), 0);
		t[i] = ktap_timer(w);
	}
	full(w);
}

WHEEL_TEST(there_is_room_again_when_one_has_fired, limited(2))
{
	struct hwheel_event e[4];
	hwheel_timer_t t = 0;

	CHECK_EQ(hwheel_once(w, MS, NULL, 0, 0, NULL), 0);
	CHECK_EQ(hwheel_once(w, 2 * MS, NULL, 0, 0, &t), 0);
	full(w);
	CHECK_EQ(hwheel_advance(w, MS, e, 4, NULL), 1);
	CHECK_EQ(hwheel_once(w, 10 * MS, NULL, 0, 0, NULL), 0);
	full(w);
	CHECK_EQ(hwheel_timer_delete(w, t), 1);
	CHECK_EQ(hwheel_once(w, 10 * MS, NULL, 0, 0, NULL), 0);
	full(w);
	CHECK_EQ(hwheel_advance(w, SEC, e, 4, NULL), 2);
	CHECK_EQ(hwheel_once(w, 10 * MS, NULL, 0, 0, NULL), 0);
}

WHEEL_TEST(a_full_wheel_still_moves_its_timers, limited(1))
{
	struct hwheel_event e[2];
	hwheel_timer_t t = ktap_timer(w);

	for (uint64_t i = 0; i < 1000; i++) {
		CHECK_EQ(hwheel_timer_mod(w, t, (1000 - i) * MS, 0), i != 0);
		full(w);
	}
	CHECK_EQ(hwheel_advance(w, MS, e, 2, NULL), 1);
}

static struct {
	struct hwheel *w;
	hwheel_timer_t t[100];
} other;

static void *free_them(void *arg)
{
	for (int i = 0; i < 100; i++)
		CHECK_EQ(hwheel_timer_free(other.w, other.t[i]), 0);
	return NULL;
}

WHEEL_TEST(what_another_thread_has_freed_is_room, other.w = limited(100))
{
	for (int round = 0; round < 10; round++) {
		for (int i = 0; i < 100; i++)
			CHECK_EQ(hwheel_timer_setup(other.w, NULL, 0, &other.t[i]), 0);
		full(other.w);
		ktap_in_a_thread(free_them, NULL);
	}
}

/* Makers hold a permit for each timer that lives; one thread frees what they make. */
enum { MAKERS = 3, ROUNDS = 20000 };
static _Atomic hwheel_timer_t made[MAKERS];
static atomic_int permits, makers, refused;

static int take_permit(void)
{
	int n = atomic_load(&permits);

	while (n > 0 && !atomic_compare_exchange_weak(&permits, &n, n - 1))
		;
	return n > 0;
}

static void *make_them(void *arg)
{
	_Atomic hwheel_timer_t *mine = arg;

	for (int n = 0; n < ROUNDS;) {
		hwheel_timer_t t = 0;

		if (atomic_load(mine) != 0 || !take_permit()) {
			sched_yield();
			continue;
		}
		if (hwheel_timer_setup(other.w, NULL, 0, &t) == 0) {
			atomic_store(mine, t);
			n++;
			continue;
		}
		/* There is room; the next call may find it. */
		atomic_fetch_add(&refused, 1);
		atomic_fetch_add(&permits, 1);
		sched_yield();
	}
	atomic_fetch_sub(&makers, 1);
	return NULL;
}

static void *free_what_is_made(void *arg)
{
	while (atomic_load(&makers) != 0) {
		for (int i = 0; i < MAKERS; i++) {
			hwheel_timer_t t = atomic_load(&made[i]);

			if (t == 0)
				continue;
			CHECK_EQ(hwheel_timer_free(other.w, t), 0);
			atomic_fetch_add(&permits, 1);
			atomic_store(&made[i], 0);
		}
		sched_yield();
	}
	return NULL;
}

/*
 * Also while its node goes from the list of one thread to that of another. Only a
 * thread that the kernel stops in the middle of that holds the node back, and others
 * do not wait for it.
 */
WHEEL_TEST(a_timer_that_was_freed_is_room_at_once, other.w = limited(MAKERS - 1))
{
	pthread_t threads[MAKERS + 1];

	permits = MAKERS - 1;
	makers = MAKERS;
	for (int i = 0; i < MAKERS; i++)
		CHECK_EQ(pthread_create(&threads[i], NULL, make_them, &made[i]), 0);
	ktap_begin(&threads[MAKERS], 1, free_what_is_made, NULL);
	ktap_end(threads, MAKERS + 1);
	CHECK(refused <= MAKERS * ROUNDS / 1000);
}

static int inside;

static void arm_the_next(struct hwheel *w, const struct hwheel_event *e)
{
	inside = hwheel_once(w, MS, NULL, 0, 0, NULL);
}

/* One that frees itself. */
TEST(a_timer_lives_until_its_callback_has_returned)
{
	for (uint32_t limit = 1; limit <= 2; limit++) {
		WHEEL w = limited(limit);

		inside = 1;
		CHECK_EQ(hwheel_once(w, MS, arm_the_next, 0, 0, NULL), 0);
		CHECK_EQ(hwheel_advance(w, MS, NULL, 0, NULL), 0);
		CHECK_EQ(inside, limit == 1 ? -ENOSPC : 0);
		CHECK_EQ(stats(w).live, limit - 1);
		/* and then there is room for one */
		CHECK_EQ(hwheel_once(w, MS, NULL, 0, 0, NULL), 0);
		full(w);
	}
}
