/* hwheel_timer_delete_sync() in callbacks: what it waits for, and what it does not run. */
#include "child.h"
#include "ktap.h"

static struct hwheel *w;
static hwheel_timer_t a, b, c;
static atomic_int in_a, in_b, ran_c, a_over, b_over, result_a;

static void wheel(uint32_t workers, uint32_t queue)
{
	struct hwheel_options o = { .size = sizeof o };

	o.workers = workers;
	o.queue = queue;
	EXPECT(hwheel_create(&o, &w), 0);
}

static _Thread_local int depth;
static atomic_int nested;

static void foreign(struct hwheel *wheel, const struct hwheel_event *e)
{
	if (depth)
		atomic_fetch_add(&nested, 1);
	atomic_fetch_add(&ran_c, 1);
}

/* Waits for b, which runs, while c is in the queue. */
static void wait_for_b(struct hwheel *wheel, const struct hwheel_event *e)
{
	atomic_store(&in_a, 1);
	until(&in_b, 1);
	while (stats(wheel).queued == 0)
		ktap_sleep_ms(1);
	depth++;
	atomic_store(&result_a, hwheel_timer_delete_sync(wheel, b));
	depth--;
	atomic_store(&a_over, 1);
}

static void long_b(struct hwheel *wheel, const struct hwheel_event *e)
{
	atomic_store(&in_b, 1);
	until(&in_a, 1);
	ktap_sleep_ms(300);
	atomic_store(&b_over, 1);
}

static void a_foreign_callback(void)
{
	wheel(2, 0);
	EXPECT(hwheel_timer_setup(w, wait_for_b, 0, &a), 0);
	EXPECT(hwheel_timer_setup(w, long_b, 0, &b), 0);
	EXPECT(hwheel_timer_setup(w, foreign, 0, &c), 0);
	EXPECT(hwheel_start(w), 0);
	EXPECT(hwheel_timer_mod(w, a, 0, 0), 0);
	EXPECT(hwheel_timer_mod(w, b, 0, 0), 0);
	until(&in_a, 1);
	until(&in_b, 1);
	EXPECT(hwheel_timer_mod(w, c, 0, 0), 0);
	until(&a_over, 1);
	EXPECT(atomic_load(&result_a), 0);
	EXPECT(atomic_load(&b_over), 1);
	until(&ran_c, 1);
	EXPECT(atomic_load(&nested), 0);
	EXPECT(hwheel_destroy(w), 0);
}

TEST(no_other_callback_runs_on_the_caller_s_stack)
{
	in_a_child(a_foreign_callback);
}

/* Callbacks that wait for each other in a ring, one for each worker. */
enum { MOST = 4 };
static hwheel_timer_t ring[MOST];
static atomic_int inside, refused, waited, in_ring;

static void wait_for_the_next(struct hwheel *wheel, const struct hwheel_event *e)
{
	int n = atomic_load(&in_ring), result;

	atomic_fetch_add(&inside, 1);
	until(&inside, n);
	result = hwheel_timer_delete_sync(wheel, ring[(e->cookie + 1) % (unsigned)n]);
	atomic_fetch_add(result == -EDEADLK ? &refused : &waited, 1);
	if (result != -EDEADLK && result != 0)
		_exit(3);
}

static void ring_of(int n)
{
	wheel((uint32_t)n, 0);
	atomic_store(&in_ring, n);
	atomic_store(&inside, 0);
	atomic_store(&refused, 0);
	atomic_store(&waited, 0);
	for (int i = 0; i < n; i++)
		EXPECT(hwheel_timer_setup(w, wait_for_the_next, (uint64_t)i, &ring[i]), 0);
	EXPECT(hwheel_start(w), 0);
	for (int i = 0; i < n; i++)
		EXPECT(hwheel_timer_mod(w, ring[i], MS, 0), 0);
	until(&refused, 1);
	until(&waited, n - 1);
	/* one of them gets the error, and all go on */
	EXPECT(atomic_load(&refused), 1);
	EXPECT(hwheel_destroy(w), 0);
}

static void rings(void)
{
	for (int round = 0; round < 50; round++)
		for (int n = 2; n <= MOST; n++)
			ring_of(n);
}

TEST(of_callbacks_that_wait_for_each_other_one_is_refused)
{
	in_a_child(rings);
}

static atomic_int told;

static void delete_none(struct hwheel *wheel, const struct hwheel_event *e)
{
	CHECK_EQ(hwheel_timer_delete_sync(wheel, 0), -ESTALE);
	CHECK_EQ(hwheel_timer_shutdown_sync(wheel, 0), -ESTALE);
	atomic_fetch_add(&told, 1);
}

TEST(handle_0_is_stale_in_a_callback_too)
{
	WHEEL manual = ktap_manual(0, 0, 0, 0);

	CHECK_EQ(hwheel_once(manual, MS, delete_none, 0, 0, NULL), 0);
	CHECK_EQ(hwheel_advance(manual, SEC, NULL, 0, NULL), 0);
	CHECK_EQ(atomic_load(&told), 1);
}

