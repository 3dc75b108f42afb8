/* Bytes have come on many connections: each idle timeout starts again. */
int on_bytes(struct hwheel *wheel, const hwheel_timer_t *idle, unsigned int n)
{
	uint64_t times_ns[64];
	int32_t results[64];
	int done;

	if (n > 64)
		return -E2BIG;
	for (unsigned int i = 0; i < n; i++)
		times_ns[i] = 30 * HWHEEL_SEC;
	done = hwheel_timer_mod_many(wheel, idle, times_ns, n, 0, results);
	for (unsigned int i = 0; done >= 0 && i < n; i++)
		if (results[i] < 0)
			fprintf(stderr, "connection %u: %s\n", i, hwheel_strerror(results[i]));
	return done;
}
