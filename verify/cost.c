/*
 * What verify/cost.py counts the instructions of: each op_ function is CALLS
 * calls, and what these need is made ready outside of it. The clock is
 * the caller's, so that nothing depends on the speed of the machine.
 */
#include <valgrind/callgrind.h>
#include "verify.h"

enum { CALLS = 1000 };

static struct hwheel *w;
static hwheel_timer_t timers[CALLS];
static uint64_t now;
static unsigned fired;

static void count(struct hwheel *wheel, const struct hwheel_event *e)
{
	(void)wheel;
	(void)e;
	fired++;
}

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

static void op_setup(void)
{
	EACH(hwheel_timer_setup(w, count, i, &timers[i]));
}

static void op_arm(void)
{
	EACH(hwheel_timer_mod(w, timers[i], 3000 * MS + i * MS / 7, 0));
}

static void op_rearm_later(void)
{
	EACH(hwheel_timer_mod(w, timers[i], 4000 * MS + i * MS / 7, 0));
}

static void op_rearm_earlier(void)
{
	EACH(hwheel_timer_mod(w, timers[i], 2000 * MS + i * MS / 7, 0));
}

static void op_rearm_at_deadline(void)
{
	EACH(hwheel_timer_mod(w, timers[i], now + 2500 * MS, HWHEEL_ABS));
}

static void op_pending(void)
{
	EACH(hwheel_timer_pending(w, timers[i]));
}

static void op_cancel(void)
{
	EACH(hwheel_timer_delete(w, timers[i]));
}

static void op_free(void)
{
	EACH(hwheel_timer_free(w, timers[i]));
}

static void op_after(void)
{
	EACH(hwheel_once(w, 100 * MS + i * MS / 7, count, i, 0, &timers[i]));
}

/* The whole of driving past all of them, a tick at a time. */
static void op_fire(void)
{
	for (uint64_t end = now + 300 * MS; now < end; now += MS)
		MUST(hwheel_advance(w, now + MS, NULL, 0, NULL) == 0);
}

/* The same from a level above, with the cascade, in one go. */
static void op_fire_far(void)
{
	now += 10 * SEC;
	MUST(hwheel_advance(w, now, NULL, 0, NULL) == 0);
}

static void op_idle_tick(void)
{
	for (unsigned i = 0; i < CALLS; i++) {
		now += MS;
		MUST(hwheel_advance(w, now, NULL, 0, NULL) == 0);
	}
}

int main(void)
{
	struct hwheel_options o = { .size = sizeof o, .clock = HWHEEL_CLOCK_MANUAL };

	MUST(hwheel_create(&o, &w) == 0);
	/* the first round maps memory and takes a shard */
	for (unsigned round = 0; round < 2; round++) {
		RUN(setup);
		RUN(arm);
		RUN(rearm_later);
		RUN(rearm_earlier);
		RUN(rearm_at_deadline);
		RUN(pending);
		RUN(cancel);
		RUN(free);
		/* the promises that these have left are no part of what follows */
		op_fire_far();
		RUN(after);
		RUN(fire);
		MUST(fired == (2 * round + 1) * CALLS);
		op_setup();
		op_arm();
		RUN(fire_far);
		MUST(fired == (2 * round + 2) * CALLS);
		op_free();
		RUN(idle_tick);
	}
	return hwheel_destroy(w) == 0 ? 0 : 1;
}
