/*
 * Driving: defects that other timers had where the clock is looked at too rarely,
 * or in steps that do not suit the wheel.
 */
#include "own_clock.h"

/* Overdue timers wait to be taken; a new short one is still seen in time. */
TEST(b5_short_timer_behind_an_overdue_one)
{
	for (unsigned i = 0; i < COUNT(shapes); i++) {
		uint64_t t = shapes[i].tick, next = 0;
		WHEEL w = start(&shapes[i], 0);
		struct hwheel_event e;

		for (uint64_t n = 0; n < 5; n++)
			CHECK_EQ(hwheel_once(w, (n + 1) * 10 * t, NULL, n, 0, NULL), 0);
		driven = 100000 * t;
		for (uint64_t n = 0; n < 5; n++) {
			CHECK_EQ(hwheel_advance(w, driven, &e, 1, NULL), 1);
			CHECK_EQ(e.cookie, n);
			if (n == 1)
				CHECK_EQ(hwheel_once(w, 5 * t, NULL, 99, 0, NULL), 0);
			CHECK_EQ(hwheel_next_expiry(w, &next), 1);
			/* what is overdue is not hidden, nor what comes */
			CHECK(next <= driven + 5 * t);
			CHECK(n == 4 || next <= driven);
		}
		CHECK_EQ(hwheel_advance(w, driven, &e, 1, NULL), 0);
		CHECK_EQ(hwheel_next_expiry(w, &next), 1);
		CHECK_EQ(next, driven + 5 * t);
		CHECK_EQ(hwheel_advance(w, next, &e, 1, NULL), 1);
		CHECK_EQ(e.cookie, 99);
	}
}

TEST(b6_one_poll_fires_all_that_is_due)
{
	for (unsigned i = 0; i < COUNT(shapes); i++) {
		uint64_t t = shapes[i].tick;
		WHEEL w = start(&shapes[i], 0);

		for (unsigned n = 0; n < 1000; n++)
			CHECK_EQ(hwheel_once(w, (n * 997 + 1) * t, note, n, 0, NULL), 0);
		to(w, 1000000 * t);
		CHECK_EQ(n_fired, 1000);
		CHECK_EQ(disorder, 0);
	}
}

TEST(b6_one_poll_of_a_system_clock_too)
{
	struct hwheel *w = start_still(HWHEEL_CLOCK_MONOTONIC, MS, 5000 * SEC);

	for (unsigned n = 0; n < 1000; n++)
		CHECK_EQ(hwheel_once(w, (n * 997 % 1000 + 1) * 50 * MS, note, n, 0, NULL), 0);
	poll_at(w, 5000 * SEC + 51 * SEC);
	CHECK_EQ(n_fired, 1000);
	CHECK_EQ(disorder, 0);
	CHECK_EQ(hwheel_destroy(w), 0);
	still_ns = 0;
}

/* After each step, exactly what is due by then has fired. */
static void step_by(const struct shape *s, uint64_t from, unsigned bit, int64_t by)
{
	uint64_t t = s->tick, step = (UINT64_C(1) << bit) + (uint64_t)by;
	WHEEL w = start(s, from * t);

	for (unsigned k = 0; k < 47; k++) {
		/* the clock has no more */
		if (((UINT64_C(1) << k) + 3) > INT64_MAX / t - from)
			break;
		after(w, (UINT64_C(1) << k) * t);
		after(w, ((UINT64_C(1) << k) + k % 3) * t);
	}
	for (unsigned n = 0; n < 5 && step; n++) {
		if (step > INT64_MAX / t - driven / t)
			break;
		to(w, driven + step * t);
		for (unsigned r = 0; r < n_records; r++) {
			/* beyond 2^36 ticks a hundred-millionth late */
			uint64_t d = records[r].first - from * t;
			uint64_t late = d / t >> 36 ? d / 50000000 : 0;

			CHECK(records[r].fired <= 1);
			if (records[r].fired)
				CHECK(records[r].first <= driven);
			else
				CHECK(records[r].first + late > driven);
		}
	}
	CHECK_EQ(disorder, 0);
}

TEST(b7_steps_longer_than_the_wheel)
{
	for (unsigned i = 0; i < COUNT(shapes); i++) {
		if (shapes[i].tick > 7001)
			continue;	/* 2^48 of its ticks are more than the clock has */
		for (unsigned bit = 0; bit < 40; bit++)
			for (int64_t by = -1; by <= 1; by++)
				step_by(&shapes[i], bit % 2 ? 0 : 12345, bit, by);
	}
}

