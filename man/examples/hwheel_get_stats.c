/* Prints the number of timers that exist, and of those that are pending. */
int show(const struct hwheel *wheel)
{
	struct hwheel_stats stats = { .size = sizeof(stats) };
	int result = hwheel_get_stats(wheel, &stats);

	if (result == 0)
		printf("%llu live, %llu pending\n", (unsigned long long)stats.live,
		       (unsigned long long)stats.pending);
	return result;
}
