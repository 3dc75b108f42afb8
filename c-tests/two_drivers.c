/* Two threads in hwheel_advance(), and one that starts the tick thread. */
#include "ktap.h"

enum { PATIENCE_S = 20 };

static struct hwheel *w;
static atomic_int fired, ended, over, lies;
static atomic_ulong go;
static atomic_ullong tick;

static void spin(unsigned rounds)
{
	for (volatile unsigned i = 0; i < rounds; i++)
		;
}

static void slow(struct hwheel *wheel, const struct hwheel_event *e)
{
	spin(20000);
}

static void last(struct hwheel *wheel, const struct hwheel_event *e)
{
	atomic_store(&fired, 1);
}

/* 0 says that nothing that is due is left. */
static void *concurrently(void *arg)
{
	unsigned long seen = 0;
	unsigned seed = 1;

	while (!atomic_load(&over)) {
		if (atomic_load(&go) == seen)
			continue;
		seen = atomic_load(&go);
		spin((unsigned)rand_r(&seed) % 300);
		if (hwheel_advance(w, atomic_load(&tick) * MS, NULL, 0, NULL) == 0 &&
		    !atomic_load(&fired))
			atomic_fetch_add(&lies, 1);
		atomic_store(&ended, 1);
	}
	return arg;
}

TEST(zero_means_that_all_has_fired)
{
	uint64_t end = ktap_clock() + 5 * SEC;
	pthread_t thread;
	unsigned seed = 2;

	w = ktap_manual(MS, 0, 0, 0);
	CHECK_EQ(pthread_create(&thread, NULL, concurrently, NULL), 0);
	while (ktap_clock() < end && !atomic_load(&lies)) {
		atomic_store(&fired, 0);
		atomic_store(&ended, 0);
		atomic_fetch_add(&tick, 1);
		CHECK_EQ(hwheel_once(w, atomic_load(&tick) * MS, slow, 0, HWHEEL_ABS, NULL), 0);
		CHECK_EQ(hwheel_once(w, atomic_load(&tick) * MS, last, 0, HWHEEL_ABS, NULL), 0);
		atomic_fetch_add(&go, 1);
		spin((unsigned)rand_r(&seed) % 300);
		hwheel_advance(w, atomic_load(&tick) * MS, NULL, 0, NULL);
		while (!atomic_load(&ended))
			;
		hwheel_advance(w, atomic_load(&tick) * MS, NULL, 0, NULL);
	}
	atomic_store(&over, 1);
	pthread_join(thread, NULL);
	CHECK_EQ(atomic_load(&lies), 0);
	CHECK_EQ(hwheel_destroy(w), 0);
}

static atomic_int back;

static void *move(void *arg)
{
	uint64_t end = ktap_clock() + 3 * SEC, before, after;

	while (!atomic_load(&back) && ktap_clock() < end) {
		for (int i = 0; i < 1000; i++) {
			hwheel_now(w, &before);
			hwheel_advance(w, atomic_fetch_add(&tick, 1), NULL, 0, NULL);
			hwheel_now(w, &after);
			if (after < before)
				atomic_fetch_add(&back, 1);
		}
	}
	return arg;
}

TEST(the_clock_does_not_go_back)
{
	pthread_t threads[2];

	w = ktap_manual(MS, 0, 0, 0);
	for (int i = 0; i < 2; i++)
		CHECK_EQ(pthread_create(&threads[i], NULL, move, NULL), 0);
	for (int i = 0; i < 2; i++)
		pthread_join(threads[i], NULL);
	CHECK_EQ(atomic_load(&back), 0);
	CHECK_EQ(hwheel_destroy(w), 0);
}

/* A call that is refused moves nothing. */
static void refused(struct hwheel *wheel, const struct hwheel_event *e)
{
	uint64_t now;

	if (hwheel_advance(wheel, 100 * SEC, NULL, 0, NULL) != -EBUSY)
		atomic_fetch_add(&lies, 1);
	if (hwheel_now(wheel, &now) != 0 || now > SEC)
		atomic_fetch_add(&lies, 1);
}

TEST(a_callback_does_not_move_the_clock)
{
	w = ktap_manual(MS, 0, 0, 0);
	atomic_store(&lies, 0);
	CHECK_EQ(hwheel_once(w, MS, refused, 0, 0, NULL), 0);
	CHECK_EQ(hwheel_advance(w, SEC, NULL, 0, NULL), 0);
	CHECK_EQ(atomic_load(&lies), 0);
	CHECK_EQ(hwheel_destroy(w), 0);
}

/* The tick thread is started and stopped while a thread polls. */
static atomic_int polled;

static void *poll_all(void *arg)
{
	while (!atomic_load(&over)) {
		int n = hwheel_poll(w, NULL, 0, NULL);

		if (n != 0 && n != -EBUSY)
			atomic_fetch_add(&lies, 1);
		polled += n == 0;
	}
	return arg;
}

TEST(start_beside_a_thread_that_polls)
{
	pthread_t thread;
	int started = 0;

	w = NULL;
	atomic_store(&lies, 0);
	atomic_store(&over, 0);
	CHECK_EQ(hwheel_create(NULL, &w), 0);
	CHECK_EQ(pthread_create(&thread, NULL, poll_all, NULL), 0);
	for (int i = 0; i < 300 || (started == 0 && i < PATIENCE_S * 1000); i++) {
		int r = hwheel_start(w);

		CHECK(r == 0 || r == -EBUSY);
		atomic_store(&fired, 0);
		CHECK_EQ(hwheel_once(w, 0, last, 0, 0, NULL), 0);
		if (r == 0) {
			started++;
			for (int n = 0; n < PATIENCE_S * 1000 && !atomic_load(&fired); n++)
				ktap_sleep_ms(1);
			CHECK(atomic_load(&fired));
			CHECK_EQ(hwheel_stop(w), 0);
		} else if (i >= 300) {
			ktap_sleep_ms(1);
		}
	}
	atomic_store(&over, 1);
	pthread_join(thread, NULL);
	CHECK_EQ(atomic_load(&lies), 0);
	CHECK(started > 0);
	CHECK_EQ(hwheel_destroy(w), 0);
}
