/* hwheel_once(), hwheel_every(): timers that free themselves. */
#include "ktap.h"

static struct {
	unsigned calls;
	struct hwheel_event last;
	uint64_t stop_after;
} got;

static void record(struct hwheel *w, const struct hwheel_event *e)
{
	got.calls++;
	got.last = *e;
}

static void stale(struct hwheel *w, hwheel_timer_t t)
{
	CHECK_EQ(hwheel_timer_pending(w, t), -ESTALE);
	CHECK_EQ(hwheel_timer_delete(w, t), -ESTALE);
	CHECK_EQ(hwheel_timer_mod(w, t, MS, 0), -ESTALE);
	CHECK_EQ(stats(w).live, 0);
}

TEST(it_fires_once_and_is_gone)
{
	for (uint32_t flags = 0; flags <= HWHEEL_ABS; flags += HWHEEL_ABS) {
		WHEEL w = ktap_manual(0, 0, 0, 5 * MS);
		uint64_t due = flags == HWHEEL_ABS ? 10 * MS : 15 * MS;
		struct hwheel_event e[2];
		hwheel_timer_t t = ktap_once(w, 10 * MS, NULL, 9, flags);

		CHECK(t != 0);
		CHECK_EQ(hwheel_timer_pending(w, t), 1);
		CHECK_EQ(stats(w).live, 1);
		CHECK_EQ(hwheel_advance(w, due - 1, e, 2, NULL), 0);
		CHECK_EQ(hwheel_advance(w, due, e, 2, NULL), 1);
		CHECK_EQ(e[0].timer, t);
		CHECK_EQ(e[0].cookie, 9);
		CHECK_EQ(e[0].deadline_ns, due);
		CHECK_EQ(e[0].missed, 0);
		CHECK_EQ(e[0].flags, 0);
		stale(w, t);
		CHECK_EQ(hwheel_advance(w, SEC, e, 2, NULL), 0);
	}
}

MANUAL_TEST(a_callback_is_called_once)
{
	memset(&got, 0, sizeof got);
	hwheel_timer_t t = ktap_once(w, 10 * MS, record, 9, 0);
	CHECK_EQ(hwheel_advance(w, SEC, NULL, 0, NULL), 0);
	CHECK_AT(w, 2 * SEC, got.calls, 1);
	CHECK_EQ(got.last.timer, t);
	CHECK_EQ(got.last.cookie, 9);
	CHECK_EQ(got.last.deadline_ns, 10 * MS);
	stale(w, t);
}

MANUAL_TEST(nobody_needs_the_handle)
{
	struct hwheel_event e[4];

	CHECK_EQ(hwheel_once(w, MS, NULL, 1, 0, NULL), 0);
	CHECK_EQ(hwheel_once(w, 2 * MS, NULL, 2, HWHEEL_ABS, NULL), 0);
	CHECK_EQ(hwheel_every(w, 3 * MS, SEC, 0, NULL, 3, 0, NULL), 0);
	CHECK_EQ(hwheel_advance(w, 10 * MS, e, 4, NULL), 3);
	CHECK_EQ(e[0].cookie, 1);
	CHECK_EQ(e[1].cookie, 2);
	CHECK_EQ(e[2].cookie, 3);
}

MANUAL_TEST(delete_and_free_free_it)
{
	hwheel_timer_t t = 0;
	int (*const cancel[])(struct hwheel *, hwheel_timer_t) = {
		hwheel_timer_delete, hwheel_timer_delete_sync, hwheel_timer_free,
		hwheel_timer_shutdown, hwheel_timer_shutdown_sync,
	};

	for (size_t i = 0; i < COUNT(cancel); i++) {
		CHECK_EQ(hwheel_once(w, 10 * MS, NULL, 0, 0, &t), 0);
		CHECK_EQ(cancel[i](w, t), 1);
		CHECK_EQ(cancel[i](w, t), -ESTALE);
		stale(w, t);
		CHECK_EQ(hwheel_once(w, 10 * MS, NULL, 0, HWHEEL_ABS, &t), 0);
		CHECK_EQ(cancel[i](w, t), 1);
		stale(w, t);
		CHECK_EQ(hwheel_every(w, 10 * MS, MS, 0, NULL, 0, 0, &t), 0);
		CHECK_EQ(cancel[i](w, t), 1);
		stale(w, t);
	}
	CHECK_EQ(hwheel_advance(w, SEC, NULL, 0, NULL), 0);
	CHECK_EQ(stats(w).fired, 0);
}

MANUAL_TEST(it_can_be_moved_before_it_fires)
{
	struct hwheel_event e;
	hwheel_timer_t t = ktap_once(w, 10 * MS, NULL, 0, 0);

	CHECK_EQ(hwheel_timer_mod(w, t, 20 * MS, 0), 1);
	CHECK_EQ(hwheel_advance(w, 19 * MS, &e, 1, NULL), 0);
	CHECK_EQ(hwheel_advance(w, 20 * MS, &e, 1, NULL), 1);
	stale(w, t);
}

/* The cookie: whether the timer has a period. Then it is armed for the next one. */
static void cancel_self(struct hwheel *w, const struct hwheel_event *e)
{
	got.calls++;
	CHECK_EQ(hwheel_timer_pending(w, e->timer), e->cookie);
	CHECK_EQ(hwheel_timer_delete(w, e->timer), e->cookie);
	CHECK_EQ(hwheel_timer_delete(w, e->timer), -ESTALE);
	CHECK_EQ(hwheel_timer_mod(w, e->timer, MS, 0), -ESTALE);
}

MANUAL_TEST(a_callback_cancels_its_own_timer)
{
	hwheel_timer_t once = ktap_once(w, 10 * MS, cancel_self, 0, 0);
	hwheel_timer_t every = ktap_every(w, 10 * MS, 10 * MS, cancel_self, 1, 0);

	memset(&got, 0, sizeof got);
	CHECK_EQ(hwheel_advance(w, SEC, NULL, 0, NULL), 0);
	CHECK_AT(w, 2 * SEC, got.calls, 2);
	stale(w, once);
	stale(w, every);
}

static void arm_self(struct hwheel *w, const struct hwheel_event *e)
{
	got.calls++;
	if (got.calls < got.stop_after)
		CHECK_EQ(hwheel_timer_mod(w, e->timer, 10 * MS, 0), 0);
}

/* "Frees itself when it has fired": not if its callback arms it again. */
MANUAL_TEST(a_callback_arms_its_own_one_shot_again)
{
	memset(&got, 0, sizeof got);
	got.stop_after = 3;
	hwheel_timer_t t = ktap_once(w, 10 * MS, arm_self, 0, 0);
	CHECK_AT(w, 10 * MS, got.calls, 1);
	CHECK_EQ(hwheel_timer_pending(w, t), 1);
	CHECK_AT(w, 20 * MS, got.calls, 2);
	CHECK_AT(w, SEC, got.calls, 3);
	stale(w, t);
}

static void chain(struct hwheel *w, const struct hwheel_event *e)
{
	got.calls++;
	if (e->cookie > 0)
		CHECK_EQ(hwheel_once(w, MS, chain, e->cookie - 1, 0, NULL), 0);
}

MANUAL_TEST(a_callback_makes_the_next_one)
{
	memset(&got, 0, sizeof got);
	CHECK_EQ(hwheel_once(w, MS, chain, 99, 0, NULL), 0);
	for (uint64_t t = 1; t <= 100; t++) {
		CHECK_AT(w, t * MS, got.calls, t);
	}
	CHECK_EQ(stats(w).live, 0);
}
