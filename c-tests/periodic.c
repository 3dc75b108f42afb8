/* Periods: rhythm, and the three ways to deal with missed ones. */
#include "ktap.h"

/* The three ways to treat missed periods. */
static const uint32_t flags[] = { 0, HWHEEL_MISSED_BURST, HWHEEL_MISSED_DELAY };

/* One timer at most is due until @now. When that was, or 0; and how many periods it has missed. */
static uint64_t due(struct hwheel *w, uint64_t now, uint32_t missed)
{
	struct hwheel_event e[2];
	int n = hwheel_advance(w, now, e, 2, NULL);

	CHECK(n == 0 || n == 1);
	if (n == 0)
		return 0;
	CHECK_EQ(e[0].cookie, 7);
	CHECK_EQ(e[0].missed, missed);
	return e[0].deadline_ns;
}

/* However it treats what it has missed, which is nothing here. */
TEST(deadlines_do_not_drift)
{
	for (size_t f = 0; f < COUNT(flags); f++) {
		WHEEL w = ktap_manual(0, 0, 0, 0);
		uint64_t next = 3 * MS + 1, period = 10 * MS + 333333;

		CHECK_EQ(hwheel_every(w, next, period, 0, NULL, 7, flags[f], NULL), 0);
		for (uint64_t now = 0; now < 10 * SEC; now += MS) {
			/* the first tick at or after it */
			CHECK_EQ(due(w, now, 0), next <= now ? next : 0);
			next += next <= now ? period : 0;
		}
	}
}

WHEEL_TEST(the_first_time_may_be_a_deadline, ktap_manual(0, 0, 0, SEC))
{
	CHECK_EQ(hwheel_every(w, SEC + 5 * MS, 10 * MS, 0, NULL, 7, HWHEEL_ABS, NULL), 0);
	CHECK_EQ(due(w, SEC + 4 * MS, 0), 0);
	CHECK_EQ(due(w, SEC + 5 * MS, 0), SEC + 5 * MS);
	CHECK_EQ(due(w, SEC + 14 * MS, 0), 0);
	CHECK_EQ(due(w, SEC + 15 * MS, 0), SEC + 15 * MS);
}

/* It fires at the next tick and keeps its rhythm, however long ago the time was. */
TEST(a_first_time_that_has_passed_is_the_beginning_of_its_rhythm)
{
	/* in hours; the period has three, and it is one to three until the next time */
	const uint64_t hour = 3600 * SEC, ago[] = { 90, 2 * 24, 20 * 24, 30 * 365 * 24 };

	for (unsigned i = 0; i < COUNT(ago) * COUNT(flags) * 3; i++) {
		uint64_t now = 300000 * hour + 12 * MS, rest = (1 + i / 12) * hour;
		uint64_t next = now + rest + 7, missed = ago[i / 3 % 4] / 3;
		uint64_t first = next - (missed + 1) * 3 * hour;
		WHEEL w = ktap_manual(0, 0, 0, now);

		CHECK_EQ(hwheel_every(w, first, 3 * hour, 0, NULL, 7, HWHEEL_ABS | flags[i % 3],
				      NULL), 0);
		CHECK_EQ((next - due(w, now + MS, (uint32_t)missed)) % (3 * hour), 0);
		if (flags[i % 3] == HWHEEL_MISSED_DELAY)
			next = now + MS + 3 * hour;
		CHECK_EQ(due(w, next - MS, 0), 0);
		CHECK_EQ(due(w, next + MS, 0), next);
		CHECK_EQ(stats(w).missed, missed);
	}
}

/* Where the last of the missed times is too long ago to be kept, the rhythm begins at the
 * tick; with HWHEEL_MISSED_DELAY, where the last but one is. What was missed counts. */
TEST(what_a_long_period_has_missed_counts)
{
	const uint64_t hour = 3600 * SEC;
	/* the period and how long ago the last time was, in hours */
	const uint64_t cases[][2] = { { 100, 99 }, { 100, 1 }, { 50, 40 }, { 50, 20 } };

	for (unsigned i = 0; i < COUNT(cases) * COUNT(flags); i++) {
		uint64_t period = cases[i / 3][0] * hour, now = 10000 * hour;
		uint64_t rounded = (period + 65535) / 65536 * 65536;
		WHEEL w = ktap_manual(0, 0, 0, now);

		if (period < UINT64_C(1) << 47)
			rounded = period;
		CHECK_EQ(hwheel_every(w, now - cases[i / 3][1] * hour - 9 * rounded, period, 0, NULL,
				      7, HWHEEL_ABS | flags[i % 3], NULL), 0);
		CHECK(due(w, now + MS, 9) != 0);
		CHECK_EQ(stats(w).missed, 9);
	}
}

