/* hwheel_timer_delete_sync() and hwheel_timer_shutdown_sync(): when they return, the callback is over. */
#include <time.h>
#include "child.h"

typedef int (*cancel_fn)(struct hwheel *, hwheel_timer_t);
static const cancel_fn both[] = { hwheel_timer_delete_sync, hwheel_timer_shutdown_sync };

static atomic_int inside, release, calls, rearm, rearmed;

static void reset(void)
{
	inside = release = calls = rearm = 0;
	atomic_store(&rearmed, -1);
}

/* Runs until it is released; it may arm its timer again at the end. */
static void hold(struct hwheel *w, const struct hwheel_event *e)
{
	atomic_fetch_add(&calls, 1);
	atomic_store(&inside, 1);
	for (int i = 0; i < 20000 && !atomic_load(&release); i++)
		ktap_sleep_ms(1);
	if (atomic_load(&rearm))
		atomic_store(&rearmed, hwheel_timer_mod(w, e->timer, 3600 * SEC, 0));
	atomic_store(&inside, 0);
}

static struct waiter {
	struct hwheel *w;
	hwheel_timer_t t;
	cancel_fn cancel;
	atomic_int tid, returned, answer, ran_on;
} waiters[4];

static void *wait_for_it(void *arg)
{
	struct waiter *me = arg;

	atomic_store(&me->tid, ktap_tid());
	atomic_store(&me->answer, me->cancel(me->w, me->t));
	atomic_store(&me->ran_on, atomic_load(&inside));
	atomic_store(&me->returned, 1);
	return NULL;
}

/*
 * Until it sleeps in the library, or has not waited. Asleep ten times in a row:
 * a tool that runs one thread at a time makes it sleep on its way, too.
 */
static void until_it_waits(struct waiter *me)
{
	for (int seen = 0; seen < 10 && !atomic_load(&me->returned);) {
		ktap_sleep_ms(1);
		seen = ktap_is_asleep(atomic_load(&me->tid)) ? seen + 1 : 0;
	}
}

/*
 * Threads wait while a callback is held, then it is released: all get this answer. They call the
 * two functions by turns, the first one that with this number.
 */
static void cancel_while_held(struct hwheel *w, hwheel_timer_t t, int threads, int first,
			      int answer)
{
	pthread_t thread[COUNT(waiters)];
	int too_soon = 0;

	for (int i = 0; i < threads; i++) {
		waiters[i] = (struct waiter){ .w = w, .t = t, .cancel = both[(first + i) % 2] };
		ktap_begin(&thread[i], 1, wait_for_it, &waiters[i]);
	}
	for (int i = 0; i < threads; i++) {
		until_it_waits(&waiters[i]);
		too_soon |= atomic_load(&waiters[i].returned);
	}
	atomic_store(&release, 1);
	ktap_end(thread, threads);
	CHECK_EQ(too_soon, 0);
	for (int i = 0; i < threads; i++) {
		CHECK_EQ(atomic_load(&waiters[i].ran_on), 0);
		CHECK_EQ(atomic_load(&waiters[i].answer), answer);
	}
}

/* A timer whose callback has begun and is held. */
static hwheel_timer_t held_timer(struct hwheel *w)
{
	hwheel_timer_t t = ktap_armed(w, hold, 0, 0);

	ktap_until(&inside, 1);
	return t;
}

/* A timer whose callback is held, and what happens to the timer before one of the two waits. */
enum kind { KEPT, ONE_SHOT, PERIODIC };
enum event { NOTHING, ARMED, FREED, ARMS_ITSELF };

/* What each of the two returns, and whether the timer is pending then. */
static const struct {
	enum kind kind;
	enum event event;
	int answers[2], pending;
} cases[] = {
	{ KEPT, NOTHING, { 0, 0 }, 0 },
	{ KEPT, ARMED, { 1, 1 }, 0 },
	/* "-ESTALE - no such timer, or not any more; its callback is over." */
	{ KEPT, FREED, { -ESTALE, -ESTALE }, -ESTALE },
	/* Only the first lets its callback arm it, and cancels that. */
	{ KEPT, ARMS_ITSELF, { 1, 0 }, 0 },
	{ ONE_SHOT, NOTHING, { 0, 0 }, -ESTALE },
	{ PERIODIC, NOTHING, { 1, 1 }, -ESTALE },
};

