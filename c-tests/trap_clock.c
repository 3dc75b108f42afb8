/* Time base: defects that other timers had where the clock misbehaves or jumps. */
#include "own_clock.h"

TEST(b1_arm_after_idle_is_not_early)
{
	for (unsigned i = 0; i < COUNT(shapes); i++) {
		uint64_t t = shapes[i].tick;

		for (unsigned bit = 1; bit < 40; bit += 3) {
			struct hwheel *w = start(&shapes[i], 5 * t);

			after(w, t);
			to(w, driven + t);
			/* idle, perhaps off the grid */
			to(w, driven + (t << bit) + t / 2);
			after(w, t);
			after(w, 3 * t);
			after(w, 300 * t);
			each_expiry_or_overdue(w);
			done(w);
		}
	}
}

/* An arm on a system clock that nobody has polled while the wheel was empty. */
TEST(b1_arm_after_unpolled_idle_is_not_early)
{
	for (unsigned bit = 10; bit < 44; bit += 2) {
		struct hwheel *w = start_still(HWHEEL_CLOCK_MONOTONIC, MS, 100 * SEC + 1);

		still_ns = driven = 100 * SEC + (MS << (bit - 10)) + 17;
		after(w, 5 * MS);
		after(w, 300 * MS);
		poll_at(w, driven);
		CHECK_EQ(n_fired, 0);
		for (unsigned n = 0; n < 2; n++) {
			uint64_t first = records[n].first;

			poll_at(w, first - 1);
			CHECK_EQ(n_fired, n);
			poll_at(w, first);
			CHECK_EQ(n_fired, n + 1);
		}
		done(w);
	}
}

/* Ticks in which nothing is due are not gone through one by one. */
TEST(b1_idle_ticks_cost_nothing)
{
	for (unsigned i = 0; i < COUNT(shapes); i++) {
		struct hwheel *w = start(&shapes[i], 0);
		uint64_t before = ktap_clock();

		after(w, shapes[i].tick << 35);
		to(w, records[0].first);
		/* one by one it would be minutes */
		CHECK(ktap_clock() - before < SEC);
		done(w);
	}
}

TEST(b2_clock_steps_back)
{
	static const uint64_t steps[] = {
		1, 999, 999999, MS, MS + 1, 50 * MS, SEC, 60 * SEC, 3600 * SEC,
	};
	static const uint32_t clocks[] = {
		HWHEEL_CLOCK_MONOTONIC, HWHEEL_CLOCK_BOOTTIME, HWHEEL_CLOCK_REALTIME,
	};

	for (unsigned c = 0; c < COUNT(clocks); c++) {
		for (unsigned s = 0; s < COUNT(steps); s++) {
			uint64_t base = 10000 * SEC, now = 0, left = 0;
			struct hwheel *w = start_still(clocks[c], MS, base);
			hwheel_timer_t timer;

			poll_at(w, base + 10 * MS);
			after(w, 20 * MS);
			CHECK_EQ(hwheel_timer_setup(w, NULL, 0, &timer), 0);
			/* back: the time is held, at least at the last tick */
			poll_at(w, base + 10 * MS - steps[s]);
			CHECK_EQ(hwheel_now(w, &now), 0);
			CHECK_EQ(now, base + 10 * MS);
			CHECK_EQ(n_fired, 0);
			/* a delay begun meanwhile counts from the time held */
			CHECK_EQ(hwheel_timer_mod(w, timer, 5 * MS, 0), 0);
			CHECK_EQ(hwheel_timer_remaining(w, timer, &left), 1);
			CHECK_EQ(left, 5 * MS);
			CHECK_EQ(hwheel_timer_delete(w, timer), 1);
			/* and again, further */
			poll_at(w, base + 10 * MS - steps[s] - 1);
			CHECK_EQ(n_fired, 0);
			/* caught up: not early, not lost */
			poll_at(w, base + 30 * MS - 1);
			CHECK_EQ(n_fired, 0);
			poll_at(w, base + 30 * MS);
			done(w);
		}
	}
}

/* Back and forth at random: timers fire once, in order, never early. */
TEST(b2_clock_that_jitters)
{
	struct hwheel *w = start_still(HWHEEL_CLOCK_MONOTONIC, MS, 10000 * SEC);
	uint64_t seed = 88172645463325252u, most = driven, base = driven;

	for (unsigned n = 0; n < 1000; n++)
		after(w, (n * 7919 % 1000 + 1) * MS);
	while (n_fired < n_records) {
		unsigned before = n_fired, due = 0;

		seed ^= seed << 13;
		seed ^= seed >> 7;
		seed ^= seed << 17;
		if (seed >> 63)
			poll_at(w, most + (seed >> 20) % (4 * MS));
		else
			poll_at(w, most - (seed >> 20) % (100 * MS));
		if (driven > most)
			most = driven;
		else
			CHECK_EQ(n_fired, before);
		for (unsigned n = 0; n < n_records; n++)
			due += records[n].first <= most;
		CHECK_EQ(n_fired, due);
		CHECK(most < base + 2 * SEC);
	}
	for (unsigned n = 0; n < n_records; n++)
		CHECK_EQ(records[n].fired, 1);
	CHECK_EQ(disorder, 0);
	CHECK_EQ(hwheel_destroy(w), 0);
	still_ns = 0;
}

