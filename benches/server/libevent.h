/*
 * libevent's heap, or with COMMON its common timeouts, a queue for each length.
 * libevent does not say when its next timer is due, so its loop is the outer one.
 * Where it would wait for its own epoll, which is empty, a round of the server's
 * loop is run in its place.
 */
#include <event2/event.h>
#include <event2/event_struct.h>

struct timers { struct event idle, deadline; };

static struct event_base *base;
static const struct timeval *idle_time, *deadline_time;

static void on_idle(evutil_socket_t fd, short what, void *c)
{
	(void)fd;
	(void)what;
	idle_expired(c);
}

static void on_deadline(evutil_socket_t fd, short what, void *c)
{
	(void)fd;
	(void)what;
	deadline_expired(c);
}

static inline void doing(enum doing what);

int epoll_wait(int fd, struct epoll_event *events, int max, int timeout_ms)
{
	if (fd == epoll)
		return epoll_pwait(fd, events, max, timeout_ms, NULL);
	serve(timeout_ms);
	/* What follows in its loop are timers. */
	doing(IN_TIMERS);
	return 0;
}

static const struct timeval *length(uint64_t ms)
{
	static struct timeval times[2];
	struct timeval *tv = &times[ms == IDLE_MS];

	*tv = (struct timeval){ (time_t)(ms / 1000), (suseconds_t)(ms % 1000 * 1000) };
#ifdef COMMON
	return event_base_init_common_timeout(base, tv);
#else
	return tv;
#endif
}

static void timers_begin(void)
{
	base = event_base_new();
	if (base == NULL)
		die("libevent");
	idle_time = length(IDLE_MS);
	deadline_time = length(DEADLINE_MS);
}

static void timers_setup(struct connection *c)
{
	evtimer_assign(&timers_of(c)->idle, base, on_idle, c);
	evtimer_assign(&timers_of(c)->deadline, base, on_deadline, c);
}

static void idle_refresh(struct connection *c, uint64_t ms)
{
	struct timeval first = { (time_t)(ms / 1000), (suseconds_t)(ms % 1000 * 1000) };

	event_add(&timers_of(c)->idle, ms == IDLE_MS ? idle_time : &first);
}

static void deadline_begin(struct connection *c)
{
	event_add(&timers_of(c)->deadline, deadline_time);
}

static void deadline_end(struct connection *c)
{
	event_del(&timers_of(c)->deadline);
}

static void timers_woken(void)
{
	event_base_update_cache_time(base);
}

static void timers_ready(struct connection *c)
{
	(void)c;
}

static void loop(void)
{
	event_base_loop(base, EVLOOP_NO_EXIT_ON_EMPTY);
}
