/*
 * Messages: timers that other threads send to the owner of a wheel. In each state of the owner
 * a message fires once, never early, and wakes an owner that sleeps too long. The clocks are the
 * test's own.
 */
#include <poll.h>
#include "events.h"
#include "test_clock.h"

enum { SENDERS = 2, MOST = 20000 };

static struct hwheel *wheel;
static _Atomic uint64_t driven;
/* What was sent: how often it has ended, and the time for which it was sent. */
static atomic_uint ended[MOST];
static uint64_t due[MOST];
static atomic_uint early, fired, woken;

static void fire(struct hwheel *w, const struct hwheel_event *e)
{
	ended[e->cookie]++;
	fired++;
	if (due[e->cookie] > driven || e->deadline_ns < due[e->cookie])
		early++;
}

static void wake(struct hwheel *w, void *arg)
{
	woken++;
}

static void make(struct hwheel_options o)
{
	for (unsigned i = 0; i < MOST; i++)
		ended[i] = 0;
	early = fired = woken = 0;
	driven = o.clock == HWHEEL_CLOCK_MANUAL ? o.start_ns : SEC;
	clock_of[CLOCK_MONOTONIC] = SEC;
	o.size = sizeof o;
	o.owned = 1;
	wheel = ktap_made(&o);
}

static void end_of_test(void)
{
	CHECK_EQ(early, 0);
	CHECK_EQ(hwheel_destroy(wheel), 0);
	clock_of[CLOCK_MONOTONIC] = 0;
}

/* A test with the wheel that these options make. */
#define MESSAGE_TEST(name, ...) \
	static void name##_to_it(void); \
	TEST(name) \
	{ \
		make((struct hwheel_options){ __VA_ARGS__ }); \
		name##_to_it(); \
		end_of_test(); \
	} \
	static void name##_to_it(void)

/* A manual clock, which shows a second. */
#define MANUAL .clock = HWHEEL_CLOCK_MANUAL, .start_ns = SEC

/* One message for the time @due[cookie]. */
static int result;

static void *send_one(void *cookie)
{
	const uint64_t n = (uintptr_t)cookie;

	result = hwheel_once(wheel, due[n], fire, n, HWHEEL_ABS, NULL);
	return NULL;
}

static void send(unsigned cookie, uint64_t at)
{
	due[cookie] = at;
	ktap_in_a_thread(send_one, (void *)(uintptr_t)cookie);
	CHECK_EQ(result, 0);
}

static uint64_t drive(uint64_t now)
{
	driven = now;
	if (clock_of[CLOCK_MONOTONIC] < now)
		set_clock(CLOCK_MONOTONIC, now);
	return drive_to(wheel, now);
}

MESSAGE_TEST(to_a_wheel_that_nobody_owns, MANUAL)
{
	CHECK_EQ(drive(SEC + MS), HWHEEL_NEVER);
	/* Before it is given up, too. */
	send(1, SEC + 2 * MS);
	CHECK_EQ(hwheel_disown(wheel), 0);
	CHECK_EQ(hwheel_own(wheel), 0);
	CHECK_EQ(drive(SEC + MS), SEC + 2 * MS);
	CHECK_EQ(drive(SEC + 2 * MS), HWHEEL_NEVER);
	CHECK_EQ(ended[1], 1);
	send(4, SEC + 3 * MS);
	CHECK_EQ(hwheel_disown(wheel), 0);
	send(2, SEC + 5 * MS);
	send(3, 0);
	CHECK_EQ(hwheel_own(wheel), 0);
	/* What was due meanwhile fires in the first drive. */
	CHECK_EQ(drive(SEC + 3 * MS), SEC + 5 * MS);
	CHECK_EQ(fired, 3);
	CHECK_EQ(drive(SEC + 5 * MS), HWHEEL_NEVER);
	for (int i = 1; i <= 4; i++)
		CHECK_EQ(ended[i], 1);
}

/* In the order of the deadlines, whatever the order of sending. */
static uint64_t last;

static void fire_in_order(struct hwheel *w, const struct hwheel_event *e)
{
	CHECK(e->deadline_ns >= last);
	last = e->deadline_ns;
	fired++;
}

