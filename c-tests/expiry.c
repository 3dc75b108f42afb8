/* hwheel_next_expiry(): never later than the truth. */
#include "events.h"

MANUAL_TEST(the_earliest_counts)
{
	hwheel_timer_t t = 0;

	CHECK_EQ(hwheel_once(w, 50 * MS, NULL, 0, 0, NULL), 0);
	CHECK_EQ(hwheel_once(w, 20 * MS, NULL, 0, 0, &t), 0);
	CHECK_EQ(hwheel_once(w, 30 * MS, NULL, 0, 0, NULL), 0);
	CHECK_EQ(ktap_next(w), 20 * MS);
	CHECK_EQ(hwheel_timer_mod(w, t, 10 * MS, 0), 1);
	CHECK_EQ(ktap_next(w), 10 * MS);
	/* after a move to later it names the old time until the wheel is driven there */
	CHECK_EQ(hwheel_timer_mod(w, t, 40 * MS, 0), 1);
	CHECK_EQ(ktap_next(w), 10 * MS);
	CHECK_EQ(hwheel_advance(w, 10 * MS, NULL, 0, NULL), 0);
	CHECK_EQ(ktap_next(w), 30 * MS);
	CHECK_EQ(stats(w).fired, 0);
}

/*
 * Timers are armed in any order, and some fire. Each is armed once, or they are moved and
 * cancelled as well. The next expiry is never later than the earliest timer. If it is earlier,
 * some timer was armed for that time before it was moved or cancelled, and the wheel was not
 * driven there.
 */
static void storm(int changes)
{
	static const uint64_t ticks[] = { 1000, 7001, MS, SEC };
	enum { STEPS = 300 };

	for (uint64_t i = 0; i < 40; i++) {
		uint64_t tick = ticks[i % COUNT(ticks)], now = i % 3 * 123456789123456789, dice = i;
		WHEEL w = ktap_manual(tick, 1 + i % 4, 2u << i % 10, now);
		hwheel_timer_t t[STEPS];
		uint64_t due[STEPS], armed[STEPS];
		int n_armed = 0;

		for (uint64_t j = 0; j < STEPS; j++) {
			CHECK_EQ(hwheel_timer_setup(w, NULL, j, &t[j]), 0);
			due[j] = HWHEEL_NEVER;
		}
		for (int n = 0; n < STEPS; n++) {
			struct hwheel_event e[STEPS + 1];
			uint64_t first = HWHEEL_NEVER, next, delay;
			int j;

			dice = dice * UINT64_C(6364136223846793005) + 1442695040888963407;
			delay = (dice >> 32) % (tick << (dice >> 27) % 20);
			j = changes ? (int)(dice >> 60) : n_armed;
			if (changes && n % 7 == 1) {
				CHECK_EQ(hwheel_timer_delete(w, t[j]), due[j] != HWHEEL_NEVER);
				due[j] = HWHEEL_NEVER;
			} else if (n % 3) {
				CHECK(hwheel_timer_mod(w, t[j], delay, 0) >= 0);
				due[j] = (now + delay + tick - 1) / tick * tick;
				if (due[j] <= now)
					due[j] = now / tick * tick + tick;
				armed[n_armed++] = due[j];
			} else {
				now += delay % (100 * tick);
				int fired = hwheel_advance(w, now, e, STEPS + 1, NULL);

				for (int k = 0; k < fired; k++) {
					CHECK(due[e[k].cookie] <= now);
					due[e[k].cookie] = HWHEEL_NEVER;
				}
			}
			for (int k = 0; k < STEPS; k++)
				first = due[k] < first ? due[k] : first;
			next = ktap_next(w);
			CHECK(next <= first);
			CHECK(next == first || (changes && next > now));
			for (int k = 0; next != first; k++) {
				CHECK(k < n_armed);
				if (armed[k] == next)
					break;
			}
		}
	}
}

TEST_OF(it_names_a_time_that_a_timer_was_armed_for, storm(1))
TEST_OF(it_is_exact_while_timers_are_armed_and_fire, storm(0))

