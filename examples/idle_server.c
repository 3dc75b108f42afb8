/*
 * A server's timeouts: an epoll server of one thread keeps two timers for each
 * connection in one wheel, which it drives through the wheel's descriptor.
 *
 *   idle     a connection that sends nothing for IDLE is closed;
 *   request  so is one whose request is not complete REQUEST after its first
 *            byte, however often it sends.
 *
 * A client of a thousand connections meets it on loopback: one third talks,
 * one third is silent, one third dribbles a byte at a time. The client holds a
 * stop-watch: nothing may be closed early, the silent and the dribbling must
 * be closed soon after their time, and the talking never. The exit status is 0
 * if that is so.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <arpa/inet.h>
#include <errno.h>
#include <hwheel.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define MS HWHEEL_MSEC
#define IDLE (1500 * MS)
#define REQUEST (1000 * MS)
#define GRACE (3000 * MS)	/* how late a close may be on a busy machine */

#define CONNECTIONS 1000
#define TALK (300 * MS)		/* a talker's pause between requests */
#define DRIBBLE (100 * MS)	/* a dribbler's pause between bytes */
#define LENGTH (5000 * MS)	/* of the whole visit */
#define BATCH 64

static void die(const char *what)
{
	perror(what);
	exit(1);
}

/* For a function of the wheel, which leaves errno alone. */
static int must(int result, const char *what)
{
	if (result < 0) {
		fprintf(stderr, "%s: %s\n", what, hwheel_strerror(result));
		exit(1);
	}
	return result;
}

static uint64_t now_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return ts.tv_sec * 1000 * MS + ts.tv_nsec;
}

static void watch(int ep, int fd, uint64_t data)
{
	struct epoll_event event = { .events = EPOLLIN, .data.u64 = data };

	if (epoll_ctl(ep, EPOLL_CTL_ADD, fd, &event) < 0)
		die("epoll_ctl");
}

/* The server. */

enum { IDLE_TIMER, REQUEST_TIMER };

struct connection {
	int fd;			/* -1 when closed */
	int in_request;
	hwheel_timer_t idle, request;
};

/* Cookies and epoll data: an index into connections, or one of these. */
#define LISTENER UINT64_MAX
#define WHEEL (UINT64_MAX - 1)

static struct connection connections[CONNECTIONS];
static unsigned int accepted, open_now, idle_closes, request_closes, requests;

static void shut(struct hwheel *wheel, struct connection *c)
{
	hwheel_timer_free(wheel, c->idle);
	hwheel_timer_free(wheel, c->request);
	close(c->fd);
	c->fd = -1;
	open_now--;
}

static void welcome(struct hwheel *wheel, int ep, int listener)
{
	while (accepted < CONNECTIONS) {
		struct connection *c = &connections[accepted];
		uint64_t cookie = 2 * (uint64_t)accepted;

		c->fd = accept4(listener, NULL, NULL, SOCK_NONBLOCK);
		if (c->fd < 0)
			return;
		must(hwheel_timer_setup(wheel, NULL, cookie + IDLE_TIMER, &c->idle),
		     "idle timer");
		must(hwheel_timer_setup(wheel, NULL, cookie + REQUEST_TIMER,
					&c->request), "request timer");
		must(hwheel_timer_mod(wheel, c->idle, IDLE, 0), "idle timer");
		watch(ep, c->fd, accepted++);
		open_now++;
	}
}

static void serve(struct hwheel *wheel, struct connection *c)
{
	char bytes[256];
	ssize_t n;

	if (c->fd < 0)		/* closed earlier in this round */
		return;
	n = read(c->fd, bytes, sizeof(bytes));
	if (n < 0 && errno == EAGAIN)
		return;
	if (n <= 0) {
		shut(wheel, c);
		return;
	}
	hwheel_timer_mod(wheel, c->idle, IDLE, 0);
	for (ssize_t i = 0; i < n; i++) {
		if (bytes[i] != '\n' && !c->in_request) {
			c->in_request = 1;
			hwheel_timer_mod(wheel, c->request, REQUEST, 0);
		} else if (bytes[i] == '\n') {
			c->in_request = 0;
			hwheel_timer_delete(wheel, c->request);
			requests++;
			if (write(c->fd, "ok\n", 3) != 3)
				die("write");
		}
	}
}

static void time_out(struct hwheel *wheel)
{
	struct hwheel_event events[BATCH];
	int n;

	do {
		n = must(hwheel_poll(wheel, events, BATCH, NULL), "poll");
		for (int i = 0; i < n; i++) {
			struct connection *c = &connections[events[i].cookie / 2];

			if (c->fd < 0)	/* its other timer came first */
				continue;
			if (events[i].cookie % 2 == IDLE_TIMER)
				idle_closes++;
			else
				request_closes++;
			shut(wheel, c);
		}
	} while (n == BATCH);
}

static void server(int listener)
{
	struct epoll_event events[BATCH];
	struct hwheel *wheel;
	int ep = epoll_create1(0);

	if (ep < 0)
		die("epoll");
	must(hwheel_create(NULL, &wheel), "wheel");
	watch(ep, listener, LISTENER);
	watch(ep, must(hwheel_fd(wheel), "descriptor"), WHEEL);
	while (accepted < CONNECTIONS || open_now > 0) {
		int n = epoll_wait(ep, events, BATCH, 10000);

		if (n == 0) {
			fprintf(stderr, "idle_server: the client is gone\n");
			exit(1);
		}
		for (int i = 0; i < n; i++) {
			if (events[i].data.u64 == LISTENER)
				welcome(wheel, ep, listener);
			else if (events[i].data.u64 == WHEEL)
				time_out(wheel);
			else
				serve(wheel, &connections[events[i].data.u64]);
		}
	}
	must(hwheel_destroy(wheel), "destroy");
}

