/*
 * What verify/cost.py counts the instructions of: each RUN() is CALLS calls, and what these need
 * is made ready outside of it. The clock is the caller's, so that nothing depends on the speed of
 * the machine.
 */
#include <valgrind/callgrind.h>
#include "verify.h"
#include BENCH_LIBRARY

enum { CALLS = 1000, OTHERS = 255 };

static bench_wheel *w;
static bench_timer timers[CALLS];
static uint64_t now;
static unsigned fired;

static void count(bench_wheel *wheel, const bench_event *e)
{
	fired++;
}

/* Makes some calls; in the second round their instructions are dumped under this name. */
#define RUN(name, calls) do { \
	if (round > 0) \
		CALLGRIND_TOGGLE_COLLECT; \
	calls; \
	if (round > 0) { \
		CALLGRIND_TOGGLE_COLLECT; \
		CALLGRIND_DUMP_STATS_AT(#name); \
	} \
} while (0)

/* Makes this call for each timer, i. */
#define EACH(call) do { \
	for (unsigned i = 0; i < CALLS; i++) \
		MUST((call) >= 0); \
} while (0)

static void set_up(void)
{
	EACH(bench_setup(w, count, i, &timers[i]));
}

static void arm_from(uint64_t delay_ns)
{
	EACH(bench_arm_in(w, timers[i], delay_ns + i * MS / 7));
}

/* One timer is due in each tick. */
static void arm_one_a_tick(void)
{
	EACH(bench_arm(w, timers[i], now + (i + 1) * MS));
}

static void pass(uint64_t ticks)
{
	for (uint64_t end = now + ticks * MS; now < end; now += MS)
		MUST(bench_advance(w, now + MS) == 0);
}

static void pass_at_once(uint64_t ns)
{
	now += ns;
	MUST(bench_advance(w, now) == 0);
}

static void count_calls(void)
{
	/* The first round maps memory and takes a number for the thread. */
	for (unsigned round = 0; round < 2; round++) {
		RUN(setup, set_up());
		RUN(arm, arm_from(3000 * MS));
		/* Before the driver has taken the notes of the first arms. */
		RUN(rearm_on_note, arm_from(3500 * MS));
		pass(1);
		RUN(rearm_later, arm_from(4000 * MS));
		RUN(rearm_earlier, arm_from(2000 * MS));
		pass(1);
		RUN(rearm_at_deadline, EACH(bench_arm(w, timers[i], now + 2500 * MS)));
		RUN(pending, EACH(bench_pending(w, timers[i])));
		RUN(cancel, EACH(bench_cancel(w, timers[i])));
		RUN(free, EACH(bench_free(w, timers[i])));
		/* The notes and entries that these have left are no part of what follows. */
		pass_at_once(10 * SEC);
		/* Seven timers a tick, and a call for each tick; they free themselves, or rest. */
		RUN(once, EACH(bench_once(w, 100 * MS + i * MS / 7, count, i, &timers[i])));
		RUN(fire_once, pass(260));
		MUST(fired == (3 * round + 1) * CALLS);
		set_up();
		EACH(bench_arm(w, timers[i], now + 10 * MS + i * MS / 7));
		RUN(fire, pass(160));
		MUST(fired == (3 * round + 2) * CALLS);
		/* All timers of a level above, with the cascade, in one call. */
		arm_from(3000 * MS);
		RUN(fire_far, pass_at_once(10 * SEC));
		MUST(fired == (3 * round + 3) * CALLS);
		EACH(bench_free(w, timers[i]));
		RUN(idle_tick, pass(CALLS));
	}
}

static pthread_barrier_t all_have_armed, over;

static void *other(void *arg)
{
	bench_timer t;

	MUST(bench_once(w, 10000 * SEC, count, 0, &t) >= 0);
	pthread_barrier_wait(&all_have_armed);
	pthread_barrier_wait(&over);
	return arg;
}

/* One timer a tick, also with 255 other threads, which have timers that are due much later. */
static void count_ticks(void)
{
	pthread_t threads[OTHERS];

	set_up();
	for (unsigned round = 0; round < 2; round++) {
		arm_one_a_tick();
		RUN(tick_1_thread, pass(CALLS));
	}
	pthread_barrier_init(&all_have_armed, NULL, OTHERS + 1);
	pthread_barrier_init(&over, NULL, OTHERS + 1);
	for (unsigned i = 0; i < OTHERS; i++)
		start_thread(&threads[i], other, NULL);
	pthread_barrier_wait(&all_have_armed);
	for (unsigned round = 0; round < 2; round++) {
		arm_one_a_tick();
		RUN(tick_256_threads, pass(CALLS));
	}
	pthread_barrier_wait(&over);
	for (unsigned i = 0; i < OTHERS; i++)
		pthread_join(threads[i], NULL);
}

static void arm_again(bench_wheel *wheel, const bench_event *e)
{
	fired++;
	MUST(bench_arm(wheel, timers[e->cookie], now + 160 * MS) >= 0);
}

/* Seven timers a tick; each is armed again in its callback. */
static void *drive_alone(void *arg)
{
	for (unsigned round = 0; round < 2; round++)
		RUN(fire_and_arm, pass(160));
	return arg;
}

/* By a thread that arms nothing outside of its callbacks, as a tick thread does. */
static void count_arms_in_callbacks(void)
{
	pthread_t driver;

	now = 0;
	EACH(bench_setup(w, arm_again, i, &timers[i]));
	EACH(bench_arm(w, timers[i], MS + i * MS / 7));
	start_thread(&driver, drive_alone, NULL);
	pthread_join(driver, NULL);
}

int main(void)
{
	MUST(bench_create(BENCH_MANUAL, MS, &w) == 0);
	count_calls();
	count_ticks();
	MUST(bench_destroy(w) == 0);
	MUST(bench_create(BENCH_MANUAL, MS, &w) == 0);
	count_arms_in_callbacks();
	return bench_destroy(w) != 0;
}