/* Before it sleeps the driver looks at up to 64 timers that were cancelled or moved. */
CLOCK_TEST(a_poll_makes_it_exact)
{
	enum { MANY = 64 };
	hwheel_timer_t t[MANY], moved;
	uint64_t now;

	CHECK(hwheel_fd(w) >= 0);
	now = ktap_now(w) / MS * MS;
	for (int round = 0; round < 2; round++) {
		for (uint64_t i = 0; i < MANY - 1; i++)
			CHECK_EQ(hwheel_once(w, now + (100 + i * i) * SEC, NULL, 0, HWHEEL_ABS, &t[i]), 0);
		moved = ktap_timer(w);
		CHECK_EQ(hwheel_timer_mod(w, moved, now + 90 * SEC, HWHEEL_ABS), 0);
		/* some of the notes are taken before the cancels */
		if (round == 1)
			CHECK_EQ(hwheel_poll(w, NULL, 0, NULL), 0);
		CHECK_EQ(ktap_next(w), now + 90 * SEC);
		for (int i = 0; i < MANY - 1; i++)
			CHECK_EQ(hwheel_timer_delete(w, t[i]), 1);
		CHECK_EQ(hwheel_timer_mod(w, moved, now + 9000 * SEC, HWHEEL_ABS), 1);
		CHECK_EQ(hwheel_poll(w, NULL, 0, NULL), 0);
		CHECK_EQ(ktap_next(w), now + 9000 * SEC);
		CHECK_EQ(hwheel_timer_free(w, moved), 1);
		CHECK_EQ(hwheel_poll(w, NULL, 0, NULL), 0);
		CHECK_EQ(ktap_next(w), HWHEEL_NEVER);
	}
}

/* It may still return a time after all are cancelled, but only for their ticks. */
MANUAL_TEST(of_many_cancelled_timers_it_says_little)
{
	enum { N = 5000, TICKS = 7 };
	struct hwheel_run run = { .size = sizeof run, .max_fired = 1 };
	static hwheel_timer_t t[N];

	for (int stopped = 0; stopped < 2; stopped++) {
		uint64_t now = ktap_now(w), ns = 0;
		int rounds = 0;

		for (int i = 0; i < N; i++)
			CHECK_EQ(hwheel_once(w, 50 * MS + i % TICKS * MS, NULL, 0, 0, &t[i]), 0);
		if (stopped)
			CHECK_EQ(hwheel_advance(w, now + 50 * MS, NULL, 0, &run), 0);
		for (int i = 0; i < N; i++)
			CHECK(hwheel_timer_delete(w, t[i]) == 1 || stopped);
		CHECK_EQ(stats(w).pending, 0);
		while (hwheel_next_expiry(w, &ns) == 1) {
			CHECK(ns <= now + 50 * MS + TICKS * MS);
			CHECK_EQ(hwheel_advance(w, ns, NULL, 0, NULL), 0);
			CHECK(++rounds <= TICKS + 1);
		}
	}
}

/* Drive from expiry to expiry: each timer at its tick, none late. */
MANUAL_TEST(an_event_loop_can_live_on_it)
{
	enum { N = 1000 };
	static struct hwheel_event e[N];
	uint64_t x = 88172645463325252u, ns = 0, last = 0;
	int fired = 0, rounds = 0;

	for (int i = 0; i < N; i++)
		CHECK_EQ(hwheel_once(w, ktap_dice(&x) % (3600 * SEC), NULL, 0, 0, NULL), 0);
	while (hwheel_next_expiry(w, &ns) == 1) {
		int n;

		CHECK(ns > last);
		last = ns;
		n = hwheel_advance(w, ns, e, N, NULL);
		for (int i = 0; i < n; i++)
			CHECK_EQ((e[i].deadline_ns + MS - 1) / MS * MS, ns);
		fired += n;
		CHECK(++rounds < 100 * N);
	}
	CHECK_EQ(fired, N);
}

