/* Arithmetic: defects that other timers had where a time is turned into a tick. */
#include <poll.h>
#include "driven.h"

static const struct shape small[] = {
	{ 1000000, 2, 4 }, { 1000, 1, 4 }, { 1000, 4, 2 }, { 7001, 1, 8 }, { 13001, 2, 8 },
};

static inline void at(struct hwheel *w, uint64_t deadline)
{
	uint64_t cookie = expect(deadline);

	CHECK_EQ(hwheel_once(w, deadline, note, cookie, HWHEEL_ABS, NULL), 0);
}

/* Every tick up to a time. */
static inline void each_tick(struct hwheel *w, uint64_t until)
{
	while (driven < until)
		to(w, driven / tick * tick + tick);
}

/* One timer, with the clock one nanosecond before it fires and then there. */
static inline void exactly(const struct shape *s, uint64_t from, uint64_t deadline)
{
	DRIVEN w = start(s, from);

	at(w, deadline);
	if (up(deadline) > from / tick * tick) {
		CHECK_FIRED(to(w, up(deadline) - 1), 0);
		to(w, up(deadline));
	} else {
		to(w, from / tick * tick + tick);
	}
}

/* The span of a wheel in ticks: one turn of its top level. */
static inline uint64_t span(const struct shape *s)
{
	uint64_t n = 1;

	for (uint32_t i = 0; i < s->levels; i++)
		n *= s->slots;
	return n;
}

SHAPE_TEST(a1_huge_delay_does_not_fire_now, shapes)
{
	for (unsigned wrap = 0; wrap < 3; wrap++) {
		uint64_t now = wrap == 0 ? 0 : wrap == 1 ? t << 32 : (t << 40) + 5 * t / 2;
		const uint64_t most = INT64_MAX;
		uint64_t delays[] = {
			HWHEEL_NEVER, most, most - 1, most - 2, most - t,
			most - now, most - now - 1, most - now - t,
		};
		WHEEL w = start(shape, now);
		hwheel_timer_t timers[COUNT(delays) * 3];

		for (unsigned d = 0; d < COUNT(delays); d++) {
			hwheel_timer_t *timer = &timers[3 * d];

			CHECK_EQ(hwheel_once(w, delays[d], note, 0, 0, timer), 0);
			CHECK_EQ(hwheel_every(w, delays[d], t, 0, note, 0, 0, timer + 1), 0);
			CHECK_EQ(hwheel_timer_setup(w, note, 0, timer + 2), 0);
			CHECK_EQ(hwheel_timer_mod(w, timer[2], t, 0), 0);
			CHECK_EQ(hwheel_timer_mod(w, timer[2], delays[d], 0), 1);
		}
		to(w, now + t);
		to(w, now + 1000 * t);
		CHECK_FIRED(to(w, now + (t << 24)), 0);
		for (unsigned d = 0; d < COUNT(timers); d++) {
			CHECK_EQ(hwheel_timer_pending(w, timers[d]), 1);
			CHECK(ktap_left(w, timers[d]) > UINT64_MAX / 4);
		}
	}
}

SHAPE_TEST(a1_huge_deadline_does_not_fire_now, shapes)
{
	const uint64_t deadlines[] = {
		HWHEEL_NEVER, INT64_MAX, INT64_MAX - 1, INT64_MAX - 1000000,
	};

	WHEEL w = start(shape, (t << 40) - 3 * t);

	for (unsigned d = 0; d < COUNT(deadlines); d++) {
		hwheel_timer_t timer = ktap_once(w, deadlines[d], note, 0, HWHEEL_ABS);

		CHECK(ktap_left(w, timer) > UINT64_MAX / 4);
	}
	each_tick(w, (t << 40) + 1000 * t);
	CHECK_EQ(n_fired, 0);
}

/* A period so long that its second deadline overflows fires once, not without end. */
SHAPE_TEST(a1_huge_period_does_not_wrap, shapes)
{
	WHEEL w = start(shape, t << 32);
	hwheel_timer_t first = ktap_every(w, t, HWHEEL_NEVER, note, 0, 0);

	CHECK_EQ(hwheel_every(w, t, INT64_MAX, 0, note, 0, HWHEEL_MISSED_BURST, NULL), 0);
	CHECK_EQ(hwheel_every(w, t, INT64_MAX - (t << 32), 0, note, 0, HWHEEL_MISSED_DELAY,
			      NULL), 0);
	each_tick(w, (t << 32) + 300 * t);
	CHECK_EQ(n_fired, 3);
	CHECK_EQ(records[0].missed, 0);
	CHECK_EQ(ktap_left(w, first), HWHEEL_NEVER);
}

