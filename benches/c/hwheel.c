/*
 * hwheel under the workloads of docs/PERFORMANCE.md. Always the shared library
 * in its thread-safe form, through the calls that a user would make.
 */
#include "bench.h"
#include <hwheel.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sys/resource.h>
#include <unistd.h>

static void must(int result, const char *what)
{
	if (result < 0) {
		fprintf(stderr, "%s: %s\n", what, hwheel_strerror(result));
		exit(1);
	}
}
#define MUST(call) must(call, #call)

static struct hwheel *make(uint32_t clock, uint64_t tick_ns, uint32_t flags)
{
	struct hwheel_options o;
	struct hwheel *w;

	memset(&o, 0, sizeof o);
	o.size = sizeof o;
	o.clock = clock;
	o.tick_ns = tick_ns;
	o.flags = flags;
	MUST(hwheel_create(&o, &w));
	return w;
}

static struct hwheel *wheel(uint32_t clock, uint64_t tick_ns)
{
	return make(clock, tick_ns, 0);
}

static _Atomic uint64_t called;

static void count(struct hwheel *w, const struct hwheel_event *e)
{
	(void)w;
	atomic_store_explicit(&called,
			      atomic_load_explicit(&called, memory_order_relaxed) + (e->cookie | 1),
			      memory_order_relaxed);
}

static hwheel_timer_t *timers(struct hwheel *w, uint64_t n, struct rng *r)
{
	hwheel_timer_t *t = malloc(n * sizeof *t);

	for (uint64_t i = 0; i < n; i++) {
		MUST(hwheel_timer_setup(w, count, i, &t[i]));
		if (r != NULL)
			MUST(hwheel_timer_mod(w, t[i], delay(r), HWHEEL_ABS));
	}
	return t;
}

/* One timer: re-arm later, or cancel and arm. */
static void hot(int pair)
{
	struct hwheel *w = wheel(HWHEEL_CLOCK_MANUAL, MS);
	hwheel_timer_t t = *timers(w, 1, NULL);
	uint64_t due = 30 * SEC;
	double s;

	MUST(hwheel_timer_mod(w, t, due, HWHEEL_ABS));
	s = seconds();
	for (int i = 0; i < OPS; i++) {
		if (pair)
			hwheel_timer_delete(w, t);
		hwheel_timer_mod(w, t, due += 1000, HWHEEL_ABS);
	}
	figure("ns", (seconds() - s) * 1e9 / OPS);
	hwheel_destroy(w);
}

struct job {
	struct hwheel *w;
	hwheel_timer_t *t;
	uint64_t n, seed;
	int kind;
	pthread_barrier_t *barrier;
	double s;
};

enum { PAIR, MOVE, CONSTANT };

static void *churn(void *arg)
{
	struct job *j = arg;
	struct rng r = { j->seed };

	pthread_barrier_wait(j->barrier);
	double s = seconds();
	for (uint64_t i = 0; i < OPS; i++) {
		hwheel_timer_t t = j->t[below(&r, j->n)];

		if (j->kind == PAIR)
			hwheel_timer_delete(j->w, t);
		if (j->kind == CONSTANT) {
			hwheel_timer_mod(j->w, t, 30 * SEC, HWHEEL_ABS);
			hwheel_timer_delete(j->w, t);
		} else {
			hwheel_timer_mod(j->w, t, delay(&r), HWHEEL_ABS);
		}
	}
	j->s = seconds() - s;
	return NULL;
}

/* W1 and W4: n timers a thread on one wheel. */
static void w1(int kind, uint64_t n, unsigned threads)
{
	struct hwheel *w = wheel(HWHEEL_CLOCK_MANUAL, MS);
	struct rng r = { SEED };
	pthread_barrier_t barrier;
	pthread_t id[64];
	struct job job[64];
	double longest = 0;

	pthread_barrier_init(&barrier, NULL, threads);
	for (unsigned i = 0; i < threads; i++)
		job[i] = (struct job){ w, timers(w, n, kind == CONSTANT ? NULL : &r), n,
				       SEED + i, kind, &barrier, 0 };
	for (unsigned i = 0; i < threads; i++)
		pthread_create(&id[i], NULL, churn, &job[i]);
	for (unsigned i = 0; i < threads; i++) {
		pthread_join(id[i], NULL);
		if (job[i].s > longest)
			longest = job[i].s;
	}
	/* Of the whole: the time divided by the operations of all threads. */
	figure("ns", longest * 1e9 / ((double)OPS * threads));
	hwheel_destroy(w);
}

