/*
 * Placement: defects that other timers had where a tick is turned into a slot,
 * and where the next one is looked for.
 */
#include "records.h"

TEST(a3_far_timer_is_not_taken_for_a_near_one)
{
	for (unsigned i = 0; i < COUNT(small); i++) {
		uint64_t n = span(&small[i]), t = small[i].tick;

		for (uint64_t from = 0; from < n; from += n / 8 ? n / 8 : 1) {
			struct hwheel *w = start(&small[i], ((UINT64_C(1) << 32) - n + from) * t);

			for (uint64_t delay = 1; delay <= 5 * n; delay += 1 + delay / 16)
				after(w, delay * t);
			each_tick(w, driven + (5 * n + 1) * t);
			done(w);
		}
	}
}

/* The wheel jumps in one call over everything that is due before a far timer. */
TEST(a3_far_timer_survives_a_jump_short_of_it)
{
	for (unsigned i = 0; i < COUNT(shapes); i++) {
		uint64_t n = span(&shapes[i]), t = shapes[i].tick;

		for (uint64_t part = 1; part < 8; part++) {
			struct hwheel *w = start(&shapes[i], 3 * t);
			uint64_t goal = driven + n / 8 * part * t;

			at(w, goal + t);
			at(w, driven + (n + 1) * t);
			at(w, driven + 2 * n * t);
			to(w, goal);
			CHECK_EQ(fired(), 0);
			each_expiry(w);
			done(w);
		}
	}
}

TEST(a4_beyond_the_span_is_exact)
{
	for (unsigned i = 0; i < COUNT(shapes); i++) {
		uint64_t n = span(&shapes[i]), t = shapes[i].tick;
		const uint64_t delays[] = {
			n - 1, n, n + 1, 2 * n - 1, 2 * n, 2 * n + 1, 10 * n - 1, 10 * n, 10 * n + 1,
		};
		const uint64_t starts[] = { 0, n - 1, n, n + 1, 7 * n + n / 2 };

		for (unsigned s = 0; s < COUNT(starts); s++)
			for (unsigned d = 0; d < COUNT(delays); d++)
				exactly(&shapes[i], starts[s] * t, (starts[s] + delays[d]) * t);
	}
}

TEST(a4_beyond_the_span_is_exact_among_others)
{
	for (unsigned i = 0; i < COUNT(small); i++) {
		uint64_t n = span(&small[i]), t = small[i].tick;
		struct hwheel *w = start(&small[i], (n - 1) * t);

		for (uint64_t k = 1; k <= 12; k++) {
			after(w, (k * n - 1) * t);
			after(w, k * n * t);
			after(w, (k * n + 1) * t);
		}
		each_tick(w, driven + 13 * n * t);
		done(w);
	}
}

TEST(a5_far_timer_does_not_hide_nearer_ones)
{
	for (unsigned i = 0; i < COUNT(shapes); i++) {
		uint64_t t = shapes[i].tick, edge = 1;

		for (uint32_t level = 0; level <= shapes[i].levels; level++, edge *= shapes[i].slots) {
			for (uint64_t from = edge < 3 ? 0 : edge - 3; from <= edge + 2; from++) {
				struct hwheel *w = start(&shapes[i], from * t);
				hwheel_timer_t far[3];
				uint64_t next = 0;

				CHECK_EQ(hwheel_once(w, HWHEEL_NEVER, note, 0, 0, &far[0]), 0);
				CHECK_EQ(hwheel_once(w, UINT64_MAX / 4, note, 0, HWHEEL_ABS, &far[1]), 0);
				CHECK_EQ(hwheel_once(w, 20 * edge * shapes[i].slots * t, note, 0, 0,
						      &far[2]), 0);
				for (uint64_t k = 1; k < 20; k++) {
					after(w, k * t);
					after(w, (k * k * k) * t);
				}
				CHECK_EQ(hwheel_next_expiry(w, &next), 1);
				CHECK_EQ(next, (from + 1) * t);
				each_tick(w, (from + 10) * t);
				CHECK_EQ(hwheel_timer_delete(w, far[2]), 1);
				CHECK_EQ(hwheel_timer_delete(w, far[1]), 1);
				each_expiry(w);
				CHECK_EQ(hwheel_timer_pending(w, far[0]), 1);
				done(w);
			}
		}
	}
}

