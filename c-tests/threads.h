/*
 * Threads that arm timers, and a clock that is driven concurrently. Outcomes are
 * counted, not timed: whatever the interleaving, the sums are exact.
 */
#ifndef THREADS_H
#define THREADS_H

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include "ktap.h"

struct shape {
	uint64_t tick;
	uint32_t levels, slots;
};

static const struct shape shapes[] = {
	{ 1000000, 4, 256 }, { 1000000, 1, 256 }, { 1000, 2, 4 }, { 1000, 1, 2 },
};

enum { THREADS = 2, EACH = 4000, ALL = THREADS * EACH };

static struct hwheel *wheel;
static uint64_t tick;
static _Atomic unsigned bad;		/* answers in threads that were not right */
static _Atomic unsigned n_fired;
static _Atomic unsigned fired[ALL];
static _Atomic uint64_t got[ALL];	/* the time of the advance that fired it */
static uint64_t limit[ALL];		/* by when it must have fired */
static uint64_t wanted[ALL];
static hwheel_timer_t timers[ALL];
static _Atomic uint64_t driven;
static _Atomic unsigned running;	/* threads that have not ended */

#define EXPECT(x, want) do { if ((x) != (want)) bad++; } while (0)

static inline void note(struct hwheel *w, const struct hwheel_event *e)
{
	(void)w;
	fired[e->cookie]++;
	got[e->cookie] = driven;
	n_fired++;
}

static inline void reset(const struct shape *s, uint64_t start_ns)
{
	tick = s->tick;
	bad = n_fired = 0;
	for (unsigned n = 0; n < ALL; n++) {
		fired[n] = 0;
		got[n] = limit[n] = wanted[n] = timers[n] = 0;
	}
	driven = start_ns;
	wheel = ktap_manual(s->tick, s->levels, s->slots, start_ns);
}

static inline void reset_thread(uint64_t tick_ns)
{
	const struct shape s = { tick_ns, 4, 256 };
	struct hwheel_options o;

	reset(&s, 0);
	hwheel_destroy(wheel);
	memset(&o, 0, sizeof o);
	o.size = sizeof o;
	o.tick_ns = tick_ns;
	CHECK_EQ(hwheel_create(&o, &wheel), 0);
	CHECK_EQ(hwheel_start(wheel), 0);
}

/* Runs threads; with a stride, drives the clock by it until they have ended. */
static inline void run(void *(*body)(void *), uint64_t stride)
{
	pthread_t threads[THREADS];

	running = THREADS;
	for (uintptr_t n = 0; n < THREADS; n++)
		CHECK_EQ(pthread_create(&threads[n], NULL, body, (void *)n), 0);
	while (stride && running) {
		driven += stride;
		if (hwheel_advance(wheel, driven, NULL, 0, NULL) != 0)
			bad++;
		/* a clock that ran as fast as it can would outrun the arms */
		sched_yield();
	}
	for (unsigned n = 0; n < THREADS; n++)
		pthread_join(threads[n], NULL);
	CHECK_EQ(bad, 0);
}

static inline void drive(unsigned ticks)
{
	while (ticks-- > 0) {
		driven += tick;
		CHECK_EQ(hwheel_advance(wheel, driven, NULL, 0, NULL), 0);
	}
}

static inline int reach(_Atomic unsigned *count, unsigned n)
{
	for (unsigned ms = 0; ms < 5000 && *count < n; ms++)
		ktap_sleep_ms(1);
	return *count >= n;
}

static inline unsigned next_random(uint64_t *seed)
{
	*seed ^= *seed << 13;
	*seed ^= *seed >> 7;
	*seed ^= *seed << 17;
	return (unsigned)(*seed >> 20);
}

#endif
