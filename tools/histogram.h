/* A histogram of nanoseconds, recorded by one thread and read by any. */
#ifndef HISTOGRAM_H
#define HISTOGRAM_H

#include <stdatomic.h>
#include <stdint.h>

/* Exact below 32 ns, then 32 buckets for each power of two: 3 per cent. */
#define SUB_BITS 5
#define BUCKETS ((64 - SUB_BITS + 1) << SUB_BITS)

struct histogram {
	_Atomic uint64_t early;		/* fired before the deadline */
	_Atomic uint64_t sum;		/* of what is in the buckets */
	_Atomic uint64_t min, max;	/* exact */
	_Atomic uint64_t bucket[BUCKETS];
};

/* The values that were recorded between two readings. */
struct reading {
	uint64_t sum;
	uint64_t bucket[BUCKETS];
};

/*
 * The ends are exact if the reading is of everything; of a part of it they
 * are, as the percentiles are, the bounds of a bucket.
 */
struct summary {
	uint64_t count, min, average, p50, p99, p999, max;
};

void histogram_init(struct histogram *h);
void histogram_record(struct histogram *h, uint64_t deadline, uint64_t now);

/* Reads what came after *seen, and moves *seen on. */
void histogram_since(struct histogram *h, struct reading *seen,
		     struct reading *part);
void histogram_summary(struct histogram *h, const struct reading *part,
		       struct summary *s);

/* The least value of a bucket; that of the next, less 1, is its greatest. */
uint64_t bucket_low(unsigned int bucket);

#endif
