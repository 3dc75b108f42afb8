/* A system clock that misbehaves: steps back are held, steps forward fire in order. */
#include <sys/syscall.h>
#include "ktap.h"

/* This program's own clock: the wall clock is what the tests say. */
static _Atomic uint64_t wall_ns;

int clock_gettime(clockid_t clock, struct timespec *t)
{
	uint64_t ns = atomic_load(&wall_ns);

	if (clock != CLOCK_REALTIME)
		return (int)syscall(SYS_clock_gettime, clock, t);
	t->tv_sec = (time_t)(ns / SEC);
	t->tv_nsec = (long)(ns % SEC);
	return 0;
}

static struct hwheel *on_the_wall(uint64_t ns)
{
	atomic_store(&wall_ns, ns);
	return MADE(.clock = HWHEEL_CLOCK_REALTIME);
}

#define T0 (UINT64_C(1700000000) * SEC)

TEST(it_follows_the_wall_clock)
{
	WHEEL w = on_the_wall(T0);
	struct hwheel_event e;

	CHECK_EQ(ktap_now(w), T0);
	CHECK_EQ(hwheel_once(w, 10 * MS, NULL, 0, 0, NULL), 0);
	atomic_store(&wall_ns, T0 + 10 * MS - 1);
	CHECK_EQ(hwheel_poll(w, &e, 1, NULL), 0);
	atomic_store(&wall_ns, T0 + 10 * MS);
	CHECK_EQ(ktap_now(w), T0 + 10 * MS);
	CHECK_EQ(hwheel_poll(w, &e, 1, NULL), 1);
	CHECK_DUE(e.deadline_ns, T0 + 10 * MS, MS);
}

TEST(a_step_back_is_held)
{
	WHEEL w = on_the_wall(T0);
	struct hwheel_event e;

	atomic_store(&wall_ns, T0 + 100 * SEC);
	CHECK_EQ(hwheel_poll(w, &e, 1, NULL), 0);
	atomic_store(&wall_ns, T0 + 50 * SEC);
	CHECK_EQ(ktap_now(w), T0 + 100 * SEC);
	CHECK_EQ(hwheel_poll(w, &e, 1, NULL), 0);
	/* a delay counts from the held time, and it fires when that has passed */
	CHECK_EQ(hwheel_once(w, SEC, NULL, 7, 0, NULL), 0);
	atomic_store(&wall_ns, T0 + 100 * SEC);
	CHECK_EQ(hwheel_poll(w, &e, 1, NULL), 0);
	atomic_store(&wall_ns, T0 + 101 * SEC - 1);
	CHECK_EQ(hwheel_poll(w, &e, 1, NULL), 0);
	atomic_store(&wall_ns, T0 + 101 * SEC);
	CHECK_EQ(hwheel_poll(w, &e, 1, NULL), 1);
	CHECK_EQ(e.cookie, 7);
}

TEST(before_its_start_it_is_held_at_its_start)
{
	WHEEL w = on_the_wall(T0);

	atomic_store(&wall_ns, 0);
	CHECK_EQ(ktap_now(w), T0);
	CHECK_EQ(hwheel_poll(w, NULL, 0, NULL), 0);
}

TEST(a_step_forward_fires_what_is_due_in_order)
{
	WHEEL w = on_the_wall(T0);
	struct hwheel_event e[101];
	uint64_t last = 0;

	for (uint64_t i = 0; i < 100; i++)
		CHECK_EQ(hwheel_once(w, T0 + (i * 37 % 100 + 1) * 1000 * SEC, NULL, 0, HWHEEL_ABS, NULL), 0);
	atomic_store(&wall_ns, T0 + 365 * 86400 * SEC);
	CHECK_EQ(hwheel_poll(w, e, 101, NULL), 100);
	for (int i = 0; i < 100; i++) {
		CHECK(e[i].deadline_ns > last);
		last = e[i].deadline_ns;
	}
}

TEST(a_step_forward_counts_the_periods_it_leaves_out)
{
	WHEEL w = on_the_wall(T0);
	struct hwheel_event e[4];

	CHECK_EQ(hwheel_every(w, SEC, SEC, 0, NULL, 0, 0, NULL), 0);
	atomic_store(&wall_ns, T0 + 3600 * SEC);
	CHECK_EQ(hwheel_poll(w, e, 4, NULL), 1);
	CHECK_EQ(e[0].missed, 3599);
	atomic_store(&wall_ns, T0 + 3601 * SEC - 1);
	CHECK_EQ(hwheel_poll(w, e, 4, NULL), 0);
	atomic_store(&wall_ns, T0 + 3601 * SEC);
	CHECK_EQ(hwheel_poll(w, e, 4, NULL), 1);
	CHECK_EQ(e[0].missed, 0);
}
