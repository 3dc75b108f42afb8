/* Promises of the header about threads, callbacks and the order of calls. */
#include "events.h"

/* Each call that leaves due timers makes a new edge. */
CLOCK_TEST(edge_triggered_polling_loses_nothing)
{
	enum { N = 20 };
	struct epoll_event event;
	int ep = epoll_on(w, EPOLLIN | EPOLLET), seen = 0;

	for (uint64_t i = 0; i < N; i++)
		CHECK_EQ(hwheel_once(w, i % 2 * 5 * MS, NULL, i, 0, NULL), 0);
	while (seen < N) {
		struct hwheel_event e[3];
		int n;

		CHECK_EQ(epoll_wait(ep, &event, 1, 20000), 1);
		n = hwheel_poll(w, e, 3, NULL);
		CHECK(n >= 0);
		seen += n;
	}
	CHECK_EQ(seen, N);
	CHECK_EQ(close(ep), 0);
}

struct crowd {
	struct hwheel *wheel;
	int ep;
	uint32_t trigger;
	atomic_uint fired, refused;
};

enum { CROWD = 4, ENOUGH = 5000 };

static void *wait_for_a_turn(void *arg)
{
	struct crowd *c = arg;
	struct epoll_event event;

	while (atomic_load(&c->fired) < ENOUGH && epoll_wait(c->ep, &event, 1, 20000) == 1) {
		struct hwheel_event e[8];
		int n = hwheel_poll(c->wheel, e, 8, NULL);

		if (n >= 0)
			atomic_fetch_add(&c->fired, (unsigned)n);
		else
			atomic_fetch_add(&c->refused, 1);
		event.events = EPOLLIN | c->trigger;
		if (c->trigger == EPOLLONESHOT)
			epoll_ctl(c->ep, EPOLL_CTL_MOD, hwheel_fd(c->wheel), &event);
	}
	return NULL;
}

/* Has several threads wait for one descriptor. Returns how often one was refused. */
static unsigned wait_in_a_crowd(uint32_t trigger)
{
	struct crowd c = { .trigger = trigger, .wheel = MADE(.tick_ns = MS / 1000) };
	pthread_t threads[CROWD];

	c.ep = epoll_on(c.wheel, EPOLLIN | trigger);
	for (uint64_t i = 0; i < 100; i++)
		CHECK_EQ(hwheel_every(c.wheel, i * MS / 100, MS, 0, NULL, i, HWHEEL_MISSED_BURST,
				      NULL), 0);
	ktap_begin(threads, CROWD, wait_for_a_turn, &c);
	ktap_end(threads, CROWD);
	CHECK(atomic_load(&c.fired) >= ENOUGH);
	CHECK_EQ(close(c.ep), 0);
	CHECK_EQ(hwheel_destroy(c.wheel), 0);
	return atomic_load(&c.refused);
}

/* A thread that is refused has used up an edge. The one that polls makes another. */
TEST_OF(a_refused_poll_loses_no_edge, wait_in_a_crowd(EPOLLET))
TEST_OF(no_poll_is_refused_with_oneshot, CHECK_EQ(wait_in_a_crowd(EPOLLONESHOT), 0))

/* As that of a new descriptor: a poll finds nothing, and ends that. */
CLOCK_TEST(a_descriptor_may_be_readable_with_nothing_due)
{
	struct epoll_event event;
	struct hwheel_event e;
	int ep = epoll_on(w, EPOLLIN);

	CHECK_EQ(epoll_wait(ep, &event, 1, 20000), 1);
	CHECK_EQ(hwheel_poll(w, &e, 1, NULL), 0);
	CHECK_EQ(epoll_wait(ep, &event, 1, 0), 0);
	CHECK_EQ(close(ep), 0);
}

