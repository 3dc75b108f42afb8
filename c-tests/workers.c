/* Callbacks in workers and executors: concurrent, but never two of one timer. */
#include <dlfcn.h>
#include <stdarg.h>
#include <sys/syscall.h>
#include "crew.h"

TEST(wrong_options_are_refused)
{
	static const struct { uint32_t workers, queue, overload; int executor; } bad[] = {
		{ 257, 0, 0, 0 }, { 1, 3, 0, 0 }, { 1, 1u << 21, 0, 0 }, { 1, 0, 3, 0 },
		{ 1, 0, 0, 1 }, { 0, 3, 0, 0 }, { 0, 1u << 21, 0, 0 }, { 0, 0, 3, 0 },
	};
	struct hwheel *w = (struct hwheel *)&w;

	for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
		struct hwheel_options o = defaults();

		o.workers = bad[i].workers;
		o.queue = bad[i].queue;
		o.overload = bad[i].overload;
		o.executor = bad[i].executor ? execute : NULL;
		CHECK_EQ(hwheel_create(&o, &w), -EINVAL);
	}
	struct hwheel_options o = defaults();

	o.executor_arg = &o;
	CHECK_EQ(hwheel_create(&o, &w), -EINVAL);
	CHECK(w == (struct hwheel *)&w);
	w = ktap_manual(0, 0, 0, 0);
	CHECK_EQ(hwheel_run_queued(w), -EINVAL);
	CHECK_EQ(hwheel_run_queued(NULL), -EINVAL);
	CHECK_EQ(hwheel_destroy(w), 0);
}

TEST(a_queue_without_workers_has_no_effect)
{
	struct hwheel_options o = defaults();
	WHEEL w = NULL;

	o.queue = 1024;
	o.overload = HWHEEL_OVERLOAD_DROP;
	CHECK_EQ(hwheel_create(&o, &w), 0);
	CHECK_EQ(hwheel_run_queued(w), -EINVAL);
}

TEST(a_slow_callback_delays_nobody)
{
	struct hwheel_options o = defaults();

	reset();
	o.workers = 2;
	struct hwheel *w = make(&o);

	arm(w, hold, 0, 1 * MS);
	CHECK_EQ(hwheel_advance(w, 1 * MS, NULL, 0, NULL), 0);
	until(&inside, 1);
	for (int i = 1; i <= 5; i++) {
		arm(w, note, (uint64_t)i, (uint64_t)(1 + i) * MS);
		CHECK_EQ(hwheel_advance(w, (uint64_t)(1 + i) * MS, NULL, 0, NULL), 0);
		until(&calls, i);
	}
	CHECK_EQ(atomic_load(&order), 12345);
	CHECK_EQ(atomic_load(&inside), 1);
	atomic_store(&release, 1);
	CHECK_EQ(hwheel_destroy(w), 0);
	CHECK_EQ(atomic_load(&calls), 6);
}

TEST(a_period_due_while_it_runs_is_missed)
{
	struct hwheel_options o = defaults();
	hwheel_timer_t t;

	reset();
	o.workers = 2;
	WHEEL w = make(&o);

	CHECK_EQ(hwheel_every(w, 10 * MS, 10 * MS, 0, hold, 0, 0, &t), 0);
	CHECK_EQ(hwheel_advance(w, 10 * MS, NULL, 0, NULL), 0);
	until(&inside, 1);
	for (int i = 2; i <= 5; i++)
		CHECK_EQ(hwheel_advance(w, (uint64_t)i * 10 * MS, NULL, 0, NULL), 0);
	CHECK_EQ(hwheel_timer_pending(w, t), 1);
	CHECK_EQ(stats(w).fired, 1);
	atomic_store(&release, 1);
	until(&calls, 1);
	CHECK_EQ(hwheel_stop(w), 0);
	CHECK_EQ(hwheel_advance(w, 60 * MS, NULL, 0, NULL), 0);
	until(&calls, 2);
	/* 20, 30, 40 and 50 ms */
	CHECK_EQ(atomic_load(&missed), 4);
	CHECK_EQ(stats(w).missed, 4);
	CHECK_EQ(stats(w).fired, 2);
	CHECK_EQ(hwheel_advance(w, 70 * MS, NULL, 0, NULL), 0);
	until(&calls, 3);
	CHECK_EQ(atomic_load(&missed), 0);
	CHECK_EQ(atomic_load(&twice), 0);
}

