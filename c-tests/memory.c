/* Dead entries: memory follows the timers, not how often they were moved. */
#include "ktap.h"

/* What may be dead at any time, whatever happens. */
#define BOUND 50000

/* The greater of @most and the number of entries now. */
static uint64_t most_entries(struct hwheel *w, uint64_t most)
{
	uint64_t entries = stats(w).entries;

	return entries > most ? entries : most;
}

/* Every thousandth turn of a test of dead entries: counts them, and passes a tick. */
static void count_and_pass(struct hwheel *w, uint64_t i, uint64_t *most, uint64_t *now, uint64_t tick_ns)
{
	if (i % 1000 != 0)
		return;
	*most = most_entries(w, *most);
	CHECK_EQ(hwheel_advance(w, *now += tick_ns, NULL, 0, NULL), 0);
}

static void check_bound(uint64_t tick_ns, uint64_t most)
{
	printf("# ticks of %" PRIu64 " ns: at most %" PRIu64 " entries\n", tick_ns, most);
	CHECK(most < BOUND);
}

/* Each arm shorter than the last, ten million times: the worst there is. */
static void ever_shorter_arms_stay_bounded(void)
{
	struct hwheel *w = ktap_manual(0, 0, 0, 0);
	hwheel_timer_t t[10];
	uint64_t most = 0, now = 0;

	for (int i = 0; i < 10; i++)
		t[i] = ktap_timer(w);
	for (uint64_t i = 0; i < 10000000; i++) {
		uint64_t delay = 1000000 - i / 10 % 1000000;

		CHECK(hwheel_timer_mod(w, t[i % 10], now + delay * MS, HWHEEL_ABS) >= 0);
		if (i % 1000 == 0) {
			most = most_entries(w, most);
			CHECK(hwheel_advance(w, now, NULL, 0, NULL) >= 0);
		}
		if (i % 1000000 == 0)
			printf("# after %8" PRIu64 " arms: %6" PRIu64 " entries, %6" PRIu64 " dead\n",
			       i, stats(w).entries, stats(w).dead);
	}
	printf("# at most %" PRIu64 " entries\n", most);
	CHECK(most < BOUND);
	CHECK_EQ(hwheel_destroy(w), 0);
}

/* A long timeout that turns into a short one, and the timer is freed. */
static void shortened_and_freed_stay_bounded(void)
{
	struct hwheel *w = ktap_manual(0, 0, 0, 0);
	struct hwheel_event e[4];
	uint64_t now = 0, most = 0;

	for (int i = 0; i < 1000000; i++) {
		hwheel_timer_t t = ktap_timer(w);

		CHECK_EQ(hwheel_timer_mod(w, t, 86400 * SEC, 0), 0);
		CHECK_EQ(hwheel_timer_mod(w, t, 1 * MS, 0), 1);
		CHECK_EQ(hwheel_timer_free(w, t), 1);
		now += 2 * MS;
		CHECK_EQ(hwheel_advance(w, now, e, 4, NULL), 0);
		if (i % 1000 == 0 && stats(w).entries > most)
			most = stats(w).entries;
	}
	CHECK(most < BOUND);
	CHECK_EQ(hwheel_destroy(w), 0);
}

/* Those of timers that are never due meanwhile go as well. */
static void entries_of_timers_that_are_never_due_go(void)
{
	struct hwheel *w = ktap_manual(0, 0, 0, 0);
	hwheel_timer_t t[10];
	uint64_t most = 0;

	for (int i = 0; i < 10; i++)
		t[i] = ktap_timer(w);
	for (uint64_t i = 0; i < 1000000; i++) {
		uint64_t delay = 1000000 - i / 10;

		CHECK(hwheel_timer_mod(w, t[i % 10], delay * MS, HWHEEL_ABS) >= 0);
		CHECK_EQ(hwheel_timer_mod(w, t[i % 10], HWHEEL_NEVER, 0), 1);
		if (i % 1000 == 0) {
			most = most_entries(w, most);
			CHECK(hwheel_advance(w, 0, NULL, 0, NULL) >= 0);
		}
	}
	CHECK_EQ(stats(w).pending, 10);
	CHECK(most < BOUND);
	CHECK_EQ(hwheel_destroy(w), 0);
}

