/*
 * What is measured of the library alone: through the calls that a user would
 * make, as in every other program.
 */
#include "bench.h"
#include BENCH_LIBRARY
#include <stdatomic.h>
#include <sys/resource.h>

static void must(int result, const char *what)
{
	if (result < 0) {
		fprintf(stderr, "%s: %s\n", what, strerror(-result));
		exit(1);
	}
}
#define MUST(call) must(call, #call)

static bench_wheel *wheel;

static void count(bench_wheel *w, const bench_event *e)
{
	static _Atomic uint64_t called;

	(void)w;
	atomic_store_explicit(&called, atomic_load_explicit(&called, memory_order_relaxed) + e->cookie,
			      memory_order_relaxed);
}

/* Arm with 300 s and cancel, 100,000 times a second, for 600 seconds of a manual clock. */
static void growth(void)
{
	uint64_t now = 0, first = 0, last = 0;
	bench_timer t;

	MUST(bench_create(BENCH_MANUAL, MS, &wheel));
	for (uint64_t s = 0; s < 600; s++) {
		for (int i = 0; i < 100000; i++) {
			MUST(bench_once(wheel, 300 * SEC, count, 0, &t));
			MUST(bench_cancel(wheel, t));
			if (i % 100 == 99)
				MUST(bench_advance(wheel, now += MS));
		}
		last = resident();
		if (s == 0)
			first = last;
	}
	figure("bytes", (double)last - (double)first);
}

static double processor_us(void)
{
	struct rusage u;

	getrusage(RUSAGE_SELF, &u);
	return (double)(u.ru_utime.tv_sec + u.ru_stime.tv_sec) * 1e6 +
	       (double)(u.ru_utime.tv_usec + u.ru_stime.tv_usec);
}

/* Ten seconds with one timer a minute away. */
static void sleeping(void)
{
	uint64_t wakeups;
	bench_timer t;
	double us;

	MUST(bench_create(BENCH_MONOTONIC, MS, &wheel));
	MUST(bench_start(wheel));
	MUST(bench_once(wheel, 60 * SEC, count, 0, &t));
	usleep(100000);
	wakeups = bench_wakeups(wheel);
	us = processor_us();
	sleep(10);
	figure("cpu_us", processor_us() - us);
	figure("wakeups", (double)(bench_wakeups(wheel) - wakeups));
}

int main(int argc, char **argv)
{
	const char *what = argc > 1 ? argv[1] : "";

	pin(0);
	if (strcmp(what, "growth") == 0)
		growth();
	else if (strcmp(what, "sleeping") == 0)
		sleeping();
	else
		return 2;
	return 0;
}
