/* hwheel_timer_setup(), the four ways to arm, hwheel_timer_pending() and hwheel_timer_remaining(). */
#include "events.h"

static struct hwheel_event seen;
static unsigned calls;

static void record(struct hwheel *w, const struct hwheel_event *e)
{
	seen = *e;
	calls++;
}

/* It fires at `at`, not a tick before it, and only once. */
static void fires_at(struct hwheel *w, hwheel_timer_t t, uint64_t at)
{
	no_event(w, at - 1);
	CHECK_EQ(hwheel_timer_pending(w, t), 1);
	CHECK_EQ(one_event(w, at).timer, t);
	CHECK_EQ(hwheel_timer_pending(w, t), 0);
	no_event(w, at + 100 * SEC);
}

static void not_armed(struct hwheel *w, hwheel_timer_t t)
{
	uint64_t ns = JUNK;

	CHECK_EQ(hwheel_timer_pending(w, t), 0);
	CHECK_EQ(hwheel_timer_remaining(w, t, &ns), 0);
	CHECK_EQ(ns, JUNK);
}

MANUAL_TEST(a_new_timer_is_not_armed)
{
	not_armed(w, ktap_timer(w));
	no_event(w, 3600 * SEC);
}

MANUAL_TEST(an_event_says_what_was_asked_for)
{
	const uint64_t cookie = UINT64_C(0xfedcba9876543210);
	hwheel_timer_t t = ktap_armed(w, NULL, cookie, 10 * MS);

	check_event(one_event(w, 30 * MS), t, cookie, 10 * MS, 1, 0);
}

MANUAL_TEST(a_callback_is_told_the_same)
{
	hwheel_timer_t t = ktap_armed(w, record, 7, 10 * MS + 1);

	calls = 0;
	/* called, not written */
	no_event(w, 11 * MS);
	CHECK_EQ(calls, 1);
	check_event(seen, t, 7, 10 * MS + 1, MS, 0);
}

MANUAL_TEST(mod_arms_and_moves)
{
	hwheel_timer_t t = ktap_timer(w);

	CHECK_EQ(hwheel_timer_mod(w, t, 10 * MS, 0), 0);
	CHECK_EQ(ktap_left(w, t), 10 * MS);
	CHECK_EQ(hwheel_timer_mod(w, t, 20 * MS, 0), 1);
	CHECK_EQ(ktap_left(w, t), 20 * MS);
	CHECK_EQ(hwheel_timer_mod(w, t, 15 * MS, 0), 1);
	CHECK_EQ(ktap_left(w, t), 15 * MS);
	fires_at(w, t, 15 * MS);
	/* and again */
	CHECK_EQ(hwheel_timer_mod(w, t, 5 * MS, 0), 0);
	CHECK_EQ(ktap_left(w, t), 5 * MS);
}

WHEEL_TEST(a_delay_counts_from_now, ktap_manual(0, 0, 0, 7 * SEC + 1))
{
	hwheel_timer_t t = ktap_armed(w, NULL, 0, 10 * MS);

	/* rounded up to a tick */
	fires_at(w, t, 7 * SEC + 11 * MS);
}

WHEEL_TEST(abstime_is_a_deadline, ktap_manual(0, 0, 0, 7 * SEC))
{
	hwheel_timer_t t = ktap_timer(w);

	CHECK_EQ(hwheel_timer_mod(w, t, 8 * SEC, HWHEEL_ABS), 0);
	CHECK_EQ(ktap_left(w, t), SEC);
	CHECK_EQ(hwheel_timer_mod(w, t, 9 * SEC, HWHEEL_ABS), 1);
	CHECK_EQ(ktap_left(w, t), 2 * SEC);
	CHECK_EQ(hwheel_timer_mod(w, t, 8 * SEC + 1, HWHEEL_ABS | HWHEEL_REDUCE), 1);
	CHECK_DUE(ktap_left(w, t), SEC + 1, MS);
	CHECK_EQ(hwheel_timer_mod(w, t, 7 * SEC + MS, HWHEEL_ABS | HWHEEL_IF_PENDING), 1);
	CHECK_EQ(ktap_left(w, t), MS);
	fires_at(w, t, 7 * SEC + MS);
}

MANUAL_TEST(reduce_only_makes_it_earlier)
{
	hwheel_timer_t t = ktap_timer(w);

	CHECK_EQ(hwheel_timer_mod(w, t, 20 * MS, HWHEEL_REDUCE), 0);
	CHECK_EQ(ktap_left(w, t), 20 * MS);
	CHECK_EQ(hwheel_timer_mod(w, t, 30 * MS, HWHEEL_REDUCE), 1);
	CHECK_EQ(ktap_left(w, t), 20 * MS);
	CHECK_EQ(hwheel_timer_mod(w, t, HWHEEL_NEVER, HWHEEL_REDUCE), 1);
	CHECK_EQ(ktap_left(w, t), 20 * MS);
	CHECK_EQ(hwheel_timer_mod(w, t, 10 * MS, HWHEEL_REDUCE), 1);
	CHECK_EQ(ktap_left(w, t), 10 * MS);
	CHECK_EQ(hwheel_timer_mod(w, t, 10 * MS, HWHEEL_REDUCE), 1);
	fires_at(w, t, 10 * MS);
	CHECK_EQ(hwheel_timer_mod(w, t, 10 * MS, HWHEEL_REDUCE), 0);
	CHECK_EQ(ktap_left(w, t), 10 * MS);
}

MANUAL_TEST(mod_pending_does_not_arm)
{
	hwheel_timer_t t = ktap_timer(w);

	CHECK_EQ(hwheel_timer_mod(w, t, 10 * MS, HWHEEL_IF_PENDING), 0);
	not_armed(w, t);
	no_event(w, SEC);
	CHECK_EQ(hwheel_timer_mod(w, t, 10 * MS, 0), 0);
	CHECK_EQ(hwheel_timer_mod(w, t, 20 * MS, HWHEEL_IF_PENDING), 1);
	CHECK_EQ(ktap_left(w, t), 20 * MS);
	fires_at(w, t, SEC + 20 * MS);
	CHECK_EQ(hwheel_timer_mod(w, t, 10 * MS, HWHEEL_IF_PENDING), 0);
	CHECK_EQ(hwheel_timer_pending(w, t), 0);
}

WHEEL_TEST(remaining_runs_down_to_zero, ktap_manual(10 * MS, 0, 0, 0))
{
	hwheel_timer_t t = ktap_armed(w, NULL, 0, 25 * MS);

	CHECK_DUE(ktap_left(w, t), 25 * MS, 10 * MS);
	no_event(w, 10 * MS);
	CHECK_DUE(ktap_left(w, t), 15 * MS, 10 * MS);
	no_event(w, 25 * MS - 1);
	CHECK_DUE(ktap_left(w, t), 1, 10 * MS);
	/* due, but its tick has not come */
	no_event(w, 29 * MS);
	CHECK_DUE(ktap_left(w, t), 0, 10 * MS);
	CHECK_EQ(hwheel_timer_pending(w, t), 1);
	one_event(w, 30 * MS);
}
