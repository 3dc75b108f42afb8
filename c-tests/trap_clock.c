/* Time base: defects that other timers had where the clock misbehaves or jumps. */
#include <sys/syscall.h>
#include "driven.h"

/*
 * A clock_gettime of the program's own, which the library calls: the system's time
 * plus an offset, or a time that stands still until it is moved.
 */

static _Atomic uint64_t still_ns;	/* if not 0, the time */
static _Atomic unsigned asked[16];	/* how often, by clock */
static _Atomic int64_t offset_ns[16];

int clock_gettime(clockid_t clock, struct timespec *t)
{
	uint64_t ns = still_ns;

	if (clock < 0 || clock >= 16)
		return (int)syscall(SYS_clock_gettime, clock, t);
	asked[clock]++;
	if (ns == 0) {
		if (syscall(SYS_clock_gettime, clock, t) != 0)
			return -1;
		ns = (uint64_t)t->tv_sec * SEC + (uint64_t)t->tv_nsec;
	}
	ns += (uint64_t)offset_ns[clock];
	t->tv_sec = (time_t)(ns / SEC);
	t->tv_nsec = (long)(ns % SEC);
	return 0;
}

/* A wheel on a system clock that stands still at the given time. */
static inline struct hwheel *start_still(uint32_t clock, uint64_t tick_ns, uint64_t now)
{
	reset(tick_ns, now);
	still_ns = now;
	return MADE(.clock = clock, .tick_ns = tick_ns);
}

/* The system's clock shows a time, and the wheel is polled. */
static inline void poll_at(struct hwheel *w, uint64_t now)
{
	still_ns = driven = now;
	CHECK_EQ(hwheel_poll(w, NULL, 0, NULL), 0);
}

static inline void each_expiry_or_overdue(struct hwheel *w)
{
	uint64_t next;

	for (unsigned n = 0; (next = ktap_next(w)) != HWHEEL_NEVER; n++) {
		CHECK(n < 100000);
		/* after a long idle it may be overdue, never late */
		to(w, next > driven ? next : driven);
	}
}

/* A wheel of start_still(). At the end of its block it is destroyed, and the clock goes on. */
#define STILL_WHEEL __attribute__((cleanup(destroy_still))) struct hwheel *

static inline void destroy_still(struct hwheel **w)
{
	ktap_destroy(w);
	still_ns = 0;
}

/* Such a wheel, or one of start(). At the end its timers have all fired, in order. */
#define IN_ORDER __attribute__((cleanup(done_in_order))) struct hwheel *

static inline void done_in_order(struct hwheel **w)
{
	done(*w);
	CHECK_EQ(disorder, 0);
	still_ns = 0;
}

SHAPE_TEST(b1_arm_after_idle_is_not_early, shapes)
{
	for (unsigned bit = 1; bit < 40; bit += 3) {
		IN_ORDER w = start(shape, 5 * t);

		after(w, t);
		to(w, driven + t);
		/* idle, perhaps off the grid */
		to(w, driven + (t << bit) + t / 2);
		after(w, t);
		after(w, 3 * t);
		after(w, 300 * t);
		each_expiry_or_overdue(w);
	}
}

/* An arm on a system clock that nobody has polled while the wheel was empty. */
TEST(b1_arm_after_unpolled_idle_is_not_early)
{
	for (unsigned bit = 10; bit < 44; bit += 2) {
		IN_ORDER w = start_still(HWHEEL_CLOCK_MONOTONIC, MS, 100 * SEC + 1);

		still_ns = driven = 100 * SEC + (MS << (bit - 10)) + 17;
		after(w, 5 * MS);
		after(w, 300 * MS);
		CHECK_FIRED(poll_at(w, driven), 0);
		for (unsigned n = 0; n < 2; n++) {
			uint64_t first = records[n].first;

			CHECK_FIRED(poll_at(w, first - 1), n);
			CHECK_FIRED(poll_at(w, first), n + 1);
		}
	}
}

