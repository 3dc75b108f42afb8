/*
 * Arithmetic: defects that other timers had where a time is turned into a tick.
 */
#include <poll.h>
#include "records.h"

TEST(a1_huge_delay_does_not_fire_now)
{
	for (unsigned i = 0; i < COUNT(shapes); i++) {
		for (unsigned wrap = 0; wrap < 3; wrap++) {
			uint64_t t = shapes[i].tick;
			uint64_t now = wrap == 0 ? 0 : wrap == 1 ? t << 32 : (t << 40) + 5 * t / 2;
			const uint64_t most = INT64_MAX;
			uint64_t delays[] = {
				HWHEEL_NEVER, most, most - 1, most - 2, most - t,
				most - now, most - now - 1, most - now - t,
			};
			WHEEL w = start(&shapes[i], now);
			hwheel_timer_t timers[COUNT(delays) * 3];
			uint64_t left;

			for (unsigned d = 0; d < COUNT(delays); d++) {
				hwheel_timer_t *timer = &timers[3 * d];

				n_records = 1;
				CHECK_EQ(hwheel_once(w, delays[d], note, 0, 0, timer), 0);
				CHECK_EQ(hwheel_every(w, delays[d], t, 0, note, 0, 0, timer + 1), 0);
				CHECK_EQ(hwheel_timer_setup(w, note, 0, timer + 2), 0);
				CHECK_EQ(hwheel_timer_mod(w, timer[2], t, 0), 0);
				CHECK_EQ(hwheel_timer_mod(w, timer[2], delays[d], 0), 1);
			}
			records[0].fired = 0;
			to(w, now + t);
			to(w, now + 1000 * t);
			to(w, now + (t << 24));
			CHECK_EQ(fired(), 0);
			for (unsigned d = 0; d < COUNT(timers); d++) {
				CHECK_EQ(hwheel_timer_pending(w, timers[d]), 1);
				CHECK_EQ(hwheel_timer_remaining(w, timers[d], &left), 1);
				CHECK(left > UINT64_MAX / 4);
			}
		}
	}
}

TEST(a1_huge_deadline_does_not_fire_now)
{
	const uint64_t deadlines[] = {
		HWHEEL_NEVER, INT64_MAX, INT64_MAX - 1, INT64_MAX - 1000000,
	};

	for (unsigned i = 0; i < COUNT(shapes); i++) {
		uint64_t t = shapes[i].tick, left;
		WHEEL w = start(&shapes[i], (t << 40) - 3 * t);

		records[0].fired = 0;
		n_records = 1;
		for (unsigned d = 0; d < COUNT(deadlines); d++) {
			hwheel_timer_t timer;

			CHECK_EQ(hwheel_once(w, deadlines[d], note, 0, HWHEEL_ABS, &timer), 0);
			CHECK_EQ(hwheel_timer_remaining(w, timer, &left), 1);
			CHECK(left > UINT64_MAX / 4);
		}
		each_tick(w, (t << 40) + 1000 * t);
		CHECK_EQ(fired(), 0);
	}
}

/* A period so long that its second deadline overflows fires once, not without end. */
TEST(a1_huge_period_does_not_wrap)
{
	for (unsigned i = 0; i < COUNT(shapes); i++) {
		uint64_t t = shapes[i].tick;
		WHEEL w = start(&shapes[i], t << 32);

		records[0].fired = 0;
		n_records = 1;
		CHECK_EQ(hwheel_every(w, t, HWHEEL_NEVER, 0, note, 0, 0, NULL), 0);
		CHECK_EQ(hwheel_every(w, t, INT64_MAX, 0, note, 0, HWHEEL_MISSED_BURST, NULL), 0);
		CHECK_EQ(hwheel_every(w, t, INT64_MAX - (t << 32), 0, note, 0, HWHEEL_MISSED_DELAY,
				      NULL), 0);
		each_tick(w, (t << 32) + 300 * t);
		CHECK_EQ(fired(), 3);
	}
}

