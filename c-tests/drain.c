/* hwheel_drain() hands back every timer that has not fired, exactly once, and shuts the wheel. */
#include "events.h"

enum { N = 1000 };
static hwheel_timer_t t[N];
static unsigned seen[N];
static unsigned calls;

static void count(struct hwheel *w, const struct hwheel_event *e)
{
	calls++;
}

/* Drains in batches; how many, and each counted in `seen`. */
static unsigned drain_all(struct hwheel *w, uint32_t max)
{
	static struct hwheel_event e[N];
	unsigned total = 0;
	int n;

	do {
		n = hwheel_drain(w, e, max);
		CHECK(n >= 0 && n <= (int)max);
		for (int i = 0; i < n; i++) {
			CHECK(e[i].cookie < N);
			CHECK_EQ(e[i].flags, HWHEEL_EVENT_DRAINED);
			CHECK_EQ(e[i].timer, t[e[i].cookie]);
			CHECK_EQ(e[i].missed, 0);
			seen[e[i].cookie]++;
		}
		total += (unsigned)n;
	} while (n == (int)max);
	CHECK_EQ(hwheel_drain(w, e, max), 0);
	return total;
}

TEST(every_timer_that_has_not_fired_exactly_once)
{
	static const uint32_t batches[] = { 1, 2, 3, 7, 64, 600, N };

	for (size_t b = 0; b < COUNT(batches); b++) {
		WHEEL w = ktap_manual(0, 0, 0, 0);
		struct hwheel_event e[N];
		unsigned want = 0;

		calls = 0;
		memset(seen, 0, sizeof seen);
		/* of all kinds, with a callback and without, from near to far */
		for (uint64_t i = 0; i < N; i++) {
			hwheel_fn fn = i & 1 ? count : NULL;
			uint64_t delay = (1 + i % 50) * (MS << i % 20);

			if (i % 4 < 2) {
				CHECK_EQ(hwheel_once(w, delay, fn, i, 0, &t[i]), 0);
			} else if (i % 8 < 4) {
				CHECK_EQ(hwheel_every(w, delay, SEC, 0, fn, i, 0, &t[i]), 0);
			} else {
				CHECK_EQ(hwheel_timer_setup(w, fn, i, &t[i]), 0);
				if (i % 3)
					CHECK_EQ(hwheel_timer_mod(w, t[i], delay, 0), 0);
			}
			if (i % 5 == 0)
				CHECK(hwheel_timer_delete(w, t[i]) >= 0);
		}
		/* some fire */
		CHECK(hwheel_advance(w, SEC, e, N, NULL) > 0);
		calls = 0;
		for (int i = 0; i < N; i++) {
			seen[i] = hwheel_timer_pending(w, t[i]) == 1 ? 0 : 1;
			want += !seen[i];
		}
		CHECK(want > N / 10);
		CHECK_EQ(drain_all(w, batches[b]), want);
		for (int i = 0; i < N; i++)
			CHECK_EQ(seen[i], 1);
		CHECK_EQ(calls, 0);
		/* those that free themselves are freed, the others are left */
		want = 0;
		for (int i = 0; i < N; i++) {
			if (i % 8 < 4 || i % 4 < 2) {
				CHECK_EQ(hwheel_timer_pending(w, t[i]), -ESTALE);
			} else {
				CHECK_EQ(hwheel_timer_pending(w, t[i]), 0);
				want++;
			}
		}
		CHECK_EQ(stats(w).live, want);
	}
}

MANUAL_TEST(a_drained_event_says_when_it_was_due)
{
	struct hwheel_event e[2];
	hwheel_timer_t u = 0;

	CHECK_EQ(hwheel_once(w, 12345678, count, 42, 0, &u), 0);
	memset(e, 0xff, sizeof e);
	CHECK_EQ(hwheel_drain(w, e, 2), 1);
	check_event(e[0], u, 42, 12345678, MS, HWHEEL_EVENT_DRAINED);
}

/* The first call shuts the wheel down, also before the last batch. */
MANUAL_TEST(arms_between_batches_are_refused)
{
	struct hwheel_event e;
	hwheel_timer_t u[3];

	for (int i = 0; i < 3; i++)
		u[i] = ktap_armed(w, NULL, 0, MS);
	CHECK_EQ(hwheel_drain(w, &e, 1), 1);
	for (int i = 0; i < 3; i++)
		CHECK_EQ(hwheel_timer_mod(w, u[i], 2 * MS, 0), -ESHUTDOWN);
	/* one that is cancelled now is not handed back */
	CHECK_EQ(hwheel_timer_delete(w, u[e.timer == u[0]]), 1);
	CHECK_EQ(hwheel_drain(w, &e, 1), 1);
	CHECK_EQ(hwheel_drain(w, &e, 1), 0);
}

