/* hwheel-latency: its options, histograms, and these as files. */
#ifndef LATENCY_H
#define LATENCY_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <time.h>

struct clock_name {
	const char *name;
	clockid_t system;
	uint32_t wheel;
};

struct options {
	uint64_t threads;
	uint64_t rate;			/* timers a second and thread */
	uint64_t delay_min, delay_max;	/* nanoseconds, as all times */
	uint64_t tick;
	uint64_t duration;		/* 0: until interrupted */
	const struct clock_name *clock;
	bool descriptor;
	bool raw;
	bool quiet;
	FILE *json, *svg;
};

/* Fills in the options; ends the program for --help and for a bad one. */
void options_parse(struct options *o, int argc, char **argv);

/* Prints "hwheel-latency: " and a message, and ends with that status. */
__attribute__((noreturn, format(printf, 2, 3)))
void fail(int status, const char *format, ...);

/* A histogram of nanoseconds, recorded by one thread and read by any. */

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

/* The smallest value of a bucket. For one past the last bucket this is 0, which stands for 2^64. */
uint64_t bucket_low(unsigned int bucket);

/* As files. */

/* The timers of the wheel; or of the raw timerfd, which has no drained ones. */
struct result {
	const char *name;
	uint64_t armed, fired, drained, early;
	struct summary summary;
	struct reading all;
};

/* `raw` may be NULL. They end the program if the file cannot be written. */
void report_json(const struct options *o, const struct result *wheel,
		 const struct result *raw);
void report_svg(const struct options *o, const struct result *wheel,
		const struct result *raw);

#endif
