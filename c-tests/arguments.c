/* Bad arguments of every function: the error, and no output written. */
#include "calls.h"
#include "events.h"

static void on_call(struct hwheel *w, const struct hwheel_event *e)
{
}

TEST(no_wheel_is_refused_everywhere)
{
	ALL_RETURN(NULL, owners_only, -EINVAL);
	ALL_RETURN(NULL, readers, -EINVAL);
}

MANUAL_TEST(a_needed_output_is_not_null)
{
	hwheel_timer_t t = ktap_armed(w, NULL, 0, SEC);

	CHECK_EQ(hwheel_now(w, NULL), -EINVAL);
	CHECK_EQ(hwheel_next_expiry(w, NULL), -EINVAL);
	CHECK_EQ(hwheel_get_stats(w, NULL), -EINVAL);
	CHECK_EQ(hwheel_timer_setup(w, NULL, 0, NULL), -EINVAL);
	CHECK_EQ(hwheel_timer_remaining(w, t, NULL), -EINVAL);
	CHECK_EQ(hwheel_advance(w, SEC, NULL, 1, NULL), -EINVAL);
	CHECK_EQ(hwheel_drain(w, NULL, 1), -EINVAL);
	/* nothing has changed */
	CHECK_EQ(hwheel_timer_pending(w, t), 1);
	CHECK_EQ(hwheel_timer_mod(w, t, SEC, 0), 1);
}

MANUAL_TEST(unknown_flags_are_refused_and_change_nothing)
{
	hwheel_timer_t t = ktap_armed(w, NULL, 0, SEC), made = JUNK;
	uint64_t time = 0;

	for (int bit = 0; bit < 32; bit++) {
		uint32_t flag = UINT32_C(1) << bit;
		int abs = flag == HWHEEL_ABS;
		int condition = flag == HWHEEL_REDUCE || flag == HWHEEL_IF_PENDING;
		int missed = flag == HWHEEL_MISSED_BURST || flag == HWHEEL_MISSED_DELAY;

		if (!abs) {
			CHECK_EQ(hwheel_once(w, MS, NULL, 0, flag, &made), -EINVAL);
			CHECK_EQ(hwheel_once(w, MS, NULL, 0, flag | HWHEEL_ABS, &made), -EINVAL);
			CHECK_EQ(hwheel_timer_mod_range(w, t, MS, MS, flag), -EINVAL);
			CHECK_EQ(hwheel_key_set(w, NUMBER(1), MS, NULL, 0, flag), -EINVAL);
			CHECK_EQ(hwheel_key_mod(w, NUMBER(1), MS, flag), -EINVAL);
			CHECK_EQ(hwheel_key_mod(w, NUMBER(1), MS, flag | HWHEEL_ABS), -EINVAL);
		}
		if (!abs && !condition) {
			CHECK_EQ(hwheel_timer_mod(w, t, MS, flag), -EINVAL);
			CHECK_EQ(hwheel_timer_mod(w, t, MS, flag | HWHEEL_ABS), -EINVAL);
			CHECK_EQ(hwheel_timer_mod(w, t, MS, flag | HWHEEL_REDUCE), -EINVAL);
			CHECK_EQ(hwheel_timer_mod(w, t, MS, flag | HWHEEL_IF_PENDING), -EINVAL);
			CHECK_EQ(hwheel_timer_mod_many(w, &t, &time, 1, flag, NULL), -EINVAL);
			CHECK_EQ(hwheel_timer_mod_many(w, &t, &time, 1, flag | HWHEEL_ABS, NULL), -EINVAL);
		}
		if (!abs && !missed)
			CHECK_EQ(hwheel_every(w, MS, MS, 0, NULL, 0, flag, &made), -EINVAL);
	}
	CHECK_EQ(hwheel_timer_mod(w, t, MS, HWHEEL_REDUCE | HWHEEL_IF_PENDING), -EINVAL);
	CHECK_EQ(hwheel_timer_mod_many(w, &t, &time, 1, HWHEEL_REDUCE | HWHEEL_IF_PENDING,
				       NULL), -EINVAL);
	CHECK_EQ(hwheel_every(w, MS, MS, 0, NULL, 0,
			      HWHEEL_MISSED_BURST | HWHEEL_MISSED_DELAY, &made), -EINVAL);
	CHECK_EQ(made, JUNK);
	CHECK_EQ(ktap_left(w, t), SEC);
	CHECK_EQ(stats(w).live, 1);
}

