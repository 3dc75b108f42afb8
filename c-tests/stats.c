/* hwheel_get_stats(): its size, and what is counted. */
#include <poll.h>
#include "ktap.h"

static void nothing(struct hwheel *w, const struct hwheel_event *e)
{
}

TEST(a_new_wheel_has_done_nothing)
{
	WHEEL w = ktap_manual(0, 0, 0, 0);
	struct hwheel_stats s = stats(w);

	CHECK_EQ(s.live, 0);
	CHECK_EQ(s.fired, 0);
	CHECK_EQ(s.missed, 0);
	CHECK_EQ(s.unclaimed, 0);
	CHECK_EQ(s.sweeps, 0);
	CHECK_EQ(s.wakeups, 0);
	CHECK_EQ(s.kicks, 0);
	CHECK_EQ(s.notes, 0);
	CHECK_EQ(s.slab_bytes, 0);
	CHECK_EQ(s.entries, 0);
	CHECK_EQ(s.note_bytes, 0);
}

TEST(a_size_below_eight_is_refused)
{
	WHEEL w = ktap_manual(0, 0, 0, 0);
	struct hwheel_stats s;

	for (uint32_t size = 0; size < 8; size++) {
		memset(&s, 0x5a, sizeof s);
		s.size = size;
		CHECK_EQ(hwheel_get_stats(w, &s), -EINVAL);
		CHECK_EQ(s.size, size);
		for (size_t i = 4; i < sizeof s; i++)
			CHECK_EQ(((unsigned char *)&s)[i], 0x5a);
	}
}

TEST(a_short_struct_is_filled_as_far_as_it_goes)
{
	WHEEL w = ktap_manual(0, 0, 0, 0);

	CHECK_EQ(hwheel_once(w, MS, NULL, 0, 0, NULL), 0);
	for (uint32_t size = 8; size <= sizeof(struct hwheel_stats); size++) {
		struct hwheel_stats s;

		memset(&s, 0x5a, sizeof s);
		s.size = size;
		CHECK_EQ(hwheel_get_stats(w, &s), 0);
		CHECK_EQ(s.size, size);
		if (size >= 16)
			CHECK_EQ(s.live, 1);
		for (size_t i = size; i < sizeof s; i++)
			CHECK_EQ(((unsigned char *)&s)[i], 0x5a);
	}
}

TEST(an_unknown_tail_is_zeroed)
{
	static _Alignas(struct hwheel_stats) unsigned char bytes[5000];
	WHEEL w = ktap_manual(0, 0, 0, 0);
	static const uint32_t sizes[] = { sizeof(struct hwheel_stats) + 1, 200, 4095, 4096 };
	uint32_t size;

	for (size_t k = 0; k < sizeof sizes / sizeof sizes[0]; k++) {
		memset(bytes, 0x5a, sizeof bytes);
		memcpy(bytes, &sizes[k], sizeof sizes[k]);
		CHECK_EQ(hwheel_get_stats(w, (struct hwheel_stats *)(void *)bytes), 0);
		for (size_t i = sizeof(struct hwheel_stats); i < sizeof bytes; i++)
			CHECK_EQ(bytes[i], i < sizes[k] ? 0 : 0x5a);
	}
	memset(bytes, 0x5a, sizeof bytes);
	size = 4097;
	memcpy(bytes, &size, sizeof size);
	CHECK_EQ(hwheel_get_stats(w, (struct hwheel_stats *)(void *)bytes), -E2BIG);
	size = UINT32_MAX;
	memcpy(bytes, &size, sizeof size);
	CHECK_EQ(hwheel_get_stats(w, (struct hwheel_stats *)(void *)bytes), -E2BIG);
	for (size_t i = sizeof size; i < sizeof bytes; i++)
		CHECK_EQ(bytes[i], 0x5a);
}

