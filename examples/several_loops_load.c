/*
 * A load for several_loops.c: 2,000 clients, each with a script. Each client compares what
 * it gets with what the server owes it, and when. The clients' books show that each timeout
 * came exactly once: it was cancelled, or it expired.
 * usage: several_loops_load SERVER [CLIENTS]
 */
#include <err.h>
#include <errno.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

/* Bytes to send one after another. At the end a client leaves; after '-' it stays silent. */
static const char *const scripts[] = { "mmmmmmmm", "1m0m1", "m6m9", "33m33", "0m-", "m6-" };
#define SCRIPTS (sizeof(scripts) / sizeof(scripts[0]))
#define IDLE_MS 2000
#define DEADLINE_MS 300

static struct client {
	const char *next; /* the byte that it sent last, or '-' */
	double sent_ms;
	int fd;
} *clients;
static pid_t server;
static int left;
static unsigned long moved, answered, expired, silent, closed;
static double latest[2]; /* of the expired deadlines, and of the silent clients */

static void die(const char *what, const struct client *c)
{
	if (server > 0)
		kill(server, SIGKILL);
	if (c)
		errx(1, "client %d at %s: %s", (int)(c - clients), c->next, what);
	err(1, "%s", what);
}

static double now_ms(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec * 1e3 + (double)t.tv_nsec / 1e6;
}

static void late(double *most, double by, const struct client *c)
{
	if (by < 0)
		die("a timer fired early", c);
	if (by > *most)
		*most = by;
}

/* Sends the next byte, if there is one. */
static void go_on(struct client *c)
{
	if (*c->next == '-')
		return;
	c->sent_ms = now_ms();
	if (*c->next == 0) {
		close(c->fd);
		closed++;
		left--;
	} else if (send(c->fd, c->next, 1, MSG_NOSIGNAL) != 1) {
		die("the connection was closed early", c);
	}
}

static void receive(struct client *c)
{
	char bytes[2];
	ssize_t n = recv(c->fd, bytes, 2, MSG_DONTWAIT);
	double ms = now_ms() - c->sent_ms;

	if (n == 0 && *c->next == '-') {
		late(&latest[1], ms - IDLE_MS, c);
		close(c->fd);
		silent++;
		left--;
		return;
	}
	if (n != 1)
		die(n == 0 ? "closed early" : n > 0 ? "two answers" : strerror(errno), c);
	if (*c->next == 'm' && *bytes == 'm') {
		moved++;
	} else if (*c->next >= '0' && *c->next <= '9' && *bytes == *c->next) {
		answered++;
	} else if (*c->next >= '0' && *c->next <= '9' && *bytes == '!') {
		expired++;
		late(&latest[0], ms - DEADLINE_MS, c);
	} else {
		die("a wrong answer", c);
	}
	c->next++;
	go_on(c);
}

/* A port that nobody uses now. */
static in_port_t free_port(void)
{
	struct sockaddr_in at = { .sin_family = AF_INET };
	socklen_t size = sizeof(at);
	int fd = socket(AF_INET, SOCK_STREAM, 0);

	if (fd < 0 || bind(fd, (void *)&at, size) || getsockname(fd, (void *)&at, &size))
		die("bind", NULL);
	close(fd);
	return at.sin_port;
}

static int connected(const struct sockaddr_in *to)
{
	for (int tries = 0; tries < 500; tries++) {
		int fd = socket(AF_INET, SOCK_STREAM, 0);

		if (fd < 0)
			die("socket", NULL);
		if (connect(fd, (const void *)to, sizeof(*to)) == 0)
			return fd;
		close(fd);
		usleep(10000); /* until the server listens */
	}
	die("connect", NULL);
	return -1;
}

int main(int argc, char **argv)
{
	struct sockaddr_in to = { .sin_family = AF_INET };
	int n = argc > 2 ? atoi(argv[2]) : 2000, ep = epoll_create1(0);
	struct rlimit files;
	struct epoll_event events[64];

	if (argc < 2 || n < 1 || ep < 0)
		errx(2, "usage: several_loops_load SERVER [CLIENTS]");
	getrlimit(RLIMIT_NOFILE, &files);
	files.rlim_cur = files.rlim_max; /* the server inherits it */
	setrlimit(RLIMIT_NOFILE, &files);
	if (files.rlim_cur < (rlim_t)n + 50)
		errx(1, "%d clients need more than %lu open files", n, (unsigned long)files.rlim_cur);
	to.sin_port = free_port();
	to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	server = fork();
	if (server == 0) {
		char port[8];

		snprintf(port, sizeof(port), "%d", ntohs(to.sin_port));
		execl(argv[1], argv[1], port, (char *)NULL);
		err(1, "%s", argv[1]);
	}
	clients = calloc((size_t)n, sizeof(*clients));
	for (left = 0; left < n; left++) {
		struct client *c = &clients[left];

		*c = (struct client){ .next = scripts[(size_t)left % SCRIPTS], .fd = connected(&to) };
		epoll_ctl(ep, EPOLL_CTL_ADD, c->fd,
			  &(struct epoll_event){ .events = EPOLLIN, .data.ptr = c });
		go_on(c);
	}
	while (left > 0) {
		int got = epoll_wait(ep, events, 64, 60000);

		if (got <= 0)
			die(got ? "epoll_wait" : "a client has waited for a minute", NULL);
		for (int i = 0; i < got; i++)
			receive(events[i].data.ptr);
	}
	if (waitpid(server, NULL, WNOHANG) != 0)
		die("the server has ended", NULL);
	kill(server, SIGKILL);
	printf("%d clients: %lu left, %lu were closed after %d s of silence\n", n, closed, silent,
	       IDLE_MS / 1000);
	printf("requests: %lu answered in time, %lu deadlines expired; moves: %lu\n", answered, expired,
	       moved);
	printf("late: deadlines by at most %.1f ms, closes by at most %.1f ms\n", latest[0], latest[1]);
	return closed + silent != (unsigned long)n || !moved || !answered || !expired || !silent;
}
