/*
 * A clock_gettime of the program's own, which the library calls: the system's time
 * plus an offset, or a time that stands still until it is moved. And the timers on
 * it: when each may fire, and when it did.
 */
#ifndef OWN_CLOCK_H
#define OWN_CLOCK_H

#include <stdatomic.h>
#include <sys/syscall.h>
#include <unistd.h>
#include "driven.h"
#include "shapes.h"

static _Atomic uint64_t still_ns;	/* if not 0, the time */
static _Atomic unsigned asked[16];	/* how often, by clock */
static _Atomic int64_t offset_ns[16];

int clock_gettime(clockid_t clock, struct timespec *t)
{
	uint64_t ns = still_ns;

	if (clock < 0 || clock >= 16)
		return (int)syscall(SYS_clock_gettime, clock, t);
	asked[clock]++;
	if (ns == 0) {
		if (syscall(SYS_clock_gettime, clock, t) != 0)
			return -1;
		ns = (uint64_t)t->tv_sec * SEC + (uint64_t)t->tv_nsec;
	}
	ns += (uint64_t)offset_ns[clock];
	t->tv_sec = (time_t)(ns / SEC);
	t->tv_nsec = (long)(ns % SEC);
	return 0;
}

static struct record {
	uint64_t first, got, due;
	unsigned fired, missed;
} records[4096];
static unsigned n_records;
static unsigned n_fired;
static uint64_t latest;		/* the latest deadline that has fired */
static unsigned disorder;	/* how often one fired after a later one */

static inline void note(struct hwheel *w, const struct hwheel_event *e)
{
	struct record *r = &records[e->cookie];

	(void)w;
	n_fired++;
	r->fired++;
	r->got = driven;
	r->due = e->deadline_ns;
	r->missed += e->missed;
	disorder += up(e->deadline_ns) < up(latest);
	if (e->deadline_ns > latest)
		latest = e->deadline_ns;
}

static inline void reset(uint64_t tick_ns, uint64_t now)
{
	memset(records, 0, sizeof records);
	n_records = n_fired = disorder = 0;
	latest = 0;
	driven = now;
	tick = tick_ns;
}

static inline struct hwheel *start(const struct shape *s, uint64_t start_ns)
{
	reset(s->tick, start_ns);
	return ktap_manual(s->tick, s->levels, s->slots, start_ns);
}

/* A wheel on a system clock that stands still at the given time. */
static inline struct hwheel *start_still(uint32_t clock, uint64_t tick_ns, uint64_t now)
{
	struct hwheel_options o;
	struct hwheel *w = NULL;

	reset(tick_ns, now);
	still_ns = now;
	memset(&o, 0, sizeof o);
	o.size = sizeof o;
	o.clock = clock;
	o.tick_ns = tick_ns;
	CHECK_EQ(hwheel_create(&o, &w), 0);
	return w;
}

static inline void after(struct hwheel *w, uint64_t delay)
{
	CHECK(n_records < COUNT(records));
	records[n_records].first = up(driven + delay);
	CHECK_EQ(hwheel_once(w, delay, note, n_records++, 0, NULL), 0);
}

/* The system's clock shows a time, and the wheel is polled. */
static inline void poll_at(struct hwheel *w, uint64_t now)
{
	still_ns = driven = now;
	CHECK_EQ(hwheel_poll(w, NULL, 0, NULL), 0);
}

static inline void each_expiry_or_overdue(struct hwheel *w)
{
	uint64_t next = 0;

	for (unsigned n = 0; hwheel_next_expiry(w, &next) == 1; n++) {
		CHECK(n < 100000);
		/* after a long idle it may be overdue, never late */
		to(w, next > driven ? next : driven);
	}
}

static inline void done(struct hwheel *w)
{
	for (unsigned i = 0; i < n_records; i++) {
		CHECK_EQ(records[i].fired, 1);
		CHECK_EQ(records[i].got, records[i].first);
	}
	CHECK_EQ(disorder, 0);
	CHECK_EQ(hwheel_destroy(w), 0);
	still_ns = 0;
}

#endif
