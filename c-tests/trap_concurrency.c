/* Concurrency: defects that other timers had where threads meet. */
#include "threads.h"

static void *arm_near(void *arg)
{
	unsigned from = (unsigned)(uintptr_t)arg * EACH;
	uint64_t seed = from + 12345, now = 0;

	for (unsigned n = from; n < from + EACH; n++) {
		EXPECT(hwheel_now(wheel, &now), 0);
		wanted[n] = now + next_random(&seed) % 5 * tick;
		if (n % 2) {
			EXPECT(hwheel_once(wheel, wanted[n], note, n, HWHEEL_ABS, NULL), 0);
		} else {
			EXPECT(hwheel_timer_setup(wheel, note, n, &timers[n]), 0);
			EXPECT(hwheel_timer_mod(wheel, timers[n], wanted[n], HWHEEL_ABS), 0);
		}
		/*
		 * When the arm has returned, its deadline or the next tick; an
		 * advance that was under way may have looked already.
		 */
		EXPECT(hwheel_now(wheel, &now), 0);
		limit[n] = (wanted[n] > now ? wanted[n] : now) + 2 * tick;
	}
	running--;
	return NULL;
}

static void near_timers_are_not_late(const struct shape *s)
{
	reset(s, (s->tick << 32) - 1000 * s->tick);
	run(arm_near, s->tick);
	drive(10);
	CHECK_EQ(n_fired, ALL);
	for (unsigned n = 0; n < ALL; n++) {
		CHECK_EQ(fired[n], 1);
		CHECK(got[n] >= wanted[n]);
		CHECK(got[n] <= limit[n]);
	}
	for (unsigned n = 0; n < ALL; n += 2)
		CHECK_EQ(hwheel_timer_free(wheel, timers[n]), 0);
	CHECK_EQ(stats(wheel).live, 0);
	CHECK_EQ(hwheel_destroy(wheel), 0);
}

TEST(c1_timer_being_set_up_is_not_lost)
{
	near_timers_are_not_late(&shapes[0]);
	near_timers_are_not_late(&shapes[1]);
}

TEST(c2_push_behind_the_hand_is_not_a_turn_late)
{
	for (unsigned i = 0; i < COUNT(shapes); i++)
		near_timers_are_not_late(&shapes[i]);
}

/* Two slots: marks are set and cleared all the time. */
TEST(c8_bucket_marks_do_not_forget_timers)
{
	static const struct shape tiny[] = { { 1000, 1, 2 }, { 1000, 6, 2 } };

	for (unsigned i = 0; i < COUNT(tiny); i++)
		near_timers_are_not_late(&tiny[i]);
}

/* Arms by several threads, each of which could be the earliest. */
static void *arm_and_wait(void *arg)
{
	unsigned from = (unsigned)(uintptr_t)arg * EACH;
	uint64_t seed = from + 99;

	for (unsigned n = from; n < from + 300; n++) {
		EXPECT(hwheel_once(wheel, next_random(&seed) % 300000, note, n, 0, NULL), 0);
		/* sometimes alone, sometimes with the next one close behind */
		if (n % 3)
			for (unsigned ms = 0; ms < 3000 && !fired[n]; ms++)
				sched_yield(), ms % 64 == 63 ? ktap_sleep_ms(1) : (void)0;
	}
	running--;
	return NULL;
}

TEST(c3_next_wakeup_is_not_lost_between_threads)
{
	reset_thread(50000);
	run(arm_and_wait, 0);
	CHECK(reach(&n_fired, THREADS * 300));
	CHECK_EQ(n_fired, THREADS * 300);
	CHECK_EQ(hwheel_destroy(wheel), 0);
}

/* The driver sleeps, or is about to, until ten seconds from now. */
TEST(c4_earlier_insert_wakes_the_sleeper)
{
	uint64_t seed = 4711;

	reset_thread(MS);
	CHECK_EQ(hwheel_once(wheel, 10 * SEC, note, 0, 0, NULL), 0);
	for (unsigned n = 1; n <= 200; n++) {
		for (unsigned spin = next_random(&seed) % 2000; spin > 0; spin--)
			atomic_thread_fence(memory_order_seq_cst);
		CHECK_EQ(hwheel_once(wheel, 0, note, n, 0, NULL), 0);
		CHECK(reach(&fired[n], 1));
	}
	CHECK_EQ(fired[0], 0);
	CHECK_EQ(hwheel_destroy(wheel), 0);
}

TEST(c4_removal_of_the_earliest_is_planned_again)
{
	hwheel_timer_t first;

	reset_thread(MS);
	for (unsigned n = 0; n < 20; n++) {
		CHECK_EQ(hwheel_once(wheel, 8 * MS, note, n, 0, NULL), 0);
		CHECK_EQ(hwheel_once(wheel, 4 * MS, note, ALL - 1, 0, &first), 0);
		CHECK_EQ(hwheel_timer_delete(wheel, first), 1);
		CHECK(reach(&fired[n], 1));
	}
	CHECK_EQ(fired[ALL - 1], 0);
	CHECK_EQ(stats(wheel).live, 0);
	CHECK_EQ(hwheel_destroy(wheel), 0);
}