TEST(they_wait_for_a_running_callback)
{
	for (size_t n = 0; n < 2 * COUNT(cases); n++) {
		WHEEL w = ktap_started(NULL);
		hwheel_timer_t t = 0;
		int shuts = n % 2;
		enum event event = cases[n / 2].event;

		reset();
		atomic_store(&rearm, event == ARMS_ITSELF);
		t = cases[n / 2].kind == KEPT ? ktap_armed(w, hold, 0, 0) :
		    cases[n / 2].kind == ONE_SHOT ? ktap_once(w, 0, hold, 0, 0) :
						    ktap_every(w, 0, MS, hold, 0, 0);
		ktap_until(&inside, 1);
		if (event == ARMED)
			CHECK_EQ(hwheel_timer_mod(w, t, MS, 0), 0);
		if (event == FREED)
			CHECK_EQ(hwheel_timer_free(w, t), 0);
		cancel_while_held(w, t, 1, shuts, cases[n / 2].answers[shuts]);
		CHECK_EQ(atomic_load(&calls), 1);
		if (event == ARMS_ITSELF)
			CHECK_EQ(atomic_load(&rearmed), shuts ? -ESHUTDOWN : 0);
		CHECK_EQ(hwheel_timer_pending(w, t), cases[n / 2].pending);
		if (cases[n / 2].pending == 0)
			CHECK_EQ(hwheel_timer_mod(w, t, 3600 * SEC, 0), shuts ? -ESHUTDOWN : 0);
	}
}

TEST(delete_and_free_do_not_wait)
{
	struct hwheel *w = ktap_started(NULL);
	hwheel_timer_t t;

	reset();
	t = held_timer(w);
	CHECK_EQ(hwheel_timer_delete(w, t), 0);
	CHECK_EQ(hwheel_timer_shutdown(w, t), 0);
	CHECK_EQ(hwheel_timer_free(w, t), 0);
	CHECK_EQ(atomic_load(&inside), 1);
	atomic_store(&release, 1);
	CHECK_EQ(hwheel_destroy(w), 0);
	CHECK_EQ(atomic_load(&inside), 0);
}

THREAD_TEST(several_threads_wait_for_the_same_callback)
{
	reset();
	cancel_while_held(w, held_timer(w), COUNT(waiters), 0, 0);
}

/* The cookie: whether it has a period. */
static void wait_for_oneself(struct hwheel *w, const struct hwheel_event *e)
{
	CHECK_EQ(hwheel_timer_delete_sync(w, e->timer), -EDEADLK);
	CHECK_EQ(hwheel_timer_shutdown_sync(w, e->timer), -EDEADLK);
	/* nothing has changed: it can be armed, and a period is still armed */
	CHECK_EQ(hwheel_timer_pending(w, e->timer), e->cookie);
	CHECK_EQ(hwheel_timer_mod(w, e->timer, 3600 * SEC, 0), e->cookie);
	atomic_fetch_add(&calls, 1);
}

MANUAL_TEST(from_its_own_callback_it_is_a_deadlock)
{
	hwheel_timer_t t = ktap_armed(w, wait_for_oneself, 0, MS);

	reset();
	CHECK_EQ(hwheel_every(w, MS, MS, 0, wait_for_oneself, 1, 0, NULL), 0);
	CHECK_AT(w, MS, calls, 2);
	CHECK_EQ(hwheel_timer_pending(w, t), 1);
}

/* Wheels of which each is driven in the callback of the one before. */
static struct {
	struct hwheel *w;
	hwheel_timer_t timer;
} nest[3];
static unsigned refused_at_depth;

/* In the last one, each call that would wait for one of the callbacks around it is refused. */
static void drive_the_next(struct hwheel *w, const struct hwheel_event *e)
{
	unsigned next = (unsigned)e->cookie + 1;
	struct hwheel_event left;

	if (next < COUNT(nest)) {
		CHECK_EQ(hwheel_advance(nest[next].w, MS, NULL, 0, NULL), 0);
		return;
	}
	for (unsigned i = 0; i < COUNT(nest); i++) {
		CHECK_EQ(hwheel_drain(nest[i].w, &left, 1), -EDEADLK);
		CHECK_EQ(hwheel_timer_delete_sync(nest[i].w, nest[i].timer), -EDEADLK);
		CHECK_EQ(hwheel_timer_shutdown_sync(nest[i].w, nest[i].timer), -EDEADLK);
		CHECK_EQ(hwheel_stop(nest[i].w), -EDEADLK);
		CHECK_EQ(hwheel_destroy(nest[i].w), -EDEADLK);
		refused_at_depth++;
	}
}