/* A drain hands back the timers that a full batch of an advance has left. */
MANUAL_TEST(what_was_due_but_not_fetched_is_handed_back)
{
	struct hwheel_event e[N];

	memset(seen, 0, sizeof seen);
	for (uint64_t i = 0; i < 100; i++)
		CHECK_EQ(hwheel_once(w, (i % 7) * MS, NULL, i, 0, &t[i]), 0);
	CHECK_EQ(hwheel_advance(w, SEC, e, 33, NULL), 33);
	for (int i = 0; i < 33; i++)
		seen[e[i].cookie]++;
	CHECK_EQ(drain_all(w, 10), 100 - 33);
	for (int i = 0; i < 100; i++)
		CHECK_EQ(seen[i], 1);
	CHECK_EQ(hwheel_advance(w, 2 * SEC, e, N, NULL), 0);
}

MANUAL_TEST(timers_that_are_due_never_are_handed_back)
{
	struct hwheel_event e[2];

	CHECK_EQ(hwheel_once(w, HWHEEL_NEVER, NULL, 3, 0, NULL), 0);
	CHECK_EQ(hwheel_drain(w, e, 2), 1);
	CHECK_EQ(e[0].cookie, 3);
	CHECK(e[0].deadline_ns == HWHEEL_NEVER);
}

CLOCK_TEST(a_started_wheel_is_not_drained)
{
	struct hwheel_event e[2];

	CHECK_EQ(hwheel_once(w, 3600 * SEC, NULL, 1, 0, NULL), 0);
	CHECK_EQ(hwheel_start(w), 0);
	CHECK_EQ(hwheel_drain(w, e, 2), -EBUSY);
	CHECK_EQ(hwheel_once(w, 3600 * SEC, NULL, 2, 0, NULL), 0);
	CHECK_EQ(hwheel_stop(w), 0);
	CHECK_EQ(hwheel_drain(w, e, 2), 2);
	CHECK_EQ(hwheel_drain(w, e, 2), 0);
	CHECK_EQ(hwheel_once(w, SEC, NULL, 1, 0, NULL), -ESHUTDOWN);
}

/* A wheel that was drained: every call says what the header says. */
static struct hwheel *drained(uint32_t clock)
{
	struct hwheel_event e;
	struct hwheel *w = MADE(.clock = clock);

	CHECK_EQ(hwheel_key_set(w, NUMBER(7), SEC, NULL, 0, 0), 0);
	CHECK_EQ(hwheel_drain(w, &e, 1), 1);
	CHECK_EQ(hwheel_drain(w, &e, 1), 0);
	return w;
}

WHEEL_TEST(it_cannot_be_started, drained(HWHEEL_CLOCK_MONOTONIC))
{
	CHECK_EQ(hwheel_start(w), -ESHUTDOWN);
	/* and is as before: still driven by nobody */
	CHECK_EQ(hwheel_poll(w, NULL, 0, NULL), 0);
	CHECK_EQ(hwheel_stop(w), 0);
	CHECK_EQ(hwheel_start(w), -ESHUTDOWN);
}

WHEEL_TEST(its_keys_cannot_be_set_or_moved, drained(HWHEEL_CLOCK_MANUAL))
{
	CHECK_EQ(hwheel_key_set(w, NUMBER(7), SEC, NULL, 0, 0), -ESHUTDOWN);
	CHECK_EQ(hwheel_key_mod(w, NUMBER(7), SEC, 0), -ESHUTDOWN);
	CHECK_EQ(hwheel_key_set(w, "k", 1, SEC, NULL, 0, 0), -ESHUTDOWN);
	CHECK_EQ(hwheel_key_mod(w, "k", 1, SEC, 0), -ESHUTDOWN);
	/* to look and to delete remain */
	CHECK_EQ(hwheel_key_pending(w, NUMBER(7)), 0);
	CHECK_EQ(hwheel_key_delete(w, NUMBER(7)), 0);
	/* an argument that is wrong is that first of all */
	CHECK_EQ(hwheel_key_mod(w, NULL, 1, SEC, 0), -EINVAL);
	CHECK_EQ(hwheel_key_mod(w, "k", 1, SEC, 8), -EINVAL);
}