/* Ticks in which nothing is due are not gone through one by one. */
SHAPE_TEST(b1_idle_ticks_cost_nothing, shapes)
{
	IN_ORDER w = start(shape, 0);
	uint64_t before = ktap_clock();

	after(w, t << 35);
	to(w, records[0].first);
	/* one by one it would be minutes */
	CHECK(ktap_clock() - before < SEC);
}

TEST(b2_clock_steps_back)
{
	static const uint64_t steps[] = {
		1, 999, 999999, MS, MS + 1, 50 * MS, SEC, 60 * SEC, 3600 * SEC,
	};

	for (uint32_t clock = 0; clock < HWHEEL_CLOCK_MANUAL; clock++) {
		for (unsigned s = 0; s < COUNT(steps); s++) {
			uint64_t base = 10000 * SEC;
			IN_ORDER w = start_still(clock, MS, base);
			hwheel_timer_t timer;

			poll_at(w, base + 10 * MS);
			after(w, 20 * MS);
			timer = ktap_timer(w);
			/* back: the time is held, at least at the last tick */
			poll_at(w, base + 10 * MS - steps[s]);
			CHECK_EQ(ktap_now(w), base + 10 * MS);
			CHECK_EQ(n_fired, 0);
			/* a delay begun meanwhile counts from the time held */
			CHECK_EQ(hwheel_timer_mod(w, timer, 5 * MS, 0), 0);
			CHECK_EQ(ktap_left(w, timer), 5 * MS);
			CHECK_EQ(hwheel_timer_delete(w, timer), 1);
			/* and again, further */
			CHECK_FIRED(poll_at(w, base + 10 * MS - steps[s] - 1), 0);
			/* caught up: not early, not lost */
			CHECK_FIRED(poll_at(w, base + 30 * MS - 1), 0);
			poll_at(w, base + 30 * MS);
		}
	}
}

/* Back and forth at random: timers fire once, in order, never early. */
TEST(b2_clock_that_jitters)
{
	STILL_WHEEL w = start_still(HWHEEL_CLOCK_MONOTONIC, MS, 10000 * SEC);
	uint64_t seed = 88172645463325252u, most = driven, base = driven;

	for (unsigned n = 0; n < 1000; n++)
		after(w, (n * 7919 % 1000 + 1) * MS);
	while (n_fired < n_records) {
		unsigned before = n_fired, due = 0;

		if (ktap_dice(&seed) >> 63)
			poll_at(w, most + (seed >> 20) % (4 * MS));
		else
			poll_at(w, most - (seed >> 20) % (100 * MS));
		if (driven > most)
			most = driven;
		else
			CHECK_EQ(n_fired, before);
		for (unsigned n = 0; n < n_records; n++)
			due += records[n].first <= most;
		CHECK_EQ(n_fired, due);
		CHECK(most < base + 2 * SEC);
	}
	for (unsigned n = 0; n < n_records; n++)
		CHECK_EQ(records[n].fired, 1);
	CHECK_EQ(disorder, 0);
}

/* A thread that sleeps: the clock steps back under it, and nothing is early. */
TEST(b2_tick_thread_survives_a_step_back)
{
	struct hwheel *w = NULL;
	uint64_t before, now = 0, last = 0;

	reset(MS, 0);
	/* On a busy machine both may have fired before the step: then once more. */
	do {
		CHECK_EQ(hwheel_destroy(w), 0);
		offset_ns[CLOCK_MONOTONIC] = 0;
		w = ktap_made(NULL);
		before = ktap_clock();
		CHECK_EQ(hwheel_once(w, 30 * MS, NULL, 0, 0, NULL), 0);
		CHECK_EQ(hwheel_once(w, 50 * MS, NULL, 0, 0, NULL), 0);
		CHECK_EQ(hwheel_start(w), 0);
		ktap_sleep_ms(10);
		offset_ns[CLOCK_MONOTONIC] = -20 * (int64_t)MS;
	} while (stats(w).unclaimed == 2);
	while (stats(w).unclaimed < 2) {
		now = ktap_now(w);
		/* held within a tick */
		CHECK(now + MS > last);
		if (now > last)
			last = now;
		if (now + MS < before + 30 * MS)
			CHECK_EQ(stats(w).unclaimed, 0);
		CHECK(ktap_clock() < before + 5 * SEC);
		ktap_sleep_ms(1);
	}
	CHECK(ktap_clock() >= before + 50 * MS);
	offset_ns[CLOCK_MONOTONIC] = 0;
	CHECK_EQ(hwheel_destroy(w), 0);
}

