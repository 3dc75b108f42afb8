/*
 * libevent: a heap, with its own locks where threads share the base. With COMMON a
 * constant timeout is a common timeout: a queue in place of the heap. event_add() on a
 * pending event moves it in place.
 */
#define SLOW
#define HAS_CLOCK
#define HAS_SERVER
#define HAS_CONSTANT
#include <event2/event.h>
#include <event2/event_struct.h>
#include <event2/thread.h>

FALSE_CLOCK

struct timer {
	struct event event;
	uint64_t cookie;
};

static struct event_base *base;
static const struct timeval *timeout_tv, *deadline_tv, *second_tv;

static struct timeval time_of(uint64_t us)
{
	return (struct timeval){ (time_t)(us / 1000000), (suseconds_t)(us % 1000000) };
}

static const struct timeval *constant(uint64_t ticks)
{
	struct timeval *tv = malloc(sizeof *tv);

	check(tv != NULL ? 0 : -1);
	*tv = time_of(ticks * 1000);
#ifdef COMMON
	return event_base_init_common_timeout(base, tv);
#else
	return tv;
#endif
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
	event_add(&t->event, again == TIMEOUT ? timeout_tv : repeat == FIFO ? second_tv : &tv);
}

static inline void begin_real(int threaded, uint64_t tick_ns)
{
	(void)tick_ns;
	check(threaded ? -1 : 0);
	base = event_base_new();
	check(base != NULL ? 0 : -1);
	timeout_tv = constant(TIMEOUT);
	deadline_tv = constant(DEADLINE);
	second_tv = constant(1000);
}

static inline void begin(unsigned threads, uint64_t tick_ns)
{
	shown = SEC;
	if (threads > 1)
		evthread_use_pthreads();
	begin_real(0, tick_ns);
}

static inline int setup(struct timer *t, uint64_t cookie)
{
	t->cookie = cookie;
	return evtimer_assign(&t->event, base, expired, t);
}

static inline int arm_ns(struct timer *t, uint64_t delay_ns)
{
	struct timeval tv = time_of((delay_ns + 999) / 1000);

	return event_add(&t->event, &tv);
}

static inline int arm(struct timer *t, uint64_t delay)
{
	return arm_ns(t, delay * MS);
}

static inline int refresh(struct timer *t)
{
	return event_add(&t->event, timeout_tv);
}

static inline int deadline(struct timer *t)
{
	return event_add(&t->event, deadline_tv);
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

static inline void sleep_and_fire(void)
{
	event_base_loop(base, EVLOOP_ONCE);
}

static inline int begin_server(void)
{
	begin_real(0, MS);
	return -1;
}

static inline void woken(uint64_t now_ns)
{
	(void)now_ns;
	event_base_update_cache_time(base);
}

static inline int patience(void)
{
	return -1;
}

static inline void ready(struct timer *t)
{
	(void)t;
}

#ifdef SERVER
#define HAS_LOOP

/*
 * libevent does not say when its next timer is due, so its loop is the outer one.
 * Where it would wait for its own epoll, which is empty, a round of the server's
 * loop is run in its place.
 */
int epoll_wait(int fd, struct epoll_event *events, int max, int timeout_ms)
{
	if (fd == epoll)
		return epoll_pwait(fd, events, max, timeout_ms, NULL);
	serve(timeout_ms);
	/* What follows in its loop are timers. */
	doing(IN_TIMERS);
	return 0;
}

static void loop(void)
{
	event_base_loop(base, EVLOOP_NO_EXIT_ON_EMPTY);
}
#endif
