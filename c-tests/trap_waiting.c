/*
 * Waiting: defects that other timers had where a thread waits for a callback, or
 * ends what a callback uses.
 */
#include "threads.h"

static _Atomic unsigned inside, leave, left;

/* A callback that stays until it is let go. */
static void stay(struct hwheel *w, const struct hwheel_event *e)
{
	inside++;
	for (unsigned ms = 0; ms < 5000 && !leave; ms++)
		ktap_sleep_ms(1);
	if (!leave)
		bad++;
	left++;
	n_fired++;
}

static void *let_go(void *arg)
{
	ktap_sleep_ms((unsigned)(uintptr_t)arg);
	leave = 1;
	return NULL;
}

TEST(c9_no_lock_is_held_in_a_callback)
{
	hwheel_timer_t a = 0, b = 0, c = 0;
	uint64_t ns = 0;

	reset_thread(MS);
	inside = leave = left = 0;
	CHECK_EQ(hwheel_timer_setup(wheel, stay, 0, &a), 0);
	CHECK_EQ(hwheel_timer_mod(wheel, a, 0, 0), 0);
	CHECK(reach(&inside, 1));
	/* everything that does not wait for it goes on */
	CHECK_EQ(hwheel_timer_setup(wheel, note, 1, &b), 0);
	CHECK_EQ(hwheel_timer_mod(wheel, b, 5 * MS, 0), 0);
	CHECK_EQ(hwheel_timer_mod(wheel, b, MS, HWHEEL_REDUCE), 1);
	CHECK_EQ(hwheel_timer_mod(wheel, b, 500 * SEC, HWHEEL_IF_PENDING), 1);
	CHECK_EQ(hwheel_timer_pending(wheel, b), 1);
	CHECK_EQ(hwheel_timer_remaining(wheel, b, &ns), 1);
	CHECK_EQ(hwheel_next_expiry(wheel, &ns) >= 0, 1);
	CHECK_EQ(hwheel_now(wheel, &ns), 0);
	CHECK_EQ(hwheel_timer_delete_sync(wheel, b), 1);
	CHECK_EQ(hwheel_timer_shutdown(wheel, b), 0);
	CHECK_EQ(hwheel_timer_free(wheel, b), 0);
	CHECK_EQ(hwheel_once(wheel, 0, note, 2, 0, &c), 0);
	CHECK_EQ(stats(wheel).live, 2);
	CHECK_EQ(hwheel_poll(wheel, NULL, 0, NULL), -EBUSY);
	CHECK_EQ(hwheel_timer_pending(wheel, a), 0);
	CHECK_EQ(hwheel_timer_mod(wheel, a, 500 * SEC, 0), 0);
	CHECK_EQ(hwheel_timer_delete(wheel, a), 1);
	CHECK_EQ(left, 0);
	leave = 1;
	CHECK(reach(&fired[2], 1));
	CHECK_EQ(bad, 0);
	CHECK_EQ(hwheel_destroy(wheel), 0);
}

static void c10_wait(struct hwheel *w, const struct hwheel_event *e)
{
	EXPECT(hwheel_timer_delete_sync(w, e->timer), -EDEADLK);
	EXPECT(hwheel_timer_shutdown_sync(w, e->timer), -EDEADLK);
	/* a sibling, collected for the same tick or not */
	EXPECT(hwheel_timer_delete_sync(w, timers[1]), 1);
	EXPECT(hwheel_timer_shutdown_sync(w, timers[2]), 1);
	n_fired++;
}

