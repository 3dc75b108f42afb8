/* hwheel_get_stats(): its size, and what is counted; and hwheel_list(). */
#include <poll.h>
#include "ktap.h"

MANUAL_TEST(a_new_wheel_has_done_nothing)
{
	struct hwheel_stats s = stats(w), none = { .size = sizeof none };

	CHECK_EQ(memcmp(&s, &none, sizeof s), 0);
}

static _Alignas(struct hwheel_stats) unsigned char bytes[5000];

/* Asks for a struct of this size, and looks that nothing was written to the bytes from @end on. */
static void ask(struct hwheel *w, uint32_t size, int answer, size_t end)
{
	memset(bytes, 0x5a, sizeof bytes);
	memcpy(bytes, &size, sizeof size);
	CHECK_EQ(hwheel_get_stats(w, (struct hwheel_stats *)(void *)bytes), answer);
	CHECK_EQ(memcmp(bytes, &size, sizeof size), 0);
	for (size_t i = end; i < sizeof bytes; i++)
		CHECK_EQ(bytes[i], 0x5a);
}

MANUAL_TEST(a_size_below_eight_is_refused)
{
	for (uint32_t size = 0; size < 8; size++)
		ask(w, size, -EINVAL, sizeof size);
}

MANUAL_TEST(a_short_struct_is_filled_as_far_as_it_goes)
{
	CHECK_EQ(hwheel_once(w, MS, NULL, 0, 0, NULL), 0);
	for (uint32_t size = 8; size <= sizeof(struct hwheel_stats); size++) {
		ask(w, size, 0, size);
		if (size >= 16)
			CHECK_EQ(((struct hwheel_stats *)(void *)bytes)->live, 1);
	}
}

MANUAL_TEST(an_unknown_tail_is_zeroed)
{
	static const uint32_t sizes[] = { sizeof(struct hwheel_stats) + 1, 200, 4095, 4096 };

	for (size_t k = 0; k < COUNT(sizes); k++) {
		ask(w, sizes[k], 0, sizes[k]);
		for (size_t i = sizeof(struct hwheel_stats); i < sizes[k]; i++)
			CHECK_EQ(bytes[i], 0);
	}
	ask(w, 4097, -E2BIG, sizeof(uint32_t));
	ask(w, UINT32_MAX, -E2BIG, sizeof(uint32_t));
}

MANUAL_TEST(live_is_what_exists)
{
	hwheel_timer_t t[10];

	for (int i = 0; i < 10; i++) {
		t[i] = ktap_timer(w);
		CHECK_EQ(stats(w).live, i + 1);
	}
	CHECK_EQ(hwheel_timer_mod(w, t[0], MS, 0), 0);
	CHECK_EQ(hwheel_timer_mod(w, t[1], MS, 0), 0);
	CHECK_EQ(hwheel_timer_delete(w, t[0]), 1);
	CHECK_EQ(hwheel_timer_shutdown(w, t[2]), 0);
	CHECK_EQ(hwheel_advance(w, SEC, NULL, 0, NULL), 0);
	CHECK_EQ(stats(w).live, 10);
	for (int i = 0; i < 10; i++) {
		CHECK_EQ(hwheel_timer_free(w, t[i]), 0);
		CHECK_EQ(stats(w).live, 9 - i);
	}
}

MANUAL_TEST(firings_are_counted)
{
	struct hwheel_event e[20];
	struct hwheel_stats s;

	for (int i = 0; i < 5; i++) {
		CHECK_EQ(hwheel_once(w, MS, NULL, 0, 0, NULL), 0);
		CHECK_EQ(hwheel_once(w, MS, ktap_nothing, 0, 0, NULL), 0);
	}
	hwheel_timer_t t = ktap_once(w, MS, NULL, 0, 0);
	CHECK_EQ(hwheel_timer_delete(w, t), 1);
	CHECK_EQ(hwheel_advance(w, MS, e, 20, NULL), 5);
	s = stats(w);
	CHECK_EQ(s.fired, 10);
	CHECK_EQ(s.unclaimed, 0);
	CHECK_EQ(s.missed, 0);
	CHECK_EQ(s.live, 0);
	/* periods one by one */
	CHECK_EQ(hwheel_every(w, MS, MS, 0, ktap_nothing, 0, HWHEEL_MISSED_BURST, &t), 0);
	CHECK_EQ(hwheel_advance(w, 11 * MS, NULL, 0, NULL), 0);
	CHECK_EQ(stats(w).fired, 20);
	CHECK_EQ(hwheel_timer_delete(w, t), 1);
	CHECK_EQ(hwheel_every(w, MS, MS, 0, ktap_nothing, 0, 0, &t), 0);
	CHECK_EQ(hwheel_advance(w, 21 * MS, NULL, 0, NULL), 0);
	s = stats(w);
	CHECK_EQ(s.fired, 21);
	CHECK_EQ(s.missed, 9);
	CHECK_EQ(s.unclaimed, 0);
	/* nobody takes it */
	CHECK_EQ(hwheel_once(w, MS, NULL, 0, 0, NULL), 0);
	CHECK_EQ(hwheel_advance(w, 22 * MS, NULL, 0, NULL), 0);
	CHECK_EQ(stats(w).unclaimed, 1);
}

