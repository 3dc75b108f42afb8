/* hwheel_create(), hwheel_destroy() and hwheel_now(): options, their sizes and limits. */
#include "events.h"

#define UNTOUCHED ((struct hwheel *)&untouched)
static char untouched;

static struct hwheel_options options(void)
{
	return (struct hwheel_options){ .size = sizeof(struct hwheel_options) };
}

static void refuse(const void *o, int want)
{
	struct hwheel *w = UNTOUCHED;

	CHECK_EQ(hwheel_create(o, &w), want);
	CHECK(w == UNTOUCHED);
}

static void accept(const void *o)
{
	WHEEL w = NULL;

	CHECK_EQ(hwheel_create(o, &w), 0);
	CHECK(w != NULL);
}

CLOCK_TEST(null_options_are_the_defaults)
{
	uint64_t before = ktap_clock(), now = ktap_now(w);

	CHECK(before <= now && now <= ktap_clock());
	CHECK_EQ(stats(w).live, 0);
}

TEST(zeroed_options_with_a_size_are_the_defaults)
{
	struct hwheel_options o = options();

	accept(&o);
}

MANUAL_TEST(the_default_tick_is_a_millisecond)
{
	CHECK_EQ(hwheel_once(w, 1, NULL, 0, 0, NULL), 0);
	no_event(w, MS - 1);
	one_event(w, MS);
}

TEST(every_system_clock_can_be_read)
{
	for (uint32_t clock = 0; clock < HWHEEL_CLOCK_MANUAL; clock++) {
		WHEEL w = MADE(.clock = clock);
		uint64_t before = ktap_time(system_clock(clock)), now = ktap_now(w);

		CHECK(before <= now && now <= ktap_time(system_clock(clock)));
	}
}

TEST(a_manual_clock_starts_where_it_is_told)
{
	static const uint64_t starts[] = { 0, 1, MS - 1, MS, 5 * SEC + 7, INT64_MAX };

	for (size_t i = 0; i < COUNT(starts); i++) {
		WHEEL w = ktap_manual(0, 0, 0, starts[i]);

		CHECK_EQ(ktap_now(w), starts[i]);
	}
}

TEST(a_size_below_eight_is_refused)
{
	for (uint32_t size = 0; size < 8; size++) {
		struct hwheel_options o = options();

		o.size = size;
		refuse(&o, -EINVAL);
	}
}

TEST(a_short_struct_is_completed_with_zeros)
{
	for (uint32_t size = 8; size <= sizeof(struct hwheel_options); size += 4) {
		struct hwheel_options o = options();
		unsigned char *exact = malloc(size);
		WHEEL w = NULL;
		int got;

		CHECK(exact != NULL);
		o.clock = HWHEEL_CLOCK_MANUAL;
		o.start_ns = 5;
		o.size = size;
		memcpy(exact, &o, size);
		got = hwheel_create((const struct hwheel_options *)(void *)exact, &w);
		free(exact);
		CHECK_EQ(got, 0);
		/* cut off: zero; a half of it is the low half */
		CHECK_EQ(ktap_now(w), size > offsetof(struct hwheel_options, start_ns) ? 5 : 0);
	}
}

struct newer {
	struct hwheel_options known;
	unsigned char tail[64];
};

TEST(a_long_struct_with_a_zero_tail_is_accepted)
{
	struct newer n;

	memset(&n, 0, sizeof n);
	for (size_t more = 0; more <= sizeof n.tail; more++) {
		n.known.size = (uint32_t)(sizeof n.known + more);
		accept(&n);
	}
}

TEST(an_unknown_tail_is_too_big)
{
	for (size_t at = 0; at < sizeof((struct newer *)0)->tail; at++) {
		struct newer n;

		memset(&n, 0, sizeof n);
		n.tail[at] = 1;
		n.known.size = (uint32_t)(sizeof n.known + at + 1);
		refuse(&n, -E2BIG);
		/* behind its end it does not count */
		n.known.size--;
		accept(&n);
	}
}

TEST(the_null_output_is_refused)
{
	struct hwheel_options o = options();

	CHECK_EQ(hwheel_create(NULL, NULL), -EINVAL);
	CHECK_EQ(hwheel_create(&o, NULL), -EINVAL);
}