TEST(b2_manual_clock_steps_back)
{
	for (unsigned i = 0; i < COUNT(shapes); i++) {
		uint64_t t = shapes[i].tick, now = 0;
		struct hwheel *w = start(&shapes[i], 1000 * t);

		after(w, 20 * t);
		to(w, 1010 * t);
		for (uint64_t back = 1; back < 1010 * t; back *= 3) {
			CHECK_EQ(hwheel_advance(w, 1010 * t - back, NULL, 0, NULL), 0);
			CHECK_EQ(hwheel_now(w, &now), 0);
			CHECK_EQ(now, 1010 * t);
		}
		CHECK_EQ(hwheel_advance(w, 0, NULL, 0, NULL), 0);
		after(w, 5 * t);
		to(w, 1015 * t - 1);
		CHECK_EQ(n_fired, 0);
		to(w, 1015 * t);
		CHECK_EQ(n_fired, 1);
		to(w, 1020 * t);
		records[0].first = 1020 * t;
		done(w);
	}
}

/* A thread that sleeps: the clock steps back under it, and nothing is early. */
TEST(b2_tick_thread_survives_a_step_back)
{
	struct hwheel *w = NULL;
	uint64_t before, now = 0, last = 0;

	reset(MS, 0);
	/* On a busy machine both may have fired before the step: then once more. */
	do {
		CHECK_EQ(hwheel_destroy(w), 0);
		offset_ns[CLOCK_MONOTONIC] = 0;
		CHECK_EQ(hwheel_create(NULL, &w), 0);
		before = ktap_clock();
		CHECK_EQ(hwheel_once(w, 30 * MS, NULL, 0, 0, NULL), 0);
		CHECK_EQ(hwheel_once(w, 50 * MS, NULL, 0, 0, NULL), 0);
		CHECK_EQ(hwheel_start(w), 0);
		ktap_sleep_ms(10);
		offset_ns[CLOCK_MONOTONIC] = -20 * (int64_t)MS;
	} while (stats(w).unclaimed == 2);
	while (stats(w).unclaimed < 2) {
		CHECK_EQ(hwheel_now(w, &now), 0);
		/* held within a tick */
		CHECK(now + MS > last);
		if (now > last)
			last = now;
		if (now + MS < before + 30 * MS)
			CHECK_EQ(stats(w).unclaimed, 0);
		CHECK(ktap_clock() < before + 5 * SEC);
		ktap_sleep_ms(1);
	}
	CHECK(ktap_clock() >= before + 50 * MS);
	offset_ns[CLOCK_MONOTONIC] = 0;
	CHECK_EQ(hwheel_destroy(w), 0);
}

TEST(b3_delays_are_not_on_the_wall_clock)
{
	struct hwheel *w = start_still(HWHEEL_CLOCK_MONOTONIC, MS, 10000 * SEC);
	unsigned before = asked[CLOCK_REALTIME];

	after(w, 10 * MS);
	after(w, 20 * MS);
	offset_ns[CLOCK_REALTIME] = 3600 * (int64_t)SEC;
	poll_at(w, 10000 * SEC + 5 * MS);
	CHECK_EQ(n_fired, 0);
	poll_at(w, 10000 * SEC + 10 * MS);
	CHECK_EQ(n_fired, 1);
	offset_ns[CLOCK_REALTIME] = -3600 * (int64_t)SEC;
	poll_at(w, 10000 * SEC + 20 * MS);
	CHECK_EQ(asked[CLOCK_REALTIME], before);
	done(w);
	offset_ns[CLOCK_REALTIME] = 0;
}

