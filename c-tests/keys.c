/* Timers by key: every answer, replacing, firing, draining, and storms that add up. */
#include <sched.h>
#include "child.h"
#include "events.h"

#define KEY(text) text, sizeof(text) - 1
#define ROOM 64

static struct hwheel_event events[ROOM];

static void is_not_pending(struct hwheel *w, const void *key, uint32_t len)
{
	CHECK_EQ(hwheel_key_pending(w, key, len), 0);
	CHECK_EQ(hwheel_key_mod(w, key, len, MS, 0), 0);
	CHECK_EQ(hwheel_key_delete(w, key, len), 0);
}

MANUAL_TEST(every_call_says_what_it_found)
{
	is_not_pending(w, KEY("a"));
	CHECK_EQ(stats(w).live, 0);

	CHECK_EQ(hwheel_key_set(w, KEY("a"), MS, NULL, 7, 0), 0);
	CHECK_EQ(hwheel_key_pending(w, KEY("a")), 1);
	CHECK_EQ(hwheel_key_pending(w, KEY("b")), 0);
	CHECK_EQ(hwheel_key_mod(w, KEY("a"), 2 * MS, 0), 1);
	CHECK_EQ(hwheel_key_set(w, KEY("a"), 3 * MS, NULL, 8, 0), 1);
	CHECK_EQ(stats(w).live, 1);
	CHECK_EQ(hwheel_key_delete(w, KEY("a")), 1);
	CHECK_EQ(hwheel_key_delete(w, KEY("a")), 0);
	CHECK_EQ(hwheel_key_pending(w, KEY("a")), 0);
	CHECK_EQ(stats(w).live, 0);
	no_event(w, SEC);
}

MANUAL_TEST(bad_arguments_change_nothing)
{
	const char key[256] = "key";
	const struct {
		const char *key;
		uint32_t len;
	} bad[] = { { NULL, 3 }, { key, 0 }, { key, 256 }, { key, UINT32_MAX } };

	for (size_t i = 0; i < COUNT(bad); i++) {
		CHECK_EQ(hwheel_key_set(w, bad[i].key, bad[i].len, MS, NULL, 0, 0), -EINVAL);
		CHECK_EQ(hwheel_key_mod(w, bad[i].key, bad[i].len, MS, 0), -EINVAL);
		CHECK_EQ(hwheel_key_delete(w, bad[i].key, bad[i].len), -EINVAL);
		CHECK_EQ(hwheel_key_pending(w, bad[i].key, bad[i].len), -EINVAL);
	}
	CHECK_EQ(stats(w).live, 0);
}

MANUAL_TEST(keys_are_bytes_of_any_kind_and_are_copied)
{
	uint64_t number = 42;
	char key[255];

	/* a number, zeros, and each length: all different */
	CHECK_EQ(hwheel_key_set(w, &number, sizeof number, MS, NULL, 0, 0), 0);
	memset(key, 0, sizeof key);
	for (uint32_t len = 1; len <= sizeof key; len++)
		CHECK_EQ(hwheel_key_set(w, key, len, MS, NULL, len, 0), 0);
	CHECK_EQ(stats(w).live, 256);
	key[254] = 1;
	CHECK_EQ(hwheel_key_pending(w, key, 255), 0);
	key[254] = 0;
	CHECK_EQ(hwheel_key_pending(w, key, 255), 1);
	number = 43;
	CHECK_EQ(hwheel_key_pending(w, &number, sizeof number), 0);
	number = 42;
	CHECK_EQ(hwheel_key_delete(w, &number, sizeof number), 1);
	for (uint32_t len = 1; len <= sizeof key; len++)
		CHECK_EQ(hwheel_key_delete(w, key, len), 1);
	CHECK_EQ(stats(w).live, 0);
}

