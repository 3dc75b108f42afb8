/*
 * A descriptor of the kernel's for each connection: the deadline of its request while
 * there is one, and else its idle timeout. Time is the real one.
 */
#define SLOW
#define HAS_SERVER
#define NO_CLOCK
#define HAS_CONSTANT
#include <sys/resource.h>
#include <sys/timerfd.h>

struct timer {
	int fd, in_request;
	uint64_t cookie;
};

static inline void begin(unsigned threads, uint64_t tick_ns)
{
	struct rlimit files;

	lock_for(threads);
	(void)tick_ns;
	(void)setrlimit(RLIMIT_NOFILE, &(struct rlimit){ 1 << 20, 1 << 20 });
	getrlimit(RLIMIT_NOFILE, &files);
	files.rlim_cur = files.rlim_max;
	setrlimit(RLIMIT_NOFILE, &files);
}

/* The descriptor is in the first timer of a connection. */
static inline int setup(struct timer *t, uint64_t cookie)
{
	t->cookie = cookie;
	if (cookie % TIMERS != IDLE)
		return 0;
	t->fd = timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC);
	if (t->fd < 0)
		perror("timerfd_create");
#ifdef SERVER
	wait_for(t->fd, t);
#endif
	return t->fd;
}

static inline int arm(struct timer *t, uint64_t ticks)
{
	struct itimerspec after = {
		.it_value = { (time_t)(ticks / 1000), (long)(ticks % 1000 * MS) },
	};

	t->in_request = 0;
	return timerfd_settime(t->fd, 0, &after, NULL);
}

static inline int refresh(struct timer *t)
{
	return arm(t, TIMEOUT);
}

static inline int deadline(struct timer *t)
{
	struct timer *idle = t - REQUEST;
	int result = arm(idle, DEADLINE);

	idle->in_request = 1;
	return result;
}

/* The idle timeout follows. */
static inline int cancel(struct timer *t)
{
	(void)t;
	return 0;
}

static inline int sweep(uint64_t n)
{
	(void)n;
	return 0;
}

static inline void ready(struct timer *t)
{
	uint64_t times, again;

	if (read(t->fd, &times, sizeof times) != sizeof times)
		return;
	again = fired(t->in_request ? t->cookie + REQUEST : t->cookie);
	if (again > 0)
		arm(t, again);
}
