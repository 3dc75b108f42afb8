/*
 * The system refuses what the library asks of it, one thing at a time.
 *
 * The program is linked with the static library and wraps what that calls.
 * Limits on descriptors and on the address space are in c-tests/resources.c.
 */
#include <sys/mman.h>
#include "counted.h"

/* The k-th of the wrapped calls fails, or all from the k-th on; 0: none. */
static atomic_int fail_at, for_ever, failures;
static atomic_llong mapped;

static int must_fail(void)
{
	int k = atomic_load(&fail_at);

	if (k == 0)
		return 0;
	if (k > 1) {
		atomic_store(&fail_at, k - 1);
		return 0;
	}
	if (!atomic_load(&for_ever))
		atomic_store(&fail_at, 0);
	atomic_fetch_add(&failures, 1);
	return 1;
}

/* Takes the place of a function of the C library, and may fail with this result. */
#define REFUSABLE(type, name, parameters, arguments, failure) \
	type __real_##name parameters; \
	type __wrap_##name parameters \
	{ \
		return must_fail() ? failure : __real_##name arguments; \
	}

static int fails_with(int error)
{
	errno = error;
	return -1;
}

REFUSABLE(void *, malloc, (size_t n), (n), NULL)
REFUSABLE(void *, calloc, (size_t n, size_t size), (n, size), NULL)
REFUSABLE(void *, realloc, (void *at, size_t n), (at, n), NULL)
REFUSABLE(int, posix_memalign, (void **at, size_t align, size_t n), (at, align, n), ENOMEM)
REFUSABLE(int, timerfd_create, (int clock, int flags), (clock, flags), fails_with(EMFILE))
REFUSABLE(int, pthread_create, (pthread_t *thread, const pthread_attr_t *attr,
	  void *(*body)(void *), void *arg), (thread, attr, body, arg), EAGAIN)
REFUSABLE(int, pthread_key_create, (pthread_key_t *key, void (*end)(void *)), (key, end), EAGAIN)
/* Keys beyond the first few have their values in memory that is allocated. */
REFUSABLE(int, pthread_setspecific, (pthread_key_t key, const void *value), (key, value), ENOMEM)

void *__real_mmap(void *at, size_t n, int prot, int flags, int fd, off_t from);
int __real_munmap(void *at, size_t n);

void *__wrap_mmap(void *at, size_t n, int prot, int flags, int fd, off_t from)
{
	void *got;

	if (must_fail()) {
		errno = ENOMEM;
		return MAP_FAILED;
	}
	got = __real_mmap(at, n, prot, flags, fd, from);
	if (got != MAP_FAILED && prot != PROT_READ)
		atomic_fetch_add(&mapped, (long long)n);
	return got;
}

int __wrap_munmap(void *at, size_t n)
{
	atomic_fetch_sub(&mapped, (long long)n);
	return __real_munmap(at, n);
}

/*
 * Two pages of the process stay mapped, one of which a fork clears, and one of this thread.
 * So do zeros that can only be read, which are no memory and do not count.
 */
static void expect_no_leak(int descriptors_before)
{
	CHECK(atomic_load(&mapped) <= 3 * 4096);
	CHECK_EQ(descriptors(), descriptors_before);
}

/* The calls that may ask for something. Each undoes what it did. */
static struct hwheel *the_wheel;
static hwheel_timer_t armed, idle;

#define CALL(name, result) static int call_##name(void) { return result; }

static int create(uint32_t workers)
{
	struct hwheel_options o = { .size = sizeof o, .workers = workers };
	struct hwheel *w = NULL;
	int got = hwheel_create(workers ? &o : NULL, &w);

	CHECK_EQ(w != NULL, got == 0);
	if (got == 0)
		CHECK_EQ(hwheel_destroy(w), 0);
	return got;
}

CALL(create, create(0))
CALL(create_workers, create(3))

static int call_fd(void)
{
	int fd = hwheel_fd(the_wheel);

	return fd < 0 ? fd : 0;
}

static int call_start(void)
{
	int got = hwheel_start(the_wheel);

	if (got == 0)
		CHECK_EQ(hwheel_stop(the_wheel), 0);
	return got;
}

static int call_setup(void)
{
	hwheel_timer_t t = 0;
	int got = hwheel_timer_setup(the_wheel, count, 0, &t);

	CHECK_EQ(t != 0, got == 0);
	if (got == 0)
		CHECK_EQ(hwheel_timer_free(the_wheel, t), 0);
	return got;
}

/* A call that makes and arms a timer has armed it, or made none. */
static hwheel_timer_t made;

static int takes_back(int got)
{
	CHECK_EQ(made != 0, got == 0);
	if (got == 0)
		CHECK_EQ(hwheel_timer_delete(the_wheel, made), 1);
	made = 0;
	return got;
}