/* The last of the times lies between the call and the tick: the timer fires for that one. */
TEST(a_time_just_before_the_tick_is_the_last_of_those_that_passed)
{
	const uint64_t period = UINT64_C(1) << 54;

	/* With HWHEEL_MISSED_DELAY the rhythm would begin anew. */
	for (unsigned i = 0; i < 2; i++) {
		uint64_t last = 8 * period + 167, tick = last / MS * MS + MS;
		WHEEL w = ktap_manual(0, 0, 0, last - 10);
		uint64_t next;

		CHECK_EQ(hwheel_every(w, 167, period, 0, NULL, 7, HWHEEL_ABS | flags[i], NULL), 0);
		CHECK_EQ(due(w, tick, 8), last);
		while ((next = due(w, ktap_next(w), 0)) == 0)
			;
		CHECK_EQ(next, last + period);
	}
}

static const uint64_t long_period = (UINT64_C(1) << 54) + 65536;

static void make_long_one(struct hwheel *w, const struct hwheel_event *e)
{
	CHECK_EQ(hwheel_every(w, 2, long_period, 0, NULL, 7, HWHEEL_ABS, NULL), 0);
}

/* Also if the tick is rounded, because the hand is still far away. */
MANUAL_TEST(so_is_a_time_just_before_a_tick_far_from_the_hand)
{
	uint64_t last = 2 + 16 * long_period;

	CHECK_EQ(hwheel_once(w, 217 * MS, make_long_one, 0, 0, NULL), 0);
	CHECK_EQ(due(w, last - MS, 0), 0);
	CHECK_EQ(due(w, last + 10 * SEC, 16), last);
}

TEST(a_period_of_days_is_rounded_up)
{
	const uint64_t two_47 = UINT64_C(1) << 47;
	const uint64_t periods[][2] = {
		{ two_47 - 1, two_47 - 1 }, { two_47, two_47 }, { two_47 + 1, two_47 + 65536 },
	};

	for (unsigned i = 0; i < COUNT(periods); i++) {
		WHEEL w = ktap_manual(0, 0, 0, 0);
		uint64_t next = 5 + periods[i][1], tick = (next + MS - 1) / MS * MS;

		CHECK_EQ(hwheel_every(w, 5, periods[i][0], 0, NULL, 7, 0, NULL), 0);
		CHECK_EQ(due(w, MS, 0), 5);
		CHECK_EQ(due(w, tick - 1, 0), 0);
		CHECK_EQ(due(w, tick, 0), next);
	}
}

MANUAL_TEST(it_stays_armed_and_keeps_its_handle)
{
	struct hwheel_event e[2];
	hwheel_timer_t t = ktap_every(w, 10 * MS, 10 * MS, NULL, 5, 0);

	for (uint64_t i = 1; i <= 100; i++) {
		CHECK_EQ(hwheel_advance(w, i * 10 * MS, e, 2, NULL), 1);
		CHECK_EQ(e[0].timer, t);
		CHECK_EQ(e[0].cookie, 5);
		CHECK_EQ(hwheel_timer_pending(w, t), 1);
		CHECK_EQ(ktap_left(w, t), 10 * MS);
	}
	CHECK_EQ(hwheel_timer_delete(w, t), 1);
	CHECK_EQ(hwheel_advance(w, 10 * SEC, e, 2, NULL), 0);
}

MANUAL_TEST(a_very_long_stall_is_one_event)
{
	CHECK_EQ(hwheel_every(w, MS, MS, 0, NULL, 7, 0, NULL), 0);
	CHECK_EQ(due(w, 3600 * SEC, 3600000 - 1), MS);
	/* more than the member can hold: its largest value */
	CHECK(due(w, 10000000 * SEC, UINT32_MAX) != 0);
	CHECK(due(w, 10000000 * SEC + MS, 0) != 0);
}

MANUAL_TEST(burst_goes_on_in_the_next_batch)
{
	struct hwheel_event e[2];
	uint64_t want = 10 * MS;

	CHECK_EQ(hwheel_every(w, 10 * MS, 10 * MS, 0, NULL, 0, HWHEEL_MISSED_BURST, NULL), 0);
	for (;;) {
		int n = hwheel_advance(w, 95 * MS, e, 2, NULL);

		for (int i = 0; i < n; i++) {
			CHECK_EQ(e[i].deadline_ns, want);
			want += 10 * MS;
		}
		if (n < 2)
			break;
	}
	CHECK_EQ(want, 100 * MS);
}

