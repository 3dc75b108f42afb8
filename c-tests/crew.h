/* Callbacks in workers and executors, and what is known of them. */
#ifndef CREW_H
#define CREW_H

#include <pthread.h>
#include <stdatomic.h>
#include "ktap.h"

static inline struct hwheel_options defaults(void)
{
	struct hwheel_options o;

	memset(&o, 0, sizeof o);
	o.size = sizeof o;
	o.clock = HWHEEL_CLOCK_MANUAL;
	return o;
}

static inline struct hwheel *make(const struct hwheel_options *o)
{
	struct hwheel *w = NULL;

	CHECK_EQ(hwheel_create(o, &w), 0);
	return w;
}

/* Records of the callbacks. */
static atomic_int calls, inside, twice, release;
static atomic_uint missed;
static _Atomic uint64_t order;

static inline void reset(void)
{
	atomic_store(&calls, 0);
	atomic_store(&inside, 0);
	atomic_store(&twice, 0);
	atomic_store(&release, 0);
	atomic_store(&missed, 0);
	atomic_store(&order, 0);
}

/* Runs until it is released; notices another like it. */
static inline void hold(struct hwheel *w, const struct hwheel_event *e)
{
	(void)w;
	if (atomic_fetch_add(&inside, 1) != 0)
		atomic_store(&twice, 1);
	atomic_store(&missed, e->missed);
	for (int i = 0; i < 20000 && !atomic_load(&release); i++)
		ktap_sleep_ms(1);
	atomic_fetch_sub(&inside, 1);
	atomic_fetch_add(&calls, 1);
}

/* The cookies as digits, in the order of the calls. */
static inline void note(struct hwheel *w, const struct hwheel_event *e)
{
	uint64_t seen = atomic_load(&order);

	(void)w;
	while (!atomic_compare_exchange_weak(&order, &seen, seen * 10 + e->cookie))
		;
	atomic_fetch_add(&calls, 1);
}

/* The cookies of timers with keys, as digits, in the order of the calls. */
static inline void note_key(struct hwheel *w, const struct hwheel_event *e)
{
	CHECK_EQ(e->timer, 0);
	note(w, e);
}

static inline void until(atomic_int *word, int least)
{
	for (int i = 0; i < 20000 && atomic_load(word) < least; i++)
		ktap_sleep_ms(1);
	CHECK(atomic_load(word) >= least);
}

static inline hwheel_timer_t arm(struct hwheel *w, hwheel_fn fn, uint64_t cookie, uint64_t at)
{
	hwheel_timer_t t = 0;

	CHECK_EQ(hwheel_timer_setup(w, fn, cookie, &t), 0);
	CHECK_EQ(hwheel_timer_mod(w, t, at, HWHEEL_ABS), 0);
	return t;
}

static inline void execute(struct hwheel *w, void *arg)
{
	(void)w;
	atomic_fetch_add((atomic_int *)arg, 1);
}

/* A manual wheel whose callbacks wait until the program calls hwheel_run_queued(). */
static inline struct hwheel *with_executor(uint64_t tick_ns, uint32_t queue, atomic_int *asked)
{
	struct hwheel_options o = defaults();

	reset();
	o.tick_ns = tick_ns;
	o.queue = queue;
	o.executor = execute;
	o.executor_arg = asked;
	return make(&o);
}

static inline struct hwheel *on_call(uint64_t tick_ns)
{
	static atomic_int asked;

	return with_executor(tick_ns, 0, &asked);
}

#endif