TEST(b3_delays_are_not_on_the_wall_clock)
{
	IN_ORDER w = start_still(HWHEEL_CLOCK_MONOTONIC, MS, 10000 * SEC);
	unsigned before = asked[CLOCK_REALTIME];

	after(w, 10 * MS);
	after(w, 20 * MS);
	offset_ns[CLOCK_REALTIME] = 3600 * (int64_t)SEC;
	CHECK_FIRED(poll_at(w, 10000 * SEC + 5 * MS), 0);
	CHECK_FIRED(poll_at(w, 10000 * SEC + 10 * MS), 1);
	offset_ns[CLOCK_REALTIME] = -3600 * (int64_t)SEC;
	poll_at(w, 10000 * SEC + 20 * MS);
	CHECK_EQ(asked[CLOCK_REALTIME], before);
	offset_ns[CLOCK_REALTIME] = 0;
}

/* Each wheel asks its own clock, and only that. */
TEST(b3_each_wheel_has_its_clock)
{
	for (uint32_t clock = 0; clock < HWHEEL_CLOCK_MANUAL; clock++) {
		offset_ns[system_clock(clock)] = (int64_t)(7 * SEC);
		STILL_WHEEL w = start_still(clock, MS, 1000 * SEC);
		CHECK_EQ(ktap_now(w), 1007 * SEC);
		offset_ns[system_clock(clock)] = 0;
	}
}

/*
 * The clock jumps over periods, to the time of the last of them or to a tick behind it. What was
 * missed is left out, or made up for, or the next period counts from now.
 */
static void jump(const struct shape *s, uint32_t flags, uint64_t periods, uint64_t behind)
{
	const uint64_t t = s->tick, period = 10 * t, last = 13 * t + periods * period;
	const uint64_t missed = flags == HWHEEL_MISSED_BURST ? 0 : periods - 1;
	const unsigned fired = flags == HWHEEL_MISSED_BURST ? 1 + (unsigned)periods : 2;
	const uint64_t rest = flags == HWHEEL_MISSED_DELAY ? period : period - behind;
	WHEEL w = start(s, 3 * t);
	hwheel_timer_t timer = ktap_every(w, period, period, note, 0, flags);

	CHECK_FIRED(to(w, 13 * t), 1);
	CHECK_EQ(records[0].missed, 0);
	CHECK_EQ(ktap_left(w, timer), period);
	CHECK_FIRED(to(w, last + behind), fired);
	CHECK_EQ(records[0].due, flags == HWHEEL_MISSED_BURST ? last : 23 * t);
	CHECK_EQ(records[0].missed, missed);
	CHECK_EQ(stats(w).missed, missed);
	CHECK_EQ(ktap_left(w, timer), rest);
	/* the rhythm is kept, or begins here */
	CHECK_FIRED(to(w, last + behind + rest - 1), fired);
	CHECK_FIRED(to(w, last + behind + rest), fired + 1);
	CHECK_EQ(records[0].due, last + behind + rest);
	CHECK_EQ(records[0].missed, missed);
	CHECK_EQ(disorder, 0);
}

SHAPE_TEST(b4_a_jump_fires_once_or_a_burst_as_asked, shapes)
{
	static const uint32_t flags[] = { 0, HWHEEL_MISSED_BURST, HWHEEL_MISSED_DELAY };

	for (unsigned f = 0; f < COUNT(flags); f++)
		for (uint64_t periods = 2; periods < 100000; periods *= 7) {
			jump(shape, flags[f], periods, 0);
			jump(shape, flags[f], periods, t);
		}
}