/* Now may be late in its tick. */
MANUAL_TEST(after_a_miss_delay_waits_for_a_whole_period)
{
	CHECK_EQ(hwheel_every(w, 10 * MS, 10 * MS, 0, NULL, 7, HWHEEL_MISSED_DELAY, NULL), 0);
	CHECK_EQ(due(w, 35 * MS + MS / 2, 2), 10 * MS);
	CHECK_EQ(due(w, 46 * MS - 1, 0), 0);
	CHECK_EQ(due(w, 46 * MS, 0), 45 * MS + MS / 2);
}

MANUAL_TEST(mod_sets_the_next_deadline_and_the_rhythm)
{
	hwheel_timer_t t = ktap_every(w, 10 * MS, 10 * MS, NULL, 7, 0);

	CHECK_EQ(due(w, 10 * MS, 0), 10 * MS);
	CHECK_EQ(hwheel_timer_mod(w, t, 33 * MS, HWHEEL_ABS), 1);
	CHECK_EQ(due(w, 32 * MS, 0), 0);
	CHECK_EQ(due(w, 33 * MS, 0), 33 * MS);
	CHECK_EQ(ktap_left(w, t), 10 * MS);
	CHECK_EQ(due(w, 42 * MS, 0), 0);
	CHECK_EQ(due(w, 43 * MS, 0), 43 * MS);
}

/* The time of a move is that of its tick. */
MANUAL_TEST(after_a_move_the_rhythm_is_that_of_the_tick)
{
	hwheel_timer_t t = ktap_every(w, MS, 10 * MS + 1, NULL, 7, 0);

	CHECK_EQ(hwheel_timer_mod(w, t, 3 * MS + 7, 0), 1);
	CHECK_EQ(due(w, 4 * MS, 0), 4 * MS);
	CHECK_EQ(due(w, 15 * MS, 0), 14 * MS + 1);
}

MANUAL_TEST(a_period_below_a_tick_is_fired_once_a_tick)
{
	struct hwheel_event e[8];
	uint64_t fired = 0, missed = 0;

	CHECK_EQ(hwheel_every(w, MS, MS / 4, 0, NULL, 0, 0, NULL), 0);
	for (uint64_t tick = 1; tick <= 1000; tick++) {
		CHECK_EQ(hwheel_advance(w, tick * MS, e, 8, NULL), 1);
		fired++;
		missed += e[0].missed;
	}
	CHECK_EQ(fired, 1000);
	/* every quarter from 1 ms to 1000 ms was fired or missed, or is next */
	CHECK(fired + missed == 999 * 4 || fired + missed == 999 * 4 + 1);
}

static unsigned looks;

static void look(struct hwheel *w, const struct hwheel_event *e)
{
	looks++;
	CHECK_EQ(hwheel_timer_pending(w, e->timer), 1);
	CHECK_EQ(ktap_left(w, e->timer), 7 * MS);
}

MANUAL_TEST(it_is_armed_for_the_next_period_in_its_callback)
{
	looks = 0;
	CHECK_EQ(hwheel_every(w, 10 * MS, 7 * MS, 0, look, 0, 0, NULL), 0);
	CHECK_AT(w, 10 * MS, looks, 1);
	CHECK_AT(w, 17 * MS, looks, 2);
}

WHEEL_TEST(a_thousand_rhythms_side_by_side, ktap_manual(0, 2, 16, 0))
{
	enum { N = 1000 };
	static uint64_t next[N + 1];
	static struct hwheel_event e[N];

	for (uint64_t i = 1; i <= N; i++) {
		next[i] = i * MS;
		CHECK_EQ(hwheel_every(w, i * MS, i * MS, 0, NULL, i, 0, NULL), 0);
	}
	for (uint64_t now = MS; now <= 2 * SEC; now += MS) {
		int n = hwheel_advance(w, now, e, N, NULL);

		for (int k = 0; k < n; k++) {
			CHECK_EQ(next[e[k].cookie], now);
			CHECK_EQ(e[k].deadline_ns, now);
			next[e[k].cookie] += e[k].cookie * MS;
		}
		for (uint64_t i = 1; i <= N; i++)
			CHECK(next[i] > now);
	}
}