static void *send_some(void *arg)
{
	for (uint64_t i = 0; i < 500; i++)
		CHECK_EQ(hwheel_once(wheel, SEC + (i * 7919 + (uintptr_t)arg) % 300 * MS,
				      fire_in_order, i, HWHEEL_ABS, NULL), 0);
	return NULL;
}

MESSAGE_TEST(in_the_order_of_their_times, MANUAL)
{
	last = 0;
	ktap_in_a_thread(send_some, (void *)1);
	ktap_in_a_thread(send_some, (void *)150);
	for (uint64_t i = 0; i < 100; i++)
		CHECK_EQ(hwheel_once(wheel, i * 3 * MS, fire_in_order, 0, 0, NULL), 0);
	drive(SEC + 100 * MS);
	CHECK(fired > 300);
	drive(SEC + 300 * MS);
	CHECK_EQ(fired, 1100);
}

static int is_readable(int fd)
{
	struct pollfd p = { .fd = fd, .events = POLLIN };

	return poll(&p, 1, 0);
}

/* The descriptor of an owner that sleeps. */
MESSAGE_TEST(to_an_owner_that_sleeps_on_its_descriptor, .clock = HWHEEL_CLOCK_MONOTONIC)
{
	int fd = hwheel_fd(wheel);

	CHECK(fd >= 0);
	CHECK_EQ(hwheel_once(wheel, SEC + 100 * MS, fire, 0, HWHEEL_ABS, NULL), 0);
	CHECK_EQ(drive(SEC + MS), SEC + 100 * MS);
	CHECK_EQ(is_readable(fd), 0);
	/* Later than the alarm: nobody is woken. */
	send(1, SEC + 200 * MS);
	CHECK_EQ(is_readable(fd), 0);
	/* Earlier: the descriptor is readable in time. */
	send(2, SEC + 50 * MS);
	set_clock(CLOCK_MONOTONIC, SEC + 50 * MS);
	CHECK_EQ(is_readable(fd), 1);
	CHECK_EQ(drive(SEC + 50 * MS), SEC + 100 * MS);
	CHECK_EQ(ended[2], 1);
	CHECK_EQ(is_readable(fd), 0);
	/* At once, and from two senders. */
	send(3, 0);
	CHECK_EQ(is_readable(fd), 1);
	send(4, 0);
	drive(SEC + 51 * MS);
	CHECK_EQ(ended[3] + ended[4], 2);
	/* While nobody owns the wheel, the descriptor says it to the next owner. */
	CHECK_EQ(hwheel_disown(wheel), 0);
	send(5, 0);
	CHECK_EQ(hwheel_own(wheel), 0);
	CHECK_EQ(is_readable(fd), 1);
	drive(SEC + 300 * MS);
	for (int i = 1; i <= 5; i++)
		CHECK_EQ(ended[i], 1);
}

/* The owner's own arms outside of a call that drives: the descriptor is not late. */
MESSAGE_TEST(an_earlier_arm_of_the_owner_sets_its_descriptor, .clock = HWHEEL_CLOCK_MONOTONIC)
{
	hwheel_timer_t t = ktap_timer_of(wheel, fire, 1), u = ktap_timer_of(wheel, fire, 2);
	int fd = hwheel_fd(wheel);

	for (int i = 0; i < 6; i++) {
		const uint64_t now = (uint64_t)(i + 1) * 10 * SEC, delay = 30 * MS;
		int got;

		due[1] = now + delay;
		due[2] = now + 40 * MS;
		drive(now);
		CHECK_EQ(is_readable(fd), 0);
		CHECK(alarm_seen(fd).at == 0 || alarm_seen(fd).at > now);
		/* The short way, the long one, by a key, a new timer. */
		got = i == 0 ? hwheel_timer_mod(wheel, t, delay, 0) :
		      i == 1 ? hwheel_timer_mod(wheel, t, delay, HWHEEL_REDUCE) :
		      i == 2 ? hwheel_timer_mod_range(wheel, t, delay, MS / 2, 0) :
		      i == 3 ? hwheel_once(wheel, delay, fire, 1, 0, NULL) :
		      i == 4 ? hwheel_key_set(wheel, "k", 1, delay, fire, 1, 0) :
			       hwheel_timer_mod_many(wheel, &t, &delay, 1, 0, NULL);
		CHECK_EQ(got, i == 5);
		/* One that is later changes nothing. */
		CHECK_EQ(hwheel_timer_mod(wheel, u, 40 * MS, 0), 0);
		set_clock(CLOCK_MONOTONIC, due[1]);
		CHECK_EQ(is_readable(fd), 1);
		drive(due[1]);
		CHECK_EQ(fired, 2 * i + 1);
		CHECK_EQ(is_readable(fd), 0);
		set_clock(CLOCK_MONOTONIC, due[2]);
		CHECK_EQ(is_readable(fd), 1);
		drive(due[2]);
		CHECK_EQ(fired, 2 * i + 2);
	}
}

