/* hwheel_timer_setup(), the four ways to arm, hwheel_timer_pending() and hwheel_timer_remaining(). */
#include "ktap.h"

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
	struct hwheel_event e[2];

	CHECK_EQ(hwheel_advance(w, at - 1, e, 2, NULL), 0);
	CHECK_EQ(hwheel_timer_pending(w, t), 1);
	CHECK_EQ(hwheel_advance(w, at, e, 2, NULL), 1);
	CHECK_EQ(e[0].timer, t);
	CHECK_EQ(hwheel_timer_pending(w, t), 0);
	CHECK_EQ(hwheel_advance(w, at + 100 * SEC, e, 2, NULL), 0);
}

MANUAL_TEST(a_new_timer_is_not_armed)
{
	hwheel_timer_t t = ktap_timer(w);
	struct hwheel_event e;
	uint64_t ns = JUNK;

	CHECK_EQ(hwheel_timer_pending(w, t), 0);
	CHECK_EQ(hwheel_timer_remaining(w, t, &ns), 0);
	CHECK_EQ(ns, JUNK);
	CHECK_EQ(hwheel_advance(w, 3600 * SEC, &e, 1, NULL), 0);
}

MANUAL_TEST(an_event_says_what_was_asked_for)
{
	hwheel_timer_t t = ktap_timer_of(w, NULL, UINT64_C(0xfedcba9876543210));
	struct hwheel_event e;

	memset(&e, 0xff, sizeof e);
	CHECK_EQ(hwheel_timer_mod(w, t, 10 * MS, 0), 0);
	CHECK_EQ(hwheel_advance(w, 30 * MS, &e, 1, NULL), 1);
	CHECK_EQ(e.timer, t);
	CHECK_EQ(e.cookie, UINT64_C(0xfedcba9876543210));
	CHECK_EQ(e.deadline_ns, 10 * MS);
	CHECK_EQ(e.missed, 0);
	CHECK_EQ(e.flags, 0);
}

MANUAL_TEST(a_callback_is_told_the_same)
{
	hwheel_timer_t t = ktap_armed(w, record, 7, 10 * MS + 1);
	struct hwheel_event e;

	calls = 0;
	/* called, not written */
	CHECK_EQ(hwheel_advance(w, 11 * MS, &e, 1, NULL), 0);
	CHECK_EQ(calls, 1);
	CHECK_EQ(seen.timer, t);
	CHECK_EQ(seen.cookie, 7);
	CHECK_DUE(seen.deadline_ns, 10 * MS + 1, MS);
	CHECK_EQ(seen.missed, 0);
	CHECK_EQ(seen.flags, 0);
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
	hwheel_timer_t t = ktap_timer(w);

	CHECK_EQ(hwheel_timer_mod(w, t, 10 * MS, 0), 0);
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
	uint64_t ns = JUNK;
	struct hwheel_event e;

	CHECK_EQ(hwheel_timer_mod(w, t, 10 * MS, HWHEEL_IF_PENDING), 0);
	CHECK_EQ(hwheel_timer_pending(w, t), 0);
	CHECK_EQ(hwheel_timer_remaining(w, t, &ns), 0);
	CHECK_EQ(ns, JUNK);
	CHECK_EQ(hwheel_advance(w, SEC, &e, 1, NULL), 0);
	CHECK_EQ(hwheel_timer_mod(w, t, 10 * MS, 0), 0);
	CHECK_EQ(hwheel_timer_mod(w, t, 20 * MS, HWHEEL_IF_PENDING), 1);
	CHECK_EQ(ktap_left(w, t), 20 * MS);
	fires_at(w, t, SEC + 20 * MS);
	CHECK_EQ(hwheel_timer_mod(w, t, 10 * MS, HWHEEL_IF_PENDING), 0);
	CHECK_EQ(hwheel_timer_pending(w, t), 0);
}

WHEEL_TEST(remaining_runs_down_to_zero, ktap_manual(10 * MS, 0, 0, 0))
{
	hwheel_timer_t t = ktap_timer(w);
	struct hwheel_event e;

	CHECK_EQ(hwheel_timer_mod(w, t, 25 * MS, 0), 0);
	CHECK_DUE(ktap_left(w, t), 25 * MS, 10 * MS);
	CHECK_EQ(hwheel_advance(w, 10 * MS, &e, 1, NULL), 0);
	CHECK_DUE(ktap_left(w, t), 15 * MS, 10 * MS);
	CHECK_EQ(hwheel_advance(w, 25 * MS - 1, &e, 1, NULL), 0);
	CHECK_DUE(ktap_left(w, t), 1, 10 * MS);
	/* due, but its tick has not come */
	CHECK_EQ(hwheel_advance(w, 29 * MS, &e, 1, NULL), 0);
	CHECK_DUE(ktap_left(w, t), 0, 10 * MS);
	CHECK_EQ(hwheel_timer_pending(w, t), 1);
	CHECK_EQ(hwheel_advance(w, 30 * MS, &e, 1, NULL), 1);
}
