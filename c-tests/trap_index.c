/*
 * Index: defects that other timers had where they remember which slots are
 * occupied, and when to wake next.
 */
#include "driven.h"

SHAPE_TEST(e1_occupancy_follows_the_last_of_a_bucket, shapes)
{
	for (uint64_t away = 1; away < UINT64_C(1) << 20; away = away * 3 + 1) {
		DRIVEN w = start(shape, 3 * t);
		hwheel_timer_t a = after(w, away * t), b = after(w, away * t);

		/* cleared too early? */
		n_records = 0;
		CHECK_EQ(ktap_next(w), (3 + away) * t);
		CHECK_EQ(hwheel_timer_delete(w, a), 1);
		CHECK_EQ(ktap_next(w), (3 + away) * t);
		CHECK_EQ(hwheel_timer_delete(w, b), 1);
		/* not cleared, once the wheel is driven there? */
		to(w, driven + away * t);
		CHECK_EQ(ktap_next(w), HWHEEL_NEVER);
		CHECK_EQ(n_fired, 0);
		after(w, away * t);
		CHECK_EQ(ktap_next(w), driven + away * t);
		to(w, driven + away * t);
		CHECK_EQ(ktap_next(w), HWHEEL_NEVER);
	}
}

/* Same slot, another round: firing one leaves the slot occupied. */
SHAPE_TEST(e1_slot_shared_by_rounds_stays_occupied, shapes)
{
	uint64_t slots = shape->slots;

	for (uint64_t at = 1; at <= slots; at += slots / 2) {
		DRIVEN w = start(shape, 0);

		for (uint64_t round = 0; round < 6; round++)
			after(w, (at + round * slots) * t);
		for (uint64_t round = 0; round < 6; round++) {
			CHECK_EQ(ktap_next(w), (at + round * slots) * t);
			CHECK_FIRED(to(w, (at + round * slots) * t), round + 1);
		}
		CHECK_EQ(ktap_next(w), HWHEEL_NEVER);
	}
}

/* The same slots are filled and emptied again and again. */
SHAPE_TEST(e1_slots_are_reused, shapes)
{
	WHEEL w = start(shape, (t << 32) - 500 * t);

	for (unsigned n = 0; n < 1000; n++) {
		hwheel_timer_t timer = after(w, 5 * t);

		after(w, 2 * t);
		n_records--;
		CHECK_EQ(hwheel_timer_delete(w, timer), 1);
		records[n_records - 1] = records[n_records];
		n_records--;
		n_fired = 0;
		CHECK_EQ(ktap_next(w), driven + 2 * t);
		CHECK_FIRED(to(w, driven + t), 0);
		CHECK_FIRED(to(w, driven + t), 1);
		CHECK_EQ(ktap_next(w), HWHEEL_NEVER);
	}
}

SHAPE_TEST(e2_stale_bits_never_wake_late, shapes)
{
	DRIVEN w = start(shape, 7 * t);
	static hwheel_timer_t timers[3000];
	uint64_t first = UINT64_MAX;

	for (unsigned n = 0; n < COUNT(timers); n++)
		timers[n] = after(w, ((n * 7919) % 100003 + 1) * t);
	/* cancel all but a few, the nearest ones included */
	for (unsigned n = 0; n < COUNT(timers); n++) {
		if (n % 500 == 250) {
			if (records[n].first < first)
				first = records[n].first;
			continue;
		}
		CHECK_EQ(hwheel_timer_delete(w, timers[n]), 1);
		records[n].fired = 1;	/* not to fire */
		records[n].got = records[n].first;
	}
	CHECK(ktap_next(w) <= first);
	each_expiry(w);
	CHECK_EQ(n_fired, 6);
}

/* Moved to later: what is left behind wakes at most early. */
SHAPE_TEST(e2_moved_timers_never_wake_late, shapes)
{
	DRIVEN w = start(shape, 7 * t);
	hwheel_timer_t timer = after(w, t);

	for (uint64_t away = 2; away < UINT64_C(1) << 24; away *= 2) {
		CHECK_EQ(hwheel_timer_mod(w, timer, away * t, 0), 1);
		CHECK(ktap_next(w) <= driven + away * t);
		CHECK_FIRED(to(w, driven + t), 0);
	}
	for (uint64_t away = UINT64_C(1) << 23; away > 0; away /= 2) {
		CHECK_EQ(hwheel_timer_mod(w, timer, away * t, 0), 1);
		CHECK(ktap_next(w) <= driven + away * t);
	}
	records[0].first = records[0].last = driven + t;
	/* what is left behind is gone through, and nothing else fires */
	each_expiry(w);
}

/* One timer, however far and on whatever level: its time, not its bucket's. */
SHAPE_TEST(e3_next_expiry_is_the_timers_time, shapes)
{
	uint64_t away = 1;

	for (unsigned n = 0; away < UINT64_C(1) << 27; n++) {
		struct hwheel *w = start(shape, n * 37 * t);

		after(w, away * t - t / 2);
		CHECK_EQ(ktap_next(w), records[0].first);
		to(w, records[0].first);
		CHECK_EQ(ktap_next(w), HWHEEL_NEVER);
		CHECK_EQ(stats(w).sweeps, 1);
		done(w);
		away += away / 5 + 1;
	}
}

