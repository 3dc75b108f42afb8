/* hwheel_poll() and hwheel_fd(): a caller's event loop on a system clock. */
#include <fcntl.h>
#include <poll.h>
#include <sys/epoll.h>
#include "ktap.h"

/* How long something that must happen may take. */
#define PATIENCE_MS 20000

static int readable(int fd, int ms)
{
	struct pollfd p = { fd, POLLIN, 0 };
	int n = poll(&p, 1, ms);

	CHECK(n >= 0);
	return n == 1 && (p.revents & POLLIN);
}

/* A descriptor, with what it had to say about the time before it was made. */
static int fresh_fd(struct hwheel *w)
{
	int fd = hwheel_fd(w);

	CHECK(fd >= 0);
	CHECK_EQ(hwheel_poll(w, NULL, 0, NULL), 0);
	CHECK_EQ(readable(fd, 0), 0);
	return fd;
}

/* Waits on the descriptor and polls until `want` events were taken. */
static void take(struct hwheel *w, int fd, struct hwheel_event *e, int want)
{
	uint64_t end = ktap_clock() + PATIENCE_MS * MS;
	int have = 0;

	while (have < want) {
		int n;

		CHECK(ktap_clock() < end);
		CHECK(readable(fd, PATIENCE_MS));
		n = hwheel_poll(w, e + have, (uint32_t)(want - have), NULL);
		CHECK(n >= 0);
		have += n;
	}
}

TEST(the_descriptor_is_one_and_close_on_exec)
{
	struct hwheel *w = ktap_made(NULL);
	int fd = hwheel_fd(w);

	CHECK(fd >= 0);
	CHECK_EQ(hwheel_fd(w), fd);
	CHECK(fcntl(fd, F_GETFD) & FD_CLOEXEC);
	CHECK_EQ(hwheel_destroy(w), 0);
	/* it goes with the wheel */
	CHECK_EQ(fcntl(fd, F_GETFD), -1);
}

CLOCK_TEST(it_is_not_readable_while_nothing_is_due)
{
	int fd = fresh_fd(w);

	CHECK_EQ(hwheel_once(w, 3600 * SEC, NULL, 0, 0, NULL), 0);
	CHECK_EQ(hwheel_poll(w, NULL, 0, NULL), 0);
	CHECK_EQ(readable(fd, 30), 0);
}

TEST(epoll_tells_when_a_timer_is_due)
{
	for (uint32_t clock = 0; clock < HWHEEL_CLOCK_MANUAL; clock++) {
		WHEEL w = MADE(.clock = clock);
		struct epoll_event want = { .events = EPOLLIN }, got;
		struct hwheel_event e;
		int fd = fresh_fd(w), ep = epoll_create1(EPOLL_CLOEXEC), n = 0;
		uint64_t before, due;

		CHECK(ep >= 0);
		CHECK_EQ(epoll_ctl(ep, EPOLL_CTL_ADD, fd, &want), 0);
		CHECK_EQ(epoll_wait(ep, &got, 1, 0), 0);
		before = ktap_clock();
		due = ktap_now(w) + 30 * MS;
		CHECK_EQ(hwheel_once(w, 30 * MS, NULL, 5, 0, NULL), 0);
		while (n == 0) {
			CHECK_EQ(epoll_wait(ep, &got, 1, PATIENCE_MS), 1);
			n = hwheel_poll(w, &e, 1, NULL);
		}
		CHECK_EQ(n, 1);
		CHECK_EQ(e.cookie, 5);
		/* never early, on either clock */
		if (clock != HWHEEL_CLOCK_REALTIME)
			CHECK(ktap_clock() >= before + 30 * MS);
		CHECK(e.deadline_ns >= due);
		CHECK(ktap_now(w) >= e.deadline_ns);
		close(ep);
	}
}

CLOCK_TEST(never_early_and_in_order)
{
	struct hwheel_event e[32];
	int fd = fresh_fd(w), have = 0;
	uint64_t x = 88172645463325252u, last = 0, end = ktap_clock() + PATIENCE_MS * MS;

	for (int i = 0; i < 300; i++)
		CHECK_EQ(hwheel_once(w, ktap_dice(&x) % (200 * MS), NULL, 0, 0, NULL), 0);
	while (have < 300) {
		int n;

		CHECK(ktap_clock() < end);
		CHECK(readable(fd, PATIENCE_MS));
		n = hwheel_poll(w, e, 32, NULL);
		for (int i = 0; i < n; i++) {
			uint64_t tick = (e[i].deadline_ns + MS - 1) / MS;

			/* the wheel's clock is this one */
			CHECK(e[i].deadline_ns <= ktap_clock());
			CHECK(last <= tick);
			last = tick;
		}
		have += n;
	}
}

