/* wahern/timeout, a hierarchical wheel in C: https://github.com/wahern/timeout */
#define HAS_SERVER
#define HAS_PREFETCH
/* Its file has a function of this name. */
#define check wahern_check
#include <timeout.c>
#undef check

struct timer {
	struct timeout timeout;
	uint64_t cookie;
};

static OF_LOOP struct timeouts *wheel;
static timeout_t now;

static inline void begin(unsigned threads, uint64_t tick_ns)
{
	int error;

	(void)tick_ns;
	lock_for(threads);
	wheel = timeouts_open(0, &error);
	check(wheel != NULL ? 0 : -1);
}

static void expired(struct timer *t)
{
	uint64_t again = fired(t->cookie);

	if (again > 0)
		timeouts_add(wheel, &t->timeout, again);
}

static inline int setup(struct timer *t, uint64_t cookie)
{
	timeout_init(&t->timeout, 0);
	t->timeout.callback.fn = expired;
	t->timeout.callback.arg = t;
	t->cookie = cookie;
	return 0;
}

static inline int arm(struct timer *t, uint64_t delay)
{
	lock();
	timeouts_add(wheel, &t->timeout, delay);
	unlock();
	return 0;
}

static inline int cancel(struct timer *t)
{
	lock();
	timeouts_del(wheel, &t->timeout);
	unlock();
	return 0;
}

static inline void prefetch(struct timer *t)
{
	__builtin_prefetch(t);
	__builtin_prefetch((char *)(t + 1) - 1);
}

static inline void pass_to(timeout_t time)
{
	struct timeout *t;

	timeouts_update(wheel, time);
	while ((t = timeouts_get(wheel)) != NULL)
		t->callback.fn(t->callback.arg);
}

static inline int sweep(uint64_t n)
{
	lock();
	pass_to(now += n);
	unlock();
	return 0;
}

static inline int begin_server(void)
{
	begin(1, MS);
	timeouts_update(wheel, nanoseconds() / MS);
	return -1;
}

static inline void woken(uint64_t now_ns)
{
	lock();
	pass_to(now_ns / MS);
	unlock();
}

static inline int patience(void)
{
	timeout_t ms;

	lock();
	ms = timeouts_timeout(wheel);
	unlock();
	return ms > 60000 ? 60000 : (int)ms;
}

static inline void ready(struct timer *t)
{
	(void)t;
}
