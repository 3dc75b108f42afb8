/*
 * Let the wheel drive itself: a thread sleeps until a timer is due and runs
 * its callback. Any thread arms and cancels meanwhile.
 */
#define _DEFAULT_SOURCE
#include <hwheel.h>
#include <stdatomic.h>
#include <stdio.h>
#include <unistd.h>

static atomic_int beats;

static void beat(struct hwheel *wheel, const struct hwheel_event *event)
{
	/* A periodic timer may be cancelled in its own callback. */
	if (atomic_fetch_add(&beats, 1) + 1 == (int)event->cookie)
		hwheel_timer_delete(wheel, event->timer);
}

int main(void)
{
	struct hwheel *wheel;

	if (hwheel_create(NULL, &wheel) < 0)
		return 1;
	if (hwheel_start(wheel) < 0)
		return 1;
	if (hwheel_every(wheel, 10 * HWHEEL_MSEC, 10 * HWHEEL_MSEC, 0, beat, 5, 0,
			 NULL) < 0)
		return 1;
	usleep(200 * 1000);
	hwheel_stop(wheel); /* from here on no callback runs */
	printf("%d beats\n", atomic_load(&beats));
	return hwheel_destroy(wheel) != 0 || atomic_load(&beats) != 5;
}
