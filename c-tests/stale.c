/*
 * An arm of a timer that is freed meanwhile, and whose node another timer has by then:
 * that timer keeps its rhythm.
 */
#include <sched.h>
#include "ktap.h"

/* For a second, but not for fewer rounds than this. */
enum { ROUNDS = 500, PERIODS = 3 };
#define PERIOD (10 * MS)

static struct hwheel *w;
static _Atomic hwheel_timer_t target;
static atomic_int over, wrong;
static atomic_ullong armed, stale;

/* Arms whatever timer there is, in every way, for far away. */
static void *arm_it(void *arg)
{
	unsigned way = 0;

	while (!atomic_load(&over)) {
		hwheel_timer_t t = atomic_load(&target);
		int r = 0;

		switch (way++ % 4) {
		case 0:
			r = hwheel_timer_mod(w, t, 7 * SEC + way, 0);
			break;
		case 1:
			r = hwheel_timer_mod_range(w, t, 8 * SEC + way, SEC, 0);
			break;
		case 2:
			r = hwheel_timer_mod(w, t, 3 * SEC + way, HWHEEL_ABS | HWHEEL_IF_PENDING);
			break;
		case 3:
			r = hwheel_timer_set_period(w, t, SEC);
			break;
		}
		if (r == -ESTALE)
			atomic_fetch_add(&stale, 1);
		else if (r >= 0)
			atomic_fetch_add(&armed, 1);
		else if (r != -EINVAL)
			atomic_fetch_add(&wrong, 1);
	}
	return arg;
}

static int is_enough(time_t begin)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec - begin > 1;
}

TEST(a_stale_arm_touches_nothing)
{
	struct timespec begin;
	pthread_t thread;
	uint64_t now = 0;

	w = MADE(.clock = HWHEEL_CLOCK_MANUAL);
	CHECK_EQ(pthread_create(&thread, NULL, arm_it, NULL), 0);
	clock_gettime(CLOCK_MONOTONIC, &begin);
	for (int round = 0; round < ROUNDS || !is_enough(begin.tv_sec); round++) {
		struct hwheel_event events[4];
		hwheel_timer_t old = 0, periodic = 0;
		uint64_t left = 0;
		unsigned long long begin = atomic_load(&armed);

		CHECK_EQ(hwheel_timer_setup(w, NULL, 1, &old), 0);
		atomic_store(&target, old);
		/* In the middle of an arm of it, at best. */
		for (int i = 0; i < 1000 && atomic_load(&armed) == begin; i++)
			sched_yield();
		CHECK(hwheel_timer_free(w, old) >= 0);
		CHECK_EQ(hwheel_every(w, PERIOD, PERIOD, 0, NULL, 2, 0, &periodic), 0);
		for (int n = 1; n <= PERIODS; n++) {
			CHECK_EQ(hwheel_timer_remaining(w, periodic, &left), 1);
			CHECK(left <= PERIOD);
			CHECK_EQ(hwheel_advance(w, now + PERIOD - MS, events, 4, NULL), 0);
			now += PERIOD;
			CHECK_EQ(hwheel_advance(w, now, events, 4, NULL), 1);
			CHECK_EQ(events[0].cookie, 2);
			CHECK_EQ(events[0].missed, 0);
			CHECK_DUE(events[0].deadline_ns, now, MS);
		}
		CHECK_EQ(hwheel_timer_free(w, periodic), 1);
	}
	atomic_store(&over, 1);
	CHECK_EQ(pthread_join(thread, NULL), 0);
	CHECK_EQ(wrong, 0);
	CHECK(armed != 0 && stale != 0);
	CHECK_EQ(hwheel_destroy(w), 0);
}
