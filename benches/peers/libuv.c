/*
 * libuv. A loop is for one thread: with more ("locked") a mutex goes round
 * each call. Times are milliseconds counted from the loop's cached time, so no
 * call reads a clock.
 */
#include "workloads.h"
#include <uv.h>

struct timer {
	uv_timer_t handle;
	uint64_t cookie;
};

static uv_loop_t loop;
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static int locking;

static void lock(void)
{
	if (locking)
		pthread_mutex_lock(&mutex);
}

static void unlock(void)
{
	if (locking)
		pthread_mutex_unlock(&mutex);
}

static void expired(uv_timer_t *handle)
{
	fire(((struct timer *)handle)->cookie);
}

static void begin(int locked)
{
	locking = locked;
	uv_loop_init(&loop);
}

static struct timer *make(uint64_t n)
{
	struct timer *t = malloc(n * sizeof *t);

	for (uint64_t i = 0; i < n; i++) {
		uv_timer_init(&loop, &t[i].handle);
		t[i].cookie = i;
	}
	return t;
}

static struct timer *nth(struct timer *t, uint64_t i)
{
	return &t[i];
}

/* uv_timer_start() re-arms a pending timer too; uv_timer_again() does no less. */
static void move(struct timer *t, uint64_t delay_ns)
{
	lock();
	uv_timer_start(&t->handle, expired, millis(delay_ns), 0);
	unlock();
}

static void arm(struct timer *t, uint64_t delay_ns)
{
	move(t, delay_ns);
}

static void cancel(struct timer *t)
{
	lock();
	uv_timer_stop(&t->handle);
	unlock();
}

static void arm_constant(struct timer *t)
{
	move(t, 30 * SEC);
}

static void sweep(int wait)
{
	uv_run(&loop, wait ? UV_RUN_ONCE : UV_RUN_NOWAIT);
}