MESSAGE_TEST(to_an_owner_that_its_function_wakes, MANUAL, .wake = wake)
{
	hwheel_timer_t t = ktap_timer_of(wheel, fire, 0);

	CHECK_EQ(drive(SEC + MS), HWHEEL_NEVER);
	/* Not for the owner's own arms. */
	CHECK_EQ(hwheel_timer_mod(wheel, t, 100 * MS, 0), 0);
	CHECK_EQ(hwheel_key_set(wheel, "k", 1, 90 * MS, fire, 0, 0), 0);
	CHECK_EQ(woken, 0);
	CHECK_EQ(drive(SEC + MS), SEC + 91 * MS);
	send(1, SEC + 95 * MS);
	CHECK_EQ(woken, 0);
	send(2, SEC + 50 * MS);
	CHECK_EQ(woken, 1);
	/* Once, until the next drive. */
	send(3, SEC + 40 * MS);
	CHECK_EQ(woken, 1);
	CHECK_EQ(drive(SEC + 2 * MS), SEC + 40 * MS);
	send(4, SEC + 30 * MS);
	CHECK_EQ(woken, 2);
	CHECK_EQ(hwheel_disown(wheel), 0);
	CHECK_EQ(hwheel_own(wheel), 0);
	CHECK_EQ(drive(SEC + 200 * MS), HWHEEL_NEVER);
	CHECK_EQ(fired, 6);
}

/* The function that wakes may send a message itself, and is not called for that one. */
static void wake_and_send(struct hwheel *w, void *arg)
{
	hwheel_timer_t t = 77;

	woken++;
	due[9] = SEC + 10 * MS;
	CHECK_EQ(hwheel_once(w, due[9], fire, 9, HWHEEL_ABS, NULL), 0);
	CHECK_EQ(hwheel_timer_setup(w, fire, 0, &t), -EPERM);
	CHECK_EQ(t, 77);
	CHECK_EQ(hwheel_own(w), -EBUSY);
	CHECK_EQ(hwheel_disown(w), -EPERM);
	CHECK_EQ(hwheel_destroy(w), -EPERM);
}

MESSAGE_TEST(from_the_function_that_wakes, MANUAL, .wake = wake_and_send)
{
	CHECK_EQ(drive(SEC + MS), HWHEEL_NEVER);
	send(1, SEC + 50 * MS);
	/* Once more at most: the second message is earlier. */
	CHECK_EQ(woken, 1);
	CHECK_EQ(drive(SEC + 2 * MS), SEC + 10 * MS);
	CHECK_EQ(drive(SEC + 50 * MS), HWHEEL_NEVER);
	CHECK_EQ(ended[1], 1);
	CHECK_EQ(ended[9], 1);
}

/* The function that wakes takes a wheel that nobody owns, in the middle of the message. */
static void wake_and_own(struct hwheel *w, void *arg)
{
	woken++;
	CHECK_EQ(hwheel_own(w), 0);
	CHECK_EQ(hwheel_once(w, SEC + 10 * MS, fire, 9, HWHEEL_ABS, NULL), 0);
	CHECK_EQ(hwheel_advance(w, SEC + 20 * MS, NULL, 0, NULL), -EBUSY);
}

static void *send_and_drive(void *unused)
{
	due[1] = SEC + 5 * MS;
	CHECK_EQ(hwheel_once(wheel, due[1], fire, 1, HWHEEL_ABS, NULL), 0);
	driven = SEC + 20 * MS;
	CHECK_EQ(hwheel_advance(wheel, driven, NULL, 0, NULL), 0);
	CHECK_EQ(hwheel_disown(wheel), 0);
	return NULL;
}