static _Atomic unsigned cancelled[ALL];

/* Armed so far ahead that they come down the levels while being cancelled. */
static void *arm_and_cancel(void *arg)
{
	unsigned from = (unsigned)(uintptr_t)arg * EACH;
	uint64_t seed = from + 777;

	for (unsigned n = from; n < from + EACH; n++) {
		uint64_t away = next_random(&seed) % 40;
		unsigned victim = from + (n - from) / 2;
		int r;

		EXPECT(hwheel_once(wheel, away * tick, note, n, 0, &timers[n]), 0);
		/* one armed earlier: it may be anywhere by now */
		r = hwheel_timer_delete(wheel, timers[victim]);
		if (r == 1)
			cancelled[victim]++;
		else
			EXPECT(r == 0 || r == -ESTALE, 1);
		if (n % 16 == 0)
			sched_yield();
	}
	running--;
	return NULL;
}

TEST(c5_cancel_that_races_a_cascade_is_not_lost)
{
	for (unsigned i = 0; i < COUNT(shapes); i++) {
		reset(&shapes[i], 0);
		for (unsigned n = 0; n < ALL; n++)
			cancelled[n] = 0;
		run(arm_and_cancel, tick);
		drive(50);
		/* once, one or the other */
		for (unsigned n = 0; n < ALL; n++)
			CHECK_EQ(fired[n] + cancelled[n], 1);
		/* c7: and the count is exactly nothing */
		CHECK_EQ(stats(wheel).live, 0);
		CHECK_EQ(stats(wheel).fired, n_fired);
		CHECK_EQ(hwheel_destroy(wheel), 0);
	}
}

/* Both threads cancel, move and free each other's timers, in one bucket. */
static void *meddle(void *arg)
{
	uint64_t seed = (uintptr_t)arg + 31337;

	for (unsigned n = 0; n < 5 * EACH; n++) {
		hwheel_timer_t timer = timers[next_random(&seed) % 64];
		int r;

		switch (next_random(&seed) % 5) {
		case 0:
			r = hwheel_timer_delete(wheel, timer);
			break;
		case 1:
			r = hwheel_timer_delete_sync(wheel, timer);
			break;
		case 2:
			r = hwheel_timer_mod(wheel, timer, tick, HWHEEL_IF_PENDING);
			break;
		case 3:
			r = hwheel_timer_mod(wheel, timer, next_random(&seed) % 4 * tick, HWHEEL_REDUCE);
			break;
		default:
			r = hwheel_timer_mod(wheel, timer, tick, 0);
		}
		EXPECT(r == 0 || r == 1, 1);
	}
	running--;
	return NULL;
}

TEST(c6_cancels_and_the_driver_share_a_bucket)
{
	for (unsigned i = 0; i < COUNT(shapes); i++) {
		unsigned before;

		reset(&shapes[i], 0);
		for (unsigned n = 0; n < 64; n++)
			CHECK_EQ(hwheel_timer_setup(wheel, note, n, &timers[n]), 0);
		run(meddle, tick);
		drive(50);
		for (unsigned n = 0; n < 64; n++)
			CHECK_EQ(hwheel_timer_pending(wheel, timers[n]), 0);
		/* all of them work as before, once each */
		before = n_fired;
		for (unsigned n = 0; n < 64; n++)
			CHECK_EQ(hwheel_timer_mod(wheel, timers[n], tick, 0), 0);
		drive(1);
		CHECK_EQ(n_fired, before + 64);
		CHECK_EQ(hwheel_destroy(wheel), 0);
	}
}

static hwheel_timer_t _Atomic shared[64];

/* Timers are made, cancelled, freed and fired by whoever comes first. */
static void *storm(void *arg)
{
	uint64_t seed = (uintptr_t)arg + 271828;

	for (unsigned n = 0; n < 4 * EACH; n++) {
		_Atomic(hwheel_timer_t) *at = &shared[next_random(&seed) % 64];
		hwheel_timer_t fresh = 0, old;
		int r;

		if (n % 2)
			EXPECT(hwheel_once(wheel, next_random(&seed) % 8 * tick, note, 0, 0,
					    &fresh), 0);
		else
			EXPECT(hwheel_timer_setup(wheel, note, 1, &fresh), 0);
		old = atomic_exchange(at, fresh);
		r = n % 3 ? hwheel_timer_free(wheel, old) : hwheel_timer_delete(wheel, old);
		EXPECT(r == 0 || r == 1 || r == -ESTALE, 1);
		if (n % 3 == 0)
			hwheel_timer_free(wheel, old);
	}
	running--;
	return NULL;
}