TEST(a6_uptime_passes_every_wrap)
{
	static const struct shape some[] = {
		{ 1000, 4, 256 }, { 1000, 1, 256 }, { 1000, 2, 4 }, { 3001, 8, 4 },
	};

	for (unsigned i = 0; i < COUNT(some); i++) {
		for (unsigned bit = 2; bit < 60; bit++) {
			for (uint64_t before = 0; before <= 3; before++) {
				uint64_t t = some[i].tick;
				struct hwheel *w;

				/* the clock has no more */
				if ((UINT64_C(1) << bit) + 70000 > INT64_MAX / t)
					continue;
				w = start(&some[i], ((UINT64_C(1) << bit) - before) * t);

				for (uint64_t k = 1; k < 12; k++)
					after(w, k * t);
				after(w, 255 * t);
				after(w, 256 * t);
				after(w, 257 * t);
				after(w, 65536 * t);
				after(w, 70000 * t);
				each_expiry(w);
				done(w);
			}
		}
	}
}

/* The wrap while timers are out, and timers armed on both sides of it. */
TEST(a6_wheel_keeps_working_across_a_wrap)
{
	static const unsigned bits[] = { 8, 16, 24, 28, 30, 31, 32, 36, 39, 40, 43 };

	for (unsigned i = 0; i < COUNT(shapes); i++) {
		for (unsigned b = 0; b < COUNT(bits); b++) {
			uint64_t t = shapes[i].tick;
			struct hwheel *w = start(&shapes[i], ((UINT64_C(1) << bits[b]) - 40) * t);

			for (uint64_t k = 0; k < 80; k++) {
				after(w, t);
				after(w, 7 * t + t / 2);
				after(w, 41 * t);
				to(w, driven + t);
			}
			each_tick(w, driven + 50 * t);
			done(w);
		}
	}
}

TEST(a7_multiples_of_a_turn_are_not_off_by_a_round)
{
	for (unsigned i = 0; i < COUNT(shapes); i++) {
		uint64_t t = shapes[i].tick, slots = shapes[i].slots;

		for (uint64_t from = 0; from < 4; from++) {
			uint64_t begin = from == 3 ? 5 * slots : from * (slots / 2);
			struct hwheel *w = start(&shapes[i], begin * t);

			for (uint64_t turns = 1; turns <= 8; turns++) {
				after(w, turns * slots * t);
				at(w, (begin + turns * slots) * t);
			}
			each_tick(w, (begin + 9 * slots) * t);
			done(w);
		}
	}
}

/* Periods that are whole turns come once a turn. */
TEST(a7_periodic_of_whole_turns)
{
	for (unsigned i = 0; i < COUNT(shapes); i++) {
		uint64_t t = shapes[i].tick, slots = shapes[i].slots;
		WHEEL w = start(&shapes[i], 0);

		n_records = 1;
		records[0].fired = 0;
		CHECK_EQ(hwheel_every(w, slots * t, slots * t, 0, note, 0, 0, NULL), 0);
		for (unsigned turn = 1; turn <= 10; turn++) {
			to(w, turn * slots * t - 1);
			CHECK_EQ(fired(), turn - 1);
			to(w, turn * slots * t);
			CHECK_EQ(fired(), turn);
			CHECK_EQ(records[0].due, turn * slots * t);
		}
	}
}

/* The clock has gone on over nothing, so the hand may lag; then arm. */
TEST(a8_last_slot_while_the_hand_lags)
{
	for (unsigned i = 0; i < COUNT(shapes); i++) {
		uint64_t t = shapes[i].tick, slots = shapes[i].slots;

		for (uint64_t lag = 0; lag < 3 * slots; lag += 1 + lag / 4) {
			struct hwheel *w = start(&shapes[i], slots / 2 * t);

			to(w, driven + lag * t);
			after(w, (slots - 1) * t);
			after(w, slots * t);
			after(w, (slots + 1) * t);
			after(w, (slots * slots - 1) * t);
			each_expiry(w);
			done(w);
		}
	}
}

