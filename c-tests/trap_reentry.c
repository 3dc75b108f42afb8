/* Re-entry: defects that other timers had where a callback uses the wheel that calls it. */
#include <sys/resource.h>
#include "child.h"
#include "driven.h"

static inline struct hwheel *start_thread(void)
{
	n_fired = 0;
	return ktap_started(NULL);
}

static void count_it(struct hwheel *w, const struct hwheel_event *e)
{
	n_fired++;
}

static void d1_again(struct hwheel *w, const struct hwheel_event *e)
{
	/* a delay of 0 or the time 0, or for the own timer the time that has come */
	const uint32_t flags = e->cookie % 3 == 0 ? 0 : HWHEEL_ABS;

	n_fired++;
	if (e->cookie >= 3) {
		CHECK_EQ(hwheel_once(w, 0, d1_again, e->cookie, flags, NULL), 0);
		return;
	}
	/* its own timer is not armed while its callback runs */
	CHECK_EQ(hwheel_timer_pending(w, e->timer), 0);
	CHECK_EQ(hwheel_timer_mod(w, e->timer, e->cookie == 2 ? e->deadline_ns : 0, flags), 0);
}

/* Once an advance, be it of one tick or of many. */
SHAPE_TEST(d1_zero_rearm_in_the_callback_does_not_loop, shapes)
{
	for (unsigned how = 0; how < 5; how++) {
		WHEEL w = start(shape, ((UINT64_C(1) << 32) - 3) * t);

		ktap_armed(w, d1_again, how, tick);
		for (unsigned n = 1; n <= 600; n++) {
			CHECK_FIRED(to(w, driven + tick), n);
		}
		for (unsigned n = 601; n <= 620; n++) {
			CHECK_FIRED(to(w, driven + 1000 * tick), n);
		}
	}
}

static _Atomic unsigned d1_count;

static void d1_thread_again(struct hwheel *w, const struct hwheel_event *e)
{
	d1_count++;
	CHECK_EQ(hwheel_timer_mod(w, e->timer, 0, 0), 0);
}

/* On the tick thread it comes once a tick, and others come in between. */
WHEEL_TEST(d1_zero_rearm_leaves_the_thread_to_others, start_thread())
{
	hwheel_timer_t timer;
	uint64_t before = ktap_clock();

	d1_count = 0;
	timer = ktap_armed(w, d1_thread_again, 0, 0);
	ktap_until(&d1_count, 20);
	CHECK(hwheel_timer_shutdown_sync(w, timer) >= 0);
	CHECK(d1_count <= (ktap_clock() - before) / MS + 2);
}

static uint64_t d2_got[16], d2_want[16];
static unsigned d2_n;

static void d2_note(struct hwheel *w, const struct hwheel_event *e)
{
	n_fired++;
	CHECK_EQ(d2_got[e->cookie], 0u);
	d2_got[e->cookie] = driven;
}

static void d2_arm(struct hwheel *w, const struct hwheel_event *e)
{
	uint64_t slots = e->cookie;
	const uint64_t delays[] = {
		slots, 2 * slots, slots * slots, slots * slots * slots, slots - 1, slots + 1, 1, 2,
	};

	n_fired++;
	for (d2_n = 0; d2_n < COUNT(delays); d2_n++) {
		d2_got[d2_n] = 0;
		d2_want[d2_n] = driven + delays[d2_n] * tick;
		CHECK_EQ(hwheel_once(w, delays[d2_n] * tick, d2_note, d2_n, 0, NULL), 0);
	}
}

/* Whole turns from here is the bucket that is being emptied. */
SHAPE_TEST(d2_arm_into_the_bucket_being_drained, shapes)
{
	for (uint64_t first = 1; first <= 3; first++) {
		WHEEL w = start(shape, 0);

		/* others in the same bucket, due later, stay where they are */
		CHECK_EQ(hwheel_once(w, (first + shape->slots) * tick, count_it, 0, 0, NULL), 0);
		CHECK_EQ(hwheel_once(w, first * tick, d2_arm, shape->slots, 0, NULL), 0);
		CHECK_EQ(hwheel_once(w, first * tick, count_it, 0, 0, NULL), 0);
		CHECK_FIRED(to(w, first * tick), 2);
		each_expiry(w);
		CHECK_EQ(n_fired, 2 + 1 + d2_n);
		for (unsigned n = 0; n < d2_n; n++)
			CHECK_EQ(d2_got[n], d2_want[n]);
		CHECK_EQ(stats(w).live, 0);
	}
}

