/* A count of callbacks, and what else programs share that refuse things to the library. */
#ifndef COUNTED_H
#define COUNTED_H

#include <fcntl.h>
#include "child.h"

static atomic_int calls;

/* Never early. */
static inline void count(struct hwheel *w, const struct hwheel_event *e)
{
	uint64_t now = 0;

	CHECK_EQ(hwheel_now(w, &now), 0);
	CHECK(now >= e->deadline_ns);
	atomic_fetch_add(&calls, 1);
}

static inline void until_called(int want)
{
	ktap_until(&calls, want);
	CHECK_EQ(calls, want);
}

static inline void poll_until_called(struct hwheel *w, int want)
{
	for (int i = 0; i < 20000 && atomic_load(&calls) < want; i++) {
		CHECK_EQ(hwheel_poll(w, NULL, 0, NULL), 0);
		ktap_sleep_ms(1);
	}
	CHECK_EQ(calls, want);
}

static inline int descriptors(void)
{
	int open_ones = 0;

	for (int fd = 0; fd < 256; fd++)
		open_ones += fcntl(fd, F_GETFD) != -1;
	return open_ones;
}

#endif
