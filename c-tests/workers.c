/* Callbacks in workers and executors: concurrent, but never two of one timer. */
#include <dlfcn.h>
#include <stdarg.h>
#include "child.h"

/* Records of the callbacks, and of the requests to the executor. */
static atomic_int calls, inside, twice, release, asked;
static atomic_uint missed;
static _Atomic uint64_t order;

static inline void reset(void)
{
	calls = inside = twice = release = asked = missed = order = 0;
}

/* Runs until it is released; notices another like it. */
static inline void hold(struct hwheel *w, const struct hwheel_event *e)
{
	if (atomic_fetch_add(&inside, 1) != 0)
		atomic_store(&twice, 1);
	atomic_store(&missed, e->missed);
	for (int i = 0; i < 20000 && !atomic_load(&release); i++)
		ktap_sleep_ms(1);
	atomic_fetch_sub(&inside, 1);
	atomic_fetch_add(&calls, 1);
}

/* The cookies as digits, in the order of the calls. */
static inline void note(struct hwheel *w, const struct hwheel_event *e)
{
	uint64_t seen = atomic_load(&order);

	while (!atomic_compare_exchange_weak(&order, &seen, seen * 10 + e->cookie))
		;
	atomic_fetch_add(&calls, 1);
}

/* The cookies of timers with keys, as digits, in the order of the calls. */
static inline void note_key(struct hwheel *w, const struct hwheel_event *e)
{
	CHECK_EQ(e->timer, 0);
	note(w, e);
}

static inline hwheel_timer_t arm(struct hwheel *w, hwheel_fn fn, uint64_t cookie, uint64_t at)
{
	hwheel_timer_t t = ktap_timer_of(w, fn, cookie);

	CHECK_EQ(hwheel_timer_mod(w, t, at, HWHEEL_ABS), 0);
	return t;
}

/* The executor runs nothing by itself, like a pool that was shut down first. */
static inline void execute(struct hwheel *w, void *arg)
{
	atomic_fetch_add(&asked, 1);
}

/* A manual wheel whose callbacks wait until the program calls hwheel_run_queued(). */
static inline struct hwheel *with_queue(uint32_t queue, uint32_t overload)
{
	reset();
	return MADE(.clock = HWHEEL_CLOCK_MANUAL, .queue = queue, .overload = overload,
		    .executor = execute);
}

static inline struct hwheel *on_call(uint64_t tick_ns)
{
	reset();
	return MADE(.clock = HWHEEL_CLOCK_MANUAL, .tick_ns = tick_ns, .executor = execute);
}

static struct hwheel *with_workers(uint32_t workers)
{
	reset();
	return MADE(.clock = HWHEEL_CLOCK_MANUAL, .workers = workers);
}

/* Drives the wheel to a time; no timer becomes an event. */
static void to(struct hwheel *w, uint64_t now)
{
	CHECK_EQ(hwheel_advance(w, now, NULL, 0, NULL), 0);
}

/* One callback is due until then, and runs. */
static void run_at(struct hwheel *w, uint64_t now)
{
	to(w, now);
	CHECK_EQ(hwheel_run_queued(w), 1);
}

/* A callback that is due then has begun, in a worker. */
static void begin_at(struct hwheel *w, uint64_t now)
{
	to(w, now);
	ktap_until(&inside, 1);
}

TEST(wrong_options_are_refused)
{
	static const struct hwheel_options wrong[] = {
		{ .workers = 257 }, { .workers = 1, .queue = 3 }, { .workers = 1, .queue = 1u << 21 },
		{ .workers = 1, .overload = 3 }, { .workers = 1, .executor = execute },
		{ .queue = 3 }, { .queue = 1u << 21 }, { .overload = 3 }, { .executor_arg = &order },
	};
	struct hwheel *w = (struct hwheel *)&w;

	for (size_t i = 0; i < COUNT(wrong); i++) {
		struct hwheel_options o = wrong[i];

		o.size = sizeof o;
		CHECK_EQ(hwheel_create(&o, &w), -EINVAL);
	}
	CHECK(w == (struct hwheel *)&w);
	w = ktap_manual(0, 0, 0, 0);
	CHECK_EQ(hwheel_run_queued(w), -EINVAL);
	CHECK_EQ(hwheel_run_queued(NULL), -EINVAL);
	CHECK_EQ(hwheel_destroy(w), 0);
}

TEST(a_queue_without_workers_has_no_effect)
{
	WHEEL w = MADE(.clock = HWHEEL_CLOCK_MANUAL, .queue = 1024, .overload = HWHEEL_OVERLOAD_DROP);

	CHECK_EQ(hwheel_run_queued(w), -EINVAL);
}

