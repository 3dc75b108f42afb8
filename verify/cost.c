/*
 * What verify/cost.py counts the instructions of: each op_ function is CALLS
 * calls, and what these need is made ready outside of it. The clock is
 * the caller's, so that nothing depends on the speed of the machine.
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <valgrind/callgrind.h>
#include BENCH_LIBRARY

#define MS UINT64_C(1000000)
#define SEC UINT64_C(1000000000)
enum { CALLS = 1000 };

static bench_wheel *w;
static bench_timer timers[CALLS];
static uint64_t now;
static unsigned fired;

static void count(bench_wheel *wheel, const bench_event *e)
{
	(void)wheel;
	(void)e;
	fired++;
}

#define MUST(condition) do { \
	if (!(condition)) { \
		fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #condition); \
		exit(1); \
	} \
} while (0)

/* Runs an op_ function; in the second round its instructions are dumped. */
#define RUN(op) do { \
	if (round > 0) \
		CALLGRIND_TOGGLE_COLLECT; \
	op_##op(); \
	if (round > 0) { \
		CALLGRIND_TOGGLE_COLLECT; \
		CALLGRIND_DUMP_STATS_AT(#op); \
	} \
} while (0)

#define EACH(call) do { \
	for (unsigned i = 0; i < CALLS; i++) \
		MUST((call) >= 0); \
} while (0)

/* An operation that makes this call for each timer. */
#define OP(name, call) static void op_##name(void) { EACH(call); }

static void pass(uint64_t ticks)
{
	for (uint64_t end = now + ticks * MS; now < end; now += MS)
		MUST(bench_advance(w, now + MS) == 0);
}

OP(setup, bench_setup(w, count, i, &timers[i]))
OP(arm, bench_arm_in(w, timers[i], 3000 * MS + i * MS / 7))
/* Before the driver has taken the notes of the first arms. */
OP(rearm_on_note, bench_arm_in(w, timers[i], 3500 * MS + i * MS / 7))
OP(rearm_later, bench_arm_in(w, timers[i], 4000 * MS + i * MS / 7))
OP(rearm_earlier, bench_arm_in(w, timers[i], 2000 * MS + i * MS / 7))
OP(rearm_at_deadline, bench_arm(w, timers[i], now + 2500 * MS))
OP(pending, bench_pending(w, timers[i]))
OP(cancel, bench_cancel(w, timers[i]))
OP(free, bench_free(w, timers[i]))
OP(once, bench_once(w, 100 * MS + i * MS / 7, count, i, &timers[i]))

static void arm_near(void)
{
	EACH(bench_arm(w, timers[i], now + 10 * MS + i * MS / 7));
}

/* Driving past all of them, a tick at a time, seven timers a tick. */
static void op_fire(void)
{
	pass(160);
}

/* Driving past timers that free themselves, a tick at a time, seven timers a tick. */
static void op_fire_once(void)
{
	pass(260);
}

/* Driving past all timers of a level above, with the cascade, in one call. */
static void op_fire_far(void)
{
	now += 10 * SEC;
	MUST(bench_advance(w, now) == 0);
}

static void op_idle_tick(void)
{
	pass(CALLS);
}

/* One timer is due in each tick. */
static void arm_one_a_tick(void)
{
	EACH(bench_arm(w, timers[i], now + (i + 1) * MS));
}

static void op_tick_1_thread(void)
{
	pass(CALLS);
}

/* One timer a tick, with 255 other threads, which have timers that are due much later. */
static void op_tick_256_threads(void)
{
	pass(CALLS);
}

enum { OTHERS = 255 };
static pthread_barrier_t all_have_armed, over;

static void *other(void *arg)
{
	bench_timer t;

	MUST(bench_once(w, 10000 * SEC, count, 0, &t) >= 0);
	pthread_barrier_wait(&all_have_armed);
	pthread_barrier_wait(&over);
	return arg;
}

static bench_timer of_callbacks[CALLS];

static void arm_again(bench_wheel *wheel, const bench_event *e)
{
	fired++;
	MUST(bench_arm(wheel, of_callbacks[e->cookie], now + 160 * MS) >= 0);
}

/* Driving past all of them, seven timers a tick; each is armed again in its callback. */
static void op_fire_and_arm(void)
{
	pass(160);
}

/* As a tick thread does: it arms nothing outside of its callbacks. */
static void *drive_alone(void *arg)
{
	for (unsigned round = 0; round < 2; round++)
		RUN(fire_and_arm);
	return arg;
}

static void count_arms_in_callbacks(void)
{
	pthread_t driver;

	MUST(bench_create(BENCH_MANUAL, MS, &w) == 0);
	now = 0;
	EACH(bench_setup(w, arm_again, i, &of_callbacks[i]));
	EACH(bench_arm(w, of_callbacks[i], MS + i * MS / 7));
	MUST(pthread_create(&driver, NULL, drive_alone, NULL) == 0);
	pthread_join(driver, NULL);
	MUST(bench_destroy(w) == 0);
}

static void count_ticks_beside_others(void)
{
	pthread_t threads[OTHERS];

	pthread_barrier_init(&all_have_armed, NULL, OTHERS + 1);
	pthread_barrier_init(&over, NULL, OTHERS + 1);
	for (unsigned i = 0; i < OTHERS; i++)
		MUST(pthread_create(&threads[i], NULL, other, NULL) == 0);
	pthread_barrier_wait(&all_have_armed);
	for (unsigned round = 0; round < 2; round++) {
		arm_one_a_tick();
		RUN(tick_256_threads);
	}
	pthread_barrier_wait(&over);
	for (unsigned i = 0; i < OTHERS; i++)
		pthread_join(threads[i], NULL);
}

int main(void)
{
	MUST(bench_create(BENCH_MANUAL, MS, &w) == 0);
	/* the first round maps memory and takes a number for the thread */
	for (unsigned round = 0; round < 2; round++) {
		RUN(setup);
		RUN(arm);
		RUN(rearm_on_note);
		pass(1);
		RUN(rearm_later);
		RUN(rearm_earlier);
		pass(1);
		RUN(rearm_at_deadline);
		RUN(pending);
		RUN(cancel);
		RUN(free);
		/* the notes and entries that these have left are no part of what follows */
		op_fire_far();
		RUN(once);
		RUN(fire_once);
		MUST(fired == (3 * round + 1) * CALLS);
		op_setup();
		arm_near();
		RUN(fire);
		MUST(fired == (3 * round + 2) * CALLS);
		op_arm();
		RUN(fire_far);
		MUST(fired == (3 * round + 3) * CALLS);
		op_free();
		RUN(idle_tick);
	}
	op_setup();
	for (unsigned round = 0; round < 2; round++) {
		arm_one_a_tick();
		RUN(tick_1_thread);
	}
	count_ticks_beside_others();
	MUST(bench_destroy(w) == 0);
	count_arms_in_callbacks();
	return 0;
}
