/*
 * A manual clock that the test moves, wheels of some shapes on it, and timers: when each may
 * fire, and when it did.
 */
#ifndef DRIVEN_H
#define DRIVEN_H

#include "ktap.h"

/* Hashed and hierarchical, the default and some that wrap soon. */
struct shape {
	uint64_t tick;
	uint32_t levels, slots;
};

static const struct shape shapes[] = {
	{ 1000000, 4, 256 }, { 1000000, 1, 256 }, { 1000000, 2, 4 },
	{ 1000, 1, 4 }, { 1000, 4, 2 }, { 7001, 3, 8 }, { 1000, 1, 2 },
};

/* The tick of the shape that is tested, and the time of the last advance. */
static uint64_t tick, driven;

static struct record {
	uint64_t first, last, got, due;
	unsigned fired, missed;
} records[70000];
static unsigned n_records, n_fired;
/* The latest deadline that has fired, and how often one fired after a later one. */
static uint64_t latest;
static unsigned disorder;

/* The first tick at or after a time. */
static inline uint64_t up(uint64_t ns)
{
	return ns / tick * tick + (ns % tick ? tick : 0);
}

static inline void reset(uint64_t tick_ns, uint64_t now)
{
	/* a test may use the first ones without expect() */
	memset(records, 0, (n_records > 64 ? n_records : 64) * sizeof records[0]);
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

static inline void to(struct hwheel *w, uint64_t now)
{
	driven = now;
	CHECK_EQ(hwheel_advance(w, now, NULL, 0, NULL), 0);
}

/* By the end of a call that drives, this number of timers has fired. */
#define CHECK_FIRED(drive, n) do { \
	drive; \
	CHECK_EQ(n_fired, n); \
} while (0)

/* From one expiry to the next; the wheel is empty at the end. */
static inline void each_expiry(struct hwheel *w)
{
	uint64_t next;

	for (unsigned n = 0; (next = ktap_next(w)) != HWHEEL_NEVER; n++) {
		CHECK(n < 100000);
		CHECK(next > driven);
		to(w, next);
	}
}

static inline void note(struct hwheel *w, const struct hwheel_event *e)
{
	struct record *r = &records[e->cookie];

	n_fired++;
	r->fired++;
	r->got = driven;
	r->due = e->deadline_ns;
	r->missed += e->missed;
	disorder += up(e->deadline_ns) < up(latest);
	if (e->deadline_ns > latest)
		latest = e->deadline_ns;
}

/* A tick already swept when it is armed is followed by the next. */
static inline uint64_t expect(uint64_t deadline)
{
	uint64_t next = driven / tick * tick + tick, first = up(deadline);

	CHECK(n_records < COUNT(records));
	records[n_records] = (struct record){ .first = first, .last = first < next ? next : first };
	return n_records++;
}

static inline hwheel_timer_t after(struct hwheel *w, uint64_t delay)
{
	uint64_t cookie = expect(driven + delay);
	hwheel_timer_t timer = 0;

	CHECK_EQ(hwheel_once(w, delay, note, cookie, 0, &timer), 0);
	return timer;
}

/* Each has fired once, not before its deadline and less than a tick after. */
static inline void done(struct hwheel *w)
{
	for (unsigned i = 0; i < n_records; i++) {
		CHECK_EQ(records[i].fired, 1);
		CHECK(records[i].got >= records[i].first);
		CHECK(records[i].got <= records[i].last);
	}
	CHECK_EQ(hwheel_destroy(w), 0);
}

/* A wheel of start(), whose timers have all fired at the end of its block. */
#define DRIVEN __attribute__((cleanup(done_at_its_end))) struct hwheel *

static inline void done_at_its_end(struct hwheel **w)
{
	done(*w);
}

#endif