SHAPE_TEST(a2_deadlines_next_to_reserved_values_are_kept, shapes)
{
	static const unsigned bits[] = { 6, 12, 24, 28, 30, 31, 32, 36, 39, 40, 42, 44 };

	for (unsigned b = 0; b < COUNT(bits); b++) {
		for (int64_t d = -2; d <= 2; d++) {
			uint64_t k = (UINT64_C(1) << bits[b]) + (uint64_t)d;

			/* seen from close by: exact, whatever the bits */
			if (t < UINT64_MAX >> 46) {
				exactly(shape, (k - 3) * t, k * t);
				exactly(shape, (k - 3) * t, (k - 1) * t + 1);
			}
			/* seen from afar: exact up to 2^36 ticks */
			if (bits[b] < 36)
				exactly(shape, 0, k * t);
		}
	}
}

static const struct shape far_shapes[] = {
	{ 1000, 4, 256 }, { 7001, 1, 256 }, { 1000000, 2, 16 },
};

/* Beyond 2^36 ticks: late by at most a hundred-millionth, never early. */
SHAPE_TEST(a2_far_deadlines_are_never_early, far_shapes)
{
	static const unsigned bits[] = { 36, 37, 38, 39, 40, 42 };

	for (unsigned b = 0; b < COUNT(bits); b++) {
		for (int64_t d = -1; d <= 1; d++) {
			uint64_t delay = ((UINT64_C(1) << bits[b]) + (uint64_t)d) * t;
			uint64_t late = delay / 50000000 + t;
			DRIVEN w = start(shape, 5 * t);

			at(w, 5 * t + delay);
			records[0].last += late;
			CHECK_FIRED(to(w, 5 * t + delay - 1), 0);
			to(w, 5 * t + delay + late);
		}
	}
}

/* A deadline too far to be reached is neither forgotten nor shortened. */
TEST(a2_remaining_of_the_farthest_is_right)
{
	for (unsigned bit = 40; bit < 63; bit++) {
		WHEEL w = ktap_manual(1000, 4, 256, 77);
		uint64_t delay = (UINT64_C(1) << bit) + 1, left;
		hwheel_timer_t timer = ktap_once(w, delay, NULL, 0, 0);

		left = ktap_left(w, timer);
		CHECK(left >= delay);
		CHECK(left <= delay + delay / 50000000 + 1000);
	}
}

SHAPE_TEST(a10_never_early_by_part_of_a_tick, shapes)
{
	const uint64_t parts[] = { 0, 1, t / 3, t / 2, t - 1 };

	for (unsigned from = 0; from < COUNT(parts); from++)
		for (unsigned part = 0; part < COUNT(parts); part++)
			for (uint64_t k = 0; k < 5; k++)
				exactly(shape, 1000 * t + parts[from],
					(1000 + k) * t + parts[part] + parts[from]);
}

/* A delay counts from the clock's nanosecond, not from the last tick. */
TEST(a10_delay_counts_from_the_nanosecond)
{
	DRIVEN w = start(&shapes[0], 10 * MS);

	to(w, 10 * MS + 999999);
	after(w, MS);
	CHECK_EQ(records[0].first, 12 * MS);
	to(w, 11 * MS);
	CHECK_FIRED(to(w, 11 * MS + 999998), 0);
	CHECK_FIRED(to(w, 12 * MS - 1), 0);
	to(w, 12 * MS);
	CHECK_DUE(records[0].due, 11 * MS + 999999, MS);
}

/* Delays around 2^31, 2^32 and 3 * 2^32 of each unit: of milliseconds these are 25, 50 and 149 days. */
SHAPE_TEST(a11_delays_past_32_bits_of_any_unit, shapes)
{
	static const uint64_t halves[] = { 1, 2, 6 };

	uint64_t wrap = (UINT64_C(1) << 32) * t;
	const uint64_t units[] = { 1, 1000, 1000000, t };

	for (unsigned u = 0; u < COUNT(units); u++)
		for (unsigned h = 0; h < COUNT(halves); h++)
			for (uint64_t d = 0; d < 3; d++) {
				uint64_t ns = ((halves[h] << 31) + d - 1) * units[u];

				if (ns / t >= UINT64_C(1) << 36)
					continue;
				exactly(shape, 123, ns + 123);
				exactly(shape, wrap - 5 * t, wrap - 5 * t + ns);
			}
}

