/* fork(): the child does not use its parent's wheel, and hangs nowhere. */
#include <poll.h>
#include <sys/mman.h>
#include "calls.h"
#include "counted.h"
#include "events.h"

/* The parent's wheel. */
static struct hwheel *w;

static hwheel_timer_t of_parent;

static void on_call(struct hwheel *wheel, const struct hwheel_event *e)
{
	count(wheel, e);
}

static void try_everything(void)
{
	timer = of_parent;
	ALL_RETURN(w, owners_only, -ESHUTDOWN);
	ALL_RETURN(w, readers, -ESHUTDOWN);
	CHECK_EQ(atomic_load(&calls), 0);
}

static void try_everything_and_destroy(void)
{
	try_everything();
	CHECK_EQ(hwheel_destroy(w), 0);
}

static void use_an_own_wheel(void)
{
	struct hwheel *mine = ktap_manual(0, 0, 0, 0);
	hwheel_timer_t t = 0;

	CHECK_EQ(hwheel_once(mine, MS, NULL, 5, 0, &t), 0);
	CHECK_EQ(hwheel_timer_pending(mine, of_parent), -ESTALE);
	CHECK_EQ(one_event(mine, SEC).timer, t);
	CHECK_EQ(hwheel_destroy(mine), 0);
	/* with a thread of its own */
	mine = ktap_started(NULL);
	CHECK_EQ(hwheel_once(mine, MS, count, 0, 0, NULL), 0);
	ktap_until(&calls, 1);
	CHECK_EQ(hwheel_destroy(mine), 0);
	/* the parent's is still not to be used */
	CHECK_EQ(hwheel_timer_pending(w, of_parent), -ESHUTDOWN);
}

static void use_an_own_wheel_and_destroy(void)
{
	use_an_own_wheel();
	CHECK_EQ(hwheel_destroy(w), 0);
}

static void arm_manual(void)
{
	w = ktap_manual(0, 0, 0, 0);
	atomic_store(&calls, 0);
	of_parent = ktap_armed(w, NULL, 9, 10 * MS);
	/* from now on this thread sets the clock without a lock, up to that time */
	CHECK_EQ(hwheel_advance(w, 0, NULL, 0, NULL), 0);
	CHECK_EQ(hwheel_advance(w, 0, NULL, 0, NULL), 0);
}

/* Runs two children. Then the parent's wheel is as it was. */
static void goes_on_after(void (*first)(void), void (*second)(void))
{
	arm_manual();
	in_a_child(first);
	in_a_child(second);
	CHECK_EQ(ktap_now(w), 0);
	CHECK_EQ(hwheel_timer_pending(w, of_parent), 1);
	CHECK_EQ(hwheel_once(w, 3600 * SEC, NULL, 0, 0, NULL), 0);
	no_event(w, 10 * MS - 1);
	CHECK_EQ(one_event(w, 10 * MS).timer, of_parent);
	CHECK_EQ(hwheel_destroy(w), 0);
}

TEST_OF(every_call_in_a_child_is_refused, goes_on_after(try_everything, try_everything))
TEST_OF(a_child_may_destroy_its_copy,
	goes_on_after(try_everything_and_destroy, try_everything_and_destroy))
TEST_OF(a_child_makes_its_own_wheel,
	goes_on_after(use_an_own_wheel, use_an_own_wheel_and_destroy))

static struct hwheel *of_the_child;

static void use_neither_wheel_before(void)
{
	CHECK_EQ(hwheel_once(of_the_child, MS, NULL, 0, 0, NULL), -ESHUTDOWN);
	try_everything();
	use_an_own_wheel_and_destroy();
	CHECK_EQ(hwheel_destroy(of_the_child), 0);
}

static void a_grandchild_too(void)
{
	of_the_child = ktap_made(NULL);
	CHECK_EQ(hwheel_once(of_the_child, 3600 * SEC, NULL, 0, 0, NULL), 0);
	in_a_child(use_neither_wheel_before);
	CHECK_EQ(hwheel_once(of_the_child, MS, NULL, 0, 0, NULL), 0);
	CHECK_EQ(hwheel_destroy(of_the_child), 0);
}

