/* "errno itself is left alone": by what succeeds and by what fails. */
#include <fcntl.h>
#include <sys/resource.h>
#include "child.h"

#define MARK 12345

/* The answer of a call, which did not touch errno. */
#define QUIET(call, want) do { \
	int quiet_answer, quiet_errno; \
	errno = MARK; \
	quiet_answer = (call); \
	quiet_errno = errno; \
	CHECK_EQ(quiet_answer, want); \
	CHECK_EQ(quiet_errno, MARK); \
} while (0)

/* What the system refuses, in a child. First: a thread of the parent leaves its stack to the next. */

static struct hwheel_options o = { .size = sizeof o };
static struct hwheel *w;

static void prepare(void)
{
	w = ktap_made(NULL);
	CHECK(hwheel_fd(w) >= 0);
}

static void refuse_threads(void)
{
	if (DENY(EAGAIN, SYS_clone3, SYS_clone) != 0)
		_exit(77);
}

/* Limits the address space to its present size and the given bytes more. */
static void limit_space(unsigned long more)
{
	struct rlimit limit;
	pthread_attr_t stack;

	/* glibc's; musl's is smaller than what is left. */
	CHECK_EQ(pthread_attr_init(&stack), 0);
	CHECK_EQ(pthread_attr_setstacksize(&stack, 8 << 20), 0);
	CHECK_EQ(pthread_setattr_default_np(&stack), 0);
	limit.rlim_cur = limit.rlim_max = ktap_memory(KTAP_SPACE) + more;
	CHECK_EQ(setrlimit(RLIMIT_AS, &limit), 0);
}

static void refused(void (*run)(void))
{
	int status;

	if (KTAP_SLOW)
		SKIP("what is refused is needed here");
	status = status_of(start_child(run));
	if (WIFEXITED(status) && WEXITSTATUS(status) == 77)
		SKIP("no seccomp here");
	CHECK_EQ(status, 0);
}

#define REFUSED(name) \
	static void name##_in_it(void); \
	TEST(name) { refused(name##_in_it); } \
	static void name##_in_it(void)

REFUSED(start_without_a_thread)
{
	prepare();
	refuse_threads();
	QUIET(hwheel_start(w), -EAGAIN);
}

REFUSED(start_without_a_stack)
{
	prepare();
	limit_space(1 << 20);
	QUIET(hwheel_start(w), -EAGAIN);
}

REFUSED(workers_without_stacks)
{
	prepare();
	o.workers = 4;
	limit_space(16 << 20);
	QUIET(hwheel_create(&o, &w), -EAGAIN);
}

REFUSED(start_without_a_descriptor_for_the_name)
{
	prepare();
	while (open("/dev/null", O_RDONLY) >= 0)
		;
	QUIET(hwheel_start(w), 0);
	QUIET(hwheel_once(w, 0, NULL, 0, 0, NULL), 0);
	QUIET(hwheel_stop(w), 0);
	QUIET(hwheel_destroy(w), 0);
}

REFUSED(descriptor_without_one)
{
	CHECK_EQ(hwheel_create(&o, &w), 0);
	while (open("/dev/null", O_RDONLY) >= 0)
		;
	QUIET(hwheel_fd(w), -EMFILE);
	QUIET(hwheel_start(w), -EMFILE);
}

REFUSED(create_without_space)
{
	int made = 0, r = 0;

	CHECK_EQ(hwheel_create(&o, &w), 0);
	limit_space(8 << 20);
	while (made < 100000 && r == 0) {
		errno = MARK;
		r = hwheel_create(&o, &w);
		CHECK_EQ(errno, MARK);
		made++;
	}
	CHECK_EQ(r, -ENOMEM);
	QUIET(hwheel_once(w, 0, NULL, 0, 0, NULL), -ENOMEM);
}

TEST(success_leaves_errno_alone)
{
	struct hwheel *w = NULL;
	struct hwheel_event e;
	struct hwheel_stats s = { .size = sizeof s };
	hwheel_timer_t t = 0;
	uint64_t ns = 0;

	QUIET(hwheel_create(NULL, &w), 0);
	QUIET(hwheel_now(w, &ns), 0);
	QUIET(hwheel_timer_setup(w, NULL, 0, &t), 0);
	QUIET(hwheel_timer_mod(w, t, 3600 * SEC, 0), 0);
	QUIET(hwheel_next_expiry(w, &ns), 1);
	QUIET(hwheel_get_stats(w, &s), 0);
	ns = 0;
	QUIET(hwheel_list(w, &ns, &e, 1), 1);
	QUIET(hwheel_strerror(-ESTALE) != NULL, 1);
	QUIET(hwheel_fd(w) >= 0, 1);
	QUIET(hwheel_poll(w, &e, 1, NULL), 0);
	QUIET(hwheel_timer_mod(w, t, SEC, 0), 1);
	QUIET(hwheel_start(w), 0);
	QUIET(hwheel_stop(w), 0);
	QUIET(hwheel_timer_delete_sync(w, t), 1);
	QUIET(hwheel_timer_free(w, t), 0);
	for (uint64_t id = 0; id < 1000; id++)
		QUIET(hwheel_key_set(w, NUMBER(id), 3600 * SEC, NULL, 0, 0), 0);
	QUIET(hwheel_key_mod(w, NUMBER(7), 7200 * SEC, 0), 1);
	QUIET(hwheel_key_pending(w, NUMBER(7)), 1);
	ns = 0;
	QUIET(hwheel_list(w, &ns, &e, 1), 1);
	for (uint64_t id = 0; id < 1000; id++)
		QUIET(hwheel_key_delete(w, NUMBER(id)), 1);
	QUIET(hwheel_drain(w, &e, 1), 0);
	QUIET(hwheel_destroy(w), 0);
	QUIET(hwheel_destroy(NULL), 0);
}

TEST(refusals_leave_errno_alone)
{
	struct hwheel *w = NULL;
	struct hwheel_event e;

	QUIET(hwheel_create(NULL, NULL), -EINVAL);
	QUIET(hwheel_create(NULL, &w), 0);
	QUIET(hwheel_timer_mod(w, 77, SEC, 0), -ESTALE);
	QUIET(hwheel_timer_delete_sync(w, 77), -ESTALE);
	QUIET(hwheel_advance(w, SEC, &e, 1, NULL), -EINVAL);
	QUIET(hwheel_start(w), 0);
	QUIET(hwheel_start(w), -EBUSY);
	QUIET(hwheel_poll(w, &e, 1, NULL), -EBUSY);
	QUIET(hwheel_drain(w, &e, 1), -EBUSY);
	QUIET(hwheel_destroy(w), 0);
}

THREAD_TEST(waiting_leaves_errno_alone)
{
	for (int i = 0; i < 200; i++) {
		hwheel_timer_t t = ktap_armed(w, ktap_nothing, 0, 0);
		int answer;

		if (i % 4 == 0)
			while (hwheel_timer_pending(w, t) == 1)
				;
		QUIET(answer = hwheel_timer_shutdown_sync(w, t), answer);
		CHECK(answer == 0 || answer == 1);
		CHECK_EQ(hwheel_timer_free(w, t), 0);
	}
}
