/*
 * The system misbehaves while timers are armed: the alarm, the clock, signals,
 * and a process that is stopped, forked, or ends.
 *
 * The program is linked with the static library and wraps what that calls. The
 * wall clock that steps is a wrapped one: the machine's own is left alone. More
 * of this is in c-tests: fork.c, trap_clock.c, and a slow callback in trap_reentry.c (d8).
 */
#include <fcntl.h>
#include <sys/timerfd.h>
#include "counted.h"

static int at_length(void)
{
	return getenv("HWHEEL_LONG") != NULL;
}

int __real_timerfd_create(int clock, int flags);
int __real_timerfd_settime(int fd, int flags, const struct itimerspec *to,
			   struct itimerspec *old);
int __real_clock_gettime(clockid_t clock, struct timespec *t);
ssize_t __real_read(int fd, void *to, size_t n);

/*
 * The wall clock, so far from the kernel's, and the alarm that goes by it. As
 * in the kernel, a step wakes a sleeper that has asked for it, with ECANCELED.
 * Setting the alarm returns the same error for a step that no read has reported,
 * and sets the alarm nevertheless.
 */
static struct {
	pthread_mutex_t lock;
	int fd, asked;
	/* the clock steps as soon as the next alarm is made */
	atomic_int steps_soon;
	atomic_int stepped;
	_Atomic int64_t ahead_ns;
} wall = { .lock = PTHREAD_MUTEX_INITIALIZER, .fd = -1 };

static struct timespec shifted(struct timespec t, int64_t by)
{
	int64_t ns = (int64_t)t.tv_sec * (int64_t)SEC + t.tv_nsec + by;

	if (ns < 1)
		ns = 1;
	return (struct timespec){ ns / (int64_t)SEC, ns % (int64_t)SEC };
}

static void step_wall(int64_t ahead_ns)
{
	static const struct itimerspec at_once = { .it_value = { 0, 1 } };

	pthread_mutex_lock(&wall.lock);
	atomic_store(&wall.ahead_ns, ahead_ns);
	if (wall.asked) {
		atomic_store(&wall.stepped, 1);
		__real_timerfd_settime(wall.fd, TFD_TIMER_ABSTIME, &at_once,
				       NULL);
	}
	pthread_mutex_unlock(&wall.lock);
}

int __wrap_timerfd_create(int clock, int flags)
{
	int fd = __real_timerfd_create(clock, flags);

	if (clock == CLOCK_REALTIME) {
		wall.fd = fd;
		atomic_store(&wall.stepped, atomic_exchange(&wall.steps_soon, 0));
	}
	return fd;
}

int __wrap_timerfd_settime(int fd, int flags, const struct itimerspec *to,
			   struct itimerspec *old)
{
	struct itimerspec real = *to;
	int got;

	if (fd != wall.fd)
		return __real_timerfd_settime(fd, flags, to, old);
	pthread_mutex_lock(&wall.lock);
	wall.asked = flags & TFD_TIMER_CANCEL_ON_SET;
	if (to->it_value.tv_sec != 0 || to->it_value.tv_nsec != 0)
		real.it_value = shifted(to->it_value,
					-atomic_load(&wall.ahead_ns));
	got = __real_timerfd_settime(fd, flags, &real, old);
	if (got == 0 && wall.asked && atomic_exchange(&wall.stepped, 0)) {
		errno = ECANCELED;
		got = -1;
	}
	pthread_mutex_unlock(&wall.lock);
	return got;
}

int __wrap_clock_gettime(clockid_t clock, struct timespec *t)
{
	int got = __real_clock_gettime(clock, t);

	if (clock == CLOCK_REALTIME)
		*t = shifted(*t, atomic_load(&wall.ahead_ns));
	return got;
}

/* The result of a read of the alarm: an error, or the number of expirations. */
static atomic_int read_error, reads;
static _Atomic uint64_t read_times;