TEST_OF(generations_of_children, goes_on_after(a_grandchild_too, a_grandchild_too))

static void do_nothing_for_a_while(void)
{
	int before = atomic_load(&calls);

	/* it is not driven here */
	ktap_sleep_ms(20);
	CHECK_EQ(atomic_load(&calls), before);
	CHECK_EQ(hwheel_stop(w), -ESHUTDOWN);
	CHECK_EQ(hwheel_destroy(w), 0);
}

TEST(the_parents_tick_thread_goes_on)
{
	atomic_store(&calls, 0);
	w = ktap_started(NULL);
	CHECK_EQ(hwheel_every(w, MS, MS, 0, count, 0, 0, &of_parent), 0);
	ktap_until(&calls, 1);
	/* at whatever moment of the thread */
	for (int i = 0; i < 5; i++) {
		in_a_child(do_nothing_for_a_while);
		ktap_until(&calls, atomic_load(&calls) + 2);
	}
	/* also for the deadline of a sleeper whose descriptor the child has closed */
	CHECK_EQ(hwheel_timer_delete(w, of_parent), 1);
	CHECK_EQ(hwheel_stop(w), 0);
	CHECK_EQ(hwheel_start(w), 0);
	atomic_store(&calls, 0);
	CHECK_EQ(hwheel_once(w, 3600 * SEC, count, 0, 0, &of_parent), 0);
	for (int i = 0; i < 5; i++) {
		in_a_child(try_everything_and_destroy);
		in_a_child(use_an_own_wheel_and_destroy);
	}
	CHECK_EQ(hwheel_timer_delete(w, of_parent), 1);
	CHECK_EQ(hwheel_once(w, 100 * MS, count, 0, 0, NULL), 0);
	in_a_child(do_nothing_for_a_while);
	ktap_until(&calls, 1);
	CHECK_EQ(hwheel_destroy(w), 0);
}

/* Memory that a child shares with its parent. */
static void *map_shared(void)
{
	void *at = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

	CHECK(at != MAP_FAILED);
	return at;
}

/* The result that a child of a callback got. */
static int *inner;

static void fork_inside(struct hwheel *wheel, const struct hwheel_event *e)
{
	pid_t child = fork();
	int status = 0;

	if (child == 0) {
		struct hwheel_event out;

		alarm(30);
		inner[0] = hwheel_advance(w, SEC, &out, 1, NULL);
		inner[1] = hwheel_once(w, MS, NULL, 0, 0, NULL);
		inner[2] = hwheel_timer_delete_sync(w, e->timer);
		_exit(0);
	}
	if (waitpid(child, &status, 0) != child || status != 0)
		inner[3] = 1;
}

TEST(a_fork_in_a_callback)
{
	struct hwheel_event e;

	w = ktap_manual(0, 0, 0, 0);
	inner = map_shared();
	CHECK_EQ(hwheel_once(w, MS, fork_inside, 0, 0, NULL), 0);
	CHECK_EQ(hwheel_once(w, 2 * MS, NULL, 0, 0, NULL), 0);
	CHECK_EQ(hwheel_advance(w, SEC, &e, 1, NULL), 1);
	CHECK_EQ(inner[0], -ESHUTDOWN);
	CHECK_EQ(inner[1], -ESHUTDOWN);
	CHECK_EQ(inner[2], -ESHUTDOWN);
	CHECK_EQ(inner[3], 0);
	munmap(inner, 4096);
	CHECK_EQ(hwheel_destroy(w), 0);
}

static int is_child, before_the_fork;

static void fork_and_return(struct hwheel *wheel, const struct hwheel_event *e)
{
	pid_t child = fork();
	int status = 0;

	before_the_fork = atomic_load(&calls);
	is_child = child == 0;
	if (!is_child && (waitpid(child, &status, 0) != child || status != 0))
		inner[3] = 1;
}

