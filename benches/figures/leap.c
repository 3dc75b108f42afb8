/* The cost of a leap over nothing: by its length, and by the number of threads that have
 * used the wheel. */
#include "figure.h"

static void use(struct hwheel *w, unsigned n)
{
	hwheel_timer_t t;

	if (hwheel_once(w, 1000 + n, NULL, 0, 0, &t) != 0)
		abort();
}

static void leap(unsigned threads, unsigned bits)
{
	struct hwheel *w = manual(1, 0, 0);
	struct hwheel_event events[256];
	struct users *all = calloc(1, sizeof *all);
	double begin_s, spent;

	if (all == NULL)
		abort();
	begin(all, w, threads, use);
	hwheel_advance(w, 2000, events, 256, NULL);
	begin_s = seconds();
	hwheel_advance(w, UINT64_C(1) << bits, events, 256, NULL);
	spent = seconds() - begin_s;
	printf("leap: 2^%u ticks over an empty wheel that %u threads have used: %.1f us\n",
	       bits, threads, spent * 1e6);
	finish(all);
	free(all);
	if (hwheel_destroy(w) != 0)
		abort();
}

int main(void)
{
	for (unsigned bits = 36; bits <= 60; bits += 6)
		leap(1, bits);
	for (unsigned threads = 4; threads <= 64; threads *= 4)
		leap(threads, 54);
	return 0;
}