TEST(also_at_any_depth_of_wheels)
{
	refused_at_depth = 0;
	for (unsigned i = 0; i < COUNT(nest); i++) {
		nest[i].w = ktap_manual(0, 0, 0, 0);
		nest[i].timer = ktap_armed(nest[i].w, drive_the_next, i, MS);
	}
	CHECK_AT(nest[0].w, MS, refused_at_depth, COUNT(nest));
	/* nothing has changed: each can be armed, and waited for */
	for (unsigned i = 0; i < COUNT(nest); i++) {
		CHECK_EQ(hwheel_timer_mod(nest[i].w, nest[i].timer, MS, 0), 0);
		CHECK_EQ(hwheel_timer_delete_sync(nest[i].w, nest[i].timer), 1);
		CHECK_EQ(hwheel_destroy(nest[i].w), 0);
	}
}

static hwheel_timer_t queued[2];

static void run_the_other_inside(struct hwheel *w, const struct hwheel_event *e)
{
	if (e->timer == queued[0]) {
		CHECK_EQ(hwheel_run_queued(w), 1);
		return;
	}
	for (unsigned i = 0; i < COUNT(queued); i++)
		for (unsigned c = 0; c < COUNT(both); c++)
			CHECK_EQ(both[c](w, queued[i]), -EDEADLK);
	atomic_fetch_add(&calls, 1);
}

TEST(also_in_a_callback_that_runs_another)
{
	WHEEL w = MADE(.clock = HWHEEL_CLOCK_MANUAL, .executor = ktap_no_executor);

	reset();
	for (unsigned i = 0; i < COUNT(queued); i++)
		queued[i] = ktap_armed(w, run_the_other_inside, 0, (1 + i) * MS);
	CHECK_EQ(hwheel_advance(w, SEC, NULL, 0, NULL), 0);
	CHECK_EQ(hwheel_run_queued(w), 1);
	CHECK_EQ(atomic_load(&calls), 1);
	CHECK_EQ(hwheel_run_queued(w), 0);
}

static hwheel_timer_t siblings[2];

static void wait_for_the_sibling(struct hwheel *w, const struct hwheel_event *e)
{
	hwheel_timer_t other = siblings[e->timer == siblings[0]];

	if (atomic_fetch_add(&calls, 1))
		return;
	CHECK_EQ(hwheel_timer_delete_sync(w, other), 1);
	CHECK_EQ(hwheel_timer_shutdown_sync(w, other), 0);
	hwheel_timer_free(w, other);
	CHECK_EQ(hwheel_timer_delete_sync(w, other), -ESTALE);
}

/* The sibling is due at the same tick: already found, but not begun. */
MANUAL_TEST(a_callback_waits_for_its_sibling)
{
	reset();
	for (unsigned i = 0; i < COUNT(siblings); i++)
		siblings[i] = ktap_armed(w, wait_for_the_sibling, 0, MS);
	CHECK_AT(w, SEC, calls, 1);
}

static atomic_int running, dead, ran_when_dead;

static void must_not_run_when_dead(struct hwheel *w, const struct hwheel_event *e)
{
	atomic_fetch_add(&running, 1);
	if (atomic_load(&dead))
		atomic_store(&ran_when_dead, 1);
	hwheel_timer_mod(w, e->timer, 0, 0);
	if (atomic_load(&dead))
		atomic_store(&ran_when_dead, 1);
	atomic_fetch_sub(&running, 1);
}

/* A timer that arms itself on each tick, shut down at any moment. */
TEST(it_does_not_run_after_they_have_returned)
{
	struct hwheel *w = MADE(.tick_ns = 1000);
	int still_running = 0;

	CHECK_EQ(hwheel_start(w), 0);
	atomic_store(&ran_when_dead, 0);
	for (int i = 0; i < 300; i++) {
		hwheel_timer_t t = 0;

		atomic_store(&dead, 0);
		t = ktap_armed(w, must_not_run_when_dead, 0, 0);
		for (volatile int spin = 0; spin < i * 50; spin = spin + 1)
			;
		CHECK(both[i & 1](w, t) >= 0);
		still_running |= atomic_load(&running);
		/* delete_sync: nobody arms it again, for its callback is over */
		atomic_store(&dead, 1);
		for (volatile int spin = 0; spin < 5000; spin = spin + 1)
			;
		CHECK_EQ(hwheel_timer_free(w, t), 0);
	}
	CHECK_EQ(hwheel_destroy(w), 0);
	CHECK_EQ(still_running, 0);
	CHECK_EQ(atomic_load(&ran_when_dead), 0);
}

