/* Callbacks that use the wheel that calls them: their answers are counted. */
#ifndef REENTRY_H
#define REENTRY_H

#include <stdatomic.h>
#include <unistd.h>
#include "shapes.h"

static unsigned n_fired;
static unsigned bad;		/* answers in a callback that were not right */
static uint64_t driven;

/* Like CHECK_EQ, where no longjmp may be. */
#define EXPECT(got, want) (bad += (got) != (want))

static inline struct hwheel *start(const struct shape *s, uint64_t start_ns)
{
	n_fired = bad = 0;
	driven = start_ns;
	tick = s->tick;
	return ktap_manual(s->tick, s->levels, s->slots, start_ns);
}

static inline void to(struct hwheel *w, uint64_t now)
{
	driven = now;
	CHECK_EQ(hwheel_advance(w, now, NULL, 0, NULL), 0);
	CHECK_EQ(bad, 0);
}

static inline struct hwheel *start_thread(void)
{
	struct hwheel *w = NULL;

	n_fired = bad = 0;
	CHECK_EQ(hwheel_create(NULL, &w), 0);
	CHECK_EQ(hwheel_start(w), 0);
	return w;
}

/* Waits until a count is reached, at most some seconds. */
static inline void reach(_Atomic unsigned *count, unsigned n)
{
	for (unsigned ms = 0; ms < 5000 && *count < n; ms++)
		ktap_sleep_ms(1);
	CHECK_EQ(*count, n);
}

static inline uint64_t live(struct hwheel *w)
{
	struct hwheel_stats s;

	s.size = sizeof s;
	CHECK_EQ(hwheel_get_stats(w, &s), 0);
	return s.live;
}

static inline void count_it(struct hwheel *w, const struct hwheel_event *e)
{
	(void)w;
	(void)e;
	n_fired++;
}

#endif