TEST(c10_waiting_inside_a_callback_does_not_hang)
{
	for (unsigned i = 0; i < COUNT(shapes); i++) {
		reset(&shapes[i], 0);
		for (unsigned n = 0; n < 3; n++)
			CHECK_EQ(hwheel_timer_setup(wheel, n ? note : c10_wait, n, &timers[n]), 0);
		CHECK_EQ(hwheel_timer_mod(wheel, timers[0], tick, 0), 0);
		CHECK_EQ(hwheel_timer_mod(wheel, timers[1], 2 * tick, 0), 0);
		CHECK_EQ(hwheel_timer_mod(wheel, timers[2], 3 * tick, 0), 0);
		driven = 10 * tick;
		CHECK_EQ(hwheel_advance(wheel, driven, NULL, 0, NULL), 0);
		CHECK_EQ(bad, 0);
		CHECK_EQ(n_fired, 1);
		/* -EDEADLK has changed nothing */
		CHECK_EQ(hwheel_timer_mod(wheel, timers[0], tick, 0), 0);
		CHECK_EQ(hwheel_timer_mod(wheel, timers[2], tick, 0), -ESHUTDOWN);
		CHECK_EQ(hwheel_destroy(wheel), 0);
	}
}

static void c11_look(struct hwheel *w, const struct hwheel_event *e)
{
	EXPECT(hwheel_timer_pending(w, e->timer), 1);
	n_fired++;
	if (e->cookie)
		EXPECT(hwheel_timer_delete(w, e->timer), 1);
}

TEST(c11_periodic_timer_is_armed_in_its_callback)
{
	for (unsigned i = 0; i < COUNT(shapes); i++) {
		for (unsigned n = 0; n < 2; n++) {
			reset(&shapes[i], 0);
			CHECK_EQ(hwheel_every(wheel, tick, tick, 0, c11_look, n, 0, &timers[0]), 0);
			drive(5);
			CHECK_EQ(bad, 0);
			CHECK_EQ(n_fired, n ? 1 : 5);
			CHECK_EQ(hwheel_timer_pending(wheel, timers[0]), n ? -ESTALE : 1);
			CHECK_EQ(hwheel_destroy(wheel), 0);
		}
	}
}

/* Cancelled from outside while it runs: armed, and does not come back. */
TEST(c11_periodic_timer_cancelled_while_it_runs)
{
	for (unsigned sync = 0; sync < 2; sync++) {
		pthread_t thread;

		reset_thread(MS);
		inside = leave = left = 0;
		CHECK_EQ(hwheel_every(wheel, MS, MS, 0, stay, 0, 0, &timers[0]), 0);
		CHECK(reach(&inside, 1));
		CHECK_EQ(pthread_create(&thread, NULL, let_go, (void *)(uintptr_t)5), 0);
		if (sync)
			CHECK_EQ(hwheel_timer_delete_sync(wheel, timers[0]), 1);
		else
			CHECK_EQ(hwheel_timer_delete(wheel, timers[0]), 1);
		pthread_join(thread, NULL);
		CHECK(reach(&left, 1));
		ktap_sleep_ms(5);
		CHECK_EQ(inside, 1);
		CHECK_EQ(stats(wheel).live, 0);
		CHECK_EQ(hwheel_destroy(wheel), 0);
	}
}

static _Atomic unsigned object;		/* 1 alive, 0 freed */

static void c12_use(struct hwheel *w, const struct hwheel_event *e)
{
	inside++;
	for (unsigned n = 0; n < 200; n++)
		EXPECT(object, 1);
}

/* After a sync cancel or a stop the object may go. */
TEST(c12_object_is_not_freed_under_its_callback)
{
	reset_thread(10000);
	inside = 0;
	for (unsigned n = 0; n < 300; n++) {
		hwheel_timer_t timer;

		object = 1;
		CHECK_EQ(hwheel_timer_setup(wheel, c12_use, 0, &timer), 0);
		CHECK_EQ(hwheel_timer_mod(wheel, timer, n % 7 * 10000, 0), 0);
		for (unsigned spin = 0; spin < n * 10; spin++)
			atomic_thread_fence(memory_order_seq_cst);
		if (n % 3 == 0)
			CHECK(hwheel_timer_shutdown_sync(wheel, timer) >= 0);
		else
			CHECK(hwheel_timer_delete_sync(wheel, timer) >= 0);
		object = 0;
		CHECK_EQ(hwheel_timer_free(wheel, timer), 0);
		CHECK_EQ(bad, 0);
	}
	CHECK_EQ(hwheel_destroy(wheel), 0);
}

