/* Callbacks that may wait for other callbacks take a lock of the process: who waits for that
 * sleeps. */
#include <sched.h>
#include "ktap.h"

/* Found by the library too. */
static atomic_long yields;

int sched_yield(void)
{
	atomic_fetch_add(&yields, 1);
	return (int)syscall(SYS_sched_yield);
}

static atomic_int over;

enum { THREADS = 8, WAITS = 20000 };

/* The other timer rests, so the call takes the lock and returns at once. */
static void wait_for_another(struct hwheel *w, const struct hwheel_event *e)
{
	for (int i = 0; i < WAITS && !atomic_load(&over); i++)
		CHECK_EQ(hwheel_timer_delete_sync(w, e->cookie), 0);
}

static void wait_once(struct hwheel *w, const struct hwheel_event *e)
{
	CHECK_EQ(hwheel_timer_delete_sync(w, e->cookie), 0);
}

/* Makes a wheel, and runs a callback there that waits for another timer of it. */
static void *waits(void *arg)
{
	struct hwheel *w = ktap_manual(0, 1, 2, 0);
	hwheel_timer_t other;

	if (hwheel_timer_setup(w, NULL, 0, &other) != 0 ||
	    hwheel_once(w, MS, wait_for_another, other, 0, NULL) != 0 ||
	    hwheel_advance(w, MS, NULL, 0, NULL) != 0 || hwheel_destroy(w) != 0)
		return NULL;
	return arg;
}

TEST(nobody_spins)
{
	pthread_t threads[THREADS];
	void *ok;

	atomic_store(&yields, 0);
	for (int i = 0; i < THREADS; i++)
		CHECK_EQ(pthread_create(&threads[i], NULL, waits, &over), 0);
	for (int i = 0; i < THREADS; i++) {
		CHECK_EQ(pthread_join(threads[i], &ok), 0);
		CHECK(ok == &over);
	}
	CHECK_EQ(atomic_load(&yields), 0);
}

static void *normal(void *arg)
{
	while (!atomic_load(&over))
		waits(arg);
	return arg;
}

/* A thread of a real-time priority, on the processor of one that is preempted while it
 * holds the lock. */
TEST(a_preempted_thread_holds_up_no_other)
{
	struct sched_param high = { .sched_priority = 10 }, low = { .sched_priority = 0 };
	struct hwheel *w = ktap_manual(0, 1, 2, 0);
	uint64_t now = 0;
	hwheel_timer_t timer, other;
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
	CHECK_EQ(hwheel_timer_setup(w, NULL, 0, &other), 0);
	CHECK_EQ(hwheel_timer_setup(w, wait_once, other, &timer), 0);
	CHECK_EQ(sched_setaffinity(0, sizeof one, &one), 0);
	CHECK_EQ(pthread_create(&thread, NULL, normal, NULL), 0);
	CHECK_EQ(pthread_setschedparam(pthread_self(), SCHED_FIFO, &high), 0);
	end = ktap_clock() + 4 * SEC;
	while (ktap_clock() < end) {
		uint64_t begin;

		ktap_sleep_ms(1);
		begin = ktap_clock();
		CHECK(hwheel_timer_mod(w, timer, MS, 0) >= 0);
		CHECK_EQ(hwheel_advance(w, now += MS, NULL, 0, NULL), 0);
		slow += ktap_clock() - begin > SEC / 2;
	}
	CHECK_EQ(pthread_setschedparam(pthread_self(), SCHED_OTHER, &low), 0);
	atomic_store(&over, 1);
	pthread_join(thread, NULL);
	CHECK_EQ(sched_setaffinity(0, sizeof before, &before), 0);
	CHECK_EQ(hwheel_destroy(w), 0);
	/* The kernel lets a thread spin for 0.95 s of each second. Once the machine itself may
	 * have stood still. */
	CHECK(slow < 2);
}
