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