/* A bound leaves more timers than hwheel_next_expiry() looks at one by one. */
MANUAL_TEST(what_a_bound_left_of_a_crowd_is_due_now)
{
	struct hwheel_run run = { .size = sizeof run, .max_fired = 10 };
	struct hwheel_event e[20];

	arm_some(w, 10000, 2 * MS, NULL);
	CHECK_EQ(hwheel_advance(w, 5 * MS, e, 20, &run), 10);
	CHECK_EQ(run.left, 1);
	CHECK(ktap_next(w) <= 2 * MS);
}

/* Its entry is in the slot that the hand comes to last. */
WHEEL_TEST(a_cancelled_timer_a_turn_away_does_not_count, ktap_manual(0, 1, 64, 0))
{
	hwheel_timer_t t = ktap_timer(w);

	for (uint64_t i = 62; i < 66; i++) {
		CHECK_EQ(hwheel_timer_mod(w, t, i * MS, 0), 0);
		CHECK_EQ(hwheel_timer_delete(w, t), 1);
		CHECK_EQ(hwheel_advance(w, ktap_now(w) + i * MS, NULL, 0, NULL), 0);
		CHECK_EQ(ktap_next(w), HWHEEL_NEVER);
	}
}

static void *advance_a_little(void *w)
{
	hwheel_advance(w, 10 * MS, NULL, 0, NULL);
	return NULL;
}

MANUAL_TEST(it_is_not_late_while_another_thread_drives)
{
	pthread_t thread;
	uint64_t next;

	ktap_arm_hold(w, 10 * MS);
	CHECK_EQ(hwheel_once(w, 50 * MS, NULL, 0, 0, NULL), 0);
	ktap_begin(&thread, 1, advance_a_little, w);
	ktap_until(&ktap_held, 1);
	next = ktap_next(w);
	atomic_store(&ktap_may_go, 1);
	ktap_end(&thread, 1);
	CHECK(next <= 50 * MS);
}

/* A timer is due again while its callback runs in a worker, and some later ones are pending. */
static void one_that_its_callback_holds_up(uint64_t tick_ns, unsigned others, uint64_t later,
					   int is_moved)
{
	WHEEL w = MADE(.workers = 1, .clock = HWHEEL_CLOCK_MANUAL, .tick_ns = tick_ns);
	hwheel_timer_t t = ktap_armed(w, ktap_hold, 0, MS);

	ktap_held = ktap_may_go = 0;
	CHECK_EQ(hwheel_advance(w, MS, NULL, 0, NULL), 0);
	ktap_until(&ktap_held, 1);
	for (unsigned i = 0; i < others; i++)
		CHECK_EQ(hwheel_once(w, later + i, NULL, 0, HWHEEL_ABS, NULL), 0);
	CHECK_EQ(hwheel_once(w, UINT64_C(1) << 62, NULL, 0, HWHEEL_ABS, NULL), 0);
	CHECK_EQ(hwheel_timer_mod(w, t, 10 * MS, HWHEEL_ABS), 0);
	CHECK_EQ(ktap_next(w), 10 * MS);
	/* it does not count until its callback has returned */
	for (unsigned i = 10; i <= 20; i += 10) {
		CHECK_EQ(hwheel_advance(w, i * MS, NULL, 0, NULL), 0);
		CHECK_EQ(ktap_left(w, t), 0);
		CHECK(ktap_next(w) <= (others ? later : HWHEEL_NEVER - 1));
	}
	if (is_moved) {
		CHECK_EQ(hwheel_timer_mod(w, t, 500 * MS, HWHEEL_ABS), 1);
		CHECK_EQ(ktap_next(w), others && later < 500 * MS ? later : 500 * MS);
	} else {
		atomic_store(&ktap_may_go, 1);
		ktap_wait(ktap_next(w) <= 20 * MS);
		CHECK_EQ(hwheel_advance(w, 20 * MS, NULL, 0, NULL), 0);
		CHECK_EQ(stats(w).fired, 2);
	}
	atomic_store(&ktap_may_go, 1);
}

