/* The memory of a small wheel, and the stack that its creation needs. */
#include <limits.h>
#include "ktap.h"

enum { WHEELS = 200, MOST = 64 << 10 };

/* Resident bytes of the process that are no part of a file. */
static long resident(void)
{
	char line[256];
	long kb = -1;
	FILE *f = fopen("/proc/self/status", "r");

	CHECK(f != NULL);
	while (fgets(line, sizeof line, f))
		if (sscanf(line, "RssAnon: %ld kB", &kb) == 1)
			break;
	fclose(f);
	CHECK(kb >= 0);
	return kb << 10;
}

static struct hwheel *of(uint32_t workers)
{
	return MADE(.workers = workers);
}

/* The mean resident bytes of a wheel with one timer, over the given number of wheels. */
static long bytes(int wheels, uint32_t workers, int started)
{
	static struct hwheel *w[WHEELS];
	long before = resident(), all;

	for (int i = 0; i < wheels; i++) {
		w[i] = of(workers);
		CHECK_EQ(hwheel_once(w[i], 60 * SEC, ktap_nothing, 0, 0, NULL), 0);
		if (started)
			CHECK_EQ(hwheel_start(w[i]), 0);
	}
	all = resident() - before;
	for (int i = 0; i < wheels; i++)
		CHECK_EQ(hwheel_destroy(w[i]), 0);
	return all / wheels;
}

/* The first one of the process pays for what all of them share. */
TEST(a_wheel_with_one_timer_takes_64_kB)
{
	long first = bytes(1, 0, 0), each = bytes(WHEELS, 0, 0);

	printf("# the first wheel keeps %ld bytes, each of many %ld\n", first, each);
	CHECK(first <= MOST);
	CHECK(each <= MOST);
}

TEST(with_its_threads_it_takes_64_kB)
{
	long thread = bytes(WHEELS, 0, 1), worker = bytes(WHEELS, 1, 0);

	printf("# with a tick thread %ld bytes, with a worker %ld\n", thread, worker);
	CHECK(thread <= MOST);
	CHECK(worker <= MOST);
}

static void *live(void *arg)
{
	for (uint32_t workers = 0; workers <= 1; workers++) {
		WHEEL w = of(workers);
		struct hwheel_event e;

		CHECK_EQ(hwheel_once(w, 0, NULL, 0, 0, NULL), 0);
		CHECK_EQ(hwheel_key_set(w, "k", 1, SEC, ktap_nothing, 0, 0), 0);
		CHECK(hwheel_poll(w, &e, 1, NULL) >= 0);
		CHECK_EQ(hwheel_start(w), 0);
		CHECK_EQ(hwheel_stop(w), 0);
		CHECK(hwheel_drain(w, &e, 1) >= 0);
	}
	return NULL;
}

/* glibc's. What musl calls the smallest, 2 kB, has no room for a printf(). */
enum { SMALLEST = 16384 };

TEST(the_smallest_stack_is_enough)
{
	pthread_attr_t small;
	pthread_t thread;

	CHECK_EQ(pthread_attr_init(&small), 0);
	CHECK_EQ(pthread_attr_setstacksize(&small,
		PTHREAD_STACK_MIN > SMALLEST ? PTHREAD_STACK_MIN : SMALLEST), 0);
	CHECK_EQ(pthread_create(&thread, &small, live, NULL), 0);
	CHECK_EQ(pthread_join(thread, NULL), 0);
	CHECK_EQ(pthread_attr_destroy(&small), 0);
}
