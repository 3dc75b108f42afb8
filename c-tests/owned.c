/*
 * A wheel that one thread owns: who may call what, and how it changes hands. Each function is
 * called by the owner, by another thread, by anybody while nobody owns the wheel, and by a
 * forked child, with good arguments and with bad ones.
 */
#include "calls.h"
#include "child.h"

static struct hwheel *wheel;
static atomic_int fired;

static void on_call(struct hwheel *w, const struct hwheel_event *e)
{
	fired++;
}

static struct hwheel *make(uint32_t clock)
{
	fired = 0;
	return MADE(.clock = clock, .owned = 1);
}

/* Runs a function without arguments in another thread, and waits for its end. */
static void *call(void *body)
{
	void (**run)(void) = body;

	(*run)();
	return NULL;
}

static void in_a_thread(void (*run)(void))
{
	ktap_in_a_thread(call, &run);
}

/* Those that any thread may call. These and the others are all functions of the library. */
static const char *const anybodys[] = {
	"once without a handle", "disown", "own", "timer_pending", "timer_remaining",
	"timer_prefetch", "next_expiry", "now", "list", "get_stats", "strerror", "version",
	"version_string", "create",
};

/* hwheel_once() is in both lists, hwheel_destroy() in none. */
enum { FUNCTIONS = COUNT(owners_only) + COUNT(anybodys) - 1 + 1 };

/* What every call returns to a thread that does not own the wheel, or to a child. */
static int to_others;

static void call_everything(void)
{
	ALL_RETURN(wheel, owners_only, to_others);
	/* A wrong size of the bounds is looked at later, too. */
	bounds.size = 1;
	CHECK_EQ(hwheel_advance(wheel, SEC, NULL, 0, &bounds), to_others);
	CHECK_EQ(hwheel_poll(wheel, NULL, 0, &bounds), to_others);
	bounds.size = 5000;
	CHECK_EQ(hwheel_advance(wheel, SEC, NULL, 0, &bounds), to_others);
	CHECK_EQ(hwheel_destroy(wheel), to_others == -ESHUTDOWN ? 0 : to_others);
}

static void read_everything(void)
{
	uint64_t ns = JUNK, cursor = 0;

	CHECK_EQ(hwheel_timer_pending(wheel, timer), 1);
	CHECK_EQ(hwheel_timer_pending(wheel, 1), -ESTALE);
	CHECK_EQ(hwheel_timer_remaining(wheel, timer, &ns), 1);
	CHECK_EQ(ns, 50 * MS);
	CHECK_EQ(hwheel_timer_remaining(wheel, timer, NULL), -EINVAL);
	hwheel_timer_prefetch(wheel, timer);
	CHECK_EQ(hwheel_next_expiry(wheel, &ns), 1);
	CHECK_EQ(ns <= 50 * MS, 1);
	CHECK_EQ(hwheel_now(wheel, &ns), 0);
	CHECK_EQ(ns, 0);
	CHECK_EQ(hwheel_list(wheel, &cursor, events, 2), 2);
	CHECK_EQ(stats(wheel).live, 2);
	CHECK_EQ(stats(wheel).pending, 2);
}

/* A wheel with a timer, and a timer with a key. */
static void make_busy(void)
{
	wheel = make(HWHEEL_CLOCK_MANUAL);
	timer = ktap_armed(wheel, on_call, 0, 50 * MS);
	CHECK_EQ(hwheel_key_set(wheel, "key", 3, 60 * MS, on_call, 0, 0), 0);
}

static struct hwheel *empty(void)
{
	return wheel = make(HWHEEL_CLOCK_MANUAL);
}

static struct hwheel *busy(void)
{
	make_busy();
	return wheel;
}

static void check_unchanged(const struct hwheel_stats *before)
{
	struct hwheel_stats after = stats(wheel);

	CHECK_EQ(memcmp(&after, before, sizeof after), 0);
	CHECK_EQ(ktap_now(wheel), 0);
	CHECK_EQ(fired, 0);
}

TEST_OF(all_functions_are_in_the_lists, CHECK_EQ(FUNCTIONS, 38))

WHEEL_TEST(the_owner_may_call_everything, busy())
{
	fill_with_junk();
	for (size_t i = 0; i < COUNT(owners_only); i++) {
		const struct function *f = &owners_only[i];

		for (int n = 0, got; (got = f->call(wheel, n)) != NO_MORE; n++) {
			if (f->to_owner[n] == ANY_COUNT ? got < 0 : got != f->to_owner[n])
				differs(f, n, got, f->to_owner[n]);
		}
	}
}