static _Atomic uint64_t ring[1024];

static void *canceller(void *arg)
{
	struct hwheel *w = arg;

	for (uint64_t i = 0; i < OPS; i++) {
		uint64_t t;

		while ((t = atomic_exchange_explicit(&ring[i % 1024], 0, memory_order_acq_rel)) == 0)
			;
		hwheel_timer_delete(w, t);
	}
	return NULL;
}

/* W4: one thread arms what another cancels. */
static void w4_cross(void)
{
	struct hwheel *w = wheel(HWHEEL_CLOCK_MANUAL, MS);
	pthread_t id;
	double s;

	pthread_create(&id, NULL, canceller, w);
	s = seconds();
	for (uint64_t i = 0; i < OPS; i++) {
		hwheel_timer_t t;

		while (atomic_load_explicit(&ring[i % 1024], memory_order_relaxed) != 0)
			;
		MUST(hwheel_once(w, 30 * SEC, count, i, HWHEEL_ABS, &t));
		atomic_store_explicit(&ring[i % 1024], t, memory_order_release);
	}
	pthread_join(id, NULL);
	figure("ns", (seconds() - s) * 1e9 / OPS);
	hwheel_destroy(w);
}

/* W2: refresh an idle timeout. */
static void w2(void)
{
	enum { N = 100000 };
	struct hwheel *w = wheel(HWHEEL_CLOCK_MANUAL, MS);
	struct rng r = { SEED };
	hwheel_timer_t *t = timers(w, N, NULL);
	uint64_t now = 0;
	double s;

	for (int i = 0; i < N; i++)
		MUST(hwheel_timer_mod(w, t[i], 30 * SEC, HWHEEL_ABS));
	s = seconds();
	for (int i = 0; i < OPS; i++) {
		hwheel_timer_mod(w, t[below(&r, N)], now + 30 * SEC, HWHEEL_ABS);
		if (i % 1000 == 999)
			hwheel_advance(w, now += MS, NULL, 0, NULL);
	}
	figure("ns", (seconds() - s) * 1e9 / OPS);
	hwheel_destroy(w);
}

/* W3: a million timers armed, then fired in steps of 1 ms; or all at once. */
static void w3(uint64_t n, int same)
{
	struct hwheel *w = wheel(HWHEEL_CLOCK_MANUAL, MS);
	struct rng r = { SEED };
	double s = seconds();
	uint64_t now = 0;
	struct hwheel_stats stats = { .size = sizeof stats };

	for (uint64_t i = 0; i < n; i++)
		MUST(hwheel_once(w, same ? SEC : delay(&r), count, i, HWHEEL_ABS, NULL));
	figure("arm", (seconds() - s) * 1e9 / (double)n);
	s = seconds();
	while (now < LONGEST)
		hwheel_advance(w, now += MS, NULL, 0, NULL);
	figure("fire", (seconds() - s) * 1e9 / (double)n);
	MUST(hwheel_get_stats(w, &stats));
	if (stats.fired != n || stats.live != 0) {
		fprintf(stderr, "lost\n");
		exit(1);
	}
	hwheel_destroy(w);
}

/* W3 after five million re-arms have left their dead entries. */
static void w3_worn(uint64_t n)
{
	struct hwheel *w = wheel(HWHEEL_CLOCK_MANUAL, MS);
	struct rng r = { SEED };
	hwheel_timer_t *t = timers(w, n, &r);
	uint64_t now = 0;
	double s;

	for (int i = 0; i < OPS; i++)
		hwheel_timer_mod(w, t[below(&r, n)], delay(&r), HWHEEL_ABS);
	s = seconds();
	while (now < LONGEST)
		hwheel_advance(w, now += MS, NULL, 0, NULL);
	figure("fire", (seconds() - s) * 1e9 / (double)n);
	hwheel_destroy(w);
}

