/* The cost of a leap: it grows with the timers that fire, not with its length. */
#include "ktap.h"

static uint64_t rnd_state = 88172645463325252u;

static uint64_t rnd(void)
{
	rnd_state ^= rnd_state << 13;
	rnd_state ^= rnd_state >> 7;
	rnd_state ^= rnd_state << 17;
	return rnd_state;
}

/* Where each 2^36 ticks were gone over it took most of a second. */
TEST(a_leap_over_nothing_takes_no_time)
{
	for (uint32_t levels = 1; levels <= 8; levels *= 2) {
		WHEEL w = ktap_manual(1000, levels, 64, 0);
		uint64_t begin;

		CHECK_EQ(hwheel_once(w, MS, NULL, 0, 0, NULL), 0);
		CHECK_EQ(hwheel_advance(w, 2 * MS, NULL, 0, NULL), 0);
		begin = ktap_cpu();
		CHECK_EQ(hwheel_advance(w, INT64_MAX, NULL, 0, NULL), 0);
		CHECK(ktap_cpu() - begin < (KTAP_SLOW ? 2 * SEC : 100 * MS));
	}
}

/* Where each of them was looked at again on the way it took 2.6 ms a timer. */
TEST(far_timers_are_not_gone_through_again_and_again)
{
	static struct hwheel_event events[64];
	enum { TIMERS = 2000 };
	WHEEL w = ktap_manual(1000, 1, 256, 0);
	uint64_t begin, last = 0;
	int n, fired = 0;

	for (int i = 0; i < TIMERS; i++)
		CHECK_EQ(hwheel_once(w, rnd() % (UINT64_C(1) << 54), NULL, 0, 0, NULL), 0);
	begin = ktap_cpu();
	do {
		n = hwheel_advance(w, UINT64_C(1) << 55, events, 64, NULL);
		CHECK(n >= 0);
		for (int i = 0; i < n; i++) {
			CHECK(events[i].deadline_ns >= last);
			last = events[i].deadline_ns;
		}
		fired += n;
	} while (n == 64);
	CHECK(ktap_cpu() - begin < SEC);
	CHECK_EQ(fired, TIMERS);
}