TEST(it_is_not_late_when_a_callback_holds_its_timer_up)
{
	for (int is_moved = 0; is_moved < 2; is_moved++) {
		one_that_its_callback_holds_up(MS, 0, 0, is_moved);
		one_that_its_callback_holds_up(MS, 1, 100 * MS, is_moved);
		/* more timers than are worth a look are in the slot of the driver's entry */
		one_that_its_callback_holds_up(1000, 1000, 1000 * (UINT64_C(1) << 34), is_moved);
	}
}

/*
 * A loop whose timers are mostly cancelled does not wake for each of them, also if nobody
 * wakes it: on the caller's clock, and on the system's without a descriptor.
 */
TEST(a_drive_announces_no_cancelled_timer)
{
	enum { MANY = 1000, SETTLED = 64 };
	static hwheel_timer_t t[MANY];

	for (int manual = 0; manual < 2; manual++) {
		WHEEL w = MADE(.clock = manual ? HWHEEL_CLOCK_MANUAL : 0);
		uint64_t begin = ktap_now(w), next;

		for (uint64_t i = 0; i < MANY; i++)
			CHECK_EQ(hwheel_once(w, begin + 20 * SEC + i * MS, NULL, 0, HWHEEL_ABS, &t[i]),
				 0);
		CHECK_EQ(hwheel_once(w, begin + 30 * SEC, NULL, 0, HWHEEL_ABS, NULL), 0);
		CHECK_DUE(drive_to(w, 0), begin + 20 * SEC, MS);
		for (unsigned i = 0; i < MANY; i++)
			CHECK_EQ(hwheel_timer_delete(w, t[i]), 1);
		/* Driven again and again, it becomes exact; a poll may come at another tick. */
		for (unsigned i = 0; (next = drive_to(w, 0)) < begin + 30 * SEC; i++)
			CHECK(i < (manual ? 1 : 100) * MANY / SETTLED);
		CHECK_DUE(next, begin + 30 * SEC, MS);
		CHECK_EQ(ktap_next(w), next);
	}
}

/* In a wheel of each kind, driving again drops what was cancelled, until the time is exact. */
TEST(driving_again_makes_it_exact)
{
	for (uint32_t owned = 0; owned <= 1; owned++) {
		hwheel_timer_t t[1000];
		WHEEL w = MADE(.clock = HWHEEL_CLOCK_MANUAL, .owned = owned);
		uint64_t next, before = 0;

		drive_to(w, MS);
		for (size_t i = 0; i < COUNT(t); i++) {
			t[i] = ktap_timer(w);
			CHECK_EQ(hwheel_timer_mod(w, t[i], 10 * (i + 1) * MS, HWHEEL_ABS), 0);
		}
		CHECK_EQ(drive_to(w, MS), 10 * MS);
		for (size_t i = 0; i < COUNT(t) - 1; i++)
			CHECK_EQ(hwheel_timer_delete(w, t[i]), 1);
		for (unsigned calls = 1; (next = drive_to(w, MS)) < 10 * SEC; calls++) {
			CHECK(calls <= 16);
			CHECK(next > before);
			before = next;
		}
		CHECK_EQ(next, 10 * SEC);
	}
}

/* Also if one slot has more than a call looks at. */
TEST(driving_again_drops_a_crowd_that_was_cancelled)
{
	for (uint32_t owned = 0; owned <= 1; owned++) {
		WHEEL w = MADE(.clock = HWHEEL_CLOCK_MANUAL, .owned = owned);
		hwheel_timer_t t[200];

		for (size_t i = 0; i < COUNT(t); i++)
			CHECK_EQ(hwheel_once(w, (300 + i) * MS, NULL, 0, 0, &t[i]), 0);
		drive_to(w, 0);
		CHECK_EQ(hwheel_timer_delete(w, t[0]), 1);
		CHECK(drive_to(w, 0) <= 301 * MS);
		for (size_t i = 1; i < COUNT(t); i++)
			CHECK_EQ(hwheel_timer_delete(w, t[i]), 1);
		for (unsigned calls = 1; drive_to(w, 0) != HWHEEL_NEVER; calls++)
			CHECK(calls <= COUNT(t) / 64 + 1);
		CHECK_EQ(stats(w).entries, 0);
	}
}