/* Many in one high bucket: the earliest of them. */
SHAPE_TEST(e3_next_expiry_is_the_earliest_of_a_bucket, shapes)
{
	DRIVEN w = start(shape, 0);

	for (uint64_t n = 0; n < 40; n++)
		after(w, (70000 + n * 23 % 40) * t);
	for (uint64_t n = 0; n < 40; n++) {
		CHECK_EQ(ktap_next(w), (70000 + n) * t);
		CHECK_FIRED(to(w, (70000 + n) * t), n + 1);
	}
}

/*
 * Rounds are leapt over, however many timers share a bucket. One that went
 * through 25 million of them would not be over in time.
 */
TEST(e3_full_buckets_do_not_wake_each_round)
{
	static const struct shape hashed = { 1000000, 1, 4 };
	DRIVEN w = start(&hashed, 0);

	for (unsigned n = 0; n < 1000; n++)
		after(w, (100000000 + n % 4) * MS);
	each_expiry(w);
	/* each bucket once to learn what is in it, and once to fire */
	CHECK(stats(w).sweeps <= 8);
}

static const struct shape few_slots[] = { { 1000000, 2, 4 }, { 1000000, 1, 4 }, { 100000, 1, 2 } };

/* The tick thread sleeps over cascades: one wake-up for each timer. */
SHAPE_TEST(e3_thread_wakes_once_a_timer, few_slots)
{
	WHEEL w = MADE(.tick_ns = t, .levels = shape->levels, .slots = shape->slots);

	CHECK_EQ(hwheel_once(w, 150 * MS, ktap_nothing, 0, 0, NULL), 0);
	CHECK_EQ(hwheel_once(w, 250 * MS, ktap_nothing, 0, 0, NULL), 0);
	CHECK_EQ(hwheel_start(w), 0);
	ktap_wait(stats(w).fired >= 2);
	/* one more for the start */
	CHECK(stats(w).wakeups <= 3);
}

/* Buckets are filled in falling, rising and mixed order. */
SHAPE_TEST(e4_buckets_need_not_be_sorted, shapes)
{
	for (unsigned order = 0; order < 3; order++) {
		uint64_t slots = shape->slots;
		DRIVEN w = start(shape, t);

		for (uint64_t n = 0; n < 50; n++) {
			uint64_t round = order == 0 ? n : order == 1 ? 49 - n : n * 17 % 50;

			/* one slot in many turns, and one bucket above */
			after(w, (3 + round * slots) * t);
			after(w, (10 * slots + round) * t);
		}
		each_expiry(w);
	}
}

/* A bucket has timers of several turns, and the wheel jumps: it leaves none that is due behind
 * one that is not, and takes none that is due later. */
SHAPE_TEST(e4_jumps_take_what_is_due_of_a_bucket, shapes)
{
	uint64_t slots = shape->slots;

	for (uint64_t jump = 1; jump < 20 * slots; jump += jump / 2 + 1) {
		WHEEL w = start(shape, 0);
		uint64_t end = 0;

		for (uint64_t n = 0; n < 60; n++) {
			after(w, (1 + (n * 37 % 60) * slots / 2) * t);
			if (records[n].first > end)
				end = records[n].first;
		}
		while (driven < end) {
			unsigned due = 0;

			to(w, driven + jump * t);
			for (unsigned n = 0; n < n_records; n++) {
				CHECK_EQ(records[n].fired, records[n].first <= driven);
				due += records[n].fired;
			}
			CHECK_EQ(n_fired, due);
		}
	}
}

/* Every slot, from every place of the hand, in the right order. */
TEST(e5_every_slot_is_found)
{
	static const uint32_t slots[] = { 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024 };

	for (unsigned s = 0; s < COUNT(slots); s++) {
		for (uint32_t levels = 1; levels <= 2; levels++) {
			const struct shape shape = { 1000, levels, slots[s] };
			uint64_t stride = slots[s] / 8 ? slots[s] / 8 - 1 : 0;

			for (uint64_t hand = 0; hand < 2 * slots[s]; hand += stride + 1) {
				DRIVEN w = start(&shape, hand * 1000);
				uint64_t turns = slots[s] > 64 ? 1 : 3;

				for (uint64_t n = 1; n <= turns * slots[s] + 1; n++)
					after(w, n * 1000);
				for (uint64_t n = 1; n <= turns * slots[s] + 1; n++) {
					CHECK_EQ(ktap_next(w), (hand + n) * 1000);
					CHECK_FIRED(to(w, (hand + n) * 1000), n);
				}
				CHECK_EQ(ktap_next(w), HWHEEL_NEVER);
			}
		}
	}
}

static const struct shape many_slots[] = {
	{ 1000, 1, 64 }, { 1000, 1, 128 }, { 1000, 1, 256 }, { 1000, 1, 65536 },
	{ 1000, 2, 64 }, { 1000, 3, 16 }, { 1000, 8, 4 }, { 1000, 6, 256 }, { 1000, 3, 65536 },
};

/* A lone timer in each slot: found behind any number of empty ones. */
SHAPE_TEST(e5_lone_timer_is_found_in_any_slot, many_slots)
{
	WHEEL w = start(shape, 0);

	for (uint64_t n = 0; n < 2000; n++) {
		uint64_t away = n < 700 ? n + 1 : (n - 699) * (n - 699) * 13;

		n_records = 0;
		after(w, away * t);
		CHECK_EQ(ktap_next(w), driven + away * t);
		to(w, driven + away * t - 1);
		CHECK_EQ(records[0].fired, 0);
		to(w, driven + 1);
		CHECK_EQ(records[0].fired, 1);
	}
	CHECK_EQ(ktap_next(w), HWHEEL_NEVER);
}