WHEEL_TEST(another_thread_is_refused_before_anything_else, busy())
{
	const struct hwheel_stats before = stats(w);

	to_others = -EPERM;
	in_a_thread(call_everything);
	check_unchanged(&before);
	in_a_thread(read_everything);
}

/* So is a thread that has owned it, and one that has used no timer at all. */
WHEEL_TEST(while_nobody_owns_it_everybody_is_refused, busy())
{
	const struct hwheel_stats before = stats(w);

	CHECK_EQ(hwheel_disown(wheel), 0);
	to_others = -EPERM;
	call_everything();
	in_a_thread(call_everything);
	read_everything();
	in_a_thread(read_everything);
	check_unchanged(&before);
	CHECK_EQ(hwheel_own(wheel), 0);
}

static void child_of_a_wheel(void)
{
	struct hwheel *own;

	CHECK_EQ(hwheel_once(wheel, 0, on_call, 0, 0, NULL), -ESHUTDOWN);
	ALL_RETURN(wheel, readers, -ESHUTDOWN);
	to_others = -ESHUTDOWN;
	/* The last call destroys the copy. */
	call_everything();
	/* The child makes a wheel, and owns it. */
	own = make(HWHEEL_CLOCK_MANUAL);
	CHECK_EQ(hwheel_once(own, MS, on_call, 0, 0, NULL), 0);
	CHECK_AT(own, MS, fired, 1);
	CHECK_EQ(hwheel_disown(own), 0);
	CHECK_EQ(hwheel_own(own), 0);
	CHECK_EQ(hwheel_destroy(own), 0);
}

TEST(a_child_is_refused_whoever_owns_it)
{
	if (KTAP_EMULATED)
		SKIP("an emulator may ignore MADV_WIPEONFORK");
	make_busy();
	in_a_child(child_of_a_wheel);
	CHECK_EQ(hwheel_disown(wheel), 0);
	in_a_child(child_of_a_wheel);
	CHECK_EQ(hwheel_own(wheel), 0);
	CHECK_AT(wheel, 60 * MS, fired, 2);
	CHECK_EQ(hwheel_destroy(wheel), 0);
}

MANUAL_TEST(a_shared_wheel_has_no_owner)
{
	CHECK_EQ(hwheel_disown(w), -EINVAL);
	CHECK_EQ(hwheel_own(w), -EINVAL);
	CHECK_EQ(hwheel_disown(NULL), -EINVAL);
	CHECK_EQ(hwheel_own(NULL), -EINVAL);
}

TEST(an_owned_wheel_has_no_other_threads)
{
	struct hwheel_options o = { .size = sizeof o, .owned = 1, .workers = 1 };

	wheel = NULL;
	CHECK_EQ(hwheel_create(&o, &wheel), -EINVAL);
	o.workers = 0;
	o.executor = ktap_no_executor;
	CHECK_EQ(hwheel_create(&o, &wheel), -EINVAL);
	o.executor = NULL;
	for (o.owned = 2; o.owned != 0; o.owned <<= 1)
		CHECK_EQ(hwheel_create(&o, &wheel), -EINVAL);
	CHECK(wheel == NULL);
	wheel = make(HWHEEL_CLOCK_MONOTONIC);
	CHECK_EQ(hwheel_start(wheel), -EINVAL);
	CHECK(hwheel_fd(wheel) >= 0);
	CHECK_EQ(hwheel_start(wheel), -EINVAL);
	CHECK_EQ(hwheel_run_queued(wheel), -EINVAL);
	CHECK_EQ(hwheel_stop(wheel), 0);
	CHECK_EQ(hwheel_destroy(wheel), 0);
}

/* How it changes hands. */

static void disown_and_own_of_another(void)
{
	CHECK_EQ(hwheel_disown(wheel), -EPERM);
	CHECK_EQ(hwheel_own(wheel), -EBUSY);
}

static void disown_and_own_by_another(void)
{
	CHECK_EQ(hwheel_disown(wheel), -EPERM);
	CHECK_EQ(hwheel_own(wheel), 0);
	CHECK_EQ(hwheel_own(wheel), 0);
	CHECK_EQ(hwheel_timer_mod(wheel, timer, 20 * MS, HWHEEL_ABS), 1);
	CHECK_EQ(hwheel_advance(wheel, 10 * MS, NULL, 0, NULL), 0);
	CHECK_EQ(hwheel_disown(wheel), 0);
	CHECK_EQ(hwheel_disown(wheel), -EPERM);
}