TEST(a_burst_is_made_up_for_one_by_one)
{
	struct hwheel_options o = defaults();
	hwheel_timer_t t;

	reset();
	o.workers = 2;
	WHEEL w = make(&o);

	CHECK_EQ(hwheel_every(w, 10 * MS, 10 * MS, 0, hold, 0, HWHEEL_MISSED_BURST, &t), 0);
	CHECK_EQ(hwheel_advance(w, 10 * MS, NULL, 0, NULL), 0);
	until(&inside, 1);
	CHECK_EQ(hwheel_advance(w, 50 * MS, NULL, 0, NULL), 0);
	CHECK_EQ(stats(w).fired, 1);
	atomic_store(&release, 1);
	for (int i = 1; i <= 5; i++) {
		until(&calls, i);
		CHECK_EQ(hwheel_stop(w), 0);
		CHECK_EQ(hwheel_advance(w, 50 * MS + (uint64_t)i * MS, NULL, 0, NULL), 0);
	}
	CHECK_EQ(atomic_load(&calls), 5);
	CHECK_EQ(atomic_load(&twice), 0);
	CHECK_EQ(stats(w).missed, 0);
}

TEST(what_is_armed_again_fires_when_it_is_over)
{
	struct hwheel_options o = defaults();

	reset();
	o.workers = 2;
	struct hwheel *w = make(&o);
	hwheel_timer_t t = arm(w, hold, 0, 1 * MS);

	CHECK_EQ(hwheel_advance(w, 1 * MS, NULL, 0, NULL), 0);
	until(&inside, 1);
	CHECK_EQ(hwheel_timer_mod(w, t, 2 * MS, HWHEEL_ABS), 0);
	CHECK_EQ(hwheel_advance(w, 5 * MS, NULL, 0, NULL), 0);
	CHECK_EQ(hwheel_timer_pending(w, t), 1);
	CHECK_EQ(stats(w).fired, 1);
	atomic_store(&release, 1);
	until(&calls, 1);
	CHECK_EQ(hwheel_stop(w), 0);
	CHECK_EQ(hwheel_advance(w, 6 * MS, NULL, 0, NULL), 0);
	until(&calls, 2);
	CHECK_EQ(atomic_load(&twice), 0);
	/* Cancelled meanwhile, it does not. */
	atomic_store(&release, 0);
	CHECK_EQ(hwheel_timer_mod(w, t, 7 * MS, HWHEEL_ABS), 0);
	CHECK_EQ(hwheel_advance(w, 7 * MS, NULL, 0, NULL), 0);
	until(&inside, 1);
	CHECK_EQ(hwheel_timer_mod(w, t, 8 * MS, HWHEEL_ABS), 0);
	CHECK_EQ(hwheel_advance(w, 9 * MS, NULL, 0, NULL), 0);
	CHECK_EQ(hwheel_timer_delete(w, t), 1);
	atomic_store(&release, 1);
	until(&calls, 3);
	CHECK_EQ(hwheel_stop(w), 0);
	CHECK_EQ(hwheel_advance(w, 20 * MS, NULL, 0, NULL), 0);
	CHECK_EQ(hwheel_destroy(w), 0);
	CHECK_EQ(atomic_load(&calls), 3);
}

static void drive_inside(struct hwheel *w, const struct hwheel_event *e)
{
	if (hwheel_advance(w, 2 * MS, NULL, 0, NULL) == -EBUSY)
		note(w, e);
}

TEST(a_callback_drives_in_no_thread)
{
	WHEEL w = on_call(0);
	uint64_t now;

	arm(w, drive_inside, 1, 1 * MS);
	CHECK_EQ(hwheel_advance(w, 1 * MS, NULL, 0, NULL), 0);
	CHECK_EQ(hwheel_run_queued(w), 1);
	CHECK_EQ(atomic_load(&order), 1);
	CHECK_EQ(hwheel_now(w, &now), 0);
	CHECK_EQ(now, 1 * MS);
}