TEST(live_is_what_exists)
{
	WHEEL w = ktap_manual(0, 0, 0, 0);
	hwheel_timer_t t[10];

	for (int i = 0; i < 10; i++) {
		CHECK_EQ(hwheel_timer_setup(w, NULL, 0, &t[i]), 0);
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

TEST(firings_are_counted)
{
	WHEEL w = ktap_manual(0, 0, 0, 0);
	struct hwheel_event e[20];
	struct hwheel_stats s;
	hwheel_timer_t t = 0;

	for (int i = 0; i < 5; i++) {
		CHECK_EQ(hwheel_once(w, MS, NULL, 0, 0, NULL), 0);
		CHECK_EQ(hwheel_once(w, MS, nothing, 0, 0, NULL), 0);
	}
	CHECK_EQ(hwheel_once(w, MS, NULL, 0, 0, &t), 0);
	CHECK_EQ(hwheel_timer_delete(w, t), 1);
	CHECK_EQ(hwheel_advance(w, MS, e, 20, NULL), 5);
	s = stats(w);
	CHECK_EQ(s.fired, 10);
	CHECK_EQ(s.unclaimed, 0);
	CHECK_EQ(s.missed, 0);
	CHECK_EQ(s.live, 0);
	/* periods one by one */
	CHECK_EQ(hwheel_every(w, MS, MS, 0, nothing, 0, HWHEEL_MISSED_BURST, &t), 0);
	CHECK_EQ(hwheel_advance(w, 11 * MS, NULL, 0, NULL), 0);
	CHECK_EQ(stats(w).fired, 20);
	CHECK_EQ(hwheel_timer_delete(w, t), 1);
	CHECK_EQ(hwheel_every(w, MS, MS, 0, nothing, 0, 0, &t), 0);
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

TEST(drained_timers_have_not_fired)
{
	WHEEL w = ktap_manual(0, 0, 0, 0);
	struct hwheel_event e[2];

	CHECK_EQ(hwheel_once(w, MS, NULL, 0, 0, NULL), 0);
	CHECK_EQ(hwheel_drain(w, e, 2), 1);
	CHECK_EQ(stats(w).fired, 0);
	CHECK_EQ(stats(w).unclaimed, 0);
	CHECK_EQ(stats(w).live, 0);
}

/* A note for an arm whose timer the driver would look at too late. */
TEST(advances_are_sweeps_and_some_arms_leave_a_note)
{
	WHEEL w = ktap_manual(0, 0, 0, 0);
	hwheel_timer_t t = 0;
	struct hwheel_stats s;

	CHECK_EQ(hwheel_timer_setup(w, NULL, 0, &t), 0);
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

TEST(timers_take_memory)
{
	WHEEL w = ktap_manual(0, 0, 0, 0);
	hwheel_timer_t t = 0;
	uint64_t one;

	CHECK_EQ(hwheel_timer_setup(w, NULL, 0, &t), 0);
	one = stats(w).slab_bytes;
	CHECK(one > 0);
	for (int i = 0; i < 100000; i++)
		CHECK_EQ(hwheel_timer_setup(w, NULL, 0, &t), 0);
	CHECK(stats(w).slab_bytes > one);
	/* at most 48 bytes each, and the rest of the last step */
	CHECK(stats(w).slab_bytes <= UINT64_C(100001) * 48 + one);
}

TEST(the_earliest_arm_kicks_a_sleeper)
{
	WHEEL w = ktap_made(NULL);
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

TEST(the_tick_threads_wakeups_are_counted)
{
	WHEEL w = ktap_started(NULL);
	uint64_t before, end = ktap_clock() + 20 * SEC;

	before = stats(w).wakeups;
	/* where the thread has not slept yet, it fires without waking */
	while (stats(w).wakeups == before) {
		CHECK(ktap_clock() < end);
		CHECK_EQ(hwheel_once(w, 0, nothing, 0, 0, NULL), 0);
		ktap_sleep_ms(5);
	}
}

/* A node counts to 2^16 on its own. */
TEST(moves_are_counted_however_many)
{
	WHEEL w = ktap_manual(0, 0, 0, 0);
	hwheel_timer_t t;

	CHECK_EQ(hwheel_timer_setup(w, NULL, 0, &t), 0);
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

		CHECK_EQ(hwheel_once(w, due, nothing, 0, HWHEEL_ABS, NULL), 0);
		CHECK_EQ(hwheel_advance(w, due + late[i], NULL, 0, NULL), 0);
		want[element[i]]++;
		CHECK_EQ(memcmp(stats(w).lateness, want, sizeof want), 0);
	}
}
