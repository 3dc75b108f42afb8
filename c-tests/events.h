/* Calls that drive a wheel, what they hand over, and waiting for it. */
#ifndef EVENTS_H
#define EVENTS_H

#include <sys/epoll.h>
#include "ktap.h"

/* Advances a wheel: no event comes. */
static inline void no_event(struct hwheel *w, uint64_t now_ns)
{
	struct hwheel_event e;

	CHECK_EQ(hwheel_advance(w, now_ns, &e, 1, NULL), 0);
}

/* Advances a wheel: one event comes. */
static inline struct hwheel_event one_event(struct hwheel *w, uint64_t now_ns)
{
	struct hwheel_event e[2];

	memset(e, 0xff, sizeof e);
	CHECK_EQ(hwheel_advance(w, now_ns, e, 2, NULL), 1);
	return e[0];
}

static inline void check_event(struct hwheel_event e, hwheel_timer_t timer, uint64_t cookie,
			       uint64_t asked_ns, uint64_t tick_ns, uint32_t flags)
{
	CHECK_EQ(e.timer, timer);
	CHECK_EQ(e.cookie, cookie);
	CHECK_DUE(e.deadline_ns, asked_ns, tick_ns);
	CHECK_EQ(e.missed, 0);
	CHECK_EQ(e.flags, flags);
}

/* Drives a wheel, to this time if its clock is manual. Returns when to drive it again. */
static inline uint64_t drive_to(struct hwheel *w, uint64_t now_ns)
{
	struct hwheel_run run = { .size = sizeof run };
	int got = hwheel_advance(w, now_ns, NULL, 0, &run);

	CHECK_EQ(got == -EINVAL ? hwheel_poll(w, NULL, 0, &run) : got, 0);
	CHECK_EQ(run.left, 0);
	return run.next_ns;
}

/* An epoll that watches the wheel's descriptor. */
static inline int epoll_on(struct hwheel *w, uint32_t events)
{
	struct epoll_event event = { .events = events };
	int fd = hwheel_fd(w), epoll = epoll_create1(EPOLL_CLOEXEC);

	CHECK(fd >= 0 && epoll >= 0);
	CHECK_EQ(epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &event), 0);
	return epoll;
}

/* Arms new timers for one time. Their cookies are 0, 1, 2 and so on. */
static inline void arm_some(struct hwheel *w, unsigned n, uint64_t delay_ns, hwheel_fn fn)
{
	for (unsigned i = 0; i < n; i++)
		CHECK_EQ(hwheel_once(w, delay_ns, fn, i, 0, NULL), 0);
}

#endif
