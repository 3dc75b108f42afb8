#define _DEFAULT_SOURCE
#include <hwheel.h>
#include <stdio.h>
#include <unistd.h>

static void timed_out(struct hwheel *wheel, const struct hwheel_event *event)
{
	(void)wheel;
	printf("request %d timed out\n", (int)event->cookie);
}

int main(void)
{
	struct hwheel *wheel;
	hwheel_timer_t timer;

	if (hwheel_create(NULL, &wheel) || hwheel_start(wheel))
		return 1;
	if (hwheel_once(wheel, 50 * HWHEEL_MSEC, timed_out, 1, 0, NULL) ||
	    hwheel_once(wheel, 50 * HWHEEL_MSEC, timed_out, 2, 0, &timer))
		return 1;
	hwheel_timer_delete(wheel, timer); /* request 2 was answered in time */
	usleep(100000);
	return hwheel_destroy(wheel) != 0;
}
