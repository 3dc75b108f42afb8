/* hwheel_advance(): order, batches, the clock that does not go back, one driver at a time. */
#include "events.h"

static const struct shape {
	uint32_t levels, slots;
} shapes[] = { { 1, 2 }, { 1, 256 }, { 2, 4 }, { 3, 16 }, { 8, 64 }, { 0, 0 } };
enum { SHAPES = COUNT(shapes) };

static uint64_t dice = 88172645463325252u;

WHEEL_TEST(the_clock_is_what_was_said, ktap_manual(0, 0, 0, 5))
{
	CHECK_EQ(ktap_now(w), 5);
	CHECK_EQ(hwheel_advance(w, 12345678901, NULL, 0, NULL), 0);
	CHECK_EQ(ktap_now(w), 12345678901);
}

MANUAL_TEST(a_step_back_is_held)
{
	struct hwheel_event e;

	CHECK_EQ(hwheel_advance(w, SEC, NULL, 0, NULL), 0);
	CHECK_EQ(hwheel_advance(w, 0, &e, 1, NULL), 0);
	CHECK_EQ(ktap_now(w), SEC);
	CHECK_EQ(hwheel_advance(w, SEC - 1, &e, 1, NULL), 0);
	CHECK_EQ(ktap_now(w), SEC);
	/* delays count from the held time */
	ktap_armed(w, NULL, 0, 10 * MS);
	CHECK_EQ(hwheel_advance(w, 10 * MS, &e, 1, NULL), 0);
	CHECK_EQ(hwheel_advance(w, SEC + 9 * MS, &e, 1, NULL), 0);
	CHECK_EQ(hwheel_advance(w, SEC + 10 * MS, &e, 1, NULL), 1);
	/* what is due at the held time is fired by a step back as well */
	CHECK_EQ(hwheel_once(w, SEC + 11 * MS, NULL, 1, HWHEEL_ABS, NULL), 0);
	CHECK_EQ(hwheel_once(w, SEC + 11 * MS, NULL, 2, HWHEEL_ABS, NULL), 0);
	CHECK_EQ(hwheel_advance(w, SEC + 11 * MS, &e, 1, NULL), 1);
	CHECK_EQ(hwheel_advance(w, 0, &e, 1, NULL), 1);
}

static unsigned calls;
static uint64_t last;

static void in_order(struct hwheel *w, const struct hwheel_event *e)
{
	uint64_t tick = (e->deadline_ns + MS - 1) / MS;

	/* tick 0 has been swept: what is due then fires at 1 */
	tick = tick ? tick : 1;
	calls++;
	CHECK(last <= tick);
	last = tick;
}

TEST(timers_fire_in_the_order_of_their_ticks)
{
	enum { N = 3000 };
	static struct hwheel_event e[N];

	for (int s = 0; s < 2 * SHAPES; s++) {
		const int is_called = s % 2;
		WHEEL w = ktap_manual(0, shapes[s / 2].levels, shapes[s / 2].slots, 17 * MS);

		last = calls = 0;
		for (int i = 0; i < N; i++)
			CHECK_EQ(hwheel_once(w, ktap_dice(&dice) % (SEC << i % 12), is_called ? in_order : NULL,
					     0, 0, NULL), 0);
		/* after a stall, all at once */
		CHECK_EQ(hwheel_advance(w, 17 * MS + (SEC << 12), e, N, NULL), is_called ? 0 : N);
		for (int i = 0; i < N && !is_called; i++)
			in_order(w, &e[i]);
		CHECK_EQ(calls, N);
	}
}

/* Batches of every size: in order, each once, none lost. */
TEST(a_small_batch_is_resumed)
{
	enum { N = 500 };
	static unsigned seen[N];

	for (uint32_t max = 1; max <= 70; max += 1 + max / 4) {
		for (int s = 0; s < SHAPES; s++) {
			WHEEL w = ktap_manual(0, shapes[s].levels, shapes[s].slots, 0);
			struct hwheel_event e[80];
			int n;

			last = calls = 0;
			memset(seen, 0, sizeof seen);
			for (int i = 0; i < N; i++)
				CHECK_EQ(hwheel_once(w, ktap_dice(&dice) % 40 * MS * (1 + 10 * (uint64_t)(i % 3)),
						     NULL, (uint64_t)i, 0, NULL), 0);
			do {
				memset(e, 0xff, sizeof e);
				n = hwheel_advance(w, 2 * SEC, e, max, NULL);
				CHECK(n >= 0 && n <= (int)max);
				/* no more is written than was said */
				CHECK_EQ(e[n].cookie, UINT64_MAX);
				for (int k = 0; k < n; k++) {
					in_order(w, &e[k]);
					CHECK_EQ(seen[e[k].cookie]++, 0);
				}
			} while (n == (int)max);
			CHECK_EQ(calls, N);
			CHECK_EQ(hwheel_advance(w, 2 * SEC, e, max, NULL), 0);
		}
	}
}

