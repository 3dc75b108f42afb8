/*
 * A libevent base drives the wheel through its descriptor, together with its own
 * timers: one event stands for all timers of the wheel.
 */
#define _DEFAULT_SOURCE
#include "compare.h"
#include <event2/event.h>

static struct comparison comparison;
static struct hwheel *wheel;
static struct event_base *base;
static struct event *timers[TIMERS];

static void own_timer(evutil_socket_t fd, short what, void *arg)
{
	(void)fd, (void)what;
	if (compare_fired(&comparison, &comparison.loop, (unsigned)(uintptr_t)arg))
		event_base_loopbreak(base);
}

static void wheel_readable(evutil_socket_t fd, short what, void *arg)
{
	(void)fd, (void)what, (void)arg;
	if (compare_poll(&comparison, wheel, NULL))
		event_base_loopbreak(base);
}

static struct timeval milliseconds(uint32_t ms)
{
	return (struct timeval){ ms / 1000, (suseconds_t)(ms % 1000) * 1000 };
}

/*
 * Arms both sides, in a callback: there libevent's time stands still, so that
 * all its delays begin at once.
 */
static void arm(evutil_socket_t fd, short what, void *arg)
{
	(void)fd, (void)what, (void)arg;
	event_base_update_cache_time(base);
	compare_begin(&comparison, "libevent");
	for (unsigned i = 0; i < TIMERS; i++) {
		const struct timeval delay = milliseconds(comparison.delay_ms[i]);

		timers[i] = evtimer_new(base, own_timer, (void *)(uintptr_t)i);
		if (!timers[i] || event_add(timers[i], &delay) ||
		    hwheel_once(wheel, deadline_ns(&comparison, i), NULL, i, HWHEEL_ABS, NULL))
			exit(1);
	}
}

int main(void)
{
	struct hwheel_options options = { .size = sizeof options, .owned = 1 };
	const struct timeval limit = milliseconds(GIVE_UP_MS);
	struct event_config *config = event_config_new();
	struct event *readable;
	int fd, failed;

	/* Otherwise its clock is the coarse one, 4 ms a step. */
	if (!config || event_config_set_flag(config, EVENT_BASE_FLAG_PRECISE_TIMER) ||
	    !(base = event_base_new_with_config(config)) ||
	    hwheel_create(&options, &wheel) || (fd = hwheel_fd(wheel)) < 0 ||
	    !(readable = event_new(base, fd, EV_READ | EV_PERSIST, wheel_readable, NULL)) ||
	    event_add(readable, NULL) || event_base_loopexit(base, &limit) ||
	    event_base_once(base, -1, EV_TIMEOUT, arm, NULL, NULL))
		return 1;
	event_base_dispatch(base);
	failed = compare_end(&comparison);

	for (unsigned i = 0; i < TIMERS; i++)
		event_free(timers[i]);
	event_free(readable);
	event_base_free(base);
	event_config_free(config);
	return hwheel_destroy(wheel) || failed;
}
