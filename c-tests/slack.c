/* Slack: timers that may be late share wake-ups, and often need not be moved. And times that have
 * passed. */
#include "ktap.h"

/* When the only timer fires, in ms, on the way to there. */
static uint64_t fires_at(struct hwheel *w, uint64_t from_ms, uint64_t to_ms)
{
	struct hwheel_event e;

	for (uint64_t ms = from_ms; ms <= to_ms; ms++) {
		if (hwheel_advance(w, ms * MS, &e, 1, NULL) == 1)
			return ms;
	}
	return 0;
}

MANUAL_TEST(it_fires_in_the_range)
{
	static const uint64_t delays[] = { 1, 2, 99, 100, 1000, 4097 };
	static const uint64_t slacks[] = { 0, 1, 2, 3, 100, 1000 };
	uint64_t now = 0;
	hwheel_timer_t t = ktap_timer(w);

	for (size_t i = 0; i < COUNT(delays); i++) {
		for (size_t j = 0; j < COUNT(slacks); j++) {
			uint64_t due = now + delays[i];

			CHECK_EQ(hwheel_timer_mod_range(w, t, delays[i] * MS, slacks[j] * MS, 0), 0);
			now = fires_at(w, now + 1, due + slacks[j]);
			CHECK(now >= due);
			CHECK(now <= due + slacks[j]);
		}
	}
}

MANUAL_TEST(the_event_says_what_was_asked_for)
{
	hwheel_timer_t t = ktap_timer(w);
	struct hwheel_event e;

	CHECK_EQ(hwheel_timer_mod_range(w, t, 33 * MS + 5, 31 * MS, 0), 0);
	CHECK_DUE(ktap_left(w, t), 33 * MS + 5, 31 * MS);
	CHECK_EQ(hwheel_advance(w, 63 * MS, &e, 1, NULL), 0);
	CHECK_EQ(hwheel_advance(w, 64 * MS, &e, 1, NULL), 1);
	/* or the tick in the range that was picked */
	CHECK_DUE(e.deadline_ns, 33 * MS + 5, 31 * MS);
}

MANUAL_TEST(many_share_a_tick)
{
	struct hwheel_event e[100];

	for (uint64_t i = 0; i < 64; i++)
		CHECK_EQ(hwheel_timer_mod_range(w, ktap_timer(w), (1000 + i) * MS, 127 * MS, 0), 0);
	/* 1024 is the multiple of 128 for the first, 1152 for the others */
	CHECK_EQ(hwheel_advance(w, 1023 * MS, e, 100, NULL), 0);
	CHECK_EQ(hwheel_advance(w, 1024 * MS, e, 100, NULL), 25);
	CHECK_EQ(hwheel_advance(w, 1151 * MS, e, 100, NULL), 0);
	CHECK_EQ(hwheel_advance(w, 1152 * MS, e, 100, NULL), 39);
}

MANUAL_TEST(a_timer_due_in_the_range_stays)
{
	hwheel_timer_t t = ktap_timer(w);

	CHECK_EQ(hwheel_timer_mod_range(w, t, 100 * MS, 100 * MS, 0), 0);
	uint64_t notes = stats(w).notes;

	for (uint64_t i = 1; i <= 28; i++)
		CHECK_EQ(hwheel_timer_mod_range(w, t, (100 + i) * MS, 100 * MS, 0), 1);
	CHECK_EQ(stats(w).notes, notes);
	CHECK_EQ(stats(w).rearmed, 28);
	CHECK_EQ(fires_at(w, 1, 200), 128);
	/* Out of the range, on either side, it is moved. */
	CHECK_EQ(hwheel_timer_mod(w, t, 50 * MS, 0), 0);
	CHECK_EQ(hwheel_timer_mod_range(w, t, 60 * MS, 5 * MS, 0), 1);
	CHECK_EQ(fires_at(w, 129, 300), 128 + 64);
	CHECK_EQ(hwheel_timer_mod(w, t, 50 * MS, 0), 0);
	CHECK_EQ(hwheel_timer_mod_range(w, t, 10 * MS, 5 * MS, 0), 1);
	uint64_t at = fires_at(w, 193, 300);

	CHECK(at >= 192 + 10 && at <= 192 + 15);
}