TEST(c7_counts_are_exact_after_a_storm)
{
	for (unsigned i = 0; i < COUNT(shapes); i++) {
		reset(&shapes[i], 0);
		for (unsigned n = 0; n < 64; n++)
			shared[n] = 0;
		run(storm, tick);
		drive(20);
		for (unsigned n = 0; n < 64; n++)
			hwheel_timer_free(wheel, shared[n]);
		CHECK_EQ(stats(wheel).live, 0);
		CHECK_EQ(stats(wheel).fired, n_fired);
		CHECK_EQ(hwheel_destroy(wheel), 0);
	}
}

/* A wheel with room for one timer uses the same place again and again. */
TEST(c14_stale_handle_never_hits_a_reused_place)
{
	enum { KEPT = 256 };
	static hwheel_timer_t old[KEPT];
	struct hwheel_options o;
	WHEEL w = NULL;
	hwheel_timer_t timer = 0;
	uint64_t left_ns;

	memset(&o, 0, sizeof o);
	memset(old, 0, sizeof old);
	o.size = sizeof o;
	o.clock = HWHEEL_CLOCK_MANUAL;
	o.max_timers = 1;
	CHECK_EQ(hwheel_create(&o, &w), 0);
	/* more than once around 16 bits of a generation */
	for (unsigned n = 0; n < 200000; n++) {
		hwheel_timer_t stale = old[n * 7 % KEPT];

		CHECK_EQ(hwheel_timer_setup(w, note, 0, &timer), 0);
		CHECK_EQ(hwheel_timer_mod(w, timer, SEC, 0), 0);
		CHECK(stale != timer);
		CHECK_EQ(hwheel_timer_mod(w, stale, 0, 0), -ESTALE);
		CHECK_EQ(hwheel_timer_delete(w, stale), -ESTALE);
		CHECK_EQ(hwheel_timer_free(w, stale), -ESTALE);
		CHECK_EQ(hwheel_timer_shutdown(w, stale), -ESTALE);
		CHECK_EQ(hwheel_timer_remaining(w, stale, &left_ns), -ESTALE);
		CHECK_EQ(hwheel_timer_free(w, timer), 1);
		CHECK_EQ(hwheel_timer_pending(w, timer), -ESTALE);
		/* some are kept from long ago, others are fresh */
		if (n < KEPT / 2)
			old[n] = timer;
		else
			old[KEPT / 2 + n % (KEPT / 2)] = timer;
	}
}

static pthread_barrier_t gate;

/* The first use of the far levels, by all threads at once. */
static void *first_use(void *arg)
{
	uint64_t self = (uintptr_t)arg;

	pthread_barrier_wait(&gate);
	for (uint64_t k = 0; k < 6; k++)
		EXPECT(hwheel_once(wheel, (UINT64_C(1) << (5 * k)) * tick, note, self * EACH + k, 0,
				    NULL), 0);
	running--;
	return NULL;
}

TEST(c15_first_use_by_many_at_once)
{
	for (unsigned n = 0; n < 100; n++) {
		reset(&shapes[n % 3], 0);
		CHECK_EQ(pthread_barrier_init(&gate, NULL, THREADS), 0);
		run(first_use, 0);
		pthread_barrier_destroy(&gate);
		driven = (UINT64_C(1) << 25) * tick;
		CHECK_EQ(hwheel_advance(wheel, driven - 1, NULL, 0, NULL), 0);
		CHECK_EQ(n_fired, THREADS * 5);
		CHECK_EQ(hwheel_advance(wheel, driven, NULL, 0, NULL), 0);
		CHECK_EQ(n_fired, THREADS * 6);
		CHECK_EQ(hwheel_destroy(wheel), 0);
	}
}

TEST(c17_rearm_into_the_past_wakes_the_driver)
{
	hwheel_timer_t timer;

	reset_thread(MS);
	CHECK_EQ(hwheel_timer_setup(wheel, note, 0, &timer), 0);
	for (unsigned n = 0; n < 100; n++) {
		uint64_t now = 0;

		CHECK_EQ(hwheel_timer_mod(wheel, timer, 1000 * SEC, 0), 0);
		if (n % 4 == 0)
			ktap_sleep_ms(1);	/* it sleeps */
		CHECK_EQ(hwheel_now(wheel, &now), 0);
		if (n % 2)
			CHECK_EQ(hwheel_timer_mod(wheel, timer, now - SEC, HWHEEL_ABS), 1);
		else
			CHECK_EQ(hwheel_timer_mod(wheel, timer, 1, HWHEEL_ABS | HWHEEL_REDUCE), 1);
		CHECK(reach(&fired[0], n + 1));
		CHECK_EQ(fired[0], n + 1);
	}
	CHECK_EQ(hwheel_destroy(wheel), 0);
}
