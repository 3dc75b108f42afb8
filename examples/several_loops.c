/*
 * A server of four threads, each with an epoll loop and a wheel that it owns. A connection
 * belongs to one loop at a time: only this loop reads it, and its timer lies in this loop's
 * wheel. A timer without a handle in another loop's wheel is a message: it wakes that loop. The
 * answer to a byte of a client is a byte: 'm' when the connection has moved to the next loop; a
 * digit when the next loop has worked on the request for that many tenths of a second, and its
 * message came in time to cancel the deadline of 300 ms; '!' when the deadline has expired. A
 * silent connection is closed after 2 s. several_loops_load.c is a load for the server.
 */
#include <err.h>
#include <hwheel.h>
#include <netinet/in.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <unistd.h>

#define LOOPS 4
#define NEXT(loop) (&loops[((loop) - loops + 1) % LOOPS])

static struct loop {
	struct hwheel *wheel;
	int ep;
	_Atomic int silence; /* heartbeats of the loop before it, since its own */
} loops[LOOPS];

static struct connection {
	struct loop *loop;
	hwheel_timer_t timer; /* idle or deadline; 0 until it has arrived in the loop */
	char answer, is_worked_on;
} connections[4096]; /* by descriptor */

static int must(int result)
{
	if (result < 0) /* -1: of the system */
		result == -1 ? err(1, NULL) : errx(1, "%s", hwheel_strerror(result));
	return result;
}

static void watch(struct loop *loop, int operation, int fd)
{
	must(epoll_ctl(loop->ep, operation, fd, &(struct epoll_event){ EPOLLIN, { .fd = fd } }));
}

static void leave(int fd, struct loop *next)
{
	struct connection *c = &connections[fd];

	watch(c->loop, EPOLL_CTL_DEL, fd);
	hwheel_timer_free(c->loop->wheel, c->timer);
	*c = (struct connection){ .loop = next, .answer = c->answer };
	if (!next)
		close(fd);
}

static void expired(struct hwheel *wheel, const struct hwheel_event *event)
{
	(void)wheel;
	if (connections[event->cookie].is_worked_on)
		send((int)event->cookie, "!", 1, MSG_NOSIGNAL);
	else
		leave((int)event->cookie, NULL);
}

/* A message: the connection is new in this loop, or the work on its request is over. */
static void arrived(struct hwheel *wheel, const struct hwheel_event *event)
{
	struct connection *c = &connections[event->cookie];

	if (!c->timer)
		must(hwheel_timer_setup(wheel, expired, event->cookie, &c->timer));
	if (c->is_worked_on && hwheel_timer_delete(wheel, c->timer) != 1)
		c->answer = 0; /* expired() has answered */
	c->is_worked_on = 0;
	must(hwheel_timer_mod(wheel, c->timer, 2 * HWHEEL_SEC, 0));
	watch(c->loop, EPOLL_CTL_ADD, (int)event->cookie);
	if (c->answer)
		send((int)event->cookie, &c->answer, 1, MSG_NOSIGNAL);
}

static void worked(struct hwheel *wheel, const struct hwheel_event *event)
{
	(void)wheel;
	must(hwheel_once(connections[event->cookie].loop->wheel, 0, arrived, event->cookie, 0, NULL));
}

static void serve(int fd, struct loop *loop)
{
	struct connection *c = &connections[fd];

	hwheel_timer_prefetch(loop->wheel, c->timer); /* its memory comes during read() */
	if (read(fd, &c->answer, 1) != 1) {
		leave(fd, NULL);
	} else if (c->answer == 'm') {
		leave(fd, NEXT(loop));
		must(hwheel_once(NEXT(loop)->wheel, 0, arrived, (uint64_t)fd, 0, NULL));
	} else { /* the connection is not read until the work is over */
		watch(loop, EPOLL_CTL_DEL, fd);
		c->is_worked_on = 1;
		must(hwheel_timer_mod(loop->wheel, c->timer, 300 * HWHEEL_MSEC, 0));
		must(hwheel_once(NEXT(loop)->wheel, (c->answer - '0') % 10 * 100 * HWHEEL_MSEC,
				 worked, (uint64_t)fd, 0, NULL));
	}
}

static void *run(void *loop)
{
	struct loop *own = loop;

	must(hwheel_own(own->wheel));
	for (struct epoll_event event; must(epoll_wait(own->ep, &event, 1, -1)) == 1;)
		if (event.data.fd == hwheel_fd(own->wheel))
			must(hwheel_poll(own->wheel, NULL, 0, NULL));
		else
			serve(event.data.fd, own);
	return NULL;
}

static void beat(struct hwheel *wheel, const struct hwheel_event *event)
{
	(void)wheel;
	loops[event->cookie].silence = 0;
	if (++NEXT(&loops[event->cookie])->silence == 10)
		warnx("loop %d does not beat", (int)(event->cookie + 1) % LOOPS);
}

int main(int argc, char **argv)
{
	struct hwheel_options options = { .size = sizeof(options), .owned = 1 };
	struct sockaddr_in at = { AF_INET, htons(argc > 1 ? atoi(argv[1]) : 7000), { 0 }, { 0 } };
	int fd, listener = must(socket(AF_INET, SOCK_STREAM, 0));
	pthread_t thread;

	must(setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &(int){ 1 }, sizeof(int)));
	must(bind(listener, (void *)&at, sizeof(at)));
	must(listen(listener, 4096));
	for (int i = 0; i < LOOPS; i++) {
		must(hwheel_create(&options, &loops[i].wheel));
		must(loops[i].ep = epoll_create1(0));
		watch(&loops[i], EPOLL_CTL_ADD, must(hwheel_fd(loops[i].wheel)));
		must(hwheel_every(loops[i].wheel, 0, HWHEEL_SEC, 0, beat, i, 0, NULL));
		must(hwheel_disown(loops[i].wheel));
		must(-pthread_create(&thread, NULL, run, &loops[i]));
	}
	while ((fd = must(accept(listener, NULL, NULL))) < 4096) {
		connections[fd].loop = &loops[fd % LOOPS];
		must(hwheel_once(loops[fd % LOOPS].wheel, 0, arrived, (uint64_t)fd, 0, NULL));
	}
	errx(1, "too many connections");
}