static uint64_t a8_slots;

static void a8_arm(struct hwheel *w, const struct hwheel_event *e)
{
	/* driven is the time that the sweep goes to */
	for (uint64_t k = 0; k < 3; k++) {
		struct record *r = &records[n_records];
		uint64_t delay = (a8_slots - 1 + k) * tick;

		r->first = r->last = up(driven + delay);
		r->fired = 0;
		if (hwheel_once(w, delay, note, n_records++, 0, NULL) != 0)
			records[0].fired += 1000;
	}
	note(w, e);
}

/* Armed in a callback of a sweep that has fallen behind. */
TEST(a8_last_slot_armed_during_a_late_sweep)
{
	for (unsigned i = 0; i < COUNT(shapes); i++) {
		uint64_t t = shapes[i].tick;

		a8_slots = shapes[i].slots;
		for (uint64_t lag = 1; lag < 4 * a8_slots; lag += 1 + lag / 4) {
			struct hwheel *w = start(&shapes[i], 0);
			uint64_t cookie = expect(t);

			records[cookie].last = (lag + 1) * t;
			CHECK_EQ(hwheel_once(w, t, a8_arm, cookie, 0, NULL), 0);
			to(w, (lag + 1) * t);
			CHECK_EQ(fired(), 1);
			each_expiry(w);
			CHECK_EQ(n_records, 4);
			done(w);
		}
	}
}

TEST(a9_delay_of_the_span_exactly)
{
	for (unsigned i = 0; i < COUNT(small); i++) {
		uint64_t n = span(&small[i]), t = small[i].tick;

		for (uint64_t from = 0; from <= n; from++)
			exactly(&small[i], from * t, (from + n) * t);
	}
	for (unsigned i = 0; i < COUNT(shapes); i++) {
		uint64_t n = span(&shapes[i]), t = shapes[i].tick;

		exactly(&shapes[i], 0, n * t);
		exactly(&shapes[i], (n - 1) * t, (2 * n - 1) * t);
		exactly(&shapes[i], n * t, 2 * n * t);
	}
}

TEST(a9_delay_of_each_level_exactly)
{
	for (unsigned i = 0; i < COUNT(shapes); i++) {
		uint64_t t = shapes[i].tick, unit = 1;

		for (uint32_t level = 0; level <= shapes[i].levels; level++, unit *= shapes[i].slots) {
			for (uint64_t from = unit - 1; from <= unit + 1; from++) {
				exactly(&shapes[i], from * t, (from + unit) * t);
				exactly(&shapes[i], from * t, (from + unit + 1) * t);
			}
		}
	}
}

TEST(a15_next_expiry_is_none_when_idle)
{
	for (unsigned i = 0; i < COUNT(shapes); i++) {
		uint64_t t = shapes[i].tick, next = 42;
		WHEEL w = start(&shapes[i], (t << 32) - 3 * t);
		hwheel_timer_t timer, never;

		CHECK_EQ(hwheel_next_expiry(w, &next), 0);
		CHECK_EQ(hwheel_once(w, HWHEEL_NEVER, note, 0, 0, &never), 0);
		CHECK_EQ(hwheel_next_expiry(w, &next), 0);
		CHECK_EQ(next, 42);
		CHECK_EQ(hwheel_timer_setup(w, note, expect(driven + 5 * t), &timer), 0);
		CHECK_EQ(hwheel_next_expiry(w, &next), 0);
		for (uint64_t delay = 1; delay < UINT64_C(1) << 27; delay *= 3) {
			CHECK_EQ(hwheel_timer_mod(w, timer, delay * t, 0), 0);
			CHECK_EQ(hwheel_next_expiry(w, &next), 1);
			CHECK_EQ(next, driven + delay * t);
			CHECK_EQ(hwheel_timer_delete(w, timer), 1);
			/* cancelled, it may count until the wheel is driven there */
			to(w, driven + delay * t);
			next = 42;
			CHECK_EQ(hwheel_next_expiry(w, &next), 0);
			CHECK_EQ(next, 42);
		}
		CHECK_EQ(fired(), 0);
		CHECK_EQ(hwheel_timer_mod(w, timer, 5 * t, 0), 0);
		to(w, driven + 5 * t);
		CHECK_EQ(fired(), 1);
		CHECK_EQ(hwheel_next_expiry(w, &next), 0);
		CHECK_EQ(next, 42);
		CHECK_EQ(hwheel_timer_delete(w, never), 1);
	}
}

