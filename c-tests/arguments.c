/* Bad arguments of every function: the error, and no output written. */
#include "ktap.h"

#define JUNK UINT64_C(0x5a5a5a5a5a5a5a5a)

static void nothing(struct hwheel *w, const struct hwheel_event *e)
{
}

TEST(no_wheel_is_refused_everywhere)
{
	struct hwheel_event e;
	struct hwheel_stats s = { .size = sizeof s };
	hwheel_timer_t t = JUNK;
	uint64_t ns = JUNK;
	int32_t result = 77;

	CHECK_EQ(hwheel_now(NULL, &ns), -EINVAL);
	CHECK_EQ(hwheel_next_expiry(NULL, &ns), -EINVAL);
	CHECK_EQ(hwheel_get_stats(NULL, &s), -EINVAL);
	CHECK_EQ(hwheel_list(NULL, &ns, &e, 1), -EINVAL);
	CHECK_EQ(hwheel_run_queued(NULL), -EINVAL);
	CHECK_EQ(hwheel_timer_setup(NULL, nothing, 0, &t), -EINVAL);
	CHECK_EQ(hwheel_timer_mod(NULL, 1, 1, 0), -EINVAL);
	CHECK_EQ(hwheel_timer_mod(NULL, 1, 1, HWHEEL_ABS), -EINVAL);
	CHECK_EQ(hwheel_timer_mod(NULL, 1, 1, HWHEEL_REDUCE), -EINVAL);
	CHECK_EQ(hwheel_timer_mod(NULL, 1, 1, HWHEEL_IF_PENDING), -EINVAL);
	CHECK_EQ(hwheel_timer_mod_range(NULL, 1, 1, 1, 0), -EINVAL);
	CHECK_EQ(hwheel_timer_set_period(NULL, 1, 1), -EINVAL);
	CHECK_EQ(hwheel_timer_mod_many(NULL, &t, &ns, 1, 0, &result), -EINVAL);
	CHECK_EQ(hwheel_timer_delete_many(NULL, &t, 1, &result), -EINVAL);
	CHECK_EQ(hwheel_key_set(NULL, NUMBER(1), 1, nothing, 0, 0), -EINVAL);
	CHECK_EQ(hwheel_key_mod(NULL, NUMBER(1), 1, 0), -EINVAL);
	CHECK_EQ(hwheel_key_delete(NULL, NUMBER(1)), -EINVAL);
	CHECK_EQ(hwheel_key_pending(NULL, NUMBER(1)), -EINVAL);
	CHECK_EQ(hwheel_timer_delete(NULL, 1), -EINVAL);
	CHECK_EQ(hwheel_timer_delete_sync(NULL, 1), -EINVAL);
	CHECK_EQ(hwheel_timer_shutdown(NULL, 1), -EINVAL);
	CHECK_EQ(hwheel_timer_shutdown_sync(NULL, 1), -EINVAL);
	CHECK_EQ(hwheel_timer_free(NULL, 1), -EINVAL);
	CHECK_EQ(hwheel_timer_pending(NULL, 1), -EINVAL);
	CHECK_EQ(hwheel_timer_remaining(NULL, 1, &ns), -EINVAL);
	CHECK_EQ(hwheel_once(NULL, 1, nothing, 0, 0, &t), -EINVAL);
	CHECK_EQ(hwheel_once(NULL, 1, nothing, 0, HWHEEL_ABS, &t), -EINVAL);
	CHECK_EQ(hwheel_every(NULL, 1, 1, 0, nothing, 0, 0, &t), -EINVAL);
	CHECK_EQ(hwheel_advance(NULL, 1, &e, 1, NULL), -EINVAL);
	CHECK_EQ(hwheel_poll(NULL, &e, 1, NULL), -EINVAL);
	CHECK_EQ(hwheel_fd(NULL), -EINVAL);
	CHECK_EQ(hwheel_start(NULL), -EINVAL);
	CHECK_EQ(hwheel_stop(NULL), -EINVAL);
	CHECK_EQ(hwheel_drain(NULL, &e, 1), -EINVAL);
	CHECK_EQ(ns, JUNK);
	CHECK_EQ(t, JUNK);
	CHECK_EQ(result, 77);
	CHECK_EQ(s.live, 0);
}

