/* Cancels all timers with a cookie. Returns the number of timers. */
int cancel_all(struct hwheel *wheel, uint64_t cookie)
{
	struct hwheel_event events[64];
	uint64_t cursor = 0;
	int n, cancelled = 0;

	do {
		n = hwheel_list(wheel, &cursor, events, 64);
		for (int i = 0; i < n; i++)
			if (events[i].cookie == cookie)
				cancelled += hwheel_timer_delete(wheel, events[i].timer) == 1;
	} while (n == 64);
	return n < 0 ? n : cancelled;
}