enum { SIBLINGS = 200 };
static hwheel_timer_t d4_timers[SIBLINGS];
static int (*d4_cancel)(struct hwheel *, hwheel_timer_t);

static void d4_first(struct hwheel *w, const struct hwheel_event *e)
{
	n_fired++;
	CHECK_EQ(hwheel_timer_pending(w, e->timer), 0);
	CHECK_EQ(hwheel_timer_delete(w, e->timer), 0);
	for (unsigned n = 0; n < SIBLINGS; n++)
		if (d4_timers[n] != e->timer && n_fired == 1)
			CHECK_EQ(d4_cancel(w, d4_timers[n]), 1);
}

/* All are due in the same tick; whichever is first cancels the others, of either kind. */
SHAPE_TEST(d4_callback_cancels_collected_siblings, shapes)
{
	int (*const how[])(struct hwheel *, hwheel_timer_t) = {
		hwheel_timer_delete, hwheel_timer_delete_sync, hwheel_timer_shutdown,
		hwheel_timer_shutdown_sync, hwheel_timer_free,
	};

	for (unsigned h = 0; h < 2 * COUNT(how); h++) {
		for (unsigned jump = 1; jump <= 100; jump += 99) {
			const int frees_itself = h % 2;
			WHEEL w = start(shape, 5 * t);

			d4_cancel = how[h / 2];
			for (unsigned n = 0; n < SIBLINGS; n++)
				d4_timers[n] = frees_itself ? ktap_once(w, tick, d4_first, n, 0) :
							      ktap_armed(w, d4_first, n, tick);
			to(w, driven + jump * tick);
			CHECK_FIRED(to(w, driven + 1000 * tick), 1);
			for (unsigned n = 0; n < SIBLINGS && frees_itself; n++)
				CHECK_EQ(hwheel_timer_pending(w, d4_timers[n]), -ESTALE);
			CHECK(stats(w).live == 0 || !frees_itself);
		}
	}
}

static void d4_move(struct hwheel *w, const struct hwheel_event *e)
{
	n_fired++;
	if (n_fired > 1)
		return;
	for (unsigned n = 0; n < SIBLINGS; n++)
		if (d4_timers[n] != e->timer)
			CHECK_EQ(hwheel_timer_mod(w, d4_timers[n], n % 2 ? 0 : 10 * tick, 0), 1);
}

/* Moved, not cancelled: they fire once, at the new time. */
SHAPE_TEST(d4_callback_moves_collected_siblings, shapes)
{
	WHEEL w = start(shape, 5 * t);
	unsigned later;

	for (unsigned n = 0; n < SIBLINGS; n++)
		d4_timers[n] = ktap_armed(w, d4_move, n, tick);
	CHECK_FIRED(to(w, 6 * tick), 1);
	to(w, 7 * tick);
	/* half of them, or one less if the first was of that half */
	later = SIBLINGS - n_fired;
	CHECK(later == SIBLINGS / 2 || later == SIBLINGS / 2 - 1);
	CHECK_FIRED(to(w, 16 * tick - 1), SIBLINGS - later);
	CHECK_FIRED(to(w, 16 * tick), SIBLINGS);
}

enum { GROW = 30000 };

static void d5_grow(struct hwheel *w, const struct hwheel_event *e)
{
	n_fired++;
	for (unsigned n = 0; n < GROW; n++)
		CHECK_EQ(hwheel_once(w, e->cookie ? (n % 1000) * tick : 0, count_it, 0, 0, NULL), 0);
}

