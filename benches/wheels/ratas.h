/* ratas, a hierarchical wheel in C++: https://github.com/jsnell/ratas */
#define HAS_SERVER
#define HAS_PREFETCH
#include <algorithm>
#include <new>
#include <timer-wheel.h>

static OF_LOOP TimerWheel *wheel;

struct timer : TimerEventInterface {
	uint64_t cookie;

	void execute() override
	{
		uint64_t again = fired(cookie);

		if (again > 0)
			wheel->schedule(this, again);
	}
};

static inline void begin(unsigned threads, uint64_t)
{
	lock_for(threads);
	wheel = new TimerWheel;
}

static inline int setup(timer *t, uint64_t cookie)
{
	new (t) timer;
	t->cookie = cookie;
	return 0;
}

static inline int arm(timer *t, uint64_t delay)
{
	lock();
	wheel->schedule(t, delay);
	unlock();
	return 0;
}

static inline int cancel(timer *t)
{
	lock();
	t->cancel();
	unlock();
	return 0;
}

/* Which neighbours a call will need stands in the timer itself. */
static inline void prefetch(timer *t)
{
	__builtin_prefetch(t);
	__builtin_prefetch((char *)(t + 1) - 1);
}

static inline int sweep(uint64_t n)
{
	lock();
	wheel->advance(n);
	unlock();
	return 0;
}

static OF_LOOP uint64_t start_ns;

static inline int begin_server(void)
{
	wheel = new TimerWheel;
	start_ns = nanoseconds();
	return -1;
}

static inline void woken(uint64_t now_ns)
{
	uint64_t tick = (now_ns - start_ns) / MS;

	lock();
	/* With one wheel for all, another loop may have been later. */
	if (now_ns > start_ns && tick > wheel->now())
		wheel->advance(tick - wheel->now());
	unlock();
}

static inline int patience(void)
{
	int ms;

	lock();
	ms = static_cast<int>(wheel->ticks_to_next_event(60000));
	unlock();
	return ms;
}

static inline void ready(timer *) {}