MANUAL_TEST(between_batches_a_timer_can_be_cancelled_and_armed)
{
	struct hwheel_event e[4];
	hwheel_timer_t t[10];
	unsigned seen = 0;
	int n;

	for (int i = 0; i < 10; i++)
		t[i] = ktap_armed(w, NULL, (uint64_t)i, (uint64_t)(i + 1) * MS);
	CHECK_EQ(hwheel_advance(w, SEC, e, 4, NULL), 4);
	for (int i = 0; i < 4; i++)
		CHECK_EQ(e[i].cookie, i);
	/* due, but not yet handed over */
	CHECK_EQ(hwheel_timer_pending(w, t[5]), 1);
	CHECK_EQ(hwheel_timer_delete(w, t[5]), 1);
	CHECK_EQ(hwheel_timer_mod(w, t[7], 2 * SEC, HWHEEL_ABS), 1);
	ktap_armed(w, NULL, 10, 0);
	while ((n = hwheel_advance(w, SEC, e, 4, NULL)) > 0)
		for (int k = 0; k < n; k++)
			seen |= 1u << e[k].cookie;
	CHECK_EQ(seen, 1u << 4 | 1u << 6 | 1u << 8 | 1u << 9);
	CHECK_EQ(one_event(w, SEC + MS).cookie, 10);
	no_event(w, 2 * SEC - 1);
	CHECK_EQ(one_event(w, 2 * SEC).cookie, 7);
}

/* An interrupted batch goes on in order although the time has moved on. */
WHEEL_TEST(a_later_time_resumes_what_was_left, ktap_manual(0, 2, 4, 0))
{
	struct hwheel_event e;

	for (uint64_t i = 0; i < 300; i++)
		CHECK_EQ(hwheel_once(w, (300 - i) * MS, NULL, 300 - i, HWHEEL_ABS, NULL), 0);
	for (uint64_t i = 1; i <= 300; i++) {
		CHECK_EQ(hwheel_advance(w, 300 * MS + i * 7 * MS, &e, 1, NULL), 1);
		CHECK_EQ(e.cookie, i);
	}
	CHECK_EQ(hwheel_advance(w, 10 * SEC, &e, 1, NULL), 0);
}

MANUAL_TEST(without_room_events_are_unclaimed)
{
	struct hwheel_event e;
	hwheel_timer_t t = 0;

	for (int i = 0; i < 10; i++)
		CHECK_EQ(hwheel_once(w, (uint64_t)i * MS, NULL, 0, 0, NULL), 0);
	t = ktap_armed(w, NULL, 0, MS);
	/* the array is of no account */
	CHECK_EQ(hwheel_advance(w, 4 * MS, &e, 0, NULL), 0);
	CHECK_EQ(hwheel_advance(w, SEC, NULL, 0, NULL), 0);
	CHECK_EQ(hwheel_timer_pending(w, t), 0);
	CHECK_EQ(stats(w).unclaimed, 11);
	CHECK_EQ(stats(w).fired, 11);
	CHECK_EQ(stats(w).live, 1);
}

static struct hwheel *another;

static void drive_another(struct hwheel *w, const struct hwheel_event *e)
{
	CHECK_EQ(hwheel_advance(another, SEC, NULL, 0, NULL), 0);
	CHECK_EQ(hwheel_destroy(another), 0);
	another = NULL;
}

MANUAL_TEST(a_callback_may_drive_another_wheel)
{
	another = ktap_manual(0, 0, 0, 0);
	last = calls = 0;
	CHECK_EQ(hwheel_once(another, MS, in_order, 0, 0, NULL), 0);
	CHECK_EQ(hwheel_once(w, MS, drive_another, 0, 0, NULL), 0);
	CHECK_EQ(hwheel_advance(w, SEC, NULL, 0, NULL), 0);
	CHECK_EQ(calls, 1);
	CHECK(another == NULL);
}

/* The wheels and the timers that a callback arms, for 5 ms and 3 ms. */
static struct hwheel *armed_in[2];
static hwheel_timer_t armed_there[2];

static void arm_in_both(struct hwheel *w, const struct hwheel_event *e)
{
	for (int i = 0; i < 2; i++) {
		CHECK_EQ(hwheel_timer_mod(armed_in[i], armed_there[i], 5 * MS, HWHEEL_ABS), 0);
		CHECK_EQ(hwheel_once(armed_in[i], 3 * MS, in_order, 0, HWHEEL_ABS, NULL), 0);
	}
}

static void drive_the_second(struct hwheel *w, const struct hwheel_event *e)
{
	CHECK_EQ(hwheel_advance(armed_in[1], MS, NULL, 0, NULL), 0);
}

