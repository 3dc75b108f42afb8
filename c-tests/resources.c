/* Out of descriptors, threads, memory or address space: an error, and nothing lost. */
#include <sys/mman.h>
#include <sys/resource.h>
#include "counted.h"

static void limit(int what, rlim_t to)
{
	struct rlimit r;

	CHECK_EQ(getrlimit(what, &r), 0);
	r.rlim_cur = to < r.rlim_max ? to : r.rlim_max;
	CHECK_EQ(setrlimit(what, &r), 0);
}

/* The part of the address space that is in use. */
static rlim_t in_use(void)
{
	return ktap_memory(KTAP_SPACE);
}

CHILD_TEST(without_descriptors_it_is_driven_by_hand)
{
	WHEEL w = ktap_made(NULL);

	limit(RLIMIT_NOFILE, 0);
	CHECK_EQ(hwheel_fd(w), -EMFILE);
	CHECK_EQ(hwheel_start(w), -EMFILE);
	CHECK_EQ(hwheel_fd(w), -EMFILE);
	/* nothing has changed: it is driven by hand */
	CHECK_EQ(hwheel_once(w, 0, count, 0, 0, NULL), 0);
	poll_until_called(w, 1);
	CHECK_EQ(hwheel_stop(w), 0);
	/* a wheel that needs no descriptor */
	struct hwheel *another = ktap_made(NULL);
	CHECK_EQ(hwheel_destroy(another), 0);
	limit(RLIMIT_NOFILE, 256);
	CHECK_EQ(hwheel_start(w), 0);
	CHECK_EQ(hwheel_once(w, 0, count, 0, 0, NULL), 0);
	until_called(2);
}

CHILD_TEST(one_descriptor_at_most_and_it_is_closed)
{
	int before = descriptors();
	struct hwheel *w = ktap_made(NULL);

	/* none before it is asked for */
	CHECK_EQ(hwheel_once(w, 0, count, 0, 0, NULL), 0);
	CHECK(hwheel_poll(w, NULL, 0, NULL) >= 0);
	CHECK_EQ(descriptors(), before);
	CHECK(hwheel_fd(w) >= 0);
	CHECK_EQ(hwheel_start(w), 0);
	CHECK_EQ(hwheel_stop(w), 0);
	CHECK_EQ(hwheel_start(w), 0);
	CHECK_EQ(descriptors(), before + 1);
	CHECK_EQ(hwheel_destroy(w), 0);
	CHECK_EQ(descriptors(), before);
}

CHILD_TEST(create_without_address_space_leaves_nothing_behind)
{
	/* what the first wheel of a process leaves is there already */
	CHECK_EQ(hwheel_destroy(ktap_made(NULL)), 0);
	rlim_t before = in_use();
	int refused = 0, made = 0;

	for (rlim_t more = 0; more < 16 << 20; more += 4096) {
		struct hwheel *w = (struct hwheel *)&refused;
		int got;

		limit(RLIMIT_AS, before + more);
		got = hwheel_create(NULL, &w);
		limit(RLIMIT_AS, RLIM_INFINITY);
		if (got == 0) {
			CHECK_EQ(hwheel_destroy(w), 0);
			CHECK_EQ(in_use(), before);
			if (++made == 3)
				break;
			continue;
		}
		CHECK_EQ(got, -ENOMEM);
		CHECK(w == (struct hwheel *)&refused);
		/* nothing is left behind */
		CHECK_EQ(in_use(), before);
		refused++;
	}
	CHECK_EQ(made, 3);
	CHECK(refused >= 3);
}

CHILD_TEST(also_for_the_first_wheel)
{
	struct hwheel *w = NULL;

	limit(RLIMIT_AS, in_use());
	CHECK_EQ(hwheel_create(NULL, &w), -ENOMEM);
	CHECK(w == NULL);
	limit(RLIMIT_AS, RLIM_INFINITY);
	w = ktap_made(NULL);
	CHECK_EQ(hwheel_once(w, 0, count, 0, 0, NULL), 0);
	poll_until_called(w, 1);
	CHECK_EQ(hwheel_destroy(w), 0);
}

static struct hwheel *of_parent;