MANUAL_TEST(errors_change_nothing)
{
	hwheel_timer_t t = ktap_timer(w);

	CHECK_EQ(hwheel_timer_mod_range(w, 0, 1, 1, 0), -ESTALE);
	CHECK_EQ(hwheel_timer_pending(w, t), 0);
	CHECK_EQ(hwheel_every(w, 1, 0, 1, NULL, 0, 0, NULL), -EINVAL);
	CHECK_EQ(stats(w).live, 1);
	/* The greatest values are never, or as far as there is. */
	CHECK_EQ(hwheel_timer_mod_range(w, t, HWHEEL_NEVER, HWHEEL_NEVER, 0), 0);
	CHECK_EQ(hwheel_timer_mod_range(w, t, INT64_MAX, HWHEEL_NEVER, HWHEEL_ABS), 1);
	CHECK_EQ(hwheel_timer_mod(w, t, HWHEEL_NEVER, 0), 1);
	CHECK_EQ(hwheel_timer_mod_range(w, t, 1, HWHEEL_NEVER, 0), 1);
	CHECK(ktap_left(w, t) < HWHEEL_NEVER);
	CHECK_EQ(hwheel_timer_shutdown(w, t), 1);
	CHECK_EQ(hwheel_timer_mod_range(w, t, 1, 1, 0), -ESHUTDOWN);
}

MANUAL_TEST(a_period_with_slack_does_not_drift)
{
	struct hwheel_event e;
	uint64_t n = 0;

	CHECK_EQ(hwheel_every(w, 1000 * MS, 1000 * MS, 100 * MS, NULL, 0, 0, NULL), 0);
	for (uint64_t ms = 1; ms <= 100200; ms++) {
		if (hwheel_advance(w, ms * MS, &e, 1, NULL) == 1) {
			n++;
			CHECK_EQ(e.deadline_ns, n * 1000 * MS);
			CHECK_EQ(e.missed, 0);
			CHECK(ms * MS >= e.deadline_ns);
			CHECK(ms * MS <= e.deadline_ns + 100 * MS);
		}
	}
	CHECK_EQ(n, 100);
}

/* The exact time of a period is kept together with its tick, however far that is. */
MANUAL_TEST(a_period_with_days_of_slack_does_not_drift)
{
	const uint64_t hour = 3600 * SEC, period = 150 * hour;
	struct hwheel_event e[2];
	uint64_t due = hour;

	CHECK_EQ(hwheel_every(w, due, period, period - SEC, NULL, 0, 0, NULL), 0);
	for (int i = 0; i < 20; i++) {
		CHECK(ktap_next(w) >= due);
		CHECK(ktap_next(w) <= due + period);
		while (hwheel_advance(w, ktap_next(w), e, 2, NULL) == 0)
			;
		CHECK_EQ(e[0].deadline_ns, due);
		CHECK_EQ(e[0].missed, 0);
		due += (period + 0xffff) / 0x10000 * 0x10000;
	}
}

MANUAL_TEST(slack_beyond_the_period_loses_none)
{
	struct hwheel_event e;
	uint64_t n = 0;

	CHECK_EQ(hwheel_every(w, 10 * MS, 10 * MS, 5 * SEC, NULL, 0, 0, NULL), 0);
	for (uint64_t ms = 1; ms <= 1010; ms++)
		n += (uint64_t)hwheel_advance(w, ms * MS, &e, 1, NULL);
	CHECK(n >= 99 && n <= 101);
	CHECK_EQ(stats(w).missed, 0);
}

#define MANY 10000

