/*
 * An io_uring drives the wheel, together with its own timers. The loop sleeps only in
 * io_uring_submit_and_wait(). One timeout with an absolute time stands for all timers of the
 * wheel. The loop's thread owns the wheel, and drives it last before it sleeps. For messages of
 * other threads the wake function writes to an eventfd, which the ring reads.
 */
#define _DEFAULT_SOURCE
#include "compare.h"
#include <liburing.h>
#include <pthread.h>
#include <string.h>
#include <sys/eventfd.h>

/* The source of a completion. A number below TIMERS is one of the ring's own timers. */
enum { WHEEL = TIMERS, WOKEN, UPDATED, GIVE_UP };

static struct comparison comparison;
static struct hwheel *wheel;
static struct io_uring ring;
static uint64_t set_ns = HWHEEL_NEVER; /* the time of the wheel's timeout */
static int event_fd;

static void wake(struct hwheel *w, void *arg)
{
	(void)w;
	(void)arg;
	eventfd_write(event_fd, 1);
}

static struct io_uring_sqe *entry(void)
{
	struct io_uring_sqe *sqe = io_uring_get_sqe(&ring);

	if (!sqe) { /* the queue is full: the kernel takes what is in it */
		io_uring_submit(&ring);
		sqe = io_uring_get_sqe(&ring);
	}
	return sqe ? sqe : (exit(1), NULL);
}

/* @update: instead of a new timeout, moves the one of this name. */
static void timeout(uint64_t ns, unsigned name, int update)
{
	static struct __kernel_timespec times[GIVE_UP + 1]; /* read by the submission */
	struct io_uring_sqe *sqe = entry();

	times[name].tv_sec = (long long)(ns / HWHEEL_SEC);
	times[name].tv_nsec = (long long)(ns % HWHEEL_SEC);
	if (update)
		io_uring_prep_timeout_update(sqe, &times[name], name, IORING_TIMEOUT_ABS);
	else
		io_uring_prep_timeout(sqe, &times[name], 0, IORING_TIMEOUT_ABS);
	io_uring_sqe_set_data64(sqe, update ? UPDATED : name);
}

static void read_event(void)
{
	static uint64_t count;
	struct io_uring_sqe *sqe = entry();

	io_uring_prep_read(sqe, event_fd, &count, sizeof count, 0);
	io_uring_sqe_set_data64(sqe, WOKEN);
}

/* Drives the wheel, and sets its timeout. True when both sides are complete. */
static int drive(void)
{
	uint64_t next_ns;
	int done = compare_poll(&comparison, wheel, &next_ns);

	if (next_ns != HWHEEL_NEVER && next_ns != set_ns) {
		/* if it has just expired, its completion follows */
		timeout(next_ns, WHEEL, set_ns != HWHEEL_NEVER);
		set_ns = next_ns;
	}
	return done;
}

int main(void)
{
	struct hwheel_options options = { .size = sizeof options, .wake = wake, .owned = 1 };
	int done = 0, error = io_uring_queue_init(256, &ring, 0);
	struct io_uring_cqe *cqe;
	pthread_t thread;

	if (error == -ENOSYS || error == -EPERM) {
		printf("    skipped: io_uring: %s\n", strerror(-error));
		return 0;
	}
	event_fd = eventfd(0, EFD_CLOEXEC);
	comparison.loop.any_order = 1;
	if (error || event_fd < 0 || hwheel_create(&options, &wheel))
		return 1;
	compare_begin(&comparison, "io_uring");
	timeout(comparison.start_ns + GIVE_UP_MS * HWHEEL_MSEC, GIVE_UP, 0);
	for (unsigned i = 0; i < TIMERS; i++)
		timeout(deadline_ns(&comparison, i), i, 0);
	read_event();
	drive();
	comparison.to_arm = wheel;
	if (pthread_create(&thread, NULL, compare_arm, &comparison))
		return 1;
	while (!done && io_uring_submit_and_wait(&ring, 1) >= 0) {
		while (!done && io_uring_peek_cqe(&ring, &cqe) == 0) {
			uint64_t name = io_uring_cqe_get_data64(cqe);

			io_uring_cqe_seen(&ring, cqe);
			if (name == WOKEN)
				read_event();
			else if (name == WHEEL)
				set_ns = HWHEEL_NEVER;
			else if (name < TIMERS)
				done = compare_fired(&comparison, &comparison.loop, (unsigned)name);
			else
				done = name == GIVE_UP;
		}
		done = drive() || done;
	}
	pthread_join(thread, NULL);
	io_uring_queue_exit(&ring);
	return compare_end(&comparison) || hwheel_destroy(wheel);
}