MANUAL_TEST(a_number_is_the_key_of_its_bytes)
{
	const uint64_t ids[] = { 0, 1, UINT64_C(1) << 63, UINT64_MAX };

	CHECK_EQ(hwheel_key_set(NULL, NUMBER(1), MS, NULL, 0, 0), -EINVAL);
	CHECK_EQ(hwheel_key_set(w, NUMBER(1), MS, NULL, 0, 2), -EINVAL);
	CHECK_EQ(hwheel_key_mod(NULL, NUMBER(1), MS, 0), -EINVAL);
	CHECK_EQ(hwheel_key_mod(w, NUMBER(1), MS, 2), -EINVAL);
	CHECK_EQ(hwheel_key_delete(NULL, NUMBER(1)), -EINVAL);
	CHECK_EQ(hwheel_key_pending(NULL, NUMBER(1)), -EINVAL);
	for (int i = 0; i < 4; i++) {
		is_not_pending(w, NUMBER(ids[i]));
		CHECK_EQ(hwheel_key_set(w, NUMBER(ids[i]), MS, NULL, ids[i], 0), 0);
	}
	for (int i = 0; i < 4; i++) {
		CHECK_EQ(hwheel_key_pending(w, NUMBER(ids[i])), 1);
		CHECK_EQ(hwheel_key_pending(w, &ids[i], sizeof ids[i]), 1);
		CHECK_EQ(hwheel_key_mod(w, NUMBER(ids[i]), (i + 2) * MS, HWHEEL_ABS), 1);
	}
	CHECK_EQ(hwheel_key_set(w, NUMBER(ids[0]), 2 * MS, NULL, 77, 0), 1);
	CHECK_EQ(one_event(w, 2 * MS).cookie, 77);
	CHECK_EQ(hwheel_key_delete(w, NUMBER(ids[1])), 1);
	CHECK_EQ(hwheel_key_delete(w, &ids[2], sizeof ids[2]), 1);
	CHECK_EQ(one_event(w, SEC).cookie, UINT64_MAX);
	CHECK_EQ(stats(w).live, 0);
}

MANUAL_TEST(it_fires_once_and_is_gone)
{
	CHECK_EQ(hwheel_key_set(w, KEY("a"), 5 * MS, NULL, 7, 0), 0);
	no_event(w, 5 * MS - 1);
	check_event(one_event(w, 5 * MS), 0, 7, 5 * MS, 1, 0);
	is_not_pending(w, KEY("a"));
	CHECK_EQ(stats(w).live, 0);
	/* the key is free for another */
	CHECK_EQ(hwheel_key_set(w, KEY("a"), 6 * MS, NULL, 8, HWHEEL_ABS), 0);
	CHECK_EQ(one_event(w, 6 * MS).cookie, 8);
	/* nobody takes events: dropped, and gone all the same */
	CHECK_EQ(hwheel_key_set(w, KEY("a"), 0, NULL, 9, 0), 0);
	CHECK_EQ(hwheel_advance(w, 8 * MS, NULL, 0, NULL), 0);
	CHECK_EQ(hwheel_key_pending(w, KEY("a")), 0);
	CHECK_EQ(stats(w).live, 0);
}

static uint64_t seen[ROOM];
static unsigned calls;

static void note(struct hwheel *w, const struct hwheel_event *e)
{
	seen[calls++ % ROOM] = e->cookie;
}

MANUAL_TEST(set_takes_deadline_callback_and_cookie)
{
	calls = 0;
	/* the same function, another one, and none */
	CHECK_EQ(hwheel_key_set(w, KEY("a"), 5 * MS, note, 1, 0), 0);
	CHECK_EQ(hwheel_key_set(w, KEY("a"), 3 * MS, note, 2, 0), 1);
	no_event(w, 4 * MS);
	CHECK_EQ(calls, 1);
	CHECK_EQ(seen[0], 2);
	CHECK_EQ(hwheel_key_set(w, KEY("a"), 5 * MS, note, 3, 0), 0);
	CHECK_EQ(hwheel_key_set(w, KEY("a"), 7 * MS, NULL, 4, 0), 1);
	no_event(w, 10 * MS);
	CHECK_EQ(one_event(w, 11 * MS).cookie, 4);
	CHECK_EQ(calls, 1);
	CHECK_EQ(hwheel_key_set(w, KEY("a"), 5 * MS, NULL, 5, 0), 0);
	CHECK_EQ(hwheel_key_set(w, KEY("a"), 9 * MS, note, 6, 0), 1);
	no_event(w, 40 * MS);
	CHECK_EQ(calls, 2);
	CHECK_EQ(seen[1], 6);
	CHECK_EQ(stats(w).live, 0);
}