/* Arms a new timer that frees itself, or one that stays. */
static void arm_either(int stays, uint64_t ns, hwheel_fn fn)
{
	if (stays)
		ktap_armed(w, fn, 0, ns);
	else
		CHECK_EQ(hwheel_once(w, ns, fn, 0, 0, NULL), 0);
}

/*
 * The child's sweep ends there: what is due next, even at the same tick, fires in the
 * parent alone. One of the others is behind it in any case.
 */
TEST(a_child_that_returns_from_the_callback)
{
	for (int stays = 0; stays < 2; stays++) {
		int got;

		w = ktap_manual(0, 0, 0, 0);
		inner = map_shared();
		atomic_store(&calls, 0);
		arm_either(stays, MS, count);
		arm_either(stays, MS, fork_and_return);
		arm_either(stays, MS, count);
		arm_either(stays, 2 * MS, count);
		got = hwheel_advance(w, SEC, NULL, 0, NULL);
		if (is_child) {
			inner[0] = got;
			inner[1] = atomic_load(&calls) - before_the_fork;
			inner[2] = hwheel_advance(w, SEC, NULL, 0, NULL);
			_exit(0);
		}
		CHECK_EQ(got, 0);
		CHECK_EQ(atomic_load(&calls), 3);
		CHECK_EQ(inner[0], 0);
		CHECK_EQ(inner[1], 0);
		CHECK_EQ(inner[2], -ESHUTDOWN);
		CHECK_EQ(inner[3], 0);
		munmap(inner, 4096);
		CHECK_EQ(hwheel_destroy(w), 0);
	}
}

/* The child of a callback, which returns from it; its calls are counted apart. */
enum { IN_PARENT, IN_CHILD, CHILD, SHARED };
static _Atomic int *shared;
static pid_t parent;

/*
 * Asked by LeakSanitizer at the end of a process. Such a child keeps its copy of the
 * wheel, in whose mapping LeakSanitizer looks for no pointers.
 */
int __lsan_is_turned_off(void);
int __lsan_is_turned_off(void)
{
	return parent != 0 && getpid() != parent;
}

static void count_apart(struct hwheel *w, const struct hwheel_event *e)
{
	atomic_fetch_add(&shared[getpid() == parent ? IN_PARENT : IN_CHILD], 1);
}

static void fork_and_go_on(struct hwheel *wheel, const struct hwheel_event *e)
{
	pid_t child;

	count_apart(wheel, e);
	child = fork();
	if (child == 0) {
		sigset_t alarms;

		/* the library's threads block it */
		sigemptyset(&alarms);
		sigaddset(&alarms, SIGALRM);
		sigprocmask(SIG_UNBLOCK, &alarms, NULL);
		alarm(10);
	} else {
		atomic_store(&shared[CHILD], child);
	}
}

static void begin_apart(void)
{
	parent = getpid();
	shared = map_shared();
}

/* The child has ended by itself, without a callback. */
static void end_apart(void)
{
	CHECK_EQ(status_of(shared[CHILD]), 0);
	CHECK_EQ(shared[IN_CHILD], 0);
	CHECK_EQ(hwheel_destroy(w), 0);
	munmap((void *)shared, 4096);
}

/* A wheel with eleven timers, the first of which forks in its callback. */
static void one_of_eleven_forks(unsigned workers, hwheel_executor_fn executor)
{
	begin_apart();
	w = MADE(.workers = workers, .executor = executor);
	CHECK_EQ(hwheel_once(w, MS, fork_and_go_on, 0, 0, NULL), 0);
	for (unsigned i = 0; i < 10; i++)
		CHECK_EQ(hwheel_once(w, MS + i * 10 * MS, count_apart, 0, 0, NULL), 0);
}

/* All fired in the parent. */
static void all_in_the_parent(void)
{
	ktap_until(&shared[IN_PARENT], 11);
	CHECK_EQ(shared[IN_PARENT], 11);
	end_apart();
}

static void returns_into_a_thread(unsigned workers)
{
	one_of_eleven_forks(workers, NULL);
	CHECK_EQ(hwheel_start(w), 0);
	all_in_the_parent();
}

