/* No timers at all: what the loops of the workloads take themselves. */
#include "../workloads.h"

struct timer {
	char byte;
};

#include "in_array.h"

static void begin(unsigned threads, uint64_t tick_ns)
{
	(void)threads;
	(void)tick_ns;
}

static struct timer *make(uint64_t n)
{
	return pages(n * sizeof(struct timer));
}

/* The compiler must work out the arguments. */
static inline int arm(struct timer *t, uint64_t delay)
{
	__asm__ volatile("" : : "r"(t), "r"(delay));
	(void)fired;
	return 0;
}

#include "arm_moves.h"

static inline int cancel(struct timer *t)
{
	return arm(t, 0);
}

static inline int sweep(uint64_t n)
{
	return arm(NULL, n);
}