TEST(b7_steps_of_the_default_tick)
{
	for (unsigned i = 0; i < 4; i++)
		for (unsigned bit = 0; bit < 34; bit++)
			for (int64_t by = -1; by <= 1; by++)
				step_by(&shapes[i], (UINT64_C(1) << 32) - 3, bit, by);
}

TEST(b7_steps_of_up_to_2_48)
{
	static const struct shape some[] = { { 1000, 4, 256 }, { 1000, 1, 16 } };

	for (unsigned i = 0; i < COUNT(some); i++)
		for (unsigned bit = 40; bit <= 48; bit += 4) {
			uint64_t t = some[i].tick;
			WHEEL w = start(&some[i], 99 * t);

			after(w, t);
			after(w, 300 * t);
			after(w, t << 20);
			after(w, t << 35);
			to(w, driven + (t << bit));
			CHECK_EQ(n_fired, 4);
			CHECK_EQ(disorder, 0);
			n_records = 0;
			after(w, 5 * t);
			to(w, driven + 5 * t - 1);
			CHECK_EQ(n_fired, 4);
			to(w, driven + 1);
			CHECK_EQ(n_fired, 5);
		}
}

static unsigned b8_wrong;

static void b8_look(struct hwheel *w, const struct hwheel_event *e)
{
	uint64_t now = 0;

	/* one time for the whole sweep, whatever level the timer came from */
	if (hwheel_now(w, &now) != 0 || now != driven)
		b8_wrong++;
	/* a delay counts from that time */
	records[n_records].first = up(driven + 3 * tick);
	if (hwheel_once(w, 3 * tick, note, n_records++, 0, NULL) != 0)
		b8_wrong++;
	records[e->cookie].fired++;
	records[e->cookie].got = records[e->cookie].first;
}

TEST(b8_levels_see_one_now)
{
	for (unsigned i = 0; i < COUNT(shapes); i++) {
		uint64_t t = shapes[i].tick, unit = 1;
		struct hwheel *w = start(&shapes[i], 0);
		unsigned armed = 0;

		b8_wrong = 0;
		for (uint32_t level = 0; level < shapes[i].levels && level < 3; level++) {
			unit *= shapes[i].slots;
			for (uint64_t k = unit - 1; k <= unit + 1; k++) {
				records[n_records].first = k * t;
				CHECK_EQ(hwheel_once(w, k * t, b8_look, n_records++, 0, NULL), 0);
				armed++;
			}
		}
		to(w, (2 * unit + 1) * t);
		CHECK_EQ(b8_wrong, 0);
		CHECK_EQ(n_records, 2 * armed);
		CHECK_EQ(n_fired, 0);
		each_expiry_or_overdue(w);
		CHECK_EQ(n_fired, armed);
		done(w);
	}
}

/* One deadline, armed from afar on every level: all fire in the same tick. */
TEST(b8_one_deadline_from_every_level)
{
	for (unsigned i = 0; i < COUNT(shapes); i++) {
		uint64_t t = shapes[i].tick, slots = shapes[i].slots;
		uint64_t due = (slots * slots * slots + slots * slots + slots) * t;
		struct hwheel *w = start(&shapes[i], 0);

		for (uint64_t away = due / t; away > 0; away /= 2) {
			to(w, due - away * t);
			after(w, away * t);
			CHECK_EQ(n_fired, 0);
		}
		to(w, due - 1);
		CHECK_EQ(n_fired, 0);
		to(w, due);
		done(w);
	}
}

static void b9_late(struct hwheel *w, const struct hwheel_event *e)
{
	note(w, e);
	still_ns += 3 * MS;	/* the callback takes its time */
}

TEST(b9_period_is_not_measured_from_the_callback)
{
	struct hwheel *w = start_still(HWHEEL_CLOCK_MONOTONIC, MS, 5000 * SEC);

	CHECK_EQ(hwheel_every(w, 10 * MS, 10 * MS, 0, b9_late, 0, 0, NULL), 0);
	for (unsigned n = 1; n <= 1000; n++) {
		poll_at(w, 5000 * SEC + n * 10 * MS);
		CHECK_EQ(n_fired, n);
		CHECK_EQ(records[0].due, 5000 * SEC + n * 10 * MS);
	}
	CHECK_EQ(records[0].missed, 0);
	CHECK_EQ(hwheel_destroy(w), 0);
	still_ns = 0;
}

