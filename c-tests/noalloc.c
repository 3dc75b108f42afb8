/* Arming and cancelling call no allocator, and read the clock only if they must. */
#include <sys/syscall.h>
#include "child.h"

/*
 * This program's own allocator and clock_gettime(), which every library of the process uses
 * instead of the C library's: they count what the calling thread asks for, and pass it on.
 */
static _Thread_local unsigned allocations, clock_reads;

void *__libc_malloc(size_t size);
void *__libc_calloc(size_t n, size_t size);
void *__libc_realloc(void *at, size_t size);
void *__libc_memalign(size_t align, size_t size);
void __libc_free(void *at);

#define COUNTED(name, parameters, call) \
	void *name parameters \
	{ \
		allocations++; \
		return call; \
	}

COUNTED(malloc, (size_t size), __libc_malloc(size))
COUNTED(calloc, (size_t n, size_t size), __libc_calloc(n, size))
COUNTED(realloc, (void *at, size_t size), __libc_realloc(at, size))
COUNTED(aligned_alloc, (size_t align, size_t size), __libc_memalign(align, size))

int posix_memalign(void **at, size_t align, size_t size)
{
	*at = aligned_alloc(align, size);
	return *at == NULL ? ENOMEM : 0;
}

void free(void *at)
{
	allocations++;
	__libc_free(at);
}

int clock_gettime(clockid_t clock, struct timespec *t)
{
	clock_reads++;
	return (int)syscall(SYS_clock_gettime, clock, t);
}

/* All that a caller may do on a hot path; the number of calls that failed. */
static unsigned arm_and_cancel(struct hwheel *w, int times)
{
	unsigned failed = 0;

	for (int i = 0; i < times; i++) {
		hwheel_timer_t a = 0, b = 0, c = 0, d = 0;
		uint64_t ns = 0, cursor = 0;
		struct hwheel_event listed;

		failed += hwheel_timer_setup(w, NULL, 0, &a) != 0;
		failed += hwheel_timer_mod(w, a, 10 * SEC, 0) != 0;
		failed += hwheel_timer_mod(w, a, SEC, 0) != 1;
		failed += hwheel_timer_mod(w, a, INT64_MAX, HWHEEL_ABS) != 1;
		failed += hwheel_timer_mod(w, a, 10 * SEC, HWHEEL_REDUCE) != 1;
		failed += hwheel_timer_mod(w, a, 20 * SEC, HWHEEL_IF_PENDING) != 1;
		failed += hwheel_timer_pending(w, a) != 1;
		failed += hwheel_list(w, &cursor, &listed, 1) < 0;
		failed += hwheel_timer_remaining(w, a, &ns) != 1;
		failed += hwheel_timer_mod_many(w, &a, &ns, 1, 0, NULL) != 1;
		failed += hwheel_timer_delete_many(w, &a, 1, NULL) != 1;
		failed += hwheel_timer_mod(w, a, SEC, 0) != 0;
		failed += hwheel_timer_delete(w, a) != 1;
		failed += hwheel_timer_shutdown(w, a) != 0;
		failed += hwheel_timer_free(w, a) != 0;
		failed += hwheel_once(w, 3600 * SEC, NULL, 0, 0, &b) != 0;
		failed += hwheel_once(w, INT64_MAX, NULL, 0, HWHEEL_ABS, &c) != 0;
		failed += hwheel_every(w, SEC, SEC, 0, NULL, 0, 0, &d) != 0;
		failed += hwheel_timer_delete(w, b) != 1;
		failed += hwheel_timer_free(w, c) != 1;
		failed += hwheel_timer_delete_sync(w, d) != 1;
	}
	return failed;
}

static void *first_and_second_call(void *wheels)
{
	struct hwheel **w = wheels;
	unsigned before = allocations, first;

	CHECK_EQ(hwheel_once(w[0], SEC, NULL, 0, 0, NULL), 0);
	first = allocations - before;
	CHECK_EQ(hwheel_once(w[0], SEC, NULL, 0, 0, NULL), 0);
	CHECK_EQ(hwheel_once(w[1], SEC, NULL, 0, 0, NULL), 0);
	CHECK(first <= 1);
	CHECK_EQ(allocations - before, first);
	return NULL;
}

