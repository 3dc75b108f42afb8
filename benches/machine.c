/* The machine's own prices, to compare those of timers with. */
#include "bench.h"
#include <poll.h>
#include <stdatomic.h>
#include <sys/timerfd.h>
#include <unistd.h>

struct node {
	_Alignas(64) _Atomic uint64_t word;
	uint64_t rest[7];
};

/*
 * Load and compare-exchange of a random one of n nodes: what no timer that any
 * thread may cancel can beat.
 */
static void exchange(struct node *nodes, uint64_t n)
{
	struct rng r = { SEED };
	double t;

	for (uint64_t i = 0; i < n; i++)
		atomic_store_explicit(&nodes[i].word, i, memory_order_relaxed);
	t = seconds();
	for (uint64_t i = 0; i < OPS; i++) {
		struct node *node = &nodes[n == 1 ? 0 : below(&r, n)];
		uint64_t seen = atomic_load_explicit(&node->word, memory_order_acquire);

		atomic_compare_exchange_strong_explicit(&node->word, &seen, seen + 64,
							memory_order_acq_rel,
							memory_order_acquire);
	}
	figure("ns", (seconds() - t) * 1e9 / OPS);
}

static _Atomic uint64_t shared_word;

static void *adder(void *arg)
{
	double *s = arg;

	pin(*s > 0);
	while (atomic_load(&shared_word) == 0)
		;
	*s = seconds();
	for (int i = 0; i < 5 * OPS; i++)
		atomic_fetch_add_explicit(&shared_word, 1, memory_order_relaxed);
	*s = seconds() - *s;
	return NULL;
}

/* The time of a write to a line that @threads threads write. */
static void contended(unsigned threads)
{
	double s[MOST_THREADS], most = 0;
	pthread_t id[MOST_THREADS];

	for (unsigned i = 0; i < threads; i++) {
		s[i] = i;
		start_thread(&id[i], adder, &s[i]);
	}
	usleep(10000);
	atomic_store(&shared_word, 1);
	for (unsigned i = 0; i < threads; i++) {
		pthread_join(id[i], NULL);
		most = s[i] > most ? s[i] : most;
	}
	figure("ns", most * 1e9 / OPS / 5 / threads);
}

/* A plain write to two words of a random one of n nodes. */
static void update(struct node *nodes, uint64_t n)
{
	volatile struct node *v = nodes;
	struct rng r = { SEED };
	double t;

	for (uint64_t i = 0; i < n; i++)
		v[i].rest[0] = i;
	t = seconds();
	for (uint64_t i = 0; i < OPS; i++) {
		volatile struct node *node = &v[below(&r, n)];

		node->rest[0] += i;
		node->rest[1] = i;
	}
	figure("ns", (seconds() - t) * 1e9 / OPS);
}

static void read_clock(void)
{
	double t = seconds();
	uint64_t sum = 0;

	for (int i = 0; i < OPS / 10; i++)
		sum += nanoseconds();
	figure("ns", (seconds() - t) * 1e9 / (OPS / 10) + (double)(sum & 1) * 1e-9);
}

/*
 * A raw timerfd: 1,000 deadlines uniform in [1 ms, 1 s], in order. With
 * a tick, the timerfd is set to the deadline rounded up to it, as in a wheel;
 * lateness is counted from the deadline itself.
 */
static void timerfd_lateness(uint64_t tick)
{
	enum { N = 1000 };
	static int64_t due[N], late[N];
	struct rng r = { SEED };
	int fd = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC);
	uint64_t start = nanoseconds(), times;

	for (int i = 0; i < N; i++)
		due[i] = (int64_t)(start + MS + below(&r, SEC - MS));
	qsort(due, N, sizeof due[0], ascending);
	for (int i = 0; i < N; i++) {
		uint64_t set = ((uint64_t)due[i] + tick - 1) / tick * tick;
		struct itimerspec at = {
			.it_value = { (time_t)(set / SEC), (long)(set % SEC) },
		};

		timerfd_settime(fd, TFD_TIMER_ABSTIME, &at, NULL);
		if (read(fd, &times, sizeof times) != sizeof times)
			exit(1);
		late[i] = (int64_t)nanoseconds() - due[i];
	}
	close(fd);
	quantiles(late, N);
}

int main(int argc, char **argv)
{
	const char *what = argc > 1 ? argv[1] : "";
	uint64_t n = argc > 2 ? strtoull(argv[2], NULL, 10) : 1;

	pin(0);
	if (strcmp(what, "exchange") == 0)
		exchange(pages(n * sizeof(struct node)), n);
	else if (strcmp(what, "contended") == 0 && n <= MOST_THREADS)
		contended((unsigned)n);
	else if (strcmp(what, "update") == 0)
		update(pages(n * sizeof(struct node)), n);
	else if (strcmp(what, "clock") == 0)
		read_clock();
	else if (strcmp(what, "lateness") == 0)
		timerfd_lateness(n > 0 ? n * 1000 : 1);
	else
		return 2;
	return 0;
}