static void is_refused(void)
{
	uint64_t now;

	CHECK_EQ(hwheel_now(of_parent, &now), -ESHUTDOWN);
}

/* Near the limit on mappings a wheel is either refused, or made so that a child is. */
CHILD_TEST(create_at_the_limit_on_mappings)
{
	const size_t page = (size_t)sysconf(_SC_PAGESIZE), most = 70000;
	char *at = mmap(NULL, 2 * most * page, PROT_NONE,
			MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	int made = 0, refused = 0;
	size_t n = 0;

	CHECK((void *)at != MAP_FAILED);
	while (n < most && mprotect(at + 2 * n * page, page, PROT_READ) == 0)
		n++;
	if (n == most) {
		printf("# a process may have more mappings here\n");
		return;
	}
	while (made < 3) {
		int got = hwheel_create(NULL, &of_parent);

		if (got == 0) {
			CHECK_EQ(status_of(start_child(is_refused)), 0);
			CHECK_EQ(hwheel_destroy(of_parent), 0);
			made++;
		} else {
			CHECK_EQ(got, -ENOMEM);
			refused++;
		}
		n--;
		CHECK_EQ(mprotect(at + 2 * n * page, page, PROT_NONE), 0);
	}
	CHECK(refused >= 1);
}

CHILD_TEST(setup_without_memory_changes_nothing)
{
	WHEEL w = ktap_made(NULL);
	hwheel_timer_t t = 77;

	limit(RLIMIT_AS, in_use());
	CHECK_EQ(hwheel_timer_setup(w, count, 0, &t), -ENOMEM);
	CHECK_EQ(hwheel_once(w, 0, count, 0, 0, &t), -ENOMEM);
	CHECK_EQ(hwheel_once(w, 0, count, 0, HWHEEL_ABS, &t), -ENOMEM);
	CHECK_EQ(hwheel_every(w, 0, SEC, 0, count, 0, 0, &t), -ENOMEM);
	CHECK_EQ(t, 77);
	CHECK_EQ(stats(w).live, 0);
	CHECK_EQ(stats(w).slab_bytes, 0);
	CHECK_EQ(hwheel_poll(w, NULL, 0, NULL), 0);
	limit(RLIMIT_AS, RLIM_INFINITY);
	t = ktap_armed(w, count, 0, 0);
	poll_until_called(w, 1);
}

/*
 * An arm of a timer that exists lacks no memory, in a thread that has made a timer or armed one:
 * in a wheel of each kind, with a note about each timer.
 */
CHILD_TEST(an_arm_lacks_no_memory)
{
	enum { MOST = 700000 };
	static hwheel_timer_t timers[MOST];

	for (uint32_t owned = 0; owned < 2; owned++) {
		WHEEL w = MADE(.clock = HWHEEL_CLOCK_MANUAL, .owned = owned);
		uint64_t begin = calls;
		int got, made = 0;

		limit(RLIMIT_AS, in_use() + (64 << 20));
		while ((got = hwheel_timer_setup(w, count, 0, &timers[made])) == 0)
			CHECK(++made < MOST);
		CHECK_EQ(got, -ENOMEM);
		/* Their notes need more than is mapped at first. */
		CHECK(made > 520000);
		limit(RLIMIT_AS, in_use());
		for (uint64_t turn = 0; turn < 4; turn++) {
			/* An earlier time than that of the entry needs a note. */
			for (int i = 0; i < made; i++)
				CHECK_EQ(hwheel_timer_mod(w, timers[i], (3600 - turn) * SEC, 0), turn > 0);
			if (turn < 3)
				CHECK_EQ(hwheel_advance(w, turn * SEC, NULL, 0, NULL), 0);
		}
		CHECK_EQ(hwheel_advance(w, 3600 * SEC, NULL, 0, NULL), 0);
		CHECK_EQ(calls - begin, made);
		limit(RLIMIT_AS, RLIM_INFINITY);
	}
}

static struct hwheel *first_used;
static hwheel_timer_t first_armed;
static atomic_int go, refused;

static void *arms_for_the_first_time(void *arg)
{
	ktap_until(&go, 1);
	CHECK_EQ(hwheel_timer_mod(first_used, first_armed, 0, 0), -ENOMEM);
	CHECK_EQ(hwheel_timer_mod(first_used, first_armed, 0, HWHEEL_ABS), -ENOMEM);
	CHECK_EQ(hwheel_timer_mod(first_used, first_armed, 0, HWHEEL_ABS), -ENOMEM);
	CHECK_EQ(hwheel_timer_mod(first_used, first_armed, 0, HWHEEL_REDUCE), -ENOMEM);
	CHECK_EQ(hwheel_timer_pending(first_used, first_armed), 0);
	/* What needs no memory works. */
	CHECK_EQ(hwheel_timer_delete(first_used, first_armed), 0);
	refused = 1;
	ktap_until(&go, 2);
	CHECK_EQ(hwheel_timer_mod(first_used, first_armed, 0, 0), 0);
	/* The thread has its memory now: neither arming nor firing asks for more. */
	limit(RLIMIT_AS, in_use());
	for (int i = 2; i < 10; i++) {
		CHECK_EQ(hwheel_timer_mod(first_used, first_armed, 3600 * SEC, 0), 1);
		CHECK_EQ(hwheel_timer_mod(first_used, first_armed, 0, 0), 1);
	}
	return NULL;
}

CHILD_TEST(a_first_arm_without_memory_changes_nothing)
{
	/* For the notes about that number of timers, one more thread needs memory. */
	first_used = ktap_made(NULL);
	for (int i = 0; i < 130000; i++)
		first_armed = ktap_timer_of(first_used, count, 0);
	pthread_t thread = ktap_thread(arms_for_the_first_time, NULL);
	limit(RLIMIT_AS, in_use());
	go = 1;
	ktap_until(&refused, 1);
	CHECK_EQ(hwheel_poll(first_used, NULL, 0, NULL), 0);
	limit(RLIMIT_AS, RLIM_INFINITY);
	go = 2;
	ktap_join(thread);
	poll_until_called(first_used, 1);
	CHECK_EQ(hwheel_destroy(first_used), 0);
}

/* Timers until there is no more memory: each that was armed fires, once. */
CHILD_TEST(every_armed_timer_fires_without_memory)
{
	WHEEL w = ktap_manual(0, 0, 0, 0);
	uint64_t made = 0, x = 88172645463325252u, now = 0;
	int got;

	limit(RLIMIT_AS, in_use() + (16 << 20));
	do {
		got = hwheel_once(w, ktap_dice(&x) % (3600 * SEC), count, 0, 0, NULL);
		made += got == 0;
		CHECK(made < 1000000);
	} while (got == 0);
	CHECK_EQ(got, -ENOMEM);
	CHECK(made > 10000);
	CHECK_EQ(stats(w).live, made);
	/* the driver gets by without more */
	for (int i = 0; i < 3600; i += 7) {
		now += 7 * SEC;
		CHECK_EQ(hwheel_advance(w, now, NULL, 0, NULL), 0);
	}
	CHECK_EQ(atomic_load(&calls), made);
	CHECK_EQ(stats(w).live, 0);
	/* and there is room again */
	CHECK_EQ(hwheel_once(w, SEC, count, 0, 0, NULL), 0);
}

CHILD_TEST(without_a_thread_it_is_driven_by_hand)
{
	WHEEL w = ktap_made(NULL);

	CHECK_EQ(hwheel_once(w, 0, count, 0, 0, NULL), 0);
	CHECK(hwheel_fd(w) >= 0);
	limit(RLIMIT_AS, in_use());
	/* no room for its stack */
	CHECK_EQ(hwheel_start(w), -EAGAIN);
	CHECK_EQ(hwheel_stop(w), 0);
	poll_until_called(w, 1);
	limit(RLIMIT_AS, RLIM_INFINITY);
	CHECK_EQ(hwheel_start(w), 0);
	CHECK_EQ(hwheel_timer_mod(w, 0, 0, 0), -ESTALE);
	CHECK_EQ(hwheel_once(w, 0, count, 0, 0, NULL), 0);
	until_called(2);
}

CHILD_TEST(destroy_gives_everything_back)
{
	rlim_t before = 0;

	for (int i = 0; i < 1000; i++) {
		struct hwheel *w = ktap_made(NULL);

		CHECK_EQ(hwheel_once(w, SEC, count, 0, 0, NULL), 0);
		if (i % 10 == 0) {
			CHECK(hwheel_fd(w) >= 0);
			CHECK_EQ(hwheel_start(w), 0);
		}
		CHECK_EQ(hwheel_destroy(w), 0);
		/* the stack of a first thread is kept for the next */
		if (i == 20)
			before = in_use();
	}
	CHECK(in_use() <= before);
}

static pthread_key_t last_key;
static struct hwheel *of_all;

static int use_a_timer(void)
{
	hwheel_timer_t t = 77;
	int got = hwheel_timer_setup(of_all, NULL, 0, &t);

	if (got == 0)
		CHECK_EQ(hwheel_timer_free(of_all, t), 0);
	else
		CHECK_EQ(t, 77);
	return got;
}

/*
 * The C library runs the destructors of a thread in four rounds. A thread that uses timers in
 * each of them gives its number back all the same: in the last round it gets none.
 */
enum { ROUNDS = 4 };

static void use_one_again(void *left)
{
	int got = use_a_timer();

	CHECK(got == 0 || ((intptr_t)left == 1 && got == -EUSERS));
	if ((intptr_t)left > 1)
		CHECK_EQ(pthread_setspecific(last_key, (void *)((intptr_t)left - 1)), 0);
}

/* A destructor may make the first call of its thread, in a round that is not the first one. */
static void *use_at_the_end(void *rounds)
{
	CHECK_EQ(pthread_setspecific(last_key, rounds), 0);
	return NULL;
}

static void *use_to_the_end(void *rounds)
{
	CHECK_EQ(use_a_timer(), 0);
	return use_at_the_end(rounds);
}

/* How each thread uses the wheel. */
static void *(*used)(void *rounds);

static void more_threads_than_numbers(void)
{
	/* This number of threads takes seconds of the processor, and minutes of a busy one. */
	alarm(2 * PATIENCE_S);
	/* The library's key comes first, so that its destructor runs first in each round. */
	of_all = ktap_made(NULL);
	CHECK_EQ(pthread_key_create(&last_key, use_one_again), 0);
	for (intptr_t n = 0; n < 38000; n++)
		ktap_in_a_thread(used, (void *)(n % 8 ? ROUNDS : n / 8 % ROUNDS + 1));
	CHECK_EQ(use_a_timer(), 0);
	CHECK_EQ(hwheel_destroy(of_all), 0);
}

static void with_many_threads(void (*run)(void), void *(*use)(void *))
{
	if (KTAP_SLOW)
		SKIP("tens of thousands of threads take too long here");
	used = use;
	in_a_child(run);
}

TEST_OF(a_thread_that_ends_keeps_no_number,
	with_many_threads(more_threads_than_numbers, use_to_the_end))
TEST_OF(a_thread_whose_first_timer_comes_at_its_end_keeps_no_number,
	with_many_threads(more_threads_than_numbers, use_at_the_end))

static void own_in_this_round(void *left)
{
	if ((intptr_t)left > 1)
		CHECK_EQ(pthread_setspecific(last_key, (void *)((intptr_t)left - 1)), 0);
	else
		CHECK_EQ(hwheel_own(of_all), 0);
}

/* The kernel forgets a thread some time after the C library does. */
static int own_soon(void)
{
	int got = -EBUSY;

	for (int ms = 0; got == -EBUSY && ms < 10000; ms++) {
		if (ms != 0)
			usleep(1000);
		got = hwheel_own(of_all);
	}
	return got;
}

static void more_owners_than_numbers(void)
{
	alarm(2 * PATIENCE_S);
	of_all = MADE(.owned = 1);
	CHECK_EQ(pthread_key_create(&last_key, own_in_this_round), 0);
	for (intptr_t n = 0; n < 33000; n++) {
		CHECK_EQ(hwheel_disown(of_all), 0);
		ktap_in_a_thread(used, (void *)(n % ROUNDS + 1));
		CHECK_EQ(own_soon(), 0);
	}
	CHECK_EQ(hwheel_destroy(of_all), 0);
}

TEST_OF(a_thread_that_comes_to_own_at_its_end_has_ended,
	with_many_threads(more_owners_than_numbers, use_at_the_end))

static hwheel_timer_t of_main;

/* In a thread that gets no number. */
static void *without_a_number(void *unused)
{
	struct hwheel_stats before = stats(of_all), after;
	uint64_t ns = 77;
	int32_t result = 77;
	hwheel_timer_t t = 77;

	CHECK_EQ(use_a_timer(), -EUSERS);
	CHECK_EQ(hwheel_once(of_all, SEC, NULL, 0, 0, &t), -EUSERS);
	CHECK_EQ(hwheel_every(of_all, SEC, SEC, 0, NULL, 0, 0, &t), -EUSERS);
	CHECK_EQ(t, 77);
	CHECK_EQ(hwheel_timer_mod(of_all, of_main, SEC, 0), -EUSERS);
	CHECK_EQ(hwheel_timer_mod(of_all, of_main, SEC, HWHEEL_ABS | HWHEEL_REDUCE), -EUSERS);
	CHECK_EQ(hwheel_timer_mod_range(of_all, of_main, SEC, SEC, 0), -EUSERS);
	CHECK_EQ(hwheel_timer_mod_many(of_all, &of_main, &(uint64_t){ SEC }, 1, 0, &result), 0);
	CHECK_EQ(result, -EUSERS);
	CHECK_EQ(hwheel_key_set(of_all, NUMBER(1), SEC, NULL, 0, 0), -EUSERS);
	CHECK_EQ(hwheel_key_mod(of_all, NUMBER(7), SEC, 0), -EUSERS);
	/* a bad argument is that first of all */
	CHECK_EQ(hwheel_timer_mod(of_all, 0, SEC, 0), -ESTALE);
	CHECK_EQ(hwheel_timer_mod(of_all, of_main, SEC, 8), -EINVAL);
	after = stats(of_all);
	CHECK_EQ(memcmp(&before, &after, sizeof before), 0);
	/* what needs no number works, and what ends a timer does */
	CHECK_EQ(hwheel_timer_pending(of_all, of_main), 1);
	CHECK_EQ(hwheel_timer_remaining(of_all, of_main, &ns), 1);
	CHECK_EQ(hwheel_key_pending(of_all, NUMBER(7)), 1);
	CHECK_EQ(hwheel_key_delete(of_all, NUMBER(7)), 1);
	CHECK_EQ(hwheel_timer_delete(of_all, of_main), 1);
	CHECK_EQ(hwheel_timer_delete_sync(of_all, of_main), -ESTALE);
	CHECK_EQ(hwheel_poll(of_all, NULL, 0, NULL), 0);
	CHECK_EQ(stats(of_all).live, 0);
	return unused;
}

/*
 * A thread that ends by the system call alone runs no destructor, so that its number is lost.
 * The C library does not mind: to join it waits for the kernel.
 */
static void *lose_a_number(void *got)
{
	*(int *)got = use_a_timer();
	if (*(int *)got == 0)
		syscall(SYS_exit, 0);
	return NULL;
}

static void a_thread_for_each_number(void)
{
	int got = 0, n = 0;

	/* This number of threads takes seconds of the processor, and minutes of a busy one. */
	alarm(2 * PATIENCE_S);
	of_all = ktap_made(NULL);
	CHECK_EQ(hwheel_once(of_all, 3600 * SEC, NULL, 0, 0, &of_main), 0);
	CHECK_EQ(hwheel_key_set(of_all, NUMBER(7), 3600 * SEC, NULL, 0, 0), 0);
	while (got == 0 && n++ < 40000)
		ktap_in_a_thread(lose_a_number, &got);
	/* this thread has the first number */
	CHECK_EQ(got, -EUSERS);
	CHECK_EQ(n, 32767);
	ktap_in_a_thread(without_a_number, NULL);
	/* one that has a number goes on */
	CHECK_EQ(use_a_timer(), 0);
	CHECK_EQ(hwheel_once(of_all, 0, count, 0, 0, NULL), 0);
	poll_until_called(of_all, 1);
	CHECK_EQ(hwheel_destroy(of_all), 0);
}

TEST(the_32768th_thread_is_refused)
{
#ifndef __GLIBC__
	SKIP("a thread that ends by the system call cannot be joined here");
#endif
	with_many_threads(a_thread_for_each_number, NULL);
}
