/* Timers on a manual clock: when each may fire, and when it did. */
#ifndef RECORDS_H
#define RECORDS_H

#include "driven.h"
#include "shapes.h"

static const struct shape small[] = {
	{ 1000000, 2, 4 }, { 1000, 1, 4 }, { 1000, 4, 2 }, { 7001, 1, 8 }, { 13001, 2, 8 },
};

/* Timers that were armed: when each may fire, and when it did. */
static struct record {
	uint64_t first, last, got, due;
	unsigned fired;
} records[8192];
static unsigned n_records;

static inline void note(struct hwheel *w, const struct hwheel_event *e)
{
	struct record *r = &records[e->cookie];

	(void)w;
	r->fired++;
	r->got = driven;
	r->due = e->deadline_ns;
}

static inline struct hwheel *start(const struct shape *s, uint64_t start_ns)
{
	n_records = 0;
	driven = start_ns;
	tick = s->tick;
	return ktap_manual(s->tick, s->levels, s->slots, start_ns);
}

/* A tick already swept when it is armed is followed by the next. */
static inline uint64_t expect(uint64_t deadline)
{
	uint64_t next = driven / tick * tick + tick;

	CHECK(n_records < COUNT(records));
	records[n_records].first = up(deadline);
	records[n_records].last = up(deadline) < next ? next : up(deadline);
	records[n_records].fired = 0;
	return n_records++;
}

static inline void at(struct hwheel *w, uint64_t deadline)
{
	uint64_t cookie = expect(deadline);

	CHECK_EQ(hwheel_once(w, deadline, note, cookie, HWHEEL_ABS, NULL), 0);
}

static inline void after(struct hwheel *w, uint64_t delay)
{
	uint64_t cookie = expect(driven + delay);

	CHECK_EQ(hwheel_once(w, delay, note, cookie, 0, NULL), 0);
}

static inline unsigned fired(void)
{
	unsigned n = 0;

	for (unsigned i = 0; i < n_records; i++)
		n += records[i].fired;
	return n;
}

/* Every tick up to a time. */
static inline void each_tick(struct hwheel *w, uint64_t until)
{
	while (driven < until)
		to(w, driven / tick * tick + tick);
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

/* One timer, with the clock one nanosecond before it fires and then there. */
static inline void exactly(const struct shape *s, uint64_t from, uint64_t deadline)
{
	struct hwheel *w = start(s, from);

	at(w, deadline);
	if (up(deadline) > from / tick * tick) {
		to(w, up(deadline) - 1);
		CHECK_EQ(fired(), 0);
		to(w, up(deadline));
	} else {
		to(w, from / tick * tick + tick);
	}
	done(w);
}

/* The span of a wheel in ticks: one turn of its top level. */
static inline uint64_t span(const struct shape *s)
{
	uint64_t n = 1;

	for (uint32_t i = 0; i < s->levels; i++)
		n *= s->slots;
	return n;
}

#endif
