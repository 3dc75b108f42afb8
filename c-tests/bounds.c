/* Bounds of a call that drives, and whether it left work. */
#include "events.h"

static struct hwheel_run at_most(uint64_t fired, uint64_t ns)
{
	return (struct hwheel_run){
		.size = sizeof(struct hwheel_run), .left = 77, .max_fired = fired, .max_ns = ns,
	};
}

static unsigned calls, disorder;
static uint64_t latest;

/* In the order of the ticks. */
static void count(struct hwheel *w, const struct hwheel_event *e)
{
	disorder += e->deadline_ns < latest;
	latest = e->deadline_ns;
	calls++;
}

static struct hwheel *wheel(void)
{
	calls = disorder = 0;
	latest = 0;
	return ktap_manual(0, 0, 0, 0);
}

static void dawdle(struct hwheel *w, const struct hwheel_event *e)
{
	count(w, e);
	ktap_sleep_ms(2);
}

WHEEL_TEST(a_call_stops_after_so_many_and_the_next_continues_in_order, wheel())
{
	struct hwheel_run run = at_most(3, 0);

	for (uint64_t i = 0; i < 10; i++)
		CHECK_EQ(hwheel_once(w, (1 + i / 4) * MS, count, i, 0, NULL), 0);
	for (unsigned want = 3; want < 10; want += 3) {
		CHECK_EQ(hwheel_advance(w, 9 * MS, NULL, 0, &run), 0);
		CHECK_EQ(calls, want);
		CHECK_EQ(run.left, 1);
		CHECK(ktap_next(w) <= 9 * MS);
	}
	CHECK_EQ(hwheel_advance(w, 9 * MS, NULL, 0, &run), 0);
	CHECK_EQ(calls, 10);
	CHECK_EQ(disorder, 0);
	CHECK_EQ(run.left, 0);
}

/* Each call has its own bounds, and one without any does it all. */
WHEEL_TEST(the_next_call_has_bounds_of_its_own, wheel())
{
	struct hwheel_run one = at_most(1, 0), none = at_most(0, 0);

	arm_some(w, 10, MS, count);
	CHECK_EQ(hwheel_advance(w, 9 * MS, NULL, 0, &one), 0);
	CHECK_EQ(calls, 1);
	CHECK_EQ(hwheel_advance(w, 9 * MS, NULL, 0, &none), 0);
	CHECK_EQ(none.left, 0);
	CHECK_EQ(calls, 10);
	arm_some(w, 10, MS, count);
	CHECK_EQ(hwheel_advance(w, 20 * MS, NULL, 0, NULL), 0);
	CHECK_EQ(calls, 20);
}

WHEEL_TEST(a_call_stops_after_so_long, wheel())
{
	struct hwheel_run run = at_most(0, MS);
	unsigned rounds = 0;

	if (KTAP_EMULATED)
		SKIP("the emulator may need more than the time limit before the first callback");
	arm_some(w, 5, MS, dawdle);
	do {
		CHECK_EQ(hwheel_advance(w, 1 * MS, NULL, 0, &run), 0);
		rounds++;
		/* one callback takes longer than that */
		CHECK_EQ(calls, rounds < 5 ? rounds : 5);
	} while (run.left);
	CHECK_EQ(calls, 5);
}

/* As long as there is time, it goes on. */
WHEEL_TEST(a_call_with_time_left_does_it_all, wheel())
{
	struct hwheel_run run = at_most(0, 3600 * SEC);

	for (uint64_t i = 0; i < 1000; i += 2) {
		CHECK_EQ(hwheel_once(w, (1 + i) * MS, count, i, 0, NULL), 0);
		ktap_armed(w, count, i + 1, (2 + i) * MS);
	}
	CHECK_EQ(hwheel_advance(w, SEC, NULL, 0, &run), 0);
	CHECK_EQ(calls, 1000);
	CHECK_EQ(disorder, 0);
	CHECK_EQ(run.left, 0);
}

