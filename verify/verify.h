/* What the programs in this directory share, with the clock and the numbers of the benchmarks. */
#ifndef VERIFY_H
#define VERIFY_H

#include <errno.h>
#include <stdatomic.h>
#include <hwheel.h>
#include "../benches/bench.h"

/* Callbacks have parameters that they do not need. */
#pragma GCC diagnostic ignored "-Wunused-parameter"

#define COUNT(a) (sizeof(a) / sizeof(a)[0])

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

static inline void sleep_ns(uint64_t ns)
{
	struct timespec t = { (time_t)(ns / SEC), (long)(ns % SEC) };

	nanosleep(&t, NULL);
}

/* Adds to a word that only the calling thread writes. */
static inline void bump(_Atomic uint64_t *word, uint64_t by)
{
	uint64_t n = atomic_load_explicit(word, memory_order_relaxed);

	atomic_store_explicit(word, n + by, memory_order_relaxed);
}

#endif
