/* Runs all that is due, and leaves the clock where it is. */
int run_due(struct hwheel *wheel)
{
	struct hwheel_event events[64];
	int n, sum = 0;

	do {
		n = hwheel_advance(wheel, 0, events, 64, NULL);
		sum += n;
	} while (n == 64);
	return n < 0 ? n : sum;
}
