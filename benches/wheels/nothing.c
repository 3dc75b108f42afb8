/* No timers at all: what the loops of the workloads take themselves. */
#include "../workloads.h"

struct timer {
	char byte;
};

static void prepare(uint64_t n)
{
	(void)n;
}

static void begin(unsigned threads, uint64_t tick_ns)
{
	(void)threads;
	(void)tick_ns;
}

static struct timer *make(uint64_t n)
{
	return pages(n * sizeof(struct timer));
}

static inline struct timer *nth(struct timer *t, uint64_t i)
{
	return &t[i];
}

/* The compiler must work out the arguments. */
static inline int arm(struct timer *t, uint64_t delay)
{
	__asm__ volatile("" : : "r"(t), "r"(delay));
	(void)fired;
	return 0;
}

static inline int move(struct timer *t, uint64_t delay)
{
	return arm(t, delay);
}

static inline int refresh(struct timer *t)
{
	return arm(t, TIMEOUT);
}

static inline int cancel(struct timer *t)
{
	return arm(t, 0);
}

static inline int sweep(uint64_t n)
{
	return arm(NULL, n);
}