SHAPE_TEST(a12_zero_and_the_past_fire_at_the_next_tick, shapes)
{
	const uint64_t starts[] = { 0, t, 255 * t, 256 * t + t / 2, (t << 32) - t, t << 40 };

	for (unsigned s = 0; s < COUNT(starts); s++) {
		DRIVEN w = start(shape, starts[s]);
		uint64_t now = starts[s], next = now / t * t + t;
		hwheel_timer_t timer;

		after(w, 0);
		at(w, now);
		at(w, now ? now - 1 : 0);
		at(w, now / 2);
		at(w, 0);
		at(w, 1);
		timer = ktap_armed(w, note, expect(0), 0);
		CHECK_EQ(hwheel_timer_mod(w, timer, 0, HWHEEL_ABS), 1);
		CHECK_EQ(ktap_left(w, timer), next - now);
		to(w, now);
		CHECK_FIRED(to(w, next - 1), 0);
		CHECK_FIRED(to(w, next), n_records);
		for (unsigned r = 0; r < n_records; r++)
			CHECK_EQ(records[r].due, next);
		to(w, driven + 600 * t);
	}
}

SHAPE_TEST(a12_the_past_after_a_jump, shapes)
{
	DRIVEN w = start(shape, 0);

	for (uint64_t jump = 1; jump < UINT64_C(1) << 30; jump *= 5) {
		n_records = n_fired = 0;
		to(w, driven + jump * t);
		at(w, driven);
		at(w, driven - 1);
		at(w, driven - jump * t);
		at(w, driven - jump * t + 1);
		after(w, 0);
		CHECK_FIRED(to(w, driven + t), n_records);
	}
}

SHAPE_TEST(a13_deadlines_off_the_grid_are_not_lost, shapes)
{
	uint64_t stride = t > 3 ? t * 7 / 10 : 1;
	WHEEL w = start(shape, 12345 * t + t / 3);
	uint64_t begin = driven;

	for (uint64_t k = 0; k < 1000; k++)
		after(w, k * (t / 5 + 1) + k);
	/* strides off the grid: each step fires what its tick says */
	while (driven < begin + 2100 * t) {
		uint64_t last = driven;

		to(w, driven + stride);
		for (unsigned r = 0; r < n_records; r++) {
			if (records[r].fired == 0)
				CHECK(records[r].last > driven);
			else if (records[r].got == driven)
				CHECK(records[r].last > last || last == begin);
		}
	}
	for (unsigned r = 0; r < n_records; r++) {
		CHECK_EQ(records[r].fired, 1);
		CHECK(records[r].got >= records[r].first);
		CHECK(records[r].got < records[r].last + stride);
	}
}

SHAPE_TEST(a13_the_wheel_starts_off_the_grid, shapes)
{
	for (uint64_t off = 0; off < t; off += t / 7 + 1) {
		DRIVEN w = start(shape, 77 * t + off);

		for (uint64_t k = 0; k < 300; k++)
			after(w, k * (t / 3 + 1));
		each_tick(w, driven + 310 * t);
	}
}

/* A wait shorter than the unit of a sleep is not rounded to none at all. */
TEST(a14_short_waits_do_not_spin)
{
	static const uint64_t delays[] = { 1, 999, 400000, 999999, 1000001, 2300000 };

	for (unsigned d = 0; d < COUNT(delays); d++) {
		WHEEL w = ktap_made(NULL);
		struct hwheel_event e;
		struct pollfd p = { .events = POLLIN };
		unsigned rounds = 0;
		uint64_t before, end = 0;

		p.fd = hwheel_fd(w);
		CHECK(p.fd >= 0);
		CHECK_EQ(hwheel_poll(w, &e, 1, NULL), 0);
		before = ktap_clock();
		CHECK_EQ(hwheel_once(w, delays[d], NULL, 7, 0, NULL), 0);
		do {
			CHECK_EQ(poll(&p, 1, 5000), 1);
			CHECK(++rounds < 10);
		} while (hwheel_poll(w, &e, 1, NULL) == 0);
		end = ktap_clock();
		CHECK(end - before >= delays[d]);
		CHECK_EQ(e.cookie, 7);
		/* once for the arm, once for the expiry */
		CHECK(rounds <= 3);
	}
}

/* Placement: where a tick is turned into a slot, and where the next one is looked for. */

SHAPE_TEST(a3_far_timer_is_not_taken_for_a_near_one, small)
{
	uint64_t n = span(shape);

	for (uint64_t from = 0; from < n; from += n / 8 ? n / 8 : 1) {
		DRIVEN w = start(shape, ((UINT64_C(1) << 32) - n + from) * t);

		for (uint64_t delay = 1; delay <= 5 * n; delay += 1 + delay / 16)
			after(w, delay * t);
		each_tick(w, driven + (5 * n + 1) * t);
	}
}

