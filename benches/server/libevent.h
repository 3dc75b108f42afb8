/*
 * libevent's heap, or with COMMON its common timeouts, a queue for each length.
 * libevent does not say when its next timer is due, so its loop is the outer one:
 * the server's epoll is a descriptor in it.
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

static void on_epoll(evutil_socket_t fd, short what, void *arg)
{
	(void)fd;
	(void)what;
	(void)arg;
	serve(0);
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
	struct event *event;

	base = event_base_new();
	event = base ? event_new(base, epoll, EV_READ | EV_PERSIST, on_epoll, NULL) : NULL;
	if (event == NULL || event_add(event, NULL) != 0)
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

static void timers_woken(void) {}

static void timers_ready(struct connection *c)
{
	(void)c;
}

static void loop(void)
{
	event_base_dispatch(base);
}