TEST_OF(a_child_that_returns_into_the_tick_thread, returns_into_a_thread(0))
TEST_OF(a_child_that_returns_into_a_worker, returns_into_a_thread(2))

/* Eleven callbacks wait for the executor, which runs none. */
static void all_are_in_the_queue(void)
{
	one_of_eleven_forks(0, ktap_no_executor);
	usleep(150000);
	CHECK_EQ(hwheel_poll(w, NULL, 0, NULL), 0);
}

/* Ends a child: with success if its call gave 0, or -ESHUTDOWN and then a destroy 0. */
static void end_child(int got)
{
	if (getpid() == parent)
		return;
	if (got == -ESHUTDOWN)
		got = hwheel_destroy(w);
	_exit(got == 0 ? 0 : 1);
}

TEST(a_child_that_returns_into_a_poll)
{
	struct pollfd p = { .events = POLLIN };

	one_of_eleven_forks(0, NULL);
	p.fd = hwheel_fd(w);
	while (shared[IN_PARENT] < 11) {
		int got;

		CHECK_EQ(poll(&p, 1, 10000), 1);
		got = hwheel_poll(w, NULL, 0, NULL);
		end_child(got);
		CHECK_EQ(got, 0);
	}
	all_in_the_parent();
}

TEST(a_child_that_returns_into_a_stop)
{
	int got;

	all_are_in_the_queue();
	got = hwheel_stop(w);
	end_child(got);
	CHECK_EQ(got, 0);
	all_in_the_parent();
}

TEST(a_child_that_returns_into_a_destroy)
{
	int got;

	all_are_in_the_queue();
	got = hwheel_destroy(w);
	if (getpid() != parent)
		_exit(got == 0 ? 0 : 1);
	CHECK_EQ(got, 0);
	w = ktap_made(NULL);
	all_in_the_parent();
}

/* Many wheels that the thread uses. */
enum { OTHERS = 17 };
static struct hwheel *others[OTHERS];

static void fork_and_destroy_another(struct hwheel *wheel, const struct hwheel_event *e)
{
	fork_and_go_on(wheel, e);
	if (getpid() != parent && hwheel_destroy(others[OTHERS - 1]) != 0)
		_exit(2);
}

/* Since its arm the thread has used 17 other wheels. */
TEST(a_child_that_destroys_another_wheel_and_returns)
{
	int got;

	begin_apart();
	w = MADE(.clock = HWHEEL_CLOCK_MANUAL, .executor = ktap_no_executor);
	CHECK_EQ(hwheel_once(w, MS, fork_and_destroy_another, 0, 0, NULL), 0);
	CHECK_EQ(hwheel_advance(w, SEC, NULL, 0, NULL), 0);
	for (int i = 0; i < OTHERS; i++) {
		others[i] = ktap_manual(0, 0, 0, 0);
		CHECK_EQ(hwheel_once(others[i], SEC, NULL, 0, 0, NULL), 0);
	}
	got = hwheel_run_queued(w);
	if (getpid() != parent)
		_exit(got == 1 ? 0 : 1);
	CHECK_EQ(got, 1);
	for (int i = 0; i < OTHERS; i++)
		CHECK_EQ(hwheel_destroy(others[i]), 0);
	end_apart();
}

/* A child's thread that has not used the parent's wheel. */
static void *delete_it(void *unused)
{
	CHECK_EQ(hwheel_timer_delete(w, of_parent), -ESHUTDOWN);
	return unused;
}

static void delete_in_a_new_thread(void)
{
	ktap_in_a_thread(delete_it, NULL);
}

TEST(a_new_thread_of_a_child)
{
	w = ktap_manual(0, 0, 0, 0);
	of_parent = ktap_armed(w, NULL, 0, SEC);
	in_a_child(delete_in_a_new_thread);
	CHECK_EQ(hwheel_destroy(w), 0);
}

/*
 * The library has a table of threads that own wheels. In a child, a thread whose destructor uses
 * timers looks for threads of the table that are gone. The other threads of the parent are gone
 * there. The thread that forked lives, so no other thread gets its number and its notes.
 */