WHEEL_TEST(it_is_given_up_once_and_taken_by_one, busy())
{
	CHECK_EQ(hwheel_own(wheel), 0);
	in_a_thread(disown_and_own_of_another);
	CHECK_EQ(hwheel_disown(wheel), 0);
	CHECK_EQ(hwheel_disown(wheel), -EPERM);
	in_a_thread(disown_and_own_by_another);
	CHECK_EQ(hwheel_timer_mod(wheel, timer, MS, 0), -EPERM);
	CHECK_EQ(hwheel_own(wheel), 0);
	CHECK_EQ(ktap_now(wheel), 10 * MS);
	CHECK_AT(wheel, 19 * MS, fired, 0);
	CHECK_AT(wheel, 20 * MS, fired, 1);
}

static struct hwheel *another;

static void change_hands_inside(struct hwheel *w, const struct hwheel_event *e)
{
	fired++;
	CHECK_EQ(hwheel_disown(w), -EDEADLK);
	CHECK_EQ(hwheel_own(w), 0);
	in_a_thread(disown_and_own_of_another);
	CHECK_EQ(hwheel_destroy(w), -EDEADLK);
	CHECK_EQ(hwheel_advance(w, SEC, NULL, 0, NULL), -EBUSY);
	/* Another wheel may change hands here. */
	CHECK_EQ(hwheel_disown(another), 0);
	CHECK_EQ(hwheel_own(another), 0);
}

WHEEL_TEST(it_does_not_change_hands_in_a_callback, empty())
{
	another = make(HWHEEL_CLOCK_MANUAL);
	CHECK_EQ(hwheel_once(wheel, MS, change_hands_inside, 0, 0, NULL), 0);
	CHECK_EQ(hwheel_key_set(wheel, "k", 1, MS, change_hands_inside, 0, 0), 0);
	CHECK_EQ(hwheel_every(wheel, MS, MS, 0, change_hands_inside, 0, 0, NULL), 0);
	CHECK_AT(wheel, MS, fired, 3);
	CHECK_EQ(hwheel_disown(wheel), 0);
	CHECK_EQ(hwheel_own(wheel), 0);
	CHECK_EQ(hwheel_destroy(another), 0);
}

/* A call that stopped at a bound leaves the rest to the next owner. */

enum { PARTS = 41 };

static uint64_t seen[PARTS];

static void note_cookie(struct hwheel *w, const struct hwheel_event *e)
{
	seen[e->cookie]++;
	fired++;
}

static void fire_one(void)
{
	struct hwheel_run run = { .size = sizeof run, .max_fired = 1 };
	int before = fired;

	CHECK_EQ(hwheel_own(wheel), 0);
	CHECK_EQ(hwheel_advance(wheel, 2 * SEC, NULL, 0, &run), 0);
	CHECK_EQ(fired, before + 1);
	/* A call that stops at a bound does not know whether it has fired the last one. */
	CHECK_EQ(run.left, 1);
	CHECK_EQ(hwheel_disown(wheel), 0);
}

static void drain_one(void)
{
	struct hwheel_event e = { .cookie = JUNK };
	int got;

	CHECK_EQ(hwheel_own(wheel), 0);
	got = hwheel_drain(wheel, &e, 1);
	CHECK(got == 0 || got == 1);
	if (got == 1) {
		CHECK_EQ(e.flags & HWHEEL_EVENT_DRAINED, HWHEEL_EVENT_DRAINED);
		seen[e.cookie]++;
	}
	fired += got;
	CHECK_EQ(hwheel_disown(wheel), 0);
}

static void parts(void (*part)(void))
{
	memset(seen, 0, sizeof seen);
	wheel = make(HWHEEL_CLOCK_MANUAL);
	/* In one bucket, on a higher level, and overdue. */
	for (uint64_t i = 0; i < PARTS; i++)
		CHECK_EQ(hwheel_once(wheel, i % 3 ? SEC : MS, note_cookie, i, 0, NULL), 0);
	CHECK_EQ(hwheel_disown(wheel), 0);
	for (int i = 0; i < PARTS + 2 && fired < PARTS; i++) {
		if (i % 2)
			part();
		else
			in_a_thread(part);
	}
	for (int i = 0; i < PARTS; i++)
		CHECK_EQ(seen[i], 1);
	CHECK_EQ(hwheel_own(wheel), 0);
	CHECK_EQ(hwheel_destroy(wheel), 0);
}

TEST_OF(the_next_owner_goes_on_with_a_call_that_was_bounded, parts(fire_one))
TEST_OF(the_next_owner_goes_on_with_a_drain, parts(drain_one))

/* Owners that end. */

static void make_one_and_exit(void)
{
	make_busy();
	pthread_exit(NULL);
}