/*
 * A loop that cancels what it arms, and then sleeps until the time that was announced, wakes early
 * once for each 64 of these timers at most.
 */
TEST(an_idle_loop_does_not_wake_for_what_was_cancelled)
{
	enum { MANY = 1000, SETTLED = 64 };

	for (uint32_t owned = 0; owned <= 1; owned++) {
		hwheel_timer_t t[MANY];
		WHEEL w = MADE(.clock = HWHEEL_CLOCK_MANUAL, .owned = owned);
		uint64_t now = 0, next = 0;
		unsigned early = 0;

		CHECK_EQ(hwheel_once(w, 100 * SEC, NULL, 0, HWHEEL_ABS, NULL), 0);
		for (unsigned i = 0; i < MANY; i++) {
			now += 3 * MS;
			CHECK_EQ(hwheel_once(w, 30 * SEC, NULL, 0, 0, &t[i]), 0);
			next = drive_to(w, now);
			CHECK(next > now && next <= 30 * SEC + 3 * MS);
		}
		for (unsigned i = 0; i < MANY; i++) {
			now += 3 * MS;
			CHECK_EQ(hwheel_timer_delete(w, t[i]), 1);
			next = drive_to(w, now);
		}
		while (next < 100 * SEC) {
			CHECK(next > now);
			now = next;
			next = drive_to(w, now);
			CHECK(++early <= MANY / SETTLED + 2);
		}
		CHECK_EQ(next, 100 * SEC);
	}
}

/* Near the end of time. */
TEST(a_time_that_never_comes_is_not_announced)
{
	static const uint64_t ticks[] = { 1000, MS, 3600 * SEC };

	for (unsigned i = 0; i < COUNT(ticks); i++) {
		const uint64_t last = (UINT64_C(1) << 63) - 1;
		WHEEL w = ktap_manual(ticks[i], 0, 0, last - ticks[i]);
		uint64_t next;

		CHECK_EQ(hwheel_once(w, last, NULL, 0, HWHEEL_ABS, NULL), 0);
		next = drive_to(w, 0);
		CHECK(next <= last || next == HWHEEL_NEVER);
		CHECK_EQ(drive_to(w, last), HWHEEL_NEVER);
		CHECK_EQ(ktap_next(w), HWHEEL_NEVER);
	}
}

/* hwheel_next_expiry() concurrently with a driver: it disturbs none. */

static atomic_int over, asked;

static void *ask_on(void *w)
{
	uint64_t at;

	while (!atomic_load(&over)) {
		CHECK(hwheel_next_expiry(w, &at) >= 0);
		atomic_fetch_add(&asked, 1);
	}
	return NULL;
}

static void begin(pthread_t *thread, struct hwheel *w)
{
	over = asked = 0;
	ktap_begin(thread, 1, ask_on, w);
	ktap_until(&asked, 1);
}

static void end(pthread_t thread)
{
	atomic_store(&over, 1);
	pthread_join(thread, NULL);
}

enum { TIMERS = 50000 };

WHEEL_TEST(advance_is_not_disturbed, ktap_manual(MS, 0, 0, 0))
{
	struct hwheel_event events[64];
	pthread_t thread;
	long refused = 0, fired = 0, kept = 0;

	for (int i = 0; i < TIMERS; i++) {
		hwheel_timer_t t;

		CHECK_EQ(hwheel_once(w, MS * (uint64_t)(i + 1), NULL, 0, HWHEEL_ABS, &t), 0);
		if (i % 3)
			CHECK_EQ(hwheel_timer_delete(w, t), 1);
		else
			kept++;
	}
	begin(&thread, w);
	for (uint64_t tick = 1; tick <= TIMERS; tick++) {
		int n = hwheel_advance(w, tick * MS, events, 64, NULL);

		refused += n == -EBUSY;
		fired += n > 0 ? n : 0;
	}
	end(thread);
	CHECK_EQ(refused, 0);
	CHECK_EQ(fired, kept);
}

