/*
 * A loop that caches its time: it reads the clock once a turn, in whole milliseconds, and
 * takes every timeout from there. The loop's thread owns the wheel. hwheel_advance() is the
 * last step before the sleep, and says how long to sleep. A timeout of zero runs in the same
 * turn, from a queue. Another thread sends a message, a timer without a handle.
 */
#include <hwheel.h>
#include <limits.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

static struct loop {
	struct hwheel *wheel;
	int waker; /* an eventfd */
	int is_over;
	uint64_t now_ms, first_ms; /* the cached time: now, and when the loop began */
	struct { hwheel_fn fn; uint64_t cookie; } soon[8]; /* the timeouts of zero */
	int begin, end;
} loop;

static uint64_t clock_ms(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000 + (uint64_t)t.tv_nsec / 1000000;
}

static void wake(struct hwheel *wheel, void *arg)
{
	(void)wheel, (void)arg;
	eventfd_write(loop.waker, 1);
}

/* For the loop's thread: calls fn when the cached time has gone on by that number of milliseconds. */
static int call_after(uint64_t ms, hwheel_fn fn, uint64_t cookie)
{
	if (ms)
		return hwheel_once(loop.wheel, (loop.now_ms + ms) * HWHEEL_MSEC, fn, cookie, HWHEEL_ABS,
				   NULL);
	if (loop.end - loop.begin == 8)
		return -1;
	loop.soon[loop.end % 8].fn = fn;
	loop.soon[loop.end++ % 8].cookie = cookie;
	return 0;
}

static void run_soon(void)
{
	/* Not those that one of them adds: they wait for the next turn, which comes at once. */
	for (int end = loop.end; loop.begin != end; loop.begin++) {
		struct hwheel_event event = { .cookie = loop.soon[loop.begin % 8].cookie };

		loop.soon[loop.begin % 8].fn(loop.wheel, &event);
	}
}

/* Milliseconds for poll(). Rounded down, the loop would turn without a pause in the last one. */
static int sleep_ms(uint64_t next_ns)
{
	uint64_t ms = next_ns / HWHEEL_MSEC + (next_ns % HWHEEL_MSEC != 0);

	if (loop.is_over || loop.begin != loop.end || ms <= loop.now_ms)
		return 0;
	if (next_ns == HWHEEL_NEVER)
		return -1;
	return ms - loop.now_ms > INT_MAX ? INT_MAX : (int)(ms - loop.now_ms);
}

static int turn(void)
{
	struct hwheel_run run = { .size = sizeof(run) };
	struct pollfd fds = { .fd = loop.waker, .events = POLLIN };
	eventfd_t wakes;
	int n;

	run_soon();
	n = hwheel_advance(loop.wheel, loop.now_ms * HWHEEL_MSEC, NULL, 0, &run);
	if (n < 0)
		return n;
	n = poll(&fds, 1, sleep_ms(run.next_ns));
	loop.now_ms = clock_ms();
	/* Here a server handles its sockets, and moves their timeouts. */
	if (n > 0)
		eventfd_read(loop.waker, &wakes);
	return 0;
}

static void say(struct hwheel *wheel, const struct hwheel_event *event)
{
	(void)wheel;
	printf("%llu ms: %s\n", (unsigned long long)(loop.now_ms - loop.first_ms),
	       (const char *)(uintptr_t)event->cookie);
}

static void first(struct hwheel *wheel, const struct hwheel_event *event)
{
	say(wheel, event);
	call_after(0, say, (uintptr_t)"a timeout of zero, in the next turn");
}

static void stop(struct hwheel *wheel, const struct hwheel_event *event)
{
	say(wheel, event);
	loop.is_over = 1;
}

/* Its delay would begin at the time that the loop has cached, so it gives a point in time. */
static void *sender(void *arg)
{
	(void)arg;
	if (hwheel_once(loop.wheel, (clock_ms() + 300) * HWHEEL_MSEC, stop,
			(uintptr_t)"a message of another thread", HWHEEL_ABS, NULL))
		wake(NULL, NULL);
	return NULL;
}

int main(void)
{
	struct hwheel_options options = {
		.size = sizeof(options),
		.clock = HWHEEL_CLOCK_MANUAL,
		.wake = wake,
		.owned = 1,
	};
	pthread_t thread;

	loop.now_ms = loop.first_ms = clock_ms();
	loop.waker = eventfd(0, EFD_NONBLOCK);
	options.start_ns = loop.now_ms * HWHEEL_MSEC;
	if (loop.waker < 0 || hwheel_create(&options, &loop.wheel) ||
	    pthread_create(&thread, NULL, sender, NULL) || call_after(20, first, (uintptr_t)"a timeout") ||
	    call_after(0, say, (uintptr_t)"a timeout of zero"))
		return 1;
	while (!loop.is_over && turn() == 0)
		;
	pthread_join(thread, NULL);
	return hwheel_destroy(loop.wheel) != 0 || !loop.is_over;
}
