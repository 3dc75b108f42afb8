/*
 * The workloads of docs/PERFORMANCE.md for peers in C. A peer defines struct
 * timer and the functions below, each as the cheapest correct call for its
 * job, and then includes this file.
 *
 * Neither libuv nor libevent lets the caller set the time, but both ask the C
 * library for it, so the program shows them a time of its own. It is cheaper
 * to read than the real one, which is in their favour.
 */
#ifndef WORKLOADS_H
#define WORKLOADS_H

#include "../c/bench.h"
#include <pthread.h>
#include <sys/syscall.h>
#include <unistd.h>

struct timer;
/* Make the loop; locked if more than one thread is to use it. */
static void begin(int locked);
/* Make n timers that are not armed. They call fire() when they expire. */
static struct timer *make(uint64_t n);
static struct timer *nth(struct timer *t, uint64_t i);
/* Arm one that is idle. */
static void arm(struct timer *t, uint64_t delay_ns);
static void cancel(struct timer *t);
/* Arm one that is pending, in place. */
static void move(struct timer *t, uint64_t delay_ns);
/* Arm with 30 s, whether pending or not. */
static void arm_constant(struct timer *t);
/* Fire what is due by now; or wait until something is. */
static void sweep(int wait);

/* The time shown; 0 for the real one. */
static uint64_t shown;

int clock_gettime(clockid_t id, struct timespec *t)
{
	if (shown == 0 || id == CLOCK_MONOTONIC_RAW)
		return (int)syscall(SYS_clock_gettime, id, t);
	t->tv_sec = (time_t)(shown / SEC);
	t->tv_nsec = (long)(shown % SEC);
	return 0;
}

/* Milliseconds, rounded up so as not to be early. */
static inline uint64_t millis(uint64_t ns)
{
	return (ns + MS - 1) / MS;
}

static uint64_t fires;
static int64_t *lates;
static uint64_t *dues;

static void fire(uint64_t cookie)
{
	if (lates != NULL)
		lates[fires] = (int64_t)(nanoseconds() - dues[cookie]);
	fires++;
}

static struct timer *armed(uint64_t n, struct rng *r)
{
	struct timer *t = make(n);

	for (uint64_t i = 0; i < n; i++)
		arm(nth(t, i), delay(r));
	return t;
}

enum { PAIR, MOVE, CONSTANT };

struct job {
	struct timer *t;
	uint64_t n, seed;
	int kind;
	pthread_barrier_t *barrier;
	double s;
};

static void *churn(void *arg)
{
	struct job *j = arg;
	struct rng r = { j->seed };
	double s;

	pthread_barrier_wait(j->barrier);
	s = seconds();
	for (uint64_t i = 0; i < PEER_OPS; i++) {
		struct timer *t = nth(j->t, below(&r, j->n));

		if (j->kind == PAIR) {
			cancel(t);
			arm(t, delay(&r));
		} else if (j->kind == MOVE) {
			move(t, delay(&r));
		} else {
			arm_constant(t);
			cancel(t);
		}
	}
	j->s = seconds() - s;
	return NULL;
}

/* W1 and W4: n timers a thread. */
static void w1(int kind, uint64_t n, unsigned threads)
{
	struct rng r = { SEED };
	pthread_barrier_t barrier;
	pthread_t id[64];
	struct job job[64];
	double longest = 0;

	pthread_barrier_init(&barrier, NULL, threads);
	for (unsigned i = 0; i < threads; i++)
		job[i] = (struct job){ kind == CONSTANT ? make(n) : armed(n, &r), n,
				       SEED + i, kind, &barrier, 0 };
	for (unsigned i = 0; i < threads; i++)
		pthread_create(&id[i], NULL, churn, &job[i]);
	for (unsigned i = 0; i < threads; i++) {
		pthread_join(id[i], NULL);
		if (job[i].s > longest)
			longest = job[i].s;
	}
	figure("ns", longest * 1e9 / ((double)PEER_OPS * threads));
}

/* W2: refresh an idle timeout. */
static void w2(void)
{
	enum { N = 100000 };
	struct rng r = { SEED };
	struct timer *t = make(N);
	double s;

	for (uint64_t i = 0; i < N; i++)
		arm_constant(nth(t, i));
	s = seconds();
	for (int i = 0; i < PEER_OPS; i++) {
		arm_constant(nth(t, below(&r, N)));
		if (i % 1000 == 999) {
			shown += MS;
			sweep(0);
		}
	}
	figure("ns", (seconds() - s) * 1e9 / PEER_OPS);
}

/* W3: n timers armed, then fired in steps of 1 ms. */
static void w3(uint64_t n)
{
	struct rng r = { SEED };
	double s = seconds();

	armed(n, &r);
	figure("arm", (seconds() - s) * 1e9 / (double)n);
	s = seconds();
	/* A coarse clock may be a tick behind, so there is one tick more. */
	for (uint64_t i = 0; i <= LONGEST / MS; i++) {
		shown += MS;
		sweep(0);
	}
	figure("fire", (seconds() - s) * 1e9 / (double)n);
	if (fires != n) {
		fprintf(stderr, "lost\n");
		exit(1);
	}
}

/* W5: lateness on the real clock. */
static void w5(void)
{
	enum { N = 1000 };
	static int64_t late[N];
	static uint64_t due[N];
	struct rng r = { SEED };
	struct timer *t = make(N);

	sweep(0);
	for (uint64_t i = 0; i < N; i++) {
		uint64_t d = MS + below(&r, SEC - MS);

		due[i] = nanoseconds() + d;
		arm(nth(t, i), d);
	}
	dues = due;
	lates = late;
	while (fires < N)
		sweep(1);
	quantiles(late, N);
}

/* W6: resident bytes for each of n timers. */
static void w6(uint64_t n)
{
	struct rng r = { SEED };
	uint64_t before = resident();

	armed(n, &r);
	figure("bytes", (double)(resident() - before) / (double)n);
}

int main(int argc, char **argv)
{
	const char *what = argc > 1 ? argv[1] : "none";
	uint64_t n = argc > 2 ? strtoull(argv[2], NULL, 10) : 1;
	unsigned threads = argc > 3 ? (unsigned)atoi(argv[3]) : 1;

	shown = strcmp(what, "W5") == 0 ? 0 : SEC;
	begin(strncmp(what, "W4", 2) == 0);
	if (strcmp(what, "W1a") == 0 || strcmp(what, "W4churn") == 0)
		w1(PAIR, n, threads);
	else if (strcmp(what, "W1b") == 0)
		w1(MOVE, n, threads);
	else if (strcmp(what, "W4constant") == 0)
		w1(CONSTANT, n, threads);
	else if (strcmp(what, "W2") == 0)
		w2();
	else if (strcmp(what, "W3") == 0)
		w3(n);
	else if (strcmp(what, "W5") == 0)
		w5();
	else if (strcmp(what, "W6") == 0)
		w6(n);
	else
		return 2;
	return 0;
}

#endif