static struct hwheel *of_child;
static pthread_key_t at_end;
static pthread_barrier_t both;

static void arm_one(void *unused)
{
	CHECK_EQ(hwheel_once(of_child, SEC, NULL, 0, 0, NULL), 0);
}

static void *arm_also_at_the_end(void *unused)
{
	arm_one(NULL);
	CHECK_EQ(pthread_setspecific(at_end, &at_end), 0);
	return unused;
}

static void *arm_with_another(void *unused)
{
	arm_one(NULL);
	pthread_barrier_wait(&both);
	return unused;
}

static void use_three_threads_at_once(void)
{
	pthread_t threads[2];
	uint64_t each;

	of_child = ktap_manual(0, 0, 0, 0);
	CHECK_EQ(pthread_key_create(&at_end, arm_one), 0);
	CHECK_EQ(pthread_barrier_init(&both, NULL, 2), 0);
	arm_one(NULL);
	each = stats(of_child).note_bytes;
	ktap_in_a_thread(arm_also_at_the_end, NULL);
	ktap_begin(threads, 2, arm_with_another, NULL);
	ktap_end(threads, 2);
	CHECK_EQ(stats(of_child).note_bytes, 3 * each);
	CHECK_EQ(hwheel_destroy(of_child), 0);
}

TEST(the_thread_that_forks_keeps_its_number)
{
	WHEEL owned = MADE(.owned = 1);

	CHECK_EQ(hwheel_once(owned, SEC, NULL, 0, 0, NULL), 0);
	in_a_child(use_three_threads_at_once);
}

/* The child has a copy of the descriptor, so the epoll still watches it. */
TEST(a_wheel_that_is_gone_wakes_nobody)
{
	struct epoll_event e;

	for (uint32_t clock = 0; clock < 3; clock++) {
		int epoll, woken;
		pid_t child;

		w = MADE(.clock = clock);
		epoll = epoll_on(w, EPOLLIN);
		CHECK_EQ(hwheel_once(w, clock == 2 ? 0 : 20 * MS, NULL, 0, 0, NULL), 0);
		if (clock < 2)
			CHECK_EQ(hwheel_poll(w, NULL, 0, NULL), 0);
		child = fork();
		CHECK(child >= 0);
		if (child == 0) {
			/* it must not disarm the parent's timer */
			hwheel_destroy(w);
			alarm(30);
			pause();
			_exit(0);
		}
		if (clock < 2)
			CHECK_EQ(epoll_wait(epoll, &e, 1, 1000 * PATIENCE_S), 1);
		CHECK_EQ(hwheel_destroy(w), 0);
		woken = epoll_wait(epoll, &e, 1, 50);
		CHECK_EQ(kill(child, SIGKILL), 0);
		status_of(child);
		CHECK_EQ(woken, 0);
		CHECK_EQ(close(epoll), 0);
	}
}

/*
 * A daemon closes all descriptors, and opens its own. They have the numbers that the wheel's
 * had in the parent.
 */
TEST(a_child_that_destroys_keeps_its_own_descriptors)
{
	for (int driven = 0; driven < 2; driven++) {
		pid_t child;

		w = ktap_made(NULL);
		if (driven)
			CHECK_EQ(hwheel_start(w), 0);
		else
			CHECK(hwheel_fd(w) >= 0);
		child = fork();
		CHECK(child >= 0);
		if (child == 0) {
			int own[16], lost = 0;

			for (int fd = 3; fd < 256; fd++)
				close(fd);
			for (unsigned i = 0; i < COUNT(own); i++)
				own[i] = open("/dev/null", O_WRONLY);
			hwheel_destroy(w);
			for (unsigned i = 0; i < COUNT(own); i++)
				lost += fcntl(own[i], F_GETFD) < 0;
			_exit(lost);
		}
		CHECK_EQ(status_of(child), 0);
		CHECK_EQ(hwheel_destroy(w), 0);
	}
}