/* The callbacks of two wheels wait for each other, each in its tick thread; some of them wait
 * for the end of all callbacks of the other wheel. */
static struct hwheel *other;
static unsigned stopping;

static void wait_in_the_other(struct hwheel *wheel, const struct hwheel_event *e)
{
	int mine = wheel == w, result;

	atomic_fetch_add(&inside, 1);
	until(&inside, 2);
	if ((unsigned)mine < stopping)
		result = hwheel_stop(mine ? other : w);
	else
		result = hwheel_timer_delete_sync(mine ? other : w, mine ? b : a);
	atomic_fetch_add(result == -EDEADLK ? &refused : &waited, 1);
}

static void two_wheels(void)
{
	atomic_store(&inside, 0);
	atomic_store(&refused, 0);
	atomic_store(&waited, 0);
	wheel(0, 0);
	other = w;
	wheel(0, 0);
	EXPECT(hwheel_timer_setup(w, wait_in_the_other, 0, &a), 0);
	EXPECT(hwheel_timer_setup(other, wait_in_the_other, 0, &b), 0);
	EXPECT(hwheel_start(w), 0);
	EXPECT(hwheel_start(other), 0);
	EXPECT(hwheel_timer_mod(w, a, MS, 0), 0);
	EXPECT(hwheel_timer_mod(other, b, MS, 0), 0);
	until(&refused, 1);
	until(&waited, 1);
	EXPECT(hwheel_destroy(w), 0);
	EXPECT(hwheel_destroy(other), 0);
}

static void two_wheels_where_none_one_or_both_stop(void)
{
	for (int round = 0; round < 30; round++)
		for (stopping = 0; stopping <= 2; stopping++)
			two_wheels();
}

TEST(also_across_two_wheels)
{
	in_a_child(two_wheels_where_none_one_or_both_stop);
}

/* All that wait are in the queue of a worker that waits. */
static atomic_int result[3];

static void take_out(struct hwheel *wheel, const struct hwheel_event *e)
{
	atomic_store(&in_a, 1);
	while (stats(wheel).queued < 2)
		ktap_sleep_ms(1);
	atomic_store(&result[0], hwheel_timer_delete_sync(wheel, b));
	atomic_store(&result[1], hwheel_timer_delete_sync(wheel, c));
	atomic_store(&a_over, 1);
}

static void out_of_the_queue(void)
{
	wheel(1, 2);
	EXPECT(hwheel_timer_setup(w, take_out, 0, &a), 0);
	EXPECT(hwheel_timer_setup(w, foreign, 0, &b), 0);
	EXPECT(hwheel_timer_setup(w, foreign, 0, &c), 0);
	EXPECT(hwheel_start(w), 0);
	EXPECT(hwheel_timer_mod(w, a, 0, 0), 0);
	until(&in_a, 1);
	EXPECT(hwheel_timer_mod(w, b, 0, 0), 0);
	EXPECT(hwheel_timer_mod(w, c, 0, 0), 0);
	until(&a_over, 1);
	EXPECT(atomic_load(&result[0]), 1);
	EXPECT(atomic_load(&result[1]), 1);
	EXPECT(hwheel_stop(w), 0);
	EXPECT(atomic_load(&ran_c), 0);
	EXPECT(stats(w).fired, 1);
	EXPECT(stats(w).cancelled, 2);
	/* both can be used again */
	EXPECT(hwheel_start(w), 0);
	EXPECT(hwheel_timer_mod(w, b, 0, 0), 0);
	EXPECT(hwheel_timer_mod(w, c, 0, 0), 0);
	until(&ran_c, 2);
	EXPECT(hwheel_destroy(w), 0);
}

TEST(what_has_not_begun_is_taken_out)
{
	in_a_child(out_of_the_queue);
}

/* Not one inside of another. */
static atomic_int deepest;

static void wait_deep(struct hwheel *wheel, const struct hwheel_event *e)
{
	if (++depth > atomic_load(&deepest))
		atomic_store(&deepest, depth);
	hwheel_timer_delete_sync(wheel, b);
	depth--;
	atomic_fetch_add(&a_over, 1);
}

static void many_that_wait(void)
{
	enum { MANY = 20000 };

	wheel(2, 1 << 15);
	EXPECT(hwheel_timer_setup(w, long_b, 0, &b), 0);
	EXPECT(hwheel_start(w), 0);
	EXPECT(hwheel_timer_mod(w, b, 0, 0), 0);
	until(&in_b, 1);
	for (int i = 0; i < MANY; i++)
		EXPECT(hwheel_once(w, MS, wait_deep, 0, 0, NULL), 0);
	ktap_sleep_ms(50);
	atomic_store(&in_a, 1);
	until(&a_over, MANY);
	EXPECT(atomic_load(&deepest), 1);
	EXPECT(hwheel_destroy(w), 0);
}

TEST(those_that_wait_do_not_nest)
{
	in_a_child(many_that_wait);
}