/* How often the tick thread wakes in a while, for periods of a second. */
static uint64_t wakeups(uint64_t slack_ns)
{
	WHEEL w = ktap_made(NULL);
	struct hwheel_stats before, after;

	for (uint64_t i = 0; i < MANY; i++)
		CHECK_EQ(hwheel_every(w, SEC + i * SEC / MANY, SEC, slack_ns, NULL, 0, 0, NULL), 0);
	CHECK_EQ(hwheel_start(w), 0);
	ktap_sleep_ms(1000);
	before = stats(w);
	ktap_sleep_ms(1500);
	after = stats(w);
	CHECK(after.fired - before.fired > MANY);
	return after.wakeups - before.wakeups;
}

/* Whether the period was the longer one when the timer was made, or not. */
MANUAL_TEST(a_shorter_period_has_less_slack)
{
	struct hwheel_event e;
	hwheel_timer_t t;

	CHECK_EQ(hwheel_every(w, 3600 * SEC, 3600 * SEC, 3600 * SEC, NULL, 0, 0, &t), 0);
	CHECK_EQ(hwheel_timer_mod(w, t, SEC, 0), 1);
	CHECK_EQ(hwheel_timer_set_period(w, t, SEC), 0);
	for (uint64_t n = 1, now = SEC; n < 60; n++, now += ktap_left(w, t)) {
		CHECK(now >= n * SEC && now < (n + 1) * SEC);
		CHECK_EQ(hwheel_advance(w, now, &e, 1, NULL), 1);
	}
}

TEST(a_first_time_that_has_passed_has_none)
{
	static const uint64_t ago_h[] = { 0, 1, 38, 40, 4000 };

	for (unsigned i = 0; i < COUNT(ago_h); i++) {
		uint64_t first = 9000 * 3600 * SEC;
		WHEEL w = ktap_manual(0, 0, 0, first + ago_h[i] * 3600 * SEC);
		hwheel_timer_t t;

		CHECK_EQ(hwheel_every(w, first, 1800 * SEC, 1800 * SEC, NULL, 0, HWHEEL_ABS, &t), 0);
		CHECK(ktap_left(w, t) <= MS);
	}
}

/*
 * In the middle of a long jump the library rounds up a tick that is far from the hand. A first
 * time that has passed gets no slack there either.
 */
static void makes_passed_ones(struct hwheel *w, const struct hwheel_event *e)
{
	const uint64_t period = 4142 * MS, rounded = e->deadline_ns / 100000000;

	for (uint64_t i = 0; i < 100; i++) {
		hwheel_timer_t t;

		CHECK_EQ(hwheel_every(w, i * 41 * MS, period, period, NULL, 0, HWHEEL_ABS, &t), 0);
		CHECK(ktap_left(w, t) <= MS + 4 * rounded);
	}
}

WHEEL_TEST(one_that_passed_before_a_jump_has_none, ktap_manual(MS, 0, 0, 0))
{
	const uint64_t part = UINT64_C(400) * 24 * 3600 * SEC;

	CHECK_EQ(hwheel_once(w, part, makes_passed_ones, 0, 0, NULL), 0);
	CHECK_EQ(hwheel_advance(w, 5 * part, NULL, 0, NULL), 0);
	CHECK_EQ(stats(w).pending, 100);
}

/* On a busy machine the thread wakes less often without slack as well. Then the test counts again. */
TEST(ten_thousand_wake_the_thread_a_tenth_as_often)
{
	for (int tries = 1;; tries++) {
		uint64_t with = wakeups(100 * MS), without = wakeups(0);

		printf("# %" PRIu64 " wake-ups with slack, %" PRIu64 " without\n", with, without);
		if (with * 10 <= without)
			break;
		CHECK(tries < 5);
	}
}

/* Deadlines that have passed, and ranges: the first opportunity is always the same
 * one, and nothing fires after the end of its range. */

static struct hwheel_event events[8];

/* Whether or not the hand has come to where the clock is. */
static struct hwheel *at_100_ms(int hand)
{
	struct hwheel *w = ktap_manual(MS, 0, 0, 0);