/* A poll that is refused would never see another edge. */
CLOCK_TEST(an_edge_is_not_lost)
{
	struct epoll_event edge;
	struct hwheel_event events[64];
	pthread_t thread;
	int loop = epoll_on(w, EPOLLIN | EPOLLET);

	begin(&thread, w);
	for (int i = 0; i < 200; i++) {
		int fired = 0;

		CHECK_EQ(hwheel_once(w, MS, NULL, 0, 0, NULL), 0);
		while (!fired) {
			CHECK_EQ(epoll_wait(loop, &edge, 1, 5000), 1);
			fired = hwheel_poll(w, events, 64, NULL);
			CHECK(fired >= 0);
		}
	}
	end(thread);
	close(loop);
}

/* Two threads that ask all the time neither stop the tick thread nor starve it. */
THREAD_TEST(asking_does_not_disturb_the_tick_thread)
{
	pthread_t threads[2];

	CHECK_EQ(hwheel_every(w, MS, MS, 0, ktap_nothing, 0, 0, NULL), 0);
	for (int i = 0; i < 2; i++)
		begin(&threads[i], w);
	ktap_wait(stats(w).fired >= 500);
	for (int i = 0; i < 2; i++)
		end(threads[i]);
}

/* Never later than what is armed, also in the middle of a sweep: where that is, not where it goes. */
static void compare(struct hwheel *w, const struct hwheel_event *e)
{
	CHECK(ktap_next(w) <= (e->deadline_ns < SEC ? e->deadline_ns + MS : 2 * SEC));
}

WHEEL_TEST(in_a_sweep_it_is_not_too_late, ktap_manual(MS, 0, 0, 0))
{
	CHECK_EQ(hwheel_once(w, 2 * SEC, NULL, 0, HWHEEL_ABS, NULL), 0);
	for (int i = 1; i <= 1000; i++)
		CHECK_EQ(hwheel_once(w, (uint64_t)i * MS, compare, 0, HWHEEL_ABS, NULL), 0);
	CHECK_EQ(hwheel_advance(w, SEC, NULL, 0, NULL), 0);
	CHECK_EQ(stats(w).fired, 1000);
}

/* As many were due as the array has room for. */
WHEEL_TEST(after_a_full_batch_it_names_what_is_left, ktap_manual(MS, 0, 0, 0))
{
	struct hwheel_event events[4];

	arm_some(w, 4, 10 * MS, NULL);
	CHECK_EQ(hwheel_advance(w, 20 * MS, events, 4, NULL), 4);
	/* the call has stopped at a bound, so the next one looks whether more is due */
	CHECK(ktap_next(w) <= 20 * MS);
	CHECK_EQ(hwheel_advance(w, 20 * MS, events, 4, NULL), 0);
	CHECK_EQ(ktap_next(w), HWHEEL_NEVER);
	CHECK_EQ(hwheel_once(w, SEC, NULL, 0, HWHEEL_ABS, NULL), 0);
	CHECK_EQ(ktap_next(w), SEC);
	CHECK_EQ(hwheel_advance(w, 20 * MS, events, 4, NULL), 0);
}

/* Where the tick thread sleeps it is as exact as without one. */
THREAD_TEST(beside_the_tick_thread_it_is_exact)
{
	uint64_t now, next;
	hwheel_timer_t t;

	CHECK_EQ(hwheel_once(w, 1000 * SEC, NULL, 0, 0, &t), 0);
	now = ktap_now(w);
	ktap_sleep_ms(50);
	next = ktap_next(w);
	CHECK(next > now + 990 * SEC && next <= now + 1000 * SEC + 2 * MS);
	/* it may name the time of a cancelled timer until the thread wakes */
	CHECK_EQ(hwheel_timer_delete(w, t), 1);
	CHECK_EQ(hwheel_once(w, MS, NULL, 0, 0, NULL), 0);
	ktap_wait(ktap_next(w) == HWHEEL_NEVER);
}
