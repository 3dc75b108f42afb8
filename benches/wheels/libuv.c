/*
 * libuv: a heap, in a loop for one thread. Times are milliseconds counted from the
 * loop's cached time, so no call reads a clock.
 */
#define SLOW
#define HAS_CLOCK
#include "../workloads.h"
#include "clock.h"
#include "lock.h"
#include <uv.h>

struct timer {
	uv_timer_t handle;
	uint64_t cookie;
};

static uv_loop_t loop;

static void expired(uv_timer_t *handle)
{
	uint64_t again = fired(((struct timer *)handle)->cookie);

	if (again > 0)
		uv_timer_start(handle, expired, again, 0);
}

#include "in_array.h"

static void begin(unsigned threads, uint64_t tick_ns)
{
	(void)tick_ns;
	lock_for(threads);
	shown = SEC;
	check(uv_loop_init(&loop));
}

static void begin_real(int threaded, uint64_t tick_ns)
{
	(void)tick_ns;
	check(threaded ? -1 : uv_loop_init(&loop));
}

static struct timer *make(uint64_t n)
{
	struct timer *t = pages(n * sizeof *t);

	lock();
	for (uint64_t i = 0; i < n; i++) {
		uv_timer_init(&loop, &t[i].handle);
		t[i].cookie = i;
	}
	unlock();
	return t;
}

/* uv_timer_start() re-arms a pending timer too; uv_timer_again() does no less. */
static inline int move(struct timer *t, uint64_t delay)
{
	int result;

	lock();
	result = uv_timer_start(&t->handle, expired, delay, 0);
	unlock();
	return result;
}

static inline int arm(struct timer *t, uint64_t delay)
{
	return move(t, delay);
}

/* Milliseconds, rounded up so as not to be early. */
static inline int arm_ns(struct timer *t, uint64_t delay_ns)
{
	uv_update_time(&loop);
	return move(t, (delay_ns + MS - 1) / MS);
}

static inline int refresh(struct timer *t)
{
	return move(t, TIMEOUT);
}

static inline int cancel(struct timer *t)
{
	lock();
	uv_timer_stop(&t->handle);
	unlock();
	return 0;
}

static inline int sweep(uint64_t n)
{
	lock();
	shown += n * MS;
	uv_run(&loop, UV_RUN_NOWAIT);
	unlock();
	return 0;
}

static void sleep_and_fire(void)
{
	uv_run(&loop, UV_RUN_ONCE);
}