/* Each wheel asks its own clock, and only that. */
TEST(b3_each_wheel_has_its_clock)
{
	static const struct { uint32_t wheel; clockid_t system; } clocks[] = {
		{ HWHEEL_CLOCK_MONOTONIC, CLOCK_MONOTONIC },
		{ HWHEEL_CLOCK_BOOTTIME, CLOCK_BOOTTIME },
		{ HWHEEL_CLOCK_REALTIME, CLOCK_REALTIME },
	};

	for (unsigned c = 0; c < COUNT(clocks); c++) {
		uint64_t now = 0;
		struct hwheel *w;

		offset_ns[clocks[c].system] = (int64_t)(7 * SEC);
		w = start_still(clocks[c].wheel, MS, 1000 * SEC);
		CHECK_EQ(hwheel_now(w, &now), 0);
		CHECK_EQ(now, 1007 * SEC);
		offset_ns[clocks[c].system] = 0;
		CHECK_EQ(hwheel_destroy(w), 0);
	}
	still_ns = 0;
}

TEST(b4_jump_fires_a_periodic_timer_once)
{
	for (unsigned i = 0; i < COUNT(shapes); i++) {
		uint64_t t = shapes[i].tick;

		for (uint64_t jump = 2; jump < 100000; jump *= 7) {
			WHEEL w = start(&shapes[i], 3 * t);

			/* due at 13, 23, ... ticks; then late by some periods */
			CHECK_EQ(hwheel_every(w, 10 * t, 10 * t, 0, note, 0, 0, NULL), 0);
			to(w, 13 * t);
			CHECK_EQ(n_fired, 1);
			CHECK_EQ(records[0].missed, 0);
			to(w, 13 * t + jump * 10 * t + t);
			CHECK_EQ(n_fired, 2);
			CHECK_EQ(records[0].due, 23 * t);
			CHECK_EQ(records[0].missed, jump - 1);
			CHECK_EQ(stats(w).missed, jump - 1);
			/* the rhythm is kept */
			to(w, 13 * t + (jump + 1) * 10 * t - 1);
			CHECK_EQ(n_fired, 2);
			to(w, 13 * t + (jump + 1) * 10 * t);
			CHECK_EQ(n_fired, 3);
			CHECK_EQ(records[0].due, 13 * t + (jump + 1) * 10 * t);
			CHECK_EQ(records[0].missed, jump - 1);
		}
	}
}

TEST(b4_jump_with_burst_fires_each)
{
	for (unsigned i = 0; i < COUNT(shapes); i++) {
		uint64_t t = shapes[i].tick;
		WHEEL w = start(&shapes[i], 0);

		CHECK_EQ(hwheel_every(w, 10 * t, 10 * t, 0, note, 0, HWHEEL_MISSED_BURST, NULL), 0);
		to(w, 10 * t);
		to(w, 10005 * t);
		CHECK_EQ(n_fired, 1000);
		CHECK_EQ(records[0].due, 10000 * t);
		CHECK_EQ(records[0].missed, 0);
		CHECK_EQ(disorder, 0);
		to(w, 10010 * t);
		CHECK_EQ(n_fired, 1001);
	}
}

TEST(b4_jump_with_delay_counts_from_now)
{
	for (unsigned i = 0; i < COUNT(shapes); i++) {
		uint64_t t = shapes[i].tick;
		WHEEL w = start(&shapes[i], 0);

		CHECK_EQ(hwheel_every(w, 10 * t, 10 * t, 0, note, 0, HWHEEL_MISSED_DELAY, NULL), 0);
		to(w, 10 * t);
		to(w, 10005 * t);
		CHECK_EQ(n_fired, 2);
		to(w, 10015 * t - 1);
		CHECK_EQ(n_fired, 2);
		to(w, 10015 * t);
		CHECK_EQ(n_fired, 3);
	}
}

/* The system was suspended for eight hours; the clock says so at once. */
TEST(b4_resume_fires_once_in_order)
{
	struct hwheel *w = start_still(HWHEEL_CLOCK_BOOTTIME, MS, 10000 * SEC);

	CHECK_EQ(hwheel_every(w, SEC, SEC, 0, note, 0, 0, NULL), 0);
	CHECK_EQ(hwheel_every(w, 60 * SEC, 60 * SEC, 0, note, 1, 0, NULL), 0);
	CHECK_EQ(hwheel_once(w, 3600 * SEC, note, 2, 0, NULL), 0);
	CHECK_EQ(hwheel_once(w, 9 * 3600 * SEC, note, 3, 0, NULL), 0);
	poll_at(w, 10000 * SEC + 8 * 3600 * SEC);
	CHECK_EQ(records[0].fired, 1);
	CHECK_EQ(records[0].missed, 8 * 3600 - 1);
	CHECK_EQ(records[1].fired, 1);
	CHECK_EQ(records[1].missed, 8 * 60 - 1);
	CHECK_EQ(records[2].fired, 1);
	CHECK_EQ(records[3].fired, 0);
	CHECK_EQ(disorder, 0);
	CHECK_EQ(hwheel_destroy(w), 0);
	still_ns = 0;
}