/* Advance with nothing due. */
static void idle_advance(void)
{
	struct hwheel *w = wheel(HWHEEL_CLOCK_MANUAL, MS);
	uint64_t now = 0;
	double s;

	MUST(hwheel_once(w, 1000000 * SEC, count, 0, HWHEEL_ABS, NULL));
	hwheel_advance(w, ++now, NULL, 0, NULL);
	s = seconds();
	for (int i = 0; i < OPS; i++)
		hwheel_advance(w, now += 1000, NULL, 0, NULL);
	figure("ns", (seconds() - s) * 1e9 / OPS);
	hwheel_destroy(w);
}

enum { W5 = 1000 };
static int64_t late[W5];
static _Atomic uint32_t lates;

static void note(struct hwheel *w, const struct hwheel_event *e)
{
	uint64_t now = nanoseconds();
	uint32_t i = atomic_load(&lates);

	(void)w;
	if (now < e->deadline_ns) {
		fprintf(stderr, "early\n");
		exit(1);
	}
	late[i] = (int64_t)(now - e->deadline_ns);
	atomic_store(&lates, i + 1);
}

/* W5: lateness on a real clock, tick in microseconds. */
static void w5(int threaded, uint64_t tick_us)
{
	struct hwheel *w = wheel(HWHEEL_CLOCK_MONOTONIC, tick_us * 1000);
	struct pollfd p = { .events = POLLIN };
	struct rng r = { SEED };
	uint64_t now;

	if (threaded)
		MUST(hwheel_start(w));
	else
		MUST(p.fd = hwheel_fd(w));
	MUST(hwheel_now(w, &now));
	for (int i = 0; i < W5; i++)
		MUST(hwheel_once(w, now + MS + below(&r, SEC - MS), note, 0, HWHEEL_ABS, NULL));
	while (atomic_load(&lates) < W5) {
		if (threaded) {
			usleep(20000);
		} else {
			poll(&p, 1, -1);
			hwheel_poll(w, NULL, 0, NULL);
		}
	}
	hwheel_destroy(w);
	quantiles(late, W5);
}

/* W6: resident bytes for each of n timers. */
static void w6(uint64_t n)
{
	struct hwheel *w = wheel(HWHEEL_CLOCK_MANUAL, MS);
	struct rng r = { SEED };
	uint64_t before = resident();

	for (uint64_t i = 0; i < n; i++)
		MUST(hwheel_once(w, delay(&r), count, i, HWHEEL_ABS, NULL));
	figure("bytes", (double)(resident() - before) / (double)n);
	hwheel_destroy(w);
}

/* W6: arm with 300 s and cancel, 100,000 times a second, for 600 s. */
static void w6_growth(void)
{
	struct hwheel *w = wheel(HWHEEL_CLOCK_MANUAL, MS);
	uint64_t now = 0, first = 0, last = 0;
	hwheel_timer_t t;

	for (uint64_t s = 0; s < 600; s++) {
		for (int i = 0; i < 100000; i++) {
			MUST(hwheel_once(w, now + 300 * SEC, count, 0, HWHEEL_ABS, &t));
			MUST(hwheel_timer_delete(w, t));
			if (i % 100 == 99)
				hwheel_advance(w, now += MS, NULL, 0, NULL);
		}
		last = resident();
		if (s == 0)
			first = last;
	}
	figure("bytes", (double)last - (double)first);
	hwheel_destroy(w);
}

/* W7: ten seconds with one timer a minute away. */
static void w7(void)
{
	struct hwheel *w = wheel(HWHEEL_CLOCK_MONOTONIC, MS);
	struct hwheel_stats a = { .size = sizeof a }, b = { .size = sizeof b };
	struct rusage u, v;

	MUST(hwheel_start(w));
	MUST(hwheel_once(w, 60 * SEC, count, 0, 0, NULL));
	usleep(100000);
	MUST(hwheel_get_stats(w, &a));
	getrusage(RUSAGE_SELF, &u);
	sleep(10);
	getrusage(RUSAGE_SELF, &v);
	MUST(hwheel_get_stats(w, &b));
	figure("wakeups", (double)(b.wakeups - a.wakeups));
	figure("cpu_us", (double)(v.ru_utime.tv_sec - u.ru_utime.tv_sec) * 1e6 +
	       (double)(v.ru_utime.tv_usec - u.ru_utime.tv_usec) +
	       (double)(v.ru_stime.tv_sec - u.ru_stime.tv_sec) * 1e6 +
	       (double)(v.ru_stime.tv_usec - u.ru_stime.tv_usec));
	hwheel_destroy(w);
}

