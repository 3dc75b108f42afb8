/*
 * The layout of the structs never changes: offsets in bytes, as the compiler
 * of C sees them and as the library reads and writes them. Members may be
 * appended to those that begin with their size. The constants never change either.
 * The last tests read the version and the descriptions of errors.
 */
#include "ktap.h"

#define AT(member, at) _Static_assert(offsetof(struct STRUCT, member) == (at), #member);

#define STRUCT hwheel_event
AT(timer, 0) AT(cookie, 8) AT(deadline_ns, 16) AT(missed, 24) AT(flags, 28)
_Static_assert(sizeof(struct hwheel_event) == 32, "events are an array");
#undef STRUCT

#define STRUCT hwheel_options
AT(size, 0) AT(clock, 4) AT(tick_ns, 8) AT(levels, 16) AT(slots, 20) AT(max_timers, 24)
AT(workers, 28) AT(start_ns, 32) AT(queue, 40) AT(overload, 44) AT(executor, 48)
AT(executor_arg, 56)
_Static_assert(sizeof(struct hwheel_options) >= 64, "may grow");
#undef STRUCT

#define STRUCT hwheel_run
AT(size, 0) AT(left, 4) AT(max_fired, 8) AT(max_ns, 16)
_Static_assert(sizeof(struct hwheel_run) >= 24, "may grow");
#undef STRUCT

#define STRUCT hwheel_stats
AT(size, 0) AT(reserved, 4) AT(live, 8) AT(fired, 16) AT(missed, 24) AT(unclaimed, 32)
AT(sweeps, 40) AT(wakeups, 48) AT(kicks, 56) AT(notes, 64) AT(slab_bytes, 72) AT(armed, 80)
AT(rearmed, 88) AT(cancelled, 96) AT(drained, 104) AT(pending, 112) AT(entries, 120)
AT(queued, 128) AT(lateness, 136) AT(dropped, 456) AT(note_bytes, 464)
_Static_assert(sizeof(struct hwheel_stats) >= 472, "may grow");

_Static_assert(sizeof(hwheel_timer_t) == 8, "a handle is 64 bits");
_Static_assert(sizeof(hwheel_fn) == sizeof(void *), "a plain function pointer");

_Static_assert(HWHEEL_CLOCK_MONOTONIC == 0 && HWHEEL_CLOCK_BOOTTIME == 1 &&
	       HWHEEL_CLOCK_REALTIME == 2 && HWHEEL_CLOCK_MANUAL == 3, "clocks");
_Static_assert(HWHEEL_OVERLOAD_RUN == 0 && HWHEEL_OVERLOAD_DROP == 1, "options");
_Static_assert(HWHEEL_ABS == 1 && HWHEEL_REDUCE == 2 && HWHEEL_IF_PENDING == 4 &&
	       HWHEEL_MISSED_BURST == 16 && HWHEEL_MISSED_DELAY == 32 &&
	       HWHEEL_EVENT_DRAINED == 256 && HWHEEL_EVENT_LISTED == 512, "flags");
_Static_assert(HWHEEL_USEC == 1000 && HWHEEL_MSEC == 1000 * HWHEEL_USEC &&
	       HWHEEL_SEC == 1000 * HWHEEL_MSEC, "units");
_Static_assert(HWHEEL_NEVER == UINT64_MAX, "never");

static void put32(unsigned char *at, uint32_t value) { memcpy(at, &value, 4); }
static void put64(unsigned char *at, uint64_t value) { memcpy(at, &value, 8); }

static uint32_t get32(const unsigned char *at)
{
	uint32_t value;

	memcpy(&value, at, 4);
	return value;
}

static uint64_t get64(const unsigned char *at)
{
	uint64_t value;

	memcpy(&value, at, 8);
	return value;
}

/* A wheel made of options in bytes: 3 timers, ticks of 1 s, from 1000 s. */
static struct hwheel *from_bytes(void)
{
	_Alignas(8) unsigned char options[40] = { 0 };
	struct hwheel *w;

	put32(options, sizeof options);
	put32(options + 4, HWHEEL_CLOCK_MANUAL);
	put64(options + 8, SEC);
	put32(options + 16, 2);
	put32(options + 20, 64);
	put32(options + 24, 3);
	put64(options + 32, 1000 * SEC);
	CHECK_EQ(hwheel_create((void *)options, &w), 0);
	return w;
}