MANUAL_TEST(drained_timers_have_not_fired)
{
	struct hwheel_event e[2];

	CHECK_EQ(hwheel_once(w, MS, NULL, 0, 0, NULL), 0);
	CHECK_EQ(hwheel_drain(w, e, 2), 1);
	CHECK_EQ(stats(w).fired, 0);
	CHECK_EQ(stats(w).unclaimed, 0);
	CHECK_EQ(stats(w).live, 0);
}

/* A note for an arm whose timer the driver would look at too late. */
MANUAL_TEST(advances_are_sweeps_and_some_arms_leave_a_note)
{
	struct hwheel_stats s;
	hwheel_timer_t t = ktap_timer(w);

	CHECK_EQ(stats(w).notes, 0);
	CHECK_EQ(hwheel_timer_mod(w, t, 10 * MS, 0), 0);
	CHECK_EQ(stats(w).notes, 1);
	CHECK(stats(w).note_bytes > 0);
	/* the driver has yet to take the note */
	CHECK_EQ(hwheel_timer_mod(w, t, 20 * MS, 0), 1);
	CHECK_EQ(hwheel_timer_mod(w, t, 5 * MS, 0), 1);
	CHECK_EQ(stats(w).notes, 1);
	CHECK_EQ(stats(w).entries, 0);
	CHECK_EQ(hwheel_advance(w, MS, NULL, 0, NULL), 0);
	CHECK_EQ(stats(w).entries, 1);
	/* later: it is looked at early enough anyway */
	CHECK_EQ(hwheel_timer_mod(w, t, 20 * MS, 0), 1);
	CHECK_EQ(stats(w).notes, 1);
	CHECK_EQ(hwheel_timer_mod(w, t, 2 * MS, 0), 1);
	CHECK_EQ(hwheel_timer_mod(w, t, MS, 0), 1);
	s = stats(w);
	CHECK_EQ(s.notes, 2);
	CHECK_EQ(s.kicks, 0);
	CHECK_EQ(s.sweeps, 1);
	CHECK_EQ(s.entries, 1);
	CHECK_EQ(hwheel_advance(w, SEC, NULL, 0, NULL), 0);
	CHECK_EQ(stats(w).sweeps, 2);
	CHECK_EQ(stats(w).entries, 0);
}

MANUAL_TEST(timers_take_memory)
{
	uint64_t one;

	ktap_timer(w);
	one = stats(w).slab_bytes;
	CHECK(one > 0);
	for (int i = 0; i < 100000; i++)
		ktap_timer(w);
	CHECK(stats(w).slab_bytes > one);
	/* at most 48 bytes each, and the rest of the last step */
	CHECK(stats(w).slab_bytes <= UINT64_C(100001) * 48 + one);
}

CLOCK_TEST(the_earliest_arm_kicks_a_sleeper)
{
	struct pollfd p = { -1, POLLIN, 0 };

	p.fd = hwheel_fd(w);
	CHECK(p.fd >= 0);
	CHECK_EQ(hwheel_once(w, 3600 * SEC, NULL, 0, 0, NULL), 0);
	CHECK_EQ(hwheel_poll(w, NULL, 0, NULL), 0);
	CHECK_EQ(stats(w).kicks, 0);
	/* later than the earliest: nobody is woken */
	CHECK_EQ(hwheel_once(w, 7200 * SEC, NULL, 0, 0, NULL), 0);
	CHECK_EQ(stats(w).kicks, 0);
	CHECK_EQ(poll(&p, 1, 0), 0);
	CHECK_EQ(hwheel_once(w, 1800 * SEC, NULL, 0, 0, NULL), 0);
	CHECK_EQ(stats(w).kicks, 1);
	/* the driver is awake, or about to be: once is enough */
	for (uint64_t i = 1; i < 1000; i++)
		CHECK_EQ(hwheel_once(w, (1800 - i) * SEC, NULL, 0, 0, NULL), 0);
	CHECK_EQ(stats(w).kicks, 1);
	CHECK_EQ(poll(&p, 1, 0), 1);
	CHECK_EQ(hwheel_poll(w, NULL, 0, NULL), 0);
	CHECK_EQ(poll(&p, 1, 0), 0);
	CHECK_EQ(hwheel_once(w, SEC, NULL, 0, 0, NULL), 0);
	CHECK_EQ(stats(w).kicks, 2);
	CHECK_EQ(poll(&p, 1, 0), 1);
}