MANUAL_TEST(never_is_a_deadline_to_move_away_from)
{
	CHECK_EQ(hwheel_key_set(w, KEY("a"), HWHEEL_NEVER, NULL, 1, 0), 0);
	no_event(w, 1000 * SEC);
	CHECK_EQ(hwheel_key_pending(w, KEY("a")), 1);
	CHECK_EQ(hwheel_key_mod(w, KEY("a"), MS, 0), 1);
	CHECK_EQ(hwheel_key_mod(w, KEY("a"), HWHEEL_NEVER, HWHEEL_ABS), 1);
	no_event(w, 2000 * SEC);
	CHECK_EQ(hwheel_key_mod(w, KEY("a"), 2000 * SEC + MS, HWHEEL_ABS), 1);
	one_event(w, 2001 * SEC);
}

static int answers[4];

static void set_again(struct hwheel *w, const struct hwheel_event *e)
{
	note(w, e);
	answers[0] = hwheel_key_pending(w, KEY("a"));
	answers[1] = hwheel_key_delete(w, KEY("a"));
	answers[2] = hwheel_timer_mod(w, e->timer, MS, 0);
	if (e->cookie < 3)
		answers[3] = hwheel_key_set(w, KEY("a"), 0, set_again, e->cookie + 1, 0);
}

MANUAL_TEST(a_callback_may_set_its_own_key_again)
{
	calls = 0;
	answers[3] = -1;
	CHECK_EQ(hwheel_key_set(w, KEY("a"), MS, set_again, 1, 0), 0);
	for (unsigned tick = 1; tick <= 5; tick++) {
		no_event(w, tick * MS);
		CHECK_EQ(calls, tick < 3 ? tick : 3);
		CHECK_EQ(stats(w).live, tick < 3);
		CHECK_EQ(answers[0], 0);
		CHECK_EQ(answers[1], 0);
		CHECK_EQ(answers[2], -ESTALE);
		CHECK_EQ(answers[3], 0);
	}
	CHECK_EQ(seen[2], 3);
}

MANUAL_TEST(drain_hands_back_and_empties)
{
	uint64_t sum = 0;
	int n;

	for (uint64_t i = 1; i <= 100; i++)
		CHECK_EQ(hwheel_key_set(w, &i, sizeof i, i * SEC, i % 2 ? note : NULL, i, 0), 0);
	do {
		n = hwheel_drain(w, events, 7);
		CHECK(n >= 0);
		for (int i = 0; i < n; i++) {
			CHECK_EQ(events[i].flags, HWHEEL_EVENT_DRAINED);
			CHECK_EQ(events[i].timer, 0);
			CHECK_EQ(events[i].deadline_ns, events[i].cookie * SEC);
			sum += events[i].cookie;
		}
	} while (n == 7);
	CHECK_EQ(sum, 5050);
	CHECK_EQ(stats(w).live, 0);
	for (uint64_t i = 1; i <= 100; i++) {
		CHECK_EQ(hwheel_key_pending(w, &i, sizeof i), 0);
		CHECK_EQ(hwheel_key_mod(w, &i, sizeof i, MS, 0), -ESHUTDOWN);
		CHECK_EQ(hwheel_key_delete(w, &i, sizeof i), 0);
		CHECK_EQ(hwheel_key_set(w, &i, sizeof i, MS, NULL, i, 0), -ESHUTDOWN);
	}
	CHECK_EQ(stats(w).live, 0);
}

MANUAL_TEST(destroy_frees_what_is_pending)
{
	for (uint64_t i = 0; i < 10000; i++)
		CHECK_EQ(hwheel_key_set(w, &i, sizeof i, (i + 1) * SEC, note, i, 0), 0);
}

WHEEL_TEST(at_the_limit_the_old_timer_stays, MADE(.clock = HWHEEL_CLOCK_MANUAL, .max_timers = 1))
{
	CHECK_EQ(hwheel_key_set(w, KEY("a"), MS, NULL, 1, 0), 0);
	CHECK_EQ(hwheel_key_set(w, KEY("b"), MS, NULL, 2, 0), -ENOSPC);
	CHECK_EQ(hwheel_key_set(w, KEY("a"), 2 * MS, note, 3, 0), -ENOSPC);
	CHECK_EQ(one_event(w, MS).cookie, 1);
	/* with the same function no second timer is needed */
	CHECK_EQ(hwheel_key_set(w, KEY("b"), MS, NULL, 4, 0), 0);
	CHECK_EQ(hwheel_key_set(w, KEY("b"), MS, NULL, 5, 0), 1);
	CHECK_EQ(hwheel_key_delete(w, KEY("b")), 1);
}