WHEEL_TEST(options_are_read_at_these_offsets, from_bytes())
{
	CHECK_EQ(ktap_now(w), 1000 * SEC);
	for (int i = 0; i < 3; i++)
		CHECK_EQ(hwheel_once(w, 1, NULL, 0, 0, NULL), 0);
	CHECK_EQ(hwheel_once(w, 1, NULL, 0, 0, NULL), -ENOSPC);
	CHECK_EQ(ktap_next(w), 1001 * SEC);
}

TEST(events_and_stats_are_written_at_these_offsets)
{
	_Alignas(8) unsigned char events[2 * 32], stats[80];
	WHEEL w = from_bytes();
	hwheel_timer_t periodic, once;

	CHECK_EQ(hwheel_every(w, SEC, SEC, 0, NULL, UINT64_C(0x1122334455667788), 0,
			      &periodic), 0);
	CHECK_EQ(hwheel_once(w, 2 * SEC, NULL, 5, 0, &once), 0);
	CHECK_EQ(hwheel_advance(w, 1003 * SEC, (void *)events, 2, NULL), 2);
	CHECK_EQ(get64(events), periodic);
	CHECK_EQ(get64(events + 8), 0x1122334455667788);
	CHECK_EQ(get64(events + 16), 1001 * SEC);
	CHECK_EQ(get32(events + 24), 2);
	CHECK_EQ(get32(events + 28), 0);
	CHECK_EQ(get64(events + 32), once);
	CHECK_EQ(get64(events + 40), 5);

	put32(stats, sizeof stats);
	CHECK_EQ(hwheel_get_stats(w, (void *)stats), 0);
	CHECK_EQ(get64(stats + 8), 1);
	CHECK_EQ(get64(stats + 16), 2);
	CHECK_EQ(get64(stats + 24), 2);
	CHECK(get64(stats + 72) > 0);

	CHECK_EQ(hwheel_drain(w, (void *)events, 2), 1);
	CHECK_EQ(get32(events + 28), HWHEEL_EVENT_DRAINED);
}

TEST(version_matches_the_header)
{
	char text[32];

	CHECK_EQ(hwheel_version(), HWHEEL_VERSION);
	CHECK_EQ(hwheel_version(), HWHEEL_VERSION_MAJOR << 16 |
		 HWHEEL_VERSION_MINOR << 8 | HWHEEL_VERSION_PATCH);
	snprintf(text, sizeof text, "%d.%d.%d", HWHEEL_VERSION_MAJOR,
		 HWHEEL_VERSION_MINOR, HWHEEL_VERSION_PATCH);
	CHECK(strcmp(text, hwheel_version_string()) == 0);
}

/* hwheel_strerror(): words for every error that the header names. */

TEST(every_error_has_words_of_its_own)
{
	static const int errors[] = {
		EINVAL, ESTALE, ENOSPC, ENOMEM, EBUSY, EDEADLK, ESHUTDOWN, E2BIG, EMFILE,
		ENFILE, EAGAIN, EUSERS, EPERM, ENOSYS,
	};
	enum { N = sizeof errors / sizeof errors[0] };

	for (int i = 0; i < N; i++) {
		const char *words = hwheel_strerror(-errors[i]);

		CHECK(words != NULL && strlen(words) > 5);
		CHECK(strcmp(words, hwheel_strerror(-99999)) != 0);
		CHECK(strcmp(words, hwheel_strerror(0)) != 0);
		for (int j = 0; j < i; j++)
			CHECK(strcmp(words, hwheel_strerror(-errors[j])) != 0);
	}
	CHECK(strcmp(hwheel_strerror(-ESTALE), "the timer no longer exists") == 0);
	CHECK(strcmp(hwheel_strerror(-EINVAL),
		     "an argument is not valid, or not for this wheel") == 0);
	CHECK(strcmp(hwheel_strerror(-EBUSY),
		     "the wheel is in use by a driver or by a stop") == 0);
	CHECK(strcmp(hwheel_strerror(-ESHUTDOWN),
		     "the timer or the wheel is shut down, or this is a forked child") == 0);
}

TEST(any_number_has_words)
{
	CHECK(strcmp(hwheel_strerror(0), "success") == 0);
	CHECK(strcmp(hwheel_strerror(1), "success") == 0);
	CHECK(strcmp(hwheel_strerror(INT32_MAX), "success") == 0);
	CHECK(strcmp(hwheel_strerror(-12345), "unknown error") == 0);
	CHECK(strcmp(hwheel_strerror(INT32_MIN), "unknown error") == 0);
}
