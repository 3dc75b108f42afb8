/* Concurrency: defects that other timers had where threads meet. */
#include <sched.h>
#include "ktap.h"

/*
 * Threads that arm timers, and a clock that is driven concurrently. Outcomes are
 * counted, not timed: whatever the interleaving, the sums are exact.
 */

struct shape {
	uint64_t tick;
	uint32_t levels, slots;
};

static const struct shape shapes[] = {
	{ 1000000, 4, 256 }, { 1000000, 1, 256 }, { 1000, 2, 4 }, { 1000, 1, 2 },
};

enum { THREADS = 2, EACH = 4000, ALL = THREADS * EACH };

static struct hwheel *wheel;
static uint64_t tick;
static _Atomic unsigned n_fired;
static _Atomic unsigned fired[ALL], cancelled[ALL];
static _Atomic uint64_t got[ALL];	/* the time of the advance that fired it */
static uint64_t limit[ALL];		/* by when it must have fired */
static uint64_t wanted[ALL];
static hwheel_timer_t timers[ALL];
static _Atomic uint64_t driven;
static _Atomic unsigned running;	/* threads that have not ended */

static inline void note(struct hwheel *w, const struct hwheel_event *e)
{
	fired[e->cookie]++;
	got[e->cookie] = driven;
	n_fired++;
}

static inline void forget(uint64_t tick_ns, uint64_t start_ns)
{
	tick = tick_ns;
	n_fired = 0;
	for (unsigned n = 0; n < ALL; n++) {
		fired[n] = cancelled[n] = 0;
		got[n] = limit[n] = wanted[n] = timers[n] = 0;
	}
	driven = start_ns;
}

static inline struct hwheel *reset(const struct shape *s, uint64_t start_ns)
{
	forget(s->tick, start_ns);
	return wheel = ktap_manual(s->tick, s->levels, s->slots, start_ns);
}

static inline struct hwheel *reset_thread(uint64_t tick_ns)
{
	forget(tick_ns, 0);
	wheel = MADE(.tick_ns = tick_ns);
	CHECK_EQ(hwheel_start(wheel), 0);
	return wheel;
}

/* The work of a thread: this function for each number from its first one on. */
static struct {
	void (*step)(unsigned n, uint64_t *seed);
	unsigned steps;
	pthread_barrier_t gate;
} work;

static void *do_work(void *arg)
{
	unsigned from = (unsigned)(uintptr_t)arg * EACH;
	uint64_t seed = from + 12345;

	pthread_barrier_wait(&work.gate);
	for (unsigned n = from; n < from + work.steps; n++)
		work.step(n, &seed);
	running--;
	return NULL;
}

/* Threads that work, and begin at once. */
static void begin_work(pthread_t *threads, void (*step)(unsigned, uint64_t *), unsigned steps)
{
	work.step = step;
	work.steps = steps;
	running = THREADS;
	CHECK_EQ(pthread_barrier_init(&work.gate, NULL, THREADS), 0);
	for (uintptr_t n = 0; n < THREADS; n++)
		CHECK_EQ(pthread_create(&threads[n], NULL, do_work, (void *)n), 0);
}

static inline void end_work(const pthread_t *threads)
{
	ktap_end(threads, THREADS);
	pthread_barrier_destroy(&work.gate);
}

/* Runs such threads; with a stride, drives the clock by it until they have ended. */
static inline void run(void (*step)(unsigned, uint64_t *), unsigned steps, uint64_t stride)
{
	pthread_t threads[THREADS];

	begin_work(threads, step, steps);
	while (stride && running) {
		driven += stride;
		CHECK_EQ(hwheel_advance(wheel, driven, NULL, 0, NULL), 0);
		/* a clock that ran as fast as it can would outrun the arms */
		sched_yield();
	}
	end_work(threads);
}

static inline void drive(unsigned ticks)
{
	while (ticks-- > 0) {
		driven += tick;
		CHECK_EQ(hwheel_advance(wheel, driven, NULL, 0, NULL), 0);
	}
}

