/*
 * Callbacks that do what they must not, end the process, or take long: defects
 * that other timers had with these.
 */
#include <sys/resource.h>
#include <sys/wait.h>
#include "reentry.h"

static _Atomic unsigned d3_done;

static void d3_end(struct hwheel *w, const struct hwheel_event *e)
{
	struct hwheel_event left;

	EXPECT(hwheel_destroy(w), -EDEADLK);
	EXPECT(hwheel_stop(w), -EDEADLK);
	EXPECT(hwheel_drain(w, &left, 1), -EDEADLK);
	/* and nothing has changed */
	EXPECT(hwheel_once(w, 3 * MS, count_it, 0, 0, NULL), 0);
	n_fired++;
	d3_done++;
}

TEST(d3_callback_cannot_destroy_the_wheel)
{
	for (unsigned i = 0; i < 3; i++) {
		WHEEL w = start(&shapes[i], 0);

		CHECK_EQ(hwheel_once(w, MS, d3_end, 0, 0, NULL), 0);
		CHECK_EQ(hwheel_once(w, MS, count_it, 0, 0, NULL), 0);
		CHECK_EQ(hwheel_once(w, 2 * MS, count_it, 0, 0, NULL), 0);
		to(w, MS);
		to(w, 10 * MS);
		CHECK_EQ(n_fired, 4);
	}
}

TEST(d3_callback_of_the_thread_cannot_either)
{
	WHEEL w = start_thread();

	d3_done = 0;
	CHECK_EQ(hwheel_every(w, MS, MS, 0, d3_end, 0, 0, NULL), 0);
	for (unsigned ms = 0; ms < 5000 && d3_done < 3; ms++)
		ktap_sleep_ms(1);
	CHECK_EQ(hwheel_stop(w), 0);
	CHECK(d3_done >= 3);
	CHECK_EQ(bad, 0);
}

/* Another wheel is not its business. */
static void d3_other(struct hwheel *w, const struct hwheel_event *e)
{
	struct hwheel *other = (struct hwheel *)(uintptr_t)e->cookie;

	n_fired++;
	EXPECT(hwheel_destroy(other), 0);
}

TEST(d3_callback_may_destroy_another_wheel)
{
	struct hwheel *other = ktap_manual(0, 0, 0, 0);
	WHEEL w = start(&shapes[0], 0);

	CHECK_EQ(hwheel_once(other, 0, count_it, 0, 0, NULL), 0);
	CHECK_EQ(hwheel_once(w, 0, d3_other, (uintptr_t)other, 0, NULL), 0);
	to(w, MS);
	CHECK_EQ(n_fired, 1);
}

/*
 * The header: a callback must return, and an exception that leaves it ends the
 * process. C has none, and a longjmp over the library is not allowed; what can
 * be tested is that a callback that dies takes the process with it, instead of
 * a tick thread that is dead while everything else goes on.
 */
static void d7_die(struct hwheel *w, const struct hwheel_event *e)
{
	if (e->cookie == 0)
		abort();
	*(volatile char *)(uintptr_t)e->cookie = 0;
}

static int d7_child(uint64_t how, int threaded)
{
	pid_t pid = fork();
	int status = 0;

	if (pid == 0) {
		const struct rlimit none = { 0, 0 };
		struct hwheel_options o;
		struct hwheel *w = NULL;

		setrlimit(RLIMIT_CORE, &none);
		memset(&o, 0, sizeof o);
		o.size = sizeof o;
		o.clock = threaded ? HWHEEL_CLOCK_MONOTONIC : HWHEEL_CLOCK_MANUAL;
		if (hwheel_create(&o, &w) != 0 ||
		    (threaded && hwheel_start(w) != 0) ||
		    hwheel_once(w, 5 * MS, d7_die, how, 0, NULL) != 0)
			_exit(99);
		if (!threaded)
			hwheel_advance(w, 10 * MS, NULL, 0, NULL);
		ktap_sleep_ms(3000);
		_exit(98);	/* nobody has noticed */
	}
	if (pid < 0 || waitpid(pid, &status, 0) != pid)
		return -1;
	return WIFSIGNALED(status) ? WTERMSIG(status) : -WEXITSTATUS(status);
}