/* For longer than the state word can tell the past from the future. */
TEST(what_its_callback_has_held_up_is_due_however_long)
{
	const uint64_t us = 1000, far = ((UINT64_C(1) << 39) + 1000000) * us;
	WHEEL w = on_call(us);
	hwheel_timer_t t = arm(w, note, 1, 100 * us);
	uint64_t ns;

	CHECK_EQ(hwheel_advance(w, 100 * us, NULL, 0, NULL), 0);
	CHECK_EQ(hwheel_timer_mod(w, t, 200 * us, HWHEEL_ABS), 0);
	CHECK_EQ(hwheel_advance(w, 300 * us, NULL, 0, NULL), 0);
	CHECK_EQ(hwheel_advance(w, far, NULL, 0, NULL), 0);
	CHECK_EQ(hwheel_timer_remaining(w, t, &ns), 1);
	CHECK_EQ(ns, 0);
	CHECK_EQ(hwheel_timer_mod(w, t, far + 500 * us, HWHEEL_ABS | HWHEEL_REDUCE), 1);
	CHECK_EQ(hwheel_run_queued(w), 1);
	CHECK_EQ(hwheel_next_expiry(w, &ns), 1);
	CHECK(ns <= far + us);
	CHECK_EQ(hwheel_advance(w, far + us, NULL, 0, NULL), 0);
	CHECK_EQ(hwheel_run_queued(w), 1);
	CHECK_EQ(atomic_load(&order), 11);
	CHECK_EQ(hwheel_timer_pending(w, t), 0);
}

static uint64_t noted_deadline, noted_missed;

static void note_deadline(struct hwheel *w, const struct hwheel_event *e)
{
	noted_deadline = e->deadline_ns;
	noted_missed = e->missed;
}

TEST(a_move_forgets_what_its_callback_has_held_up)
{
	WHEEL w = on_call(1000);
	hwheel_timer_t t = 0;
	uint64_t left = 0;

	CHECK_EQ(hwheel_every(w, 1000, 100, 0, note_deadline, 1, 0, &t), 0);
	CHECK_EQ(hwheel_advance(w, 1000, NULL, 0, NULL), 0);
	CHECK_EQ(hwheel_advance(w, 5000, NULL, 0, NULL), 0);
	CHECK_EQ(hwheel_run_queued(w), 1);
	CHECK_EQ(hwheel_timer_mod(w, t, 100100, HWHEEL_ABS), 1);
	CHECK_EQ(hwheel_timer_remaining(w, t, &left), 1);
	/* rounded up to a tick */
	CHECK_EQ(left, 96000);
	CHECK_EQ(hwheel_advance(w, 101000, NULL, 0, NULL), 0);
	CHECK_EQ(hwheel_run_queued(w), 1);
	CHECK_EQ(noted_deadline, 101000);
	CHECK_EQ(noted_missed, 0);
}

/* Moved while its callback waits, it is due again: that is left out, and counted. */
TEST(a_moved_period_due_while_it_waits_is_missed)
{
	WHEEL w = on_call(1000);
	hwheel_timer_t t = 0;
	uint64_t left;

	CHECK_EQ(hwheel_every(w, 1000, 100000, 0, note_deadline, 1, 0, &t), 0);
	CHECK_EQ(hwheel_advance(w, 1000, NULL, 0, NULL), 0);
	CHECK_EQ(hwheel_timer_mod(w, t, 5000, HWHEEL_ABS), 1);
	CHECK_EQ(hwheel_advance(w, 6000, NULL, 0, NULL), 0);
	CHECK_EQ(hwheel_timer_remaining(w, t, &left), 1);
	CHECK_EQ(left, 99000);
	CHECK_EQ(hwheel_run_queued(w), 1);
	CHECK_EQ(hwheel_advance(w, 105000, NULL, 0, NULL), 0);
	CHECK_EQ(hwheel_run_queued(w), 1);
	CHECK_EQ(noted_deadline, 105000);
	CHECK_EQ(noted_missed, 1);
	/* The next one never comes. */
	CHECK_EQ(hwheel_timer_set_period(w, t, HWHEEL_NEVER / 2), 0);
	CHECK_EQ(hwheel_timer_mod(w, t, 106000, HWHEEL_ABS), 1);
	CHECK_EQ(hwheel_advance(w, 106000, NULL, 0, NULL), 0);
	CHECK_EQ(hwheel_timer_mod(w, t, 107000, HWHEEL_ABS), 1);
	CHECK_EQ(hwheel_advance(w, 108000, NULL, 0, NULL), 0);
	CHECK_EQ(hwheel_timer_remaining(w, t, &left), 1);
	CHECK_EQ(left, HWHEEL_NEVER);
	CHECK_EQ(hwheel_run_queued(w), 1);
}