/*
 * While the caller of a sync delete waits, the driver goes on to the next callback. That
 * one needs a lock that the caller holds. Its handle has the same low half as that of the
 * first, three times of four.
 */
static struct {
	struct hwheel *w;
	hwheel_timer_t first, other, twin;
	pthread_mutex_t lock;
	atomic_int round, holding, released, first_runs, stuck, waiter;
	atomic_uint spin;
} next;

/* In the first rounds the callback runs until the other thread sleeps, later for any time. */
#define ASLEEP_ROUNDS 8

static void run_for_a_while(struct hwheel *w, const struct hwheel_event *e)
{
	atomic_store(&next.first_runs, 1);
	if (atomic_load(&next.round) <= ASLEEP_ROUNDS) {
		ktap_wait(ktap_is_asleep(atomic_load(&next.waiter)));
		return;
	}
	for (volatile unsigned i = 0; i < atomic_load(&next.spin); i = i + 1)
		;
}

static void take_the_lock(struct hwheel *w, const struct hwheel_event *e)
{
	struct timespec until;

	clock_gettime(CLOCK_REALTIME, &until);
	until.tv_sec += 5;
	if (pthread_mutex_timedlock(&next.lock, &until) != 0)
		atomic_store(&next.stuck, 1);
	else
		pthread_mutex_unlock(&next.lock);
}

static void *delete_the_first(void *unused)
{
	atomic_store(&next.waiter, ktap_tid());
	for (int round = 1;; round++) {
		while (atomic_load(&next.round) < round)
			if (atomic_load(&next.round) < 0)
				return unused;
		pthread_mutex_lock(&next.lock);
		atomic_store(&next.holding, round);
		while (!atomic_load(&next.first_runs))
			;
		hwheel_timer_delete_sync(next.w, next.first);
		pthread_mutex_unlock(&next.lock);
		atomic_store(&next.released, round);
	}
}

TEST(they_do_not_wait_for_the_next_callback)
{
	uint64_t now = 0;
	int others = 0;

	next.w = ktap_manual(0, 0, 0, 0);
	pthread_mutex_init(&next.lock, NULL);
	next.first = ktap_timer_of(next.w, run_for_a_while, 0);
	next.other = ktap_timer_of(next.w, take_the_lock, 0);
	while ((uint32_t)next.twin != (uint32_t)next.first && others++ < 1000000)
		next.twin = ktap_timer_of(next.w, take_the_lock, 0);
	CHECK_EQ((uint32_t)next.twin, (uint32_t)next.first);
	pthread_t thread = ktap_thread(delete_the_first, NULL);
	for (int round = 1; round <= 500 && !atomic_load(&next.stuck); round++) {
		atomic_store(&next.first_runs, 0);
		atomic_store(&next.spin, (unsigned)round * 7 % 3000);
		CHECK(hwheel_timer_mod(next.w, next.first, MS, 0) >= 0);
		CHECK(hwheel_timer_mod(next.w, round % 4 ? next.twin : next.other, 2 * MS, 0) >= 0);
		atomic_store(&next.round, round);
		while (atomic_load(&next.holding) < round)
			;
		CHECK_EQ(hwheel_advance(next.w, now += 2 * MS, NULL, 0, NULL), 0);
		while (atomic_load(&next.released) < round)
			;
	}
	atomic_store(&next.round, -1);
	ktap_join(thread);
	CHECK_EQ(atomic_load(&next.stuck), 0);
	CHECK_EQ(hwheel_destroy(next.w), 0);
}

/* A callback that frees its timer and makes another one, which may get the same record. */
static void delete_another(struct hwheel *w, const struct hwheel_event *e)
{
	hwheel_timer_t t;

	CHECK_EQ(hwheel_timer_free(w, e->timer), 0);
	t = ktap_armed(w, NULL, 0, SEC);
	CHECK_EQ(hwheel_timer_delete_sync(w, t), 1);
	CHECK_EQ(hwheel_timer_free(w, t), 0);
	atomic_fetch_add(&calls, 1);
}

