/* The end of a server: nothing fires any more, and each request gets an answer. */
int finish(struct hwheel *wheel)
{
	struct hwheel_event events[64];
	int n = hwheel_stop(wheel);

	while (n >= 0 && (n = hwheel_drain(wheel, events, 64)) > 0)
		for (int i = 0; i < n; i++)
			printf("request %u is refused\n", (unsigned int)events[i].cookie);
	return n < 0 ? n : hwheel_destroy(wheel);
}
