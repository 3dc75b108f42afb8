/* The library: its descriptor is in epoll, times count from the loop's clock. */
#include BENCH_LIBRARY

struct timers { bench_timer idle, deadline; };

static bench_wheel *wheel;

static void on_idle(bench_wheel *w, const bench_event *e)
{
	(void)w;
	idle_expired((struct connection *)(uintptr_t)e->cookie);
}

static void on_deadline(bench_wheel *w, const bench_event *e)
{
	(void)w;
	deadline_expired((struct connection *)(uintptr_t)e->cookie);
}

static void must(int result)
{
	if (result < 0) {
		errno = -result;
		die("hwheel");
	}
}

static void timers_begin(void)
{
	struct epoll_event e = { .events = EPOLLIN, .data.ptr = (void *)1 };
	int fd;

	must(bench_create(BENCH_MONOTONIC, MS, &wheel));
	must(fd = bench_fd(wheel));
	if (epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &e) != 0)
		die("epoll_ctl");
}

static void timers_setup(struct connection *c)
{
	must(bench_setup(wheel, on_idle, (uintptr_t)c, &timers_of(c)->idle));
	must(bench_setup(wheel, on_deadline, (uintptr_t)c, &timers_of(c)->deadline));
}

static void idle_refresh(struct connection *c, uint64_t ms)
{
	must(bench_arm(wheel, timers_of(c)->idle, now_ns + ms * MS));
}

static void deadline_begin(struct connection *c)
{
	must(bench_arm(wheel, timers_of(c)->deadline, now_ns + DEADLINE_MS * MS));
}

static void deadline_end(struct connection *c)
{
	must(bench_cancel(wheel, timers_of(c)->deadline));
}

static void timers_woken(void) {}

static void timers_ready(struct connection *c)
{
	(void)c;
	must(bench_poll(wheel));
}

static void loop(void)
{
	for (;;)
		serve(-1);
}
