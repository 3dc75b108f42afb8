/* Periods that are set and changed: hwheel_timer_set_period(). */
#include "ktap.h"

static hwheel_timer_t make(struct hwheel *w, uint64_t period)
{
	hwheel_timer_t t = 0;

	CHECK_EQ(hwheel_timer_setup(w, NULL, 7, &t), 0);
	CHECK_EQ(hwheel_timer_set_period(w, t, period), 0);
	return t;
}

/* Drives to @now; one timer at most is due, and this is when it was. */
static uint64_t due(struct hwheel *w, uint64_t now)
{
	struct hwheel_event e[2];
	int n = hwheel_advance(w, now, e, 2, NULL);

	CHECK(n == 0 || n == 1);
	if (n == 0)
		return 0;
	CHECK_EQ(e[0].cookie, 7);
	CHECK_EQ(e[0].missed, 0);
	return e[0].deadline_ns;
}

TEST(a_timer_of_setup_gets_a_rhythm_that_does_not_drift)
{
	const uint64_t period = 10 * MS + 333;
	WHEEL w = ktap_manual(0, 0, 0, 0);
	hwheel_timer_t t = make(w, period);
	uint64_t next = 3 * MS;

	/* this call arms nothing */
	CHECK_EQ(hwheel_timer_pending(w, t), 0);
	CHECK_EQ(due(w, SEC), 0);
	CHECK_EQ(hwheel_timer_mod(w, t, SEC + next, HWHEEL_ABS), 0);
	for (uint64_t now = 0; now < 10 * SEC; now += MS) {
		uint64_t seen = due(w, SEC + now);

		CHECK_EQ(seen, next <= now ? SEC + next : 0);
		CHECK_EQ(hwheel_timer_pending(w, t), 1);
		next += seen ? period : 0;
	}
	CHECK_EQ(hwheel_timer_free(w, t), 1);
}

TEST(a_change_counts_from_the_next_firing)
{
	WHEEL w = ktap_manual(0, 0, 0, 0);
	hwheel_timer_t t = make(w, 100 * MS);

	CHECK_EQ(hwheel_timer_mod(w, t, 50 * MS, 0), 0);
	CHECK_EQ(hwheel_timer_set_period(w, t, 20 * MS), 0);
	CHECK_EQ(due(w, 49 * MS), 0);
	CHECK_EQ(due(w, 50 * MS), 50 * MS);
	CHECK_EQ(due(w, 69 * MS), 0);
	CHECK_EQ(hwheel_timer_set_period(w, t, 5 * MS), 0);
	CHECK_EQ(due(w, 70 * MS), 70 * MS);
	CHECK_EQ(due(w, 75 * MS), 75 * MS);
}

TEST(without_a_period_it_fires_once_more)
{
	static const uint64_t none[] = { 0, HWHEEL_NEVER };

	for (int i = 0; i < 2; i++) {
		WHEEL w = ktap_manual(0, 0, 0, 0);
		hwheel_timer_t t = make(w, 10 * MS), every = 0;

		CHECK_EQ(hwheel_timer_mod(w, t, 10 * MS, 0), 0);
		CHECK_EQ(due(w, 10 * MS), 10 * MS);
		CHECK_EQ(hwheel_timer_set_period(w, t, none[i]), 0);
		CHECK_EQ(due(w, 20 * MS), 20 * MS);
		CHECK_EQ(hwheel_timer_pending(w, t), 0);
		CHECK_EQ(due(w, SEC), 0);
		/* it still exists and can be armed; one of every frees itself */
		CHECK_EQ(hwheel_timer_mod(w, t, HWHEEL_NEVER, 0), 0);
		CHECK_EQ(hwheel_every(w, 10 * MS, 10 * MS, 0, NULL, 7, 0, &every), 0);
		CHECK_EQ(due(w, SEC + 10 * MS), SEC + 10 * MS);
		CHECK_EQ(hwheel_timer_set_period(w, every, none[i]), 0);
		CHECK_EQ(due(w, SEC + 20 * MS), SEC + 20 * MS);
		CHECK_EQ(hwheel_timer_pending(w, every), -ESTALE);
		CHECK_EQ(stats(w).live, 1);
	}
}