MESSAGE_TEST(from_a_sender_that_becomes_the_owner, MANUAL, .wake = wake_and_own)
{
	due[9] = SEC + 10 * MS;
	CHECK_EQ(drive(SEC + MS), HWHEEL_NEVER);
	CHECK_EQ(hwheel_disown(wheel), 0);
	ktap_in_a_thread(send_and_drive, NULL);
	CHECK_EQ(woken, 1);
	CHECK_EQ(ended[1], 1);
	CHECK_EQ(ended[9], 1);
	CHECK_EQ(hwheel_own(wheel), 0);
}

/* From a callback of another wheel, which another thread owns. */
static void pass_on(struct hwheel *w, const struct hwheel_event *e)
{
	CHECK_EQ(hwheel_once(wheel, 0, fire, e->cookie, 0, NULL), 0);
}

static void *run_another(void *unused)
{
	WHEEL another = MADE(.clock = HWHEEL_CLOCK_MANUAL, .owned = 1);

	for (uint64_t i = 0; i < 100; i++)
		CHECK_EQ(hwheel_once(another, i * MS, pass_on, i, 0, NULL), 0);
	for (uint64_t i = 0; i < 101; i++)
		CHECK_EQ(hwheel_advance(another, i * MS, NULL, 0, NULL), 0);
	return NULL;
}

MESSAGE_TEST(from_a_callback_of_another_wheel, MANUAL)
{
	memset(due, 0, sizeof due);
	ktap_in_a_thread(run_another, NULL);
	drive(SEC);
	/* A time that has passed is the next tick. */
	CHECK_EQ(fired, 0);
	drive(SEC + MS);
	for (int i = 0; i < 100; i++)
		CHECK_EQ(ended[i], 1);
}

/* Far deadlines: never early, and late by one part in a hundred million at most. */
MESSAGE_TEST(to_times_that_are_far_away, .clock = HWHEEL_CLOCK_MANUAL, .tick_ns = HWHEEL_USEC)
{
	const uint64_t tick = HWHEEL_USEC;
	unsigned n = 0;

	for (unsigned bits = 30; bits < 50; bits++)
		send(n++, tick << bits);
	for (unsigned i = 0; i < n; i++) {
		const uint64_t late = i + 30 < 36 ? 0 : due[i] / 100000000;

		CHECK_EQ(fired, i);
		drive(due[i] - 1);
		CHECK_EQ(fired, i);
		drive(due[i] + late + tick);
		CHECK_EQ(fired, i + 1);
	}
	send(n, HWHEEL_NEVER - 0);
	drive((UINT64_C(1) << 63) - 1);
	CHECK_EQ(fired, n);
}

MESSAGE_TEST(beyond_the_limit_on_timers, .clock = HWHEEL_CLOCK_MANUAL, .max_timers = 3)
{
	for (uint64_t turn = 1; turn < 50; turn++) {
		for (unsigned i = 0; i < 3; i++)
			send(i, turn * MS);
		ktap_in_a_thread(send_one, (void *)(uintptr_t)3);
		CHECK_EQ(result, -ENOSPC);
		CHECK_EQ(hwheel_once(wheel, 0, fire, 3, 0, NULL), -ENOSPC);
		drive(turn * MS);
		CHECK_EQ(fired, turn * 3);
	}
	CHECK_EQ(stats(wheel).live, 0);
}

/*
 * The owner finds a message in a list, cancels it, and uses its memory, and so on, while nobody
 * drives. Memory follows the number of timers.
 */
MESSAGE_TEST(whose_memory_changes_hands_leave_few_notes,
	     .clock = HWHEEL_CLOCK_MANUAL, .max_timers = 1)
{
	for (unsigned turn = 0; turn < 2000; turn++) {
		struct hwheel_event e[2];
		uint64_t cursor = 0;
		hwheel_timer_t t;

		send(0, SEC);
		CHECK_EQ(hwheel_list(wheel, &cursor, e, 2), 1);
		CHECK_EQ(hwheel_timer_delete(wheel, e[0].timer), 1);
		t = ktap_armed(wheel, fire, 1, MS);
		CHECK_EQ(hwheel_timer_mod(wheel, t, 2 * MS, 0), 1);
		CHECK_EQ(hwheel_timer_free(wheel, t), 1);
	}
	CHECK(stats(wheel).note_bytes <= 4 * 256);
	/* The memory has a note of the sender, and an entry of the owner. */
	send(0, 2 * SEC);
	CHECK_EQ(drive(SEC), 2 * SEC);
	CHECK_EQ(fired, 0);
	CHECK_EQ(drive(2 * SEC), HWHEEL_NEVER);
	CHECK_EQ(ended[0], 1);
}

