/* A wheel that was drained: every call says what the header says. */
#include "ktap.h"

static struct hwheel *drained(uint32_t clock)
{
	struct hwheel_options o = { .size = sizeof o, .clock = clock };
	struct hwheel_event e;
	struct hwheel *w = ktap_made(&o);

	CHECK_EQ(hwheel_key_set(w, &(uint64_t){ 7 }, sizeof(uint64_t), SEC, NULL, 0, 0), 0);
	CHECK_EQ(hwheel_drain(w, &e, 1), 1);
	CHECK_EQ(hwheel_drain(w, &e, 1), 0);
	return w;
}

TEST(it_cannot_be_started)
{
	WHEEL w = drained(HWHEEL_CLOCK_MONOTONIC);

	CHECK_EQ(hwheel_start(w), -ESHUTDOWN);
	/* and is as before: still driven by nobody */
	CHECK_EQ(hwheel_poll(w, NULL, 0, NULL), 0);
	CHECK_EQ(hwheel_stop(w), 0);
	CHECK_EQ(hwheel_start(w), -ESHUTDOWN);
}

TEST(its_keys_cannot_be_set_or_moved)
{
	WHEEL w = drained(HWHEEL_CLOCK_MANUAL);

	CHECK_EQ(hwheel_key_set(w, &(uint64_t){ 7 }, sizeof(uint64_t), SEC, NULL, 0, 0), -ESHUTDOWN);
	CHECK_EQ(hwheel_key_mod(w, &(uint64_t){ 7 }, sizeof(uint64_t), SEC, 0), -ESHUTDOWN);
	CHECK_EQ(hwheel_key_set(w, "k", 1, SEC, NULL, 0, 0), -ESHUTDOWN);
	CHECK_EQ(hwheel_key_mod(w, "k", 1, SEC, 0), -ESHUTDOWN);
	/* to look and to delete remain */
	CHECK_EQ(hwheel_key_pending(w, &(uint64_t){ 7 }, sizeof(uint64_t)), 0);
	CHECK_EQ(hwheel_key_delete(w, &(uint64_t){ 7 }, sizeof(uint64_t)), 0);
	/* an argument that is wrong is that first of all */
	CHECK_EQ(hwheel_key_mod(w, NULL, 1, SEC, 0), -EINVAL);
	CHECK_EQ(hwheel_key_mod(w, "k", 1, SEC, 8), -EINVAL);
}

/* Every function that makes or arms a timer, with every flag. */
TEST(it_takes_no_timer_and_arms_none)
{
	static const uint32_t flags[] = {
		0, HWHEEL_ABS, HWHEEL_REDUCE, HWHEEL_IF_PENDING,
		HWHEEL_ABS | HWHEEL_REDUCE, HWHEEL_ABS | HWHEEL_IF_PENDING,
	};
	WHEEL w = ktap_manual(0, 0, 0, 0);
	hwheel_timer_t t = 0, none = 77;
	uint64_t time = SEC;
	struct hwheel_event e;
	int32_t result;

	CHECK_EQ(hwheel_timer_setup(w, NULL, 0, &t), 0);
	CHECK_EQ(hwheel_timer_mod(w, t, SEC, 0), 0);
	CHECK_EQ(hwheel_drain(w, &e, 1), 1);
	CHECK_EQ(e.timer, t);
	CHECK_EQ(hwheel_timer_setup(w, NULL, 0, &none), -ESHUTDOWN);
	CHECK_EQ(hwheel_once(w, SEC, NULL, 0, 0, &none), -ESHUTDOWN);
	CHECK_EQ(hwheel_every(w, SEC, SEC, 0, NULL, 0, 0, &none), -ESHUTDOWN);
	CHECK_EQ(none, 77);
	for (size_t f = 0; f < sizeof flags / sizeof flags[0]; f++) {
		CHECK_EQ(hwheel_timer_mod(w, t, SEC, flags[f]), -ESHUTDOWN);
		result = 77;
		CHECK_EQ(hwheel_timer_mod_many(w, &t, &time, 1, flags[f], &result), 0);
		CHECK_EQ(result, -ESHUTDOWN);
	}
	CHECK_EQ(hwheel_timer_mod_range(w, t, SEC, SEC, 0), -ESHUTDOWN);
	/* the timer still exists, and a period alone arms nothing */
	CHECK_EQ(hwheel_timer_set_period(w, t, SEC), 0);
	CHECK_EQ(hwheel_timer_pending(w, t), 0);
	CHECK_EQ(hwheel_timer_delete(w, t), 0);
	CHECK_EQ(hwheel_timer_delete_many(w, &t, 1, &result), 1);
	CHECK_EQ(result, 0);
	CHECK_EQ(hwheel_timer_shutdown(w, t), 0);
	CHECK_EQ(hwheel_timer_free(w, t), 0);
	CHECK_EQ(stats(w).live, 0);
}

/* Where the hand went over 2^35 ticks at a time, that took 4 s. */
TEST(its_clock_leaps_over_nothing)
{
	WHEEL w = ktap_manual(1000, 0, 0, 0);
	struct hwheel_event e;
	uint64_t begin;

	CHECK_EQ(hwheel_advance(w, SEC, NULL, 0, NULL), 0);
	CHECK_EQ(hwheel_drain(w, &e, 1), 0);
	begin = ktap_cpu();
	CHECK_EQ(hwheel_advance(w, INT64_MAX, NULL, 0, NULL), 0);
	CHECK(ktap_cpu() - begin < (KTAP_SLOW ? 2 * SEC : 100 * MS));
}