TEST(a_slow_callback_delays_nobody)
{
	struct hwheel *w = with_workers(2);

	arm(w, hold, 0, 1 * MS);
	begin_at(w, 1 * MS);
	for (int i = 1; i <= 5; i++) {
		arm(w, note, (uint64_t)i, (uint64_t)(1 + i) * MS);
		to(w, (uint64_t)(1 + i) * MS);
		ktap_until(&calls, i);
	}
	CHECK_EQ(atomic_load(&order), 12345);
	CHECK_EQ(atomic_load(&inside), 1);
	atomic_store(&release, 1);
	CHECK_EQ(hwheel_destroy(w), 0);
	CHECK_EQ(atomic_load(&calls), 6);
}

WHEEL_TEST(a_period_due_while_it_runs_is_missed, with_workers(2))
{
	hwheel_timer_t t = ktap_every(w, 10 * MS, 10 * MS, hold, 0, 0);

	begin_at(w, 10 * MS);
	for (int i = 2; i <= 5; i++)
		to(w, (uint64_t)i * 10 * MS);
	CHECK_EQ(hwheel_timer_pending(w, t), 1);
	CHECK_EQ(stats(w).fired, 1);
	atomic_store(&release, 1);
	ktap_until(&calls, 1);
	CHECK_EQ(hwheel_stop(w), 0);
	to(w, 60 * MS);
	ktap_until(&calls, 2);
	/* 20, 30, 40 and 50 ms */
	CHECK_EQ(atomic_load(&missed), 4);
	CHECK_EQ(stats(w).missed, 4);
	CHECK_EQ(stats(w).fired, 2);
	to(w, 70 * MS);
	ktap_until(&calls, 3);
	CHECK_EQ(atomic_load(&missed), 0);
	CHECK_EQ(atomic_load(&twice), 0);
}

WHEEL_TEST(a_burst_is_made_up_for_one_by_one, with_workers(2))
{
	CHECK_EQ(hwheel_every(w, 10 * MS, 10 * MS, 0, hold, 0, HWHEEL_MISSED_BURST, NULL), 0);
	begin_at(w, 10 * MS);
	to(w, 50 * MS);
	CHECK_EQ(stats(w).fired, 1);
	atomic_store(&release, 1);
	for (int i = 1; i <= 5; i++) {
		ktap_until(&calls, i);
		CHECK_EQ(hwheel_stop(w), 0);
		to(w, (uint64_t)(50 + i) * MS);
	}
	CHECK_EQ(atomic_load(&calls), 5);
	CHECK_EQ(atomic_load(&twice), 0);
	CHECK_EQ(stats(w).missed, 0);
}

TEST(what_is_armed_again_fires_when_it_is_over)
{
	struct hwheel *w = with_workers(2);
	hwheel_timer_t t = arm(w, hold, 0, 1 * MS);

	begin_at(w, 1 * MS);
	CHECK_EQ(hwheel_timer_mod(w, t, 2 * MS, HWHEEL_ABS), 0);
	to(w, 5 * MS);
	CHECK_EQ(hwheel_timer_pending(w, t), 1);
	CHECK_EQ(stats(w).fired, 1);
	atomic_store(&release, 1);
	ktap_until(&calls, 1);
	CHECK_EQ(hwheel_stop(w), 0);
	to(w, 6 * MS);
	ktap_until(&calls, 2);
	CHECK_EQ(atomic_load(&twice), 0);
	/* Cancelled meanwhile, it does not. */
	atomic_store(&release, 0);
	CHECK_EQ(hwheel_timer_mod(w, t, 7 * MS, HWHEEL_ABS), 0);
	begin_at(w, 7 * MS);
	CHECK_EQ(hwheel_timer_mod(w, t, 8 * MS, HWHEEL_ABS), 0);
	to(w, 9 * MS);
	CHECK_EQ(hwheel_timer_delete(w, t), 1);
	atomic_store(&release, 1);
	ktap_until(&calls, 3);
	CHECK_EQ(hwheel_stop(w), 0);
	to(w, 20 * MS);
	CHECK_EQ(hwheel_destroy(w), 0);
	CHECK_EQ(atomic_load(&calls), 3);
}

/* A time that the caller has set is no period that may be left out. */
TEST(a_move_of_a_periodic_timer_while_it_runs_fires)
{
	const uint32_t flags[] = { 0, HWHEEL_MISSED_BURST, HWHEEL_MISSED_DELAY };

	for (int i = 0; i < 3; i++) {
		WHEEL w = on_call(MS);
		hwheel_timer_t t = ktap_every(w, 10 * MS, 3600 * SEC, note, 1, flags[i]);

		to(w, 10 * MS);
		CHECK_EQ(hwheel_timer_mod(w, t, 12 * MS, HWHEEL_ABS), 1);
		to(w, 15 * MS);
		CHECK_EQ(ktap_left(w, t), 0);
		CHECK_EQ(hwheel_run_queued(w), 1);
		run_at(w, 16 * MS);
		CHECK_EQ(stats(w).fired, 2);
		CHECK_EQ(stats(w).missed, 0);
		CHECK_EQ(ktap_left(w, t), 3600 * SEC - 4 * MS);
		CHECK_EQ(hwheel_run_queued(w), 0);
	}
}

