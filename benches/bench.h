/*
 * What the benchmark programs share: one pseudo-random sequence, a stopwatch, a
 * place to run, a way to print figures. A program is called with a workload and
 * its numbers and prints lines of "name value". C and C++.
 */
#ifndef BENCH_H
#define BENCH_H

#include <arpa/inet.h>
#include <inttypes.h>
#include <netinet/tcp.h>
#include <pthread.h>
#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#define MS UINT64_C(1000000)
#define SEC UINT64_C(1000000000)
#define SEED UINT64_C(0x9e3779b97f4a7c15)
#define BATCH_SIZE 16
#define MOST_THREADS 256
#define OPS 2000000

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

/*
 * A stopwatch that stands still while the machine runs something else: other
 * programs, or, for a guest, other guests. Only a thread that sleeps, as with a
 * mutex that others hold, needs the time that passes on the wall.
 */
#ifdef LOCK_MUTEX
#define STOPWATCH CLOCK_MONOTONIC_RAW
#else
#define STOPWATCH CLOCK_THREAD_CPUTIME_ID
#endif

static inline double seconds(void)
{
	struct timespec t;

	clock_gettime(STOPWATCH, &t);
	return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static inline uint64_t nanoseconds(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * SEC + (uint64_t)t.tv_nsec;
}

/* Run on the n-th of the processors that the process may use, in turn. */
static inline void pin(unsigned n)
{
	static cpu_set_t all;
	static int known;
	cpu_set_t one;
	unsigned seen = 0;

	if (!known)
		known = sched_getaffinity(0, sizeof all, &all) == 0;
	CPU_ZERO(&one);
	n %= (unsigned)CPU_COUNT(&all);
	for (int cpu = 0; cpu < CPU_SETSIZE; cpu++)
		if (CPU_ISSET(cpu, &all) && seen++ == n)
			CPU_SET(cpu, &one);
	if (sched_setaffinity(0, sizeof one, &one) != 0) {
		perror("sched_setaffinity");
		exit(1);
	}
}

static inline void start_thread(pthread_t *id, void *(*fn)(void *), void *arg)
{
	if (pthread_create(id, NULL, fn, arg) != 0) {
		fprintf(stderr, "no thread\n");
		exit(1);
	}
}

/* Zeroed memory, on huge pages where the system grants them. */
static inline void *pages(size_t bytes)
{
	size_t huge = (size_t)2 << 20;
	char *p;

	bytes = (bytes + huge - 1) / huge * huge;
	p = (char *)mmap(NULL, bytes + huge, PROT_READ | PROT_WRITE,
			 MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (p == MAP_FAILED) {
		perror("mmap");
		exit(1);
	}
	p = (char *)(((uintptr_t)p + huge - 1) / huge * huge);
	madvise(p, bytes, MADV_HUGEPAGE);
	return p;
}

/* Resident bytes of the process that are no part of a file. */
static inline uint64_t resident(void)
{
	unsigned long anonymous = 0, shared = 0;
	char line[256];
	FILE *f = fopen("/proc/self/smaps_rollup", "r");

	if (f == NULL) {
		perror("/proc/self/smaps_rollup");
		exit(1);
	}
	while (fgets(line, sizeof line, f) != NULL) {
		sscanf(line, "Anonymous: %lu", &anonymous);
		sscanf(line, "Pss_Shmem: %lu", &shared);
	}
	fclose(f);
	return (uint64_t)(anonymous + shared) * 1024;
}

/* The server's and the client's end of a connection. */
static inline void connection_over_loopback(int end[2])
{
	struct sockaddr_in a;
	socklen_t size = sizeof a;
	int listener = socket(AF_INET, SOCK_STREAM, 0), one = 1;

	memset(&a, 0, sizeof a);
	a.sin_family = AF_INET;
	a.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	end[1] = socket(AF_INET, SOCK_STREAM, 0);
	if (bind(listener, (struct sockaddr *)&a, size) != 0 || listen(listener, 1) != 0 ||
	    getsockname(listener, (struct sockaddr *)&a, &size) != 0 ||
	    connect(end[1], (struct sockaddr *)&a, size) != 0 ||
	    (end[0] = accept(listener, NULL, NULL)) < 0) {
		perror("a connection");
		exit(1);
	}
	close(listener);
	for (int i = 0; i < 2; i++)
		setsockopt(end[i], IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
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

/* Figures of how late something was, in nanoseconds, below zero if early. Sorts it. */
static inline void quantiles(int64_t *late, size_t n)
{
	static const struct { const char *name; size_t mille; } q[] = {
		{ "p1", 10 }, { "p10", 100 }, { "p25", 250 }, { "p50", 500 }, { "p75", 750 },
		{ "p90", 900 }, { "p99", 990 }, { "p999", 999 },
	};

	qsort(late, n, sizeof *late, ascending);
	figure("min", (double)late[0]);
	for (size_t i = 0; i < sizeof q / sizeof *q; i++)
		figure(q[i].name, (double)late[n * q[i].mille / 1000]);
	figure("max", (double)late[n - 1]);
}

#endif