TEST(a2_deadlines_next_to_reserved_values_are_kept)
{
	static const unsigned bits[] = { 6, 12, 24, 28, 30, 31, 32, 36, 39, 40, 42, 44 };

	for (unsigned i = 0; i < COUNT(shapes); i++) {
		for (unsigned b = 0; b < COUNT(bits); b++) {
			for (int64_t d = -2; d <= 2; d++) {
				uint64_t k = (UINT64_C(1) << bits[b]) + (uint64_t)d;

				/* seen from close by: exact, whatever the bits */
				if (shapes[i].tick < UINT64_MAX >> 46) {
					uint64_t t = shapes[i].tick;

					exactly(&shapes[i], (k - 3) * t, k * t);
					exactly(&shapes[i], (k - 3) * t, (k - 1) * t + 1);
				}
				/* seen from afar: exact up to 2^36 ticks */
				if (bits[b] < 36)
					exactly(&shapes[i], 0, k * shapes[i].tick);
			}
		}
	}
}

/* Beyond 2^36 ticks: late by at most a hundred-millionth, never early. */
TEST(a2_far_deadlines_are_never_early)
{
	static const unsigned bits[] = { 36, 37, 38, 39, 40, 42 };
	static const struct shape two[] = { { 1000, 4, 256 }, { 7001, 1, 256 }, { 1000000, 2, 16 } };

	for (unsigned i = 0; i < COUNT(two); i++) {
		for (unsigned b = 0; b < COUNT(bits); b++) {
			for (int64_t d = -1; d <= 1; d++) {
				uint64_t t = two[i].tick;
				uint64_t delay = ((UINT64_C(1) << bits[b]) + (uint64_t)d) * t;
				uint64_t late = delay / 50000000 + t;
				struct hwheel *w = start(&two[i], 5 * t);

				at(w, 5 * t + delay);
				records[0].last += late;
				to(w, 5 * t + delay - 1);
				CHECK_EQ(fired(), 0);
				to(w, 5 * t + delay + late);
				done(w);
			}
		}
	}
}

/* A deadline too far to be reached is neither forgotten nor shortened. */
TEST(a2_remaining_of_the_farthest_is_right)
{
	for (unsigned bit = 40; bit < 63; bit++) {
		WHEEL w = ktap_manual(1000, 4, 256, 77);
		uint64_t delay = (UINT64_C(1) << bit) + 1, left = 0;
		hwheel_timer_t timer;

		CHECK_EQ(hwheel_once(w, delay, NULL, 0, 0, &timer), 0);
		CHECK_EQ(hwheel_timer_remaining(w, timer, &left), 1);
		CHECK(left >= delay);
		CHECK(left <= delay + delay / 50000000 + 1000);
	}
}

TEST(a10_never_early_by_part_of_a_tick)
{
	for (unsigned i = 0; i < COUNT(shapes); i++) {
		uint64_t t = shapes[i].tick;
		const uint64_t parts[] = { 0, 1, t / 3, t / 2, t - 1 };

		for (unsigned from = 0; from < COUNT(parts); from++)
			for (unsigned part = 0; part < COUNT(parts); part++)
				for (uint64_t k = 0; k < 5; k++)
					exactly(&shapes[i], 1000 * t + parts[from],
						(1000 + k) * t + parts[part] + parts[from]);
	}
}

/* A delay counts from the clock's nanosecond, not from the last tick. */
TEST(a10_delay_counts_from_the_nanosecond)
{
	struct hwheel *w = start(&shapes[0], 10 * MS);

	to(w, 10 * MS + 999999);
	after(w, MS);
	CHECK_EQ(records[0].first, 12 * MS);
	to(w, 11 * MS);
	to(w, 11 * MS + 999998);
	CHECK_EQ(fired(), 0);
	to(w, 12 * MS - 1);
	CHECK_EQ(fired(), 0);
	to(w, 12 * MS);
	CHECK_DUE(records[0].due, 11 * MS + 999999, MS);
	done(w);
}

TEST(a11_milliseconds_past_32_bits)
{
	static const uint64_t days = UINT64_C(1) << 32;	/* 49.7 of them */

	for (unsigned i = 0; i < COUNT(shapes); i++) {
		uint64_t t = shapes[i].tick;
		const uint64_t ks[] = { days / 2 - 1, days / 2, days - 1, days, days + 1, 3 * days };

		for (unsigned k = 0; k < COUNT(ks); k++) {
			exactly(&shapes[i], 0, ks[k] * t);
			exactly(&shapes[i], (days - 5) * t, (days - 5 + ks[k]) * t);
		}
	}
}