THREAD_TEST(the_tick_threads_wakeups_are_counted)
{
	uint64_t before, end = ktap_clock() + 20 * SEC;

	before = stats(w).wakeups;
	/* where the thread has not slept yet, it fires without waking */
	while (stats(w).wakeups == before) {
		CHECK(ktap_clock() < end);
		CHECK_EQ(hwheel_once(w, 0, ktap_nothing, 0, 0, NULL), 0);
		ktap_sleep_ms(5);
	}
}

/* A node counts to 2^16 on its own. */
MANUAL_TEST(moves_are_counted_however_many)
{
	hwheel_timer_t t = ktap_timer(w);

	CHECK_EQ(hwheel_timer_mod(w, t, 1 * MS, HWHEEL_ABS), 0);
	for (int i = 0; i < 200000; i++)
		CHECK_EQ(hwheel_timer_mod(w, t, (2 + (uint64_t)i % 100) * MS, HWHEEL_ABS), 1);
	CHECK_EQ(stats(w).rearmed, 200000);
	CHECK_EQ(stats(w).notes, 1);
	CHECK_EQ(hwheel_timer_free(w, t), 1);
	CHECK_EQ(stats(w).rearmed, 200000);
}

/* From the deadline to the sweep, in powers of two. */
TEST(lateness_is_counted_by_its_length)
{
	static const uint64_t late[] = { 0, 1, 2, 3, 4, 1023, 1024, 5 * SEC, 40 * 60 * SEC };
	static const unsigned element[] = { 0, 1, 2, 2, 3, 10, 11, 33, 39 };
	WHEEL w = ktap_manual(1000, 0, 0, 0);
	uint64_t want[40] = { 0 };

	for (size_t i = 0; i < COUNT(late); i++) {
		uint64_t due = (ktap_now(w) / 1000 + 1) * 1000;

		CHECK_EQ(hwheel_once(w, due, ktap_nothing, 0, HWHEEL_ABS, NULL), 0);
		CHECK_EQ(hwheel_advance(w, due + late[i], NULL, 0, NULL), 0);
		want[element[i]]++;
		CHECK_EQ(memcmp(stats(w).lateness, want, sizeof want), 0);
	}
}

/* hwheel_list(): a walk over the pending timers. */

enum { N = 1000 };

static struct hwheel_event listed[2 * N];

/* All that are pending, @max at a time. */
static int list(struct hwheel *w, uint32_t max)
{
	uint64_t cursor = 0;
	int n, sum = 0;

	do {
		n = hwheel_list(w, &cursor, listed + sum, max);
		CHECK(n >= 0);
		sum += n;
	} while (n == (int)max);
	return sum;
}

WHEEL_TEST(a_listed_timer_is_as_it_was_armed, ktap_manual(0, 0, 0, 5 * SEC))
{
	hwheel_timer_t t = 0;

	CHECK_EQ(list(w, 1), 0);
	CHECK_EQ(hwheel_timer_setup(w, NULL, 42, &t), 0);
	CHECK_EQ(list(w, 1), 0);
	CHECK_EQ(hwheel_timer_mod(w, t, 3 * MS, 0), 0);
	CHECK_EQ(list(w, 2), 1);
	CHECK_EQ(listed[0].timer, t);
	CHECK_EQ(listed[0].cookie, 42);
	CHECK(listed[0].deadline_ns >= 5 * SEC + 3 * MS);
	CHECK(listed[0].deadline_ns < 5 * SEC + 4 * MS);
	CHECK_EQ(listed[0].missed, 0);
	CHECK_EQ(listed[0].flags, HWHEEL_EVENT_LISTED);
	CHECK_EQ(hwheel_timer_mod(w, t, HWHEEL_NEVER, 0), 1);
	CHECK_EQ(list(w, 1), 1);
	CHECK(listed[0].deadline_ns == HWHEEL_NEVER);
	CHECK_EQ(hwheel_timer_delete(w, t), 1);
	CHECK_EQ(list(w, 1), 0);
}

MANUAL_TEST(a_listed_key_has_its_cookie_and_no_handle)
{
	CHECK_EQ(hwheel_key_set(w, NUMBER(7), MS, NULL, 70, 0), 0);
	CHECK_EQ(hwheel_key_set(w, NUMBER(7), 2 * MS, NULL, 71, 0), 1);
	CHECK_EQ(list(w, 8), 1);
	CHECK_EQ(listed[0].timer, 0);
	CHECK_EQ(listed[0].cookie, 71);
	CHECK_EQ(listed[0].deadline_ns, 2 * MS);
}

