/*
 * Every call of the library that the benchmarks make, and no other file of
 * theirs names one. So they run against any library for which somebody writes
 * such a file: make LIBRARY_H=other.h LIBRARY_LD='-L. -lother' bench-core
 */
#ifndef BENCH_LIBRARY_H
#define BENCH_LIBRARY_H

#include <hwheel.h>
#include <string.h>

typedef struct hwheel bench_wheel;
typedef struct hwheel_event bench_event;
typedef hwheel_timer_t bench_timer;
typedef void (*bench_fn)(bench_wheel *wheel, const bench_event *event);

enum bench_clock {
	BENCH_MANUAL = HWHEEL_CLOCK_MANUAL,
	BENCH_MONOTONIC = HWHEEL_CLOCK_MONOTONIC,
};

/* All that return an int return a negative error number on failure. */
static inline int bench_create(enum bench_clock clock, uint64_t tick_ns, bench_wheel **wheel)
{
	struct hwheel_options options;

	memset(&options, 0, sizeof options);
	options.size = sizeof options;
	options.clock = (uint32_t)clock;
	options.tick_ns = tick_ns;
#ifdef OWNED
	options.owned = 1;
#endif
	return hwheel_create(&options, wheel);
}

static inline int bench_destroy(bench_wheel *wheel)
{
	return hwheel_destroy(wheel);
}

static inline int bench_setup(bench_wheel *wheel, bench_fn fn, uint64_t cookie, bench_timer *timer)
{
	return hwheel_timer_setup(wheel, fn, cookie, timer);
}

static inline int bench_free(bench_wheel *wheel, bench_timer timer)
{
	return hwheel_timer_free(wheel, timer);
}

/* Arms or moves a timer to a point on the wheel's clock. */
static inline int bench_arm(bench_wheel *wheel, bench_timer timer, uint64_t time_ns)
{
	return hwheel_timer_mod(wheel, timer, time_ns, HWHEEL_ABS);
}

static inline int bench_arm_in(bench_wheel *wheel, bench_timer timer, uint64_t delay_ns)
{
	return hwheel_timer_mod(wheel, timer, delay_ns, 0);
}

/* Returns the number of timers armed. */
static inline int bench_arm_many(bench_wheel *wheel, const bench_timer *timers,
				 const uint64_t *times_ns, uint32_t n)
{
	return hwheel_timer_mod_many(wheel, timers, times_ns, n, HWHEEL_ABS, NULL);
}

/* Makes and arms a timer that frees itself. */
static inline int bench_once(bench_wheel *wheel, uint64_t delay_ns, bench_fn fn, uint64_t cookie,
			     bench_timer *timer)
{
	return hwheel_once(wheel, delay_ns, fn, cookie, 0, timer);
}

/* A hint: a call on the timer follows. */
static inline void bench_prefetch(bench_wheel *wheel, bench_timer timer)
{
	hwheel_timer_prefetch(wheel, timer);
}

static inline int bench_cancel(bench_wheel *wheel, bench_timer timer)
{
	return hwheel_timer_delete(wheel, timer);
}

static inline int bench_pending(bench_wheel *wheel, bench_timer timer)
{
	return hwheel_timer_pending(wheel, timer);
}

static inline int bench_advance(bench_wheel *wheel, uint64_t now_ns)
{
	return hwheel_advance(wheel, now_ns, NULL, 0, NULL);
}

/* A descriptor that is readable when bench_poll() has work to do. */
static inline int bench_fd(bench_wheel *wheel)
{
	return hwheel_fd(wheel);
}

static inline int bench_poll(bench_wheel *wheel)
{
	return hwheel_poll(wheel, NULL, 0, NULL);
}

static inline int bench_start(bench_wheel *wheel)
{
	return hwheel_start(wheel);
}

/* Also says when to call again, UINT64_MAX for never. */
static inline int bench_advance_until(bench_wheel *wheel, uint64_t now_ns, uint64_t *next_ns)
{
	struct hwheel_run run;
	int result;

	memset(&run, 0, sizeof run);
	run.size = sizeof run;
	result = hwheel_advance(wheel, now_ns, NULL, 0, &run);
	*next_ns = run.next_ns == HWHEEL_NEVER ? UINT64_MAX : run.next_ns;
	return result;
}

/* A timer without a handle, for the wheel's next tick, by any thread. */
static inline int bench_message(bench_wheel *wheel, bench_fn fn, uint64_t cookie)
{
	return hwheel_once(wheel, 0, fn, cookie, 0, NULL);
}

static inline uint64_t bench_wakeups(bench_wheel *wheel)
{
	struct hwheel_stats stats;

	memset(&stats, 0, sizeof stats);
	stats.size = sizeof stats;
	return hwheel_get_stats(wheel, &stats) < 0 ? 0 : stats.wakeups;
}

#endif
