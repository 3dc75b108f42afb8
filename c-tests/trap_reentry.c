/*
 * Re-entry: defects that other timers had where a callback uses the wheel that
 * is calling it.
 */
#include "reentry.h"

static void d1_again(struct hwheel *w, const struct hwheel_event *e)
{
	n_fired++;
	switch (e->cookie) {
	case 0:
		EXPECT(hwheel_timer_mod(w, e->timer, 0, 0), 0);
		break;
	case 1:
		EXPECT(hwheel_timer_mod(w, e->timer, 0, HWHEEL_ABS), 0);
		break;
	case 2:
		EXPECT(hwheel_timer_mod(w, e->timer, e->deadline_ns, HWHEEL_ABS), 0);
		break;
	case 3:
		EXPECT(hwheel_once(w, 0, d1_again, 3, 0, NULL), 0);
		break;
	default:
		EXPECT(hwheel_once(w, 0, d1_again, 4, HWHEEL_ABS, NULL), 0);
	}
}

/* Once an advance, be it of one tick or of many. */
TEST(d1_zero_rearm_in_the_callback_does_not_loop)
{
	for (unsigned i = 0; i < COUNT(shapes); i++) {
		for (unsigned how = 0; how < 5; how++) {
			WHEEL w = start(&shapes[i], ((UINT64_C(1) << 32) - 3) * shapes[i].tick);
			hwheel_timer_t timer;

			CHECK_EQ(hwheel_timer_setup(w, d1_again, how, &timer), 0);
			CHECK_EQ(hwheel_timer_mod(w, timer, tick, 0), 0);
			for (unsigned n = 1; n <= 600; n++) {
				to(w, driven + tick);
				CHECK_EQ(n_fired, n);
			}
			for (unsigned n = 601; n <= 620; n++) {
				to(w, driven + 1000 * tick);
				CHECK_EQ(n_fired, n);
			}
		}
	}
}

/* The least period fires once a tick, and the rest is counted. */
TEST(d1_least_period_does_not_loop)
{
	WHEEL w = start(&shapes[0], 0);
	struct hwheel_stats s;

	CHECK_EQ(hwheel_every(w, 0, 1, 0, count_it, 0, 0, NULL), 0);
	for (unsigned n = 1; n <= 100; n++) {
		to(w, n * tick);
		CHECK_EQ(n_fired, n);
	}
	s.size = sizeof s;
	CHECK_EQ(hwheel_get_stats(w, &s), 0);
	CHECK(s.missed >= 99 * (MS - 1));
}

static _Atomic unsigned d1_count;

static void d1_thread_again(struct hwheel *w, const struct hwheel_event *e)
{
	d1_count++;
	EXPECT(hwheel_timer_mod(w, e->timer, 0, 0), 0);
}

/* On the tick thread it comes once a tick, and others come in between. */
TEST(d1_zero_rearm_leaves_the_thread_to_others)
{
	WHEEL w = start_thread();
	hwheel_timer_t timer;
	uint64_t before = ktap_clock();
	unsigned n;

	d1_count = 0;
	CHECK_EQ(hwheel_timer_setup(w, d1_thread_again, 0, &timer), 0);
	CHECK_EQ(hwheel_timer_mod(w, timer, 0, 0), 0);
	for (unsigned ms = 0; ms < 5000 && d1_count < 20; ms++)
		ktap_sleep_ms(1);
	CHECK(hwheel_timer_shutdown_sync(w, timer) >= 0);
	n = d1_count;
	CHECK(n >= 20);
	CHECK(n <= (ktap_clock() - before) / MS + 2);
}

static uint64_t d2_got[16], d2_want[16];
static unsigned d2_n;

static void d2_note(struct hwheel *w, const struct hwheel_event *e)
{
	n_fired++;
	EXPECT(d2_got[e->cookie], 0u);
	d2_got[e->cookie] = driven;
}

static void d2_arm(struct hwheel *w, const struct hwheel_event *e)
{
	uint64_t slots = e->cookie;
	const uint64_t delays[] = {
		slots, 2 * slots, slots * slots, slots * slots * slots, slots - 1, slots + 1, 1, 2,
	};

	n_fired++;
	for (d2_n = 0; d2_n < COUNT(delays); d2_n++) {
		d2_got[d2_n] = 0;
		d2_want[d2_n] = driven + delays[d2_n] * tick;
		EXPECT(hwheel_once(w, delays[d2_n] * tick, d2_note, d2_n, 0, NULL), 0);
	}
}

