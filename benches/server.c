/*
 * An echo server on epoll, with a loop in one thread or in each of two. Each connection has
 * an idle timeout, and each request a deadline: a request arms and cancels its deadline and
 * refreshes the idle timeout. Who keeps the time is WHEEL, a file of benches/wheels, and
 * nothing else differs.
 *
 * An idle timeout that expires is recorded and armed again, as if a probe had been sent, so
 * that the number of connections stays what it is.
 *
 * usage: server DESCRIPTOR-OF-SHARED-MEMORY LOOPS
 */
#include "bench.h"
#include "server.h"
#include <errno.h>
#include <sys/epoll.h>
#include <sys/resource.h>

struct timer;
static __thread int epoll, listener;
static __thread struct counts *counts;
static struct shared *shared;
static unsigned loops;

static void die(const char *what)
{
	perror(what);
	exit(1);
}

/* One round of the loop, in which it waits at most so long. */
static void serve(int timeout_ms);

static inline void doing(enum doing what)
{
	__atomic_store_n(&counts->doing, what, __ATOMIC_RELAXED);
}

static void wait_for_any(int fd, void *what)
{
	struct epoll_event e;

	memset(&e, 0, sizeof e);
	e.events = EPOLLIN;
	e.data.ptr = what;
	if (epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &e) != 0)
		die("epoll_ctl");
}

/* A descriptor in epoll is a listener, a connection, or of the timers. */
#define OF_TIMERS 1

static inline void wait_for(int fd, struct timer *t)
{
	wait_for_any(fd, (char *)t + OF_TIMERS);
}

#include "wheel.h"

struct connection {
	int fd;
	uint32_t received;
	uint64_t idle_due;
	struct timer timers[TIMERS];
} __attribute__((aligned(64)));

/* The loop's idea of the time: read once for each time that it wakes. */
static __thread uint64_t loop_ns;

static inline uint64_t fired(uint64_t cookie)
{
	struct connection *c = (struct connection *)(uintptr_t)(cookie - cookie % TIMERS);
	uint64_t n = counts->expired;

	if (cookie % TIMERS == REQUEST) {
		fprintf(stderr, "a request on descriptor %d took too long\n", c->fd);
		exit(1);
	}
	if (counts == &shared->loops[0])
		shared->late[n % LATES] = (int64_t)(nanoseconds() - SEEN(c->idle_due));
	TELL(counts->expired, n + 1);
	TELL(c->idle_due, loop_ns + TIMEOUT * MS);
	return TIMEOUT;
}

static void accept_all(void)
{
	static __thread struct rng r;

	r.s = r.s == 0 ? SEED : r.s;
	for (;;) {
		int fd = accept4(listener, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC), one = 1;
		struct connection *c;
		uint64_t ms = 1 + below(&r, TIMEOUT);

		if (fd < 0 && errno == EAGAIN)
			return;
		if (fd < 0)
			die("accept");
		setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
		c = (struct connection *)aligned_alloc(64, sizeof *c);
		if (c == NULL)
			die("aligned_alloc");
		memset((void *)c, 0, sizeof *c);
		c->fd = fd;
		for (unsigned kind = 0; kind < TIMERS; kind++)
			check(setup(&c->timers[kind], (uintptr_t)c + kind));
		/* As if it had been silent for a while, so that timeouts are spread. */
		c->idle_due = loop_ns + ms * MS;
		check(arm(&c->timers[IDLE], ms));
		wait_for_any(fd, c);
		TELL(counts->accepted, counts->accepted + 1);
	}
}

static void talk(struct connection *c)
{
	char buffer[MESSAGE];
	ssize_t n;

#ifdef PREFETCH
	prefetch(&c->timers[IDLE]);
	prefetch(&c->timers[REQUEST]);
#endif
	n = read(c->fd, buffer, sizeof buffer - c->received);
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
		check(deadline(&c->timers[REQUEST]));
		doing(SERVING);
	}
	c->received += (uint32_t)n;
	if (c->received < MESSAGE)
		return;
	c->received = 0;
	if (write(c->fd, buffer, MESSAGE) != MESSAGE)
		die("write");
	TELL(c->idle_due, loop_ns + TIMEOUT * MS);
	doing(IN_TIMERS);
	check(cancel(&c->timers[REQUEST]));
	check(refresh(&c->timers[IDLE]));
	doing(SERVING);
	TELL(counts->requests, counts->requests + 1);
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
	loop_ns = nanoseconds();
	doing(IN_TIMERS);
	woken(loop_ns);
	doing(SERVING);
	for (int i = 0; i < n; i++) {
		char *what = (char *)events[i].data.ptr;

		if (what == NULL) {
			accept_all();
		} else if ((uintptr_t)what & OF_TIMERS) {
			doing(IN_TIMERS);
			ready((struct timer *)(void *)(what - OF_TIMERS));
			doing(SERVING);
		} else {
			talk((struct connection *)(void *)what);
		}
	}
}

#ifndef HAS_LOOP
static void loop(void)
{
	for (;;) {
		int ms;

		doing(IN_TIMERS);
		ms = patience();
		serve(ms);
	}
}
#endif

/* Called in one loop after the other. */
static int make_listener(void)
{
	static in_port_t port;
	static unsigned listeners;
	int one = 1, fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	struct sockaddr_in a;
	socklen_t size = sizeof a;

	memset(&a, 0, sizeof a);
	a.sin_family = AF_INET;
	a.sin_port = port;
	a.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	if (fd < 0 || setsockopt(fd, SOL_SOCKET, SO_REUSEPORT, &one, sizeof one) != 0 ||
	    bind(fd, (struct sockaddr *)&a, size) != 0 || listen(fd, 4096) != 0 ||
	    getsockname(fd, (struct sockaddr *)&a, &size) != 0)
		die("listen");
	/* The load generator begins when the last one listens. */
	if (++listeners == loops)
		TELL(shared->port, ntohs(a.sin_port));
	port = a.sin_port;
	return fd;
}

static void *one_loop(void *arg)
{
	unsigned number = (unsigned)(uintptr_t)arg;
	int fd = -1;

	pin(number);
	counts = &shared->loops[number];
	epoll = epoll_create1(EPOLL_CLOEXEC);
	if (epoll < 0)
		die("epoll_create1");
	loop_ns = nanoseconds();
#ifdef WHEEL_EACH
	fd = begin_server();
#else
	if (number == 0)
		fd = begin_server();
#endif
	if (fd >= 0)
		wait_for(fd, NULL);
	woken(loop_ns);
	listener = make_listener();
	wait_for_any(listener, NULL);
	/* A loop that shares a wheel begins when the wheel is there. */
	if (number + 1 < loops) {
		pthread_t id;

		start_thread(&id, one_loop, (void *)(uintptr_t)(number + 1));
	}
	loop();
	return NULL;
}

int main(int argc, char **argv)
{
	struct rlimit files;

	if (argc != 3 || atoi(argv[2]) < 1 || atoi(argv[2]) > MOST_LOOPS)
		return 2;
	getrlimit(RLIMIT_NOFILE, &files);
	files.rlim_cur = files.rlim_max;
	setrlimit(RLIMIT_NOFILE, &files);
	shared = (struct shared *)mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED,
				       atoi(argv[1]), 0);
	if (shared == MAP_FAILED)
		die("mmap");
	loops = (unsigned)atoi(argv[2]);
	one_loop(NULL);
	return 0;
}