MANUAL_TEST(a_new_timer_is_not_that_of_the_callback)
{
	reset();
	ktap_armed(w, delete_another, 0, MS);
	CHECK_AT(w, MS, calls, 1);
}

/* In callbacks: what hwheel_timer_delete_sync() waits for, and what it does not run. */

static struct hwheel *w;
static hwheel_timer_t a, b, c;
static atomic_int in_a, in_b, ran_c, a_over, b_over;

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
	ktap_until(&in_b, 1);
	while (stats(wheel).queued == 0)
		ktap_sleep_ms(1);
	depth++;
	CHECK_EQ(hwheel_timer_delete_sync(wheel, b), 0);
	depth--;
	atomic_store(&a_over, 1);
}

static void long_b(struct hwheel *wheel, const struct hwheel_event *e)
{
	atomic_store(&in_b, 1);
	ktap_until(&in_a, 1);
	ktap_sleep_ms(300);
	atomic_store(&b_over, 1);
}

/* Starts a wheel in which each of the three timers has its callback. */
static void start(struct hwheel *made, hwheel_fn of_a, hwheel_fn of_b, hwheel_fn of_c)
{
	w = made;
	a = ktap_timer_of(w, of_a, 0);
	b = ktap_timer_of(w, of_b, 0);
	c = ktap_timer_of(w, of_c, 0);
	CHECK_EQ(hwheel_start(w), 0);
}

CHILD_TEST(no_other_callback_runs_on_the_caller_s_stack)
{
	start(MADE(.workers = 2), wait_for_b, long_b, foreign);
	CHECK_EQ(hwheel_timer_mod(w, a, 0, 0), 0);
	CHECK_EQ(hwheel_timer_mod(w, b, 0, 0), 0);
	ktap_until(&in_a, 1);
	ktap_until(&in_b, 1);
	CHECK_EQ(hwheel_timer_mod(w, c, 0, 0), 0);
	ktap_until(&a_over, 1);
	CHECK_EQ(atomic_load(&b_over), 1);
	ktap_until(&ran_c, 1);
	CHECK_EQ(atomic_load(&nested), 0);
	CHECK_EQ(hwheel_destroy(w), 0);
}

/* All that wait are in the queue of a worker that waits. */
static void take_out(struct hwheel *wheel, const struct hwheel_event *e)
{
	atomic_store(&in_a, 1);
	while (stats(wheel).queued < 2)
		ktap_sleep_ms(1);
	CHECK_EQ(hwheel_timer_delete_sync(wheel, b), 1);
	CHECK_EQ(hwheel_timer_delete_sync(wheel, c), 1);
	atomic_store(&a_over, 1);
}

CHILD_TEST(what_has_not_begun_is_taken_out)
{
	start(MADE(.workers = 1, .queue = 2), take_out, foreign, foreign);
	CHECK_EQ(hwheel_timer_mod(w, a, 0, 0), 0);
	ktap_until(&in_a, 1);
	CHECK_EQ(hwheel_timer_mod(w, b, 0, 0), 0);
	CHECK_EQ(hwheel_timer_mod(w, c, 0, 0), 0);
	ktap_until(&a_over, 1);
	CHECK_EQ(hwheel_stop(w), 0);
	CHECK_EQ(atomic_load(&ran_c), 0);
	CHECK_EQ(stats(w).fired, 1);
	CHECK_EQ(stats(w).cancelled, 2);
	/* both can be used again */
	CHECK_EQ(hwheel_start(w), 0);
	CHECK_EQ(hwheel_timer_mod(w, b, 0, 0), 0);
	CHECK_EQ(hwheel_timer_mod(w, c, 0, 0), 0);
	ktap_until(&ran_c, 2);
	CHECK_EQ(hwheel_destroy(w), 0);
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

CHILD_TEST(those_that_wait_do_not_nest)
{
	enum { MANY = 20000 };

	start(MADE(.workers = 2, .queue = 1 << 15), NULL, long_b, NULL);
	CHECK_EQ(hwheel_timer_mod(w, b, 0, 0), 0);
	ktap_until(&in_b, 1);
	for (int i = 0; i < MANY; i++)
		CHECK_EQ(hwheel_once(w, MS, wait_deep, 0, 0, NULL), 0);
	ktap_sleep_ms(50);
	atomic_store(&in_a, 1);
	ktap_until(&a_over, MANY);
	CHECK_EQ(atomic_load(&deepest), 1);
	CHECK_EQ(hwheel_destroy(w), 0);
}