CALL(after, takes_back(hwheel_once(the_wheel, 3600 * SEC, count, 0, 0, &made)))
CALL(at, takes_back(hwheel_once(the_wheel, 0, count, 0, HWHEEL_ABS, &made)))
CALL(every, takes_back(hwheel_every(the_wheel, SEC, SEC, 0, count, 0, 0, &made)))

/* A call that arms a timer has armed it, or changed nothing. */
static int disarms(int got)
{
	CHECK_EQ(hwheel_timer_pending(the_wheel, idle), got >= 0);
	if (got >= 0)
		CHECK_EQ(hwheel_timer_delete(the_wheel, idle), 1);
	return got;
}

CALL(mod, disarms(hwheel_timer_mod(the_wheel, idle, 3600 * SEC, 0)))
CALL(mod_at, disarms(hwheel_timer_mod(the_wheel, idle, 1, HWHEEL_ABS)))
CALL(reduce, disarms(hwheel_timer_mod(the_wheel, idle, SEC, HWHEEL_REDUCE)))

/* To before the tick of its entry, so it needs a note. */
static int call_mod_earlier(void)
{
	uint64_t left = 0;
	int got;

	/* A thread that meets the wheel needs memory for this already. */
	got = hwheel_timer_mod(the_wheel, armed, 7200 * SEC, 0);
	if (got < 0)
		return got;
	CHECK_EQ(got, 1);
	got = hwheel_timer_mod(the_wheel, armed, 0, HWHEEL_IF_PENDING);
	CHECK_EQ(hwheel_timer_remaining(the_wheel, armed, &left), 1);
	/* A timer that is due now is due at the next tick. */
	CHECK_EQ(left < SEC, got == 1);
	return got;
}

static int call_mod_many(void)
{
	uint64_t delay = SEC;
	int32_t result = 0;

	CHECK_EQ(hwheel_timer_mod_many(the_wheel, &idle, &delay, 1, 0, &result),
	       result >= 0);
	return disarms(result);
}

/* The key of a timer that is pending all the time. */
#define ID 7

static int call_key_set(void)
{
	int got = hwheel_key_set(the_wheel, "key", 3, SEC, count, 0, 0);

	CHECK_EQ(hwheel_key_pending(the_wheel, "key", 3), got >= 0);
	if (got >= 0)
		CHECK_EQ(hwheel_key_delete(the_wheel, "key", 3), 1);
	return got;
}

static int stays(int got)
{
	CHECK_EQ(hwheel_key_pending(the_wheel, NUMBER(ID)), 1);
	return got;
}

/* Another function: another timer takes the place of the first. */
static int call_id_set(void)
{
	static hwheel_fn fn = count;

	fn = fn == count ? ktap_nothing : count;
	return stays(hwheel_key_set(the_wheel, NUMBER(ID), SEC, fn, 0, 0));
}

CALL(id_move, stays(hwheel_key_mod(the_wheel, NUMBER(ID), SEC, 0)))

/* These ask for nothing, so nothing can be refused. */
static int call_what_asks_for_nothing(void)
{
	struct hwheel_stats s = { .size = sizeof s };
	uint64_t ns = 0;

	CHECK_EQ(hwheel_now(the_wheel, &ns), 0);
	CHECK_EQ(hwheel_next_expiry(the_wheel, &ns), 1);
	CHECK_EQ(hwheel_get_stats(the_wheel, &s), 0);
	CHECK_EQ(hwheel_timer_pending(the_wheel, armed), 1);
	CHECK_EQ(hwheel_timer_remaining(the_wheel, armed, &ns), 1);
	CHECK_EQ(hwheel_timer_delete(the_wheel, idle), 0);
	CHECK_EQ(hwheel_timer_delete_sync(the_wheel, idle), 0);
	CHECK_EQ(hwheel_timer_delete_many(the_wheel, &idle, 1, NULL), 1);
	CHECK_EQ(hwheel_key_delete(the_wheel, NUMBER(ID + 1)), 0);
	CHECK_EQ(hwheel_poll(the_wheel, NULL, 0, NULL), 0);
	CHECK_EQ(hwheel_advance(the_wheel, 0, NULL, 0, NULL), -EINVAL);
	CHECK_EQ(hwheel_stop(the_wheel), 0);
	return 0;
}

