/* ratas, a hierarchical wheel in C++: https://github.com/jsnell/ratas */
#include "../workloads.h"
#include "lock.h"
#include <algorithm>
#include <new>
#include <timer-wheel.h>

static TimerWheel *wheel;

struct timer : TimerEventInterface {
	uint64_t cookie;

	void execute() override
	{
		uint64_t again = fired(cookie);

		if (again > 0)
			wheel->schedule(this, again);
	}
};

#include "in_array.h"

static void begin(unsigned threads, uint64_t)
{
	lock_for(threads);
	wheel = new TimerWheel;
}

static timer *make(uint64_t n)
{
	timer *t = static_cast<timer *>(pages(n * sizeof *t));

	for (uint64_t i = 0; i < n; i++) {
		new (&t[i]) timer;
		t[i].cookie = i;
	}
	return t;
}

static inline int arm(timer *t, uint64_t delay)
{
	lock();
	wheel->schedule(t, delay);
	unlock();
	return 0;
}

#include "arm_moves.h"

static inline int cancel(timer *t)
{
	lock();
	t->cancel();
	unlock();
	return 0;
}

static inline int sweep(uint64_t n)
{
	lock();
	wheel->advance(n);
	unlock();
	return 0;
}