TEST(a_timer_of_once_goes_on)
{
	WHEEL w = ktap_manual(0, 0, 0, 0);
	hwheel_timer_t t = 0;

	CHECK_EQ(hwheel_once(w, 10 * MS, NULL, 7, 0, &t), 0);
	CHECK_EQ(hwheel_timer_set_period(w, t, 30 * MS), 0);
	CHECK_EQ(due(w, 10 * MS), 10 * MS);
	CHECK_EQ(due(w, 40 * MS), 40 * MS);
	CHECK_EQ(hwheel_timer_delete(w, t), 1);
	CHECK_EQ(hwheel_timer_set_period(w, t, 30 * MS), -ESTALE);
	CHECK_EQ(stats(w).live, 0);
}

TEST(missed_periods_are_left_out_and_counted)
{
	WHEEL w = ktap_manual(0, 0, 0, 0);
	hwheel_timer_t t = make(w, 10 * MS);
	struct hwheel_event e[4];

	CHECK_EQ(hwheel_timer_mod(w, t, 10 * MS, 0), 0);
	CHECK_EQ(hwheel_advance(w, 55 * MS, e, 4, NULL), 1);
	CHECK_EQ(e[0].deadline_ns, 10 * MS);
	CHECK_EQ(e[0].missed, 4);
	CHECK_EQ(due(w, 60 * MS), 60 * MS);
}

TEST(a_burst_stays_a_burst)
{
	WHEEL w = ktap_manual(0, 0, 0, 0);
	struct hwheel_event e[8];
	hwheel_timer_t t = 0;

	CHECK_EQ(hwheel_every(w, 10 * MS, SEC, 0, NULL, 7, HWHEEL_MISSED_BURST, &t), 0);
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
TEST(its_own_callback_may_change_it)
{
	WHEEL w = ktap_manual(0, 0, 0, 0);
	uint64_t ns = 0;

	changed = 0;
	CHECK_EQ(hwheel_every(w, 10 * MS, 10 * MS, 0, change, 0, 0, NULL), 0);
	CHECK_EQ(hwheel_advance(w, 10 * MS, NULL, 0, NULL), 0);
	CHECK_EQ(hwheel_next_expiry(w, &ns), 1);
	CHECK_EQ(ns, 20 * MS);
	CHECK_EQ(hwheel_advance(w, 20 * MS, NULL, 0, NULL), 0);
	CHECK_EQ(hwheel_advance(w, 49 * MS, NULL, 0, NULL), 0);
	CHECK_EQ(changed, 2);
	CHECK_EQ(hwheel_advance(w, 50 * MS, NULL, 0, NULL), 0);
	CHECK_EQ(changed, 3);
}

TEST(what_cannot_be_is_refused_and_changes_nothing)
{
	static const uint64_t negative[] = {
		UINT64_C(1) << 63, (UINT64_C(1) << 63) + 1, HWHEEL_NEVER - 1,
	};
	WHEEL w = ktap_manual(0, 0, 0, 0);
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
	CHECK_EQ(due(w, 10 * MS), 10 * MS);
	CHECK_EQ(due(w, 20 * MS), 20 * MS);
}

/* The last timer, which is free, and 65,535 more: the same record and the same tag. */
static void many_lives(struct hwheel *w)
{
	for (unsigned i = 0; i < 65535; i++) {
		hwheel_timer_t t = 0;

		CHECK_EQ(hwheel_timer_setup(w, NULL, 0, &t), 0);
		CHECK_EQ(hwheel_timer_free(w, t), 0);
	}
}

TEST(the_key_of_an_earlier_timer_is_none_of_its_own)
{
	WHEEL w = ktap_manual(0, 0, 0, 0);
	hwheel_timer_t t;

	CHECK_EQ(hwheel_key_set(w, "k", 1, SEC, NULL, 0, 0), 0);
	CHECK_EQ(hwheel_key_delete(w, "k", 1), 1);
	many_lives(w);
	t = make(w, MS);
	CHECK_EQ(hwheel_timer_mod(w, t, MS, 0), 0);
	CHECK_EQ(due(w, MS), MS);
	CHECK_EQ(due(w, 2 * MS), 2 * MS);
}

TEST(the_rhythm_of_an_earlier_timer_is_none_of_its_own)
{
	WHEEL w = ktap_manual(0, 0, 0, 0);
	struct hwheel_event e[8];
	hwheel_timer_t t;

	CHECK_EQ(hwheel_every(w, SEC, SEC, 0, NULL, 0, HWHEEL_MISSED_BURST, &t), 0);
	CHECK_EQ(hwheel_timer_delete(w, t), 1);
	many_lives(w);
	t = make(w, MS);
	CHECK_EQ(hwheel_timer_mod(w, t, MS, 0), 0);
	CHECK_EQ(hwheel_advance(w, 5 * MS, e, 8, NULL), 1);
	CHECK_EQ(e[0].missed, 4);
}