static inline unsigned random_of(uint64_t *seed)
{
	return (unsigned)(ktap_dice(seed) >> 20);
}

static void arm_near(unsigned n, uint64_t *seed)
{
	uint64_t now;

	wanted[n] = ktap_now(wheel) + random_of(seed) % 5 * tick;
	if (n % 2) {
		CHECK_EQ(hwheel_once(wheel, wanted[n], note, n, HWHEEL_ABS, NULL), 0);
	} else {
		timers[n] = ktap_timer_of(wheel, note, n);
		CHECK_EQ(hwheel_timer_mod(wheel, timers[n], wanted[n], HWHEEL_ABS), 0);
	}
	/*
	 * When the arm has returned, its deadline or the next tick; an
	 * advance that was under way may have looked already.
	 */
	now = ktap_now(wheel);
	limit[n] = (wanted[n] > now ? wanted[n] : now) + 2 * tick;
}

static void near_timers_are_not_late(const struct shape *s)
{
	WHEEL w = reset(s, (s->tick << 32) - 1000 * s->tick);

	run(arm_near, EACH, s->tick);
	drive(10);
	CHECK_EQ(n_fired, ALL);
	for (unsigned n = 0; n < ALL; n++) {
		CHECK_EQ(fired[n], 1);
		CHECK(got[n] >= wanted[n]);
		CHECK(got[n] <= limit[n]);
	}
	for (unsigned n = 0; n < ALL; n += 2)
		CHECK_EQ(hwheel_timer_free(w, timers[n]), 0);
	CHECK_EQ(stats(w).live, 0);
}

/*
 * A timer that is being set up is not lost, and one that is armed close to the hand is not a turn
 * late. With two slots, marks are set and cleared all the time.
 */
TEST(c2_arms_close_to_the_hand_are_not_late)
{
	static const struct shape tiny = { 1000, 6, 2 };

	for (unsigned i = 0; i < COUNT(shapes); i++)
		near_timers_are_not_late(&shapes[i]);
	near_timers_are_not_late(&tiny);
}

/* Arms by several threads, each of which could be the earliest. */
static void arm_and_wait(unsigned n, uint64_t *seed)
{
	CHECK_EQ(hwheel_once(wheel, random_of(seed) % 300000, note, n, 0, NULL), 0);
	/* sometimes alone, sometimes with the next one close behind */
	if (n % 3)
		for (unsigned ms = 0; ms < 3000 && !fired[n]; ms++)
			sched_yield(), ms % 64 == 63 ? ktap_sleep_ms(1) : (void)0;
}

WHEEL_TEST(c3_next_wakeup_is_not_lost_between_threads, reset_thread(50000))
{
	run(arm_and_wait, 300, 0);
	ktap_until(&n_fired, THREADS * 300);
	CHECK_EQ(n_fired, THREADS * 300);
}

/* The driver sleeps, or is about to, until ten seconds from now. */
WHEEL_TEST(c4_earlier_insert_wakes_the_sleeper, reset_thread(MS))
{
	uint64_t seed = 4711;

	CHECK_EQ(hwheel_once(w, 10 * SEC, note, 0, 0, NULL), 0);
	for (unsigned n = 1; n <= 200; n++) {
		for (unsigned spin = random_of(&seed) % 2000; spin > 0; spin--)
			atomic_thread_fence(memory_order_seq_cst);
		CHECK_EQ(hwheel_once(w, 0, note, n, 0, NULL), 0);
		ktap_until(&fired[n], 1);
	}
	CHECK_EQ(fired[0], 0);
}

WHEEL_TEST(c4_removal_of_the_earliest_is_planned_again, reset_thread(MS))
{
	for (unsigned n = 0; n < 20; n++) {
		CHECK_EQ(hwheel_once(w, 8 * MS, note, n, 0, NULL), 0);
		hwheel_timer_t first = ktap_once(w, 4 * MS, note, ALL - 1, 0);
		CHECK_EQ(hwheel_timer_delete(w, first), 1);
		ktap_until(&fired[n], 1);
	}
	CHECK_EQ(fired[ALL - 1], 0);
	CHECK_EQ(stats(w).live, 0);
}