/* Periods that are set and changed: hwheel_timer_set_period(). */

static hwheel_timer_t make(struct hwheel *w, uint64_t period)
{
	hwheel_timer_t t = ktap_timer_of(w, NULL, 7);

	CHECK_EQ(hwheel_timer_set_period(w, t, period), 0);
	return t;
}

MANUAL_TEST(a_timer_of_setup_gets_a_rhythm_that_does_not_drift)
{
	const uint64_t period = 10 * MS + 333;
	hwheel_timer_t t = make(w, period);
	uint64_t next = 3 * MS;

	/* this call arms nothing */
	CHECK_EQ(hwheel_timer_pending(w, t), 0);
	CHECK_EQ(due(w, SEC, 0), 0);
	CHECK_EQ(hwheel_timer_mod(w, t, SEC + next, HWHEEL_ABS), 0);
	for (uint64_t now = 0; now < 10 * SEC; now += MS) {
		uint64_t seen = due(w, SEC + now, 0);

		CHECK_EQ(seen, next <= now ? SEC + next : 0);
		CHECK_EQ(hwheel_timer_pending(w, t), 1);
		next += seen ? period : 0;
	}
	CHECK_EQ(hwheel_timer_free(w, t), 1);
}

MANUAL_TEST(a_change_counts_from_the_next_firing)
{
	hwheel_timer_t t = make(w, 100 * MS);

	CHECK_EQ(hwheel_timer_mod(w, t, 50 * MS, 0), 0);
	CHECK_EQ(hwheel_timer_set_period(w, t, 20 * MS), 0);
	CHECK_EQ(due(w, 49 * MS, 0), 0);
	CHECK_EQ(due(w, 50 * MS, 0), 50 * MS);
	CHECK_EQ(due(w, 69 * MS, 0), 0);
	CHECK_EQ(hwheel_timer_set_period(w, t, 5 * MS), 0);
	CHECK_EQ(due(w, 70 * MS, 0), 70 * MS);
	CHECK_EQ(due(w, 75 * MS, 0), 75 * MS);
}

TEST(without_a_period_it_fires_once_more)
{
	static const uint64_t none[] = { 0, HWHEEL_NEVER };

	for (int i = 0; i < 2; i++) {
		WHEEL w = ktap_manual(0, 0, 0, 0);
		hwheel_timer_t t = make(w, 10 * MS), every = 0;

		CHECK_EQ(hwheel_timer_mod(w, t, 10 * MS, 0), 0);
		CHECK_EQ(due(w, 10 * MS, 0), 10 * MS);
		CHECK_EQ(hwheel_timer_set_period(w, t, none[i]), 0);
		CHECK_EQ(due(w, 20 * MS, 0), 20 * MS);
		CHECK_EQ(hwheel_timer_pending(w, t), 0);
		CHECK_EQ(due(w, SEC, 0), 0);
		/* it still exists and can be armed; one of every frees itself */
		CHECK_EQ(hwheel_timer_mod(w, t, HWHEEL_NEVER, 0), 0);
		CHECK_EQ(hwheel_every(w, 10 * MS, 10 * MS, 0, NULL, 7, 0, &every), 0);
		CHECK_EQ(due(w, SEC + 10 * MS, 0), SEC + 10 * MS);
		CHECK_EQ(hwheel_timer_set_period(w, every, none[i]), 0);
		CHECK_EQ(due(w, SEC + 20 * MS, 0), SEC + 20 * MS);
		CHECK_EQ(hwheel_timer_pending(w, every), -ESTALE);
		CHECK_EQ(stats(w).live, 1);
	}
}

MANUAL_TEST(a_timer_of_once_goes_on)
{
	hwheel_timer_t t = ktap_once(w, 10 * MS, NULL, 7, 0);

	CHECK_EQ(hwheel_timer_set_period(w, t, 30 * MS), 0);
	CHECK_EQ(due(w, 10 * MS, 0), 10 * MS);
	CHECK_EQ(due(w, 40 * MS, 0), 40 * MS);
	CHECK_EQ(hwheel_timer_delete(w, t), 1);
	CHECK_EQ(hwheel_timer_set_period(w, t, 30 * MS), -ESTALE);
	CHECK_EQ(stats(w).live, 0);
}

