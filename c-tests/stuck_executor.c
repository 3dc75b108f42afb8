/*
 * An executor that no longer runs anything, works late, or calls back into the
 * library: stop and destroy return, and each callback has run once.
 */
#include "child.h"
#include "ktap.h"

enum { QUEUE = 4, TIMERS = 20 };

static atomic_int ran, asked;
static atomic_int from_executor[6];

static void count(struct hwheel *w, const struct hwheel_event *e)
{
	atomic_fetch_add(&ran, 1);
}

/* Does nothing, like a pool that was shut down first. */
static void refuse(struct hwheel *w, void *arg)
{
	atomic_fetch_add(&asked, 1);
}

static struct hwheel *wheel(hwheel_executor_fn executor, uint32_t overload,
			    uint32_t clock)
{
	struct hwheel_options o = { .size = sizeof o };
	struct hwheel *w = NULL;

	o.executor = executor;
	o.queue = QUEUE;
	o.overload = overload;
	o.clock = clock;
	EXPECT(hwheel_create(&o, &w), 0);
	return w;
}

static void fill(struct hwheel *w)
{
	for (int i = 0; i < TIMERS; i++)
		EXPECT(hwheel_once(w, MS, count, 0, 0, NULL), 0);
}

/* The tick thread runs what the queue has no room for; the stop runs the rest. */
static void stop_with_a_full_queue(void)
{
	struct hwheel *w = wheel(refuse, HWHEEL_OVERLOAD_RUN, 0);

	EXPECT(hwheel_start(w), 0);
	fill(w);
	until(&ran, TIMERS - QUEUE);
	EXPECT(stats(w).queued, QUEUE);
	EXPECT(atomic_load(&asked), QUEUE);
	EXPECT(hwheel_stop(w), 0);
	EXPECT(stats(w).queued, 0);
	EXPECT(atomic_load(&ran), TIMERS);
	/* it can go on */
	EXPECT(hwheel_start(w), 0);
	fill(w);
	until(&ran, 2 * TIMERS - QUEUE);
	EXPECT(hwheel_stop(w), 0);
	EXPECT(atomic_load(&ran), 2 * TIMERS);
	EXPECT(hwheel_destroy(w), 0);
}

TEST(stop_returns_though_the_executor_refuses)
{
	in_a_child(stop_with_a_full_queue);
}

static void destroy_with_a_full_queue(void)
{
	struct hwheel *w = wheel(refuse, HWHEEL_OVERLOAD_RUN, 0);

	EXPECT(hwheel_start(w), 0);
	fill(w);
	until(&ran, TIMERS - QUEUE);
	EXPECT(hwheel_destroy(w), 0);
	EXPECT(atomic_load(&ran), TIMERS);
}

TEST(destroy_returns_though_the_executor_refuses)
{
	in_a_child(destroy_with_a_full_queue);
}

/* Of a thread that advances: the stop runs what that has put into the queue. */
static void stop_after_an_advance(void)
{
	struct hwheel *w = wheel(refuse, HWHEEL_OVERLOAD_DROP, HWHEEL_CLOCK_MANUAL);

	fill(w);
	EXPECT(hwheel_advance(w, SEC, NULL, 0, NULL), 0);
	EXPECT(atomic_load(&ran), 0);
	EXPECT(stats(w).dropped, TIMERS - QUEUE);
	EXPECT(hwheel_stop(w), 0);
	EXPECT(atomic_load(&ran), QUEUE);
	EXPECT(hwheel_destroy(w), 0);
}

TEST(stop_runs_what_an_advance_has_queued)
{
	in_a_child(stop_after_an_advance);
}

/* It is asked once for each; late is not never. */
static void delete_sync_beside_an_executor_that_refuses(void)
{
	struct hwheel *w = wheel(refuse, HWHEEL_OVERLOAD_RUN, HWHEEL_CLOCK_MANUAL);
	hwheel_timer_t t;

	EXPECT(hwheel_timer_setup(w, count, 0, &t), 0);
	EXPECT(hwheel_timer_mod(w, t, MS, 0), 0);
	EXPECT(hwheel_advance(w, 5 * MS, NULL, 0, NULL), 0);
	EXPECT(stats(w).queued, 1);
	EXPECT(hwheel_timer_delete_sync(w, t), 1);
	EXPECT(hwheel_run_queued(w), 0);
	EXPECT(atomic_load(&ran), 0);
	EXPECT(stats(w).cancelled, 1);
	EXPECT(stats(w).fired, 0);
	EXPECT(hwheel_timer_mod(w, t, MS, 0), 0);
	EXPECT(hwheel_advance(w, 10 * MS, NULL, 0, NULL), 0);
	EXPECT(hwheel_run_queued(w), 1);
	EXPECT(atomic_load(&ran), 1);
	EXPECT(hwheel_destroy(w), 0);
}