/* For longer than the state word can tell the past from the future. */
TEST(what_its_callback_has_held_up_is_due_however_long)
{
	const uint64_t us = 1000, far = ((UINT64_C(1) << 39) + 1000000) * us;
	WHEEL w = on_call(us);
	hwheel_timer_t t = arm(w, note, 1, 100 * us);

	to(w, 100 * us);
	CHECK_EQ(hwheel_timer_mod(w, t, 200 * us, HWHEEL_ABS), 0);
	to(w, 300 * us);
	to(w, far);
	CHECK_EQ(ktap_left(w, t), 0);
	CHECK_EQ(hwheel_timer_mod(w, t, far + 500 * us, HWHEEL_ABS | HWHEEL_REDUCE), 1);
	CHECK_EQ(hwheel_run_queued(w), 1);
	CHECK(ktap_next(w) <= far + us);
	run_at(w, far + us);
	CHECK_EQ(atomic_load(&order), 11);
	CHECK_EQ(hwheel_timer_pending(w, t), 0);
}

static uint64_t noted_deadline, noted_missed;

static void note_deadline(struct hwheel *w, const struct hwheel_event *e)
{
	noted_deadline = e->deadline_ns;
	noted_missed = e->missed;
}

WHEEL_TEST(a_move_forgets_what_its_callback_has_held_up, on_call(1000))
{
	hwheel_timer_t t = ktap_every(w, 1000, 100, note_deadline, 1, 0);

	to(w, 1000);
	run_at(w, 5000);
	CHECK_EQ(hwheel_timer_mod(w, t, 100100, HWHEEL_ABS), 1);
	/* rounded up to a tick */
	CHECK_EQ(ktap_left(w, t), 96000);
	run_at(w, 101000);
	CHECK_EQ(noted_deadline, 101000);
	CHECK_EQ(noted_missed, 0);
}

/* The next period never comes. */
WHEEL_TEST(a_period_that_is_the_last_one_and_due_while_it_waits_is_missed, on_call(1000))
{
	hwheel_timer_t t = ktap_every(w, 1000, 100000, note_deadline, 1, 0);

	to(w, 1000);
	CHECK_EQ(hwheel_timer_set_period(w, t, HWHEEL_NEVER / 2), 0);
	to(w, 108000);
	CHECK_EQ(ktap_left(w, t), HWHEEL_NEVER);
	CHECK_EQ(hwheel_run_queued(w), 1);
	CHECK_EQ(hwheel_timer_mod(w, t, 109000, HWHEEL_ABS), 1);
	run_at(w, 109000);
	CHECK_EQ(noted_deadline, 109000);
}

WHEEL_TEST(an_executor_is_asked_once_for_each, on_call(MS))
{
	for (uint64_t i = 1; i <= 3; i++)
		arm(w, note, i, i * MS);
	to(w, 5 * MS);
	CHECK_EQ(atomic_load(&asked), 3);
	CHECK_EQ(atomic_load(&calls), 0);
	CHECK_EQ(hwheel_run_queued(w), 1);
	CHECK_EQ(atomic_load(&order), 1);
	CHECK_EQ(hwheel_run_queued(w), 1);
	CHECK_EQ(hwheel_run_queued(w), 1);
	CHECK_EQ(hwheel_run_queued(w), 0);
	CHECK_EQ(atomic_load(&order), 123);
}

static void arm_the_timer_of_the_cookie(struct hwheel *w, const struct hwheel_event *e)
{
	CHECK_EQ(hwheel_timer_mod(w, e->cookie, 3 * MS, HWHEEL_ABS), 0);
}

WHEEL_TEST(a_callback_that_is_queued_announces_what_it_arms, on_call(MS))
{
	hwheel_timer_t t = ktap_timer_of(w, note, 7);

	arm(w, arm_the_timer_of_the_cookie, t, MS);
	run_at(w, MS);
	CHECK_EQ(ktap_next(w), 3 * MS);
	run_at(w, 3 * MS);
	CHECK_EQ(atomic_load(&order), 7);
}

WHEEL_TEST(events_are_not_queued, with_workers(1))
{
	struct hwheel_event e;

	arm(w, NULL, 5, 1 * MS);
	CHECK_EQ(hwheel_advance(w, 1 * MS, &e, 1, NULL), 1);
	CHECK_EQ(e.cookie, 5);
}

WHEEL_TEST(timers_free_themselves_in_workers, with_workers(2))
{
	for (uint64_t i = 0; i < 10000; i++)
		CHECK_EQ(hwheel_once(w, i % 50 * MS, note, 0, 0, NULL), 0);
	for (uint64_t i = 1; i <= 50; i++)
		to(w, i * MS);
	CHECK_EQ(hwheel_stop(w), 0);
	CHECK_EQ(atomic_load(&calls), 10000);
	CHECK_EQ(stats(w).live, 0);
}