/* Armed so far ahead that they come down the levels while being cancelled. */
static void arm_and_cancel(unsigned n, uint64_t *seed)
{
	uint64_t away = random_of(seed) % 40;
	unsigned victim = n - n % EACH + n % EACH / 2;
	int r;

	CHECK_EQ(hwheel_once(wheel, away * tick, note, n, 0, &timers[n]), 0);
	/* one armed earlier: it may be anywhere by now */
	r = hwheel_timer_delete(wheel, timers[victim]);
	if (r == 1)
		cancelled[victim]++;
	else
		CHECK(r == 0 || r == -ESTALE);
	if (n % 16 == 0)
		sched_yield();
}

SHAPE_TEST(c5_cancel_that_races_a_cascade_is_not_lost, shapes)
{
	WHEEL w = reset(shape, 0);

	run(arm_and_cancel, EACH, t);
	drive(50);
	/* once, one or the other */
	for (unsigned n = 0; n < ALL; n++)
		CHECK_EQ(fired[n] + cancelled[n], 1);
	/* c7: and the count is exactly nothing */
	CHECK_EQ(stats(w).live, 0);
	CHECK_EQ(stats(w).fired, n_fired);
}

/* Both threads cancel, move and free each other's timers, in one bucket. */
static void meddle(unsigned n, uint64_t *seed)
{
	hwheel_timer_t timer = timers[random_of(seed) % 64];
	int r;

	switch (random_of(seed) % 5) {
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
		r = hwheel_timer_mod(wheel, timer, random_of(seed) % 4 * tick, HWHEEL_REDUCE);
		break;
	default:
		r = hwheel_timer_mod(wheel, timer, tick, 0);
	}
	CHECK(r == 0 || r == 1);
}

SHAPE_TEST(c6_cancels_and_the_driver_share_a_bucket, shapes)
{
	WHEEL w = reset(shape, 0);
	unsigned before;

	for (unsigned n = 0; n < 64; n++)
		timers[n] = ktap_timer_of(w, note, n);
	run(meddle, 5 * EACH, t);
	drive(50);
	for (unsigned n = 0; n < 64; n++)
		CHECK_EQ(hwheel_timer_pending(w, timers[n]), 0);
	/* all of them work as before, once each */
	before = n_fired;
	for (unsigned n = 0; n < 64; n++)
		CHECK_EQ(hwheel_timer_mod(w, timers[n], t, 0), 0);
	drive(1);
	CHECK_EQ(n_fired, before + 64);
}

static hwheel_timer_t _Atomic shared[64];

/* Timers are made, cancelled, freed and fired by whoever comes first. */
static void storm(unsigned n, uint64_t *seed)
{
	_Atomic(hwheel_timer_t) *at = &shared[random_of(seed) % 64];
	hwheel_timer_t fresh = 0, old;
	int r;

	if (n % 2)
		CHECK_EQ(hwheel_once(wheel, random_of(seed) % 8 * tick, note, 0, 0, &fresh), 0);
	else
		fresh = ktap_timer_of(wheel, note, 1);
	old = atomic_exchange(at, fresh);
	r = n % 3 ? hwheel_timer_free(wheel, old) : hwheel_timer_delete(wheel, old);
	CHECK(r == 0 || r == 1 || r == -ESTALE);
	if (n % 3 == 0)
		hwheel_timer_free(wheel, old);
}

SHAPE_TEST(c7_counts_are_exact_after_a_storm, shapes)
{
	WHEEL w = reset(shape, 0);

	for (unsigned n = 0; n < 64; n++)
		shared[n] = 0;
	run(storm, 4 * EACH, t);
	drive(20);
	for (unsigned n = 0; n < 64; n++)
		hwheel_timer_free(w, shared[n]);
	CHECK_EQ(stats(w).live, 0);
	CHECK_EQ(stats(w).fired, n_fired);
}

/* The first use of the far levels, by all threads at once. */
static void first_use(unsigned n, uint64_t *seed)
{
	CHECK_EQ(hwheel_once(wheel, (UINT64_C(1) << (5 * (n % EACH))) * tick, note, n, 0, NULL), 0);
}

