/* HWHEEL_NEVER, and delays that reach beyond the clock. */
#include "ktap.h"

static void never(struct hwheel *w, hwheel_timer_t t)
{
	struct hwheel_event e;
	uint64_t left = 0, next = 77;

	CHECK_EQ(hwheel_timer_pending(w, t), 1);
	CHECK_EQ(hwheel_timer_remaining(w, t, &left), 1);
	CHECK(left == HWHEEL_NEVER);
	CHECK_EQ(hwheel_next_expiry(w, &next), 0);
	CHECK_EQ(next, 77);
	CHECK_EQ(hwheel_advance(w, INT64_MAX, &e, 1, NULL), 0);
	CHECK_EQ(hwheel_timer_pending(w, t), 1);
	CHECK_EQ(hwheel_timer_delete(w, t), 1);
}

TEST(armed_for_never_it_does_not_fire)
{
	struct hwheel *w;
	hwheel_timer_t t;

	w = ktap_manual(0, 0, 0, 5 * SEC);
	t = ktap_timer(w);
	CHECK_EQ(hwheel_timer_mod(w, t, HWHEEL_NEVER, 0), 0);
	never(w, t);
	CHECK_EQ(hwheel_destroy(w), 0);

	w = ktap_manual(0, 0, 0, 5 * SEC);
	t = ktap_timer(w);
	CHECK_EQ(hwheel_timer_mod(w, t, HWHEEL_NEVER, HWHEEL_ABS), 0);
	never(w, t);
	CHECK_EQ(hwheel_destroy(w), 0);

	w = ktap_manual(0, 0, 0, 5 * SEC);
	t = ktap_timer(w);
	CHECK_EQ(hwheel_timer_mod(w, t, HWHEEL_NEVER, HWHEEL_REDUCE), 0);
	never(w, t);
	CHECK_EQ(hwheel_destroy(w), 0);
}

TEST(one_calls_for_never_do_not_fire)
{
	struct hwheel *w = ktap_manual(0, 1, 16, 5 * SEC);
	hwheel_timer_t t = 0;

	CHECK_EQ(hwheel_once(w, HWHEEL_NEVER, NULL, 0, 0, &t), 0);
	never(w, t);
	CHECK_EQ(hwheel_destroy(w), 0);
	w = ktap_manual(0, 0, 0, 5 * SEC);
	CHECK_EQ(hwheel_once(w, HWHEEL_NEVER, NULL, 0, HWHEEL_ABS, &t), 0);
	never(w, t);
	CHECK_EQ(hwheel_destroy(w), 0);
	w = ktap_manual(0, 0, 0, 5 * SEC);
	CHECK_EQ(hwheel_every(w, HWHEEL_NEVER, SEC, 0, NULL, 0, 0, &t), 0);
	never(w, t);
	CHECK_EQ(hwheel_destroy(w), 0);
}

/* The longest delay there is, from a time that is not the first. */
TEST(a_delay_beyond_the_end_of_time_does_not_wrap)
{
	WHEEL w = ktap_manual(0, 0, 0, 5 * SEC);
	hwheel_timer_t t = ktap_timer(w);
	struct hwheel_event e;
	uint64_t left = 0;

	CHECK_EQ(hwheel_timer_mod(w, t, INT64_MAX, 0), 0);
	CHECK_EQ(hwheel_timer_remaining(w, t, &left), 1);
	CHECK(left >= INT64_MAX);
	CHECK_EQ(hwheel_advance(w, INT64_MAX, &e, 1, NULL), 0);
	CHECK_EQ(hwheel_timer_pending(w, t), 1);
}

TEST(from_never_to_soon_and_back)
{
	WHEEL w = ktap_manual(0, 0, 0, 0);
	struct hwheel_event e;
	hwheel_timer_t t = ktap_timer(w);

	CHECK_EQ(hwheel_timer_mod(w, t, HWHEEL_NEVER, 0), 0);
	CHECK_EQ(hwheel_timer_mod(w, t, 10 * MS, 0), 1);
	CHECK_EQ(hwheel_timer_mod(w, t, HWHEEL_NEVER, 0), 1);
	CHECK_EQ(hwheel_advance(w, SEC, &e, 1, NULL), 0);
	CHECK_EQ(hwheel_timer_mod(w, t, 10 * MS, HWHEEL_IF_PENDING), 1);
	CHECK_EQ(hwheel_timer_mod(w, t, HWHEEL_NEVER, HWHEEL_IF_PENDING), 1);
	CHECK_EQ(hwheel_timer_mod(w, t, 10 * MS, HWHEEL_REDUCE), 1);
	CHECK_EQ(hwheel_advance(w, SEC + 10 * MS, &e, 1, NULL), 1);
	CHECK_EQ(hwheel_timer_mod(w, t, HWHEEL_NEVER, HWHEEL_IF_PENDING), 0);
	CHECK_EQ(hwheel_timer_pending(w, t), 0);
}

TEST(a_period_without_end_fires_once)
{
	WHEEL w = ktap_manual(0, 0, 0, 0);
	struct hwheel_event e[2];
	hwheel_timer_t t = 0;

	CHECK_EQ(hwheel_every(w, 10 * MS, HWHEEL_NEVER, 0, NULL, 0, 0, &t), 0);
	CHECK_EQ(hwheel_advance(w, SEC, e, 2, NULL), 1);
	CHECK_EQ(e[0].missed, 0);
	never(w, t);
}

TEST(never_is_never_early_next_to_the_end)
{
	const uint64_t end = INT64_MAX;
	WHEEL w = ktap_manual(SEC, 0, 0, end - 10 * SEC);
	struct hwheel_event e[2];

	/* the last seconds before the end are times like any other */
	CHECK_EQ(hwheel_once(w, 2 * SEC, NULL, 1, 0, NULL), 0);
	CHECK_EQ(hwheel_once(w, HWHEEL_NEVER, NULL, 2, 0, NULL), 0);
	CHECK_EQ(hwheel_advance(w, end - 8 * SEC - 1, e, 2, NULL), 0);
	CHECK_EQ(hwheel_advance(w, end - 6 * SEC, e, 2, NULL), 1);
	CHECK_EQ(e[0].cookie, 1);
	CHECK_EQ(hwheel_advance(w, end, e, 2, NULL), 0);
}

/* A deadline below 2^63 whose tick ends after it. */
TEST(a_deadline_in_the_last_tick_is_never)
{
	WHEEL w = ktap_manual(0, 0, 0, 0);
	hwheel_timer_t t;
	uint64_t ns;

	CHECK_EQ(hwheel_timer_setup(w, NULL, 0, &t), 0);
	CHECK_EQ(hwheel_timer_mod(w, t, INT64_MAX, HWHEEL_ABS), 0);
	CHECK_EQ(hwheel_next_expiry(w, &ns), 0);
	CHECK_EQ(hwheel_timer_remaining(w, t, &ns), 1);
	CHECK_EQ(ns, HWHEEL_NEVER);
}