CLOCK_TEST(a_full_batch_leaves_it_readable)
{
	struct hwheel_event e[6];
	int fd = fresh_fd(w);

	for (int i = 0; i < 5; i++)
		CHECK_EQ(hwheel_once(w, 0, NULL, 0, 0, NULL), 0);
	ktap_sleep_ms(5);
	CHECK_EQ(readable(fd, PATIENCE_MS), 1);
	CHECK_EQ(hwheel_poll(w, e, 2, NULL), 2);
	CHECK_EQ(readable(fd, 0), 1);
	CHECK_EQ(hwheel_poll(w, e, 2, NULL), 2);
	CHECK_EQ(readable(fd, 0), 1);
	CHECK_EQ(hwheel_poll(w, e, 2, NULL), 1);
	CHECK_EQ(readable(fd, 0), 0);
	/* exactly full: readable once more, then not */
	CHECK_EQ(hwheel_once(w, 0, NULL, 0, 0, NULL), 0);
	take(w, fd, e, 1);
	CHECK_EQ(readable(fd, 0), 1);
	CHECK_EQ(hwheel_poll(w, e, 1, NULL), 0);
	CHECK_EQ(readable(fd, 0), 0);
}

CLOCK_TEST(timers_armed_before_the_descriptor_are_told)
{
	struct hwheel_event e;
	int fd;

	CHECK_EQ(hwheel_once(w, 10 * MS, NULL, 3, 0, NULL), 0);
	fd = hwheel_fd(w);
	CHECK(fd >= 0);
	take(w, fd, &e, 1);
	CHECK_EQ(e.cookie, 3);
}

static void *arm_soon(void *w)
{
	ktap_sleep_ms(20);
	CHECK_EQ(hwheel_once(w, 5 * MS, NULL, 8, 0, NULL), 0);
	return NULL;
}

CLOCK_TEST(an_arm_of_another_thread_wakes_the_waiter)
{
	struct hwheel_event e;
	int fd = fresh_fd(w);

	CHECK_EQ(hwheel_once(w, 3600 * SEC, NULL, 0, 0, NULL), 0);
	CHECK_EQ(hwheel_poll(w, &e, 1, NULL), 0);
	CHECK_EQ(readable(fd, 0), 0);
	pthread_t thread = ktap_thread(arm_soon, w);
	take(w, fd, &e, 1);
	ktap_join(thread);
	CHECK_EQ(e.cookie, 8);
}

CLOCK_TEST(it_works_without_the_descriptor)
{
	struct hwheel_event e;
	uint64_t before = ktap_clock();
	int n;

	CHECK_EQ(hwheel_once(w, 20 * MS, NULL, 0, 0, NULL), 0);
	while ((n = hwheel_poll(w, &e, 1, NULL)) == 0) {
		CHECK(ktap_clock() < before + PATIENCE_MS * MS);
		ktap_sleep_ms(1);
	}
	CHECK_EQ(n, 1);
	CHECK(ktap_clock() >= before + 20 * MS);
}

CLOCK_TEST(without_room_events_are_unclaimed)
{
	CHECK_EQ(hwheel_once(w, 0, NULL, 0, 0, NULL), 0);
	ktap_sleep_ms(5);
	CHECK_EQ(hwheel_poll(w, NULL, 0, NULL), 0);
	CHECK_EQ(stats(w).fired, 1);
	CHECK_EQ(stats(w).unclaimed, 1);
}

static pthread_t ran_on;

static void note_thread(struct hwheel *w, const struct hwheel_event *e)
{
	ran_on = pthread_self();
}

CLOCK_TEST(a_callback_runs_here)
{
	memset(&ran_on, 0, sizeof ran_on);
	CHECK_EQ(hwheel_once(w, 0, note_thread, 0, 0, NULL), 0);
	ktap_sleep_ms(5);
	CHECK_EQ(hwheel_poll(w, NULL, 0, NULL), 0);
	CHECK(pthread_equal(ran_on, pthread_self()));
}

static void *poll_once(void *w)
{
	hwheel_poll(w, NULL, 0, NULL);
	return NULL;
}

CLOCK_TEST(a_second_driver_is_refused)
{
	struct hwheel_event e;
	int poll, start, drain;

	ktap_arm_hold(w, 0);
	ktap_sleep_ms(5);
	pthread_t thread = ktap_thread(poll_once, w);
	ktap_until(&ktap_held, 1);
	poll = hwheel_poll(w, &e, 1, NULL);
	start = hwheel_start(w);
	drain = hwheel_drain(w, &e, 1);
	atomic_store(&ktap_may_go, 1);
	ktap_join(thread);
	CHECK_EQ(poll, -EBUSY);
	CHECK_EQ(start, -EBUSY);
	CHECK_EQ(drain, -EBUSY);
	/* and afterwards it is free again */
	CHECK_EQ(hwheel_poll(w, &e, 1, NULL), 0);
	CHECK_EQ(hwheel_once(w, 0, NULL, 0, 0, NULL), 0);
	CHECK_EQ(hwheel_start(w), 0);
}