MANUAL_TEST(a_period_is_not_zero)
{
	hwheel_timer_t t = JUNK;

	CHECK_EQ(hwheel_every(w, MS, 0, 0, NULL, 0, 0, &t), -EINVAL);
	CHECK_EQ(hwheel_every(w, MS, 0, 0, NULL, 0, HWHEEL_MISSED_BURST, &t), -EINVAL);
	CHECK_EQ(hwheel_every(w, MS, 0, 0, NULL, 0, HWHEEL_MISSED_DELAY, &t), -EINVAL);
	CHECK_EQ(t, JUNK);
}

MANUAL_TEST(a_batch_has_a_size_that_can_be_returned)
{
	WHEEL system = ktap_made(NULL);
	struct hwheel_event e;

	CHECK_EQ(hwheel_once(w, MS, NULL, 0, 0, NULL), 0);
	CHECK_EQ(hwheel_advance(w, SEC, &e, UINT32_C(2147483648), NULL), -EINVAL);
	CHECK_EQ(hwheel_advance(w, SEC, &e, UINT32_MAX, NULL), -EINVAL);
	CHECK_EQ(hwheel_poll(system, &e, UINT32_C(2147483648), NULL), -EINVAL);
	CHECK_EQ(hwheel_drain(w, &e, UINT32_C(2147483648)), -EINVAL);
	CHECK_EQ(hwheel_drain(w, &e, 0), -EINVAL);
	CHECK_EQ(hwheel_drain(w, NULL, 0), -EINVAL);
	CHECK_EQ(hwheel_poll(system, NULL, 1, NULL), -EINVAL);
	CHECK_EQ(hwheel_poll(system, NULL, 0, NULL), 0);
	/* the clock has not moved, and the wheel still takes timers */
	CHECK_EQ(ktap_now(w), 0);
	CHECK_EQ(hwheel_once(w, MS, NULL, 0, 0, NULL), 0);
}

MANUAL_TEST(a_manual_wheel_is_not_driven_by_a_system_clock)
{
	struct hwheel_event e;

	CHECK_EQ(hwheel_poll(w, &e, 1, NULL), -EINVAL);
	CHECK_EQ(hwheel_poll(w, NULL, 0, NULL), -EINVAL);
	CHECK_EQ(hwheel_fd(w), -EINVAL);
	CHECK_EQ(hwheel_start(w), -EINVAL);
	CHECK_EQ(hwheel_stop(w), 0);
}

CLOCK_TEST(a_system_clock_is_not_advanced)
{
	struct hwheel_event e;

	CHECK_EQ(hwheel_advance(w, INT64_MAX, &e, 1, NULL), -EINVAL);
	CHECK_EQ(hwheel_advance(w, 0, NULL, 0, NULL), -EINVAL);
}

/* A time of 2^63 or above is a negative number that was cast: an error everywhere. */

static const uint64_t negative[] = {
	UINT64_C(1) << 63, (UINT64_C(1) << 63) + 1, HWHEEL_NEVER - HWHEEL_SEC,
	HWHEEL_NEVER - 1,
};

#define EACH(i) for (size_t i = 0; i < COUNT(negative); i++)

TEST(a_negative_time_arms_nothing)
{
	static const uint32_t flags[] = {
		0, HWHEEL_ABS, HWHEEL_REDUCE, HWHEEL_IF_PENDING,
		HWHEEL_ABS | HWHEEL_REDUCE, HWHEEL_ABS | HWHEEL_IF_PENDING,
	};
	WHEEL w = ktap_manual(0, 0, 0, 5 * SEC);
	hwheel_timer_t t = ktap_timer(w);

	for (int pending = 0; pending < 2; pending++) {
		EACH(i) {
			for (size_t f = 0; f < COUNT(flags); f++)
				CHECK_EQ(hwheel_timer_mod(w, t, negative[i], flags[f]), -EINVAL);
			CHECK_EQ(hwheel_timer_mod_range(w, t, negative[i], MS, 0), -EINVAL);
			CHECK_EQ(hwheel_timer_mod_range(w, t, MS, negative[i], 0), -EINVAL);
			CHECK_EQ(hwheel_timer_mod_range(w, t, negative[i], 0, HWHEEL_ABS), -EINVAL);
			CHECK_EQ(hwheel_timer_set_period(w, t, negative[i]), -EINVAL);
		}
		CHECK_EQ(hwheel_timer_pending(w, t), pending);
		CHECK_EQ(hwheel_timer_mod(w, t, SEC, 0), pending);
		CHECK_EQ(ktap_left(w, t), SEC);
	}
}

