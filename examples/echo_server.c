/*
 * An echo server: one epoll loop and one wheel, with two timers a connection.
 *   idle      closes a connection that sends nothing for IDLE;
 *   deadline  closes one whose line is not complete DEADLINE after its first byte.
 * usage: echo_server PORT
 */
#include <errno.h>
#include <hwheel.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#define IDLE		(2 * HWHEEL_SEC)
#define DEADLINE	(500 * HWHEEL_MSEC)
#define DESCRIPTORS	1000 /* fewer than a process may have open */

static struct connection {
	hwheel_timer_t idle, deadline; /* 0 without a connection */
} connections[DESCRIPTORS]; /* by descriptor */
static struct hwheel *wheel;
static int ep;

static int must(int result, const char *what, const char *why)
{
	if (result < 0) {
		fprintf(stderr, "%s: %s\n", what, why ? why : strerror(errno));
		exit(1);
	}
	return result;
}

#define SYSTEM(call) must(call, #call, NULL)
#define WHEEL(call) do { int e = call; must(e, #call, hwheel_strerror(e)); } while (0)

static void watch(int fd)
{
	struct epoll_event event = { .events = EPOLLIN, .data.fd = fd };

	SYSTEM(epoll_ctl(ep, EPOLL_CTL_ADD, fd, &event));
}

static void welcome(int fd)
{
	struct connection *c = &connections[fd];

	WHEEL(hwheel_timer_setup(wheel, NULL, fd, &c->idle));
	WHEEL(hwheel_timer_setup(wheel, NULL, fd, &c->deadline));
	WHEEL(hwheel_timer_mod(wheel, c->idle, IDLE, 0));
	watch(fd);
}

static void part(int fd, const char *why)
{
	printf("%d: %s\n", fd, why);
	hwheel_timer_free(wheel, connections[fd].idle);
	hwheel_timer_free(wheel, connections[fd].deadline);
	connections[fd] = (struct connection){ 0 };
	close(fd);
}

static void serve(int fd, struct connection *c)
{
	char bytes[512];
	ssize_t n = read(fd, bytes, sizeof(bytes));

	/* A client that does not read must not delay the others. */
	if (n <= 0 || send(fd, bytes, n, MSG_DONTWAIT | MSG_NOSIGNAL) != n) {
		part(fd, "closed");
		return;
	}
	WHEEL(hwheel_timer_mod(wheel, c->idle, IDLE, 0));
	if (bytes[n - 1] == '\n')
		hwheel_timer_delete(wheel, c->deadline);
	else /* only the first byte of a line arms it */
		WHEEL(hwheel_timer_mod(wheel, c->deadline, DEADLINE,
				       memchr(bytes, '\n', n) ? 0 : HWHEEL_REDUCE));
}

static void time_out(void)
{
	struct hwheel_event events[64];
	int n = hwheel_poll(wheel, events, 64, NULL);

	for (int i = 0; i < n; i++) {
		int fd = (int)events[i].cookie;

		/* An earlier event of the batch may have ended the connection. */
		if (events[i].timer == connections[fd].idle)
			part(fd, "idle");
		else if (events[i].timer == connections[fd].deadline)
			part(fd, "too slow");
	}
}

int main(int argc, char **argv)
{
	struct hwheel_options options = { .size = sizeof(options), .owned = 1 };
	struct sockaddr_in at = { .sin_family = AF_INET };
	int listener = SYSTEM(socket(AF_INET, SOCK_STREAM, 0)), fd;
	struct epoll_event event;

	at.sin_port = htons(argc > 1 ? atoi(argv[1]) : 0);
	SYSTEM(bind(listener, (void *)&at, sizeof(at)));
	SYSTEM(listen(listener, 64));
	ep = SYSTEM(epoll_create1(0));
	WHEEL(hwheel_create(&options, &wheel));
	watch(listener);
	watch(hwheel_fd(wheel));
	while (SYSTEM(epoll_wait(ep, &event, 1, -1)) == 1) {
		if (event.data.fd == hwheel_fd(wheel))
			time_out();
		else if (event.data.fd != listener)
			serve(event.data.fd, &connections[event.data.fd]);
		else if ((fd = accept(listener, NULL, NULL)) >= DESCRIPTORS)
			close(fd);
		else if (fd >= 0) /* else that client has gone already */
			welcome(fd);
	}
}