/* Whatever the length of a tick: a promise may be about many short ones. */
static void ever_shorter_arms_with_ticks_of(uint64_t tick_ns)
{
	struct hwheel *w = ktap_manual(tick_ns, 0, 0, 0);
	hwheel_timer_t t = ktap_timer(w);
	struct hwheel_event e;
	uint64_t most = 0, now = 0, due = 0;

	for (uint64_t i = 0; i < 500000; i++) {
		due = (1000000000 - i) * tick_ns;
		CHECK(hwheel_timer_mod(w, t, due, HWHEEL_ABS) >= 0);
		count_and_pass(w, i, &most, &now, tick_ns);
	}
	check_bound(tick_ns, most);
	CHECK_EQ(hwheel_advance(w, due - tick_ns, &e, 1, NULL), 0);
	CHECK_EQ(hwheel_advance(w, due, &e, 1, NULL), 1);
	CHECK_EQ(hwheel_destroy(w), 0);
}

static void short_ticks_stay_bounded(void)
{
	static const uint64_t ticks[] = {1, 100, 1000, 4095, 4096, 5000};

	for (size_t i = 0; i < sizeof ticks / sizeof *ticks; i++)
		ever_shorter_arms_with_ticks_of(ticks[i]);
}

/* Many entries at the same tick, of timers that are armed or cancelled in between. */
static void one_deadline_again(uint64_t tick_ns, int cancelled)
{
	struct hwheel *w = ktap_manual(tick_ns, 0, 0, 0);
	hwheel_timer_t t[10];
	struct hwheel_event e[10];
	uint64_t most = 0, now = 0, due = 123456789 * tick_ns;

	for (int i = 0; i < 10; i++)
		t[i] = ktap_timer(w);
	for (uint64_t i = 0; i < 500000; i++) {
		CHECK(hwheel_timer_mod(w, t[i % 10], due, HWHEEL_ABS) >= 0);
		if (cancelled)
			CHECK_EQ(hwheel_timer_delete(w, t[i % 10]), 1);
		count_and_pass(w, i, &most, &now, tick_ns);
	}
	check_bound(tick_ns, most);
	for (int i = 0; i < 10; i++)
		CHECK_EQ(hwheel_timer_mod(w, t[i], due, HWHEEL_ABS), !cancelled);
	CHECK_EQ(hwheel_advance(w, due - tick_ns, e, 10, NULL), 0);
	CHECK_EQ(hwheel_advance(w, due, e, 10, NULL), 10);
	CHECK_EQ(hwheel_destroy(w), 0);
}

static void arms_for_one_tick_stay_bounded(void)
{
	static const uint64_t ticks[] = {1, 100, 1000, 1000000};

	for (size_t i = 0; i < sizeof ticks / sizeof *ticks; i++) {
		one_deadline_again(ticks[i], 0);
		one_deadline_again(ticks[i], 1);
	}
}

/* After a clean-up no promise is relied on until the clock moves, and each arm pushes. */
static void arms_while_the_clock_stands_stay_bounded(void)
{
	struct hwheel *w = ktap_manual(0, 0, 0, 0);
	hwheel_timer_t moved = ktap_timer(w), t = ktap_timer(w);
	struct hwheel_event e;
	uint64_t most = 0;

	for (uint64_t i = 0; i < 40000; i++)
		CHECK(hwheel_timer_mod(w, moved, (1000000 - i) * MS, 0) >= 0);
	for (int i = 0; i < 100; i++)
		CHECK_EQ(hwheel_advance(w, 0, NULL, 0, NULL), 0);
	CHECK(stats(w).entries < 100);
	for (int i = 0; i < 1000000; i++) {
		int delay = i < 500000 ? 300 : 301 + i % 5;

		CHECK_EQ(hwheel_timer_mod(w, t, delay * SEC, 0), 0);
		CHECK_EQ(hwheel_timer_delete(w, t), 1);
		if (i % 1000 == 0) {
			most = most_entries(w, most);
			CHECK_EQ(hwheel_advance(w, 0, NULL, 0, NULL), 0);
		}
	}
	printf("# at most %" PRIu64 " entries\n", most);
	CHECK(most > 1000 && most < BOUND);
	CHECK_EQ(hwheel_timer_mod(w, t, 300 * SEC, 0), 0);
	CHECK_EQ(hwheel_advance(w, 300 * SEC - MS, &e, 1, NULL), 0);
	CHECK_EQ(hwheel_advance(w, 300 * SEC, &e, 1, NULL), 1);
	CHECK_EQ(hwheel_destroy(w), 0);
}