/*
 * After the first 32 keys, the C library keeps a thread's values on the heap. In a child of a
 * process that has no wheel yet: the first one comes after the keys.
 */
CHILD_TEST(behind_many_keys_a_thread_allocates_once)
{
	struct hwheel *w[2];
	pthread_key_t key;

	for (int i = 0; i < 40; i++)
		CHECK_EQ(pthread_key_create(&key, NULL), 0);
	for (int i = 0; i < 2; i++)
		w[i] = ktap_made(NULL);
	ktap_in_a_thread(first_and_second_call, w);
}

TEST(the_counters_count)
{
	unsigned before = allocations;
	void *volatile at = malloc(1);

	CHECK_EQ(allocations, before + 1);
	free(at);
	CHECK_EQ(allocations, before + 2);
	before = clock_reads;
	ktap_clock();
	CHECK_EQ(clock_reads, before + 1);
}

CLOCK_TEST(the_thread_that_made_the_wheel_calls_no_allocator)
{
	unsigned before = allocations;

	/* neither when it meets the wheel, nor later */
	for (int times = 1; times <= 1000; times += 999) {
		CHECK_EQ(arm_and_cancel(w, times), 0);
		CHECK_EQ(allocations - before, 0);
	}
}

/* Not even where it must map more memory. */
CLOCK_TEST(nor_when_there_are_many_timers)
{
	unsigned before = allocations;

	for (int i = 0; i < 100000; i++)
		CHECK_EQ(hwheel_once(w, (uint64_t)i * MS, NULL, 0, 0, NULL), 0);
	CHECK_EQ(allocations - before, 0);
}

/* By key only where the table grows, or must copy a long key. */
CLOCK_TEST(nor_does_a_short_key)
{
	char key[31] = "thirty-one bytes are a long key";
	unsigned before = 0;

	for (int round = 0; round < 2; round++) {
		before = allocations;
		for (uint64_t id = 0; id < 100; id++) {
			CHECK_EQ(hwheel_key_set(w, NUMBER(id), SEC, NULL, 0, 0), 0);
			CHECK_EQ(hwheel_key_set(w, key, 30, SEC, NULL, 0, 0), 0);
			CHECK_EQ(hwheel_key_mod(w, key, 30, 2 * SEC, 0), 1);
			CHECK_EQ(hwheel_key_delete(w, key, 30), 1);
			CHECK_EQ(hwheel_key_set(w, NUMBER(id), 2 * SEC, NULL, 0, 0), 1);
		}
		for (uint64_t id = 0; id < 100; id++)
			CHECK_EQ(hwheel_key_delete(w, NUMBER(id)), 1);
	}
	CHECK_EQ(allocations - before, 0);
	CHECK_EQ(hwheel_key_set(w, key, 31, SEC, NULL, 0, 0), 0);
	CHECK(allocations - before >= 1);
	before = allocations;
	CHECK_EQ(hwheel_key_mod(w, key, 31, 2 * SEC, 0), 1);
	CHECK_EQ(hwheel_key_pending(w, key, 31), 1);
	CHECK_EQ(allocations - before, 0);
	/* the copy of the key is freed */
	CHECK_EQ(hwheel_key_delete(w, key, 31), 1);
	CHECK_EQ(allocations - before, 1);
}

static struct {
	struct hwheel *w[20];
	int wheels;
	unsigned allocations, failed;
} fresh;

static void *meet(void *unused)
{
	unsigned before = allocations;

	for (int i = 0; i < fresh.wheels; i++)
		fresh.failed += arm_and_cancel(fresh.w[i], 3);
	fresh.allocations += allocations - before;
	return unused;
}

static void threads_meet(int threads, int wheels)
{
	memset(&fresh, 0, sizeof fresh);
	for (; fresh.wheels < wheels; fresh.wheels++)
		fresh.w[fresh.wheels] = ktap_made(NULL);
	for (int i = 0; i < threads; i++) {
		ktap_in_a_thread(meet, NULL);
		CHECK_EQ(fresh.failed, 0);
		CHECK_EQ(fresh.allocations, 0);
	}
	for (int i = 0; i < wheels; i++)
		CHECK_EQ(hwheel_destroy(fresh.w[i]), 0);
}

