/* A simulation jumps from timer to timer, until none is pending. */
void simulate(struct hwheel *wheel)
{
	uint64_t time_ns;

	while (hwheel_next_expiry(wheel, &time_ns) == 1)
		hwheel_advance(wheel, time_ns, NULL, 0, NULL);
}
