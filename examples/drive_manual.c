/*
 * Drive a wheel by hand, in a game or a simulation that keeps its own time. The
 * wheel reads nothing from the system, so every run is the same.
 */
#include <hwheel.h>
#include <inttypes.h>
#include <stdio.h>

int main(void)
{
	struct hwheel_options options = {
		.size = sizeof(options),
		.clock = HWHEEL_CLOCK_MANUAL,
		.tick_ns = 16 * HWHEEL_MSEC,
	};
	struct hwheel_event events[8];
	struct hwheel *wheel;

	if (hwheel_create(&options, &wheel) < 0)
		return 1;
	if (hwheel_once(wheel, 40 * HWHEEL_MSEC, NULL, 'a', 0, NULL) < 0 ||
	    hwheel_every(wheel, 50 * HWHEEL_MSEC, 50 * HWHEEL_MSEC, 0, NULL, 'b',
			 0, NULL) < 0)
		return 1;

	for (uint64_t frame = 1; frame <= 12; frame++) {
		int n;

		do {
			n = hwheel_advance(wheel, frame * 16 * HWHEEL_MSEC, events, 8, NULL);
			for (int i = 0; i < n; i++)
				printf("frame %2" PRIu64 ": %c, due at %" PRIu64
				       " ms\n", frame, (int)events[i].cookie,
				       events[i].deadline_ns / HWHEEL_MSEC);
		} while (n == 8);
	}
	return hwheel_destroy(wheel) != 0;
}