TEST(d7_callback_that_aborts_ends_the_process)
{
	CHECK_EQ(d7_child(0, 0), SIGABRT);
	CHECK_EQ(d7_child(0, 1), SIGABRT);
}

TEST(d7_fault_in_a_callback_ends_the_process)
{
	CHECK_EQ(d7_child(1, 0), SIGSEGV);
	/* the tick thread blocks signals; that of a fault is fatal all the same */
	CHECK_EQ(d7_child(1, 1), SIGSEGV);
}

static _Atomic unsigned d8_fired, d8_disorder, d8_inside, d8_release;
static _Atomic uint64_t d8_latest;

static void d8_note(struct hwheel *w, const struct hwheel_event *e)
{
	uint64_t now = 0;

	hwheel_now(w, &now);
	if (e->deadline_ns > now || e->deadline_ns < d8_latest)
		d8_disorder++;
	d8_latest = e->deadline_ns;
	d8_inside = 1;
	for (int i = 0; e->cookie == 0 && i < 20000 && !d8_release; i++)
		ktap_sleep_ms(1);
	d8_fired++;
}

/* The thread runs callbacks one by one: they come late, all, and in order. */
TEST(d8_slow_callback_loses_nothing)
{
	WHEEL w = start_thread();
	uint64_t now = 0;

	d8_fired = d8_disorder = 0;
	d8_latest = 0;
	d8_release = 0;
	CHECK_EQ(hwheel_now(w, &now), 0);
	now = now / MS * MS + 20 * MS;
	for (unsigned n = 40; n-- > 0;)
		CHECK_EQ(hwheel_once(w, now + n * 2 * MS, d8_note, n, HWHEEL_ABS, NULL), 0);
	ktap_sleep_ms(80);
	d8_release = 1;
	reach(&d8_fired, 40);
	CHECK_EQ(d8_disorder, 0);
	CHECK(live(w) <= 1);
}

/* It does not delay arms from outside. */
TEST(d8_slow_callback_does_not_hold_up_arms)
{
	WHEEL w = start_thread();
	hwheel_timer_t timer;

	d8_fired = d8_disorder = d8_inside = d8_release = 0;
	d8_latest = 0;
	CHECK_EQ(hwheel_once(w, 0, d8_note, 0, 0, NULL), 0);
	reach(&d8_inside, 1);
	CHECK_EQ(hwheel_once(w, 5 * MS, d8_note, 1, 0, NULL), 0);
	CHECK_EQ(hwheel_once(w, 5 * MS, d8_note, 2, 0, &timer), 0);
	CHECK_EQ(hwheel_timer_delete_sync(w, timer), 1);
	CHECK_EQ(d8_fired, 0);
	d8_release = 1;
	reach(&d8_fired, 2);
	CHECK_EQ(d8_disorder, 0);
}

static _Atomic unsigned d10_done;

static void d10_poll(struct hwheel *w, const struct hwheel_event *e)
{
	struct hwheel_event more;

	n_fired++;
	EXPECT(hwheel_poll(w, NULL, 0, NULL), -EBUSY);
	EXPECT(hwheel_poll(w, &more, 1, NULL), -EBUSY);
	EXPECT(hwheel_start(w), -EBUSY);
	d10_done++;
}

TEST(d10_poll_in_a_callback_is_refused)
{
	WHEEL w = NULL;

	n_fired = bad = 0;
	CHECK_EQ(hwheel_create(NULL, &w), 0);
	for (unsigned n = 0; n < 3; n++)
		CHECK_EQ(hwheel_once(w, 0, d10_poll, 0, 0, NULL), 0);
	ktap_sleep_ms(3);
	CHECK_EQ(hwheel_poll(w, NULL, 0, NULL), 0);
	CHECK_EQ(n_fired, 3);
	CHECK_EQ(bad, 0);
	/* and it can be driven as before, by the thread as well */
	CHECK_EQ(hwheel_poll(w, NULL, 0, NULL), 0);
	d10_done = 0;
	CHECK_EQ(hwheel_start(w), 0);
	CHECK_EQ(hwheel_once(w, 0, d10_poll, 0, 0, NULL), 0);
	reach(&d10_done, 1);
	CHECK_EQ(bad, 0);
}