/* By its new owner, who destroys it. */
static void fire_both(void)
{
	CHECK_EQ(hwheel_timer_mod(wheel, timer, MS, 0), 1);
	CHECK_AT(wheel, 60 * MS, fired, 2);
	CHECK_EQ(hwheel_destroy(wheel), 0);
}

static void take_and_fire(void)
{
	CHECK_EQ(hwheel_timer_mod(wheel, timer, MS, 0), -EPERM);
	CHECK_EQ(hwheel_disown(wheel), -EPERM);
	CHECK_EQ(hwheel_destroy(wheel), -EPERM);
	CHECK_EQ(hwheel_own(wheel), 0);
	fire_both();
}

TEST(the_wheel_of_a_thread_that_has_ended_is_taken)
{
	in_a_thread(make_busy);
	take_and_fire();
	in_a_thread(make_one_and_exit);
	take_and_fire();
}

/* The next thread has the number of the one that has ended, but does not own its wheel. */
static void use_a_wheel_of_before(void)
{
	/* It has a number. */
	ktap_timer(another);
	to_others = -EPERM;
	call_everything();
	CHECK_EQ(hwheel_own(wheel), 0);
	CHECK_EQ(hwheel_timer_mod(wheel, timer, 50 * MS, 0), 1);
}

static void own_another_and_refuse(void)
{
	/* It has a number, and it owns a wheel. */
	WHEEL own = make(HWHEEL_CLOCK_MANUAL);

	to_others = -EPERM;
	call_everything();
}

TEST(the_next_thread_of_that_number_does_not_own_it)
{
	another = ktap_manual(0, 0, 0, 0);
	for (int i = 0; i < 10; i++) {
		in_a_thread(make_busy);
		in_a_thread(own_another_and_refuse);
		in_a_thread(use_a_wheel_of_before);
		take_and_fire();
	}
	CHECK_EQ(hwheel_destroy(another), 0);
}

/* Destructors of other libraries run while the thread ends, in some rounds. It still owns. */

static pthread_key_t ends[3];
static int rounds;

static void use_at_the_end(void *at)
{
	CHECK_EQ(hwheel_timer_mod(wheel, timer, 50 * MS, 0), 1);
	CHECK_EQ(hwheel_advance(wheel, 0, NULL, 0, NULL), 0);
	CHECK_EQ(hwheel_disown(wheel), 0);
	CHECK_EQ(hwheel_own(wheel), 0);
	in_a_thread(disown_and_own_of_another);
	/* Once more, in the next round. ThreadSanitizer forgets the thread in the last one. */
	if (rounds++ < (KTAP_SANITIZED ? 2 : 5))
		pthread_setspecific(*(pthread_key_t *)at, at);
}

static void make_one_and_leave_ends(void)
{
	for (size_t i = 0; i < COUNT(ends); i++)
		pthread_setspecific(ends[i], &ends[i]);
	make_busy();
}

TEST(a_thread_owns_until_its_destructors_have_run)
{
	rounds = 0;
	for (size_t i = 0; i < COUNT(ends); i++)
		CHECK_EQ(pthread_key_create(&ends[i], use_at_the_end), 0);
	in_a_thread(make_one_and_leave_ends);
	CHECK(rounds >= (int)COUNT(ends));
	for (size_t i = 0; i < COUNT(ends); i++)
		CHECK_EQ(pthread_key_delete(ends[i]), 0);
	take_and_fire();
}

/* The thread of main() ends, and the program goes on. */

static void *after_main(void *main_ends)
{
	int got;

	/* No join: musl cannot join the thread of main() in a child, and ThreadSanitizer nowhere. */
	while ((got = hwheel_own(wheel)) == -EBUSY) {
		CHECK_EQ(hwheel_timer_mod(wheel, timer, MS, 0), -EPERM);
		usleep(1000);
	}
	CHECK_EQ(got, 0);
	CHECK(*(atomic_int *)main_ends);
	fire_both();
	fflush(stdout);
	_exit(0);
}

static void end_main(void)
{
	static atomic_int ends;

	make_busy();
	ktap_thread(after_main, &ends);
	usleep(20000);
	ends = 1;
	pthread_exit(NULL);
}

TEST(the_wheel_of_a_main_thread_that_has_ended_is_taken)
{
	if (KTAP_EMULATED)
		SKIP("valgrind ignores the stack of main() after that thread has ended");
	in_a_child(end_main);
}

/* Of threads that want it at the same time, one gets it. */

enum { RACERS = 3, RACES = 300 };

static pthread_barrier_t line;
static atomic_int winners, refused;

