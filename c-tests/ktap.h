/*
 * A small KTAP harness: each file is a program, and each TEST() in it a test, run in the order
 * of the file. A failed check ends its test and is reported with file and line. Output is
 * line-buffered, plan first; exit 0 pass, 1 fail, 4 skip.
 */
#ifndef KTAP_H
#define KTAP_H

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>
#include <hwheel.h>

/* Callbacks of tests have parameters that they do not need. */
#pragma GCC diagnostic ignored "-Wunused-parameter"

/* Whether the program is built with a sanitizer, which makes system calls and is slow. */
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define KTAP_SANITIZED 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define KTAP_SANITIZED 1
#endif
#endif
#ifndef KTAP_SANITIZED
#define KTAP_SANITIZED 0
#endif

/* Whether an emulator or valgrind runs the program: run.sh. */
#define KTAP_EMULATED (getenv("KTAP_RUN") != NULL)

/* Whether the program takes many times as long as usual. */
#define KTAP_SLOW (KTAP_SANITIZED || KTAP_EMULATED)

/* Only glibc defines this macro. */
#ifndef __GLIBC_PREREQ
#define __GLIBC_PREREQ(major, minor) 0
#endif

struct ktap_test {
	const char *name;
	void (*run)(void);
	int line;
	struct ktap_test *next;
};

static struct ktap_test *ktap_tests;

static inline void ktap_add(struct ktap_test *test)
{
	struct ktap_test **at = &ktap_tests;

	while (*at != NULL && (*at)->line < test->line)
		at = &(*at)->next;
	test->next = *at;
	*at = test;
}

/* TEST(name) { ... } is a test. */
#define TEST(name) \
	static void name(void); \
	__attribute__((constructor)) static void ktap_add_##name(void) \
	{ \
		static struct ktap_test test = { #name, name, __LINE__, NULL }; \
		ktap_add(&test); \
	} \
	static void name(void)

/* A test that is one call. */
#define TEST_OF(name, call) TEST(name) { call; }

/* A test that runs once for each of some shapes of a wheel, with the shape and its tick. */
#define SHAPE_TEST(name, of) \
	static void name##_in(const struct shape *shape, uint64_t t); \
	TEST(name) \
	{ \
		for (unsigned i = 0; i < COUNT(of); i++) \
			name##_in(&(of)[i], (of)[i].tick); \
	} \
	static void name##_in(const struct shape *shape, uint64_t t)

static jmp_buf ktap_leave;
static char ktap_why[512];
static int ktap_skipped;
/* The process of the tests, and the test that runs. */
static pid_t ktap_process;
static struct ktap_test *volatile ktap_running;

/* The calling thread's id in the system; not in the oldest C libraries. */
static inline int ktap_tid(void)
{
	return (int)syscall(SYS_gettid);
}

/* Ends the test; in a child, or in another thread than main(), the process. */
__attribute__((noreturn)) static inline void ktap_fail(void)
{
	if (ktap_tid() == ktap_process)
		longjmp(ktap_leave, 1);
	printf("# %s\n", ktap_why);
	if (getpid() == ktap_process)
		printf("not ok %s\n", ktap_running->name);
	fflush(stdout);
	_exit(1);
}

/* Ends the test with a failure unless the condition holds. */
#define CHECK(cond) do { \
	if (!(cond)) { \
		snprintf(ktap_why, sizeof ktap_why, "%s:%d: %s", __FILE__, __LINE__, #cond); \
		ktap_fail(); \
	} \
} while (0)

/* Ends the test with a failure unless two integers are equal; both are shown. */
#define CHECK_EQ(got, want) do { \
	long long ktap_got = (long long)(got), ktap_want = (long long)(want); \
	if (ktap_got != ktap_want) { \
		snprintf(ktap_why, sizeof ktap_why, "%s:%d: %s is %lld, not %s (%lld)", \
			__FILE__, __LINE__, #got, ktap_got, #want, ktap_want); \
		ktap_fail(); \
	} \
} while (0)

/* A deadline in an event: what was asked for, or the time of its tick. */
#define CHECK_DUE(got, asked, tick) do { \
	uint64_t ktap_due = (got), ktap_asked = (asked); \
	if (ktap_due < ktap_asked || ktap_due - ktap_asked >= (tick)) { \
		snprintf(ktap_why, sizeof ktap_why, "%s:%d: %s is %" PRIu64 \
			", not within a tick from %" PRIu64, __FILE__, __LINE__, \
			#got, ktap_due, ktap_asked); \
		ktap_fail(); \
	} \
} while (0)

/* Ends the test as skipped, with the reason. */
#define SKIP(why) do { \
	snprintf(ktap_why, sizeof ktap_why, "%s", why); \
	ktap_skipped = 1; \
	longjmp(ktap_leave, 1); \
} while (0)