ssize_t __wrap_read(int fd, void *to, size_t n)
{
	uint64_t times = atomic_load(&read_times);
	ssize_t got;

	atomic_fetch_add(&reads, 1);
	if (atomic_load(&read_error) != 0) {
		errno = atomic_load(&read_error);
		return -1;
	}
	got = __real_read(fd, to, n);
	if (fd == wall.fd && atomic_exchange(&wall.stepped, 0)) {
		errno = ECANCELED;
		return -1;
	}
	if (got == sizeof times && times != 0)
		memcpy(to, &times, sizeof times);
	return got;
}

/* The tick thread survives what it reads from its alarm. */
CHILD_TEST(an_alarm_that_reads_strangely)
{
	/* The last is no error, but a read of many expirations. */
	static const int errors[] = { ECANCELED, EINTR, EIO, EBADF, 0 };
	WHEEL w = ktap_made(NULL);
	int want = 0;

	CHECK_EQ(hwheel_start(w), 0);
	for (size_t i = 0; i < COUNT(errors); i++) {
		atomic_store(&read_error, errors[i]);
		atomic_store(&read_times, errors[i] == 0 ? 1000000000 : 0);
		for (uint64_t n = 0; n < 20; n++)
			CHECK_EQ(hwheel_once(w, n * MS, count, 0, 0, NULL), 0);
		until_called(want += 20);
		atomic_store(&read_error, 0);
	}
	CHECK_EQ(stats(w).fired, want);
	CHECK(atomic_load(&reads) > 0);
}

/* An event loop has made the descriptor non-blocking: no thread spins on it. */
CHILD_TEST(an_alarm_that_does_not_block)
{
	WHEEL w = ktap_made(NULL);
	int fd = hwheel_fd(w);

	CHECK_EQ(fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK), 0);
	CHECK_EQ(hwheel_start(w), 0);
	CHECK_EQ(hwheel_once(w, 200 * MS, count, 0, 0, NULL), 0);
	until_called(1);
	CHECK(stats(w).wakeups < 20);
}

static struct hwheel *wall_wheel(void)
{
	const struct hwheel_options o = { .size = sizeof o, .clock = HWHEEL_CLOCK_REALTIME };

	return ktap_started(&o);
}

CHILD_TEST(a_clock_that_steps_under_a_start)
{
	atomic_store(&wall.steps_soon, 1);
	CHECK_EQ(hwheel_destroy(wall_wheel()), 0);
}

static uint64_t last_deadline;

static void in_order(struct hwheel *w, const struct hwheel_event *e)
{
	CHECK(e->deadline_ns > last_deadline);
	last_deadline = e->deadline_ns;
	count(w, e);
}

/* Forward: what is due fires, in order. Back: the time is held. */
CHILD_TEST(a_clock_that_steps_under_the_tick_thread)
{
	WHEEL w = wall_wheel();
	uint64_t before;

	for (uint64_t n = 1; n <= 100; n++)
		CHECK_EQ(hwheel_once(w, n * 36 * SEC, in_order, 0, 0, NULL), 0);
	/* the sleeper has nothing but the step to wake it */
	ktap_sleep_ms(20);
	CHECK_EQ(atomic_load(&calls), 0);
	step_wall((int64_t)(3601 * SEC));
	until_called(100);
	before = ktap_now(w);
	step_wall(-(int64_t)(3600 * SEC));
	/* at what the hand has seen, which was shortly before */
	CHECK(ktap_now(w) + SEC > before);
	CHECK_EQ(hwheel_once(w, 2 * SEC, in_order, 0, 0, NULL), 0);
	ktap_sleep_ms(50);
	CHECK_EQ(atomic_load(&calls), 100);
	step_wall((int64_t)(3610 * SEC));
	until_called(101);
}

/* Notes are taken, and entries moved, while the clock is far behind the wheel's time. */
CHILD_TEST(memory_after_the_clock_stepped_back)
{
	WHEEL w = wall_wheel();
	hwheel_timer_t t = ktap_timer(w);

	CHECK_EQ(hwheel_once(w, 0, count, 0, 0, NULL), 0);
	until_called(1);
	step_wall(-(int64_t)(3600 * SEC));
	for (uint64_t n = 0; n < 500000; n++) {
		CHECK(hwheel_timer_mod(w, t, (1000000 - n) * MS, 0) >= 0);
		if (n % 1000 == 0)
			ktap_sleep_ms(1);
	}
	CHECK(stats(w).entries <= stats(w).live);
	/* of one timer and two threads */
	CHECK(stats(w).note_bytes <= 8 * 256);
}