/* W8: arming with a delay, for which the clock is read, or with a time; n in turn. */
static void w8(uint64_t n, int with_delay, uint32_t flags)
{
	struct hwheel *w = make(HWHEEL_CLOCK_MONOTONIC, MS, flags);
	hwheel_timer_t *t = timers(w, n, NULL);
	uint64_t now, k = 0;
	double s;

	MUST(hwheel_now(w, &now));
	s = seconds();
	for (int i = 0; i < OPS; i++) {
		if (with_delay)
			hwheel_timer_mod(w, t[k], 30 * SEC, 0);
		else
			hwheel_timer_mod(w, t[k], now + 30 * SEC + (uint64_t)i, HWHEEL_ABS);
		if (++k == n)
			k = 0;
	}
	figure("ns", (seconds() - s) * 1e9 / OPS);
	hwheel_destroy(w);
}

static struct {
	struct hwheel *w;
	hwheel_timer_t *t;
} book;

static void book_pair(uint64_t i, uint64_t due)
{
	hwheel_timer_delete(book.w, book.t[i]);
	hwheel_timer_mod(book.w, book.t[i], due, HWHEEL_ABS);
}

static void book_sweep(uint64_t now)
{
	hwheel_advance(book.w, now, NULL, 0, NULL);
}

/* W9: beside the textbook's lists and heap. */
static void w9(uint64_t n)
{
	struct rng r = { SEED };

	book.w = wheel(HWHEEL_CLOCK_MANUAL, MS);
	book.t = timers(book.w, n, &r);
	textbook(n, book_pair, book_sweep);
	hwheel_destroy(book.w);
}

int main(int argc, char **argv)
{
	const char *what = argc > 1 ? argv[1] : "";
	uint64_t n = argc > 2 ? strtoull(argv[2], NULL, 10) : 1;
	unsigned threads = argc > 3 ? (unsigned)atoi(argv[3]) : 1;

	if (strcmp(what, "rearm") == 0)
		hot(0);
	else if (strcmp(what, "pair") == 0)
		hot(1);
	else if (strcmp(what, "W1a") == 0 || strcmp(what, "W4churn") == 0)
		w1(PAIR, n, threads);
	else if (strcmp(what, "W1b") == 0)
		w1(MOVE, n, threads);
	else if (strcmp(what, "W4constant") == 0)
		w1(CONSTANT, n, threads);
	else if (strcmp(what, "W4cross") == 0)
		w4_cross();
	else if (strcmp(what, "W2") == 0)
		w2();
	else if (strcmp(what, "W3") == 0)
		w3(n, 0);
	else if (strcmp(what, "W3same") == 0)
		w3(n, 1);
	else if (strcmp(what, "W3worn") == 0)
		w3_worn(n);
	else if (strcmp(what, "idle") == 0)
		idle_advance();
	else if (strcmp(what, "W5thread") == 0)
		w5(1, n);
	else if (strcmp(what, "W5fd") == 0)
		w5(0, n);
	else if (strcmp(what, "W6") == 0)
		w6(n);
	else if (strcmp(what, "W6growth") == 0)
		w6_growth();
	else if (strcmp(what, "W7") == 0)
		w7();
	else if (strcmp(what, "W8delay") == 0)
		w8(n, 1, 0);
	else if (strcmp(what, "W8coarse") == 0)
		w8(n, 1, HWHEEL_COARSE);
	else if (strcmp(what, "W8at") == 0)
		w8(n, 0, 0);
	else if (strcmp(what, "W9") == 0)
		w9(n);
	else
		return 2;
	return 0;
}