/*
 * Senders that send until they are refused, an owner that drives, gives the wheel up, takes it
 * again, and drains at last: each message fires once, is handed back once, or was refused.
 */
static _Atomic uint64_t next_cookie;
static atomic_uint refused[MOST];

static void *send_until_refused(void *seed_at)
{
	uint64_t seed = *(uint64_t *)seed_at;

	for (;;) {
		const uint64_t n = atomic_fetch_add(&next_cookie, 1);
		int got;

		if (n >= MOST)
			return NULL;
		due[n] = driven + ktap_dice(&seed) % (20 * MS);
		got = hwheel_once(wheel, due[n], fire, n, HWHEEL_ABS, NULL);
		if (got == 0)
			continue;
		refused[n]++;
		CHECK_EQ(got, -ESHUTDOWN);
		return NULL;
	}
}

TEST(while_the_owner_drives_and_drains)
{
	const int rounds = KTAP_SLOW ? 20 : 100;
	uint64_t seeds[SENDERS], sum = 0, handed_sum = 0;

	for (int round = 0; round < rounds; round++) {
		pthread_t senders[SENDERS];
		struct hwheel_event e[32];
		int drives = round % 20, got;

		make((struct hwheel_options){ MANUAL, .wake = round % 3 ? NULL : wake });
		next_cookie = 0;
		for (unsigned i = 0; i < MOST; i++)
			refused[i] = 0;
		for (int i = 0; i < SENDERS; i++) {
			seeds[i] = (uint64_t)round * SENDERS + (uint64_t)i + 1;
			CHECK_EQ(pthread_create(&senders[i], NULL, send_until_refused, &seeds[i]),
				 0);
		}
		for (int i = 0; i < drives; i++) {
			struct hwheel_run run = { .size = sizeof run, .max_fired = (uint64_t)i % 4 };

			driven += MS;
			CHECK_EQ(hwheel_advance(wheel, driven, NULL, 0, &run), 0);
			if (i % 4 == 3) {
				CHECK_EQ(hwheel_disown(wheel), 0);
				sched_yield();
				CHECK_EQ(hwheel_own(wheel), 0);
			}
		}
		do {
			got = hwheel_drain(wheel, e, COUNT(e));
			CHECK(got >= 0);
			for (int i = 0; i < got; i++) {
				CHECK_EQ(e[i].flags, HWHEEL_EVENT_DRAINED);
				ended[e[i].cookie]++;
			}
			handed_sum += (uint64_t)got;
		} while (got == COUNT(e));
		ktap_end(senders, SENDERS);
		/* A drain that comes after the last sender finds nothing. */
		CHECK_EQ(hwheel_drain(wheel, e, COUNT(e)), 0);
		CHECK_EQ(early, 0);
		for (uint64_t n = 0; n < next_cookie && n < MOST; n++) {
			if (ended[n] + refused[n] != 1)
				printf("# message %" PRIu64 ": ended %u times, refused %u\n", n,
				       ended[n], refused[n]);
			CHECK_EQ(ended[n] + refused[n], 1);
		}
		sum += fired;
		CHECK_EQ(stats(wheel).live, 0);
		CHECK_EQ(hwheel_destroy(wheel), 0);
	}
	printf("# figures: %" PRIu64 " messages fired, %" PRIu64 " handed back\n", sum, handed_sum);
	clock_of[CLOCK_MONOTONIC] = 0;
}

/* Pending messages do not fire in the end. */
TEST(what_is_pending_at_the_end_does_not_fire)
{
	make((struct hwheel_options){ MANUAL, .wake = wake });
	CHECK_EQ(drive(SEC), HWHEEL_NEVER);
	for (unsigned i = 0; i < 100; i++)
		send(i, 0);
	end_of_test();
	CHECK_EQ(fired, 0);
}
