/*
 * Speed: work that other timers did for nothing. What can be counted is
 * counted; the rest is a ratio of two times, of which the trap makes one a
 * thousand times the other and the test allows twenty.
 */
#include <sys/syscall.h>
#include <sys/timerfd.h>
#include "ktap.h"

static _Atomic unsigned fired;
static _Atomic unsigned settings;	/* of any timerfd */

/* This program's own, which the library uses instead of the C library's. */
int timerfd_settime(int fd, int flags, const struct itimerspec *to,
		    struct itimerspec *was)
{
	settings++;
	return (int)syscall(SYS_timerfd_settime, fd, flags, to, was);
}

static void count(struct hwheel *w, const struct hwheel_event *e)
{
	fired++;
}

/* Waits until the alarm is set no more: once with the descriptor, and again by the thread. */
static void quiet(void)
{
	unsigned seen = 0;

	for (unsigned ms = 0; ms < 100; ms++) {
		if (settings < 2 || settings != seen)
			ms = 0;
		seen = settings;
		ktap_sleep_ms(1);
	}
}

/* A wheel whose tick thread sleeps, to a timer @far_ns away, or without a timer. */
static struct hwheel *asleep(uint64_t far_ns)
{
	struct hwheel *w = ktap_made(NULL);

	fired = settings = 0;
	CHECK_EQ(hwheel_once(w, far_ns, count, 0, 0, NULL), 0);
	CHECK_EQ(hwheel_start(w), 0);
	quiet();
	return w;
}

/* The least time of five runs. */
static uint64_t least_ns(void (*run)(struct hwheel *), struct hwheel *w)
{
	uint64_t least = UINT64_MAX;

	for (unsigned n = 0; n < 5; n++) {
		uint64_t begin = ktap_clock(), took;

		run(w);
		took = ktap_clock() - begin;
		least = took < least ? took : least;
	}
	return least;
}

WHEEL_TEST(g1_later_inserts_wake_nobody, asleep(100 * SEC))
{
	struct hwheel_stats before = stats(w), after;
	unsigned was = settings;

	for (unsigned n = 0; n < 100000; n++)
		CHECK_EQ(hwheel_once(w, 101 * SEC + n, count, n, 0, NULL), 0);
	after = stats(w);
	CHECK_EQ(after.kicks, before.kicks);
	CHECK_EQ(after.wakeups, before.wakeups);
	CHECK_EQ(settings, was);
}

/*
 * The thread sets its alarm once a sleep, an arm once a kick; and the thread
 * once more for a kick that comes while it goes to sleep.
 */
WHEEL_TEST(g2_alarm_is_set_once_a_sleep, asleep(HWHEEL_NEVER))
{
	struct hwheel_stats before = stats(w), after;
	unsigned was = settings;

	for (unsigned n = 0; n < 50; n++) {
		CHECK_EQ(hwheel_once(w, 2 * MS, count, n, 0, NULL), 0);
		ktap_sleep_ms(5);
	}
	ktap_until(&fired, 50);
	quiet();
	after = stats(w);
	CHECK(settings - was <= after.wakeups - before.wakeups +
	      2 * (after.kicks - before.kicks) + 1);
	/* and none while nothing happens */
	was = settings;
	ktap_sleep_ms(100);
	CHECK_EQ(settings, was);
}

static void a_turn(struct hwheel *w)
{
	uint64_t now = ktap_now(w);

	for (unsigned n = 0; n < 256; n++) {
		/* one that is due, so that the bucket is visited */
		CHECK_EQ(hwheel_once(w, MS, count, n, 0, NULL), 0);
		now += MS;
		CHECK_EQ(hwheel_advance(w, now, NULL, 0, NULL), 0);
	}
}

/* The time of a turn, tick by tick, of a wheel with @timers far timers. */
static uint64_t a_turn_over(uint32_t levels, unsigned timers)
{
	WHEEL w = ktap_manual(MS, levels, 256, 0);
	uint64_t took;

	for (unsigned n = 0; n < timers; n++)
		CHECK_EQ(hwheel_once(w, (100000000 + n % 256) * MS, count, n, 0, NULL), 0);
	took = least_ns(a_turn, w);
	printf("# levels: %u, timers: %u, a turn: %" PRIu64 " ns\n", levels, timers, took);
	return took;
}