MANUAL_TEST(a_negative_time_makes_nothing)
{
	hwheel_timer_t t = 77;

	EACH(i) {
		CHECK_EQ(hwheel_once(w, negative[i], NULL, 0, 0, &t), -EINVAL);
		CHECK_EQ(hwheel_once(w, negative[i], NULL, 0, HWHEEL_ABS, &t), -EINVAL);
		CHECK_EQ(hwheel_every(w, negative[i], MS, 0, NULL, 0, 0, &t), -EINVAL);
		CHECK_EQ(hwheel_every(w, MS, negative[i], 0, NULL, 0, 0, &t), -EINVAL);
		CHECK_EQ(hwheel_every(w, MS, MS, negative[i], NULL, 0, 0, &t), -EINVAL);
		CHECK_EQ(hwheel_every(w, negative[i], MS, 0, NULL, 0, HWHEEL_ABS, &t), -EINVAL);
		CHECK_EQ(hwheel_key_set(w, NUMBER(1), negative[i], NULL, 0, 0), -EINVAL);
		CHECK_EQ(hwheel_key_set(w, NUMBER(1), negative[i], NULL, 0, HWHEEL_ABS), -EINVAL);
	}
	CHECK_EQ(t, 77);
	CHECK_EQ(stats(w).live, 0);
}

MANUAL_TEST(a_negative_time_does_not_move_a_key)
{
	CHECK_EQ(hwheel_key_set(w, NUMBER(1), MS, NULL, 1, 0), 0);
	EACH(i) {
		CHECK_EQ(hwheel_key_mod(w, NUMBER(1), negative[i], 0), -EINVAL);
		CHECK_EQ(hwheel_key_mod(w, NUMBER(1), negative[i], HWHEEL_ABS), -EINVAL);
		CHECK_EQ(hwheel_key_set(w, NUMBER(1), negative[i], NULL, 2, 0), -EINVAL);
	}
	CHECK_EQ(one_event(w, MS).cookie, 1);
}

TEST(a_negative_time_among_many_stops_none_of_the_others)
{
	static const uint32_t flags[] = { 0, HWHEEL_ABS, HWHEEL_REDUCE, HWHEEL_ABS | HWHEEL_REDUCE };

	for (size_t f = 0; f < COUNT(flags); f++) {
		WHEEL w = ktap_manual(0, 0, 0, 0);
		hwheel_timer_t t[3];
		int32_t results[3] = { 77, 77, 77 };

		for (int i = 0; i < 3; i++)
			t[i] = ktap_timer(w);
		EACH(i) {
			uint64_t times[3] = { MS, negative[i], HWHEEL_NEVER };

			CHECK_EQ(hwheel_timer_mod_many(w, t, times, 3, flags[f], results), 2);
			CHECK_EQ(results[0], i > 0);
			CHECK_EQ(results[1], -EINVAL);
			CHECK_EQ(results[2], i > 0);
			CHECK_EQ(hwheel_timer_pending(w, t[1]), 0);
		}
	}
}

/* Never is a time to wait for, not one that a clock can show. */
WHEEL_TEST(a_manual_clock_takes_no_negative_time_and_no_never, ktap_manual(0, 0, 0, 5 * SEC))
{
	struct hwheel_event e;

	CHECK_EQ(hwheel_once(w, 0, NULL, 0, 0, NULL), 0);
	EACH(i)
		CHECK_EQ(hwheel_advance(w, negative[i], &e, 1, NULL), -EINVAL);
	CHECK_EQ(hwheel_advance(w, HWHEEL_NEVER, &e, 1, NULL), -EINVAL);
	CHECK_EQ(ktap_now(w), 5 * SEC);
	CHECK_EQ(stats(w).fired, 0);
	CHECK_EQ(hwheel_advance(w, INT64_MAX, &e, 1, NULL), 1);
}

/* Nor can a wheel be made of one, and no call is bounded by one. */
MANUAL_TEST(an_option_or_a_bound_is_not_negative)
{
	WHEEL system = ktap_made(NULL);
	struct hwheel *none = NULL;
	struct hwheel_event e;

	CHECK_EQ(hwheel_once(w, MS, NULL, 0, 0, NULL), 0);
	EACH(i) {
		struct hwheel_options start = {
			.size = sizeof start, .clock = HWHEEL_CLOCK_MANUAL,
			.start_ns = negative[i],
		};
		struct hwheel_options tick = { .size = sizeof tick, .tick_ns = negative[i] };
		struct hwheel_run run = { .size = sizeof run, .left = 77, .max_ns = negative[i] };

		CHECK_EQ(hwheel_create(&start, &none), -EINVAL);
		CHECK_EQ(hwheel_create(&tick, &none), -EINVAL);
		CHECK_EQ(hwheel_advance(w, MS, &e, 1, &run), -EINVAL);
		CHECK_EQ(hwheel_poll(system, &e, 1, &run), -EINVAL);
		CHECK_EQ(run.left, 77);
	}
	CHECK(none == NULL);
	CHECK_EQ(stats(w).fired, 0);
}