/* Delays around 2^31 and 2^32 nanoseconds, microseconds and milliseconds. */
TEST(a11_delays_past_32_bits_of_any_unit)
{
	static const uint64_t units[] = { 1, 1000, 1000000 };

	for (unsigned i = 0; i < COUNT(shapes); i++)
		for (unsigned u = 0; u < COUNT(units); u++)
			for (unsigned bit = 31; bit <= 32; bit++)
				for (uint64_t d = 0; d < 3; d++) {
					uint64_t ns = ((UINT64_C(1) << bit) + d - 1) * units[u];

					if (ns / shapes[i].tick < UINT64_C(1) << 36)
						exactly(&shapes[i], 123, ns + 123);
				}
}

TEST(a12_zero_and_the_past_fire_at_the_next_tick)
{
	for (unsigned i = 0; i < COUNT(shapes); i++) {
		uint64_t t = shapes[i].tick;
		const uint64_t starts[] = { 0, t, 255 * t, 256 * t + t / 2, (t << 32) - t, t << 40 };

		for (unsigned s = 0; s < COUNT(starts); s++) {
			struct hwheel *w = start(&shapes[i], starts[s]);
			uint64_t now = starts[s];
			hwheel_timer_t timer;

			after(w, 0);
			at(w, now);
			at(w, now ? now - 1 : 0);
			at(w, now / 2);
			at(w, 0);
			at(w, 1);
			CHECK_EQ(hwheel_timer_setup(w, note, expect(0), &timer), 0);
			CHECK_EQ(hwheel_timer_mod(w, timer, 0, 0), 0);
			CHECK_EQ(hwheel_timer_mod(w, timer, 0, HWHEEL_ABS), 1);
			CHECK_EQ(fired(), 0);
			to(w, now / t * t + t);
			CHECK_EQ(fired(), n_records);
			to(w, driven + 600 * t);
			done(w);
		}
	}
}

TEST(a12_the_past_after_a_jump)
{
	for (unsigned i = 0; i < COUNT(shapes); i++) {
		uint64_t t = shapes[i].tick;
		struct hwheel *w = start(&shapes[i], 0);

		for (uint64_t jump = 1; jump < UINT64_C(1) << 30; jump *= 5) {
			n_records = 0;
			to(w, driven + jump * t);
			at(w, driven);
			at(w, driven - 1);
			at(w, driven - jump * t);
			at(w, driven - jump * t + 1);
			after(w, 0);
			to(w, driven + t);
			CHECK_EQ(fired(), n_records);
		}
		done(w);
	}
}

TEST(a13_deadlines_off_the_grid_are_not_lost)
{
	for (unsigned i = 0; i < COUNT(shapes); i++) {
		uint64_t t = shapes[i].tick, stride = t > 3 ? t * 7 / 10 : 1;
		WHEEL w = start(&shapes[i], 12345 * t + t / 3);
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
}

TEST(a13_the_wheel_starts_off_the_grid)
{
	for (unsigned i = 0; i < COUNT(shapes); i++) {
		uint64_t t = shapes[i].tick;

		for (uint64_t off = 0; off < t; off += t / 7 + 1) {
			struct hwheel *w = start(&shapes[i], 77 * t + off);

			for (uint64_t k = 0; k < 300; k++)
				after(w, k * (t / 3 + 1));
			each_tick(w, driven + 310 * t);
			done(w);
		}
	}
}

TEST(a14_units_are_nanoseconds_throughout)
{
	struct hwheel *w = start(&shapes[0], 0);
	uint64_t left = 0, next = 0, now = 1;
	hwheel_timer_t timer;

	CHECK_EQ(hwheel_once(w, 2 * SEC + 345, note, expect(2 * SEC + 345), 0, &timer), 0);
	CHECK_EQ(hwheel_timer_remaining(w, timer, &left), 1);
	CHECK_DUE(left, 2 * SEC + 345, MS);
	CHECK_EQ(hwheel_next_expiry(w, &next), 1);
	CHECK_EQ(next, 2 * SEC + MS);
	to(w, SEC);
	CHECK_EQ(hwheel_now(w, &now), 0);
	CHECK_EQ(now, SEC);
	CHECK_EQ(hwheel_timer_remaining(w, timer, &left), 1);
	CHECK_DUE(left, SEC + 345, MS);
	to(w, 2 * SEC + 344);
	CHECK_EQ(hwheel_timer_remaining(w, timer, &left), 1);
	CHECK_DUE(left, 1, MS);
	to(w, 2 * SEC + 500);
	CHECK_EQ(hwheel_timer_remaining(w, timer, &left), 1);
	CHECK_DUE(left, 0, MS);
	to(w, next);
	done(w);
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
