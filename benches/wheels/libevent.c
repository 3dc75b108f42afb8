/*
 * libevent: a heap, with its own locks where threads share the base. A constant
 * timeout is a common timeout: a queue in place of the heap. event_add() on a
 * pending event moves it in place.
 */
#define SLOW
#define HAS_CLOCK
#include "../workloads.h"
#include "clock.h"
#include <event2/event.h>
#include <event2/event_struct.h>
#include <event2/thread.h>

struct timer {
	struct event event;
	uint64_t cookie;
};

static struct event_base *base;
static const struct timeval *constant, *second;

static struct timeval time_of(uint64_t us)
{
	return (struct timeval){ (time_t)(us / 1000000), (suseconds_t)(us % 1000000) };
}

static void expired(evutil_socket_t fd, short what, void *arg)
{
	struct timer *t = arg;
	uint64_t again = fired(t->cookie);
	struct timeval tv;

	(void)fd;
	(void)what;
	if (again == 0)
		return;
	tv = time_of(again * 1000);
	event_add(&t->event, repeat == FIFO ? second : &tv);
}

#include "in_array.h"

static void begin_real(int threaded, uint64_t tick_ns)
{
	struct timeval timeout = time_of(TIMEOUT * UINT64_C(1000)), one = time_of(1000000);

	(void)tick_ns;
	check(threaded ? -1 : 0);
	base = event_base_new();
	check(base != NULL ? 0 : -1);
	constant = event_base_init_common_timeout(base, &timeout);
	second = event_base_init_common_timeout(base, &one);
}

static void begin(unsigned threads, uint64_t tick_ns)
{
	shown = SEC;
	if (threads > 1)
		evthread_use_pthreads();
	begin_real(0, tick_ns);
}

static struct timer *make(uint64_t n)
{
	struct timer *t = pages(n * sizeof *t);

	for (uint64_t i = 0; i < n; i++) {
		check(evtimer_assign(&t[i].event, base, expired, &t[i]));
		t[i].cookie = i;
	}
	return t;
}

static inline int arm_ns(struct timer *t, uint64_t delay_ns)
{
	struct timeval tv = time_of((delay_ns + 999) / 1000);

	return event_add(&t->event, &tv);
}

static inline int move(struct timer *t, uint64_t delay)
{
	return arm_ns(t, delay * MS);
}

static inline int arm(struct timer *t, uint64_t delay)
{
	return move(t, delay);
}

static inline int refresh(struct timer *t)
{
	return event_add(&t->event, constant);
}

static inline int cancel(struct timer *t)
{
	return event_del(&t->event);
}

static inline int sweep(uint64_t n)
{
	shown += n * MS;
	return event_base_loop(base, EVLOOP_NONBLOCK);
}

static void sleep_and_fire(void)
{
	event_base_loop(base, EVLOOP_ONCE);
}