static void *race(void *unused)
{
	for (int i = 0; i < RACES; i++) {
		int got;

		pthread_barrier_wait(&line);
		got = hwheel_own(wheel);
		if (got == 0) {
			winners++;
			/* Plain memory of the wheel: what the one wrote, the other sees. */
			CHECK_EQ(hwheel_timer_mod(wheel, timer, 50 * MS + (uint64_t)i, 0), 1);
			CHECK_EQ(hwheel_advance(wheel, (uint64_t)i * MS / 100, NULL, 0, NULL), 0);
		} else {
			CHECK_EQ(got, -EBUSY);
			refused++;
			CHECK_EQ(hwheel_timer_delete(wheel, timer), -EPERM);
		}
		pthread_barrier_wait(&line);
		if (got == 0)
			CHECK_EQ(hwheel_disown(wheel), 0);
	}
	return NULL;
}

WHEEL_TEST(one_of_several_gets_it, busy())
{
	pthread_t threads[RACERS];

	winners = refused = 0;
	CHECK_EQ(hwheel_disown(wheel), 0);
	CHECK_EQ(pthread_barrier_init(&line, NULL, RACERS), 0);
	ktap_begin(threads, RACERS, race, NULL);
	ktap_end(threads, RACERS);
	CHECK_EQ(pthread_barrier_destroy(&line), 0);
	CHECK_EQ(winners, RACES);
	CHECK_EQ(refused, RACES * (RACERS - 1));
	CHECK_EQ(hwheel_own(wheel), 0);
	CHECK_AT(wheel, SEC, fired, 2);
}

/* _sync in an owned wheel. */

static hwheel_timer_t others[2];

static void sync_inside(struct hwheel *w, const struct hwheel_event *e)
{
	fired++;
	CHECK_EQ(hwheel_timer_delete_sync(w, e->timer), -EDEADLK);
	CHECK_EQ(hwheel_timer_shutdown_sync(w, e->timer), -EDEADLK);
	CHECK_EQ(hwheel_timer_delete_sync(w, others[1]), 1);
	CHECK_EQ(hwheel_timer_shutdown_sync(w, others[1]), 0);
	CHECK_EQ(hwheel_timer_mod(w, others[1], MS, 0), -ESHUTDOWN);
}

WHEEL_TEST(sync_waits_for_nothing_but_refuses_its_own_callback, empty())
{
	others[0] = ktap_armed(wheel, sync_inside, 0, MS);
	others[1] = ktap_armed(wheel, on_call, 0, MS);
	CHECK_AT(wheel, SEC, fired, 1);
	CHECK_EQ(hwheel_timer_delete_sync(wheel, others[0]), 0);
	CHECK_EQ(hwheel_timer_mod(wheel, others[0], MS, 0), 0);
	CHECK_EQ(hwheel_timer_delete_sync(wheel, others[0]), 1);
}

/* A callback that forks. */

static pid_t forked;

static void fork_inside(struct hwheel *w, const struct hwheel_event *e)
{
	fired++;
	fflush(stdout);
	forked = fork();
	if (forked == 0) {
		hwheel_timer_t t;

		CHECK_EQ(hwheel_timer_setup(w, on_call, 0, &t), -ESHUTDOWN);
		CHECK_EQ(hwheel_timer_mod(w, timer, MS, 0), -ESHUTDOWN);
		CHECK_EQ(hwheel_once(w, MS, on_call, 0, 0, NULL), -ESHUTDOWN);
		CHECK_EQ(hwheel_disown(w), -ESHUTDOWN);
		CHECK_EQ(hwheel_own(w), -ESHUTDOWN);
		CHECK_EQ(hwheel_destroy(w), -EDEADLK);
	}
}

TEST(in_a_child_of_a_callback_no_other_timer_fires)
{
	int got;

	if (KTAP_EMULATED)
		SKIP("an emulator may ignore MADV_WIPEONFORK");
	wheel = make(HWHEEL_CLOCK_MANUAL);
	timer = ktap_timer(wheel);
	CHECK_EQ(hwheel_once(wheel, MS, fork_inside, 0, 0, NULL), 0);
	for (int i = 0; i < 20; i++)
		CHECK_EQ(hwheel_once(wheel, (uint64_t)(1 + i / 10) * MS, on_call, 0, 0, NULL), 0);
	got = hwheel_advance(wheel, 5 * MS, NULL, 0, NULL);
	if (forked == 0) {
		CHECK(fired >= 1 && fired <= 20);
		CHECK_EQ(hwheel_destroy(wheel), 0);
		_exit(0);
	}
	CHECK_EQ(got, 0);
	CHECK_EQ(status_of(forked), 0);
	CHECK_EQ(fired, 21);
	CHECK_EQ(hwheel_destroy(wheel), 0);
}
