/*
 * libevent, with its own locks where threads share the base. The constant 30 s
 * uses a common timeout: a queue in place of the heap. event_add() on a
 * pending event moves it in place.
 */
#include "workloads.h"
#include <event2/event.h>
#include <event2/event_struct.h>
#include <event2/thread.h>

struct timer {
	struct event event;
	uint64_t cookie;
};

static struct event_base *base;
static const struct timeval *constant;

static void expired(evutil_socket_t fd, short what, void *arg)
{
	(void)fd;
	(void)what;
	fire(((struct timer *)arg)->cookie);
}

static void begin(int locked)
{
	struct timeval half_a_minute = { 30, 0 };

	if (locked)
		evthread_use_pthreads();
	base = event_base_new();
	constant = event_base_init_common_timeout(base, &half_a_minute);
}

static struct timer *make(uint64_t n)
{
	struct timer *t = malloc(n * sizeof *t);

	for (uint64_t i = 0; i < n; i++) {
		evtimer_assign(&t[i].event, base, expired, &t[i]);
		t[i].cookie = i;
	}
	return t;
}

static struct timer *nth(struct timer *t, uint64_t i)
{
	return &t[i];
}

/* Microseconds, rounded up. */
static void move(struct timer *t, uint64_t delay_ns)
{
	uint64_t us = (delay_ns + 999) / 1000;
	struct timeval tv = {
		(time_t)(us / 1000000), (suseconds_t)(us % 1000000),
	};

	event_add(&t->event, &tv);
}

static void arm(struct timer *t, uint64_t delay_ns)
{
	move(t, delay_ns);
}

static void cancel(struct timer *t)
{
	event_del(&t->event);
}

static void arm_constant(struct timer *t)
{
	event_add(&t->event, constant);
}

static void sweep(int wait)
{
	event_base_loop(base, wait ? EVLOOP_ONCE : EVLOOP_NONBLOCK);
}
