/* hwheel_start() and hwheel_stop(): the tick thread. */
#include <sys/timerfd.h>
#include "ktap.h"

static atomic_int calls, early, elsewhere, unblocked;
static pthread_t main_thread;

/* Whether a callback gets this signal. */
static int is_open(int s)
{
	return s == SIGSEGV || s == SIGBUS || s == SIGFPE || s == SIGILL ||
		s == SIGTRAP || s == SIGSYS || s == SIGPROF;
}

/* The cookie is the earliest time on CLOCK_MONOTONIC. */
static void note(struct hwheel *w, const struct hwheel_event *e)
{
	sigset_t mask;

	if (ktap_clock() < e->cookie || ktap_clock() < e->deadline_ns)
		atomic_fetch_add(&early, 1);
	if (!pthread_equal(pthread_self(), main_thread))
		atomic_fetch_add(&elsewhere, 1);
	pthread_sigmask(SIG_BLOCK, NULL, &mask);
	for (int s = 1; s < 32; s++)
		if (s != SIGKILL && s != SIGSTOP && sigismember(&mask, s) == is_open(s))
			atomic_fetch_add(&unblocked, 1);
	for (int s = SIGRTMIN; s <= SIGRTMAX; s++)
		if (!sigismember(&mask, s))
			atomic_fetch_add(&unblocked, 1);
	atomic_fetch_add(&calls, 1);
}

static void reset(void)
{
	main_thread = pthread_self();
	calls = early = elsewhere = unblocked = 0;
}

CLOCK_TEST(callbacks_run_on_a_thread_that_blocks_the_program_s_signals)
{
	sigset_t before, after;

	reset();
	pthread_sigmask(SIG_BLOCK, NULL, &before);
	CHECK_EQ(hwheel_start(w), 0);
	pthread_sigmask(SIG_BLOCK, NULL, &after);
	CHECK_EQ(hwheel_once(w, 0, note, 0, 0, NULL), 0);
	ktap_until(&calls, 1);
	CHECK_EQ(hwheel_stop(w), 0);
	CHECK_EQ(atomic_load(&elsewhere), 1);
	CHECK_EQ(atomic_load(&unblocked), 0);
	/* the caller's mask is as it was */
	for (int s = 1; s < 32; s++)
		CHECK_EQ(sigismember(&before, s), sigismember(&after, s));
}

THREAD_TEST(callbacks_are_never_early)
{
	uint64_t x = 88172645463325252u;

	reset();
	for (int i = 0; i < 300; i++) {
		uint64_t delay = ktap_dice(&x) % (200 * MS);

		CHECK_EQ(hwheel_once(w, delay, note, ktap_clock() + delay, 0, NULL), 0);
	}
	ktap_until(&calls, 300);
	CHECK_EQ(hwheel_stop(w), 0);
	CHECK_EQ(atomic_load(&calls), 300);
	CHECK_EQ(atomic_load(&early), 0);
}

TEST(every_clock_can_be_ticked)
{
	for (uint32_t clock = 0; clock < HWHEEL_CLOCK_MANUAL; clock++) {
		WHEEL w = MADE(.clock = clock);

		reset();
		CHECK_EQ(hwheel_start(w), 0);
		CHECK_EQ(hwheel_once(w, ktap_now(w) + 10 * MS, note, 0, HWHEEL_ABS, NULL), 0);
		ktap_until(&calls, 1);
	}
}

THREAD_TEST(started_it_cannot_be_started_or_polled)
{
	struct hwheel_event e;

	CHECK_EQ(hwheel_start(w), -EBUSY);
	CHECK_EQ(hwheel_poll(w, &e, 1, NULL), -EBUSY);
	CHECK_EQ(hwheel_poll(w, NULL, 0, NULL), -EBUSY);
	CHECK_EQ(hwheel_drain(w, &e, 1), -EBUSY);
	/* arguments are looked at first */
	CHECK_EQ(hwheel_poll(w, NULL, 1, NULL), -EINVAL);
	CHECK_EQ(hwheel_advance(w, 0, NULL, 0, NULL), -EINVAL);
	CHECK_EQ(hwheel_stop(w), 0);
	CHECK_EQ(hwheel_poll(w, &e, 1, NULL), 0);
}

