/* Wheels whose loop sleeps in its own call: the function that wakes it, and when to call. */
#include "ktap.h"

#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/wait.h>

static atomic_uint woken, fired;
static void *woken_arg;

static void wake(struct hwheel *w, void *arg)
{
	woken_arg = arg;
	atomic_fetch_add(&woken, 1);
	errno = EIO;
}

static void fire(struct hwheel *w, const struct hwheel_event *e)
{
	atomic_fetch_add(&fired, 1);
}

/* A wheel with a manual clock, and with this function. */
static struct hwheel *make(hwheel_wake_fn fn, void *arg)
{
	woken = fired = 0;
	return MADE(.clock = HWHEEL_CLOCK_MANUAL, .wake = fn, .wake_arg = arg);
}

static uint64_t next_of(int result, const struct hwheel_run *run)
{
	CHECK(result >= 0);
	return run->next_ns;
}

static uint64_t advance(struct hwheel *w, uint64_t now)
{
	struct hwheel_run run = { .size = sizeof run, .next_ns = 7 };

	return next_of(hwheel_advance(w, now, NULL, 0, &run), &run);
}

WHEEL_TEST(a_call_says_when_to_call_again, make(wake, &woken))
{
	hwheel_timer_t t = ktap_timer_of(w, fire, 0);

	CHECK(advance(w, MS) == HWHEEL_NEVER);
	CHECK_EQ(hwheel_timer_mod(w, t, 50 * MS, HWHEEL_ABS), 0);
	CHECK_EQ(advance(w, 2 * MS), 50 * MS);
	CHECK_EQ(hwheel_timer_delete(w, t), 1);
	/* A call that comes again at the same time looks at the timers that come next. */
	CHECK_EQ(advance(w, 3 * MS), 50 * MS);
	CHECK(advance(w, 3 * MS) == HWHEEL_NEVER);
	CHECK_EQ(hwheel_timer_mod(w, t, 3600 * SEC, HWHEEL_ABS), 0);
	CHECK_EQ(advance(w, 4 * MS), 3600 * SEC);
	CHECK_EQ(advance(w, 3600 * SEC), HWHEEL_NEVER);
	CHECK_EQ(atomic_load(&fired), 1);
}

MANUAL_TEST(without_it_a_call_says_so_too)
{
	CHECK(advance(w, MS) == HWHEEL_NEVER);
	CHECK_EQ(hwheel_once(w, 9 * MS, fire, 0, 0, NULL), 0);
	CHECK_EQ(advance(w, MS), 10 * MS);
}

/* A struct of a caller who does not know the member is not written beyond its size. */
MANUAL_TEST(a_shorter_struct_is_kept)
{
	struct hwheel_run run = { .size = offsetof(struct hwheel_run, next_ns), .next_ns = 7 };

	CHECK_EQ(hwheel_advance(w, MS, NULL, 0, &run), 0);
	CHECK_EQ(run.next_ns, 7);
}

WHEEL_TEST(what_is_left_is_due_now, make(wake, &woken))
{
	struct hwheel_run run = { .size = sizeof run, .max_fired = 1 };

	for (int i = 0; i < 3; i++)
		CHECK_EQ(hwheel_once(w, MS, fire, 0, 0, NULL), 0);
	CHECK(next_of(hwheel_advance(w, 5 * MS, NULL, 0, &run), &run) <= 5 * MS);
	CHECK_EQ(run.left, 1);
}