/* A timer that is moved to ever earlier times leaves slots without timers. */
static void leave_slots(struct hwheel *w, hwheel_timer_t t)
{
	for (uint64_t i = 20000; i > 1; i--) {
		CHECK_EQ(hwheel_timer_mod(w, t, i * MS, HWHEEL_ABS), i < 20000);
		CHECK_EQ(hwheel_advance(w, 0, NULL, 0, NULL), 0);
	}
}

/* The number of calls, each of which stops as soon as it can. */
static int calls_until(struct hwheel *w, uint64_t now_ns)
{
	struct hwheel_run run = at_most(0, 1);
	int rounds = 0;

	do {
		CHECK_EQ(hwheel_advance(w, now_ns, NULL, 0, &run), 0);
		CHECK(!run.left || run.next_ns <= now_ns);
		rounds++;
	} while (run.left);
	CHECK_EQ(run.next_ns, HWHEEL_NEVER);
	return rounds;
}

static void stop_among_slots(uint64_t now_ns)
{
	for (uint32_t owned = 0; owned < 2; owned++) {
		WHEEL w = MADE(.clock = HWHEEL_CLOCK_MANUAL, .slots = 65536, .levels = 1,
			       .owned = owned);
		hwheel_timer_t t = ktap_timer_of(w, count, 0);

		calls = 0;
		leave_slots(w, t);
		CHECK(calls_until(w, now_ns) > 100);
		CHECK_EQ(calls, 1);
	}
}

/* Most slots lie behind the time, where a call looks for the next timer; or before it. */
TEST_OF(a_call_stops_among_slots_that_timers_have_left, stop_among_slots(2 * MS))
TEST_OF(a_call_stops_on_its_way_through_slots_that_timers_have_left,
	stop_among_slots(19000 * MS))

/* Work that fires nothing counts as well: entries of timers that were moved, and notes. */
MANUAL_TEST(a_call_stops_among_timers_that_are_not_due)
{
	struct hwheel_run run = at_most(0, 1);
	hwheel_timer_t t;
	int rounds = 0;

	for (int i = 0; i < 5000; i++) {
		CHECK_EQ(hwheel_once(w, 1 * SEC, NULL, 0, 0, &t), 0);
		CHECK_EQ(hwheel_timer_mod(w, t, 9 * SEC, 0), 1);
	}
	do {
		CHECK_EQ(hwheel_advance(w, 2 * SEC, NULL, 0, &run), 0);
		rounds++;
	} while (run.left);
	CHECK(rounds > 10);
	/* Also where they come nearer, before any of them is due. */
	rounds = 0;
	do {
		CHECK_EQ(hwheel_advance(w, 9 * SEC, NULL, 0, &run), 0);
		rounds++;
	} while (stats(w).fired == 0 && run.left);
	CHECK(rounds > 10);
	CHECK_EQ(hwheel_advance(w, 9 * SEC, NULL, 0, NULL), 0);
	CHECK_EQ(stats(w).fired, 5000);
}

MANUAL_TEST(a_full_array_says_that_work_is_left)
{
	struct hwheel_run run = at_most(0, 0);
	struct hwheel_event e[4];

	arm_some(w, 6, MS, NULL);
	CHECK_EQ(hwheel_advance(w, MS, e, 4, &run), 4);
	CHECK_EQ(run.left, 1);
	CHECK_EQ(hwheel_advance(w, MS, e, 4, &run), 2);
	CHECK_EQ(run.left, 0);
}

/* An earlier time leaves the clock where it is; what was left is run. */
MANUAL_TEST(what_is_due_runs_without_moving_the_clock)
{
	struct hwheel_run run = at_most(2, 0);
	struct hwheel_event e[8];

	arm_some(w, 5, MS, NULL);
	CHECK_EQ(hwheel_once(w, 6 * MS, NULL, 9, 0, NULL), 0);
	CHECK_EQ(hwheel_advance(w, 5 * MS, e, 8, &run), 2);
	CHECK_EQ(run.left, 1);
	CHECK_EQ(hwheel_advance(w, 0, e, 8, NULL), 3);
	CHECK_EQ(ktap_now(w), 5 * MS);
	no_event(w, 0);
	CHECK_EQ(one_event(w, 6 * MS).cookie, 9);
}

