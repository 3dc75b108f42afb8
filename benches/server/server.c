/*
 * An echo server on epoll in one thread. Each connection has an idle timeout,
 * and each request a deadline: a request arms and cancels its deadline and
 * refreshes the idle timeout. Who keeps the time is a header, TIMERS, and nothing
 * else differs.
 *
 * An idle timeout that expires is recorded and armed again, as if a probe had been
 * sent, so that the number of connections stays what it is.
 *
 * usage: server DESCRIPTOR-OF-SHARED-MEMORY
 */
#include "shared.h"
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/tcp.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>

struct connection;
struct timers;
static void idle_expired(struct connection *c);
static void deadline_expired(struct connection *c);
static int epoll = -1;
static struct shared *shared;

/* The loop's idea of the time: read once for each time that it wakes. */
static uint64_t now_ns;

static void die(const char *what)
{
	perror(what);
	exit(1);
}

/* One round of the loop, in which it waits at most so long. */
static void serve(int timeout_ms);

/*
 * TIMERS defines struct timers, a part of each connection, and
 *	timers_begin()		before all others
 *	timers_setup(c)		a new connection
 *	idle_refresh(c, ms)	arm or move its idle timeout
 *	deadline_begin(c)	arm the deadline of a request
 *	deadline_end(c)		cancel it; idle_refresh() follows
 *	timers_woken()		the loop has read the clock
 *	timers_ready(c)		a descriptor that TIMERS has put into epoll is readable
 *	loop()			call serve() without end
 */
static struct timers *timers_of(struct connection *c);
#include TIMERS

struct connection {
	int fd;
	uint32_t received;
	uint64_t idle_due;
	struct timers timers;
};

static inline struct timers *timers_of(struct connection *c)
{
	return &c->timers;
}

/* What a descriptor in epoll is: a listener, a connection, or of the timers. */
#define OF_TIMERS 1

static int listener;

static void idle_expired(struct connection *c)
{
	uint64_t n = atomic_load_explicit(&shared->expired, memory_order_relaxed);

	shared->late[n % LATES] = (int64_t)(nanoseconds() - c->idle_due);
	atomic_store_explicit(&shared->expired, n + 1, memory_order_release);
	c->idle_due = now_ns + IDLE_MS * MS;
	idle_refresh(c, IDLE_MS);
}

static void deadline_expired(struct connection *c)
{
	fprintf(stderr, "a request on descriptor %d took too long\n", c->fd);
	exit(1);
}

static inline void count(_Atomic uint64_t *counter)
{
	atomic_store_explicit(counter, atomic_load_explicit(counter, memory_order_relaxed) + 1,
			      memory_order_relaxed);
}

static inline void doing(enum doing what)
{
	atomic_store_explicit(&shared->doing, what, memory_order_relaxed);
}

static void accept_all(void)
{
	static struct rng r = { SEED };
	struct epoll_event e = { .events = EPOLLIN };
	int one = 1;

	for (;;) {
		int fd = accept4(listener, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
		struct connection *c;
		uint64_t ms = 1 + below(&r, IDLE_MS);

		if (fd < 0 && errno == EAGAIN)
			return;
		if (fd < 0)
			die("accept");
		setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
		c = calloc(1, sizeof *c);
		if (c == NULL)
			die("calloc");
		c->fd = fd;
		timers_setup(c);
		/* As if it had been silent for a while, so that timeouts are spread. */
		c->idle_due = now_ns + ms * MS;
		idle_refresh(c, ms);
		e.data.ptr = c;
		if (epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &e) != 0)
			die("epoll_ctl");
		count(&shared->accepted);
	}
}

static void talk(struct connection *c)
{
	char buffer[REQUEST];
	ssize_t n = read(c->fd, buffer, sizeof buffer - c->received);

	if (n <= 0) {
		/* The load generator has gone. */
		if (n == 0 || errno == ECONNRESET)
			exit(0);
		if (errno == EAGAIN)
			return;
		die("read");
	}
	if (c->received == 0) {
		doing(IN_TIMERS);
		deadline_begin(c);
		doing(SERVING);
	}
	c->received += (uint32_t)n;
	if (c->received < REQUEST)
		return;
	c->received = 0;
	if (write(c->fd, buffer, REQUEST) != REQUEST)
		die("write");
	c->idle_due = now_ns + IDLE_MS * MS;
	doing(IN_TIMERS);
	deadline_end(c);
	idle_refresh(c, IDLE_MS);
	doing(SERVING);
	count(&shared->requests);
}

static void serve(int timeout_ms)
{
	struct epoll_event events[256];
	int n;

	doing(SLEEPING);
	n = epoll_wait(epoll, events, 256, timeout_ms);
	doing(SERVING);
	if (n < 0 && errno != EINTR)
		die("epoll_wait");
	now_ns = nanoseconds();
	doing(IN_TIMERS);
	timers_woken();
	doing(SERVING);
	for (int i = 0; i < n; i++) {
		uintptr_t what = (uintptr_t)events[i].data.ptr;

		if (what == 0) {
			accept_all();
		} else if (what & OF_TIMERS) {
			doing(IN_TIMERS);
			timers_ready((struct connection *)(what - OF_TIMERS));
			doing(SERVING);
		} else {
			talk((struct connection *)what);
		}
	}
}

int main(int argc, char **argv)
{
	struct sockaddr_in a = { .sin_family = AF_INET };
	socklen_t size = sizeof a;
	struct rlimit files;
	struct epoll_event e = { .events = EPOLLIN };

	if (argc != 2)
		return 2;
	pin(0);
	getrlimit(RLIMIT_NOFILE, &files);
	files.rlim_cur = files.rlim_max;
	setrlimit(RLIMIT_NOFILE, &files);
	shared = mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED, atoi(argv[1]), 0);
	epoll = epoll_create1(EPOLL_CLOEXEC);
	listener = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	a.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	if (shared == MAP_FAILED || epoll < 0 || listener < 0 ||
	    bind(listener, (struct sockaddr *)&a, sizeof a) != 0 || listen(listener, 4096) != 0 ||
	    getsockname(listener, (struct sockaddr *)&a, &size) != 0)
		die("listen");
	now_ns = nanoseconds();
	timers_begin();
	if (epoll_ctl(epoll, EPOLL_CTL_ADD, listener, &e) != 0)
		die("epoll_ctl");
	atomic_store(&shared->port, ntohs(a.sin_port));
	loop();
	return 0;
}