TEST(c15_first_use_by_many_at_once)
{
	for (unsigned n = 0; n < 100; n++) {
		WHEEL w = reset(&shapes[n % 3], 0);

		run(first_use, 6, 0);
		driven = (UINT64_C(1) << 25) * tick;
		CHECK_AT(w, driven - 1, n_fired, THREADS * 5);
		CHECK_AT(w, driven, n_fired, THREADS * 6);
	}
}

WHEEL_TEST(c17_rearm_into_the_past_wakes_the_driver, reset_thread(MS))
{
	hwheel_timer_t timer = ktap_timer_of(w, note, 0);

	for (unsigned n = 0; n < 100; n++) {
		CHECK_EQ(hwheel_timer_mod(w, timer, 1000 * SEC, 0), 0);
		if (n % 4 == 0)
			ktap_sleep_ms(1);	/* it sleeps */
		if (n % 2)
			CHECK_EQ(hwheel_timer_mod(w, timer, ktap_now(w) - SEC, HWHEEL_ABS), 1);
		else
			CHECK_EQ(hwheel_timer_mod(w, timer, 1, HWHEEL_ABS | HWHEEL_REDUCE), 1);
		ktap_until(&fired[0], n + 1);
		CHECK_EQ(fired[0], n + 1);
	}
}

/* Waiting: where a thread waits for a callback, or ends what a callback uses. */

static _Atomic unsigned inside, left;

/* A callback that stays until it is let go. */
static void stay(struct hwheel *w, const struct hwheel_event *e)
{
	inside++;
	ktap_hold(w, e);
	CHECK(ktap_may_go);
	left++;
	n_fired++;
}

/* A wheel whose tick thread is going to call that function. */
static struct hwheel *reset_stay(void)
{
	inside = left = 0;
	ktap_may_go = 0;
	return reset_thread(MS);
}

WHEEL_TEST(c9_no_lock_is_held_in_a_callback, reset_stay())
{
	hwheel_timer_t a = ktap_armed(w, stay, 0, 0), b = 0, c = 0;

	ktap_until(&inside, 1);
	/* everything that does not wait for it goes on */
	b = ktap_armed(w, note, 1, 5 * MS);
	CHECK_EQ(hwheel_timer_mod(w, b, MS, HWHEEL_REDUCE), 1);
	CHECK_EQ(hwheel_timer_mod(w, b, 500 * SEC, HWHEEL_IF_PENDING), 1);
	CHECK_EQ(hwheel_timer_pending(w, b), 1);
	CHECK(ktap_left(w, b) > 0);
	CHECK(ktap_next(w) != HWHEEL_NEVER);
	CHECK(ktap_now(w) > 0);
	CHECK_EQ(hwheel_timer_delete_sync(w, b), 1);
	CHECK_EQ(hwheel_timer_shutdown(w, b), 0);
	CHECK_EQ(hwheel_timer_free(w, b), 0);
	CHECK_EQ(hwheel_once(w, 0, note, 2, 0, &c), 0);
	CHECK_EQ(stats(w).live, 2);
	CHECK_EQ(hwheel_poll(w, NULL, 0, NULL), -EBUSY);
	CHECK_EQ(hwheel_timer_pending(w, a), 0);
	CHECK_EQ(hwheel_timer_mod(w, a, 500 * SEC, 0), 0);
	CHECK_EQ(hwheel_timer_delete(w, a), 1);
	CHECK_EQ(left, 0);
	ktap_may_go = 1;
	ktap_until(&fired[2], 1);
}

