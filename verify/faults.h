/* Shared by the programs of faults: a wheel of a child's own, and a count of its callbacks. */
#ifndef FAULTS_H
#define FAULTS_H

#include <stdatomic.h>
#include "child.h"

static inline struct hwheel *default_wheel(void)
{
	struct hwheel *w = NULL;

	EXPECT(hwheel_create(NULL, &w), 0);
	return w;
}

static atomic_int calls;

/* Never early. */
static inline void count(struct hwheel *w, const struct hwheel_event *e)
{
	uint64_t now = 0;

	EXPECT(hwheel_now(w, &now), 0);
	EXPECT(now >= e->deadline_ns, 1);
	atomic_fetch_add(&calls, 1);
}

static inline void until_called(int want)
{
	for (int i = 0; i < 20000 && atomic_load(&calls) < want; i++)
		ktap_sleep_ms(1);
	EXPECT(atomic_load(&calls), want);
}

#endif