/* Every function that makes or arms a timer, with every flag. */
MANUAL_TEST(it_takes_no_timer_and_arms_none)
{
	static const uint32_t flags[] = {
		0, HWHEEL_ABS, HWHEEL_REDUCE, HWHEEL_IF_PENDING,
		HWHEEL_ABS | HWHEEL_REDUCE, HWHEEL_ABS | HWHEEL_IF_PENDING,
	};
	hwheel_timer_t t = ktap_armed(w, NULL, 0, SEC), resting = ktap_timer(w), none = 77;
	uint64_t time = SEC;
	struct hwheel_event e;
	int32_t result;

	CHECK_EQ(hwheel_drain(w, &e, 1), 1);
	CHECK_EQ(e.timer, t);
	ktap_refuses_arms(w, resting);
	CHECK_EQ(hwheel_timer_setup(w, NULL, 0, &none), -ESHUTDOWN);
	CHECK_EQ(hwheel_once(w, SEC, NULL, 0, 0, &none), -ESHUTDOWN);
	CHECK_EQ(hwheel_once(w, SEC, NULL, 0, HWHEEL_ABS, &none), -ESHUTDOWN);
	CHECK_EQ(hwheel_once(w, SEC, NULL, 0, 0, NULL), -ESHUTDOWN);
	CHECK_EQ(hwheel_every(w, SEC, SEC, 0, NULL, 0, 0, &none), -ESHUTDOWN);
	CHECK_EQ(none, 77);
	for (size_t f = 0; f < COUNT(flags); f++) {
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
	/* nothing is left to fire, and all else goes on */
	CHECK_EQ(hwheel_advance(w, SEC, &e, 1, NULL), 0);
	CHECK_EQ(ktap_next(w), HWHEEL_NEVER);
	CHECK_EQ(hwheel_timer_free(w, t), 0);
	CHECK_EQ(hwheel_timer_free(w, resting), 0);
	CHECK_EQ(stats(w).live, 0);
}

/* Where the hand went over 2^35 ticks at a time, that took 4 s. */
WHEEL_TEST(its_clock_leaps_over_nothing, ktap_manual(1000, 0, 0, 0))
{
	struct hwheel_event e;
	uint64_t begin;

	CHECK_EQ(hwheel_advance(w, SEC, NULL, 0, NULL), 0);
	CHECK_EQ(hwheel_drain(w, &e, 1), 0);
	CHECK_EQ(hwheel_drain(w, &e, 1), 0);
	begin = ktap_cpu();
	CHECK_EQ(hwheel_advance(w, INT64_MAX, NULL, 0, NULL), 0);
	CHECK(ktap_cpu() - begin < (KTAP_SLOW ? 2 * SEC : 100 * MS));
}

enum { DRAINED = 20000 };
static hwheel_timer_t many[DRAINED];
static _Atomic unsigned ends[DRAINED];	/* how often each was cancelled or drained */

static void *cancel_all(void *arg)
{
	struct hwheel *w = arg;

	for (unsigned n = 0; n < DRAINED; n++) {
		int was = hwheel_timer_delete(w, many[n]);

		ends[n] += was == 1;
		CHECK(was == 1 || was == -ESTALE);
	}
	return NULL;
}

/* A drained timer has ended: it is not cancelled or fired as well. */
TEST(a_drained_timer_is_not_cancelled_as_well)
{
	for (unsigned round = 0; round < 20; round++) {
		WHEEL w = ktap_manual(MS, round % 2 ? 1 : 4, 256, 0);
		struct hwheel_event events[64];
		pthread_t thread;
		int n;

		calls = 0;
		for (unsigned i = 0; i < DRAINED; i++) {
			ends[i] = 0;
			CHECK_EQ(hwheel_once(w, (1 + i * 7919 % 99991) * MS, count, i, 0,
					      &many[i]), 0);
		}
		ktap_begin(&thread, 1, cancel_all, w);
		do {
			n = hwheel_drain(w, events, COUNT(events));
			for (int i = 0; i < n; i++) {
				ends[events[i].cookie]++;
				CHECK_EQ(events[i].flags, HWHEEL_EVENT_DRAINED);
				CHECK_EQ(hwheel_timer_delete(w, events[i].timer), -ESTALE);
			}
		} while (n == (int)COUNT(events));
		CHECK(n >= 0);
		/* all is done when it says so */
		CHECK_EQ(hwheel_advance(w, 300 * SEC, NULL, 0, NULL), 0);
		ktap_end(&thread, 1);
		CHECK_EQ(calls, 0);
		for (unsigned i = 0; i < DRAINED; i++)
			CHECK_EQ(ends[i], 1);
		CHECK_EQ(stats(w).live, 0);
	}
}
