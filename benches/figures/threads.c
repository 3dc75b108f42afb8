/* The cost of a tick with one timer, by the number of threads that have armed. */
#include "figure.h"

enum { TIMERS = 61440 };

static unsigned each;

static void callback(struct hwheel *w, const struct hwheel_event *e)
{
	(void)w;
	(void)e;
}

static void use(struct hwheel *w, unsigned n)
{
	for (unsigned i = 0; i < each; i++) {
		hwheel_timer_t t;
		uint64_t tick = 1000 + (n * 7919u + i * UINT64_C(104729)) % 60000;

		if (hwheel_once(w, tick * MS, callback, 0, HWHEEL_ABS, &t) != 0)
			abort();
	}
}

int main(void)
{
	for (unsigned threads = 1; threads <= 256; threads *= 4) {
		struct hwheel *w = manual(MS, 0, 0);
		struct users *all = calloc(1, sizeof *all);
		struct hwheel_stats s;
		double begin_s, spent;

		if (all == NULL)
			abort();
		each = TIMERS / threads;
		begin(all, w, threads, use);
		begin_s = seconds();
		for (uint64_t tick = 1; tick <= 61000; tick++)
			hwheel_advance(w, tick * MS, NULL, 0, NULL);
		spent = seconds() - begin_s;
		s.size = sizeof s;
		if (hwheel_get_stats(w, &s) != 0 || s.fired != each * threads)
			abort();
		printf("threads: a tick with one timer, %u threads: %.0f ns\n", threads,
		       spent / 61000 * 1e9);
		finish(all);
		free(all);
		if (hwheel_destroy(w) != 0)
			abort();
	}
	return 0;
}
