/*
 * A driver sleeps until the time that was announced to it, and an arm for an earlier time wakes
 * it. The library keeps ticks in words of 34 to 38 bits. So each way to drive sleeps over the
 * windows of these words, on each clock, with each kind of timer to come. A table of cells:
 *
 *	way		tick thread, descriptor, wake, next time (the caller asks for it)
 *	clock		those that the way can have
 *	tick		1 us, 1 ms, 1 s
 *	others		none, one that is due later; a periodic one, or not
 *	shift		2^34 to 2^39 ticks, while the driver sleeps
 *	arm		near, far, never; behind the shift, or before it
 *
 * The clocks are the test's own. In each cell the timer fires at its tick, wake is called if and
 * only if the timer is due before the time that was announced, and every time that is announced
 * is true.
 */
#include "ktap.h"

#include "test_clock.h"

#define END_OF_TIME (UINT64_C(1) << 63)

enum way { TICK_THREAD, DESCRIPTOR, WAKE, NEXT_TIME, WAYS };
enum arm { NEAR, FAR, NEVER_DUE, ARMS };

struct cell {
	enum way way;
	uint32_t clock;
	uint64_t tick;
	unsigned shift;
	int is_busy, has_other, is_before;
	enum arm arm;
};

static struct hwheel *wheel;
/* The time on the wheel's clock; of a system clock, if it is one. */
static uint64_t now;
static clockid_t on;
static int descriptor;
/* What the last call has announced, and how often the loop was woken since. */
static uint64_t announced;
static unsigned woken;
/* The time of the timer's tick, and the time at which it fired. */
static uint64_t due_at;
static _Atomic uint64_t fired_at;
static _Atomic unsigned fired, others_fired;

static void wake(struct hwheel *w, void *arg)
{
	woken++;
}

static void fire(struct hwheel *w, const struct hwheel_event *e)
{
	uint64_t at = 0;

	fired_at = hwheel_now(w, &at) == 0 ? at : 0;
	fired++;
}

static void fire_other(struct hwheel *w, const struct hwheel_event *e)
{
	others_fired++;
}

static void move_clock(uint64_t to)
{
	now = to;
	if (on >= 0)
		set_clock(on, to);
}

/* One turn of the loop. */
static const char *drive(const struct cell *c)
{
	struct hwheel_run run = { .size = sizeof run };

	woken = 0;
	if (c->way == TICK_THREAD)
		return alarm_sleeps(descriptor, now, 0) ? NULL : "the tick thread does not sleep";
	if ((c->clock == HWHEEL_CLOCK_MANUAL ? hwheel_advance(wheel, now, NULL, 0, &run) :
					       hwheel_poll(wheel, NULL, 0, &run)) != 0)
		return "the call that drives fails";
	announced = run.next_ns;
	return run.left ? "timers are left" : NULL;
}

/* The time until which the driver sleeps. */
static uint64_t sleeps_until(const struct cell *c)
{
	uint64_t at = HWHEEL_NEVER;

	switch (c->way) {
	case TICK_THREAD:
	case DESCRIPTOR:
		at = alarm_seen(descriptor).at;
		return at == 0 ? HWHEEL_NEVER : at;
	case WAKE:
		return woken ? 0 : announced;
	default:
		return hwheel_next_expiry(wheel, &at) == 1 ? at : HWHEEL_NEVER;
	}
}

/*
 * Whether the driver sleeps until a later time than @most. The tick thread may be about to set
 * its alarm once more, for a timer that was armed while it set the alarm.
 */
static int sleeps_beyond(const struct cell *c, uint64_t most)
{
	for (int i = 0; sleeps_until(c) > most; i++) {
		if (c->way != TICK_THREAD || i == 10000)
			return 1;
		nanosleep(&(struct timespec){ 0, 1000000 }, NULL);
	}
	return 0;
}

/* The time at which a timer fires, as the library says it. */
static uint64_t due(hwheel_timer_t t)
{
	uint64_t left = HWHEEL_NEVER, from = 0;

	if (t == 0 || hwheel_timer_remaining(wheel, t, &left) != 1 || left == HWHEEL_NEVER ||
	    hwheel_now(wheel, &from) != 0)
		return HWHEEL_NEVER;
	return from + left;
}