/* The system was suspended for eight hours, or the wall clock steps: the clock says so at once. */
TEST(b4_resume_fires_once_in_order)
{
	static const uint32_t clocks[] = { HWHEEL_CLOCK_BOOTTIME, HWHEEL_CLOCK_REALTIME };

	for (unsigned c = 0; c < COUNT(clocks); c++) {
		STILL_WHEEL w = start_still(clocks[c], MS, 10000 * SEC);

		CHECK_EQ(hwheel_every(w, SEC, SEC, 0, note, 0, 0, NULL), 0);
		CHECK_EQ(hwheel_every(w, 60 * SEC, 60 * SEC, 0, note, 1, 0, NULL), 0);
		CHECK_EQ(hwheel_once(w, 3600 * SEC, note, 2, 0, NULL), 0);
		CHECK_EQ(hwheel_once(w, 9 * 3600 * SEC, note, 3, 0, NULL), 0);
		poll_at(w, 10000 * SEC + 8 * 3600 * SEC);
		CHECK_EQ(records[0].fired, 1);
		CHECK_EQ(records[0].missed, 8 * 3600 - 1);
		CHECK_EQ(records[1].fired, 1);
		CHECK_EQ(records[1].missed, 8 * 60 - 1);
		CHECK_EQ(records[2].fired, 1);
		CHECK_EQ(records[3].fired, 0);
		CHECK_EQ(disorder, 0);
		/* the rhythm goes on */
		poll_at(w, 10001 * SEC + 8 * 3600 * SEC - 1);
		CHECK_EQ(records[0].fired, 1);
		poll_at(w, 10001 * SEC + 8 * 3600 * SEC);
		CHECK_EQ(records[0].fired, 2);
		CHECK_EQ(records[0].missed, 8 * 3600 - 1);
	}
}

/* Driving: where the clock is looked at too rarely, or in steps that do not suit the wheel. */

/* Overdue timers wait to be taken; a new short one is still seen in time. */
SHAPE_TEST(b5_short_timer_behind_an_overdue_one, shapes)
{
	WHEEL w = start(shape, 0);
	struct hwheel_event e;

	for (uint64_t n = 0; n < 5; n++)
		CHECK_EQ(hwheel_once(w, (n + 1) * 10 * t, NULL, n, 0, NULL), 0);
	driven = 100000 * t;
	for (uint64_t n = 0; n < 5; n++) {
		CHECK_EQ(hwheel_advance(w, driven, &e, 1, NULL), 1);
		CHECK_EQ(e.cookie, n);
		if (n == 1)
			CHECK_EQ(hwheel_once(w, 5 * t, NULL, 99, 0, NULL), 0);
		/* what is overdue is not hidden, nor what comes */
		CHECK(ktap_next(w) <= (n < 4 ? driven : driven + 5 * t));
	}
	CHECK_EQ(hwheel_advance(w, driven, &e, 1, NULL), 0);
	CHECK_EQ(ktap_next(w), driven + 5 * t);
	CHECK_EQ(hwheel_advance(w, driven + 5 * t, &e, 1, NULL), 1);
	CHECK_EQ(e.cookie, 99);
}

/* Also after a step of the wall clock. */
TEST(b6_one_poll_fires_all_that_is_due)
{
	static const uint32_t clocks[] = { HWHEEL_CLOCK_MONOTONIC, HWHEEL_CLOCK_REALTIME };

	for (unsigned c = 0; c < COUNT(clocks); c++) {
		STILL_WHEEL w = start_still(clocks[c], MS, 5000 * SEC);

		for (unsigned n = 0; n < 1000; n++)
			after(w, (n * 997 % 1000 + 1) * 50 * MS);
		CHECK_FIRED(poll_at(w, 5000 * SEC + 365 * 86400 * SEC), 1000);
		CHECK_EQ(disorder, 0);
	}
}