CLOCK_TEST(it_stops_and_starts_again)
{
	reset();
	CHECK_EQ(hwheel_stop(w), 0);
	for (int i = 1; i <= 20; i++) {
		CHECK_EQ(hwheel_start(w), 0);
		CHECK_EQ(hwheel_once(w, 0, note, 0, 0, NULL), 0);
		ktap_until(&calls, i);
		CHECK_EQ(hwheel_stop(w), 0);
		CHECK_EQ(hwheel_stop(w), 0);
	}
	/* at once, before the thread has run at all */
	for (int i = 0; i < 50; i++) {
		CHECK_EQ(hwheel_start(w), 0);
		CHECK_EQ(hwheel_stop(w), 0);
	}
	CHECK_EQ(hwheel_start(w), 0);
}

THREAD_TEST(stopped_nothing_fires_and_timers_stay_armed)
{
	struct hwheel_event e;
	hwheel_timer_t t = 0;

	reset();
	t = ktap_armed(w, note, 0, 200 * MS);
	CHECK_EQ(hwheel_stop(w), 0);
	CHECK_EQ(hwheel_timer_mod(w, t, 5 * MS, 0), 1);
	ktap_sleep_ms(20);
	CHECK_EQ(atomic_load(&calls), 0);
	CHECK_EQ(hwheel_timer_pending(w, t), 1);
	/* by hand */
	CHECK_EQ(hwheel_poll(w, &e, 1, NULL), 0);
	CHECK_EQ(atomic_load(&calls), 1);
	/* and by the thread */
	CHECK_EQ(hwheel_timer_mod(w, t, 0, 0), 0);
	CHECK_EQ(hwheel_start(w), 0);
	ktap_until(&calls, 2);
}

CLOCK_TEST(timers_without_a_callback_are_unclaimed)
{
	CHECK_EQ(hwheel_once(w, 0, NULL, 0, 0, NULL), 0);
	CHECK_EQ(hwheel_start(w), 0);
	CHECK_EQ(hwheel_once(w, 0, NULL, 0, 0, NULL), 0);
	ktap_wait(stats(w).unclaimed >= 2);
	CHECK_EQ(stats(w).unclaimed, 2);
	CHECK_EQ(stats(w).live, 0);
}

static atomic_int answers[2], answered;

static void *stop_it(void *w)
{
	int answer = hwheel_stop(w);

	atomic_store(&answers[atomic_fetch_add(&answered, 1)], answer);
	return NULL;
}

static void *poll_it(void *w)
{
	return (void *)(intptr_t)hwheel_poll(w, NULL, 0, NULL);
}

static void *run_it(void *w)
{
	return (void *)(intptr_t)hwheel_run_queued(w);
}

/*
 * Of two that stop it while a callback runs, one waits and one is refused, whichever
 * thread runs the callback.
 */
TEST(only_one_thread_stops_it)
{
	enum { TICK_THREAD, POLL, WORKER, EXECUTOR, WAYS };

	for (int way = 0; way < WAYS; way++) {
		struct hwheel *w;
		pthread_t thread[2], runs;
		int stop, destroy, start, first, running;

		ktap_held = ktap_may_go = answered = 0;
		w = MADE(.workers = way == WORKER,
			.executor = way == EXECUTOR ? ktap_no_executor : NULL);
		CHECK_EQ(hwheel_once(w, 0, ktap_hold, 0, 0, NULL), 0);
		if (way == TICK_THREAD)
			CHECK_EQ(hwheel_start(w), 0);
		ktap_sleep_ms(5);
		if (way == WORKER || way == EXECUTOR)
			CHECK_EQ(hwheel_poll(w, NULL, 0, NULL), 0);
		if (way == POLL || way == EXECUTOR)
			ktap_begin(&runs, 1, way == POLL ? poll_it : run_it, w);
		ktap_until(&ktap_held, 1);
		ktap_begin(thread, 2, stop_it, w);
		ktap_until(&answered, 1);
		first = atomic_load(&answers[0]);
		/* now the other one is in hwheel_stop() */
		stop = hwheel_stop(w);
		destroy = hwheel_destroy(w);
		start = way == TICK_THREAD ? hwheel_start(w) : -EBUSY;
		running = atomic_load(&ktap_held);
		atomic_store(&ktap_may_go, 1);
		ktap_end(thread, 2);
		if (way == POLL || way == EXECUTOR)
			ktap_end(&runs, 1);
		CHECK_EQ(atomic_load(&ktap_held), 0);
		CHECK_EQ(running, 1);
		CHECK_EQ(first, -EBUSY);
		CHECK_EQ(atomic_load(&answers[1]), 0);
		CHECK_EQ(stop, -EBUSY);
		CHECK_EQ(destroy, -EBUSY);
		CHECK_EQ(start, -EBUSY);
		CHECK_EQ(hwheel_destroy(w), 0);
	}
}