/* None that lives is lost by it, and each fires at its tick. */
static void the_living_are_kept(void)
{
	enum { N = 20000 };
	static hwheel_timer_t t[N];
	static uint64_t due[N];
	struct hwheel *w = ktap_manual(0, 2, 16, 0);
	static struct hwheel_event e[N];
	uint64_t x = 1, fired = 0;

	for (int i = 0; i < N; i++) {
		CHECK_EQ(hwheel_timer_setup(w, NULL, (uint64_t)i, &t[i]), 0);
		due[i] = 100000;
		CHECK_EQ(hwheel_timer_mod(w, t[i], due[i] * MS, HWHEEL_ABS), 0);
	}
	for (uint64_t ms = 1; ms <= 60000; ms++) {
		for (int j = 0; j < 20; j++) {
			x = x * 6364136223846793005u + 1442695040888963407u;
			uint64_t i = (x >> 33) % N;

			if (due[i] <= ms + 1)
				continue;
			due[i] -= (due[i] - ms) / 2;
			CHECK_EQ(hwheel_timer_mod(w, t[i], due[i] * MS, HWHEEL_ABS), 1);
		}
		int n = hwheel_advance(w, ms * MS, e, N, NULL);

		CHECK(n >= 0);
		for (int j = 0; j < n; j++) {
			CHECK_EQ(due[e[j].cookie], ms);
			due[e[j].cookie] = 0;
			fired++;
		}
	}
	for (int i = 0; i < N; i++)
		CHECK(due[i] == 0 || due[i] > 60000);
	CHECK_EQ(stats(w).fired, fired);
	CHECK(stats(w).entries < 4 * N);
	CHECK_EQ(hwheel_destroy(w), 0);
}

static void the_tick_thread_does_it_and_sleeps_again(void)
{
	struct hwheel *w = NULL;

	CHECK_EQ(hwheel_create(NULL, &w), 0);
	hwheel_timer_t t = ktap_timer(w);

	CHECK_EQ(hwheel_start(w), 0);
	for (uint64_t i = 0; i < 1000000; i++)
		CHECK(hwheel_timer_mod(w, t, (100000000 - i % 50000000) * MS, 0) >= 0);
	for (int i = 0; i < 20000 && stats(w).entries >= BOUND; i++)
		ktap_sleep_ms(1);
	CHECK(stats(w).entries < BOUND);
	/* some second goes by without a wake-up */
	int asleep = 0;

	for (int i = 0; i < 20 && !asleep; i++) {
		uint64_t before = stats(w).wakeups;

		ktap_sleep_ms(1000);
		asleep = stats(w).wakeups == before;
	}
	CHECK(asleep);
	CHECK_EQ(hwheel_destroy(w), 0);
}

/*
 * With long ticks the clock stands still for the wheel. No promise may be relied upon in
 * the rest of a tick in which there was a clean-up. The driver need not wake for that.
 */
static void arms_after_a_clean_up_wake_nobody(void)
{
	struct hwheel_options o = { .size = sizeof o, .tick_ns = 3600 * HWHEEL_SEC };
	uint64_t kicks, tick = 100000;
	hwheel_timer_t t[10];
	struct hwheel *w;

	CHECK_EQ(hwheel_create(&o, &w), 0);
	for (int i = 0; i < 10; i++)
		t[i] = ktap_timer(w);
	CHECK_EQ(hwheel_start(w), 0);
	for (uint64_t i = 0; i < 50000; i++)
		CHECK(hwheel_timer_mod(w, t[i % 10], --tick * o.tick_ns, 0) >= 0);
	for (int i = 0; i < 20000 && stats(w).entries >= 20000; i++)
		ktap_sleep_ms(1);
	CHECK(stats(w).entries < 20000);
	ktap_sleep_ms(50);
	kicks = stats(w).kicks;
	for (uint64_t i = 0; i < 500; i++) {
		CHECK_EQ(hwheel_timer_mod(w, t[i % 10], (tick + i) * o.tick_ns, 0), 1);
		if (i % 10 == 0)
			ktap_sleep_ms(1);
	}
	CHECK_EQ(stats(w).kicks, kicks);
	CHECK_EQ(hwheel_destroy(w), 0);
}

static const struct ktap_test tests[] = {
	TEST(ever_shorter_arms_stay_bounded),
	TEST(shortened_and_freed_stay_bounded),
	TEST(entries_of_timers_that_are_never_due_go),
	TEST(short_ticks_stay_bounded),
	TEST(arms_for_one_tick_stay_bounded),
	TEST(arms_while_the_clock_stands_stay_bounded),
	TEST(the_living_are_kept),
	TEST(the_tick_thread_does_it_and_sleeps_again),
	TEST(arms_after_a_clean_up_wake_nobody),
};

KTAP_MAIN(tests)
