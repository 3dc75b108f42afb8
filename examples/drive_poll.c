/*
 * Drive a wheel from an event loop: one descriptor stands for all timers.
 * Here the loop is poll(2); with epoll, libuv or libevent it is the same.
 * echo_server.c is an epoll server with an idle timeout for each connection.
 */
#include <hwheel.h>
#include <poll.h>
#include <stdio.h>

int main(void)
{
	struct hwheel_event events[64];
	struct hwheel *wheel;
	struct pollfd pfd = { .events = POLLIN };
	int left = 5;

	if (hwheel_create(NULL, &wheel) < 0)
		return 1;
	pfd.fd = hwheel_fd(wheel);
	if (pfd.fd < 0)
		return 1;
	for (int i = 1; i <= left; i++)
		if (hwheel_once(wheel, 10 * HWHEEL_MSEC * i, NULL, i, 0, NULL) < 0)
			return 1;

	while (left > 0 && poll(&pfd, 1, 1000) > 0) {
		int n = hwheel_poll(wheel, events, 64, NULL);

		if (n < 0) {
			fprintf(stderr, "poll: %s\n", hwheel_strerror(n));
			return 1;
		}
		for (int i = 0; i < n; i++)
			printf("timer %d\n", (int)events[i].cookie);
		left -= n;
	}
	return hwheel_destroy(wheel) != 0 || left != 0;
}