/* HWHEEL_NEVER, and delays that reach beyond the clock. */

static void never(struct hwheel *w, hwheel_timer_t t)
{
	CHECK_EQ(hwheel_timer_pending(w, t), 1);
	CHECK_EQ(ktap_left(w, t), HWHEEL_NEVER);
	CHECK_EQ(ktap_next(w), HWHEEL_NEVER);
	no_event(w, INT64_MAX);
	CHECK_EQ(hwheel_timer_pending(w, t), 1);
	CHECK_EQ(hwheel_timer_delete(w, t), 1);
}

/* Each call that arms a timer. */
TEST(armed_for_never_it_does_not_fire)
{
	for (uint32_t levels = 0; levels <= 1; levels++) {
		for (int way = 0; way < 6; way++) {
			WHEEL w = ktap_manual(0, levels, 0, 5 * SEC);
			hwheel_timer_t t = way < 3 ? ktap_timer(w) : 0;
			const int got =
				way == 0 ? hwheel_timer_mod(w, t, HWHEEL_NEVER, 0) :
				way == 1 ? hwheel_timer_mod(w, t, HWHEEL_NEVER, HWHEEL_ABS) :
				way == 2 ? hwheel_timer_mod(w, t, HWHEEL_NEVER, HWHEEL_REDUCE) :
				way == 3 ? hwheel_once(w, HWHEEL_NEVER, NULL, 0, 0, &t) :
				way == 4 ? hwheel_once(w, HWHEEL_NEVER, NULL, 0, HWHEEL_ABS, &t) :
					   hwheel_every(w, HWHEEL_NEVER, SEC, 0, NULL, 0, 0, &t);

			CHECK_EQ(got, 0);
			never(w, t);
		}
	}
}

/* The longest delay there is, from a time that is not the first. */
WHEEL_TEST(a_delay_beyond_the_end_of_time_does_not_wrap, ktap_manual(0, 0, 0, 5 * SEC))
{
	hwheel_timer_t t = ktap_armed(w, NULL, 0, INT64_MAX);

	CHECK(ktap_left(w, t) >= INT64_MAX);
	no_event(w, INT64_MAX);
	CHECK_EQ(hwheel_timer_pending(w, t), 1);
}

MANUAL_TEST(from_never_to_soon_and_back)
{
	hwheel_timer_t t = ktap_armed(w, NULL, 0, HWHEEL_NEVER);

	CHECK_EQ(hwheel_timer_mod(w, t, 10 * MS, 0), 1);
	CHECK_EQ(hwheel_timer_mod(w, t, HWHEEL_NEVER, 0), 1);
	no_event(w, SEC);
	CHECK_EQ(hwheel_timer_mod(w, t, 10 * MS, HWHEEL_IF_PENDING), 1);
	CHECK_EQ(hwheel_timer_mod(w, t, HWHEEL_NEVER, HWHEEL_IF_PENDING), 1);
	CHECK_EQ(hwheel_timer_mod(w, t, 10 * MS, HWHEEL_REDUCE), 1);
	one_event(w, SEC + 10 * MS);
	CHECK_EQ(hwheel_timer_mod(w, t, HWHEEL_NEVER, HWHEEL_IF_PENDING), 0);
	CHECK_EQ(hwheel_timer_pending(w, t), 0);
}

TEST(never_is_never_early_next_to_the_end)
{
	const uint64_t end = INT64_MAX;
	WHEEL w = ktap_manual(SEC, 0, 0, end - 10 * SEC);

	/* the last seconds before the end are times like any other */
	CHECK_EQ(hwheel_once(w, 2 * SEC, NULL, 1, 0, NULL), 0);
	CHECK_EQ(hwheel_once(w, HWHEEL_NEVER, NULL, 2, 0, NULL), 0);
	no_event(w, end - 8 * SEC - 1);
	CHECK_EQ(one_event(w, end - 6 * SEC).cookie, 1);
	no_event(w, end);
}

/* A deadline below 2^63 whose tick ends after it. */
MANUAL_TEST(a_deadline_in_the_last_tick_is_never)
{
	hwheel_timer_t t = ktap_timer(w);

	CHECK_EQ(hwheel_timer_mod(w, t, INT64_MAX, HWHEEL_ABS), 0);
	CHECK_EQ(ktap_next(w), HWHEEL_NEVER);
	CHECK_EQ(ktap_left(w, t), HWHEEL_NEVER);
}