/* Timers of a few periods, moved and cancelled while a thread fires them. */
TEST(storm_in_four_workers)
{
	hwheel_timer_t t[64];
	uint64_t x = 1;

	reset();
	WHEEL w = MADE(.clock = HWHEEL_CLOCK_MONOTONIC, .tick_ns = 100000, .workers = 4,
		.queue = 16);

	for (int i = 0; i < 64; i++)
		CHECK_EQ(hwheel_timer_setup(w, note, 0, &t[i]), 0);
	CHECK_EQ(hwheel_start(w), 0);
	for (int i = 0; i < 200000; i++) {
		x = x * 6364136223846793005u + 1442695040888963407u;
		hwheel_timer_t one = t[x >> 58];

		switch ((x >> 32) % 8) {
		case 0:
			CHECK(hwheel_timer_delete(w, one) >= 0);
			break;
		case 1:
			CHECK(i % 64 || hwheel_timer_delete_sync(w, one) >= 0);
			break;
		default:
			CHECK(hwheel_timer_mod(w, one, (x >> 40) % 300000, 0) >= 0);
		}
	}
	CHECK_EQ(hwheel_stop(w), 0);
	struct hwheel_stats s = stats(w);

	CHECK_EQ(s.armed, s.fired + s.cancelled + s.pending);
	CHECK_EQ(s.fired, atomic_load(&calls));
	CHECK_EQ(s.queued, 0);
}

/* Delays one thread in futex(), which wakes the thread that waits for its callback. */
static __thread int dawdles;
static atomic_int dawdling;

long syscall(long number, ...)
{
	long (*real)(long, ...);
	long a[6];
	va_list list;

	va_start(list, number);
	for (int i = 0; i < 6; i++)
		a[i] = va_arg(list, long);
	va_end(list);
	*(void **)&real = dlsym(RTLD_NEXT, "syscall");
	long r = real(number, a[0], a[1], a[2], a[3], a[4], a[5]);

	if (dawdles && number == SYS_futex) {
		atomic_store(&dawdling, 1);
		ktap_sleep_ms(50);
		atomic_store(&dawdling, 0);
	}
	return r;
}

static void *run_the_queued(void *w)
{
	dawdles = 1;
	CHECK_EQ(hwheel_run_queued(w), 1);
	return NULL;
}

static hwheel_timer_t held;

static void *delete_it(void *w)
{
	CHECK_EQ(hwheel_timer_delete_sync(w, held), 0);
	return NULL;
}

static void *release_it(void *unused)
{
	ktap_sleep_ms(30);
	atomic_store(&release, 1);
	return unused;
}

/* After the stop, the executor's thread does not use the wheel, so it can be destroyed. */
TEST(a_stop_waits_until_an_executor_has_ended)
{
	struct hwheel *w = on_call(0);

	held = arm(w, hold, 0, 1 * MS);
	CHECK_EQ(hwheel_advance(w, HWHEEL_SEC, NULL, 0, NULL), 0);
	pthread_t runs = ktap_thread(run_the_queued, w);
	ktap_until(&inside, 1);
	pthread_t waits = ktap_thread(delete_it, w);
	pthread_t releases = ktap_thread(release_it, NULL);
	CHECK_EQ(hwheel_stop(w), 0);
	CHECK_EQ(atomic_load(&dawdling), 0);
	ktap_join(waits);
	CHECK_EQ(hwheel_destroy(w), 0);
	ktap_join(runs);
	ktap_join(releases);
	CHECK_EQ(atomic_load(&calls), 1);
}

/* The queue of workers and executors: when it is full, at the end, and what is taken out. */

/* A timer with a handle, or with its cookie as its key. */
static void add(struct hwheel *w, int by_key, hwheel_fn fn, uint64_t cookie, uint64_t at)
{
	if (by_key)
		CHECK_EQ(hwheel_key_set(w, &cookie, sizeof cookie, at, fn, cookie, HWHEEL_ABS), 0);
	else
		arm(w, fn, cookie, at);
}

/* One worker that is held, a queue of two, five timers. */
static struct hwheel *crowd(uint32_t overload, int by_key)
{
	reset();
	struct hwheel *w = MADE(.clock = HWHEEL_CLOCK_MANUAL, .workers = 1, .queue = 2,
		.overload = overload);

	add(w, by_key, hold, 0, 1 * MS);
	begin_at(w, 1 * MS);
	for (uint64_t i = 1; i <= 5; i++)
		add(w, by_key, by_key ? note_key : note, i, (1 + i) * MS);
	return w;
}

/* One with a handle stays, one with a key lives until its callback is over. */
static void check_live(struct hwheel *w, int by_key, uint64_t unfinished)
{
	CHECK_EQ(stats(w).live, by_key ? unfinished : 6);
}