TEST(stop_and_destroy_wait_for_the_callback)
{
	for (int k = 0; k < 2; k++) {
		struct hwheel *w = ktap_started(NULL);

		ktap_arm_hold(w, 0);
		ktap_until(&ktap_held, 1);
		pthread_t thread = ktap_thread(ktap_let_go, NULL);
		CHECK_EQ(k == 0 ? hwheel_stop(w) : hwheel_destroy(w), 0);
		CHECK_EQ(atomic_load(&ktap_held), 0);
		CHECK_EQ(atomic_load(&ktap_may_go), 1);
		ktap_join(thread);
		if (k == 0)
			CHECK_EQ(hwheel_destroy(w), 0);
	}
}

THREAD_TEST(stop_does_not_run_what_is_left)
{
	struct hwheel_event e[8];

	reset();
	ktap_arm_hold(w, 0);
	ktap_until(&ktap_held, 1);
	/* due while the callback runs */
	for (int i = 0; i < 5; i++)
		CHECK_EQ(hwheel_once(w, 0, note, 0, 0, NULL), 0);
	pthread_t thread = ktap_thread(ktap_let_go, NULL);
	CHECK_EQ(hwheel_stop(w), 0);
	ktap_join(thread);
	int ran = atomic_load(&calls);
	ktap_sleep_ms(10);
	CHECK_EQ(atomic_load(&calls), ran);
	/* each is still there, once */
	CHECK_EQ(hwheel_drain(w, e, 8), 5 - ran);
}

static void call_slowly(struct hwheel *w, const struct hwheel_event *e)
{
	atomic_fetch_add(&calls, 1);
	ktap_sleep_ms(1);
}

/* The tick thread ends after the callback that it runs, however many timers are due. */
CLOCK_TEST(a_stop_ends_in_the_middle_of_a_sweep)
{
	const int many = 5000;
	uint64_t due = ktap_clock() + 10 * MS;

	reset();
	for (int i = 0; i < many; i++)
		CHECK_EQ(hwheel_once(w, due, call_slowly, 0, HWHEEL_ABS, NULL), 0);
	CHECK_EQ(hwheel_start(w), 0);
	ktap_until(&calls, 1);
	CHECK_EQ(hwheel_stop(w), 0);
	CHECK(atomic_load(&calls) < many);
	CHECK_EQ(stats(w).pending, (uint64_t)(many - atomic_load(&calls)));
}

static atomic_int handled, handled_elsewhere;

static void handler(int signal)
{
	atomic_fetch_add(&handled, 1);
	if (!pthread_equal(pthread_self(), main_thread))
		atomic_fetch_add(&handled_elsewhere, 1);
}

TEST(signals_of_the_process_are_not_handled_there)
{
	struct hwheel *w = ktap_made(NULL);
	struct sigaction on, old;

	reset();
	handled = handled_elsewhere = 0;
	memset(&on, 0, sizeof on);
	on.sa_handler = handler;
	CHECK_EQ(sigaction(SIGUSR1, &on, &old), 0);
	CHECK_EQ(hwheel_start(w), 0);
	for (int i = 0; i < 100; i++) {
		CHECK_EQ(hwheel_once(w, 0, note, 0, 0, NULL), 0);
		CHECK_EQ(kill(getpid(), SIGUSR1), 0);
	}
	ktap_until(&calls, 100);
	ktap_until(&handled, 1);
	CHECK_EQ(hwheel_destroy(w), 0);
	CHECK_EQ(sigaction(SIGUSR1, &old, NULL), 0);
	CHECK_EQ(atomic_load(&handled_elsewhere), 0);
}

static struct {
	struct hwheel *w;
	atomic_int inside, entered, started;
} polled;

/* Long enough for a stop that does not wait to return meanwhile. */
static void take_a_while(struct hwheel *w, const struct hwheel_event *e)
{
	atomic_store(&polled.inside, 1);
	atomic_fetch_add(&polled.entered, 1);
	ktap_sleep_ms(50);
	atomic_store(&polled.inside, 0);
}

static void *poll_once(void *unused)
{
	ktap_sleep_ms(5);
	CHECK_EQ(hwheel_poll(polled.w, NULL, 0, NULL), 0);
	return unused;
}