TEST(a_needed_output_is_not_null)
{
	WHEEL w = ktap_manual(0, 0, 0, 0);
	hwheel_timer_t t = 0;

	CHECK_EQ(hwheel_timer_setup(w, NULL, 0, &t), 0);
	CHECK_EQ(hwheel_timer_mod(w, t, SEC, 0), 0);
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

TEST(unknown_flags_are_refused_and_change_nothing)
{
	WHEEL w = ktap_manual(0, 0, 0, 0);
	struct hwheel_stats s = { .size = sizeof s };
	hwheel_timer_t t = 0, made = JUNK;
	uint64_t left = 0;

	CHECK_EQ(hwheel_timer_setup(w, NULL, 0, &t), 0);
	CHECK_EQ(hwheel_timer_mod(w, t, SEC, 0), 0);
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
		}
		if (!abs && !condition) {
			CHECK_EQ(hwheel_timer_mod(w, t, MS, flag), -EINVAL);
			CHECK_EQ(hwheel_timer_mod(w, t, MS, flag | HWHEEL_ABS), -EINVAL);
			CHECK_EQ(hwheel_timer_mod(w, t, MS, flag | HWHEEL_REDUCE), -EINVAL);
			CHECK_EQ(hwheel_timer_mod(w, t, MS, flag | HWHEEL_IF_PENDING), -EINVAL);
			CHECK_EQ(hwheel_timer_mod_many(w, &t, &left, 1, flag, NULL), -EINVAL);
		}
		if (!abs && !missed)
			CHECK_EQ(hwheel_every(w, MS, MS, 0, NULL, 0, flag, &made), -EINVAL);
	}
	CHECK_EQ(hwheel_timer_mod(w, t, MS, HWHEEL_REDUCE | HWHEEL_IF_PENDING), -EINVAL);
	CHECK_EQ(hwheel_timer_mod_many(w, &t, &left, 1, HWHEEL_REDUCE | HWHEEL_IF_PENDING,
				       NULL), -EINVAL);
	CHECK_EQ(hwheel_every(w, MS, MS, 0, NULL, 0,
			      HWHEEL_MISSED_BURST | HWHEEL_MISSED_DELAY, &made), -EINVAL);
	CHECK_EQ(made, JUNK);
	CHECK_EQ(hwheel_timer_remaining(w, t, &left), 1);
	CHECK_EQ(left, SEC);
	CHECK_EQ(hwheel_get_stats(w, &s), 0);
	CHECK_EQ(s.live, 1);
}

/* So a flag that reaches the wrong function is an error, not another meaning. */
TEST(no_two_flags_share_a_bit)
{
	static const uint32_t flags[] = {
		HWHEEL_ABS, HWHEEL_REDUCE, HWHEEL_IF_PENDING, HWHEEL_MISSED_BURST,
		HWHEEL_MISSED_DELAY, HWHEEL_EVENT_DRAINED,
		HWHEEL_EVENT_LISTED,
	};
	uint32_t all = 0;

	for (size_t i = 0; i < sizeof flags / sizeof flags[0]; i++) {
		CHECK(flags[i] != 0 && (flags[i] & (flags[i] - 1)) == 0);
		CHECK_EQ(all & flags[i], 0);
		all |= flags[i];
	}
}

TEST(a_period_is_not_zero)
{
	WHEEL w = ktap_manual(0, 0, 0, 0);
	hwheel_timer_t t = JUNK;

	CHECK_EQ(hwheel_every(w, MS, 0, 0, NULL, 0, 0, &t), -EINVAL);
	CHECK_EQ(hwheel_every(w, MS, 0, 0, NULL, 0, HWHEEL_MISSED_BURST, &t), -EINVAL);
	CHECK_EQ(hwheel_every(w, MS, 0, 0, NULL, 0, HWHEEL_MISSED_DELAY, &t), -EINVAL);
	CHECK_EQ(t, JUNK);
}

TEST(a_batch_has_a_size_that_can_be_returned)
{
	struct hwheel *w = ktap_manual(0, 0, 0, 0);
	WHEEL system = ktap_made(NULL);
	struct hwheel_event e;
	uint64_t now = JUNK;

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
	CHECK_EQ(hwheel_now(w, &now), 0);
	CHECK_EQ(now, 0);
	CHECK_EQ(hwheel_once(w, MS, NULL, 0, 0, NULL), 0);
	CHECK_EQ(hwheel_destroy(w), 0);
}

TEST(a_manual_wheel_is_not_driven_by_a_system_clock)
{
	WHEEL w = ktap_manual(0, 0, 0, 0);
	struct hwheel_event e;

	CHECK_EQ(hwheel_poll(w, &e, 1, NULL), -EINVAL);
	CHECK_EQ(hwheel_poll(w, NULL, 0, NULL), -EINVAL);
	CHECK_EQ(hwheel_fd(w), -EINVAL);
	CHECK_EQ(hwheel_start(w), -EINVAL);
	CHECK_EQ(hwheel_stop(w), 0);
}

TEST(a_system_clock_is_not_advanced)
{
	WHEEL w = ktap_made(NULL);
	struct hwheel_event e;

	CHECK_EQ(hwheel_advance(w, INT64_MAX, &e, 1, NULL), -EINVAL);
	CHECK_EQ(hwheel_advance(w, 0, NULL, 0, NULL), -EINVAL);
}