static void end(struct hwheel *w, int by_key)
{
	CHECK_EQ(hwheel_stop(w), 0);
	check_live(w, by_key, 0);
	CHECK_EQ(hwheel_destroy(w), 0);
}

TEST(without_room_the_driver_runs_it)
{
	for (int by_key = 0; by_key < 2; by_key++) {
		struct hwheel *w = crowd(HWHEEL_OVERLOAD_RUN, by_key);

		to(w, 10 * MS);
		CHECK_EQ(atomic_load(&order), 345);
		CHECK_EQ(stats(w).queued, 2);
		check_live(w, by_key, 3);
		atomic_store(&release, 1);
		ktap_until(&calls, 6);
		CHECK_EQ(atomic_load(&order), 34512);
		end(w, by_key);
	}
}

TEST(without_room_it_is_dropped_and_counted)
{
	const uint64_t last = 5;

	for (int by_key = 0; by_key < 2; by_key++) {
		struct hwheel *w = crowd(HWHEEL_OVERLOAD_DROP, by_key);

		to(w, 10 * MS);
		CHECK_EQ(atomic_load(&order), 0);
		CHECK_EQ(stats(w).dropped, 3);
		CHECK_EQ(stats(w).fired, 6);
		check_live(w, by_key, 3);
		CHECK_EQ(hwheel_key_pending(w, &last, sizeof last), 0);
		atomic_store(&release, 1);
		ktap_until(&calls, 3);
		CHECK_EQ(hwheel_stop(w), 0);
		CHECK_EQ(atomic_load(&order), 12);
		end(w, by_key);
	}
}

WHEEL_TEST(a_queue_may_have_room_for_one, with_queue(1, HWHEEL_OVERLOAD_RUN))
{
	for (uint64_t i = 1; i <= 2; i++) {
		arm(w, note, 2 * i - 1, (2 * i - 1) * MS);
		arm(w, note, 2 * i, 2 * i * MS);
		to(w, 2 * i * MS);
		CHECK_EQ(stats(w).queued, 1);
		CHECK_EQ(atomic_load(&asked), i);
		CHECK_EQ(hwheel_run_queued(w), 1);
		CHECK_EQ(hwheel_run_queued(w), 0);
	}
	CHECK_EQ(atomic_load(&order), 2143);
}

TEST(stop_and_destroy_run_what_is_queued)
{
	for (int i = 0; i < 4; i++) {
		struct hwheel *w = crowd(HWHEEL_OVERLOAD_RUN, i / 2);

		to(w, 3 * MS);
		CHECK_EQ(stats(w).queued, 2);
		atomic_store(&release, 1);
		if (i % 2 == 0) {
			CHECK_EQ(hwheel_stop(w), 0);
			CHECK_EQ(atomic_load(&calls), 3);
		}
		CHECK_EQ(hwheel_destroy(w), 0);
		CHECK_EQ(atomic_load(&calls), 3);
	}
}

TEST(drain_leaves_what_is_queued)
{
	const uint64_t key = 1;

	for (int by_key = 0; by_key < 2; by_key++) {
		struct hwheel *w = crowd(HWHEEL_OVERLOAD_RUN, by_key);
		struct hwheel_event events[8];

		to(w, 3 * MS);
		CHECK_EQ(hwheel_drain(w, events, 8), 3);
		for (int i = 0; i < 3; i++)
			CHECK_EQ(events[i].timer == 0, by_key);
		check_live(w, by_key, 3);
		CHECK_EQ(hwheel_key_set(w, &key, sizeof key, MS, note_key, 9, 0), -ESHUTDOWN);
		atomic_store(&release, 1);
		ktap_until(&calls, 3);
		CHECK_EQ(hwheel_stop(w), 0);
		CHECK_EQ(atomic_load(&order), 12);
		struct hwheel_stats s = stats(w);

		CHECK_EQ(s.armed, s.fired + s.cancelled + s.drained + s.pending);
		end(w, by_key);
	}
}

WHEEL_TEST(sync_delete_takes_out_what_is_queued, crowd(HWHEEL_OVERLOAD_RUN, 0))
{
	hwheel_timer_t t = arm(w, note, 9, 2 * MS);
	struct hwheel_stats before;

	/* 1 and 9 wait behind the one that runs. */
	to(w, 2 * MS);
	before = stats(w);
	CHECK_EQ(before.queued, 2);
	CHECK_EQ(hwheel_timer_delete_sync(w, t), 1);
	CHECK_EQ(stats(w).queued, 1);
	CHECK_EQ(stats(w).fired, before.fired - 1);
	CHECK_EQ(stats(w).cancelled, before.cancelled + 1);
	CHECK_EQ(memcmp(stats(w).lateness, before.lateness, sizeof before.lateness), 0);
	pthread_t thread = ktap_thread(release_it, NULL);
	CHECK_EQ(hwheel_stop(w), 0);
	CHECK_EQ(atomic_load(&order), 1);
	ktap_join(thread);
}