/* Whole turns from here is the bucket that is being emptied. */
TEST(d2_arm_into_the_bucket_being_drained)
{
	for (unsigned i = 0; i < COUNT(shapes); i++) {
		for (uint64_t first = 1; first <= 3; first++) {
			WHEEL w = start(&shapes[i], 0);
			uint64_t next = 0;

			/* others in the same bucket, due later, stay where they are */
			CHECK_EQ(hwheel_once(w, (first + shapes[i].slots) * tick, count_it, 0, 0,
					      NULL), 0);
			CHECK_EQ(hwheel_once(w, first * tick, d2_arm, shapes[i].slots, 0, NULL), 0);
			CHECK_EQ(hwheel_once(w, first * tick, count_it, 0, 0, NULL), 0);
			to(w, first * tick);
			CHECK_EQ(n_fired, 2);
			while (hwheel_next_expiry(w, &next) == 1)
				to(w, next);
			CHECK_EQ(n_fired, 2 + 1 + d2_n);
			for (unsigned n = 0; n < d2_n; n++)
				CHECK_EQ(d2_got[n], d2_want[n]);
			CHECK_EQ(live(w), 0);
		}
	}
}

enum { SIBLINGS = 200 };
static hwheel_timer_t d4_timers[SIBLINGS];
static int (*d4_cancel)(struct hwheel *, hwheel_timer_t);
static unsigned d4_cancelled;

static void d4_first(struct hwheel *w, const struct hwheel_event *e)
{
	n_fired++;
	for (unsigned n = 0; n < SIBLINGS; n++) {
		if (d4_timers[n] == e->timer)
			continue;
		if (n_fired == 1)
			EXPECT(d4_cancel(w, d4_timers[n]), 1);
		d4_cancelled++;
	}
}

/* All are due in the same tick; whichever is first cancels the others. */
TEST(d4_callback_cancels_collected_siblings)
{
	int (*const how[])(struct hwheel *, hwheel_timer_t) = {
		hwheel_timer_delete, hwheel_timer_delete_sync, hwheel_timer_shutdown, hwheel_timer_shutdown_sync, hwheel_timer_free,
	};

	for (unsigned i = 0; i < COUNT(shapes); i++) {
		for (unsigned h = 0; h < COUNT(how); h++) {
			for (unsigned jump = 1; jump <= 100; jump += 99) {
				WHEEL w = start(&shapes[i], 5 * shapes[i].tick);

				d4_cancel = how[h];
				d4_cancelled = 0;
				for (unsigned n = 0; n < SIBLINGS; n++) {
					CHECK_EQ(hwheel_timer_setup(w, d4_first, n, &d4_timers[n]), 0);
					CHECK_EQ(hwheel_timer_mod(w, d4_timers[n], tick, 0), 0);
				}
				to(w, driven + jump * tick);
				to(w, driven + 1000 * tick);
				CHECK_EQ(n_fired, 1);
				CHECK_EQ(d4_cancelled, SIBLINGS - 1);
			}
		}
	}
}

/* The callback of one timer cancels its siblings of that tick, which free themselves. */
TEST(d4_callback_cancels_siblings_that_free_themselves)
{
	for (unsigned i = 0; i < COUNT(shapes); i++) {
		WHEEL w = start(&shapes[i], 5 * shapes[i].tick);

		d4_cancel = hwheel_timer_delete;
		for (unsigned n = 0; n < SIBLINGS; n++)
			CHECK_EQ(hwheel_once(w, tick, d4_first, n, 0, &d4_timers[n]), 0);
		to(w, driven + tick);
		to(w, driven + 1000 * tick);
		CHECK_EQ(n_fired, 1);
		CHECK_EQ(live(w), 0);
		for (unsigned n = 0; n < SIBLINGS; n++)
			CHECK_EQ(hwheel_timer_pending(w, d4_timers[n]), -ESTALE);
	}
}

static void d4_move(struct hwheel *w, const struct hwheel_event *e)
{
	n_fired++;
	if (n_fired > 1)
		return;
	for (unsigned n = 0; n < SIBLINGS; n++)
		if (d4_timers[n] != e->timer)
			EXPECT(hwheel_timer_mod(w, d4_timers[n], n % 2 ? 0 : 10 * tick, 0), 1);
}

/* Moved, not cancelled: they fire once, at the new time. */
TEST(d4_callback_moves_collected_siblings)
{
	for (unsigned i = 0; i < COUNT(shapes); i++) {
		WHEEL w = start(&shapes[i], 5 * shapes[i].tick);
		unsigned later;

		for (unsigned n = 0; n < SIBLINGS; n++) {
			CHECK_EQ(hwheel_timer_setup(w, d4_move, n, &d4_timers[n]), 0);
			CHECK_EQ(hwheel_timer_mod(w, d4_timers[n], tick, 0), 0);
		}
		to(w, 6 * tick);
		CHECK_EQ(n_fired, 1);
		to(w, 7 * tick);
		/* half of them, or one less if the first was of that half */
		later = SIBLINGS - n_fired;
		CHECK(later == SIBLINGS / 2 || later == SIBLINGS / 2 - 1);
		to(w, 16 * tick - 1);
		CHECK_EQ(n_fired, SIBLINGS - later);
		to(w, 16 * tick);
		CHECK_EQ(n_fired, SIBLINGS);
	}
}

enum { GROW = 30000 };

