/*
 * What every benchmark program shares: one pseudo-random sequence, a clock,
 * a way to print figures. A program is called with a workload and its numbers
 * and prints lines of "name value".
 */
#ifndef BENCH_H
#define BENCH_H

#include <inttypes.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

#define MS UINT64_C(1000000)
#define SEC UINT64_C(1000000000)
/* Delays are uniform in 1 ms .. 60 s. */
#define LONGEST (60 * SEC)
#define SEED UINT64_C(0x9e3779b97f4a7c15)
#define OPS 5000000
/* Peers are slower, some by a hundred times: they do a fifth. */
#define PEER_OPS (OPS / 5)

struct rng { uint64_t s; };

static inline uint64_t next(struct rng *r)
{
	r->s ^= r->s << 13;
	r->s ^= r->s >> 7;
	r->s ^= r->s << 17;
	return r->s;
}

__extension__ typedef unsigned __int128 wide;

/* A number below n, without a division. */
static inline uint64_t below(struct rng *r, uint64_t n)
{
	return (uint64_t)(((wide)next(r) * n) >> 64);
}

static inline uint64_t delay(struct rng *r)
{
	return MS + below(r, LONGEST - MS);
}

/* A stopwatch. The raw clock stays real where a peer is shown a false time. */
static inline double seconds(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC_RAW, &t);
	return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static inline uint64_t nanoseconds(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * SEC + (uint64_t)t.tv_nsec;
}

/* Memory on huge pages where the system grants them, as the library's slab. */
static inline void *pages(size_t bytes)
{
	size_t huge = (size_t)2 << 20;
	char *p;

	bytes = (bytes + huge - 1) / huge * huge;
	p = mmap(NULL, bytes + huge, PROT_READ | PROT_WRITE,
		 MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (p == MAP_FAILED) {
		perror("mmap");
		exit(1);
	}
	p = (char *)(((uintptr_t)p + huge - 1) / huge * huge);
	madvise(p, bytes, MADV_HUGEPAGE);
	return p;
}

/* Resident bytes of this process. */
static inline uint64_t resident(void)
{
	unsigned long all, rss = 0;
	FILE *f = fopen("/proc/self/statm", "r");

	if (f == NULL || fscanf(f, "%lu %lu", &all, &rss) != 2)
		rss = 0;
	if (f != NULL)
		fclose(f);
	return (uint64_t)rss * 4096;
}

static inline void figure(const char *name, double value)
{
	printf("%s %.4f\n", name, value);
}

static inline int ascending(const void *a, const void *b)
{
	int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;

	return x < y ? -1 : x > y;
}

/* W5: lateness in nanoseconds, below zero if early. Sorts it. */
static inline void quantiles(int64_t *late, size_t n)
{
	static const struct { const char *name; size_t mille; } q[] = {
		{ "p10", 100 }, { "p25", 250 }, { "p50", 500 }, { "p75", 750 },
		{ "p90", 900 }, { "p99", 990 }, { "p999", 999 },
	};

	qsort(late, n, sizeof *late, ascending);
	figure("min", (double)late[0]);
	for (size_t i = 0; i < sizeof q / sizeof *q; i++)
		figure(q[i].name, (double)late[n * q[i].mille / 1000]);
	figure("max", (double)late[n - 1]);
}

/*
 * W9, the textbook's picture: to start and stop one of n timers, and to pass
 * a tick, each with its own stopwatch. Runs until both are long enough.
 */
static inline void textbook(uint64_t n, void (*pair)(uint64_t i, uint64_t due),
			    void (*sweep)(uint64_t now))
{
	struct rng r = { SEED };
	double pairs = 0, ticks = 0, s, t;
	uint64_t now = 0;

	while (now < 10 * MS || pairs + ticks < 0.2) {
		s = seconds();
		for (int i = 0; i < 1000; i++)
			pair(below(&r, n), now + delay(&r));
		t = seconds();
		sweep(now += MS);
		ticks += seconds() - t;
		pairs += t - s;
	}
	figure("pair", pairs * 1e9 / ((double)(now / MS) * 1000));
	figure("tick", ticks * 1e9 / (double)(now / MS));
}

#endif
