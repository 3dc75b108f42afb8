/* How many calls of hwheel_advance() are refused while a thread asks for the next
 * expiry, and what either costs. */
#include <stdatomic.h>
#include "figure.h"

enum { TICKS = 200000 };

static atomic_int over;
static atomic_long asked;

static void *ask(void *w)
{
	uint64_t at;

	while (!atomic_load(&over)) {
		if (hwheel_next_expiry(w, &at) < 0)
			abort();
		atomic_fetch_add(&asked, 1);
	}
	return NULL;
}

int main(void)
{
	struct hwheel *w = manual(MS, 0, 0);
	struct hwheel_event events[64];
	long refused = 0;
	pthread_t thread;
	double begin, spent;

	for (uint64_t i = 1; i <= TICKS; i++) {
		hwheel_timer_t t;

		if (hwheel_once(w, i * MS, NULL, 0, HWHEEL_ABS, &t) != 0)
			return 1;
		if (i % 3)
			hwheel_timer_delete(w, t);
	}
	if (pthread_create(&thread, NULL, ask, w) != 0)
		return 1;
	begin = seconds();
	for (uint64_t i = 1; i <= TICKS; i++)
		refused += hwheel_advance(w, i * MS, events, 64, NULL) == -EBUSY;
	spent = seconds() - begin;
	atomic_store(&over, 1);
	pthread_join(thread, NULL);
	printf("query: %ld of %d advances refused, %.0f ns each, during %ld queries\n",
	       refused, TICKS, spent / TICKS * 1e9, atomic_load(&asked));
	return hwheel_destroy(w) != 0;
}