static atomic_ullong periods, last_ns;

#define PERIOD (10 * MS)

/* Each period once: fired, or counted as missed. */
static void period(struct hwheel *w, const struct hwheel_event *e)
{
	uint64_t last = atomic_load(&last_ns);

	if (last != 0)
		CHECK_EQ(e->deadline_ns, last + PERIOD);
	atomic_store(&last_ns, e->deadline_ns + e->missed * PERIOD);
	atomic_fetch_add(&periods, 1 + e->missed);
}

/* Steps of all sizes: none early, none lost, each period counted once. */
CHILD_TEST(a_clock_that_steps_at_random)
{
	WHEEL w = wall_wheel();
	uint64_t x = 88172645463325252u;
	int rounds = at_length() ? 2000 : 200;
	int64_t ahead = 0;

	CHECK_EQ(hwheel_every(w, 0, PERIOD, 0, period, 0, 0, NULL), 0);
	for (int n = 0; n < rounds; n++) {
		CHECK_EQ(hwheel_once(w, ktap_dice(&x) % (7200 * SEC), count, 0, 0, NULL), 0);
		/* by up to an hour, more often forward */
		ahead += (int64_t)((x >> 20) % (3600 * SEC)) -
			 (int64_t)(1200 * SEC);
		step_wall(ahead);
		if (n % 8 == 0)
			ktap_sleep_ms(1);
	}
	/* beyond whatever the wheel is held at, by more than any delay */
	step_wall(ahead + (int64_t)(100 * 86400 * SEC));
	until_called(rounds);
	CHECK_EQ(hwheel_stop(w), 0);
	printf("# %d steps, %llu periods\n", rounds, atomic_load(&periods));
	CHECK(atomic_load(&periods) > 100 * 86400 * (SEC / PERIOD));
}

static atomic_int tick_tid;

static void say_tid(struct hwheel *w, const struct hwheel_event *e)
{
	atomic_store(&tick_tid, ktap_tid());
}

static void handled(int signal)
{
	/* _exit: EXPECT is not for handlers */
	if (ktap_tid() == atomic_load(&tick_tid))
		_exit(signal);
}

/* Signals to the tick thread and to the process, while timers fire. */
CHILD_TEST(a_storm_of_signals)
{
	WHEEL w = ktap_made(NULL);
	int sent = 0, seconds = at_length() ? 10 : 1;
	uint64_t until;

	signal(SIGUSR1, handled);
	signal(SIGUSR2, handled);
	CHECK_EQ(hwheel_start(w), 0);
	CHECK_EQ(hwheel_once(w, 0, say_tid, 0, 0, NULL), 0);
	ktap_until(&tick_tid, 1);
	for (uint64_t n = 0; n < 1000; n++)
		CHECK_EQ(hwheel_once(w, n * (uint64_t)seconds * MS, count, 0, 0,
				    NULL), 0);
	until = ktap_clock() + (uint64_t)seconds * SEC;
	while (ktap_clock() < until) {
		syscall(SYS_tgkill, getpid(), atomic_load(&tick_tid), SIGUSR1);
		kill(getpid(), SIGUSR2);
		sent += 2;
	}
	until_called(1000);
	printf("# %d signals\n", sent);
	CHECK(sent > 1000);
}

/* Stopped by its parent on the way: no period is lost, and no timer. */
static void stopped_for_a_while(void)
{
	WHEEL w = ktap_started(NULL);
	uint64_t begin;

	for (uint64_t n = 0; n < 100; n++)
		CHECK_EQ(hwheel_once(w, n * PERIOD, count, 0, 0, NULL), 0);
	begin = ktap_now(w);
	CHECK_EQ(hwheel_every(w, begin, PERIOD, 0, period, 0, HWHEEL_ABS,
			    NULL), 0);
	until_called(100);
	CHECK_EQ(hwheel_stop(w), 0);
	CHECK(ktap_now(w) >= atomic_load(&last_ns));
	CHECK_EQ(atomic_load(&periods),
	       (atomic_load(&last_ns) - begin) / PERIOD + 1);
	CHECK(atomic_load(&periods) >= 99);
}