static const struct {
	const char *name;
	int (*call)(void);
	/* The last: by a thread that meets the wheel with it. */
	enum { ALONE, WITH_A_WHEEL, BY_ANOTHER } how;
	/* How many things it asks for, at least; 0: none. */
	int least;
} each[] = {
	{ "create", call_create, ALONE, 3 },
	{ "create, workers", call_create_workers, ALONE, 7 },
	{ "fd", call_fd, WITH_A_WHEEL, 1 },
	{ "start", call_start, WITH_A_WHEEL, 2 },
	{ "setup", call_setup, BY_ANOTHER, 1 },
	{ "after", call_after, BY_ANOTHER, 1 },
	{ "at", call_at, BY_ANOTHER, 1 },
	{ "every", call_every, BY_ANOTHER, 1 },
	{ "mod", call_mod, BY_ANOTHER, 1 },
	{ "mod_at", call_mod_at, BY_ANOTHER, 1 },
	{ "reduce", call_reduce, BY_ANOTHER, 1 },
	{ "mod_pending, to earlier", call_mod_earlier, BY_ANOTHER, 1 },
	{ "mod_many", call_mod_many, BY_ANOTHER, 1 },
	{ "key_set", call_key_set, BY_ANOTHER, 2 },
	{ "id_set, replacing", call_id_set, BY_ANOTHER, 1 },
	{ "id_move", call_id_move, BY_ANOTHER, 1 },
	{ "the others", call_what_asks_for_nothing, WITH_A_WHEEL, 0 },
	{ "the others", call_what_asks_for_nothing, BY_ANOTHER, 0 },
};
static size_t which;
static int k_th;

static void *meet(void *k)
{
	atomic_store(&fail_at, *(int *)k);
	*(int *)k = each[which].call();
	atomic_store(&fail_at, 0);
	return NULL;
}

static int make_the_call(int k)
{
	if (each[which].how == BY_ANOTHER)
		ktap_in_a_thread(meet, &k);
	else
		meet(&k);
	return k;
}

enum { GOT_BY, UNEXPECTED, ASKED_FOR_LESS, REFUSED };

static void one_refusal(void)
{
	int before = descriptors(), got;
	struct hwheel_event e;

	if (each[which].how != ALONE) {
		the_wheel = ktap_made(NULL);
		CHECK_EQ(hwheel_once(the_wheel, SEC, count, 0, 0, &armed), 0);
		CHECK_EQ(hwheel_timer_setup(the_wheel, count, 0, &idle), 0);
		CHECK_EQ(hwheel_key_set(the_wheel, NUMBER(ID), 3600 * SEC, count, 0, 0), 0);
	}
	errno = 12345;
	got = make_the_call(k_th);
	CHECK_EQ(errno, 12345);
	if (atomic_load(&failures) == 0)
		_exit(got < 0 ? UNEXPECTED : ASKED_FOR_LESS);
	/* it got by without, or it is an error; and then nothing has changed */
	if (got != -ENOMEM && got != -EMFILE && got != -EAGAIN)
		CHECK(got >= 0);
	CHECK(make_the_call(0) >= 0);
	if (the_wheel != NULL) {
		CHECK_EQ(stats(the_wheel).live, 3);
		CHECK_EQ(hwheel_key_delete(the_wheel, NUMBER(ID)), 1);
		CHECK_EQ(hwheel_timer_mod(the_wheel, armed, 0, 0), 1);
		poll_until_called(the_wheel, 1);
		CHECK_EQ(hwheel_timer_mod(the_wheel, idle, SEC, 0), 0);
		CHECK_EQ(hwheel_drain(the_wheel, &e, 1), 1);
		CHECK(e.timer == idle);
		CHECK_EQ(hwheel_destroy(the_wheel), 0);
	}
	expect_no_leak(before);
	_exit(got < 0 ? REFUSED : GOT_BY);
}

/* Refuses the first request of a child, then the second, and so on: how many failed. */
static int refuse_each(void (*run)(void))
{
	int refused = 0, status;

	for (k_th = 1;; k_th++) {
		status = status_of(start_child(run));
		CHECK(WIFEXITED(status));
		CHECK(WEXITSTATUS(status) != UNEXPECTED);
		if (WEXITSTATUS(status) == ASKED_FOR_LESS)
			return refused;
		refused += WEXITSTATUS(status) == REFUSED;
	}
}

TEST(each_call_survives_each_refusal)
{
	for (which = 0; which < COUNT(each); which++) {
		int refused = refuse_each(one_refusal);

		printf("# %s%s: asks for %d things, fails without %d\n",
		       each[which].name,
		       each[which].how == BY_ANOTHER ? " by a new thread" : "",
		       k_th - 1, refused);
		CHECK(k_th - 1 >= each[which].least);
		CHECK(each[which].least > 0 || k_th == 1);
	}
}

/*
 * Timers of all distances, while the k-th mapping, or each from the k-th on, is
 * refused: all that were armed fire.
 */
#define HORIZON (3600 * SEC)
enum { CROWD = 100000 };

