/*
 * What the benchmark programs ask of an implementation of timers. A program includes this
 * file, then WHEEL, a file of benches/wheels, which defines struct timer and the functions
 * below, each as the cheapest correct call for its job. Times are ticks of 1 ms, which each
 * implementation gets in its own unit. A function that returns an int returns a negative
 * number on failure. C and C++.
 */
#ifndef WHEEL_H
#define WHEEL_H

#include "bench.h"
#include <sys/syscall.h>

/* An idle timeout, and the deadline of a request, in ticks. */
#ifndef TIMEOUT
#define TIMEOUT 30000
#endif
#define DEADLINE 5000

struct timer;
/* Make the wheel, for this many threads, with ticks of this length. */
static void begin(unsigned threads, uint64_t tick_ns);
/* Make a timer in zeroed memory, which calls fired(cookie) when it expires. */
static int setup(struct timer *t, uint64_t cookie);
/* Arm a timer, whether it is pending or not. */
static int arm(struct timer *t, uint64_t ticks);
static int cancel(struct timer *t);
/* Pass @ticks ticks and fire what is due. */
static int sweep(uint64_t ticks);
/*
 * HAS_CONSTANT: separate functions arm the constant timeouts.
 *	static int refresh(struct timer *t)		arm with TIMEOUT
 *	static int deadline(struct timer *t)		arm with DEADLINE
 * HAS_BATCH: several timers in one call; @ticks may be overwritten.
 *	static int arm_many(struct timer **t, uint64_t *ticks)
 * HAS_PREFETCH: fetch what calls on the timer of a connection will need.
 *	static void prefetch(struct timer *t)
 * HAS_CLOCK: a wheel on the real clock.
 *	static void begin_real(int threaded, uint64_t tick_ns)
 *	static int arm_ns(struct timer *t, uint64_t delay_ns)
 *	static void sleep_and_fire(void)		until something may be due
 * HAS_SERVER: a wheel in the loop of a server, with ticks of 1 ms.
 *	static int begin_server(void)			a descriptor to wait for, or -1
 *	static void woken(uint64_t now_ns)		the loop has read the clock
 *	static int patience(void)			for how many ms it may sleep, or -1
 *	static void ready(struct timer *t)		a descriptor is readable
 * HAS_MESSAGES: another thread's wheel calls fired(0) soon.
 *	static int message(unsigned thread)
 * NO_CLOCK: the loop of the server need not wake for it; instead of the first three of these.
 *
 * A connection has an array of two timers: its idle timeout with an even cookie, and the
 * deadline of its request with an odd one, of which only one is pending at a time.
 */
enum { IDLE, REQUEST, TIMERS };

/* The loops of a server, and the threads of a workload, share one wheel, or have one each. */
#ifdef WHEEL_EACH
#define OF_LOOP __thread
#else
#define OF_LOOP
#endif
#if defined(SERVER) || defined(WHEEL_EACH)
#define PER_THREAD __thread
#else
#define PER_THREAD
#endif

/* In how many ticks to arm a timer again that has expired, or 0. */
static inline uint64_t fired(uint64_t cookie);

static inline void check(int result)
{
	if (result < 0) {
		fprintf(stderr, "a call has failed: %d\n", result);
		exit(1);
	}
}

/* What a timer does when it has expired: nothing, or arm itself again after a random number
 * of ticks, always the same, or as a connection that has been silent. */
static enum { ONCE, RANDOM, FIFO, IDLES } repeat __attribute__((unused));

/*
 * What a user puts around timers for one thread if there are several: nothing,
 * a spin lock or a mutex, chosen when the program is compiled.
 */
#if defined(LOCK_SPIN)
static struct { int taken; char rest[60]; } spin __attribute__((aligned(64)));

static inline void relax(void)
{
#if defined(__x86_64__) || defined(__i386__)
	__builtin_ia32_pause();
#elif defined(__aarch64__)
	__asm__ volatile("yield");
#endif
}

static inline void lock(void)
{
	while (__atomic_exchange_n(&spin.taken, 1, __ATOMIC_ACQUIRE))
		while (__atomic_load_n(&spin.taken, __ATOMIC_RELAXED))
			relax();
}

static inline void unlock(void)
{
	__atomic_store_n(&spin.taken, 0, __ATOMIC_RELEASE);
}
#elif defined(LOCK_MUTEX)
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;

static inline void lock(void)
{
	pthread_mutex_lock(&mutex);
}

static inline void unlock(void)
{
	pthread_mutex_unlock(&mutex);
}
#else
#ifndef WHEEL_EACH
#define ONE_THREAD
#endif
static inline void lock(void) {}
static inline void unlock(void) {}
#endif

static inline void lock_for(unsigned threads)
{
#ifdef ONE_THREAD
	if (threads > 1) {
		fprintf(stderr, "for one thread only\n");
		exit(1);
	}
#else
	(void)threads;
#endif
}

/*
 * A false clock for implementations that ask the C library for the time: it
 * shows the time of the workload, and is cheaper to read than the real one, which
 * is in their favour. A file of benches/wheels asks for it with FALSE_CLOCK.
 */
#define FALSE_CLOCK								\
/* The time shown; 0 for the real one. */					\
static uint64_t shown;								\
										\
int clock_gettime(clockid_t id, struct timespec *t)				\
{										\
	if (shown == 0 || id == CLOCK_MONOTONIC_RAW ||				\
	    id == CLOCK_THREAD_CPUTIME_ID)					\
		return (int)syscall(SYS_clock_gettime, id, t);			\
	t->tv_sec = (time_t)(shown / SEC);					\
	t->tv_nsec = (long)(shown % SEC);					\
	return 0;								\
}

#include WHEEL

static inline struct timer *nth(struct timer *t, uint64_t i)
{
	return &t[i];
}

/* n timers, in zeroed memory. */
static inline struct timer *make_in(struct timer *t, uint64_t n)
{
	lock();
	for (uint64_t i = 0; i < n; i++)
		check(setup(&t[i], i));
	unlock();
	return t;
}

static inline struct timer *make(uint64_t n)
{
	return make_in((struct timer *)pages(n * sizeof(struct timer)), n);
}

#ifdef NO_CLOCK
static inline int begin_server(void)
{
	return -1;
}

static inline void woken(uint64_t now_ns)
{
	(void)now_ns;
}

static inline int patience(void)
{
	return -1;
}
#endif

#ifndef HAS_CONSTANT
static inline int refresh(struct timer *t)
{
	return arm(t, TIMEOUT);
}

static inline int deadline(struct timer *t)
{
	return arm(t, DEADLINE);
}
#endif

#endif
