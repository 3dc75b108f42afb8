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

	if (hwheel_create(NULL, 0, &wheel) || hwheel_start(wheel, 0))
		return 1;
	hwheel_after(wheel, 50000000, timed_out, 1, 0, NULL); /* 50 ms */
	hwheel_after(wheel, 50000000, timed_out, 2, 0, &timer);
	hwheel_delete(wheel, timer); /* request 2 was answered in time */
	usleep(100000);
	return hwheel_destroy(wheel) != 0;
}