TEST(an_earlier_arm_wakes_once_until_the_next_call)
{
	struct hwheel *w = make(wake, &woken);

	CHECK(advance(w, MS) == HWHEEL_NEVER);
	errno = 0;
	CHECK_EQ(hwheel_once(w, 100 * MS, fire, 0, 0, NULL), 0);
	CHECK_EQ(errno, 0);
	CHECK_EQ(atomic_load(&woken), 1);
	CHECK(woken_arg == &woken);
	/* Earlier and earlier: the loop wakes anyway. */
	for (uint64_t i = 99; i > 50; i--)
		CHECK_EQ(hwheel_once(w, i * MS, fire, 0, 0, NULL), 0);
	CHECK_EQ(atomic_load(&woken), 1);
	CHECK_EQ(advance(w, 2 * MS), 52 * MS);
	/* Later than announced: no reason to wake. */
	CHECK_EQ(hwheel_once(w, 70 * MS, fire, 0, 0, NULL), 0);
	CHECK_EQ(atomic_load(&woken), 1);
	CHECK_EQ(hwheel_once(w, 3 * MS, fire, 0, 0, NULL), 0);
	CHECK_EQ(atomic_load(&woken), 2);
	CHECK_EQ(advance(w, 5 * MS), 52 * MS);
	CHECK_EQ(atomic_load(&fired), 1);
	CHECK_EQ(hwheel_destroy(w), 0);
	CHECK_EQ(atomic_load(&woken), 2);
}

static void arm_again(struct hwheel *w, const struct hwheel_event *e)
{
	atomic_fetch_add(&fired, 1);
	CHECK(hwheel_timer_mod(w, e->timer, MS, 0) >= 0);
}

WHEEL_TEST(arms_in_callbacks_do_not_wake, make(wake, &woken))
{
	ktap_armed(w, arm_again, 0, MS);
	for (uint64_t now = 1; now <= 100; now++)
		CHECK_EQ(advance(w, now * MS), (now + 1) * MS);
	CHECK_EQ(atomic_load(&fired), 100);
	/* The first arm came before the first call: nobody slept. */
	CHECK_EQ(atomic_load(&woken), 0);
}

/* The function may call what a callback may call, also by the key that is being set. */
static void set_the_key(struct hwheel *w, void *arg)
{
	if (atomic_fetch_add(&woken, 1) == 0)
		CHECK(hwheel_key_mod(w, "key", 3, 20 * MS, 0) >= 0);
}

WHEEL_TEST(it_is_called_outside_of_every_lock, make(set_the_key, NULL))
{
	CHECK(advance(w, MS) == HWHEEL_NEVER);
	alarm(60); /* A thread that waits for its own lock waits until then. */
	CHECK_EQ(hwheel_key_set(w, "key", 3, 10 * MS, fire, 0, 0), 0);
	alarm(0);
	CHECK(atomic_load(&woken) >= 1);
	CHECK_EQ(hwheel_key_pending(w, "key", 3), 1);
	CHECK_EQ(advance(w, 2 * MS), 21 * MS);
}

/* A loop that sleeps on a condition variable. */
static struct {
	struct hwheel *w;
	pthread_mutex_t lock;
	pthread_cond_t changed;
	int woken, end;
} loop = { .lock = PTHREAD_MUTEX_INITIALIZER };

static void wake_loop(struct hwheel *w, void *arg)
{
	pthread_mutex_lock(&loop.lock);
	loop.woken = 1;
	pthread_cond_signal(&loop.changed);
	pthread_mutex_unlock(&loop.lock);
}

static void *run_loop(void *unused)
{
	struct hwheel_run run = { .size = sizeof run };

	for (;;) {
		CHECK(hwheel_poll(loop.w, NULL, 0, &run) >= 0);
		pthread_mutex_lock(&loop.lock);
		while (!loop.woken && !loop.end) {
			struct timespec at = {
				(time_t)(run.next_ns / SEC), (long)(run.next_ns % SEC),
			};

			if (run.next_ns == HWHEEL_NEVER)
				pthread_cond_wait(&loop.changed, &loop.lock);
			else if (pthread_cond_timedwait(&loop.changed, &loop.lock, &at))
				break;
		}
		loop.woken = 0;
		if (loop.end)
			break;
		pthread_mutex_unlock(&loop.lock);
	}
	pthread_mutex_unlock(&loop.lock);
	return unused;
}