/* Cancelled from outside while it runs: armed, and does not come back. */
TEST(c11_periodic_timer_cancelled_while_it_runs)
{
	for (unsigned sync = 0; sync < 2; sync++) {
		WHEEL w = reset_stay();

		CHECK_EQ(hwheel_every(w, MS, MS, 0, stay, 0, 0, &timers[0]), 0);
		ktap_until(&inside, 1);
		pthread_t thread = ktap_thread(ktap_let_go, NULL);
		CHECK_EQ(sync ? hwheel_timer_delete_sync(w, timers[0])
			      : hwheel_timer_delete(w, timers[0]), 1);
		ktap_join(thread);
		ktap_until(&left, 1);
		ktap_sleep_ms(5);
		CHECK_EQ(inside, 1);
		CHECK_EQ(stats(w).live, 0);
	}
}

static void arm_on(unsigned n, uint64_t *seed)
{
	CHECK_EQ(hwheel_once(wheel, random_of(seed) % 3000000, note, n, 0, NULL), 0);
	if (n % 32 == 0)
		sched_yield();
}

WHEEL_TEST(c13_stop_does_not_hang_and_loses_no_arm, reset_thread(100000))
{
	static struct hwheel_event rest[64];
	pthread_t threads[THREADS];
	unsigned drained = 0;
	int n;

	begin_work(threads, arm_on, EACH);
	for (unsigned round = 0; round < 200; round++) {
		CHECK_EQ(hwheel_stop(w), 0);
		if (round % 2)
			CHECK_EQ(hwheel_stop(w), 0);
		CHECK_EQ(hwheel_start(w), 0);
	}
	end_work(threads);
	CHECK_EQ(hwheel_stop(w), 0);
	do {
		n = hwheel_drain(w, rest, COUNT(rest));
		CHECK(n >= 0);
		for (int i = 0; i < n; i++) {
			CHECK_EQ(rest[i].flags, HWHEEL_EVENT_DRAINED);
			fired[rest[i].cookie]++;
		}
		drained += (unsigned)n;
	} while (n == (int)COUNT(rest));
	CHECK_EQ(n_fired + drained, ALL);
	for (unsigned i = 0; i < ALL; i++)
		CHECK_EQ(fired[i], 1);
	CHECK_EQ(stats(w).live, 0);
}

/* An arm of a timer whose node another timer has by then: that one keeps its rhythm. */

/* For a second, but not for fewer rounds than this. */
enum { ROUNDS = 500, PERIODS = 3 };
#define PERIOD (10 * MS)

static _Atomic hwheel_timer_t target;
static atomic_int over;
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
			r = hwheel_timer_mod(wheel, t, 7 * SEC + way, 0);
			break;
		case 1:
			r = hwheel_timer_mod_range(wheel, t, 8 * SEC + way, SEC, 0);
			break;
		case 2:
			r = hwheel_timer_mod(wheel, t, 3 * SEC + way,
					     HWHEEL_ABS | HWHEEL_IF_PENDING);
			break;
		case 3:
			r = hwheel_timer_set_period(wheel, t, SEC);
			break;
		}
		if (r == -ESTALE)
			atomic_fetch_add(&stale, 1);
		else if (r >= 0)
			atomic_fetch_add(&armed, 1);
		else
			CHECK_EQ(r, -EINVAL);
	}
	return arg;
}

WHEEL_TEST(a_stale_arm_touches_nothing, reset(&shapes[0], 0))
{
	const uint64_t end = ktap_clock() + SEC;
	uint64_t now = 0;

	pthread_t thread = ktap_thread(arm_it, NULL);
	for (int round = 0; round < ROUNDS || ktap_clock() < end; round++) {
		struct hwheel_event events[4];
		hwheel_timer_t old = ktap_timer_of(w, NULL, 1), periodic = 0;
		unsigned long long before = atomic_load(&armed);

		atomic_store(&target, old);
		/* In the middle of an arm of it, at best. */
		for (int i = 0; i < 1000 && atomic_load(&armed) == before; i++)
			sched_yield();
		CHECK(hwheel_timer_free(w, old) >= 0);
		CHECK_EQ(hwheel_every(w, PERIOD, PERIOD, 0, NULL, 2, 0, &periodic), 0);
		for (int n = 1; n <= PERIODS; n++) {
			CHECK(ktap_left(w, periodic) <= PERIOD);
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
	ktap_join(thread);
	CHECK(armed != 0 && stale != 0);
}