static uint64_t earlier(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

/* Whether what was announced behind a call that drives is true. */
static const char *check_announced(const struct cell *c, const hwheel_timer_t *timers)
{
	uint64_t first = earlier(due(timers[0]), earlier(due(timers[1]), due(timers[2])));
	uint64_t until;

	if (sleeps_beyond(c, first))
		return "the driver sleeps too long";
	until = sleeps_until(c);
	if (until <= now)
		return "the driver does not sleep";
	if (c->way == TICK_THREAD || c->way == DESCRIPTOR)
		return NULL;
	return first == HWHEEL_NEVER && until != HWHEEL_NEVER ? "an idle driver wakes" : NULL;
}

/* Arms the timer. The driver sleeps since @start. */
static const char *arm(const struct cell *c, hwheel_timer_t timer, uint64_t start)
{
	uint64_t most = (END_OF_TIME - now) / 2 / c->tick, until = sleeps_until(c);
	uint64_t far = earlier((UINT64_C(1) << 35) + 12345, most) * c->tick;
	uint64_t delay = c->arm == NEAR ? c->tick : c->arm == FAR ? far : HWHEEL_NEVER;

	/* A manual clock shows the time of the last advance. The caller knows how late it is. */
	if (on < 0 && delay != HWHEEL_NEVER ?
	    hwheel_timer_mod(wheel, timer, now + delay, HWHEEL_ABS) != 0 :
	    hwheel_timer_mod(wheel, timer, delay, 0) != 0)
		return "the timer cannot be armed";
	due_at = due(timer);
	if (c->arm != NEVER_DUE &&
	    (due_at < now + delay ||
	     due_at - now - delay > c->tick + (now + delay - start) / 100000000))
		return "the timer is armed for another time";
	if (c->way == WAKE && woken != (due_at < until))
		return woken ? "wake was called" : "wake was not called";
	if (sleeps_beyond(c, due_at))
		return "the driver sleeps too long after an arm";
	return NULL;
}

static const char *run_cell(const struct cell *c)
{
	struct hwheel_options o = {
		.size = sizeof o, .clock = c->clock, .tick_ns = c->tick,
		.wake = c->way == WAKE ? wake : NULL,
	};
	uint64_t start = SEC, shift = c->tick << c->shift, until;
	hwheel_timer_t timers[3] = { 0 };
	const char *why = NULL;

	on = system_clock(c->clock);
	fired = others_fired = 0;
	woken = 0;
	fired_at = 0;
	if (on < 0)
		o.start_ns = start;
	move_clock(start);
	if (hwheel_create(&o, &wheel) != 0 || hwheel_timer_setup(wheel, fire, 0, &timers[0]) != 0)
		return "there is no wheel";
	if (c->has_other) {
		until = start + shift + earlier(shift, (END_OF_TIME - start - shift) / 2);
		if (hwheel_once(wheel, until, fire_other, 0, HWHEEL_ABS, &timers[1]) != 0)
			return "there is no other timer";
	}
	if (c->is_busy &&
	    hwheel_every(wheel, shift / 3, shift / 3, 0, fire_other, 0, 0, &timers[2]) != 0)
		return "there is no periodic timer";
	descriptor = -1;
	if (c->way == TICK_THREAD && hwheel_start(wheel) != 0)
		return "the tick thread does not start";
	if (c->way == TICK_THREAD || c->way == DESCRIPTOR)
		descriptor = hwheel_fd(wheel);
	why = drive(c);
	why = why ? why : check_announced(c, timers);
	if (!why && c->is_before)
		why = arm(c, timers[0], start);
	/* It sleeps, unless the time has come. */
	if (!why)
		move_clock(start + shift);
	if (!why && c->way == TICK_THREAD)
		why = drive(c);
	if (!why && !c->is_before)
		why = arm(c, timers[0], start);
	for (int turns = 0; !why && turns < (c->arm == NEVER_DUE ? 3 : 1000); turns++) {
		until = sleeps_until(c);
		if (until == HWHEEL_NEVER && c->arm == NEVER_DUE)
			break;
		if (until == HWHEEL_NEVER && !fired) {
			why = "the driver sleeps without end";
			break;
		}
		if (fired)
			break;
		if (until > now)
			move_clock(until);
		why = drive(c);
		why = why ? why : check_announced(c, timers);
	}
	if (!why && fired != (c->arm != NEVER_DUE))
		why = fired ? "the timer fires" : "the timer does not fire";
	/* At its tick; or at the end of the shift, if its tick came meanwhile. */
	if (!why && fired && fired_at != (due_at > start + shift ? due_at : start + shift))
		why = fired_at < due_at ? "the timer fires too early" : "the timer fires too late";
	if (c->way == TICK_THREAD && hwheel_stop(wheel) != 0)
		why = "the tick thread does not stop";
	if (hwheel_destroy(wheel) != 0)
		why = "the wheel cannot be destroyed";
	return why;
}

static void all_cells_of(enum way way)
{
	static const char *const clocks[] = { "monotonic", "boottime", "realtime", "manual" };
	static const char *const arms[] = { "near", "far", "never" };
	static const uint64_t ticks[] = { HWHEEL_USEC, MS, SEC };
	struct cell c = { .way = way };
	unsigned cells = 0, failed = 0;

	for (c.clock = 0; c.clock <= HWHEEL_CLOCK_MANUAL; c.clock++) {
		if (c.clock == HWHEEL_CLOCK_MANUAL && way != WAKE && way != NEXT_TIME)
			continue;
		for (unsigned n = 0; n < COUNT(ticks) * 6 * 8 * ARMS; n++) {
			const char *why;

			c.tick = ticks[n % 3];
			/* 2^34 s are more than the clocks have: 2^33 are 272 years. */
			c.shift = (c.tick == SEC ? 28 : 34) + n / 3 % 6;
			c.is_busy = n / 18 % 2;
			c.has_other = n / 36 % 2;
			c.is_before = n / 72 % 2;
			c.arm = n / 144;
			cells++;
			why = run_cell(&c);
			if (why != NULL && failed++ < 10)
				printf("# %s: %s clock, tick %" PRIu64 " ns, %s, %s timer, "
				       "an arm %s %s a sleep of 2^%u ticks\n", why,
				       clocks[c.clock], c.tick, c.is_busy ? "busy" : "idle",
				       c.has_other ? "another" : "no other", arms[c.arm],
				       c.is_before ? "before" : "after", c.shift);
		}
	}
	for (unsigned i = 0; i < COUNT(clock_of); i++)
		clock_of[i] = 0;
	printf("# %u cells, %u fail\n", cells, failed);
	CHECK_EQ(failed, 0);
}

TEST_OF(the_tick_thread_sleeps_as_long_as_it_may, all_cells_of(TICK_THREAD))
TEST_OF(a_descriptor_is_readable_in_time, all_cells_of(DESCRIPTOR))
TEST_OF(a_loop_is_woken_if_and_only_if_it_would_sleep_too_long, all_cells_of(WAKE))
TEST_OF(a_caller_who_asks_is_told_the_truth, all_cells_of(NEXT_TIME))
