/*
 * Drive a wheel by hand: a game or a simulation that has a time of its own.
 * Nothing is read from the system, so a run is the same every time.
 */
#include <hwheel.h>
#include <inttypes.h>
#include <stdio.h>

#define MS UINT64_C(1000000)

int main(void)
{
	struct hwheel_options options = {
		.size = sizeof(options),
		.clock = HWHEEL_CLOCK_MANUAL,
		.tick_ns = 16 * MS,
	};
	struct hwheel_event events[8];
	struct hwheel *wheel;

	if (hwheel_create(&options, 0, &wheel) < 0)
		return 1;
	hwheel_after(wheel, 40 * MS, NULL, 'a', 0, NULL);
	hwheel_every(wheel, 50 * MS, 50 * MS, NULL, 'b', 0, NULL);

	for (uint64_t frame = 1; frame <= 12; frame++) {
		int n;

		do {
			n = hwheel_advance(wheel, frame * 16 * MS, events, 8);
			for (int i = 0; i < n; i++)
				printf("frame %2" PRIu64 ": %c, due at %" PRIu64
				       " ms\n", frame, (int)events[i].cookie,
				       events[i].deadline_ns / MS);
		} while (n == 8);
	}
	return hwheel_destroy(wheel) != 0;
}