/* Driven late each time by most of a period, with a period off the grid. */
TEST(b9_late_driving_does_not_drift)
{
	static const uint32_t flags[] = { 0, HWHEEL_MISSED_BURST };

	for (unsigned f = 0; f < COUNT(flags); f++) {
		for (unsigned i = 0; i < COUNT(shapes); i++) {
			uint64_t t = shapes[i].tick, period = 10 * t + t / 3;
			WHEEL w = start(&shapes[i], 17 * t);

			CHECK_EQ(hwheel_every(w, period, period, 0, note, 0, flags[f], NULL), 0);
			for (unsigned n = 1; n <= 1000; n++) {
				to(w, 17 * t + n * period + 8 * t);
				CHECK_EQ(n_fired, n);
				CHECK_EQ(records[0].due, 17 * t + n * period);
			}
			CHECK_EQ(records[0].missed, 0);
		}
	}
}

/* A clock that moves in steps of 4 ms, a tick of a tenth of a millisecond. */
TEST(b10_coarse_clock_does_not_spin)
{
	const uint64_t grain = 4 * MS, base = 5000 * SEC;
	struct hwheel *w = start_still(HWHEEL_CLOCK_MONOTONIC, 100000, base);
	unsigned polls = 0;
	uint64_t next = 0;

	for (unsigned n = 0; n < 50; n++)
		after(w, n * 700000 + 50000);
	while (hwheel_next_expiry(w, &next) == 1) {
		/* an exact sleep, then the clock shows its last step */
		uint64_t shown = next / grain * grain;
		unsigned before = n_fired;

		/* if that does not reach it, the sleeper waits out the grain */
		if (shown < next)
			shown += grain;
		poll_at(w, shown);
		CHECK(n_fired > before);
		polls++;
	}
	/* 35 ms in steps of 4 */
	CHECK(polls <= 10);
	for (unsigned n = 0; n < 50; n++) {
		CHECK_EQ(records[n].fired, 1);
		CHECK(records[n].got >= records[n].first);
		CHECK(records[n].got < records[n].first + grain);
	}
	CHECK_EQ(hwheel_destroy(w), 0);
	still_ns = 0;
}

/* The tick thread sleeps once per expiry, however fine the deadlines. */
TEST(b10_fine_deadlines_do_not_wake_twice)
{
	struct hwheel_options o;
	struct hwheel_stats s;
	WHEEL w = NULL;

	memset(&o, 0, sizeof o);
	o.size = sizeof o;
	o.tick_ns = 1000;
	CHECK_EQ(hwheel_create(&o, &w), 0);
	for (unsigned n = 1; n <= 20; n++)
		CHECK_EQ(hwheel_once(w, n * 5 * MS + 777, NULL, 0, 0, NULL), 0);
	CHECK_EQ(hwheel_start(w), 0);
	for (unsigned n = 0; n < 2000 && stats(w).unclaimed < 20; n++)
		ktap_sleep_ms(1);
	s = stats(w);
	CHECK_EQ(s.unclaimed, 20);
	/* one more for the start */
	CHECK(s.wakeups <= 20 + 2);
}

/* Deadlines at which the hand turns over: they come down and fire at once. */
TEST(b11_cascade_into_the_tick_being_swept)
{
	for (unsigned i = 0; i < COUNT(shapes); i++) {
		for (unsigned mode = 0; mode < 2; mode++) {
			uint64_t t = shapes[i].tick, unit = 1, far;
			struct hwheel *w = start(&shapes[i], 3 * t);

			for (uint32_t level = 0; level < 3; level++) {
				unit *= shapes[i].slots;
				for (uint64_t k = 1; k <= 3; k++) {
					CHECK(n_records < COUNT(records));
					records[n_records].first = k * unit * t;
					if (k * unit > 3)
						CHECK_EQ(hwheel_once(w, k * unit * t, note, n_records++, HWHEEL_ABS,
								   NULL), 0);
				}
			}
			far = unit > 70000 ? 70000 : 3 * unit;
			while (mode == 0 && driven < far * t)
				to(w, driven + t);
			each_expiry_or_overdue(w);
			done(w);
		}
	}
}
