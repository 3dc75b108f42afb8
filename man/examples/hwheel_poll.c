/* At most a millisecond of timers in each turn of the event loop. */
int turn(struct hwheel *wheel)
{
	struct hwheel_run run = { .size = sizeof(run), .max_ns = HWHEEL_MSEC };
	struct hwheel_event events[64];
	int n = hwheel_poll(wheel, events, 64, &run);

	for (int i = 0; i < n; i++)
		printf("%u has timed out\n", (unsigned int)events[i].cookie);
	return n < 0 ? n : (int)run.left;
}
