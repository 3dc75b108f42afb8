/* hwheel_next_expiry() concurrently with a driver: it disturbs none. */
#include <poll.h>
#include <sys/epoll.h>
#include "ktap.h"

static atomic_int over, asked;

static void *ask(void *w)
{
	uint64_t at;

	while (!atomic_load(&over)) {
		if (hwheel_next_expiry(w, &at) < 0)
			break;
		atomic_fetch_add(&asked, 1);
	}
	return NULL;
}

static void begin(pthread_t *thread, struct hwheel *w)
{
	atomic_store(&over, 0);
	atomic_store(&asked, 0);
	CHECK_EQ(pthread_create(thread, NULL, ask, w), 0);
	while (!atomic_load(&asked))
		ktap_sleep_ms(1);
}

static void end(pthread_t thread)
{
	atomic_store(&over, 1);
	pthread_join(thread, NULL);
}

enum { TIMERS = 50000 };

TEST(advance_is_not_disturbed)
{
	WHEEL w = ktap_manual(MS, 0, 0, 0);
	struct hwheel_event events[64];
	pthread_t thread;
	long refused = 0, fired = 0, kept = 0;

	for (int i = 0; i < TIMERS; i++) {
		hwheel_timer_t t;

		CHECK_EQ(hwheel_once(w, MS * (uint64_t)(i + 1), NULL, 0, HWHEEL_ABS, &t), 0);
		if (i % 3)
			CHECK_EQ(hwheel_timer_delete(w, t), 1);
		else
			kept++;
	}
	begin(&thread, w);
	for (uint64_t tick = 1; tick <= TIMERS; tick++) {
		int n = hwheel_advance(w, tick * MS, events, 64, NULL);

		refused += n == -EBUSY;
		fired += n > 0 ? n : 0;
	}
	end(thread);
	CHECK_EQ(refused, 0);
	CHECK_EQ(fired, kept);
}

/* A poll that is refused would never see another edge. */
TEST(an_edge_is_not_lost)
{
	struct epoll_event edge = { .events = EPOLLIN | EPOLLET };
	struct hwheel_event events[64];
	WHEEL w = NULL;
	pthread_t thread;
	int fd, loop = epoll_create1(0);

	CHECK_EQ(hwheel_create(NULL, &w), 0);
	fd = hwheel_fd(w);
	CHECK(loop >= 0 && fd >= 0);
	CHECK_EQ(epoll_ctl(loop, EPOLL_CTL_ADD, fd, &edge), 0);
	begin(&thread, w);
	for (int i = 0; i < 200; i++) {
		int fired = 0;

		CHECK_EQ(hwheel_once(w, MS, NULL, 0, 0, NULL), 0);
		while (!fired) {
			CHECK_EQ(epoll_wait(loop, &edge, 1, 5000), 1);
			fired = hwheel_poll(w, events, 64, NULL);
			CHECK(fired >= 0);
		}
	}
	end(thread);
	close(loop);
}

/* Never later than what is armed, also in the middle of a sweep. */
static atomic_int late;

static void compare(struct hwheel *w, const struct hwheel_event *e)
{
	uint64_t at = 0;

	/* one more is due at 2 s */
	if (hwheel_next_expiry(w, &at) != 1 || at > 2 * SEC)
		atomic_fetch_add(&late, 1);
}

TEST(in_a_sweep_it_is_not_too_late)
{
	WHEEL w = ktap_manual(MS, 0, 0, 0);

	CHECK_EQ(hwheel_once(w, 2 * SEC, NULL, 0, HWHEEL_ABS, NULL), 0);
	for (int i = 1; i <= 1000; i++)
		CHECK_EQ(hwheel_once(w, (uint64_t)i * MS, compare, 0, HWHEEL_ABS, NULL), 0);
	CHECK_EQ(hwheel_advance(w, SEC, NULL, 0, NULL), 0);
	CHECK_EQ(atomic_load(&late), 0);
}

/* As many were due as the array has room for. */
TEST(after_a_full_batch_it_names_what_is_left)
{
	WHEEL w = ktap_manual(MS, 0, 0, 0);
	struct hwheel_event events[4];
	uint64_t at = 7;

	for (int i = 0; i < 4; i++)
		CHECK_EQ(hwheel_once(w, 10 * MS, NULL, 0, HWHEEL_ABS, NULL), 0);
	CHECK_EQ(hwheel_advance(w, 20 * MS, events, 4, NULL), 4);
	/* the call has stopped at a bound, so the next one looks whether more is due */
	CHECK_EQ(hwheel_next_expiry(w, &at), 1);
	CHECK(at <= 20 * MS);
	CHECK_EQ(hwheel_advance(w, 20 * MS, events, 4, NULL), 0);
	CHECK_EQ(hwheel_next_expiry(w, &at), 0);
	CHECK_EQ(hwheel_once(w, SEC, NULL, 0, HWHEEL_ABS, NULL), 0);
	CHECK_EQ(hwheel_next_expiry(w, &at), 1);
	CHECK_EQ(at, SEC);
	CHECK_EQ(hwheel_advance(w, 20 * MS, events, 4, NULL), 0);
}

/* Where the tick thread sleeps it is as exact as without one. */
TEST(beside_the_tick_thread_it_is_exact)
{
	WHEEL w = NULL;
	uint64_t now, at = 0;
	hwheel_timer_t t;

	CHECK_EQ(hwheel_create(NULL, &w), 0);
	CHECK_EQ(hwheel_start(w), 0);
	CHECK_EQ(hwheel_once(w, 1000 * SEC, NULL, 0, 0, &t), 0);
	CHECK_EQ(hwheel_now(w, &now), 0);
	ktap_sleep_ms(50);
	CHECK_EQ(hwheel_next_expiry(w, &at), 1);
	CHECK(at > now + 990 * SEC && at <= now + 1000 * SEC + 2 * MS);
	/* it may name the time of a cancelled timer until the thread wakes */
	CHECK_EQ(hwheel_timer_delete(w, t), 1);
	CHECK_EQ(hwheel_once(w, MS, NULL, 0, 0, NULL), 0);
	for (int ms = 0; ms < 20000 && hwheel_next_expiry(w, &at) == 1; ms++)
		ktap_sleep_ms(1);
	CHECK_EQ(hwheel_next_expiry(w, &at), 0);
}