TEST(each_option_has_its_range)
{
	static const struct hwheel_options within[] = {
		{ .tick_ns = 1000 }, { .tick_ns = 3600 * SEC },
		{ .levels = 8, .slots = 64 }, { .levels = 3, .slots = 65536 },
		{ .max_timers = 1 }, { .max_timers = 67000000 },
		{ .clock = HWHEEL_CLOCK_MANUAL, .start_ns = 1 },
	};
	static const struct hwheel_options outside[] = {
		{ .clock = 4 }, { .clock = UINT32_MAX },
		{ .tick_ns = 1 }, { .tick_ns = 999 }, { .tick_ns = 3600 * SEC + 1 }, { .tick_ns = UINT64_MAX },
		{ .levels = 9, .slots = 64 }, { .levels = UINT32_MAX, .slots = 64 },
		/* levels times bits is at most 48 */
		{ .levels = 8, .slots = 128 }, { .levels = 4, .slots = 65536 },
		{ .max_timers = 67000001 }, { .max_timers = UINT32_MAX }, { .wake_arg = &untouched },
		/* only a manual clock has a start, which is not a negative number, nor never */
		{ .clock = HWHEEL_CLOCK_MONOTONIC, .start_ns = 1 },
		{ .clock = HWHEEL_CLOCK_BOOTTIME, .start_ns = 1 },
		{ .clock = HWHEEL_CLOCK_REALTIME, .start_ns = 1 },
		{ .clock = HWHEEL_CLOCK_MANUAL, .start_ns = UINT64_C(1) << 63 },
		{ .clock = HWHEEL_CLOCK_MANUAL, .start_ns = HWHEEL_NEVER },
	};
	struct hwheel_options o;

	for (size_t i = 0; i < COUNT(within); i++) {
		o = within[i];
		o.size = sizeof o;
		accept(&o);
	}
	for (size_t i = 0; i < COUNT(outside); i++) {
		o = outside[i];
		o.size = sizeof o;
		refuse(&o, -EINVAL);
	}
}

TEST(one_to_eight_levels_of_slots_that_are_a_power_of_two)
{
	static const uint32_t odd[] = { 1, 3, 6, 255, 257, 65535, 1 << 17, UINT32_C(1) << 31, UINT32_MAX };
	struct hwheel_options o = options();

	o.slots = 64;
	for (o.levels = 1; o.levels <= 8; o.levels++)
		accept(&o);
	o.levels = 3;
	for (o.slots = 2; o.slots <= 65536; o.slots *= 2)
		accept(&o);
	for (size_t i = 0; i < COUNT(odd); i++) {
		o.slots = odd[i];
		refuse(&o, -EINVAL);
	}
}

TEST_OF(destroying_nothing_is_nothing, CHECK_EQ(hwheel_destroy(NULL), 0))

MANUAL_TEST(armed_timers_do_not_fire_when_it_is_destroyed)
{
	for (int i = 0; i < 1000; i++)
		CHECK_EQ(hwheel_once(w, MS * (uint64_t)i, NULL, 0, 0, NULL), 0);
}

TEST(wheels_come_and_go)
{
	struct hwheel *w[40];

	/* more than a thread keeps in mind at once */
	for (int round = 0; round < 3; round++) {
		for (int i = 0; i < 40; i++) {
			w[i] = ktap_manual(0, 2, 16, 0);
			CHECK_EQ(hwheel_once(w[i], MS, NULL, (uint64_t)i, 0, NULL), 0);
		}
		for (int i = 0; i < 40; i++)
			CHECK_EQ(hwheel_once(w[i], 2 * MS, NULL, (uint64_t)i, 0, NULL), 0);
		for (int i = 39; i >= 0; i--) {
			struct hwheel_event e[3];

			CHECK_EQ(hwheel_advance(w[i], SEC, e, 3, NULL), 2);
			CHECK_EQ(e[0].cookie, i);
			CHECK_EQ(e[1].cookie, i);
			CHECK_EQ(hwheel_destroy(w[i]), 0);
		}
	}
}