/* At the front or behind it. */
WHEEL_TEST(the_place_of_what_was_taken_out_is_free, with_queue(2, HWHEEL_OVERLOAD_RUN))
{
	arm(w, note, 1, 1 * MS);
	hwheel_timer_t second = arm(w, note, 2, 2 * MS);
	to(w, 2 * MS);
	CHECK_EQ(stats(w).queued, 2);
	CHECK_EQ(hwheel_timer_delete_sync(w, second), 1);
	CHECK_EQ(hwheel_run_queued(w), 1);
	CHECK_EQ(stats(w).queued, 0);
	hwheel_timer_t third = arm(w, note, 3, 3 * MS);
	arm(w, note, 4, 4 * MS);
	to(w, 4 * MS);
	CHECK_EQ(stats(w).queued, 2);
	CHECK_EQ(hwheel_timer_delete_sync(w, third), 1);
	arm(w, note, 5, 5 * MS);
	to(w, 5 * MS);
	CHECK_EQ(stats(w).queued, 2);
	while (hwheel_run_queued(w) == 1)
		;
	CHECK_EQ(atomic_load(&order), 145);
}

static uint64_t ran_last, ran_disorder;

static void note_order(struct hwheel *w, const struct hwheel_event *e)
{
	ran_disorder += e->cookie <= ran_last;
	ran_last = e->cookie;
	atomic_fetch_add(&calls, 1);
}

static uint64_t choose(uint64_t n)
{
	static uint64_t dice = 88172645463325252u;

	return ktap_dice(&dice) % n;
}

/*
 * Timers come into the queue, are taken out of its middle, and run, in any order. It is
 * full when all of its places are taken, and only then.
 */
static void at_random(uint32_t size, unsigned runs_of_8)
{
	enum { MOST = 64 };
	WHEEL w = with_queue(size, HWHEEL_OVERLOAD_DROP);
	hwheel_timer_t in_queue[MOST];
	uint64_t dropped = 0, cookie = 0, tick = 0, chosen;
	uint32_t n = 0;

	CHECK(size <= MOST);
	ran_last = ran_disorder = 0;
	for (int step = 0; step < 20000; step++) {
		uint64_t what = choose(8);

		if (what < 4) {
			hwheel_timer_t t = arm(w, note_order, ++cookie, ++tick * MS);

			to(w, tick * MS);
			if (n < size)
				in_queue[n++] = t;
			else
				dropped++;
		} else if (what < 4 + runs_of_8) {
			CHECK_EQ(hwheel_run_queued(w), n > 0);
			if (n > 0)
				memmove(in_queue, in_queue + 1, --n * sizeof *in_queue);
		} else if (n > 0) {
			/* mostly behind the oldest */
			chosen = choose(4) == 0 ? choose(n) : n - 1 - choose(n) / 2;
			CHECK_EQ(hwheel_timer_delete_sync(w, in_queue[chosen]), 1);
			n--;
			memmove(in_queue + chosen, in_queue + chosen + 1, (n - chosen) * sizeof *in_queue);
		}
		CHECK_EQ(stats(w).queued, n);
		CHECK_EQ(stats(w).dropped, dropped);
	}
	CHECK_EQ(ran_disorder, 0);
}

TEST(it_is_full_when_all_places_are_taken)
{
	for (uint32_t size = 1; size <= 64; size *= 2)
		for (unsigned runs_of_8 = 0; runs_of_8 <= 4; runs_of_8++)
			at_random(size, runs_of_8);
}

/* The oldest stays, as if its executor were stuck, and all others are taken out. */
WHEEL_TEST(the_oldest_holds_up_no_place, with_queue(0, HWHEEL_OVERLOAD_DROP))
{
	enum { SIZE = 1024 };
	static hwheel_timer_t t[SIZE];
	uint64_t cookie = 0, tick = 0;

	ran_last = ran_disorder = 0;
	t[0] = arm(w, note_order, ++cookie, ++tick * MS);
	for (int round = 0; round < 20; round++) {
		for (int i = 1; i < SIZE; i++)
			t[i] = arm(w, note_order, ++cookie, ++tick * MS);
		to(w, tick * MS);
		CHECK_EQ(stats(w).queued, SIZE);
		CHECK_EQ(stats(w).dropped, round);
		/* one too many */
		arm(w, note_order, ++cookie, ++tick * MS);
		to(w, tick * MS);
		CHECK_EQ(stats(w).dropped, round + 1);
		for (int i = SIZE - 1; round < 19 && i >= 1; i--)
			CHECK_EQ(hwheel_timer_delete_sync(w, t[i]), 1);
	}
	while (hwheel_run_queued(w) == 1)
		;
	CHECK_EQ(atomic_load(&calls), SIZE);
	CHECK_EQ(ran_disorder, 0);
}

static hwheel_timer_t victim;