TEST(a_loop_on_a_condition_variable_misses_nothing)
{
	pthread_condattr_t monotonic;

	atomic_store(&fired, 0);
	pthread_condattr_init(&monotonic);
	pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
	pthread_cond_init(&loop.changed, &monotonic);
	loop.w = MADE(.wake = wake_loop);
	pthread_t thread = ktap_thread(run_loop, NULL);
	for (unsigned i = 0; i < 1000; i++)
		CHECK_EQ(hwheel_once(loop.w, (1 + i * 7 % 100) * MS, fire, 0, 0, NULL), 0);
	ktap_until(&fired, 1000);
	pthread_mutex_lock(&loop.lock);
	loop.end = 1;
	pthread_cond_signal(&loop.changed);
	pthread_mutex_unlock(&loop.lock);
	ktap_join(thread);
	CHECK_EQ(hwheel_destroy(loop.w), 0);
}

/*
 * Arms and fires a thousand timers, of which each wakes the loop. The loop needs no call of
 * the system to wait: it looks at the clock.
 */
static void a_thousand_timers(struct hwheel *w, const hwheel_timer_t *timers)
{
	struct hwheel_run run = { .size = sizeof run };
	uint64_t now = 0;

	atomic_store(&fired, 0);
	for (unsigned i = 0; i < 1000; i++)
		if (hwheel_timer_mod(w, timers[i], (30 - i * 3 / 100) * MS, 0) < 0 ||
		    (i % 100 == 99 && hwheel_poll(w, NULL, 0, &run) < 0))
			return;
	while (atomic_load(&fired) < 1000) {
		if (hwheel_poll(w, NULL, 0, &run) < 0 || run.next_ns == HWHEEL_NEVER)
			return;
		do
			hwheel_now(w, &now);
		while (now < run.next_ns);
	}
}

/* From here on every system call but exit() ends the process. */
static int forbid_system_calls(void)
{
	struct sock_filter code[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_exit, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
	};
	struct sock_fprog program = { COUNT(code), code };

	return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) ||
	       prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program);
}

/* In a child. */
static int without_system_calls(void)
{
	struct hwheel_options o = { .size = sizeof o, .wake = wake };
	static hwheel_timer_t timers[1000];
	struct hwheel *w;

	if (hwheel_create(&o, &w))
		return 2;
	for (unsigned i = 0; i < 1000; i++)
		if (hwheel_timer_setup(w, fire, i, &timers[i]))
			return 2;
	a_thousand_timers(w, timers); /* maps memory for notes */
	atomic_store(&woken, 0);
	if (forbid_system_calls())
		return 3;
	for (int i = 0; i < 3; i++)
		a_thousand_timers(w, timers);
	return atomic_load(&fired) != 1000 || atomic_load(&woken) < 10;
}

static int look_at_the_clock(void)
{
	struct timespec now;

	if (forbid_system_calls())
		return 3;
	return clock_gettime(CLOCK_MONOTONIC, &now);
}

static int status_of_child(int (*run)(void))
{
	int status = 0;
	pid_t child = fork();

	if (child == 0)
		syscall(SYS_exit, run()); /* exit() calls exit_group() */
	waitpid(child, &status, 0);
	return status;
}

TEST(a_thousand_timers_need_no_system_call)
{
	int status;

	if (KTAP_SANITIZED)
		SKIP("a sanitizer makes system calls");
	if (KTAP_EMULATED)
		SKIP("the emulator makes system calls");
	if (status_of_child(look_at_the_clock) != 0)
		SKIP("no seccomp, or the clock is read by a system call");
	status = status_of_child(without_system_calls);
	CHECK(!WIFSIGNALED(status)); /* SIGSYS: it has made a call */
	CHECK_EQ(WEXITSTATUS(status), 0);
}

MANUAL_TEST(a_prefetch_takes_any_number)
{
	hwheel_timer_t t = ktap_timer_of(w, fire, 0);

	hwheel_timer_prefetch(NULL, t);
	hwheel_timer_prefetch(w, t);
	for (int bit = 0; bit < 64; bit++)
		hwheel_timer_prefetch(w, UINT64_C(1) << bit);
	hwheel_timer_prefetch(w, UINT64_MAX);
}