/* The wheel jumps in one call over everything that is due before a far timer. */
SHAPE_TEST(a3_far_timer_survives_a_jump_short_of_it, shapes)
{
	uint64_t n = span(shape);

	for (uint64_t part = 1; part < 8; part++) {
		DRIVEN w = start(shape, 3 * t);
		uint64_t goal = driven + n / 8 * part * t;

		at(w, goal + t);
		at(w, driven + (n + 1) * t);
		at(w, driven + 2 * n * t);
		CHECK_FIRED(to(w, goal), 0);
		each_expiry(w);
	}
}

/* Delays next to whole turns of each level and of the wheel, from next to such turns. */
SHAPE_TEST(a4_a9_delays_next_to_whole_turns_are_exact, shapes)
{
	static const uint64_t turns[] = { 1, 2, 10 };

	uint64_t unit = 1;

	for (uint32_t level = 0; level <= shape->levels; level++, unit *= shape->slots) {
		const uint64_t starts[] = { 0, unit - 1, unit, unit + 1, 7 * unit + unit / 2 };

		for (unsigned s = 0; s < COUNT(starts); s++)
			for (unsigned n = 0; n < COUNT(turns); n++)
				for (uint64_t d = 0; d < 3; d++)
					exactly(shape, starts[s] * t,
						(starts[s] + turns[n] * unit + d - 1) * t);
	}
}

/* The same from every place of the hand. */
SHAPE_TEST(a9_delay_of_the_span_exactly, small)
{
	uint64_t n = span(shape);

	for (uint64_t from = 0; from <= n; from++)
		exactly(shape, from * t, (from + n) * t);
}

SHAPE_TEST(a4_beyond_the_span_is_exact_among_others, small)
{
	uint64_t n = span(shape);
	DRIVEN w = start(shape, (n - 1) * t);

	for (uint64_t k = 1; k <= 12; k++) {
		after(w, (k * n - 1) * t);
		after(w, k * n * t);
		after(w, (k * n + 1) * t);
	}
	each_tick(w, driven + 13 * n * t);
}

SHAPE_TEST(a5_far_timer_does_not_hide_nearer_ones, shapes)
{
	uint64_t edge = 1;

	for (uint32_t level = 0; level <= shape->levels; level++, edge *= shape->slots) {
		for (uint64_t from = edge < 3 ? 0 : edge - 3; from <= edge + 2; from++) {
			DRIVEN w = start(shape, from * t);
			hwheel_timer_t far[3];

			CHECK_EQ(hwheel_once(w, HWHEEL_NEVER, note, 0, 0, &far[0]), 0);
			CHECK_EQ(hwheel_once(w, UINT64_MAX / 4, note, 0, HWHEEL_ABS, &far[1]), 0);
			CHECK_EQ(hwheel_once(w, 20 * edge * shape->slots * t, note, 0, 0,
					      &far[2]), 0);
			for (uint64_t k = 1; k < 20; k++) {
				after(w, k * t);
				after(w, (k * k * k) * t);
			}
			CHECK_EQ(ktap_next(w), (from + 1) * t);
			each_tick(w, (from + 10) * t);
			CHECK_EQ(hwheel_timer_delete(w, far[2]), 1);
			CHECK_EQ(hwheel_timer_delete(w, far[1]), 1);
			each_expiry(w);
			CHECK_EQ(hwheel_timer_pending(w, far[0]), 1);
		}
	}
}

static const struct shape wrapping[] = {
	{ 1000, 4, 256 }, { 1000, 1, 256 }, { 1000, 2, 4 }, { 3001, 8, 4 },
};

SHAPE_TEST(a6_uptime_passes_every_wrap, wrapping)
{
	for (unsigned bit = 2; bit < 60; bit++) {
		/* the clock has no more */
		if ((UINT64_C(1) << bit) + 70000 > INT64_MAX / t)
			break;
		for (uint64_t before = 0; before <= 3; before++) {
			DRIVEN w = start(shape, ((UINT64_C(1) << bit) - before) * t);

			for (uint64_t k = 1; k < 12; k++)
				after(w, k * t);
			after(w, 255 * t);
			after(w, 256 * t);
			after(w, 257 * t);
			after(w, 65536 * t);
			after(w, 70000 * t);
			each_expiry(w);
		}
	}
}

/* The wrap while timers are out, and timers armed on both sides of it. */
SHAPE_TEST(a6_wheel_keeps_working_across_a_wrap, shapes)
{
	static const unsigned bits[] = { 8, 16, 24, 28, 30, 31, 32, 36, 39, 40, 43 };

	for (unsigned b = 0; b < COUNT(bits); b++) {
		DRIVEN w = start(shape, ((UINT64_C(1) << bits[b]) - 40) * t);

		for (uint64_t k = 0; k < 80; k++) {
			after(w, t);
			after(w, 7 * t + t / 2);
			after(w, 41 * t);
			to(w, driven + t);
		}
		each_tick(w, driven + 50 * t);
	}
}

