/* A manual clock that the test moves. */
#ifndef DRIVEN_H
#define DRIVEN_H

#include "ktap.h"

/* The time of the last advance. */
static uint64_t driven;

static inline void to(struct hwheel *w, uint64_t now)
{
	driven = now;
	CHECK_EQ(hwheel_advance(w, now, NULL, 0, NULL), 0);
}

/* From one expiry to the next; the wheel is empty at the end. */
static inline void each_expiry(struct hwheel *w)
{
	uint64_t next = 0;

	for (unsigned n = 0; hwheel_next_expiry(w, &next) == 1; n++) {
		CHECK(n < 100000);
		CHECK(next > driven);
		to(w, next);
	}
}

#endif