/* However far the timer, and however short the tick. */
TEST(a_loop_that_is_told_never_is_woken_by_each_arm)
{
	static const uint64_t ticks[] = { 1000, MS, SEC };

	for (unsigned i = 0; i < COUNT(ticks); i++)
		for (int bits = 0; bits < 60; bits++) {
			WHEEL w = MADE(.clock = HWHEEL_CLOCK_MANUAL, .tick_ns = ticks[i], .wake = wake);

			if (UINT64_C(1) << bits > (UINT64_C(1) << 62) / ticks[i])
				break;
			atomic_store(&woken, 0);
			CHECK(advance(w, MS) == HWHEEL_NEVER);
			CHECK_EQ(hwheel_once(w, ticks[i] << bits, fire, 0, 0, NULL), 0);
			CHECK_EQ(atomic_load(&woken), 1);
		}
}

static unsigned depth, deepest;

static void wake_and_arm(struct hwheel *w, void *delay)
{
	atomic_fetch_add(&woken, 1);
	if (++depth > deepest)
		deepest = depth;
	if (depth < 10) {
		CHECK_EQ(hwheel_once(w, *(uint64_t *)delay, fire, 0, 0, NULL), 0);
		CHECK(hwheel_key_set(w, "k", 1, 2 * *(uint64_t *)delay, fire, 0, 0) >= 0);
		CHECK_EQ(hwheel_advance(w, 0, NULL, 0, NULL), -EBUSY);
		CHECK_EQ(hwheel_stop(w), -EDEADLK);
		CHECK_EQ(hwheel_destroy(w), -EDEADLK);
	}
	depth--;
}

TEST(a_wake_function_that_arms_is_not_called_by_that_arm)
{
	static uint64_t delays[] = { 2 * MS, 50 * MS, 3600 * SEC };

	for (unsigned i = 0; i < COUNT(delays); i++) {
		WHEEL w = make(wake_and_arm, &delays[i]);

		deepest = 0;
		CHECK(advance(w, 0) == HWHEEL_NEVER);
		CHECK_EQ(hwheel_once(w, 10 * MS, fire, 0, 0, NULL), 0);
		CHECK_EQ(deepest, 1);
		CHECK_EQ(atomic_load(&woken), 1);
		/* the loop that was woken finds what the function has armed */
		CHECK_EQ(advance(w, 0), delays[i] < 10 * MS ? delays[i] : 10 * MS);
		CHECK(advance(w, 2 * 3600 * SEC) == HWHEEL_NEVER);
		CHECK_EQ(atomic_load(&fired), 3);
	}
}

static void *drive_once(void *w)
{
	advance(w, 0);
	return NULL;
}

/* The loop polls while it is being woken, before the function arms a timer. */
static void wake_drive_and_arm(struct hwheel *w, void *thread)
{
	if (atomic_fetch_add(&woken, 1) == 0) {
		ktap_in_a_thread(drive_once, w);
		CHECK(ktap_next(w) != HWHEEL_NEVER);
		CHECK_EQ(hwheel_once(w, MS, fire, 0, 0, NULL), 0);
	}
}

WHEEL_TEST(a_loop_that_polls_while_it_is_woken_is_woken_again, make(wake_drive_and_arm, NULL))
{
	CHECK(advance(w, 0) == HWHEEL_NEVER);
	CHECK_EQ(hwheel_once(w, 10 * MS, fire, 0, 0, NULL), 0);
	CHECK_EQ(atomic_load(&woken), 2);
	CHECK_EQ(advance(w, 0), MS);
}

static void once_more(struct hwheel *w, const struct hwheel_event *e)
{
	fire(w, e);
	CHECK_EQ(hwheel_once(w, 0, fire, 0, 0, NULL), 0);
}

TEST(destroy_does_not_call_it)
{
	struct hwheel *w;

	woken = fired = 0;
	w = MADE(.clock = HWHEEL_CLOCK_MANUAL, .wake = wake, .executor = ktap_no_executor);
	CHECK_EQ(hwheel_once(w, MS, once_more, 0, 0, NULL), 0);
	CHECK(advance(w, MS) == HWHEEL_NEVER);
	CHECK_EQ(hwheel_destroy(w), 0);
	CHECK_EQ(atomic_load(&fired), 1);
	CHECK_EQ(atomic_load(&woken), 0);
}