/* The purpose of the walk: cancel all timers that match. */
MANUAL_TEST(all_that_match_can_be_cancelled)
{
	struct hwheel_event e[7];
	uint64_t cursor = 0;
	int n, cancelled = 0;

	for (uint64_t i = 0; i < N; i++)
		CHECK_EQ(hwheel_once(w, (i + 1) * MS, NULL, i, 0, NULL), 0);
	do {
		n = hwheel_list(w, &cursor, e, 7);
		CHECK(n >= 0);
		for (int i = 0; i < n; i++)
			if (e[i].cookie % 3 == 0)
				cancelled += hwheel_timer_delete(w, e[i].timer);
	} while (n == 7);
	CHECK_EQ(cancelled, (N + 2) / 3);
	n = list(w, 100);
	CHECK_EQ(n, N - cancelled);
	for (int i = 0; i < n; i++)
		CHECK(listed[i].cookie % 3 != 0);
}

MANUAL_TEST(each_is_listed_once_however_many_at_a_time)
{
	for (uint64_t i = 0; i < N; i++)
		CHECK_EQ(hwheel_once(w, (i + 1) * MS, NULL, i, 0, NULL), 0);
	for (uint32_t max = 1; max <= 2 * N; max = max * 3 / 2 + 1) {
		static unsigned char seen[N];

		memset(seen, 0, sizeof seen);
		CHECK_EQ(list(w, max), N);
		for (int i = 0; i < N; i++)
			CHECK_EQ(seen[listed[i].cookie]++, 0);
	}
}

/* The nodes of a large wheel are in several blocks. A walk may stop between two. */
MANUAL_TEST(a_walk_goes_on_in_the_next_block)
{
	enum { MANY = 40000 };
	static unsigned char seen[MANY];
	uint64_t cursor = 0;
	int sum = 0;

	for (uint64_t i = 0; i < MANY; i++)
		CHECK_EQ(hwheel_once(w, SEC, NULL, i, 0, NULL), 0);
	for (; hwheel_list(w, &cursor, listed, 1) == 1; sum++)
		CHECK_EQ(seen[listed[0].cookie]++, 0);
	CHECK_EQ(sum, MANY);
}

MANUAL_TEST(wrong_arguments_are_refused)
{
	struct hwheel_event e;
	uint64_t cursor = 0;

	CHECK_EQ(hwheel_once(w, MS, NULL, 0, 0, NULL), 0);
	CHECK_EQ(hwheel_list(NULL, &cursor, &e, 1), -EINVAL);
	CHECK_EQ(hwheel_list(w, NULL, &e, 1), -EINVAL);
	CHECK_EQ(hwheel_list(w, &cursor, NULL, 1), -EINVAL);
	CHECK_EQ(hwheel_list(w, &cursor, &e, 0), -EINVAL);
	CHECK_EQ(hwheel_list(w, &cursor, &e, UINT32_C(2147483648)), -EINVAL);
	CHECK_EQ(cursor, 0);
	/* beyond the end there is nothing */
	cursor = UINT64_MAX;
	CHECK_EQ(hwheel_list(w, &cursor, &e, 1), 0);
}

static struct hwheel *shared;
static atomic_int over;

/* Timers come and go. */
static void *churn(void *arg)
{
	while (!atomic_load(&over)) {
		hwheel_timer_t t[16];

		for (int i = 0; i < 16; i++)
			t[i] = ktap_once(shared, 3600 * SEC, NULL, 99, 0);
		for (int i = 0; i < 16; i++)
			CHECK_EQ(hwheel_timer_delete(shared, t[i]), 1);
	}
	return NULL;
}

TEST(those_that_stay_are_listed_while_others_come_and_go)
{
	pthread_t threads[2];

	shared = ktap_manual(0, 0, 0, 0);
	for (uint64_t i = 0; i < N / 2; i++)
		CHECK_EQ(hwheel_once(shared, (i + 1) * MS, NULL, 1000 + i, 0, NULL), 0);
	atomic_store(&over, 0);
	ktap_begin(threads, 2, churn, NULL);
	for (int round = 0; round < 200; round++) {
		static unsigned char seen[N / 2];
		int n = list(shared, 64), stayed = 0;

		memset(seen, 0, sizeof seen);
		for (int i = 0; i < n; i++) {
			if (listed[i].cookie == 99)
				continue;
			CHECK(listed[i].cookie >= 1000 && listed[i].cookie < 1000 + N / 2);
			CHECK_EQ(seen[listed[i].cookie - 1000]++, 0);
			stayed++;
		}
		CHECK_EQ(stayed, N / 2);
	}
	atomic_store(&over, 1);
	ktap_end(threads, 2);
	CHECK_EQ(hwheel_destroy(shared), 0);
}