/* What a program does first with its arguments; true if it cannot go on. */
#ifndef KTAP_BEGIN
#define KTAP_BEGIN(count, arguments) 0
#endif

#ifndef FUZZER
int main(int argc, char **argv)
{
	/* volatile: changed between setjmp and longjmp */
	volatile unsigned n = 0, failed = 0, skipped = 0;

	setvbuf(stdout, NULL, _IOLBF, 0);
	if (KTAP_BEGIN(argc, argv))
		return 1;
	for (const struct ktap_test *test = ktap_tests; test != NULL; test = test->next)
		n = n + 1;
	printf("KTAP version 1\n1..%u\n", n);
	n = 0;
	ktap_process = getpid();
	for (ktap_running = ktap_tests; ktap_running != NULL; ktap_running = ktap_running->next) {
		ktap_skipped = 0;
		n = n + 1;
		if (setjmp(ktap_leave) == 0) {
			ktap_running->run();
			printf("ok %u %s\n", n, ktap_running->name);
		} else if (ktap_skipped) {
			skipped = skipped + 1;
			printf("ok %u %s # SKIP %s\n", n, ktap_running->name, ktap_why);
		} else {
			failed = failed + 1;
			printf("# %s\nnot ok %u %s\n", ktap_why, n, ktap_running->name);
		}
	}
	return failed ? 1 : n && skipped == n ? 4 : 0;
}
#endif

/* A wheel that is destroyed at the end of its block. */
#define WHEEL __attribute__((cleanup(ktap_destroy))) struct hwheel *

static inline void ktap_destroy(struct hwheel **w)
{
	CHECK_EQ(hwheel_destroy(*w), 0);
}

/* A wheel with these options, or the defaults; and with its tick thread. */
static inline struct hwheel *ktap_made(const struct hwheel_options *o)
{
	struct hwheel *w = NULL;

	CHECK_EQ(hwheel_create(o, &w), 0);
	CHECK(w != NULL);
	return w;
}

static inline struct hwheel *ktap_started(const struct hwheel_options *o)
{
	struct hwheel *w = ktap_made(o);

	CHECK_EQ(hwheel_start(w), 0);
	return w;
}

/* A wheel with these members of the options: MADE(.workers = 2). */
#define MADE(...) ktap_made(&(const struct hwheel_options){ \
	.size = sizeof(struct hwheel_options), __VA_ARGS__ })

/* A manual wheel of the given shape; tick in ns, 0 for the defaults. */
static inline struct hwheel *ktap_manual(uint64_t tick_ns, uint32_t levels,
					 uint32_t slots, uint64_t start_ns)
{
	return MADE(.clock = HWHEEL_CLOCK_MANUAL, .tick_ns = tick_ns, .levels = levels,
		    .slots = slots, .start_ns = start_ns);
}

/* Drives a manual wheel to a time. By then a count has this value. */
#define CHECK_AT(w, now, count, want) do { \
	CHECK_EQ(hwheel_advance(w, now, NULL, 0, NULL), 0); \
	CHECK_EQ(count, want); \
} while (0)

/* A test with a wheel, w, which is destroyed at its end. */
#define WHEEL_TEST(name, made) \
	static void name##_with(struct hwheel *w); \
	TEST(name) \
	{ \
		WHEEL w = made; \
		name##_with(w); \
	} \
	static void name##_with(struct hwheel *w)

/* Tests of wheels with a manual clock, with the system's, and with a tick thread. */
#define MANUAL_TEST(name) WHEEL_TEST(name, ktap_manual(0, 0, 0, 0))
#define CLOCK_TEST(name) WHEEL_TEST(name, ktap_made(NULL))
#define THREAD_TEST(name) WHEEL_TEST(name, ktap_started(NULL))

/* A timer. */
static inline hwheel_timer_t ktap_timer_of(struct hwheel *w, hwheel_fn fn, uint64_t cookie)
{
	hwheel_timer_t t = 0;

	CHECK_EQ(hwheel_timer_setup(w, fn, cookie, &t), 0);
	return t;
}