/* A poll has begun with these callbacks: a stop waits for all of them. */
static void stop_while_polling(hwheel_fn fn, int timers)
{
	int running, before;

	polled.entered = 0;
	polled.w = ktap_made(NULL);
	for (int i = 0; i < timers; i++)
		CHECK_EQ(hwheel_once(polled.w, MS, fn, 0, 0, NULL), 0);
	pthread_t thread = ktap_thread(poll_once, NULL);
	/* On a busy machine a callback may have ended before this thread looks. */
	ktap_until(&polled.entered, 1);
	CHECK_EQ(hwheel_stop(polled.w), 0);
	running = atomic_load(&polled.inside);
	before = atomic_load(&polled.entered);
	ktap_join(thread);
	CHECK_EQ(running, 0);
	CHECK_EQ(before, timers);
	CHECK_EQ(atomic_load(&polled.entered), timers);
	CHECK_EQ(hwheel_destroy(polled.w), 0);
}

TEST_OF(a_stop_waits_for_a_poll, stop_while_polling(take_a_while, 3))

static struct {
	struct hwheel *w;
	int (*end)(struct hwheel *w);
	atomic_int answer;
} ending;

static void *end_it(void *unused)
{
	atomic_store(&ending.answer, ending.end(ending.w));
	return unused;
}

/* A thread that pthread_cancel() ends in the middle of a stop completes the stop first. */
TEST(a_thread_that_is_cancelled_ends_the_wheel_first)
{
	for (int k = 0; k < 3; k++) {
		pthread_t driver;

		ending.end = k == 0 ? hwheel_destroy : hwheel_stop;
		ending.w = polled.w = ktap_made(NULL);
		CHECK(hwheel_fd(ending.w) >= 0);
		atomic_store(&ending.answer, 1);
		ktap_arm_hold(ending.w, 0);
		if (k < 2)
			CHECK_EQ(hwheel_start(ending.w), 0);
		else
			CHECK_EQ(pthread_create(&driver, NULL, poll_once, NULL), 0);
		ktap_until(&ktap_held, 1);
		pthread_t thread = ktap_thread(end_it, NULL);
		ktap_sleep_ms(20);
		CHECK_EQ(pthread_cancel(thread), 0);
		ktap_sleep_ms(5);
		atomic_store(&ktap_may_go, 1);
		ktap_join(thread);
		if (k == 2)
			CHECK_EQ(pthread_join(driver, NULL), 0);
		CHECK_EQ(atomic_load(&ending.answer), 0);
		if (k > 0)
			CHECK_EQ(hwheel_destroy(ending.w), 0);
	}
}

/* Delays one thread in timerfd_settime(), the last system call of its poll. */
static __thread int dawdles;
static atomic_int signalled;

int timerfd_settime(int fd, int flags, const struct itimerspec *to,
		    struct itimerspec *was)
{
	int r = (int)syscall(SYS_timerfd_settime, fd, flags, to, was);

	if (dawdles)
		ktap_sleep_ms(50);
	return r;
}

static void signal_it(struct hwheel *w, const struct hwheel_event *e)
{
	atomic_store(&signalled, 1);
	ktap_sleep_ms(10);
}

static void mark_it(struct hwheel *w, const struct hwheel_event *e)
{
	atomic_fetch_or(&signalled, 1);
}

static void *poll_one_of_two(void *unused)
{
	struct hwheel_run run = { .size = sizeof run, .max_fired = 1 };

	dawdles = 1;
	CHECK_EQ(hwheel_poll(polled.w, NULL, 0, &run), 0);
	CHECK_EQ(run.left, 1);
	atomic_store(&polled.inside, 1);
	return unused;
}

/* After the stop, no poll uses the wheel, so it can be destroyed. */
TEST(a_stop_waits_until_a_poll_has_ended)
{
	for (int started = 0; started < 2; started++) {
		atomic_store(&signalled, 0);
		CHECK_EQ(hwheel_create(NULL, &polled.w), 0);
		CHECK(hwheel_fd(polled.w) >= 0);
		for (int i = 0; i < 2; i++)
			CHECK_EQ(hwheel_once(polled.w, 0, signal_it, 0, 0, NULL), 0);
		ktap_sleep_ms(3);
		pthread_t thread = ktap_thread(poll_one_of_two, NULL);
		ktap_until(&signalled, 1);
		/* a tick thread has started while the poll returns */
		while (started && hwheel_start(polled.w) == -EBUSY)
			ktap_sleep_ms(1);
		CHECK_EQ(hwheel_stop(polled.w), 0);
		ktap_join(thread);
		CHECK_EQ(atomic_exchange(&polled.inside, 0), 1);
		CHECK_EQ(hwheel_destroy(polled.w), 0);
	}
}

