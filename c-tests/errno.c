/* "errno itself is left alone": by what succeeds and by what fails. */
#include <sys/resource.h>
#include "ktap.h"

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

static atomic_int calls, release;

static void count(struct hwheel *w, const struct hwheel_event *e)
{
	atomic_fetch_add(&calls, 1);
	while (!atomic_load(&release))
		ktap_sleep_ms(1);
}

TEST(success_leaves_errno_alone)
{
	struct hwheel *w = NULL;
	struct hwheel_event e;
	struct hwheel_stats s = { .size = sizeof s };
	hwheel_timer_t t = 0;
	uint64_t ns = 0;
	int fd;

	QUIET(hwheel_create(NULL, &w), 0);
	QUIET(hwheel_now(w, &ns), 0);
	QUIET(hwheel_timer_setup(w, NULL, 0, &t), 0);
	QUIET(hwheel_timer_mod(w, t, 3600 * SEC, 0), 0);
	QUIET(hwheel_next_expiry(w, &ns), 1);
	QUIET(hwheel_get_stats(w, &s), 0);
	ns = 0;
	QUIET(hwheel_list(w, &ns, &e, 1), 1);
	errno = MARK;
	CHECK(hwheel_strerror(-ESTALE) != NULL);
	CHECK_EQ(errno, MARK);
	errno = MARK;
	fd = hwheel_fd(w);
	CHECK_EQ(errno, MARK);
	CHECK(fd >= 0);
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

TEST(waiting_leaves_errno_alone)
{
	WHEEL w = ktap_started(NULL);

	for (int i = 0; i < 200; i++) {
		hwheel_timer_t t = 0;
		int answer, after;

		atomic_store(&release, 1);
		t = ktap_armed(w, count, 0, 0);
		if (i % 4 == 0)
			while (hwheel_timer_pending(w, t) == 1)
				;
		errno = MARK;
		answer = hwheel_timer_shutdown_sync(w, t);
		after = errno;
		CHECK(answer == 0 || answer == 1);
		CHECK_EQ(after, MARK);
		CHECK_EQ(hwheel_timer_free(w, t), 0);
	}
}

TEST(a_lack_of_descriptors_leaves_errno_alone)
{
	WHEEL w = ktap_made(NULL);
	struct rlimit old, none;
	int fd, of_fd, start, of_start;

	CHECK_EQ(getrlimit(RLIMIT_NOFILE, &old), 0);
	none = old;
	none.rlim_cur = 0;
	CHECK_EQ(setrlimit(RLIMIT_NOFILE, &none), 0);
	errno = MARK;
	fd = hwheel_fd(w);
	of_fd = errno;
	errno = MARK;
	start = hwheel_start(w);
	of_start = errno;
	CHECK_EQ(setrlimit(RLIMIT_NOFILE, &old), 0);
	CHECK_EQ(fd, -EMFILE);
	CHECK_EQ(start, -EMFILE);
	CHECK_EQ(of_fd, MARK);
	CHECK_EQ(of_start, MARK);
}

TEST(a_lack_of_memory_leaves_errno_alone)
{
	WHEEL w = NULL, *none_made = NULL;
	struct rlimit old, none;
	hwheel_timer_t t = 0;
	int create, of_create, setup, of_setup;

	CHECK_EQ(hwheel_create(NULL, &w), 0);
	CHECK_EQ(getrlimit(RLIMIT_AS, &old), 0);
	none = old;
	/* below what is in use: nothing more can be mapped */
	none.rlim_cur = 4096;
	CHECK_EQ(setrlimit(RLIMIT_AS, &none), 0);
	errno = MARK;
	create = hwheel_create(NULL, &none_made);
	of_create = errno;
	errno = MARK;
	setup = hwheel_timer_setup(w, NULL, 0, &t);
	of_setup = errno;
	CHECK_EQ(setrlimit(RLIMIT_AS, &old), 0);
	CHECK_EQ(create, -ENOMEM);
	CHECK_EQ(setup, -ENOMEM);
	CHECK_EQ(of_create, MARK);
	CHECK_EQ(of_setup, MARK);
}
