/*
 * A libuv loop drives the wheel through its descriptor, together with its own
 * timers: one uv_poll_t stands for all timers of the wheel.
 */
#define _DEFAULT_SOURCE
#include "compare.h"
#include <uv.h>

static struct comparison comparison;
static struct hwheel *wheel;

static void own_timer(uv_timer_t *timer)
{
	unsigned i = (unsigned)(uintptr_t)timer->data;

	if (compare_fired(&comparison, &comparison.loop, i))
		uv_stop(timer->loop);
}

static void wheel_readable(uv_poll_t *poll, int status, int events)
{
	(void)events;
	if (status < 0 || compare_poll(&comparison, wheel, NULL))
		uv_stop(poll->loop);
}

static void give_up(uv_timer_t *timer)
{
	uv_stop(timer->loop);
}

static void close_handle(uv_handle_t *handle, void *unused)
{
	(void)unused;
	uv_close(handle, NULL);
}

int main(void)
{
	struct hwheel_options options = { .size = sizeof options, .owned = 1 };
	static uv_timer_t timers[TIMERS], limit;
	uv_loop_t loop;
	uv_poll_t poll;
	int fd, failed;

	if (hwheel_create(&options, &wheel) || (fd = hwheel_fd(wheel)) < 0 ||
	    uv_loop_init(&loop) || uv_poll_init(&loop, &poll, fd) ||
	    uv_poll_start(&poll, UV_READABLE, wheel_readable))
		return 1;
	uv_timer_init(&loop, &limit);
	uv_timer_start(&limit, give_up, GIVE_UP_MS, 0);

	compare_begin(&comparison, "libuv");
	uv_update_time(&loop);
	for (unsigned i = 0; i < TIMERS; i++) {
		timers[i].data = (void *)(uintptr_t)i;
		uv_timer_init(&loop, &timers[i]);
		uv_timer_start(&timers[i], own_timer, comparison.delay_ms[i], 0);
		if (hwheel_once(wheel, deadline_ns(&comparison, i), NULL, i, HWHEEL_ABS, NULL))
			return 1;
	}
	uv_run(&loop, UV_RUN_DEFAULT);
	failed = compare_end(&comparison);

	uv_walk(&loop, close_handle, NULL);
	uv_run(&loop, UV_RUN_DEFAULT);
	return uv_loop_close(&loop) || hwheel_destroy(wheel) || failed;
}