MANUAL_TEST(each_set_is_counted_by_how_it_ended)
{
	struct hwheel_stats s;

	CHECK_EQ(hwheel_key_set(w, NUMBER(1), MS, NULL, 0, 0), 0);
	CHECK_EQ(hwheel_key_set(w, NUMBER(1), 2 * MS, NULL, 0, 0), 1);
	CHECK_EQ(hwheel_key_mod(w, NUMBER(1), 3 * MS, 0), 1);
	CHECK_EQ(hwheel_key_set(w, NUMBER(2), MS, NULL, 0, 0), 0);
	CHECK_EQ(hwheel_key_set(w, NUMBER(2), MS, note, 0, 0), 1);
	CHECK_EQ(hwheel_key_set(w, NUMBER(3), MS, NULL, 0, 0), 0);
	CHECK_EQ(hwheel_key_delete(w, NUMBER(3)), 1);
	CHECK_EQ(hwheel_key_set(w, NUMBER(4), MS, NULL, 0, 0), 0);
	CHECK_EQ(hwheel_key_set(w, NUMBER(5), SEC, NULL, 0, 0), 0);
	CHECK_EQ(hwheel_key_set(w, NUMBER(6), SEC, NULL, 0, 0), 0);
	s = stats(w);
	CHECK_EQ(s.armed, 7);
	CHECK_EQ(s.rearmed, 2);
	CHECK_EQ(s.cancelled, 2);
	CHECK_EQ(s.pending, 5);
	CHECK_EQ(s.live, 5);
	CHECK_EQ(hwheel_advance(w, 3 * MS, events, ROOM, NULL), 2);
	CHECK_EQ(hwheel_drain(w, events, 1), 1);
	s = stats(w);
	CHECK_EQ(s.fired, 3);
	CHECK_EQ(s.cancelled, 2);
	CHECK_EQ(s.drained, 1);
	CHECK_EQ(s.pending, 1);
	CHECK_EQ(s.live, 1);
}

/* A child that is forked while another thread holds locks of the table. */
static atomic_int forked;

static void *set_until_forked(void *wheel)
{
	for (uint64_t i = 0; !atomic_load(&forked); i++) {
		if (hwheel_key_set(wheel, NUMBER(i % 100), SEC, i % 2 ? note : NULL, 0, 0) < 0)
			abort();
		hwheel_key_delete(wheel, NUMBER((i + 50) % 100));
	}
	return NULL;
}

static struct hwheel *of_parent;

static void destroy_the_copy(void)
{
	CHECK_EQ(hwheel_key_set(of_parent, NUMBER(1), MS, NULL, 0, 0), -ESHUTDOWN);
	CHECK_EQ(hwheel_destroy(of_parent), 0);
}

MANUAL_TEST(a_child_destroys_its_copy_whoever_held_a_lock)
{
	pthread_t thread;

	of_parent = w;
	atomic_store(&forked, 0);
	ktap_begin(&thread, 1, set_until_forked, w);
	for (int i = 0; i < 50; i++)
		in_a_child(destroy_the_copy);
	atomic_store(&forked, 1);
	ktap_end(&thread, 1);
}

/*
 * A storm: two threads set, move and delete a few keys while the wheel is
 * driven, each set with a cookie of its own. Each must end in one way.
 */
#define SETS 200000

static struct hwheel *storm_wheel;
static unsigned storm_keys;
static atomic_uint ends[2 * SETS];
static atomic_uint made, replaced, deleted, running;

static void ended(struct hwheel *w, const struct hwheel_event *e)
{
	atomic_fetch_add(&ends[e->cookie], 1);
}

static int poll_it(struct hwheel *w, struct hwheel_event *events, uint32_t max)
{
	return hwheel_poll(w, events, max, NULL);
}

/* Drives the wheel, or hands its timers back. */
static int drive(int (*how)(struct hwheel *, struct hwheel_event *, uint32_t))
{
	struct hwheel_event some[3];
	int n = how(storm_wheel, some, 3);

	for (int i = 0; i < n; i++)
		ended(storm_wheel, &some[i]);
	return n;
}