	if (hand)
		CHECK_EQ(hwheel_once(w, 100 * MS, NULL, 0, HWHEEL_ABS, NULL), 0);
	CHECK_EQ(hwheel_advance(w, 100 * MS, events, 8, NULL), hand);
	return w;
}

TEST(a_passed_deadline_fires_at_the_next_tick)
{
	for (int hand = 0; hand < 2; hand++) {
		for (int how = 0; how < 6; how++) {
			WHEEL w = at_100_ms(hand);
			hwheel_timer_t t = ktap_timer(w);

			switch (how) {
			case 0: CHECK_EQ(hwheel_once(w, 50 * MS, NULL, 0, HWHEEL_ABS, NULL), 0); break;
			case 1: CHECK_EQ(hwheel_once(w, 0, NULL, 0, 0, NULL), 0); break;
			case 2: CHECK_EQ(hwheel_timer_mod(w, t, 0, HWHEEL_ABS), 0); break;
			case 3: CHECK_EQ(hwheel_timer_mod(w, t, 100 * MS, HWHEEL_ABS), 0); break;
			case 4: CHECK_EQ(hwheel_timer_mod(w, t, 99 * MS, HWHEEL_ABS | HWHEEL_REDUCE), 0); break;
			case 5: CHECK_EQ(hwheel_key_set(w, NUMBER(1), 99 * MS, NULL, 0, HWHEEL_ABS), 0); break;
			}
			CHECK_EQ(hwheel_advance(w, 100 * MS, events, 8, NULL), 0);
			CHECK_EQ(hwheel_advance(w, 101 * MS, events, 8, NULL), 1);
		}
	}
}

TEST(a_range_in_the_past_fires_at_the_next_tick)
{
	for (int hand = 0; hand < 2; hand++) {
		WHEEL w = at_100_ms(hand);
		hwheel_timer_t t = ktap_timer(w);

		CHECK_EQ(hwheel_timer_mod_range(w, t, 50 * MS, 20 * MS, HWHEEL_ABS), 0);
		CHECK_EQ(hwheel_advance(w, 101 * MS, events, 8, NULL), 1);
		/* only its end is ahead */
		CHECK_EQ(hwheel_timer_mod_range(w, t, 50 * MS, 55 * MS, HWHEEL_ABS), 0);
		CHECK_EQ(hwheel_advance(w, 105 * MS, events, 8, NULL), 1);
		CHECK_EQ(hwheel_every(w, 20 * MS, SEC, 50 * MS, NULL, 0,
					    HWHEEL_ABS, NULL), 0);
		CHECK_EQ(hwheel_advance(w, 106 * MS, events, 8, NULL), 1);
	}
}

/* Missed periods fire at once, with slack and without. */
WHEEL_TEST(a_burst_with_slack_does_not_wait, ktap_manual(MS, 0, 0, 0))
{
	int n = 0;

	CHECK_EQ(hwheel_every(w, 10 * MS, 10 * MS, 8 * MS, NULL, 0,
				    HWHEEL_MISSED_BURST, NULL), 0);
	CHECK_EQ(hwheel_advance(w, 100 * MS, events, 1, NULL), 1);
	/* nine more are due, the last by 108 ms */
	for (uint64_t ms = 100; ms <= 109; ms++)
		n += hwheel_advance(w, ms * MS, events, 8, NULL);
	CHECK_EQ(n, 9);
}

/* A delay of 0 with slack s fires after s at the latest, and at the next tick. */
TEST(slack_is_counted_from_the_deadline)
{
	for (uint64_t s = 0; s < 70; s++) {
		WHEEL w = at_100_ms(1);
		uint64_t last = s ? 100 + s : 101;
		hwheel_timer_t t = ktap_timer(w);

		CHECK_EQ(hwheel_timer_mod_range(w, t, 0, s * MS, 0), 0);
		CHECK_EQ(hwheel_advance(w, last * MS, events, 8, NULL), 1);
	}
}

static uint64_t rnd(uint64_t below)
{
	static uint64_t dice = 88172645463325252u;

	return ktap_dice(&dice) % below;
}

