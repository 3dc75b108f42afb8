/* What the programs in this directory share. */
#ifndef VERIFY_H
#define VERIFY_H

#include <inttypes.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <hwheel.h>

/* Callbacks have parameters that they do not need. */
#pragma GCC diagnostic ignored "-Wunused-parameter"

#define COUNT(a) (sizeof(a) / sizeof(a)[0])
#define MS UINT64_C(1000000)
#define SEC UINT64_C(1000000000)

/* A skipped program says why and ends with this. */
#define EXIT_SKIP 4

/* Ends the program with a failure unless the condition holds. */
#define MUST(cond) do { \
	if (!(cond)) { \
		fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #cond); \
		exit(1); \
	} \
} while (0)

/* A word on a cache line of its own. */
struct word {
	_Alignas(128) _Atomic uint64_t n;
};

static inline uint64_t clock_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * SEC + (uint64_t)t.tv_nsec;
}

static inline void sleep_ns(uint64_t ns)
{
	struct timespec t = { (time_t)(ns / SEC), (long)(ns % SEC) };

	nanosleep(&t, NULL);
}

/* xorshift*: the same numbers for the same seed; a seed is not 0. */
static inline uint64_t rng_next(uint64_t *x)
{
	*x ^= *x << 13;
	*x ^= *x >> 7;
	*x ^= *x << 17;
	return *x * UINT64_C(0x9e3779b97f4a7c15) >> 16;
}

static inline uint64_t rng_below(uint64_t *x, uint64_t n)
{
	return rng_next(x) % n;
}

/* Adds to a word that only the calling thread writes. */
static inline void bump(_Atomic uint64_t *word, uint64_t by)
{
	uint64_t n = atomic_load_explicit(word, memory_order_relaxed);

	atomic_store_explicit(word, n + by, memory_order_relaxed);
}

/*
 * The books of memory, for the number of timers that were live at the same time and of
 * threads that used the wheel at the same time. They do not depend on what the calls were,
 * nor on whether a thread drives. A thread has up to two runs of 64 records at hand, and
 * three chunks of notes that are not full. A timer has at most one entry, and one note of
 * each thread.
 */
static inline void check_books(const struct hwheel *w, uint64_t timers, uint64_t threads)
{
	const uint64_t record = 48, run = 64, notes = 63, chunk = 256;
	struct hwheel_stats s = { .size = sizeof s }, later = s;
	uint64_t records;

	MUST(hwheel_get_stats(w, &s) == 0);
	/* Other threads may make timers between the counts. So the records are counted last. */
	MUST(hwheel_get_stats(w, &later) == 0);
	records = later.slab_bytes / record;
	MUST(records <= timers + 2 * run * (threads + 1));
	MUST(s.entries <= records);
	MUST(s.note_bytes <= chunk * (records * threads / notes + 3 * threads + 1));
}

#endif
