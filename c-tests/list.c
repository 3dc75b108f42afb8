/* hwheel_list(): a walk over the pending timers. */
#include "ktap.h"

enum { N = 1000 };

static struct hwheel_event listed[2 * N];

/* All that are pending, @max at a time. */
static int list(struct hwheel *w, uint32_t max)
{
	uint64_t cursor = 0;
	int n, sum = 0;

	do {
		n = hwheel_list(w, &cursor, listed + sum, max);
		CHECK(n >= 0);
		sum += n;
	} while (n == (int)max);
	return sum;
}

TEST(a_listed_timer_is_as_it_was_armed)
{
	WHEEL w = ktap_manual(0, 0, 0, 5 * SEC);
	hwheel_timer_t t = 0;

	CHECK_EQ(list(w, 1), 0);
	CHECK_EQ(hwheel_timer_setup(w, NULL, 42, &t), 0);
	CHECK_EQ(list(w, 1), 0);
	CHECK_EQ(hwheel_timer_mod(w, t, 3 * MS, 0), 0);
	CHECK_EQ(list(w, 2), 1);
	CHECK_EQ(listed[0].timer, t);
	CHECK_EQ(listed[0].cookie, 42);
	CHECK(listed[0].deadline_ns >= 5 * SEC + 3 * MS);
	CHECK(listed[0].deadline_ns < 5 * SEC + 4 * MS);
	CHECK_EQ(listed[0].missed, 0);
	CHECK_EQ(listed[0].flags, HWHEEL_EVENT_LISTED);
	CHECK_EQ(hwheel_timer_mod(w, t, HWHEEL_NEVER, 0), 1);
	CHECK_EQ(list(w, 1), 1);
	CHECK(listed[0].deadline_ns == HWHEEL_NEVER);
	CHECK_EQ(hwheel_timer_delete(w, t), 1);
	CHECK_EQ(list(w, 1), 0);
}

TEST(a_listed_key_has_its_cookie_and_no_handle)
{
	WHEEL w = ktap_manual(0, 0, 0, 0);

	CHECK_EQ(hwheel_key_set(w, NUMBER(7), MS, NULL, 70, 0), 0);
	CHECK_EQ(hwheel_key_set(w, NUMBER(7), 2 * MS, NULL, 71, 0), 1);
	CHECK_EQ(list(w, 8), 1);
	CHECK_EQ(listed[0].timer, 0);
	CHECK_EQ(listed[0].cookie, 71);
	CHECK_EQ(listed[0].deadline_ns, 2 * MS);
}

/* The purpose of the walk: cancel all timers that match. */
TEST(all_that_match_can_be_cancelled)
{
	WHEEL w = ktap_manual(0, 0, 0, 0);
	struct hwheel_event e[7];
	uint64_t cursor = 0;
	int n, cancelled = 0;

	for (uint64_t i = 0; i < N; i++)
		CHECK_EQ(hwheel_once(w, (i + 1) * MS, NULL, i, 0, NULL), 0);
	do {
		n = hwheel_list(w, &cursor, e, 7);
		CHECK(n >= 0);
		for (int i = 0; i < n; i++)
			if (e[i].cookie % 3 == 0)
				cancelled += hwheel_timer_delete(w, e[i].timer);
	} while (n == 7);
	CHECK_EQ(cancelled, (N + 2) / 3);
	n = list(w, 100);
	CHECK_EQ(n, N - cancelled);
	for (int i = 0; i < n; i++)
		CHECK(listed[i].cookie % 3 != 0);
}

TEST(each_is_listed_once_however_many_at_a_time)
{
	WHEEL w = ktap_manual(0, 0, 0, 0);

	for (uint64_t i = 0; i < N; i++)
		CHECK_EQ(hwheel_once(w, (i + 1) * MS, NULL, i, 0, NULL), 0);
	for (uint32_t max = 1; max <= 2 * N; max = max * 3 / 2 + 1) {
		static unsigned char seen[N];

		memset(seen, 0, sizeof seen);
		CHECK_EQ(list(w, max), N);
		for (int i = 0; i < N; i++)
			CHECK_EQ(seen[listed[i].cookie]++, 0);
	}
}

/* The nodes of a large wheel are in several blocks. A walk may stop between two. */
TEST(a_walk_goes_on_in_the_next_block)
{
	enum { MANY = 40000 };
	static unsigned char seen[MANY];
	WHEEL w = ktap_manual(0, 0, 0, 0);
	uint64_t cursor = 0;
	int sum = 0;

	for (uint64_t i = 0; i < MANY; i++)
		CHECK_EQ(hwheel_once(w, SEC, NULL, i, 0, NULL), 0);
	for (; hwheel_list(w, &cursor, listed, 1) == 1; sum++)
		CHECK_EQ(seen[listed[0].cookie]++, 0);
	CHECK_EQ(sum, MANY);
}

TEST(wrong_arguments_are_refused)
{
	WHEEL w = ktap_manual(0, 0, 0, 0);
	struct hwheel_event e;
	uint64_t cursor = 0;

	CHECK_EQ(hwheel_once(w, MS, NULL, 0, 0, NULL), 0);
	CHECK_EQ(hwheel_list(NULL, &cursor, &e, 1), -EINVAL);
	CHECK_EQ(hwheel_list(w, NULL, &e, 1), -EINVAL);
	CHECK_EQ(hwheel_list(w, &cursor, NULL, 1), -EINVAL);
	CHECK_EQ(hwheel_list(w, &cursor, &e, 0), -EINVAL);
	CHECK_EQ(hwheel_list(w, &cursor, &e, UINT32_C(2147483648)), -EINVAL);
	CHECK_EQ(cursor, 0);
	/* beyond the end there is nothing */
	cursor = UINT64_MAX;
	CHECK_EQ(hwheel_list(w, &cursor, &e, 1), 0);
}

static struct hwheel *shared;
static atomic_int over;

/* Timers come and go. */
static void *churn(void *arg)
{
	while (!atomic_load(&over)) {
		hwheel_timer_t t[16];

		for (int i = 0; i < 16; i++)
			if (hwheel_once(shared, 3600 * SEC, NULL, 99, 0, &t[i]) != 0)
				abort();
		for (int i = 0; i < 16; i++)
			if (hwheel_timer_delete(shared, t[i]) != 1)
				abort();
	}
	return NULL;
}

TEST(those_that_stay_are_listed_while_others_come_and_go)
{
	pthread_t threads[2];

	shared = ktap_manual(0, 0, 0, 0);
	for (uint64_t i = 0; i < N / 2; i++)
		CHECK_EQ(hwheel_once(shared, (i + 1) * MS, NULL, 1000 + i, 0, NULL), 0);
	atomic_store(&over, 0);
	for (int i = 0; i < 2; i++)
		CHECK_EQ(pthread_create(&threads[i], NULL, churn, NULL), 0);
	for (int round = 0; round < 200; round++) {
		static unsigned char seen[N / 2];
		int n = list(shared, 64), stayed = 0;

		memset(seen, 0, sizeof seen);
		for (int i = 0; i < n; i++) {
			if (listed[i].cookie == 99)
				continue;
			CHECK(listed[i].cookie >= 1000 && listed[i].cookie < 1000 + N / 2);
			CHECK_EQ(seen[listed[i].cookie - 1000]++, 0);
			stayed++;
		}
		CHECK_EQ(stayed, N / 2);
	}
	atomic_store(&over, 1);
	for (int i = 0; i < 2; i++)
		CHECK_EQ(pthread_join(threads[i], NULL), 0);
	CHECK_EQ(hwheel_destroy(shared), 0);
}