/* Of any length, before or after the hand, aligned to ticks or not. */
static void random_ranges(uint64_t tick)
{
	WHEEL w = ktap_manual(tick, 0, 0, 0);
	uint64_t now = UINT64_C(1) << 30;
	hwheel_timer_t t = ktap_timer(w);

	CHECK_EQ(hwheel_advance(w, now, events, 8, NULL), 0);
	for (int i = 0; i < 100000; i++) {
		uint64_t far = UINT64_C(1) << rnd(27);
		uint64_t begin = now - far / 2 + rnd(far), slack = rnd(UINT64_C(1) << rnd(27));
		uint64_t end = begin + slack;
		/* the first tick in which it may fire, and the last */
		uint64_t first = (begin + tick - 1) / tick, last = end / tick;

		if (first <= now / tick)
			first = now / tick + 1;
		if (last < first)
			last = first;
		CHECK(hwheel_timer_mod_range(w, t, begin, slack, HWHEEL_ABS) >= 0);
		if ((first - 1) * tick > now) {
			now = (first - 1) * tick;
			CHECK_EQ(hwheel_advance(w, now, events, 8, NULL), 0);
		}
		now = last * tick;
		CHECK_EQ(hwheel_advance(w, now, events, 8, NULL), 1);
	}
}

TEST(no_range_is_exceeded)
{
	random_ranges(1000);
	random_ranges(7001);
	random_ranges(65536);
}

/*
 * A call has stopped in the middle of what is due. A timer that is armed then, for a time that
 * has passed, is due at the next tick: all timers of earlier ticks come first.
 */
MANUAL_TEST(one_that_has_passed_comes_behind_what_is_due)
{
	struct hwheel_event e;

	for (uint64_t i = 1; i <= 5; i++)
		CHECK_EQ(hwheel_once(w, 2 * i * MS, NULL, i, 0, NULL), 0);
	for (uint64_t i = 1; i <= 5; i++) {
		CHECK_EQ(hwheel_advance(w, 10 * MS, &e, 1, NULL), 1);
		CHECK_EQ(e.cookie, i);
		/* Later and later ones, and the last one is the earliest. */
		CHECK_EQ(hwheel_once(w, i == 5 ? 1 : (2 * i + 1) * MS, NULL, 10 + i, HWHEEL_ABS, NULL), 0);
	}
	CHECK_EQ(hwheel_advance(w, 10 * MS, &e, 1, NULL), 0);
	for (int i = 0; i < 5; i++) {
		CHECK_EQ(hwheel_advance(w, 11 * MS, &e, 1, NULL), 1);
		CHECK(e.cookie > 10);
	}
	CHECK_EQ(hwheel_advance(w, 11 * MS, &e, 1, NULL), 0);
}

/* The slack of a period ends with the clock: the timer still fires, in the last second of it. */
TEST(slack_ends_with_the_clock)
{
	const uint64_t end = UINT64_C(1) << 63, first = end - 1900 * MS;

	for (uint64_t slack = 0; slack <= 10 * SEC; slack += 10 * SEC) {
		WHEEL w = ktap_manual(0, 0, 0, first - 3600 * SEC);
		WHEEL later = ktap_manual(0, 0, 0, first - 160 * SEC);
		hwheel_timer_t t;

		CHECK_EQ(hwheel_every(w, first, 60 * SEC, slack, NULL, 1, HWHEEL_ABS, &t), 0);
		CHECK(ktap_left(w, t) < 3602 * SEC);
		CHECK_EQ(hwheel_advance(w, end - 1, events, 8, NULL), 1);
		/* The second deadline is in the last two seconds of the clock. */
		CHECK_EQ(hwheel_every(later, first - 60 * SEC, 60 * SEC, slack, NULL, 1, HWHEEL_ABS, &t), 0);
		CHECK_EQ(hwheel_advance(later, first - 40 * SEC, events, 8, NULL), 1);
		CHECK_EQ(hwheel_advance(later, end - 1, events, 8, NULL), 1);
	}
}
