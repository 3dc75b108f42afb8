/* The library. Its timers are named by handles, which the caller keeps in its objects. */
#define HAS_BATCH
#define HAS_CLOCK
#define HAS_SERVER
#define HAS_PREFETCH
#if defined(OWNED) && defined(WHEEL_EACH)
#define HAS_MESSAGES
#endif
/* What a caller keeps for a timer is no memory of the library's. */
#define HAS_HANDLES
#include BENCH_LIBRARY
#include <poll.h>

static OF_LOOP bench_wheel *wheel;
/* The time that delays count from, as the loop has last read it. */
static PER_THREAD uint64_t now_ns;
static uint64_t tick_length;

struct timer {
	bench_timer handle;
};

static void expired(bench_wheel *w, const bench_event *e)
{
	uint64_t again = fired(e->cookie);

	if (again > 0)
		check(bench_arm(w, e->timer, now_ns + again * tick_length));
}

static inline void begin(unsigned threads, uint64_t tick_ns)
{
	(void)threads;
	tick_length = tick_ns;
	check(bench_create(BENCH_MANUAL, tick_ns, &wheel));
}

static inline int setup(struct timer *t, uint64_t cookie)
{
	return bench_setup(wheel, expired, cookie, &t->handle);
}

static inline int arm(struct timer *t, uint64_t delay)
{
	return bench_arm(wheel, t->handle, now_ns + delay * tick_length);
}

static inline int cancel(struct timer *t)
{
	return bench_cancel(wheel, t->handle);
}

static inline int arm_many(struct timer **t, uint64_t *times)
{
	bench_timer handles[BATCH_SIZE];

	for (unsigned i = 0; i < BATCH_SIZE; i++) {
		handles[i] = t[i]->handle;
		times[i] = now_ns + times[i] * tick_length;
	}
	return bench_arm_many(wheel, handles, times, BATCH_SIZE) == BATCH_SIZE ? 0 : -1;
}

static inline void prefetch(struct timer *t)
{
	bench_prefetch(wheel, t->handle);
}

static inline int sweep(uint64_t n)
{
	now_ns += n * tick_length;
	return bench_advance(wheel, now_ns);
}

static int descriptor = -1;

static inline void begin_real(int threaded, uint64_t tick_ns)
{
	tick_length = tick_ns;
	check(bench_create(BENCH_MONOTONIC, tick_ns, &wheel));
	if (threaded)
		check(bench_start(wheel));
	else
		check(descriptor = bench_fd(wheel));
}

static inline int arm_ns(struct timer *t, uint64_t delay_ns)
{
	return bench_arm_in(wheel, t->handle, delay_ns);
}

static inline void sleep_and_fire(void)
{
	struct pollfd p = { .fd = descriptor, .events = POLLIN };

	if (descriptor < 0) {
		usleep(20000);
		return;
	}
	poll(&p, 1, -1);
	check(bench_poll(wheel));
}

#ifdef HAS_MESSAGES
static bench_wheel *wheels[MOST_THREADS];

/* A thread calls it after begin(). */
static inline void answer_to(unsigned number)
{
	wheels[number] = wheel;
}

static void received(bench_wheel *w, const bench_event *e)
{
	(void)w;
	fired(e->cookie);
}

static inline int message(unsigned number)
{
	return bench_message(wheels[number], received, 0);
}
#endif

#ifdef OWNED
/* A loop that owns its wheel sets the time, as the last step before it sleeps. */
static inline int begin_server(void)
{
	begin(1, MS);
	return -1;
}

static inline void woken(uint64_t time_ns)
{
	now_ns = time_ns;
}

static inline int patience(void)
{
	uint64_t next_ns;

	check(bench_advance_until(wheel, now_ns, &next_ns));
	if (next_ns <= now_ns)
		return 0;
	return next_ns - now_ns > 60 * SEC ? 60000 : (int)((next_ns - now_ns + MS - 1) / MS);
}

static inline void ready(struct timer *t)
{
	(void)t;
}
#else
/* The loop that drives a wheel has its descriptor. */
static inline int begin_server(void)
{
	begin_real(0, MS);
	return descriptor;
}

static inline void woken(uint64_t time_ns)
{
	now_ns = time_ns;
}

static inline int patience(void)
{
	return -1;
}

static inline void ready(struct timer *t)
{
	(void)t;
	check(bench_poll(wheel));
}
#endif