TEST(an_executor_is_asked_once_for_each)
{
	atomic_int asked = 0;
	WHEEL w = with_executor(MS, 0, &asked);

	for (uint64_t i = 1; i <= 3; i++)
		arm(w, note, i, i * MS);
	CHECK_EQ(hwheel_advance(w, 5 * MS, NULL, 0, NULL), 0);
	CHECK_EQ(atomic_load(&asked), 3);
	CHECK_EQ(atomic_load(&calls), 0);
	CHECK_EQ(hwheel_run_queued(w), 1);
	CHECK_EQ(atomic_load(&order), 1);
	CHECK_EQ(hwheel_run_queued(w), 1);
	CHECK_EQ(hwheel_run_queued(w), 1);
	CHECK_EQ(hwheel_run_queued(w), 0);
	CHECK_EQ(atomic_load(&order), 123);
}

TEST(events_are_not_queued)
{
	struct hwheel_options o = defaults();
	struct hwheel_event e;

	o.workers = 1;
	WHEEL w = make(&o);

	arm(w, NULL, 5, 1 * MS);
	CHECK_EQ(hwheel_advance(w, 1 * MS, &e, 1, NULL), 1);
	CHECK_EQ(e.cookie, 5);
}

TEST(timers_free_themselves_in_workers)
{
	struct hwheel_options o = defaults();

	reset();
	o.workers = 2;
	WHEEL w = make(&o);

	for (uint64_t i = 0; i < 10000; i++)
		CHECK_EQ(hwheel_once(w, i % 50 * MS, note, 0, 0, NULL), 0);
	for (uint64_t i = 1; i <= 50; i++)
		CHECK_EQ(hwheel_advance(w, i * MS, NULL, 0, NULL), 0);
	CHECK_EQ(hwheel_stop(w), 0);
	CHECK_EQ(atomic_load(&calls), 10000);
	CHECK_EQ(stats(w).live, 0);
}

/* Timers of a few periods, moved and cancelled while a thread fires them. */
TEST(storm_in_four_workers)
{
	struct hwheel_options o = defaults();
	hwheel_timer_t t[64];
	uint64_t x = 1;

	reset();
	o.clock = HWHEEL_CLOCK_MONOTONIC;
	o.tick_ns = 100000;
	o.workers = 4;
	o.queue = 16;
	WHEEL w = make(&o);

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
	pthread_t runs, waits, releases;

	held = arm(w, hold, 0, 1 * MS);
	CHECK_EQ(hwheel_advance(w, HWHEEL_SEC, NULL, 0, NULL), 0);
	CHECK_EQ(pthread_create(&runs, NULL, run_the_queued, w), 0);
	until(&inside, 1);
	CHECK_EQ(pthread_create(&waits, NULL, delete_it, w), 0);
	CHECK_EQ(pthread_create(&releases, NULL, release_it, NULL), 0);
	CHECK_EQ(hwheel_stop(w), 0);
	CHECK_EQ(atomic_load(&dawdling), 0);
	CHECK_EQ(pthread_join(waits, NULL), 0);
	CHECK_EQ(hwheel_destroy(w), 0);
	CHECK_EQ(pthread_join(runs, NULL), 0);
	CHECK_EQ(pthread_join(releases, NULL), 0);
	CHECK_EQ(atomic_load(&calls), 1);
}
