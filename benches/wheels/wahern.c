/* wahern/timeout, a hierarchical wheel in C: https://github.com/wahern/timeout */
#include <timeout.c>
#undef check
#include "../workloads.h"
#include "lock.h"

struct timer {
	struct timeout timeout;
};

static struct timeouts *wheel;
static timeout_t now;

#include "in_array.h"

static void begin(unsigned threads, uint64_t tick_ns)
{
	int error;

	(void)tick_ns;
	lock_for(threads);
	wheel = timeouts_open(0, &error);
	check(wheel != NULL ? 0 : -1);
}

static void expired(struct timer *t)
{
	uint64_t again = fired(0);

	if (again > 0)
		timeouts_add(wheel, &t->timeout, again);
}

static struct timer *make(uint64_t n)
{
	struct timer *t = pages(n * sizeof *t);

	for (uint64_t i = 0; i < n; i++) {
		timeout_init(&t[i].timeout, 0);
		t[i].timeout.callback.fn = expired;
		t[i].timeout.callback.arg = &t[i];
	}
	return t;
}

static inline int arm(struct timer *t, uint64_t delay)
{
	lock();
	timeouts_add(wheel, &t->timeout, delay);
	unlock();
	return 0;
}

#include "arm_moves.h"

static inline int cancel(struct timer *t)
{
	lock();
	timeouts_del(wheel, &t->timeout);
	unlock();
	return 0;
}

static inline int sweep(uint64_t n)
{
	struct timeout *t;

	lock();
	timeouts_update(wheel, now += n);
	while ((t = timeouts_get(wheel)) != NULL)
		t->callback.fn(t->callback.arg);
	unlock();
	return 0;
}