/* After each step, exactly what is due by then has fired. */
static void step_by(const struct shape *s, uint64_t from, unsigned bit, int64_t by)
{
	uint64_t t = s->tick, step = (UINT64_C(1) << bit) + (uint64_t)by;
	WHEEL w = start(s, from * t);

	for (unsigned k = 0; k < 47; k++) {
		/* the clock has no more */
		if (((UINT64_C(1) << k) + 3) > INT64_MAX / t - from)
			break;
		after(w, (UINT64_C(1) << k) * t);
		after(w, ((UINT64_C(1) << k) + k % 3) * t);
	}
	for (unsigned n = 0; n < 5 && step; n++) {
		if (step > INT64_MAX / t - driven / t)
			break;
		to(w, driven + step * t);
		for (unsigned r = 0; r < n_records; r++) {
			/* beyond 2^36 ticks a hundred-millionth late */
			uint64_t d = records[r].first - from * t;
			uint64_t late = d / t >> 36 ? d / 50000000 : 0;

			CHECK(records[r].fired <= 1);
			if (records[r].fired)
				CHECK(records[r].first <= driven);
			else
				CHECK(records[r].first + late > driven);
		}
	}
	CHECK_EQ(disorder, 0);
}

SHAPE_TEST(b7_steps_longer_than_the_wheel, shapes)
{
	if (t > 7001)
		return;	/* 2^48 of its ticks are more than the clock has */
	for (unsigned bit = 0; bit < 40; bit++)
		for (int64_t by = -1; by <= 1; by++)
			step_by(shape, bit % 2 ? 0 : 12345, bit, by);
}

TEST(b7_steps_of_the_default_tick)
{
	for (unsigned i = 0; i < 4; i++)
		for (unsigned bit = 0; bit < 34; bit++)
			for (int64_t by = -1; by <= 1; by++)
				step_by(&shapes[i], (UINT64_C(1) << 32) - 3, bit, by);
}

static const struct shape fine[] = { { 1000, 4, 256 }, { 1000, 1, 16 } };

SHAPE_TEST(b7_steps_of_up_to_2_48, fine)
{
	for (unsigned bit = 40; bit <= 48; bit += 4) {
		WHEEL w = start(shape, 99 * t);

		after(w, t);
		after(w, 300 * t);
		after(w, t << 20);
		after(w, t << 35);
		CHECK_FIRED(to(w, driven + (t << bit)), 4);
		CHECK_EQ(disorder, 0);
		n_records = 0;
		after(w, 5 * t);
		CHECK_FIRED(to(w, driven + 5 * t - 1), 4);
		CHECK_FIRED(to(w, driven + 1), 5);
	}
}

static void b8_look(struct hwheel *w, const struct hwheel_event *e)
{
	/* one time for the whole sweep, whatever level the timer came from */
	CHECK_EQ(ktap_now(w), driven);
	/* a delay counts from that time */
	after(w, 3 * tick);
	records[e->cookie].fired++;
	records[e->cookie].got = records[e->cookie].first;
}

SHAPE_TEST(b8_levels_see_one_now, shapes)
{
	uint64_t unit = 1;
	IN_ORDER w = start(shape, 0);
	unsigned armed = 0;

	for (uint32_t level = 0; level < shape->levels && level < 3; level++) {
		unit *= shape->slots;
		for (uint64_t k = unit - 1; k <= unit + 1; k++, armed++)
			CHECK_EQ(hwheel_once(w, k * t, b8_look, expect(k * t), 0, NULL), 0);
	}
	to(w, (2 * unit + 1) * t);
	CHECK_EQ(n_records, 2 * armed);
	CHECK_EQ(n_fired, 0);
	each_expiry_or_overdue(w);
	CHECK_EQ(n_fired, armed);
}

/* One deadline, armed from afar on every level: all fire in the same tick. */
SHAPE_TEST(b8_one_deadline_from_every_level, shapes)
{
	uint64_t slots = shape->slots;
	uint64_t due = (slots * slots * slots + slots * slots + slots) * t;
	IN_ORDER w = start(shape, 0);

	for (uint64_t away = due / t; away > 0; away /= 2) {
		to(w, due - away * t);
		after(w, away * t);
		CHECK_EQ(n_fired, 0);
	}
	CHECK_FIRED(to(w, due - 1), 0);
	to(w, due);
}

static void b9_late(struct hwheel *w, const struct hwheel_event *e)
{
	note(w, e);
	still_ns += 3 * MS;	/* the callback takes its time */
}

