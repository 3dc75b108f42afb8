/* The coarse clock: delays are counted from a time that is not before now. */
#include <pthread.h>
#include "ktap.h"

#define DELAY	(2 * MS)
#define TICK	1000
#define AHEAD	(100 * 1000)	/* of the clock, at most */
#define TIMERS	20000
#define THREADS	2

static int make(uint32_t clock, uint32_t flags, struct hwheel **w)
{
	struct hwheel_options o;

	memset(&o, 0, sizeof o);
	o.size = sizeof o;
	o.clock = clock;
	o.tick_ns = TICK;
	o.flags = flags;
	return hwheel_create(&o, w);
}

/* When each timer was armed, after `from` and before `to`; and for when. */
static struct armed {
	uint64_t from, to, deadline;
} armed[THREADS][TIMERS];

static struct hwheel *wheel;
static unsigned fired, early;

static void fire(struct hwheel *w, const struct hwheel_event *e)
{
	struct armed *a = &armed[e->cookie / TIMERS][e->cookie % TIMERS];

	(void)w;
	fired++;
	a->deadline = e->deadline_ns;
	early += a->deadline < a->from + DELAY || ktap_clock() < a->from + DELAY;
}

static void *arm(void *arg)
{
	uint64_t thread = (uint64_t)(uintptr_t)arg, failed = 0;

	for (uint64_t i = 0; i < TIMERS; i++) {
		struct armed *a = &armed[thread][i];
		uint64_t cookie = thread * TIMERS + i;
		hwheel_timer_t t;

		a->from = ktap_clock();
		switch (i % 3) {
		case 0:
			failed += hwheel_once(wheel, DELAY, fire, cookie, 0, NULL) != 0;
			break;
		case 1:
			failed += hwheel_timer_setup(wheel, fire, cookie, &t) != 0;
			failed += hwheel_timer_mod(wheel, t, DELAY, 0) != 0;
			break;
		default:
			failed += hwheel_key_set(wheel, NUMBER(cookie), DELAY, fire, cookie, 0) != 0;
		}
		a->to = ktap_clock();
	}
	return (void *)(uintptr_t)failed;
}

static void no_timer_is_early_or_late_by_more_than_it_says(void)
{
	pthread_t threads[THREADS];
	unsigned ahead = 0;
	uint64_t end;

	fired = early = 0;
	CHECK_EQ(make(HWHEEL_CLOCK_MONOTONIC, HWHEEL_COARSE, &wheel), 0);
	for (uintptr_t i = 0; i < THREADS; i++)
		CHECK_EQ(pthread_create(&threads[i], NULL, arm, (void *)i), 0);
	for (end = ktap_clock() + 60 * SEC; fired < THREADS * TIMERS && ktap_clock() < end;)
		CHECK(hwheel_poll(wheel, NULL, 0, NULL) >= 0);
	for (int i = 0; i < THREADS; i++) {
		void *failed;

		CHECK_EQ(pthread_join(threads[i], &failed), 0);
		CHECK_EQ((uintptr_t)failed, 0);
	}
	CHECK_EQ(fired, THREADS * TIMERS);
	CHECK_EQ(early, 0);
	/* It may fire before the thread that has armed it has looked again. */
	for (const struct armed *a = armed[0]; a < armed[THREADS]; a++)
		ahead += a->deadline > a->to + DELAY + AHEAD + TICK;
	CHECK_EQ(ahead, 0);
	CHECK_EQ(hwheel_destroy(wheel), 0);
}

static void other_clocks_have_none(void)
{
	CHECK_EQ(make(HWHEEL_CLOCK_BOOTTIME, HWHEEL_COARSE, &wheel), -EINVAL);
	CHECK_EQ(make(HWHEEL_CLOCK_REALTIME, HWHEEL_COARSE, &wheel), -EINVAL);
	CHECK_EQ(make(HWHEEL_CLOCK_MANUAL, HWHEEL_COARSE, &wheel), -EINVAL);
	CHECK_EQ(make(HWHEEL_CLOCK_MONOTONIC, HWHEEL_COARSE << 1, &wheel), -EINVAL);
}

/* The wheel's own time is the precise one, and the tick thread sleeps by it. */
static void the_tick_thread_fires(void)
{
	uint64_t now, before = ktap_clock();

	fired = early = 0;
	CHECK_EQ(make(HWHEEL_CLOCK_MONOTONIC, HWHEEL_COARSE, &wheel), 0);
	CHECK_EQ(hwheel_now(wheel, &now), 0);
	CHECK(now >= before && now <= ktap_clock());
	armed[0][0].from = before;
	CHECK_EQ(hwheel_once(wheel, DELAY, fire, 0, 0, NULL), 0);
	CHECK_EQ(hwheel_start(wheel), 0);
	for (uint64_t end = before + 60 * SEC; ktap_clock() < end;) {
		struct hwheel_stats s = { .size = sizeof s };

		CHECK_EQ(hwheel_get_stats(wheel, &s), 0);
		if (s.fired == 1)
			break;
		ktap_sleep_ms(1);
	}
	CHECK_EQ(hwheel_stop(wheel), 0);
	CHECK_EQ(fired, 1);
	CHECK_EQ(early, 0);
	CHECK_EQ(hwheel_destroy(wheel), 0);
}

static const struct ktap_test tests[] = {
	TEST(no_timer_is_early_or_late_by_more_than_it_says),
	TEST(other_clocks_have_none),
	TEST(the_tick_thread_fires),
};

KTAP_MAIN(tests)