static void d5_grow(struct hwheel *w, const struct hwheel_event *e)
{
	n_fired++;
	for (unsigned n = 0; n < GROW; n++)
		EXPECT(hwheel_once(w, e->cookie ? (n % 1000) * tick : 0, count_it, 0, 0, NULL), 0);
}

/* The storage of timers and the buckets grow many times during a sweep. */
TEST(d5_storage_grows_during_a_sweep)
{
	for (unsigned i = 0; i < 4; i++) {
		for (unsigned spread = 0; spread < 2; spread++) {
			WHEEL w = start(&shapes[i], 0);

			/* neighbours before and after in the same tick */
			for (unsigned n = 0; n < 50; n++)
				CHECK_EQ(hwheel_once(w, tick, n == 25 ? d5_grow : count_it, spread, 0,
						      NULL), 0);
			to(w, tick);
			CHECK_EQ(n_fired, 50);
			to(w, 2 * tick);
			to(w, 2000 * tick);
			CHECK_EQ(n_fired, 50 + GROW);
			CHECK_EQ(live(w), 0);
		}
	}
}

static unsigned d6_count[3];

static void d6_tick(struct hwheel *w, const struct hwheel_event *e)
{
	d6_count[e->cookie]++;
	if (e->cookie == 0)
		EXPECT(hwheel_timer_delete(w, e->timer), 1);
	else if (e->cookie == 1)
		EXPECT(hwheel_timer_mod(w, e->timer, 5 * tick, 0), 1);
}

/* A call of a callback on its timer affects no other timer. */
TEST(d6_one_timers_change_is_not_anothers)
{
	for (unsigned i = 0; i < COUNT(shapes); i++) {
		/* in every order within the tick */
		for (unsigned order = 0; order < 6; order++) {
			static const unsigned orders[6][3] = {
				{ 0, 1, 2 }, { 0, 2, 1 }, { 1, 0, 2 }, { 1, 2, 0 }, { 2, 0, 1 }, { 2, 1, 0 },
			};
			WHEEL w = start(&shapes[i], 0);
			hwheel_timer_t timers[3];

			memset(d6_count, 0, sizeof d6_count);
			for (unsigned n = 0; n < 3; n++) {
				unsigned which = orders[order][n];

				CHECK_EQ(hwheel_every(w, tick, tick, 0, d6_tick, which, 0,
						      &timers[which]), 0);
			}
			for (unsigned n = 1; n <= 50; n++)
				to(w, n * tick);
			CHECK_EQ(d6_count[0], 1);
			CHECK_EQ(d6_count[1], 10);
			CHECK_EQ(d6_count[2], 50);
			CHECK_EQ(hwheel_timer_pending(w, timers[0]), -ESTALE);
			CHECK_EQ(hwheel_timer_pending(w, timers[1]), 1);
			CHECK_EQ(hwheel_timer_pending(w, timers[2]), 1);
		}
	}
}

static hwheel_timer_t d9_fresh;

static void d9_free(struct hwheel *w, const struct hwheel_event *e)
{
	n_fired++;
	if (e->cookie == 2)
		EXPECT(hwheel_timer_free(w, e->timer), 1);	/* armed for the next period */
	else
		EXPECT(hwheel_timer_free(w, e->timer), 0);
	/* stale from now on, for everything */
	EXPECT(hwheel_timer_free(w, e->timer), -ESTALE);
	EXPECT(hwheel_timer_mod(w, e->timer, 0, 0), -ESTALE);
	EXPECT(hwheel_timer_pending(w, e->timer), -ESTALE);
	EXPECT(hwheel_timer_delete(w, e->timer), -ESTALE);
	EXPECT(hwheel_timer_delete_sync(w, e->timer), -ESTALE);
	/* its storage is not given to another while it runs, nor its name */
	EXPECT(hwheel_timer_setup(w, count_it, 0, &d9_fresh), 0);
	EXPECT(d9_fresh == e->timer, 0);
	EXPECT((uint32_t)d9_fresh == (uint32_t)e->timer, 0);
}

TEST(d9_callback_frees_its_own_timer)
{
	for (unsigned i = 0; i < COUNT(shapes); i++) {
		for (unsigned kind = 0; kind < 3; kind++) {
			WHEEL w = start(&shapes[i], 0);
			hwheel_timer_t timer = 0;

			if (kind == 0) {
				CHECK_EQ(hwheel_timer_setup(w, d9_free, kind, &timer), 0);
				CHECK_EQ(hwheel_timer_mod(w, timer, tick, 0), 0);
			} else if (kind == 1) {
				CHECK_EQ(hwheel_once(w, tick, d9_free, kind, 0, &timer), 0);
			} else {
				CHECK_EQ(hwheel_every(w, tick, tick, 0, d9_free, kind, 0, &timer), 0);
			}
			to(w, tick);
			to(w, 1000 * tick);
			CHECK_EQ(n_fired, 1);
			CHECK_EQ(hwheel_timer_pending(w, timer), -ESTALE);
			CHECK_EQ(hwheel_timer_free(w, d9_fresh), 0);
			CHECK_EQ(live(w), 0);
		}
	}
}