TEST(stopped_and_continued)
{
	unsigned seconds = at_length() ? 10 : 2;
	pid_t child = start_child(stopped_for_a_while);

	ktap_sleep_ms(300);
	CHECK_EQ(kill(child, SIGSTOP), 0);
	ktap_sleep_ms(seconds * 1000);
	CHECK_EQ(kill(child, SIGCONT), 0);
	CHECK_EQ(status_of(child), 0);
	printf("# stopped for %u seconds\n", seconds);
}

static struct hwheel *of_parent;

static void exit_refused(void)
{
	CHECK_EQ(hwheel_once(of_parent, 0, count, 0, 0, NULL), -ESHUTDOWN);
	exit(0);
}

static void exit_without_a_copy(void)
{
	CHECK_EQ(hwheel_destroy(of_parent), 0);
	exit(0);
}

/* Forked children use the wheel, which is refused, and end in all ways. The parent's goes on. */
CHILD_TEST(forked_while_armed)
{
	int rounds = at_length() ? 200 : 20;

	of_parent = ktap_started(NULL);
	CHECK_EQ(hwheel_every(of_parent, 0, MS, 0, count, 0, 0, NULL), 0);
	for (int n = 0; n < rounds; n++) {
		in_a_child(n % 2 ? exit_without_a_copy : exit_refused);
		ktap_until(&calls, atomic_load(&calls) + 1);
	}
	CHECK_EQ(hwheel_destroy(of_parent), 0);
}

/* The process ends while timers fire. */
static void exit_armed(void)
{
	struct hwheel *w = ktap_started(NULL);

	for (uint64_t n = 0; n < 10000; n++)
		CHECK_EQ(hwheel_once(w, n * MS / 100, count, 0, 0, NULL), 0);
	ktap_until(&calls, 1);
	exit(0);
}

static void exit_inside(struct hwheel *w, const struct hwheel_event *e)
{
	exit(0);
}

static void exit_in_a_callback(void)
{
	struct hwheel *w = ktap_started(NULL);

	CHECK_EQ(hwheel_once(w, 0, exit_inside, 0, 0, NULL), 0);
	for (;;)
		pause();
}

TEST(exit_while_armed)
{
	int rounds = at_length() ? 200 : 20;

	for (int i = 0; i < rounds; i++) {
		in_a_child(exit_armed);
		in_a_child(exit_in_a_callback);
	}
}

static atomic_int inside;

static void stay_inside(struct hwheel *w, const struct hwheel_event *e)
{
	atomic_store(&inside, 1);
	for (;;)
		pause();
}

static atomic_int refused;

/* Of two threads one waits for the callback without end; the other does not. */
static void *stop_it(void *w)
{
	CHECK_EQ(hwheel_stop(w), -EBUSY);
	atomic_store(&refused, 1);
	return NULL;
}

/* A callback that never returns: stop waits for it, nobody else does. */
CHILD_TEST(a_callback_that_never_returns)
{
	struct hwheel *w = ktap_started(NULL);
	hwheel_timer_t t, stuck = ktap_armed(w, stay_inside, 0, 0);
	pthread_t threads[2];

	ktap_until(&inside, 1);
	ktap_begin(threads, 2, stop_it, w);
	ktap_until(&refused, 1);
	CHECK_EQ(hwheel_destroy(w), -EBUSY);
	t = ktap_timer_of(w, count, 0);
	for (uint64_t n = 0; n < 100000; n++) {
		CHECK_EQ(hwheel_timer_mod(w, t, n, 0), n % 2);
		if (n % 2)
			CHECK_EQ(hwheel_timer_delete(w, t), 1);
	}
	CHECK_EQ(hwheel_timer_free(w, t), 0);
	CHECK_EQ(hwheel_timer_delete(w, stuck), 0);
	CHECK_EQ(hwheel_timer_free(w, stuck), 0);
	CHECK_EQ(hwheel_timer_free(w, stuck), -ESTALE);
	CHECK_EQ(atomic_load(&calls), 0);
}