MANUAL_TEST(missed_periods_are_left_out_and_counted)
{
	hwheel_timer_t t = make(w, 10 * MS);

	CHECK_EQ(hwheel_timer_mod(w, t, 10 * MS, 0), 0);
	CHECK_EQ(due(w, 55 * MS, 4), 10 * MS);
	CHECK_EQ(due(w, 60 * MS, 0), 60 * MS);
}

MANUAL_TEST(a_burst_stays_a_burst)
{
	struct hwheel_event e[8];
	hwheel_timer_t t = ktap_every(w, 10 * MS, SEC, NULL, 7, HWHEEL_MISSED_BURST);

	CHECK_EQ(hwheel_timer_set_period(w, t, 10 * MS), 0);
	CHECK_EQ(hwheel_advance(w, 55 * MS, e, 8, NULL), 5);
	for (uint64_t i = 0; i < 5; i++)
		CHECK_EQ(e[i].deadline_ns, (i + 1) * 10 * MS);
}

static int changed;

static void change(struct hwheel *w, const struct hwheel_event *e)
{
	changed++;
	CHECK_EQ(hwheel_timer_set_period(w, e->timer, 30 * MS), 0);
}

/* The timer is pending for the next period while its callback runs. */
MANUAL_TEST(its_own_callback_may_change_it)
{
	changed = 0;
	CHECK_EQ(hwheel_every(w, 10 * MS, 10 * MS, 0, change, 0, 0, NULL), 0);
	CHECK_EQ(hwheel_advance(w, 10 * MS, NULL, 0, NULL), 0);
	CHECK_EQ(ktap_next(w), 20 * MS);
	CHECK_EQ(hwheel_advance(w, 20 * MS, NULL, 0, NULL), 0);
	CHECK_AT(w, 49 * MS, changed, 2);
	CHECK_AT(w, 50 * MS, changed, 3);
}

MANUAL_TEST(what_cannot_be_is_refused_and_changes_nothing)
{
	static const uint64_t negative[] = {
		UINT64_C(1) << 63, (UINT64_C(1) << 63) + 1, HWHEEL_NEVER - 1,
	};
	hwheel_timer_t t = make(w, 10 * MS), shut = make(w, 0), gone = make(w, 0);

	CHECK_EQ(hwheel_timer_mod(w, t, 10 * MS, 0), 0);
	for (int i = 0; i < 3; i++)
		CHECK_EQ(hwheel_timer_set_period(w, t, negative[i]), -EINVAL);
	CHECK_EQ(hwheel_timer_set_period(NULL, t, 1), -EINVAL);
	CHECK_EQ(hwheel_timer_shutdown(w, shut), 0);
	CHECK_EQ(hwheel_timer_set_period(w, shut, 1), -ESHUTDOWN);
	CHECK_EQ(hwheel_timer_free(w, gone), 0);
	CHECK_EQ(hwheel_timer_set_period(w, gone, 1), -ESTALE);
	CHECK_EQ(hwheel_timer_set_period(w, 0, 1), -ESTALE);
	CHECK_EQ(due(w, 10 * MS, 0), 10 * MS);
	CHECK_EQ(due(w, 20 * MS, 0), 20 * MS);
}

/* The last timer, which is free, and 65,535 more: the same record and the same tag. */
static void many_lives(struct hwheel *w)
{
	for (unsigned i = 0; i < 65535; i++) {
		hwheel_timer_t t = ktap_timer(w);

		CHECK_EQ(hwheel_timer_free(w, t), 0);
	}
}

MANUAL_TEST(the_key_of_an_earlier_timer_is_none_of_its_own)
{
	hwheel_timer_t t;

	CHECK_EQ(hwheel_key_set(w, "k", 1, SEC, NULL, 0, 0), 0);
	CHECK_EQ(hwheel_key_delete(w, "k", 1), 1);
	many_lives(w);
	t = make(w, MS);
	CHECK_EQ(hwheel_timer_mod(w, t, MS, 0), 0);
	CHECK_EQ(due(w, MS, 0), MS);
	CHECK_EQ(due(w, 2 * MS, 0), 2 * MS);
}

MANUAL_TEST(the_rhythm_of_an_earlier_timer_is_none_of_its_own)
{
	hwheel_timer_t t = ktap_every(w, SEC, SEC, NULL, 0, HWHEEL_MISSED_BURST);

	CHECK_EQ(hwheel_timer_delete(w, t), 1);
	many_lives(w);
	t = make(w, MS);
	CHECK_EQ(hwheel_timer_mod(w, t, MS, 0), 0);
	CHECK_EQ(due(w, 5 * MS, 4), MS);
}