TEST_OF(a_fresh_thread_calls_no_allocator, threads_meet(5, 1))
TEST_OF(nor_one_that_meets_more_wheels_than_it_remembers, threads_meet(1, 20))

static unsigned of_callback, calls;

static void arm_in_callback(struct hwheel *w, const struct hwheel_event *e)
{
	unsigned before = allocations;

	if (arm_and_cancel(w, 1) == 0)
		calls++;
	of_callback += allocations - before;
}

MANUAL_TEST(nor_the_driver_and_its_callbacks)
{
	struct hwheel_event e[8];
	unsigned before;

	calls = of_callback = 0;
	CHECK_EQ(hwheel_every(w, MS, MS, 0, arm_in_callback, 0, HWHEEL_MISSED_BURST, NULL), 0);
	CHECK_EQ(hwheel_every(w, MS, MS, 0, NULL, 0, 0, NULL), 0);
	before = allocations;
	for (uint64_t i = 1; i <= 1000; i++)
		CHECK_EQ(hwheel_advance(w, i * MS, e, 8, NULL), 1);
	CHECK_EQ(allocations - before, 0);
	CHECK_EQ(of_callback, 0);
	CHECK_EQ(calls, 1000);
}

CLOCK_TEST(a_delay_reads_the_clock)
{
	hwheel_timer_t t = ktap_timer(w);
	unsigned before = clock_reads;

	CHECK_EQ(hwheel_timer_mod(w, t, 3600 * SEC, 0), 0);
	CHECK_EQ(clock_reads - before, 1);
	CHECK_EQ(hwheel_once(w, 3600 * SEC, NULL, 0, 0, NULL), 0);
	CHECK_EQ(clock_reads - before, 2);
}

CLOCK_TEST(neither_a_deadline_nor_never_reads_the_clock)
{
	uint64_t now = ktap_now(w);
	unsigned before = clock_reads;
	hwheel_timer_t t = ktap_timer(w);

	CHECK_EQ(hwheel_timer_mod(w, t, now + 3600 * SEC, HWHEEL_ABS), 0);
	for (uint64_t i = 0; i < 1000; i++) {
		CHECK_EQ(hwheel_timer_mod(w, t, now + (5000 - i) * SEC, HWHEEL_ABS), 1);
		CHECK_EQ(hwheel_timer_mod(w, t, now + (3000 - i) * SEC, HWHEEL_ABS), 1);
		CHECK_EQ(hwheel_timer_mod(w, t, now + (2000 - i) * SEC, HWHEEL_ABS | HWHEEL_REDUCE), 1);
		CHECK_EQ(hwheel_timer_mod(w, t, now + 1000 * SEC, HWHEEL_ABS | HWHEEL_IF_PENDING), 1);
		CHECK_EQ(hwheel_once(w, now + i * SEC, NULL, 0, HWHEEL_ABS, NULL), 0);
		CHECK_EQ(hwheel_every(w, now + i * SEC, SEC, 0, NULL, 0, HWHEEL_ABS, NULL), 0);
		CHECK_EQ(hwheel_timer_pending(w, t), 1);
	}
	CHECK_EQ(hwheel_timer_delete(w, t), 1);
	CHECK_EQ(hwheel_timer_free(w, t), 0);
	CHECK_EQ(clock_reads - before, 0);
	CHECK_EQ(hwheel_once(w, HWHEEL_NEVER, NULL, 0, 0, NULL), 0);
	CHECK_EQ(clock_reads - before, 0);
}

TEST(a_manual_wheel_reads_no_clock)
{
	unsigned before = clock_reads;
	struct hwheel *w = ktap_manual(0, 0, 0, 0);

	CHECK_EQ(arm_and_cancel(w, 10), 0);
	CHECK_EQ(hwheel_advance(w, SEC, NULL, 0, NULL), 0);
	CHECK_EQ(hwheel_destroy(w), 0);
	CHECK_EQ(clock_reads - before, 0);
}