TEST(b9_period_is_not_measured_from_the_callback)
{
	STILL_WHEEL w = start_still(HWHEEL_CLOCK_MONOTONIC, MS, 5000 * SEC);

	CHECK_EQ(hwheel_every(w, 10 * MS, 10 * MS, 0, b9_late, 0, 0, NULL), 0);
	for (unsigned n = 1; n <= 1000; n++) {
		CHECK_FIRED(poll_at(w, 5000 * SEC + n * 10 * MS), n);
		CHECK_EQ(records[0].due, 5000 * SEC + n * 10 * MS);
	}
	CHECK_EQ(records[0].missed, 0);
}

/* Driven late each time by most of a period, with a period off the grid. */
SHAPE_TEST(b9_late_driving_does_not_drift, shapes)
{
	const uint64_t period = 10 * t + t / 3;

	for (unsigned is_burst = 0; is_burst < 2; is_burst++) {
		WHEEL w = start(shape, 17 * t);

		CHECK_EQ(hwheel_every(w, period, period, 0, note, 0,
				      is_burst ? HWHEEL_MISSED_BURST : 0, NULL), 0);
		for (unsigned n = 1; n <= 1000; n++) {
			CHECK_FIRED(to(w, 17 * t + n * period + 8 * t), n);
			CHECK_EQ(records[0].due, 17 * t + n * period);
		}
		CHECK_EQ(records[0].missed, 0);
	}
}

/* A clock that moves in steps of 4 ms, a tick of a tenth of a millisecond. */
TEST(b10_coarse_clock_does_not_spin)
{
	const uint64_t grain = 4 * MS, base = 5000 * SEC;
	IN_ORDER w = start_still(HWHEEL_CLOCK_MONOTONIC, 100000, base);
	unsigned polls = 0;
	uint64_t next;

	for (unsigned n = 0; n < 50; n++) {
		after(w, n * 700000 + 50000);
		records[n].last = records[n].first + grain - 1;
	}
	while ((next = ktap_next(w)) != HWHEEL_NEVER) {
		/* an exact sleep, then the clock shows its last step */
		uint64_t shown = next / grain * grain;
		unsigned before = n_fired;

		/* if that does not reach it, the sleeper waits out the grain */
		if (shown < next)
			shown += grain;
		poll_at(w, shown);
		CHECK(n_fired > before);
		polls++;
	}
	/* 35 ms in steps of 4 */
	CHECK(polls <= 10);
}

/* The tick thread sleeps once per expiry, however fine the deadlines. */
WHEEL_TEST(b10_fine_deadlines_do_not_wake_twice, MADE(.tick_ns = 1000))
{
	struct hwheel_stats s;

	for (unsigned n = 1; n <= 20; n++)
		CHECK_EQ(hwheel_once(w, n * 5 * MS + 777, NULL, 0, 0, NULL), 0);
	CHECK_EQ(hwheel_start(w), 0);
	ktap_wait(stats(w).unclaimed >= 20);
	s = stats(w);
	CHECK_EQ(s.unclaimed, 20);
	/* one more for the start */
	CHECK(s.wakeups <= 20 + 2);
}

/* Deadlines at which the hand turns over: they come down and fire at once. */
SHAPE_TEST(b11_cascade_into_the_tick_being_swept, shapes)
{
	for (unsigned mode = 0; mode < 2; mode++) {
		uint64_t unit = 1, far;
		IN_ORDER w = start(shape, 3 * t);

		for (uint32_t level = 0; level < 3; level++) {
			unit *= shape->slots;
			for (uint64_t k = 1; k <= 3; k++)
				if (k * unit > 3)
					CHECK_EQ(hwheel_once(w, k * unit * t, note,
							     expect(k * unit * t), HWHEEL_ABS, NULL), 0);
		}
		far = unit > 70000 ? 70000 : 3 * unit;
		while (mode == 0 && driven < far * t)
			to(w, driven + t);
		each_expiry_or_overdue(w);
	}
}

TEST(before_its_start_it_is_held_at_its_start)
{
	STILL_WHEEL w = start_still(HWHEEL_CLOCK_REALTIME, MS, 5000 * SEC);

	still_ns = 1;
	CHECK_EQ(ktap_now(w), 5000 * SEC);
	CHECK_EQ(hwheel_poll(w, NULL, 0, NULL), 0);
}
