/*
 * libuv: a heap, in a loop for one thread. Times are milliseconds counted from the
 * loop's cached time, so no call reads a clock.
 */
#define SLOW
#define HAS_CLOCK
#define HAS_SERVER
#include <uv.h>

FALSE_CLOCK

struct timer {
	uv_timer_t handle;
	uint64_t cookie;
};

static uv_loop_t loop_of_uv;

static void expired(uv_timer_t *handle)
{
	uint64_t again = fired(((struct timer *)handle)->cookie);

	if (again > 0)
		uv_timer_start(handle, expired, again, 0);
}

static inline void begin_real(int threaded, uint64_t tick_ns)
{
	(void)tick_ns;
	check(threaded ? -1 : uv_loop_init(&loop_of_uv));
}

static inline void begin(unsigned threads, uint64_t tick_ns)
{
	lock_for(threads);
	shown = SEC;
	begin_real(0, tick_ns);
}

static inline int setup(struct timer *t, uint64_t cookie)
{
	t->cookie = cookie;
	return uv_timer_init(&loop_of_uv, &t->handle);
}

/* uv_timer_start() re-arms a pending timer too; uv_timer_again() does no less. */
static inline int arm(struct timer *t, uint64_t delay)
{
	int result;

	lock();
	result = uv_timer_start(&t->handle, expired, delay, 0);
	unlock();
	return result;
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
	uv_run(&loop_of_uv, UV_RUN_NOWAIT);
	unlock();
	return 0;
}

/* Milliseconds, rounded up so as not to be early. */
static inline int arm_ns(struct timer *t, uint64_t delay_ns)
{
	uv_update_time(&loop_of_uv);
	return arm(t, (delay_ns + MS - 1) / MS);
}

static inline void sleep_and_fire(void)
{
	uv_run(&loop_of_uv, UV_RUN_ONCE);
}

static inline int begin_server(void)
{
	begin_real(0, MS);
	return -1;
}

/* The loop of the server asks how long it may sleep; this one runs if a timer is due. */
static inline void woken(uint64_t now_ns)
{
	(void)now_ns;
	uv_update_time(&loop_of_uv);
	if (uv_loop_alive(&loop_of_uv) && uv_backend_timeout(&loop_of_uv) == 0)
		uv_run(&loop_of_uv, UV_RUN_NOWAIT);
}

static inline int patience(void)
{
	return uv_loop_alive(&loop_of_uv) ? uv_backend_timeout(&loop_of_uv) : -1;
}

static inline void ready(struct timer *t)
{
	(void)t;
}