/* The storage of timers and the buckets grow many times during a sweep. */
TEST(d5_storage_grows_during_a_sweep)
{
	for (unsigned i = 0; i < 4; i++) {
		for (unsigned spread = 0; spread < 2; spread++) {
			WHEEL w = start(&shapes[i], 0);

			/* neighbours before and after in the same tick */
			for (unsigned n = 0; n < 50; n++)
				CHECK_EQ(hwheel_once(w, tick, n == 25 ? d5_grow : count_it, spread, 0,
						      NULL), 0);
			CHECK_FIRED(to(w, tick), 50);
			to(w, 2 * tick);
			CHECK_FIRED(to(w, 2000 * tick), 50 + GROW);
			CHECK_EQ(stats(w).live, 0);
		}
	}
}

static unsigned d6_count[3];

static void d6_tick(struct hwheel *w, const struct hwheel_event *e)
{
	d6_count[e->cookie]++;
	if (e->cookie == 0)
		CHECK_EQ(hwheel_timer_delete(w, e->timer), 1);
	else if (e->cookie == 1)
		CHECK_EQ(hwheel_timer_mod(w, e->timer, 5 * tick, 0), 1);
}

/* A call of a callback on its timer affects no other timer. */
SHAPE_TEST(d6_one_timers_change_is_not_anothers, shapes)
{
	/* in every order within the tick */
	for (unsigned order = 0; order < 6; order++) {
		static const unsigned orders[6][3] = {
			{ 0, 1, 2 }, { 0, 2, 1 }, { 1, 0, 2 }, { 1, 2, 0 }, { 2, 0, 1 }, { 2, 1, 0 },
		};
		WHEEL w = start(shape, 0);
		hwheel_timer_t timers[3];

		memset(d6_count, 0, sizeof d6_count);
		for (unsigned n = 0; n < 3; n++) {
			unsigned which = orders[order][n];

			CHECK_EQ(hwheel_every(w, tick, tick, 0, d6_tick, which, 0,
					      &timers[which]), 0);
		}
		for (unsigned n = 1; n <= 50; n++)
			to(w, n * tick);
		CHECK_EQ(d6_count[0], 1);
		CHECK_EQ(d6_count[1], 10);
		CHECK_EQ(d6_count[2], 50);
		CHECK_EQ(hwheel_timer_pending(w, timers[0]), -ESTALE);
		CHECK_EQ(hwheel_timer_pending(w, timers[1]), 1);
		CHECK_EQ(hwheel_timer_pending(w, timers[2]), 1);
	}
}

static hwheel_timer_t d9_fresh;

static void d9_free(struct hwheel *w, const struct hwheel_event *e)
{
	n_fired++;
	/* one with a period is armed for the next one */
	CHECK_EQ(hwheel_timer_free(w, e->timer), e->cookie == 2);
	/* stale from now on, for everything */
	CHECK_EQ(hwheel_timer_free(w, e->timer), -ESTALE);
	CHECK_EQ(hwheel_timer_mod(w, e->timer, 0, 0), -ESTALE);
	CHECK_EQ(hwheel_timer_pending(w, e->timer), -ESTALE);
	CHECK_EQ(hwheel_timer_delete(w, e->timer), -ESTALE);
	CHECK_EQ(hwheel_timer_delete_sync(w, e->timer), -ESTALE);
	/* its storage is not given to another while it runs, nor its name */
	CHECK_EQ(hwheel_timer_setup(w, count_it, 0, &d9_fresh), 0);
	CHECK(d9_fresh != e->timer);
	CHECK((uint32_t)d9_fresh != (uint32_t)e->timer);
}

SHAPE_TEST(d9_callback_frees_its_own_timer, shapes)
{
	for (unsigned kind = 0; kind < 3; kind++) {
		WHEEL w = start(shape, 0);
		hwheel_timer_t timer = kind == 0 ? ktap_armed(w, d9_free, kind, tick) :
				       kind == 1 ? ktap_once(w, tick, d9_free, kind, 0) :
						   ktap_every(w, tick, tick, d9_free, kind, 0);

		to(w, tick);
		CHECK_FIRED(to(w, 1000 * tick), 1);
		CHECK_EQ(hwheel_timer_pending(w, timer), -ESTALE);
		CHECK_EQ(hwheel_timer_free(w, d9_fresh), 0);
		CHECK_EQ(stats(w).live, 0);
	}
}