static void cancel_this_thread(struct hwheel *w, const struct hwheel_event *e)
{
	pthread_cancel(pthread_self());
	atomic_fetch_add(&calls, 1);
}

/* The thread reaches no cancellation point, neither in a callback nor in the library. */
CLOCK_TEST(a_tick_thread_that_is_cancelled_drives_on)
{
	atomic_store(&calls, 0);
	CHECK_EQ(hwheel_start(w), 0);
	for (int i = 0; i < 3; i++) {
		CHECK_EQ(hwheel_once(w, 0, cancel_this_thread, 0, 0, NULL), 0);
		ktap_until(&calls, i + 1);
		/* until it sleeps */
		ktap_sleep_ms(20);
	}
}

static void *poll_all_the_time(void *unused)
{
	struct hwheel_run run = { .size = sizeof run, .max_fired = 1 };

	dawdles = 1;
	while (!atomic_load(&ktap_may_go))
		hwheel_poll(polled.w, NULL, 0, &run);
	return unused;
}

static void *stop_the_polled(void *unused)
{
	CHECK_EQ(hwheel_stop(polled.w), 0);
	atomic_fetch_or(&signalled, 2);
	return unused;
}

/* At every moment some poll is about to return, but each one does return. */
TEST(a_stop_waits_for_no_later_poll)
{
	enum { POLLS = 4, TIMERS = 4000 };
	pthread_t polls[POLLS];

	signalled = ktap_may_go = 0;
	polled.w = ktap_made(NULL);
	CHECK(hwheel_fd(polled.w) >= 0);
	for (int i = 0; i < TIMERS; i++)
		CHECK_EQ(hwheel_once(polled.w, 0, mark_it, 0, 0, NULL), 0);
	ktap_sleep_ms(3);
	ktap_begin(polls, POLLS, poll_all_the_time, NULL);
	ktap_until(&signalled, 1);
	pthread_t stop = ktap_thread(stop_the_polled, NULL);
	ktap_until(&signalled, 2);
	CHECK_EQ(atomic_load(&signalled), 3);
	CHECK(ktap_next(polled.w) != HWHEEL_NEVER);
	atomic_store(&ktap_may_go, 1);
	ktap_end(polls, POLLS);
	ktap_join(stop);
	CHECK_EQ(hwheel_destroy(polled.w), 0);
}

/* Long enough for a stop that meets one of these starts. */
static void start_again_and_again(struct hwheel *w, const struct hwheel_event *e)
{
	uint64_t end = ktap_clock() + 20 * MS;

	atomic_store(&polled.inside, 1);
	atomic_fetch_add(&polled.entered, 1);
	while (ktap_clock() < end)
		if (hwheel_start(w) != -EBUSY)
			atomic_fetch_add(&polled.started, 1);
	atomic_store(&polled.inside, 0);
}

/* The stop may find a start under way, which fails as this thread polls. */
TEST(a_stop_waits_for_a_poll_beside_a_start)
{
	polled.started = 0;
	for (int i = 0; i < 20; i++)
		stop_while_polling(start_again_and_again, 1);
	CHECK_EQ(atomic_load(&polled.started), 0);
}

/* The lowest descriptor that is free. */
static int next_descriptor(void)
{
	int fd = dup(STDOUT_FILENO);

	CHECK(fd > 0);
	close(fd);
	return fd;
}

TEST(a_start_that_is_refused_makes_no_descriptor)
{
	struct hwheel *w = ktap_made(NULL), *manual = ktap_manual(0, 0, 0, 0);
	struct hwheel_event e;
	int before = next_descriptor();

	CHECK_EQ(hwheel_drain(w, &e, 1), 0);
	CHECK_EQ(hwheel_start(w), -ESHUTDOWN);
	CHECK_EQ(hwheel_start(manual), -EINVAL);
	CHECK_EQ(next_descriptor(), before);
	CHECK_EQ(hwheel_destroy(w), 0);
	CHECK_EQ(hwheel_destroy(manual), 0);
}
