/* Many threads make and destroy wheels, and end: who waits for another sleeps. */
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include "ktap.h"

/* Found by the library too. */
static atomic_long yields;

int sched_yield(void)
{
	atomic_fetch_add(&yields, 1);
	return (int)syscall(SYS_sched_yield);
}

static struct hwheel_options o = { .size = sizeof o, .levels = 1, .slots = 2 };
static atomic_int over;

enum { THREADS = 8, WHEELS = 2000 };

/* A long register is held for long. */
static struct hwheel *many[3000];

static void lengthen(int n)
{
	for (int i = 0; i < n; i++)
		CHECK_EQ(hwheel_create(&o, &many[i]), 0);
}

static void shorten(int n)
{
	for (int i = 0; i < n; i++)
		CHECK_EQ(hwheel_destroy(many[i]), 0);
}

static void *make_and_destroy(void *arg)
{
	for (int i = 0; i < WHEELS; i++) {
		struct hwheel *w = NULL;

		if (hwheel_create(&o, &w) != 0 ||
		    hwheel_once(w, 0, NULL, 0, 0, NULL) != 0 ||
		    hwheel_destroy(w) != 0)
			return NULL;
	}
	return arg;
}

static void nobody_spins(void)
{
	pthread_t threads[THREADS];
	void *ok;

	lengthen(500);
	atomic_store(&yields, 0);
	for (int i = 0; i < THREADS; i++)
		CHECK_EQ(pthread_create(&threads[i], NULL, make_and_destroy, &o), 0);
	for (int i = 0; i < THREADS; i++) {
		CHECK_EQ(pthread_join(threads[i], &ok), 0);
		CHECK(ok == &o);
	}
	CHECK_EQ(atomic_load(&yields), 0);
	shorten(500);
}

static void *normal(void *arg)
{
	struct hwheel *w;

	while (!atomic_load(&over))
		if (hwheel_create(&o, &w) == 0)
			hwheel_destroy(w);
	return arg;
}

/* A thread of a real-time priority, on the processor of one that is preempted while it
 * holds the register. */
static void a_preempted_thread_holds_up_no_other(void)
{
	struct sched_param high = { .sched_priority = 10 }, low = { .sched_priority = 0 };
	int slow = 0;
	uint64_t end;
	cpu_set_t before, one;
	pthread_t thread;

	CHECK_EQ(sched_getaffinity(0, sizeof before, &before), 0);
	CPU_ZERO(&one);
	for (int cpu = 0; cpu < CPU_SETSIZE; cpu++)
		if (CPU_ISSET(cpu, &before) && CPU_COUNT(&one) == 0)
			CPU_SET(cpu, &one);
	if (pthread_setschedparam(pthread_self(), SCHED_FIFO, &high) != 0)
		SKIP("no right to SCHED_FIFO");
	CHECK_EQ(pthread_setschedparam(pthread_self(), SCHED_OTHER, &low), 0);
	lengthen(3000);
	CHECK_EQ(sched_setaffinity(0, sizeof one, &one), 0);
	CHECK_EQ(pthread_create(&thread, NULL, normal, NULL), 0);
	CHECK_EQ(pthread_setschedparam(pthread_self(), SCHED_FIFO, &high), 0);
	end = ktap_clock() + 4 * SEC;
	while (ktap_clock() < end) {
		uint64_t begin;
		struct hwheel *w = NULL;

		ktap_sleep_ms(1);
		begin = ktap_clock();
		CHECK_EQ(hwheel_create(&o, &w), 0);
		CHECK_EQ(hwheel_destroy(w), 0);
		slow += ktap_clock() - begin > SEC / 2;
	}
	CHECK_EQ(pthread_setschedparam(pthread_self(), SCHED_OTHER, &low), 0);
	atomic_store(&over, 1);
	pthread_join(thread, NULL);
	CHECK_EQ(sched_setaffinity(0, sizeof before, &before), 0);
	shorten(3000);
	/* The kernel lets a thread spin for 0.95 s of each second. Once the machine itself may
	 * have stood still. */
	CHECK(slow < 2);
}

static const struct ktap_test tests[] = {
	TEST(nobody_spins),
	TEST(a_preempted_thread_holds_up_no_other),
};

KTAP_MAIN(tests)