/* The client, in a process of its own; it keeps time without the wheel. */

enum kind { TALKER, SILENT, DRIBBLER, KINDS };

struct visit {
	int fd;
	uint64_t start, next, closed;
};

static struct visit visits[CONNECTIONS];
static uint64_t held_up;	/* the longest that the client itself had to wait */

static void speak(struct visit *v, enum kind kind, uint64_t now)
{
	const char *line = kind == TALKER ? "hello\n" : "x";
	size_t len = kind == TALKER ? 6 : 1;

	if (kind == SILENT || v->closed || now < v->next)
		return;
	if (kind == DRIBBLER && v->next == v->start)
		v->start = v->next = now;	/* the request begins */
	/* A close that crosses with the bytes is seen when reading. */
	if (send(v->fd, line, len, MSG_NOSIGNAL) < 0 && errno != EPIPE &&
	    errno != ECONNRESET)
		die("send");
	v->next += kind == TALKER ? TALK : DRIBBLE;
}

static void listen_to(struct visit *v)
{
	char bytes[256];
	ssize_t n = recv(v->fd, bytes, sizeof(bytes), MSG_DONTWAIT);

	if (n > 0 || (n < 0 && errno == EAGAIN))
		return;
	v->closed = now_ns();
	close(v->fd);
}

/* Returns how many of a kind were not closed as they should have been. */
static unsigned int judge(enum kind kind)
{
	static const char *const names[] = { "talking", "silent", "dribbling" };
	static const uint64_t limits[] = { 0, IDLE, REQUEST };
	unsigned int count = 0, closed = 0, early = 0, late = 0;
	uint64_t worst = 0;

	for (int i = kind; i < CONNECTIONS; i += KINDS) {
		const struct visit *v = &visits[i];
		uint64_t took = v->closed - v->start;

		count++;
		if (!v->closed)
			continue;
		closed++;
		early += took < limits[kind];
		late += took > limits[kind] + GRACE + held_up;
		if (took > limits[kind] && took - limits[kind] > worst)
			worst = took - limits[kind];
	}
	printf("  %-9s  %4u connections, %3u closed", names[kind], count, closed);
	if (kind == TALKER) {
		printf("\n");
		return closed;
	}
	printf(" after %" PRIu64 " ms, at most %.1f ms later; %u early, %u late\n",
	       limits[kind] / MS, worst / 1e6, early, late);
	return count - closed + early + late;
}

static int client(const struct sockaddr_in *address)
{
	struct epoll_event events[BATCH];
	int ep = epoll_create1(0);
	uint64_t end;
	unsigned int wrong = 0;

	for (int i = 0; i < CONNECTIONS; i++) {
		struct visit *v = &visits[i];

		v->start = v->next = now_ns();
		v->fd = socket(AF_INET, SOCK_STREAM, 0);
		if (v->fd < 0 || connect(v->fd, (const void *)address,
					 sizeof(*address)) < 0)
			die("connect");
		watch(ep, v->fd, i);
	}
	for (end = now_ns() + LENGTH; now_ns() < end;) {
		uint64_t before = now_ns();
		int n = epoll_wait(ep, events, BATCH, 5);

		if (now_ns() - before > held_up)
			held_up = now_ns() - before;
		for (int i = 0; i < n; i++)
			listen_to(&visits[events[i].data.u64]);
		for (int i = 0; i < CONNECTIONS; i++)
			speak(&visits[i], i % KINDS, now_ns());
	}
	for (enum kind kind = TALKER; kind < KINDS; kind++)
		wrong += judge(kind);
	return wrong != 0;
}

int main(void)
{
	struct sockaddr_in address = {
		.sin_family = AF_INET,
		.sin_addr.s_addr = htonl(INADDR_LOOPBACK),
	};
	struct rlimit files = { 0, 0 };
	socklen_t len = sizeof(address);
	int listener = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
	int status;
	pid_t pid;

	getrlimit(RLIMIT_NOFILE, &files);
	files.rlim_cur = files.rlim_max;
	if (files.rlim_max < CONNECTIONS + 64 ||
	    setrlimit(RLIMIT_NOFILE, &files) < 0)
		die("idle_server needs 1064 open files");
	if (listener < 0 || bind(listener, (void *)&address, len) < 0 ||
	    listen(listener, CONNECTIONS) < 0 ||
	    getsockname(listener, (void *)&address, &len) < 0)
		die("listen");

	printf("a server's timeouts: %d connections, idle %" PRIu64
	       " ms, request %" PRIu64 " ms\n",
	       CONNECTIONS, IDLE / MS, REQUEST / MS);
	fflush(stdout);
	pid = fork();
	if (pid < 0)
		die("fork");
	if (pid == 0) {
		close(listener);
		exit(client(&address));
	}
	server(listener);
	if (waitpid(pid, &status, 0) < 0)
		die("waitpid");
	printf("  the server   closed %u idle ones and %u slow requests, "
	       "answered %u\n", idle_closes, request_closes, requests);
	if (status != 0) {
		printf("FAILED: closed early, late, or wrongly\n");
		return 1;
	}
	printf("  every connection treated as it should be\n");
	return 0;
}