static void delete_victim(struct hwheel *w, const struct hwheel_event *e)
{
	atomic_store(&inside, 1);
	ktap_until(&release, 1);
	CHECK_EQ(hwheel_timer_delete_sync(w, victim), 1);
	atomic_fetch_add(&calls, 1);
}

/* The only worker waits for a callback that is queued behind it. */
WHEEL_TEST(sync_delete_in_a_worker_takes_out_what_it_waits_for, with_workers(1))
{
	arm(w, delete_victim, 0, 1 * MS);
	begin_at(w, 1 * MS);
	victim = arm(w, note, 7, 2 * MS);
	to(w, 2 * MS);
	CHECK_EQ(stats(w).queued, 1);
	atomic_store(&release, 1);
	ktap_until(&calls, 1);
	CHECK_EQ(hwheel_stop(w), 0);
	CHECK_EQ(atomic_load(&order), 0);
}

/* Timers by key whose callbacks run in workers or an executor. */

static void set(struct hwheel *w, const char *key, hwheel_fn fn, uint64_t cookie, uint64_t at)
{
	CHECK_EQ(hwheel_key_set(w, key, strlen(key), at, fn, cookie, HWHEEL_ABS), 0);
}

WHEEL_TEST(the_key_is_free_while_its_callback_waits, on_call(MS))
{
	set(w, "a", note_key, 1, 1 * MS);
	to(w, 1 * MS);
	CHECK_EQ(stats(w).queued, 1);
	CHECK_EQ(stats(w).live, 1);
	CHECK_EQ(hwheel_key_pending(w, "a", 1), 0);
	CHECK_EQ(hwheel_key_mod(w, "a", 1, MS, 0), 0);
	CHECK_EQ(hwheel_key_delete(w, "a", 1), 0);
	/* the same key, while the first callback waits */
	set(w, "a", note_key, 2, 2 * MS);
	CHECK_EQ(stats(w).live, 2);
	to(w, 2 * MS);
	CHECK_EQ(stats(w).queued, 2);
	CHECK_EQ(hwheel_run_queued(w), 1);
	CHECK_EQ(stats(w).live, 1);
	CHECK_EQ(hwheel_run_queued(w), 1);
	CHECK_EQ(hwheel_run_queued(w), 0);
	CHECK_EQ(atomic_load(&order), 12);
	CHECK_EQ(stats(w).live, 0);
}

/* Sets its own key again, a thousand times. */
static void set_again(struct hwheel *w, const struct hwheel_event *e)
{
	CHECK_EQ(e->timer, 0);
	CHECK_EQ(hwheel_key_pending(w, "a", 1), 0);
	if (e->cookie < 1000)
		set(w, "a", set_again, e->cookie + 1, e->deadline_ns + MS);
	atomic_fetch_add(&calls, 1);
}

WHEEL_TEST(a_callback_in_a_worker_sets_its_own_key, with_workers(2))
{
	set(w, "a", set_again, 1, 1 * MS);
	for (int i = 1; i <= 1000; i++) {
		to(w, (uint64_t)i * 2 * MS);
		ktap_until(&calls, i);
	}
	CHECK_EQ(hwheel_stop(w), 0);
	CHECK_EQ(stats(w).fired, 1000);
	CHECK_EQ(stats(w).live, 0);
}

TEST(keys_leave_nothing_in_workers)
{
	reset();
	WHEEL w = MADE(.clock = HWHEEL_CLOCK_MANUAL, .workers = 4, .max_timers = 1 << 10);

	/* more than the limit on those that live at once */
	for (int round = 1; round <= 10; round++) {
		for (uint64_t i = 0; i < 1 << 10; i++)
			CHECK_EQ(hwheel_key_set(w, &i, sizeof i, i % 50 * MS, note_key, 0, 0), 0);
		to(w, (uint64_t)round * SEC);
		CHECK_EQ(hwheel_stop(w), 0);
		CHECK_EQ(atomic_load(&calls), round << 10);
		CHECK_EQ(stats(w).live, 0);
	}
}

/*
 * An executor that no longer runs anything, works late, or calls back into the
 * library: stop and destroy return, and each callback has run once.
 */

enum { QUEUE = 4, TIMERS = 20 };

static void fill(struct hwheel *w)
{
	for (int i = 0; i < TIMERS; i++)
		CHECK_EQ(hwheel_once(w, MS, note, 0, 0, NULL), 0);
}

/* The tick thread runs what the queue has no room for; a stop and a destroy run the rest. */
CHILD_TEST(stop_and_destroy_return_though_the_executor_refuses)
{
	struct hwheel *w = MADE(.executor = execute, .queue = QUEUE);

	reset();
	CHECK_EQ(hwheel_start(w), 0);
	fill(w);
	ktap_until(&calls, TIMERS - QUEUE);
	CHECK_EQ(stats(w).queued, QUEUE);
	CHECK_EQ(atomic_load(&asked), QUEUE);
	CHECK_EQ(hwheel_stop(w), 0);
	CHECK_EQ(stats(w).queued, 0);
	CHECK_EQ(atomic_load(&calls), TIMERS);
	/* it can go on */
	CHECK_EQ(hwheel_start(w), 0);
	fill(w);
	ktap_until(&calls, 2 * TIMERS - QUEUE);
	CHECK_EQ(hwheel_destroy(w), 0);
	CHECK_EQ(atomic_load(&calls), 2 * TIMERS);
}