static void *storm(void *first)
{
	uint64_t cookie = *(uint64_t *)first, last = cookie + SETS;
	uint64_t x = cookie + 88172645463325252u;

	while (cookie < last) {
		ktap_dice(&x);
		uint64_t key = (x >> 20) % storm_keys, delay = (x >> 30) % 4000;
		/* some are there to be deleted, however fast the driver is */
		if ((x >> 46) % 4 == 0)
			delay = 3600 * SEC;
		int got;

		switch ((x >> 50) % 16) {
		case 0:
			got = hwheel_key_delete(storm_wheel, &key, sizeof key);
			atomic_fetch_add(&deleted, got == 1);
			break;
		case 1:
			got = hwheel_key_mod(storm_wheel, &key, sizeof key, delay, 0);
			break;
		case 2:
			got = hwheel_key_pending(storm_wheel, &key, sizeof key);
			break;
		case 3:
			got = drive(poll_it) == -EBUSY;
			break;
		default:
			got = hwheel_key_set(storm_wheel, &key, sizeof key, delay,
					     x >> 60 ? ended : NULL, cookie++, 0);
			atomic_fetch_add(&made, got >= 0);
			atomic_fetch_add(&replaced, got == 1);
		}
		/* once it is drained, a set is refused and ends nowhere */
		CHECK(got == 0 || got == 1 || got == -ESHUTDOWN);
	}
	atomic_fetch_sub(&running, 1);
	return NULL;
}

/* The driver while the storm goes on. */
enum driver { POLLED, DRAINED_IN_THE_MIDDLE, TICK_THREAD, POLLED_FOR_WORKERS };

static void storm_of(enum driver driver)
{
	uint64_t first[2] = { 0, SETS };
	struct hwheel_stats s;
	pthread_t threads[2];
	unsigned once = 0;
	int n;

	memset(ends, 0, sizeof ends);
	/* enough for the tick thread to wake before each is replaced */
	storm_keys = driver == TICK_THREAD ? 10000 : 7;
	made = replaced = deleted = 0;
	atomic_store(&running, 2);
	storm_wheel = MADE(.tick_ns = 1000, .workers = driver == POLLED_FOR_WORKERS ? 2 : 0);
	if (driver == TICK_THREAD)
		CHECK_EQ(hwheel_start(storm_wheel), 0);
	for (int i = 0; i < 2; i++)
		CHECK_EQ(pthread_create(&threads[i], NULL, storm, &first[i]), 0);
	while (atomic_load(&running) > 0) {
		if (driver == DRAINED_IN_THE_MIDDLE && atomic_load(&made) > SETS)
			drive(hwheel_drain);
		else if (driver != TICK_THREAD)
			drive(poll_it);
		sched_yield();
	}
	ktap_end(threads, 2);
	CHECK_EQ(hwheel_stop(storm_wheel), 0);
	do {
		n = drive(hwheel_drain);
		CHECK(n >= 0);
	} while (n == 3);
	for (size_t i = 0; i < 2 * SETS; i++) {
		CHECK(atomic_load(&ends[i]) <= 1);
		once += atomic_load(&ends[i]);
	}
	s = stats(storm_wheel);
	/* those that the tick thread had nobody to give to */
	once += (unsigned)s.unclaimed;
	CHECK_EQ(s.fired + s.drained, once);
	CHECK_EQ(s.pending, 0);
	CHECK_EQ(s.live, 0);
	CHECK_EQ(once + atomic_load(&deleted) + atomic_load(&replaced), atomic_load(&made));
	if (driver != DRAINED_IN_THE_MIDDLE)
		CHECK_EQ(atomic_load(&made), 2 * SETS);
	CHECK(atomic_load(&replaced) > 1000);
	CHECK(atomic_load(&deleted) > 1000);
	CHECK(once > 1000);
	CHECK_EQ(hwheel_destroy(storm_wheel), 0);
}

TEST_OF(in_a_storm_each_set_ends_once, storm_of(POLLED))
TEST_OF(also_if_it_is_drained_in_the_middle, storm_of(DRAINED_IN_THE_MIDDLE))
TEST_OF(also_beside_a_tick_thread, storm_of(TICK_THREAD))
TEST_OF(also_if_workers_run_the_callbacks, storm_of(POLLED_FOR_WORKERS))