/* The wheel that is driven, one that is not, and one that is driven in a callback of another. */
TEST(a_callback_arms_timers_of_each_wheel)
{
	for (int nested = 0; nested < 2; nested++) {
		WHEEL first = ktap_manual(0, 0, 0, 0);
		WHEEL second = ktap_manual(0, 0, 0, 0);

		armed_in[0] = first;
		armed_in[1] = second;
		for (int i = 0; i < 2; i++)
			armed_there[i] = ktap_timer_of(armed_in[i], in_order, 0);
		if (nested)
			CHECK_EQ(hwheel_once(second, MS, arm_in_both, 0, 0, NULL), 0);
		CHECK_EQ(hwheel_once(first, MS, nested ? drive_the_second : arm_in_both, 0, 0, NULL),
			 0);
		CHECK_EQ(hwheel_advance(first, MS, NULL, 0, NULL), 0);
		for (int i = 0; i < 2; i++) {
			CHECK_EQ(ktap_next(armed_in[i]), 3 * MS);
			last = calls = 0;
			CHECK_EQ(hwheel_advance(armed_in[i], 4 * MS, NULL, 0, NULL), 0);
			CHECK_EQ(calls, 1);
			CHECK_EQ(hwheel_advance(armed_in[i], 5 * MS, NULL, 0, NULL), 0);
			CHECK_EQ(calls, 2);
		}
	}
}

static void *advance_to_a_second(void *w)
{
	hwheel_advance(w, SEC, NULL, 0, NULL);
	return NULL;
}

MANUAL_TEST(a_second_driver_is_refused)
{
	struct hwheel_event e;
	pthread_t thread;
	int same, later, drain;

	ktap_arm_hold(w, MS);
	CHECK_EQ(hwheel_once(w, MS, NULL, 0, 0, NULL), 0);
	ktap_begin(&thread, 1, advance_to_a_second, w);
	ktap_until(&ktap_held, 1);
	same = hwheel_advance(w, SEC, &e, 1, NULL);
	later = hwheel_advance(w, 3600 * SEC, &e, 1, NULL);
	drain = hwheel_drain(w, &e, 1);
	atomic_store(&ktap_may_go, 1);
	ktap_end(&thread, 1);
	CHECK_EQ(same, -EBUSY);
	CHECK_EQ(later, -EBUSY);
	CHECK_EQ(drain, -EBUSY);
	CHECK_EQ(ktap_now(w), SEC);
}

MANUAL_TEST(the_greatest_jump_fires_everything)
{
	struct hwheel_event e[70];

	for (int bit = 0; bit < 63; bit++)
		CHECK_EQ(hwheel_once(w, UINT64_C(1) << bit, NULL, (uint64_t)bit, HWHEEL_ABS, NULL), 0);
	/* so far away it may be late by a hundred millionth */
	CHECK_EQ(hwheel_once(w, INT64_MAX - INT64_MAX / 50000000, NULL, 63, HWHEEL_ABS, NULL), 0);
	CHECK_EQ(hwheel_advance(w, INT64_MAX, e, 70, NULL), 64);
	/* those below a tick may come in any order */
	for (int i = 20; i < 64; i++)
		CHECK_EQ(e[i].cookie, i);
	CHECK_EQ(hwheel_advance(w, INT64_MAX, e, 70, NULL), 0);
}

/* The cost of a leap: it grows with the timers that fire, not with its length. */

/* Where each 2^36 ticks were gone over it took most of a second. */
TEST(a_leap_over_nothing_takes_no_time)
{
	for (uint32_t levels = 1; levels <= 8; levels *= 2) {
		WHEEL w = ktap_manual(1000, levels, 64, 0);
		uint64_t begin;

		CHECK_EQ(hwheel_once(w, MS, NULL, 0, 0, NULL), 0);
		CHECK_EQ(hwheel_advance(w, 2 * MS, NULL, 0, NULL), 0);
		begin = ktap_cpu();
		CHECK_EQ(hwheel_advance(w, INT64_MAX, NULL, 0, NULL), 0);
		CHECK(ktap_cpu() - begin < (KTAP_SLOW ? 2 * SEC : 100 * MS));
	}
}

/* Where each of them was looked at again on the way it took 2.6 ms a timer. */
WHEEL_TEST(far_timers_are_not_gone_through_again_and_again, ktap_manual(1000, 1, 256, 0))
{
	static struct hwheel_event events[64];
	enum { TIMERS = 2000 };
	uint64_t begin, last = 0;
	int n, fired = 0;

	for (int i = 0; i < TIMERS; i++)
		CHECK_EQ(hwheel_once(w, ktap_dice(&dice) % (UINT64_C(1) << 54), NULL, 0, 0, NULL), 0);
	begin = ktap_cpu();
	do {
		n = hwheel_advance(w, UINT64_C(1) << 55, events, 64, NULL);
		CHECK(n >= 0);
		for (int i = 0; i < n; i++) {
			CHECK(events[i].deadline_ns >= last);
			last = events[i].deadline_ns;
		}
		fired += n;
	} while (n == 64);
	CHECK(ktap_cpu() - begin < SEC);
	CHECK_EQ(fired, TIMERS);
}