static void *arm_on(void *arg)
{
	unsigned from = (unsigned)(uintptr_t)arg * EACH;
	uint64_t seed = from + 5;

	for (unsigned n = from; n < from + EACH; n++) {
		EXPECT(hwheel_once(wheel, next_random(&seed) % 3000000, note, n, 0, NULL), 0);
		if (n % 32 == 0)
			sched_yield();
	}
	running--;
	return NULL;
}

TEST(c13_stop_does_not_hang_and_loses_no_arm)
{
	static struct hwheel_event rest[64];
	pthread_t threads[THREADS];
	unsigned drained = 0;
	int n;

	reset_thread(100000);
	running = THREADS;
	for (uintptr_t t = 0; t < THREADS; t++)
		CHECK_EQ(pthread_create(&threads[t], NULL, arm_on, (void *)t), 0);
	for (unsigned round = 0; round < 200; round++) {
		CHECK_EQ(hwheel_stop(wheel), 0);
		if (round % 2)
			CHECK_EQ(hwheel_stop(wheel), 0);
		CHECK_EQ(hwheel_start(wheel), 0);
	}
	for (unsigned t = 0; t < THREADS; t++)
		pthread_join(threads[t], NULL);
	CHECK_EQ(hwheel_stop(wheel), 0);
	do {
		n = hwheel_drain(wheel, rest, COUNT(rest));
		CHECK(n >= 0);
		for (int i = 0; i < n; i++) {
			CHECK_EQ(rest[i].flags, HWHEEL_EVENT_DRAINED);
			fired[rest[i].cookie]++;
		}
		drained += (unsigned)n;
	} while (n == (int)COUNT(rest));
	CHECK_EQ(bad, 0);
	CHECK_EQ(n_fired + drained, ALL);
	for (unsigned i = 0; i < ALL; i++)
		CHECK_EQ(fired[i], 1);
	CHECK_EQ(stats(wheel).live, 0);
	CHECK_EQ(hwheel_destroy(wheel), 0);
}

static void *move_it(void *arg)
{
	/* from a thread that has not seen the timer before */
	EXPECT(hwheel_timer_mod(wheel, timers[0], 500 * SEC, 0), 0);
	leave = 2;
	return NULL;
}

static void c16_stay(struct hwheel *w, const struct hwheel_event *e)
{
	inside++;
	for (unsigned ms = 0; ms < 5000 && leave != 2; ms++)
		ktap_sleep_ms(1);
	ktap_sleep_ms(5);
	left++;
}

/* Moved by another thread while its callback runs: the waiter still waits. */
TEST(c16_timer_moved_while_its_callback_runs)
{
	for (unsigned n = 0; n < 10; n++) {
		pthread_t thread;

		reset_thread(MS);
		inside = leave = left = 0;
		CHECK_EQ(hwheel_timer_setup(wheel, c16_stay, 0, &timers[0]), 0);
		CHECK_EQ(hwheel_timer_mod(wheel, timers[0], 0, 0), 0);
		CHECK(reach(&inside, 1));
		CHECK_EQ(pthread_create(&thread, NULL, move_it, NULL), 0);
		CHECK(reach(&leave, 2));
		CHECK_EQ(hwheel_timer_delete_sync(wheel, timers[0]), 1);
		CHECK_EQ(left, 1);
		pthread_join(thread, NULL);
		CHECK_EQ(hwheel_timer_pending(wheel, timers[0]), 0);
		CHECK_EQ(bad, 0);
		CHECK_EQ(hwheel_destroy(wheel), 0);
	}
}
