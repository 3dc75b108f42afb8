/* Budgets of a sweep. */
#include "ktap.h"

static struct hwheel *make(uint32_t items, uint64_t ns, uint32_t clock)
{
	struct hwheel_options o;
	struct hwheel *w = NULL;

	memset(&o, 0, sizeof o);
	o.size = sizeof o;
	o.clock = clock;
	o.budget_items = items;
	o.budget_ns = ns;
	CHECK_EQ(hwheel_create(&o, 0, &w), 0);
	return w;
}

static unsigned calls;

static void count(struct hwheel *w, const struct hwheel_event *e)
{
	(void)w;
	/* in order */
	CHECK_EQ(e->cookie, calls);
	calls++;
}

static void dawdle(struct hwheel *w, const struct hwheel_event *e)
{
	count(w, e);
	ktap_sleep_ms(2);
}

static void a_sweep_stops_after_so_many_and_resumes_in_order(void)
{
	struct hwheel *w = make(3, 0, HWHEEL_CLOCK_MANUAL);
	uint64_t next;

	calls = 0;
	for (uint64_t i = 0; i < 10; i++)
		CHECK_EQ(hwheel_after(w, (1 + i / 4) * MS, count, i, 0, NULL), 0);
	for (unsigned want = 3; want < 10; want += 3) {
		CHECK_EQ(hwheel_advance(w, 9 * MS, NULL, 0), 0);
		CHECK_EQ(calls, want);
		CHECK_EQ(hwheel_next_expiry(w, &next), 1);
		CHECK(next <= 9 * MS);
	}
	CHECK_EQ(hwheel_advance(w, 9 * MS, NULL, 0), 0);
	CHECK_EQ(calls, 10);
	CHECK_EQ(hwheel_destroy(w), 0);
}

static void a_sweep_stops_after_so_long(void)
{
	struct hwheel *w = make(0, 1 * MS, HWHEEL_CLOCK_MANUAL);

	calls = 0;
	for (uint64_t i = 0; i < 5; i++)
		CHECK_EQ(hwheel_after(w, 1 * MS, dawdle, i, 0, NULL), 0);
	for (unsigned want = 1; want <= 5; want++) {
		CHECK_EQ(hwheel_advance(w, 1 * MS, NULL, 0), 0);
		CHECK_EQ(calls, want);
	}
	CHECK_EQ(hwheel_destroy(w), 0);
}

/* What fires nothing counts as well: entries of timers that were moved. */
static void a_sweep_stops_among_dead_entries(void)
{
	struct hwheel *w = make(0, 1, HWHEEL_CLOCK_MANUAL);
	static hwheel_timer_t t[5000];
	uint64_t next;
	int rounds = 0;

	for (int i = 0; i < 5000; i++) {
		CHECK_EQ(hwheel_after(w, 1 * SEC, NULL, 0, 0, &t[i]), 0);
		CHECK_EQ(hwheel_mod(w, t[i], 9 * SEC, 0), 1);
	}
	do {
		CHECK_EQ(hwheel_advance(w, 2 * SEC, NULL, 0), 0);
		rounds++;
		CHECK_EQ(hwheel_next_expiry(w, &next), 1);
	} while (next <= 2 * SEC);
	CHECK(rounds > 10);
	CHECK_EQ(hwheel_destroy(w), 0);
}

static void the_tick_thread_goes_on_after_a_budget(void)
{
	struct hwheel *w = make(1, 0, HWHEEL_CLOCK_MONOTONIC);
	struct hwheel_stats s;

	for (int i = 0; i < 100; i++)
		CHECK_EQ(hwheel_after(w, 1 * MS, NULL, 0, 0, NULL), 0);
	CHECK_EQ(hwheel_start(w, 0), 0);
	s.size = sizeof s;
	for (int i = 0; i < 20000; i++) {
		CHECK_EQ(hwheel_get_stats(w, &s), 0);
		if (s.fired == 100)
			break;
		ktap_sleep_ms(1);
	}
	CHECK_EQ(s.fired, 100);
	CHECK_EQ(hwheel_destroy(w), 0);
}

static const struct ktap_test tests[] = {
	TEST(a_sweep_stops_after_so_many_and_resumes_in_order),
	TEST(a_sweep_stops_after_so_long),
	TEST(a_sweep_stops_among_dead_entries),
	TEST(the_tick_thread_goes_on_after_a_budget),
};

KTAP_MAIN(tests)