static uint64_t seed;

static uint64_t random_below(uint64_t n)
{
	seed ^= seed << 13;
	seed ^= seed >> 7;
	seed ^= seed << 17;
	return seed % n;
}

/* A storm of arms, moves, cancels and steps against the plain truth. */
TEST(a15_next_expiry_is_never_late)
{
	enum { TIMERS = 64 };

	seed = UINT64_C(0x9e3779b97f4a7c15);
	for (unsigned i = 0; i < COUNT(shapes); i++) {
		uint64_t t = shapes[i].tick;
		WHEEL w = start(&shapes[i], (t << 32) - 1000 * t);
		hwheel_timer_t timers[TIMERS];
		uint64_t due[TIMERS] = { 0 };	/* the tick's time; 0: not armed */

		for (unsigned k = 0; k < TIMERS; k++) {
			CHECK_EQ(hwheel_timer_setup(w, note, k, &timers[k]), 0);
			records[k].fired = 0;
		}
		n_records = TIMERS;
		for (unsigned op = 0; op < 4000; op++) {
			unsigned k = (unsigned)random_below(TIMERS);
			uint64_t first = UINT64_MAX, next = 0;
			int some;

			switch (random_below(4)) {
			case 0:
				CHECK_EQ(hwheel_timer_delete(w, timers[k]), due[k] != 0);
				due[k] = 0;
				break;
			case 1:
				if (hwheel_next_expiry(w, &next) == 1 && random_below(2))
					to(w, next > driven ? next : driven);
				else
					to(w, driven + random_below(20 * t));
				for (k = 0; k < TIMERS; k++) {
					if (due[k] && due[k] <= driven) {
						CHECK_EQ(records[k].fired, 1);
						due[k] = 0;
						records[k].fired = 0;
					}
					CHECK_EQ(records[k].fired, 0);
				}
				break;
			default:
				next = (UINT64_C(1) << random_below(22)) * t - random_below(t);
				CHECK_EQ(hwheel_timer_mod(w, timers[k], next, 0), due[k] != 0);
				/* the tick under the clock is over already */
				due[k] = up(driven + next);
				if (due[k] <= driven / t * t)
					due[k] = driven / t * t + t;
			}
			for (k = 0; k < TIMERS; k++)
				if (due[k] && due[k] < first)
					first = due[k];
			some = hwheel_next_expiry(w, &next);
			CHECK(some == 1 || first == UINT64_MAX);
			CHECK(some == 0 || next <= first);
		}
	}
}

/* After any number of cancels, driving to what it says ends in "none". */
TEST(a15_next_expiry_comes_to_none_after_cancels)
{
	for (unsigned i = 0; i < COUNT(shapes); i++) {
		uint64_t t = shapes[i].tick;
		WHEEL w = start(&shapes[i], 0);
		static hwheel_timer_t timers[5000];

		for (unsigned k = 0; k < COUNT(timers); k++)
			CHECK_EQ(hwheel_once(w, (k * 17 + 1) * t, note, 0, 0, &timers[k]), 0);
		for (unsigned k = 0; k < COUNT(timers); k++)
			CHECK_EQ(hwheel_timer_delete(w, timers[k]), 1);
		n_records = 1;
		records[0].fired = 0;
		each_expiry(w);
		CHECK_EQ(fired(), 0);
	}
}