/* The pattern of hwheel_timer_delete(): the object's handle of now decides. */
MANUAL_TEST(an_event_in_the_array_is_told_by_its_handle)
{
	hwheel_timer_t object[2] = { 0, 0 };
	struct hwheel_event e[2];
	int handled = 0;

	for (uint64_t i = 0; i < 2; i++)
		object[i] = ktap_armed(w, NULL, i, MS);
	CHECK_EQ(hwheel_advance(w, MS, e, 2, NULL), 2);
	for (int i = 0; i < 2; i++) {
		if (e[i].timer != object[e[i].cookie])
			continue;
		handled++;
		/* Both objects go away: too late to recall the other event. */
		CHECK_EQ(hwheel_timer_free(w, object[0]), 0);
		CHECK_EQ(hwheel_timer_free(w, object[1]), 0);
		object[0] = object[1] = 0;
	}
	CHECK_EQ(handled, 1);
	/* A new timer at the same place has another handle. */
	object[0] = ktap_timer(w);
	CHECK(object[0] != e[0].timer && object[0] != e[1].timer);
	/* One that is armed again has the same handle, and is pending. */
	CHECK_EQ(hwheel_timer_mod(w, object[0], MS, 0), 0);
	e[0] = one_event(w, 2 * MS);
	CHECK_EQ(hwheel_timer_pending(w, e[0].timer), 0);
	CHECK_EQ(hwheel_timer_mod(w, object[0], MS, 0), 0);
	CHECK_EQ(hwheel_timer_pending(w, e[0].timer), 1);
	one_event(w, 3 * MS);
}

static pthread_t ran_on;
static int ran;

static void note_thread(struct hwheel *w, const struct hwheel_event *e)
{
	ran_on = pthread_self();
	ran++;
}

static void request(struct hwheel *w, void *asked)
{
	++*(int *)asked;
}

/* With an executor the driving thread runs no callback; these two calls do. */
TEST(callbacks_run_on_the_stack_of_the_calls_that_say_so)
{
	int asked = 0;
	WHEEL w = MADE(.clock = HWHEEL_CLOCK_MANUAL, .executor = request, .executor_arg = &asked);
	hwheel_timer_t far = 0;
	struct hwheel_event e;
	uint64_t cursor = 0;

	ran = 0;
	for (int i = 0; i < 3; i++)
		CHECK_EQ(hwheel_once(w, MS, note_thread, 0, 0, NULL), 0);
	CHECK_EQ(hwheel_once(w, SEC, note_thread, 0, 0, &far), 0);
	CHECK_EQ(hwheel_advance(w, MS, NULL, 0, NULL), 0);
	CHECK_EQ(asked, 3);
	/* none of these */
	CHECK_EQ(hwheel_timer_mod(w, far, 2 * SEC, 0), 1);
	CHECK_EQ(hwheel_timer_pending(w, far), 1);
	CHECK(ktap_left(w, far) > 0);
	CHECK(ktap_next(w) != HWHEEL_NEVER);
	CHECK_EQ(ktap_now(w), MS);
	CHECK_EQ(hwheel_list(w, &cursor, &e, 1), 1);
	CHECK_EQ(stats(w).queued, 3);
	CHECK_EQ(hwheel_timer_delete_sync(w, far), 1);
	CHECK_EQ(hwheel_drain(w, &e, 1), 0);
	CHECK_EQ(ran, 0);
	CHECK_EQ(hwheel_run_queued(w), 1);
	CHECK_EQ(ran, 1);
	CHECK(pthread_equal(ran_on, pthread_self()));
	CHECK_EQ(hwheel_stop(w), 0);
	CHECK_EQ(ran, 3);
	CHECK(pthread_equal(ran_on, pthread_self()));
	CHECK_EQ(hwheel_run_queued(w), 0);
}

/* Two threads in hwheel_advance(), and one that starts the tick thread. */

enum { PATIENCE_S = 20 };

static struct hwheel *w;
static atomic_int fired, ended, over;
static atomic_ulong go;
static atomic_ullong tick;

static void spin(unsigned rounds)
{
	for (volatile unsigned i = 0; i < rounds; i++)
		;
}

