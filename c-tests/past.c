/* Deadlines that have passed, and ranges: the first opportunity is always the same
 * one, and nothing fires after the end of its range. */
#include "ktap.h"

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
			hwheel_timer_t t;

			CHECK_EQ(hwheel_timer_setup(w, NULL, 0, &t), 0);
			switch (how) {
			case 0: CHECK_EQ(hwheel_once(w, 50 * MS, NULL, 0, HWHEEL_ABS, NULL), 0); break;
			case 1: CHECK_EQ(hwheel_once(w, 0, NULL, 0, 0, NULL), 0); break;
			case 2: CHECK_EQ(hwheel_timer_mod(w, t, 0, HWHEEL_ABS), 0); break;
			case 3: CHECK_EQ(hwheel_timer_mod(w, t, 100 * MS, HWHEEL_ABS), 0); break;
			case 4: CHECK_EQ(hwheel_timer_mod(w, t, 99 * MS, HWHEEL_ABS | HWHEEL_REDUCE), 0); break;
			case 5: CHECK_EQ(hwheel_key_set(w, &(uint64_t){ 1 }, sizeof(uint64_t), 99 * MS, NULL, 0, HWHEEL_ABS), 0); break;
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
		hwheel_timer_t t;

		CHECK_EQ(hwheel_timer_setup(w, NULL, 0, &t), 0);
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
TEST(a_burst_with_slack_does_not_wait)
{
	WHEEL w = ktap_manual(MS, 0, 0, 0);
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
		hwheel_timer_t t;
		uint64_t last = s ? 100 + s : 101;

		CHECK_EQ(hwheel_timer_setup(w, NULL, 0, &t), 0);
		CHECK_EQ(hwheel_timer_mod_range(w, t, 0, s * MS, 0), 0);
		CHECK_EQ(hwheel_advance(w, last * MS, events, 8, NULL), 1);
	}
}

static uint64_t rnd_state = 88172645463325252u;

static uint64_t rnd(uint64_t below)
{
	rnd_state ^= rnd_state << 13;
	rnd_state ^= rnd_state >> 7;
	rnd_state ^= rnd_state << 17;
	return rnd_state % below;
}

/* Of any length, before or after the hand, aligned to ticks or not. */
static void random_ranges(uint64_t tick)
{
	WHEEL w = ktap_manual(tick, 0, 0, 0);
	uint64_t now = UINT64_C(1) << 30;
	hwheel_timer_t t;

	CHECK_EQ(hwheel_timer_setup(w, NULL, 0, &t), 0);
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
TEST(one_that_has_passed_comes_behind_what_is_due)
{
	WHEEL w = ktap_manual(0, 0, 0, 0);
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