SHAPE_TEST(a7_multiples_of_a_turn_are_not_off_by_a_round, shapes)
{
	uint64_t slots = shape->slots;

	for (uint64_t from = 0; from < 4; from++) {
		uint64_t begin = from == 3 ? 5 * slots : from * (slots / 2);
		DRIVEN w = start(shape, begin * t);

		for (uint64_t turns = 1; turns <= 8; turns++) {
			after(w, turns * slots * t);
			at(w, (begin + turns * slots) * t);
		}
		each_tick(w, (begin + 9 * slots) * t);
	}
}

/* Periods that are whole turns come once a turn. */
SHAPE_TEST(a7_periodic_of_whole_turns, shapes)
{
	uint64_t slots = shape->slots;
	WHEEL w = start(shape, 0);

	CHECK_EQ(hwheel_every(w, slots * t, slots * t, 0, note, 0, 0, NULL), 0);
	for (unsigned turn = 1; turn <= 10; turn++) {
		CHECK_FIRED(to(w, turn * slots * t - 1), turn - 1);
		CHECK_FIRED(to(w, turn * slots * t), turn);
		CHECK_EQ(records[0].due, turn * slots * t);
	}
}

/* The clock has gone on over nothing, so the hand may lag; then arm. */
SHAPE_TEST(a8_last_slot_while_the_hand_lags, shapes)
{
	uint64_t slots = shape->slots;

	for (uint64_t lag = 0; lag < 3 * slots; lag += 1 + lag / 4) {
		DRIVEN w = start(shape, slots / 2 * t);

		to(w, driven + lag * t);
		after(w, (slots - 1) * t);
		after(w, slots * t);
		after(w, (slots + 1) * t);
		after(w, (slots * slots - 1) * t);
		each_expiry(w);
	}
}

static uint64_t a8_slots;

static void a8_arm(struct hwheel *w, const struct hwheel_event *e)
{
	/* driven is the time that the sweep goes to */
	for (uint64_t k = 0; k < 3; k++)
		after(w, (a8_slots - 1 + k) * tick);
	note(w, e);
}

/* Armed in a callback of a sweep that has fallen behind. */
SHAPE_TEST(a8_last_slot_armed_during_a_late_sweep, shapes)
{
	a8_slots = shape->slots;
	for (uint64_t lag = 1; lag < 4 * a8_slots; lag += 1 + lag / 4) {
		DRIVEN w = start(shape, 0);
		uint64_t cookie = expect(t);

		records[cookie].last = (lag + 1) * t;
		CHECK_EQ(hwheel_once(w, t, a8_arm, cookie, 0, NULL), 0);
		CHECK_FIRED(to(w, (lag + 1) * t), 1);
		each_expiry(w);
		CHECK_EQ(n_records, 4);
	}
}

SHAPE_TEST(a15_next_expiry_is_none_when_idle, shapes)
{
	WHEEL w = start(shape, (t << 32) - 3 * t);
	hwheel_timer_t timer, never;

	CHECK_EQ(ktap_next(w), HWHEEL_NEVER);
	CHECK_EQ(hwheel_once(w, HWHEEL_NEVER, note, 0, 0, &never), 0);
	CHECK_EQ(ktap_next(w), HWHEEL_NEVER);
	CHECK_EQ(hwheel_timer_setup(w, note, expect(driven + 5 * t), &timer), 0);
	CHECK_EQ(ktap_next(w), HWHEEL_NEVER);
	for (uint64_t delay = 1; delay < UINT64_C(1) << 27; delay *= 3) {
		CHECK_EQ(hwheel_timer_mod(w, timer, delay * t, 0), 0);
		CHECK_EQ(ktap_next(w), driven + delay * t);
		CHECK_EQ(hwheel_timer_delete(w, timer), 1);
		/* cancelled, it may count until the wheel is driven there */
		to(w, driven + delay * t);
		CHECK_EQ(ktap_next(w), HWHEEL_NEVER);
	}
	CHECK_EQ(n_fired, 0);
	CHECK_EQ(hwheel_timer_mod(w, timer, 5 * t, 0), 0);
	CHECK_FIRED(to(w, driven + 5 * t), 1);
	CHECK_EQ(ktap_next(w), HWHEEL_NEVER);
	CHECK_EQ(hwheel_timer_delete(w, never), 1);
}