/* A bucket of one level has the near timers only: no wheel counts rounds. */
TEST(g3_far_timers_are_not_walked_each_tick)
{
	for (uint32_t levels = 1; levels <= 4; levels += 3) {
		uint64_t few = a_turn_over(levels, 1000), many = a_turn_over(levels, 1000000);

		CHECK(many < 20 * few);
	}
}

static void arms(struct hwheel *w)
{
	static hwheel_timer_t timers[4096];

	for (unsigned n = 0; n < 4096; n++)
		CHECK_EQ(hwheel_once(w, (1 + n * 37) * MS, count, n, 0, &timers[n]), 0);
	for (unsigned n = 0; n < 4096; n++)
		CHECK_EQ(hwheel_timer_delete(w, timers[n]), 1);
}

/* An arm does not look through the slots for its place among them. */
TEST(g4_arm_does_not_depend_on_the_slots)
{
	uint64_t took[2];

	for (unsigned n = 0; n < 2; n++) {
		WHEEL w = ktap_manual(MS, 2, n ? 65536 : 256, 0);

		CHECK_EQ(hwheel_once(w, 60000 * MS, count, 0, 0, NULL), 0);
		took[n] = least_ns(arms, w);
	}
	printf("# 4096 arms in 256 slots: %" PRIu64 " ns, in 65536: %" PRIu64 " ns\n",
	       took[0], took[1]);
	CHECK(took[1] < 20 * took[0]);
}

static _Atomic unsigned served;
static _Atomic unsigned ended;

static void *work_beside(void *arg)
{
	struct hwheel *w = arg;

	while (!ended) {
		hwheel_timer_t timer = ktap_once(w, 100 * SEC, count, 0, 0);

		CHECK_EQ(hwheel_timer_delete(w, timer), 1);
		served++;
	}
	return NULL;
}

/* In the middle of the mass, which waits for what others do meanwhile. */
static void wait_for_others(struct hwheel *w, const struct hwheel_event *e)
{
	unsigned until = served + 1000;

	fired++;
	for (unsigned ms = 0; e->cookie % 10000 == 5000 && (int)(served - until) < 0; ms++) {
		CHECK(ms < 5000);
		ktap_sleep_ms(1);
	}
}

WHEEL_TEST(g7_mass_expiry_holds_up_nobody, ktap_manual(MS, 4, 256, 0))
{
	enum { MASS = 100000 };

	fired = served = ended = 0;
	for (unsigned n = 0; n < MASS; n++)
		CHECK_EQ(hwheel_once(w, 500 * MS, wait_for_others, n, HWHEEL_ABS, NULL), 0);
	pthread_t thread = ktap_thread(work_beside, w);
	CHECK_AT(w, 500 * MS - 1, fired, 0);
	CHECK_EQ(hwheel_advance(w, 500 * MS, NULL, 0, NULL), 0);
	ended = 1;
	ktap_join(thread);
	CHECK_EQ(fired, MASS);
}

/* With a timer far away, or one that never comes; in the hashed shape, and the hierarchical one. */
TEST(g10_idle_thread_does_not_wake)
{
	enum { WHEELS = 4 };
	struct hwheel *w[WHEELS];
	uint64_t before[WHEELS];
	unsigned was;

	fired = settings = 0;
	for (unsigned n = 0; n < WHEELS; n++) {
		w[n] = MADE(.levels = n % 2);
		CHECK_EQ(hwheel_once(w[n], n / 2 ? HWHEEL_NEVER : 3600 * SEC, count, 0, 0, NULL), 0);
		CHECK_EQ(hwheel_start(w[n]), 0);
	}
	quiet();
	for (unsigned n = 0; n < WHEELS; n++)
		before[n] = stats(w[n]).wakeups;
	was = settings;
	ktap_sleep_ms(10000);
	CHECK_EQ(settings, was);
	for (unsigned n = 0; n < WHEELS; n++) {
		CHECK_EQ(stats(w[n]).wakeups, before[n]);
		CHECK_EQ(fired, n);
		/* it sleeps, it is not dead */
		CHECK_EQ(hwheel_once(w[n], 0, count, 0, 0, NULL), 0);
		ktap_until(&fired, n + 1);
		CHECK(stats(w[n]).wakeups > before[n]);
		CHECK_EQ(hwheel_destroy(w[n]), 0);
	}
}