TEST(delete_sync_does_not_wait_for_what_never_begins)
{
	in_a_child(delete_sync_beside_an_executor_that_refuses);
}

/* Each call by its own timer, and both of timers that are gone. */
static void sync_calls_on_what_is_gone(void)
{
	struct hwheel *w = wheel(refuse, HWHEEL_OVERLOAD_RUN, HWHEEL_CLOCK_MANUAL);
	int (*const calls[])(struct hwheel *, hwheel_timer_t) = {
		hwheel_timer_delete_sync, hwheel_timer_shutdown_sync,
	};
	hwheel_timer_t timers[2], first;

	EXPECT(hwheel_once(w, MS, count, 0, 0, &first), 0);
	for (int i = 0; i < 2; i++)
		EXPECT(hwheel_timer_setup(w, count, 0, &timers[i]), 0);
	for (int i = 0; i < 2; i++)
		EXPECT(hwheel_timer_mod(w, timers[i], 2 * MS, 0), 0);
	EXPECT(hwheel_advance(w, 5 * MS, NULL, 0, NULL), 0);
	for (int i = 0; i < 2; i++)
		EXPECT(hwheel_timer_free(w, timers[i]), 0);
	EXPECT(stats(w).queued, 3);
	for (int i = 0; i < 2; i++) {
		EXPECT(hwheel_timer_delete(w, timers[i]), -ESTALE);
		EXPECT(calls[i](w, timers[i]), 1);
		EXPECT(calls[i](w, timers[i]), -ESTALE);
		EXPECT(stats(w).queued, 2 - i);
	}
	EXPECT(hwheel_run_queued(w), 1);
	EXPECT(hwheel_run_queued(w), 0);
	EXPECT(stats(w).queued, 0);
	EXPECT(atomic_load(&ran), 1);
	EXPECT(hwheel_destroy(w), 0);
}

TEST(sync_calls_take_out_what_is_gone)
{
	in_a_child(sync_calls_on_what_is_gone);
}

/* Calls that the executor function makes itself. */
static void call_back(struct hwheel *w, void *arg)
{
	hwheel_timer_t t = 0;
	struct hwheel_event e;

	atomic_store(&from_executor[0], hwheel_stop(w));
	atomic_store(&from_executor[1], hwheel_destroy(w));
	atomic_store(&from_executor[2], hwheel_drain(w, &e, 1));
	atomic_store(&from_executor[3], hwheel_poll(w, NULL, 0, NULL));
	atomic_store(&from_executor[4], hwheel_once(w, SEC, count, 0, 0, &t));
	atomic_store(&from_executor[5], hwheel_timer_delete_sync(w, t));
	/* an executor may also be this thread */
	hwheel_run_queued(w);
	atomic_fetch_add(&asked, 1);
}

static void stop_from_the_executor(void)
{
	static const int want[] = { -EDEADLK, -EDEADLK, -EDEADLK, -EBUSY, 0, 1 };
	struct hwheel *w = wheel(call_back, HWHEEL_OVERLOAD_RUN, 0);

	EXPECT(hwheel_start(w), 0);
	EXPECT(hwheel_once(w, MS, count, 0, 0, NULL), 0);
	until(&asked, 1);
	for (int i = 0; i < 6; i++)
		EXPECT(atomic_load(&from_executor[i]), want[i]);
	/* the wheel is as it was */
	EXPECT(hwheel_start(w), -EBUSY);
	EXPECT(hwheel_once(w, MS, count, 0, 0, NULL), 0);
	until(&asked, 2);
	EXPECT(hwheel_stop(w), 0);
	EXPECT(atomic_load(&ran), 2);
	EXPECT(hwheel_destroy(w), 0);
}

TEST(the_executor_cannot_stop_the_wheel)
{
	in_a_child(stop_from_the_executor);
}