/* Callbacks that do what they must not, end the process, or take long. */

/*
 * The header: a callback must return, and an exception that leaves it ends the
 * process. C has none, and a longjmp over the library is not allowed; what can
 * be tested is that a callback that dies takes the process with it, instead of
 * a tick thread that is dead while everything else goes on.
 */
static void d7_die(struct hwheel *w, const struct hwheel_event *e)
{
	if (e->cookie == 0)
		abort();
	*(volatile char *)(uintptr_t)e->cookie = 0;
}

static uint64_t d7_how;
static int d7_in_thread;

static void d7_child(void)
{
	const struct rlimit none = { 0, 0 };
	struct hwheel *w = d7_in_thread ? ktap_started(NULL) : ktap_manual(0, 0, 0, 0);

	setrlimit(RLIMIT_CORE, &none);
	CHECK_EQ(hwheel_once(w, 5 * MS, d7_die, d7_how, 0, NULL), 0);
	if (!d7_in_thread)
		hwheel_advance(w, 10 * MS, NULL, 0, NULL);
	/* it ends well if nobody has noticed by then */
	ktap_sleep_ms(3000);
}

static void d7_ends_by(int signal, uint64_t how)
{
	d7_how = how;
	for (d7_in_thread = 0; d7_in_thread < 2; d7_in_thread++) {
		int status = status_of(start_child(d7_child));

		CHECK(WIFSIGNALED(status));
		CHECK_EQ(WTERMSIG(status), signal);
	}
}

TEST_OF(d7_callback_that_aborts_ends_the_process, d7_ends_by(SIGABRT, 0))
/* The tick thread blocks signals; that of a fault is fatal all the same. */
TEST_OF(d7_fault_in_a_callback_ends_the_process, d7_ends_by(SIGSEGV, 1))

static _Atomic unsigned d8_fired, d8_disorder, d8_inside, d8_release;
static _Atomic uint64_t d8_latest;

static void d8_note(struct hwheel *w, const struct hwheel_event *e)
{
	if (e->deadline_ns > ktap_now(w) || e->deadline_ns < d8_latest)
		d8_disorder++;
	d8_latest = e->deadline_ns;
	d8_inside = 1;
	for (int i = 0; e->cookie == 0 && i < 20000 && !d8_release; i++)
		ktap_sleep_ms(1);
	d8_fired++;
}

/* The thread runs callbacks one by one: they come late, all, and in order. */
WHEEL_TEST(d8_slow_callback_loses_nothing, start_thread())
{
	uint64_t now = ktap_now(w) / MS * MS + 20 * MS;

	d8_fired = d8_disorder = d8_release = 0;
	d8_latest = 0;
	for (unsigned n = 40; n-- > 0;)
		CHECK_EQ(hwheel_once(w, now + n * 2 * MS, d8_note, n, HWHEEL_ABS, NULL), 0);
	ktap_sleep_ms(80);
	d8_release = 1;
	ktap_until(&d8_fired, 40);
	CHECK_EQ(d8_disorder, 0);
	CHECK(stats(w).live <= 1);
}

/* It does not delay arms from outside. */
WHEEL_TEST(d8_slow_callback_does_not_hold_up_arms, start_thread())
{
	d8_fired = d8_disorder = d8_inside = d8_release = 0;
	d8_latest = 0;
	CHECK_EQ(hwheel_once(w, 0, d8_note, 0, 0, NULL), 0);
	ktap_until(&d8_inside, 1);
	CHECK_EQ(hwheel_once(w, 5 * MS, d8_note, 1, 0, NULL), 0);
	hwheel_timer_t timer = ktap_once(w, 5 * MS, d8_note, 2, 0);
	CHECK_EQ(hwheel_timer_delete_sync(w, timer), 1);
	CHECK_EQ(d8_fired, 0);
	d8_release = 1;
	ktap_until(&d8_fired, 2);
	CHECK_EQ(d8_disorder, 0);
}
