/*
 * Timers in random order, one by one and in batches: what it is worth that a
 * batch fetches the next timers while it is at work on the present one. By
 * deadline, so that reading the clock, once a batch or once a timer, is no part.
 *
 * usage: batch [TIMERS [BATCH]]
 */
#include "bench.h"
#include <hwheel.h>

static struct hwheel *w;
static hwheel_timer_t *timers;
static uint64_t *deadlines, now;
static uint32_t n, batch;

static void must(int ok, const char *what)
{
	if (!ok) {
		fprintf(stderr, "%s\n", what);
		exit(1);
	}
}

/* Everything in a new random order: no cache has seen it. */
static void shuffle(struct rng *r)
{
	for (uint64_t i = n - 1; i > 0; i--) {
		uint64_t j = below(r, i + 1);
		hwheel_timer_t t = timers[i];

		timers[i] = timers[j];
		timers[j] = t;
	}
	for (uint32_t i = 0; i < n; i++)
		deadlines[i] = now + delay(r);
}

static void mod_each(void)
{
	for (uint32_t i = 0; i < n; i++)
		must(hwheel_timer_mod(w, timers[i], deadlines[i], HWHEEL_ABS) >= 0, "mod_at");
}

static void mod_batches(void)
{
	for (uint32_t i = 0; i < n; i += batch)
		must(hwheel_timer_mod_many(w, &timers[i], &deadlines[i], batch, HWHEEL_ABS,
				     NULL) == (int)batch, "mod_many");
}

static void delete_each(void)
{
	for (uint32_t i = 0; i < n; i++)
		must(hwheel_timer_delete(w, timers[i]) == 1, "delete");
}

static void delete_batches(void)
{
	for (uint32_t i = 0; i < n; i += batch)
		must(hwheel_timer_delete_many(w, &timers[i], batch, NULL) == (int)batch, "delete_many");
}

/* Nanoseconds a timer, the least of all rounds. */
static void measure(double *least, void (*all)(void), struct rng *r)
{
	double s, ns;

	shuffle(r);
	s = seconds();
	all();
	ns = (seconds() - s) * 1e9 / n;
	if (*least == 0 || ns < *least)
		*least = ns;
}

int main(int argc, char **argv)
{
	double arm[2] = { 0 }, rearm[2] = { 0 }, cancel[2] = { 0 };
	struct rng r = { SEED };

	n = argc > 1 ? (uint32_t)atoi(argv[1]) : 1000000;
	batch = argc > 2 ? (uint32_t)atoi(argv[2]) : 64;
	must(batch > 0 && n >= batch, "usage: batch [TIMERS [BATCH]]");
	n -= n % batch;
	timers = malloc(n * sizeof *timers);
	deadlines = malloc(n * sizeof *deadlines);
	must(timers && deadlines && hwheel_create(NULL, &w) == 0, "create");
	must(hwheel_now(w, &now) == 0, "now");
	for (uint32_t i = 0; i < n; i++)
		must(hwheel_timer_setup(w, NULL, i, &timers[i]) == 0, "setup");
	for (int round = 0; round < 5; round++) {
		measure(&arm[0], mod_each, &r);
		measure(&rearm[0], mod_each, &r);
		measure(&cancel[0], delete_each, &r);
		measure(&arm[1], mod_batches, &r);
		measure(&rearm[1], mod_batches, &r);
		measure(&cancel[1], delete_batches, &r);
	}
	figure("arm", arm[0]);
	figure("arm_many", arm[1]);
	figure("rearm", rearm[0]);
	figure("rearm_many", rearm[1]);
	figure("cancel", cancel[0]);
	figure("cancel_many", cancel[1]);
	return hwheel_destroy(w) != 0;
}
