/*
 * The library. Its timers are named by handles, which the caller keeps in a
 * table, as in its connections. With AT_HAND a handle is computed: what a call
 * costs if the caller has just used the object that holds the handle.
 */
#define HAS_BATCH
#define HAS_CLOCK
#include "../workloads.h"
#include BENCH_LIBRARY
#include <poll.h>

static bench_wheel *wheel;
static uint64_t now, tick_length;

struct timer {
	bench_timer handle;
};

static void expired(bench_wheel *w, const bench_event *e)
{
	uint64_t again = fired(e->cookie);

	if (again > 0)
		check(bench_arm(w, e->timer, (now + again) * tick_length));
}

static void begin(unsigned threads, uint64_t tick_ns)
{
	(void)threads;
	tick_length = tick_ns;
	check(bench_create(BENCH_MANUAL, tick_ns, &wheel));
}

static int descriptor = -1;

static void begin_real(int threaded, uint64_t tick_ns)
{
	tick_length = tick_ns;
	check(bench_create(BENCH_MONOTONIC, tick_ns, &wheel));
	if (threaded)
		check(bench_start(wheel));
	else
		check(descriptor = bench_fd(wheel));
}

static void sleep_and_fire(void)
{
	struct pollfd p = { .fd = descriptor, .events = POLLIN };

	if (descriptor < 0) {
		usleep(20000);
		return;
	}
	poll(&p, 1, -1);
	check(bench_poll(wheel));
}

static struct timer *table;

static void prepare(uint64_t n)
{
	table = pages(n * sizeof *table);
	memset(table, 1, n * sizeof *table);
}

static struct timer *make_table(uint64_t n)
{
	struct timer *t = table ? table : pages(n * sizeof *t);

	for (uint64_t i = 0; i < n; i++)
		check(bench_setup(wheel, expired, i, &t[i].handle));
	return t;
}

#ifdef AT_HAND
/*
 * A pointer to a timer is its handle, which has an index in bits 26 to 51, and the low and
 * the high part of a generation in bits 8 to 25 and 52 to 63. The pointer to all of them is
 * the handle of the first without its generation.
 */
#define INDEX(handle)		((handle) >> 26 & 0x3ffffff)
#define GENERATION(handle)	((handle) >> 52 << 18 | ((handle) >> 8 & 0x3ffff))
#define NAME(generation)	(((generation) >> 18 & 0xfff) << 52 | ((generation) & 0x3ffff) << 8)

/* The generation of the first one, and from one to the next. */
static uint64_t generation, stride;

static int by_index(const void *a, const void *b)
{
	uint64_t x = INDEX(((const struct timer *)a)->handle);
	uint64_t y = INDEX(((const struct timer *)b)->handle);

	return x < y ? -1 : x > y;
}

static inline struct timer *nth(struct timer *t, uint64_t i)
{
	return (struct timer *)((uintptr_t)t + (i << 26) + NAME(generation + i * stride));
}

static struct timer *make(uint64_t n)
{
	struct timer *t = make_table(n), *all;

	qsort(t, n, sizeof *t, by_index);
	generation = GENERATION(t[0].handle);
	stride = n > 1 ? GENERATION(t[1].handle) - generation : 0;
	all = (struct timer *)(uintptr_t)(t[0].handle - NAME(generation));
	for (uint64_t i = 0; i < n; i++) {
		if (t[i].handle != (uintptr_t)nth(all, i)) {
			fprintf(stderr, "a handle cannot be computed\n");
			exit(1);
		}
	}
	return all;
}

static inline bench_timer handle(struct timer *t)
{
	return (bench_timer)(uintptr_t)t;
}
#else
static struct timer *make(uint64_t n)
{
	return make_table(n);
}

static inline struct timer *nth(struct timer *t, uint64_t i)
{
	return &t[i];
}

static inline bench_timer handle(struct timer *t)
{
	return t->handle;
}
#endif

static inline int arm(struct timer *t, uint64_t delay)
{
	return bench_arm(wheel, handle(t), (now + delay) * tick_length);
}

static inline int arm_ns(struct timer *t, uint64_t delay_ns)
{
	return bench_arm_in(wheel, handle(t), delay_ns);
}

#include "arm_moves.h"

static inline int cancel(struct timer *t)
{
	return bench_cancel(wheel, handle(t));
}

static inline int move_many(struct timer **t, uint64_t *times)
{
	bench_timer handles[BATCH_SIZE];

	for (unsigned i = 0; i < BATCH_SIZE; i++) {
		handles[i] = handle(t[i]);
		times[i] = (now + times[i]) * tick_length;
	}
	return bench_arm_many(wheel, handles, times, BATCH_SIZE) == BATCH_SIZE ? 0 : -1;
}

static inline int sweep(uint64_t n)
{
	now += n;
	return bench_advance(wheel, now * tick_length);
}
