/* A descriptor of the kernel's for each connection: its deadline or idle timeout. */
#include <sys/timerfd.h>

struct timers { int fd, in_request; };


static void timers_begin(void) {}
static void timers_woken(void) {}

static void timers_setup(struct connection *c)
{
	struct epoll_event e = { .events = EPOLLIN, .data.ptr = (char *)c + 1 };
	int fd = timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC);

	if (fd < 0 || epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &e) != 0)
		die("timerfd");
	timers_of(c)->fd = fd;
}

static void set(struct connection *c, uint64_t ms)
{
	uint64_t due = now_ns + ms * MS;
	struct itimerspec at = { .it_value = { (time_t)(due / SEC), (long)(due % SEC) } };

	if (timerfd_settime(timers_of(c)->fd, TFD_TIMER_ABSTIME, &at, NULL) != 0)
		die("timerfd_settime");
}

static void idle_refresh(struct connection *c, uint64_t ms)
{
	timers_of(c)->in_request = 0;
	set(c, ms);
}

static void deadline_begin(struct connection *c)
{
	timers_of(c)->in_request = 1;
	set(c, DEADLINE_MS);
}

static void deadline_end(struct connection *c)
{
	(void)c;
}

static void timers_ready(struct connection *c)
{
	uint64_t times;

	if (read(timers_of(c)->fd, &times, sizeof times) != sizeof times)
		return;
	if (timers_of(c)->in_request)
		deadline_expired(c);
	else
		idle_expired(c);
}

static void loop(void)
{
	for (;;)
		serve(-1);
}