static void one_crowd(void)
{
	struct hwheel *w = ktap_manual(0, 0, 0, 0);
	uint64_t x = 88172645463325252u;
	int made = 0, before = descriptors();

	atomic_store(&fail_at, k_th);
	for (int i = 0; i < CROWD; i++) {
		int got = hwheel_once(w, ktap_dice(&x) % HORIZON, count, 0, 0, NULL);

		CHECK(got == 0 || got == -ENOMEM);
		made += got == 0;
	}
	for (uint64_t now = 0; now <= HORIZON; now += 7 * SEC)
		CHECK_EQ(hwheel_advance(w, now, NULL, 0, NULL), 0);
	CHECK_EQ(hwheel_advance(w, HORIZON + SEC, NULL, 0, NULL), 0);
	CHECK_EQ(atomic_load(&calls), made);
	if (atomic_load(&failures) == 0)
		CHECK_EQ(made, CROWD);
	CHECK_EQ(hwheel_destroy(w), 0);
	expect_no_leak(before);
	_exit(atomic_load(&failures) == 0 ? ASKED_FOR_LESS : GOT_BY);
}

TEST(what_was_armed_fires_whatever_is_refused)
{
	for (int ever = 0; ever < 2; ever++) {
		atomic_store(&for_ever, ever);
		refuse_each(one_crowd);
		printf("# %d timers ask for %d things; from each on %s\n", CROWD, k_th - 1,
		       ever ? "none is given" : "all");
		CHECK(k_th > 2);
	}
	atomic_store(&for_ever, 0);
}

/* The first timer of the program fires in a poll. */
static void polling_works(struct hwheel *w)
{
	CHECK_EQ(hwheel_once(w, 0, count, 0, 0, NULL), 0);
	poll_until_called(w, 1);
}

/* The tick thread starts. A timer fires there, after this number of others. */
static void its_thread_works(struct hwheel *w, int others)
{
	CHECK_EQ(hwheel_start(w), 0);
	CHECK_EQ(hwheel_once(w, 10 * MS, count, 0, 0, NULL), 0);
	until_called(others + 1);
}

/* An alarm is the only descriptor there is; without it polling works. */
CHILD_TEST(a_filter_that_denies_the_alarm)
{
	WHEEL w = ktap_made(NULL);

	CHECK_EQ(DENY(EPERM, SYS_timerfd_create), 0);
	CHECK_EQ(hwheel_fd(w), -EPERM);
	CHECK_EQ(hwheel_start(w), -EPERM);
	polling_works(w);
}

/* One that cannot be set is none; one that no longer can, no hindrance. */
CHILD_TEST(a_filter_that_denies_setting_the_alarm)
{
	WHEEL late = ktap_made(NULL);
	struct hwheel *w = ktap_made(NULL);
	int before = descriptors();

	CHECK(hwheel_fd(late) >= 0);
	CHECK_EQ(DENY(EPERM, SYS_timerfd_settime), 0);
	CHECK_EQ(hwheel_fd(w), -EPERM);
	CHECK_EQ(hwheel_start(w), -EPERM);
	CHECK_EQ(descriptors(), before + 1);
	polling_works(w);
	CHECK_EQ(hwheel_destroy(w), 0);
	its_thread_works(late, 1);
}

CHILD_TEST(a_filter_that_denies_every_other_descriptor)
{
	CHECK_EQ(DENY(EPERM, SYS_eventfd2, SYS_signalfd4, SYS_epoll_create1, SYS_pipe2, SYS_socket,
		      SYS_openat, SYS_memfd_create, SYS_timer_create, SYS_rt_sigaction), 0);
	WHEEL w = ktap_made(NULL);
	its_thread_works(w, 0);
}

CHILD_TEST(a_filter_that_denies_threads)
{
	WHEEL w = ktap_made(NULL);
	int got;

	CHECK(hwheel_fd(w) >= 0);
	CHECK_EQ(DENY(EPERM, SYS_clone, SYS_clone3), 0);
	got = hwheel_start(w);
	CHECK(got == -EPERM || got == -EAGAIN);
	polling_works(w);
	CHECK_EQ(hwheel_stop(w), 0);
}

CHILD_TEST(a_filter_that_denies_memory)
{
	WHEEL w = ktap_made(NULL);
	struct hwheel *none = NULL;
	hwheel_timer_t t = 0;

	CHECK_EQ(DENY(EPERM, SYS_mmap), 0);
	CHECK_EQ(hwheel_create(NULL, &none), -ENOMEM);
	CHECK(none == NULL);
	CHECK_EQ(hwheel_timer_setup(w, count, 0, &t), -ENOMEM);
}

/* Advice and names are for comfort: huge pages, and the thread's name. */
CHILD_TEST(a_filter_that_denies_comfort)
{
	CHECK_EQ(DENY(EPERM, SYS_prctl, SYS_sched_yield), 0);
	WHEEL w = ktap_made(NULL);
	its_thread_works(w, 0);
}