static void slow(struct hwheel *w, const struct hwheel_event *e)
{
	spin(20000);
}

static void last(struct hwheel *w, const struct hwheel_event *e)
{
	atomic_store(&fired, 1);
}

/* 0 says that nothing that is due is left. */
static void *concurrently(void *arg)
{
	unsigned long seen = 0;
	unsigned seed = 1;

	while (!atomic_load(&over)) {
		if (atomic_load(&go) == seen)
			continue;
		seen = atomic_load(&go);
		spin((unsigned)rand_r(&seed) % 300);
		if (hwheel_advance(w, atomic_load(&tick) * MS, NULL, 0, NULL) == 0)
			CHECK(atomic_load(&fired));
		atomic_store(&ended, 1);
	}
	return arg;
}

TEST(zero_means_that_all_has_fired)
{
	uint64_t end = ktap_clock() + 5 * SEC;
	pthread_t thread;
	unsigned seed = 2;

	w = ktap_manual(MS, 0, 0, 0);
	ktap_begin(&thread, 1, concurrently, NULL);
	while (ktap_clock() < end) {
		fired = ended = 0;
		atomic_fetch_add(&tick, 1);
		CHECK_EQ(hwheel_once(w, atomic_load(&tick) * MS, slow, 0, HWHEEL_ABS, NULL), 0);
		CHECK_EQ(hwheel_once(w, atomic_load(&tick) * MS, last, 0, HWHEEL_ABS, NULL), 0);
		atomic_fetch_add(&go, 1);
		spin((unsigned)rand_r(&seed) % 300);
		hwheel_advance(w, atomic_load(&tick) * MS, NULL, 0, NULL);
		while (!atomic_load(&ended))
			;
		hwheel_advance(w, atomic_load(&tick) * MS, NULL, 0, NULL);
	}
	atomic_store(&over, 1);
	ktap_end(&thread, 1);
	CHECK_EQ(hwheel_destroy(w), 0);
}

static void *move(void *arg)
{
	uint64_t end = ktap_clock() + 3 * SEC, before, after;

	while (ktap_clock() < end) {
		for (int i = 0; i < 1000; i++) {
			hwheel_now(w, &before);
			hwheel_advance(w, atomic_fetch_add(&tick, 1), NULL, 0, NULL);
			hwheel_now(w, &after);
			CHECK(after >= before);
		}
	}
	return arg;
}

TEST(the_clock_does_not_go_back)
{
	pthread_t threads[2];

	w = ktap_manual(MS, 0, 0, 0);
	ktap_begin(threads, 2, move, NULL);
	ktap_end(threads, 2);
	CHECK_EQ(hwheel_destroy(w), 0);
}

/* The tick thread is started and stopped while a thread polls. */
static atomic_int polled;

static void *poll_all(void *arg)
{
	while (!atomic_load(&over)) {
		int n = hwheel_poll(w, NULL, 0, NULL);

		CHECK(n == 0 || n == -EBUSY);
		polled += n == 0;
	}
	return arg;
}

TEST(start_beside_a_thread_that_polls)
{
	pthread_t thread;
	int started = 0;

	over = 0;
	w = ktap_made(NULL);
	ktap_begin(&thread, 1, poll_all, NULL);
	for (int i = 0; i < 300 || (started == 0 && i < PATIENCE_S * 1000); i++) {
		int r = hwheel_start(w);

		CHECK(r == 0 || r == -EBUSY);
		atomic_store(&fired, 0);
		CHECK_EQ(hwheel_once(w, 0, last, 0, 0, NULL), 0);
		if (r == 0) {
			started++;
			ktap_until(&fired, 1);
			CHECK_EQ(hwheel_stop(w), 0);
		} else if (i >= 300) {
			ktap_sleep_ms(1);
		}
	}
	atomic_store(&over, 1);
	ktap_end(&thread, 1);
	CHECK(started > 0);
	CHECK_EQ(hwheel_destroy(w), 0);
}