/* A timer that becomes an event, with the cookie 0. */
static inline hwheel_timer_t ktap_timer(struct hwheel *w)
{
	return ktap_timer_of(w, NULL, 0);
}

/* A timer that is pending. */
static inline hwheel_timer_t ktap_armed(struct hwheel *w, hwheel_fn fn, uint64_t cookie,
					uint64_t time_ns)
{
	hwheel_timer_t t = ktap_timer_of(w, fn, cookie);

	CHECK_EQ(hwheel_timer_mod(w, t, time_ns, 0), 0);
	return t;
}

/* A timer of hwheel_once(), or of hwheel_every() without slack. */
static inline hwheel_timer_t ktap_once(struct hwheel *w, uint64_t time_ns, hwheel_fn fn,
				       uint64_t cookie, uint32_t flags)
{
	hwheel_timer_t t = 0;

	CHECK_EQ(hwheel_once(w, time_ns, fn, cookie, flags, &t), 0);
	return t;
}

static inline hwheel_timer_t ktap_every(struct hwheel *w, uint64_t first_ns, uint64_t period_ns,
					hwheel_fn fn, uint64_t cookie, uint32_t flags)
{
	hwheel_timer_t t = 0;

	CHECK_EQ(hwheel_every(w, first_ns, period_ns, 0, fn, cookie, flags, &t), 0);
	return t;
}

/* A timer or wheel that was shut down refuses to arm it, with each flag. */
static inline void ktap_refuses_arms(struct hwheel *w, hwheel_timer_t t)
{
	const uint64_t ms = 1000000;

	CHECK_EQ(hwheel_timer_mod(w, t, ms, 0), -ESHUTDOWN);
	CHECK_EQ(hwheel_timer_mod(w, t, HWHEEL_NEVER, 0), -ESHUTDOWN);
	CHECK_EQ(hwheel_timer_mod(w, t, ms, HWHEEL_ABS), -ESHUTDOWN);
	CHECK_EQ(hwheel_timer_mod(w, t, ms, HWHEEL_REDUCE), -ESHUTDOWN);
	CHECK_EQ(hwheel_timer_mod(w, t, ms, HWHEEL_IF_PENDING), -ESHUTDOWN);
}

static inline uint64_t ktap_now(struct hwheel *w)
{
	uint64_t ns = 0;

	CHECK_EQ(hwheel_now(w, &ns), 0);
	return ns;
}

/* The time until a pending timer fires. */
static inline uint64_t ktap_left(struct hwheel *w, hwheel_timer_t t)
{
	uint64_t ns = 0;

	CHECK_EQ(hwheel_timer_remaining(w, t, &ns), 1);
	return ns;
}

/* The next expiry, or HWHEEL_NEVER: then the call has written nothing. */
static inline uint64_t ktap_next(struct hwheel *w)
{
	const uint64_t untouched = UINT64_MAX - 77;
	uint64_t next = untouched;
	int some = hwheel_next_expiry(w, &next);

	CHECK(some == (next != untouched));
	return some ? next : HWHEEL_NEVER;
}

static inline struct hwheel_stats stats(struct hwheel *w)
{
	struct hwheel_stats s;

	memset(&s, 0xff, sizeof s);
	s.size = sizeof s;
	CHECK_EQ(hwheel_get_stats(w, &s), 0);
	CHECK_EQ(s.size, sizeof s);
	CHECK_EQ(s.reserved, 0);
	return s;
}

/* The system's clock for a clock of wheels; -1 for the manual one. */
static inline clockid_t system_clock(uint32_t clock)
{
	return clock == HWHEEL_CLOCK_MONOTONIC ? CLOCK_MONOTONIC :
	       clock == HWHEEL_CLOCK_BOOTTIME ? CLOCK_BOOTTIME :
	       clock == HWHEEL_CLOCK_REALTIME ? CLOCK_REALTIME : -1;
}

static inline uint64_t ktap_time(clockid_t clock)
{
	struct timespec t;

	clock_gettime(clock, &t);
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static inline uint64_t ktap_clock(void)
{
	return ktap_time(CLOCK_MONOTONIC);
}

/* The processor's time that the calling thread has used, however busy the system is. */
static inline uint64_t ktap_cpu(void)
{
	return ktap_time(CLOCK_THREAD_CPUTIME_ID);
}

static inline void ktap_sleep_ms(unsigned ms)
{
	struct timespec t = { ms / 1000, (long)(ms % 1000) * 1000000 };

	while (nanosleep(&t, &t) != 0 && errno == EINTR)
		;
}

/* Waits until a condition holds. */
#define ktap_wait(condition) do { \
	for (int ktap_ms = 0; ktap_ms < 20000 && !(condition); ktap_ms++) \
		ktap_sleep_ms(1); \
	CHECK(condition); \
} while (0)