/* Of a thread that advances: the stop runs what that has put into the queue. */
CHILD_TEST(stop_runs_what_an_advance_has_queued)
{
	WHEEL w = with_queue(QUEUE, HWHEEL_OVERLOAD_DROP);

	fill(w);
	to(w, SEC);
	CHECK_EQ(atomic_load(&calls), 0);
	CHECK_EQ(stats(w).dropped, TIMERS - QUEUE);
	CHECK_EQ(hwheel_stop(w), 0);
	CHECK_EQ(atomic_load(&calls), QUEUE);
}

/* It is asked once for each; late is not never. */
CHILD_TEST(delete_sync_does_not_wait_for_what_never_begins)
{
	WHEEL w = with_queue(QUEUE, HWHEEL_OVERLOAD_RUN);
	hwheel_timer_t t = ktap_armed(w, note, 0, MS);

	to(w, 5 * MS);
	CHECK_EQ(stats(w).queued, 1);
	CHECK_EQ(hwheel_timer_delete_sync(w, t), 1);
	CHECK_EQ(hwheel_run_queued(w), 0);
	CHECK_EQ(atomic_load(&calls), 0);
	CHECK_EQ(stats(w).cancelled, 1);
	CHECK_EQ(stats(w).fired, 0);
	CHECK_EQ(hwheel_timer_mod(w, t, MS, 0), 0);
	run_at(w, 10 * MS);
	CHECK_EQ(atomic_load(&calls), 1);
}

/* Each call by its own timer, and both of timers that are gone. */
CHILD_TEST(sync_calls_take_out_what_is_gone)
{
	WHEEL w = with_queue(QUEUE, HWHEEL_OVERLOAD_RUN);
	int (*const cancel[])(struct hwheel *, hwheel_timer_t) = {
		hwheel_timer_delete_sync, hwheel_timer_shutdown_sync,
	};
	hwheel_timer_t timers[2];

	CHECK_EQ(hwheel_once(w, MS, note, 0, 0, NULL), 0);
	for (int i = 0; i < 2; i++)
		timers[i] = ktap_armed(w, note, 0, 2 * MS);
	to(w, 5 * MS);
	for (int i = 0; i < 2; i++)
		CHECK_EQ(hwheel_timer_free(w, timers[i]), 0);
	CHECK_EQ(stats(w).queued, 3);
	for (int i = 0; i < 2; i++) {
		CHECK_EQ(hwheel_timer_delete(w, timers[i]), -ESTALE);
		CHECK_EQ(cancel[i](w, timers[i]), 1);
		CHECK_EQ(cancel[i](w, timers[i]), -ESTALE);
		CHECK_EQ(stats(w).queued, 2 - i);
	}
	CHECK_EQ(hwheel_run_queued(w), 1);
	CHECK_EQ(hwheel_run_queued(w), 0);
	CHECK_EQ(stats(w).queued, 0);
	CHECK_EQ(atomic_load(&calls), 1);
}

/* Calls that the executor function makes itself. */
static void call_back(struct hwheel *w, void *arg)
{
	struct hwheel_event e;

	CHECK_EQ(hwheel_stop(w), -EDEADLK);
	CHECK_EQ(hwheel_destroy(w), -EDEADLK);
	CHECK_EQ(hwheel_drain(w, &e, 1), -EDEADLK);
	CHECK_EQ(hwheel_poll(w, NULL, 0, NULL), -EBUSY);
	hwheel_timer_t t = ktap_once(w, SEC, note, 0, 0);
	CHECK_EQ(hwheel_timer_delete_sync(w, t), 1);
	/* an executor may also be this thread */
	hwheel_run_queued(w);
	atomic_fetch_add(&asked, 1);
}

CHILD_TEST(the_executor_cannot_stop_the_wheel)
{
	WHEEL w = MADE(.executor = call_back, .queue = QUEUE);

	reset();
	CHECK_EQ(hwheel_start(w), 0);
	CHECK_EQ(hwheel_once(w, MS, note, 0, 0, NULL), 0);
	ktap_until(&asked, 1);
	/* the wheel is as it was */
	CHECK_EQ(hwheel_start(w), -EBUSY);
	CHECK_EQ(hwheel_once(w, MS, note, 0, 0, NULL), 0);
	ktap_until(&asked, 2);
	CHECK_EQ(hwheel_stop(w), 0);
	CHECK_EQ(atomic_load(&calls), 2);
}
