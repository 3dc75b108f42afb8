/* An event loop of one wheel and nothing else. */
int loop(struct hwheel *wheel)
{
	struct pollfd pfd = { .fd = hwheel_fd(wheel), .events = POLLIN };
	int n = pfd.fd;

	while (n >= 0) {
		if (poll(&pfd, 1, -1) < 0 && errno != EINTR)
			return -errno;
		n = hwheel_poll(wheel, NULL, 0, NULL);
	}
	return n;
}