/* Waits until a count, of any type, is high enough. */
#define ktap_until(count, least) do { \
	const __typeof__(least) ktap_least = (least); \
\
	ktap_wait(atomic_load(count) >= ktap_least); \
} while (0)

/* Begins threads that run the same function, and waits until they have ended. */
static inline void ktap_begin(pthread_t *threads, int n, void *(*run)(void *), void *arg)
{
	for (int i = 0; i < n; i++)
		CHECK_EQ(pthread_create(&threads[i], NULL, run, arg), 0);
}

static inline void ktap_end(const pthread_t *threads, int n)
{
	for (int i = 0; i < n; i++)
		CHECK_EQ(pthread_join(threads[i], NULL), 0);
}

/* The same for one thread. */
static inline pthread_t ktap_thread(void *(*run)(void *), void *arg)
{
	pthread_t thread;

	ktap_begin(&thread, 1, run, arg);
	return thread;
}

static inline void ktap_join(pthread_t thread)
{
	ktap_end(&thread, 1);
}

/* Runs a function in another thread, and waits for its end. */
static inline void ktap_in_a_thread(void *(*run)(void *), void *arg)
{
	ktap_join(ktap_thread(run, arg));
}

/* A callback that does nothing. */
static inline void ktap_nothing(struct hwheel *w, const struct hwheel_event *e)
{
}

/* An executor that runs nothing. */
static inline void ktap_no_executor(struct hwheel *w, void *arg)
{
}

/* A callback that does not return until the test lets it go; whether it is inside, and may go. */
static atomic_int ktap_held, ktap_may_go;

static inline void ktap_hold(struct hwheel *w, const struct hwheel_event *e)
{
	atomic_store(&ktap_held, 1);
	for (int i = 0; i < 20000 && !atomic_load(&ktap_may_go); i++)
		ktap_sleep_ms(1);
	atomic_store(&ktap_held, 0);
}

/* A timer with this callback, after a delay. */
static inline void ktap_arm_hold(struct hwheel *w, uint64_t delay_ns)
{
	ktap_held = ktap_may_go = 0;
	CHECK_EQ(hwheel_once(w, delay_ns, ktap_hold, 0, 0, NULL), 0);
}

/* A thread that lets the callback go after 20 ms. */
static inline void *ktap_let_go(void *unused)
{
	ktap_sleep_ms(20);
	atomic_store(&ktap_may_go, 1);
	return unused;
}

/*
 * The memory of the process in bytes, as /proc/self/statm counts it. The first number is that of
 * the address space, the second that of the resident memory. This function calls no allocator.
 */
enum { KTAP_SPACE, KTAP_RESIDENT };

static inline uint64_t ktap_memory(int nth)
{
	char text[128] = "", *at = text;
	int fd = open("/proc/self/statm", O_RDONLY | O_CLOEXEC);
	ssize_t n = read(fd, text, sizeof text - 1);

	close(fd);
	CHECK(n > 0);
	while (nth-- > 0)
		strtoull(at, &at, 10);
	return strtoull(at, NULL, 10) * (uint64_t)sysconf(_SC_PAGESIZE);
}

/* Numbers that look random: the next one. */
static inline uint64_t ktap_dice(uint64_t *x)
{
	*x ^= *x << 13;
	*x ^= *x >> 7;
	*x ^= *x << 17;
	return *x;
}

/* Whether a thread of this process, by that id, sleeps. */
static inline int ktap_is_asleep(int tid)
{
	char path[64], state = 0;
	FILE *file;

	snprintf(path, sizeof path, "/proc/self/task/%d/stat", tid);
	file = fopen(path, "r");
	if (file == NULL)
		return 0;
	if (fscanf(file, "%*d (%*[^)]) %c", &state) != 1)
		state = 0;
	fclose(file);
	return state == 'S';
}

#define COUNT(a) (sizeof(a) / sizeof(a)[0])

#define MS HWHEEL_MSEC
#define SEC HWHEEL_SEC

/* An output has this value before a call that does not write to it. */
#define JUNK UINT64_C(0x5a5a5a5a5a5a5a5a)

/* A number as a key. */
#define NUMBER(n) (&(uint64_t){ (n) }), sizeof(uint64_t)

#endif