CLOCK_TEST(a_system_clock_has_bounds_too)
{
	struct hwheel_run run = at_most(3, 0);
	struct hwheel_event e[8];

	CHECK(hwheel_fd(w) >= 0);
	arm_some(w, 5, 0, NULL);
	ktap_sleep_ms(5);
	CHECK_EQ(hwheel_poll(w, e, 8, &run), 3);
	CHECK_EQ(run.left, 1);
	CHECK_EQ(hwheel_poll(w, e, 8, &run), 2);
	CHECK_EQ(run.left, 0);
}

MANUAL_TEST(wrong_bounds_are_refused_and_nothing_runs)
{
	struct { struct hwheel_run known; uint64_t tail; } newer;
	struct hwheel_run run;
	struct hwheel_event e;

	CHECK_EQ(hwheel_once(w, MS, NULL, 0, 0, NULL), 0);
	for (uint32_t size = 0; size < 8; size++) {
		run = at_most(1, 0);
		run.size = size;
		CHECK_EQ(hwheel_advance(w, SEC, &e, 1, &run), -EINVAL);
		CHECK_EQ(run.left, 77);
	}
	run = at_most(0, UINT64_C(1) << 63);
	CHECK_EQ(hwheel_advance(w, SEC, &e, 1, &run), -EINVAL);
	memset(&newer, 0, sizeof newer);
	newer.known = at_most(1, 0);
	newer.known.size = sizeof newer;
	newer.tail = 1;
	CHECK_EQ(hwheel_advance(w, SEC, &e, 1, &newer.known), -E2BIG);
	CHECK_EQ(ktap_now(w), 0);
	newer.tail = 0;
	CHECK_EQ(hwheel_advance(w, SEC, &e, 1, &newer.known), 1);
	/* the shortest: no bounds */
	run = at_most(1, 0);
	run.size = 8;
	arm_some(w, 2, MS, NULL);
	CHECK_EQ(hwheel_advance(w, 2 * SEC, NULL, 0, &run), 0);
	CHECK_EQ(run.left, 0);
	CHECK_EQ(stats(w).unclaimed, 2);
}

/*
 * Each turn arms more new timers than its call can take. Those that are due fire all the same, and
 * the first of them first, though it was armed last.
 */
WHEEL_TEST(notes_do_not_keep_a_due_timer_waiting, wheel())
{
	struct hwheel_run run = at_most(0, 1);
	unsigned turns = 0;

	for (uint64_t i = 0; i < 60; i++)
		CHECK_EQ(hwheel_once(w, (300 - i) * MS, count, i, 0, NULL), 0);
	for (uint64_t now = SEC; calls < 60; now += MS) {
		CHECK(++turns < 100);
		for (uint64_t i = 0; i < 100; i++)
			CHECK_EQ(hwheel_once(w, 3600 * SEC + i * SEC, NULL, 0, 0, NULL), 0);
		CHECK_EQ(hwheel_advance(w, now, NULL, 0, &run), 0);
	}
	CHECK_EQ(disorder, 0);
}

/* With a tick of a microsecond, a jump of centuries has many steps. */
WHEEL_TEST(a_jump_of_the_clock_is_bounded_too, ktap_manual(1000, 0, 0, 0))
{
	CHECK(calls_until(w, (UINT64_C(1) << 63) - 1) > 1000);
}

/* Also a bound that has more than 32 bits. */
TEST(no_bound_is_too_large)
{
	const uint64_t most = UINT64_C(1) << 32;
	struct hwheel_run run = at_most(most, 0);

	if (getenv("HWHEEL_LONG") == NULL)
		SKIP("HWHEEL_LONG=1 fires 2^32 timers, which takes minutes");

	WHEEL w = ktap_manual(1000, 0, 0, 0);

	CHECK_EQ(hwheel_every(w, 1000, 1000, 0, NULL, 0, HWHEEL_MISSED_BURST, NULL), 0);
	CHECK_EQ(hwheel_advance(w, (most + 1000) * 1000, NULL, 0, &run), 0);
	CHECK_EQ(stats(w).fired, most);
	CHECK_EQ(run.left, 1);
}
