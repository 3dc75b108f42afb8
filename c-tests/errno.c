/* "errno itself is left alone": by what succeeds and by what fails. */
#include <stdatomic.h>
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
	(void)w;
	(void)e;
	atomic_fetch_add(&calls, 1);
	while (!atomic_load(&release))
		ktap_sleep_ms(1);
}

static void success_leaves_errno_alone(void)
{
	struct hwheel *w = NULL;
	struct hwheel_event e;
	struct hwheel_stats s = { .size = sizeof s };
	hwheel_timer_t t = 0;
	uint64_t ns = 0;
	int fd;

	QUIET(hwheel_create(NULL, 0, &w), 0);
	QUIET(hwheel_now(w, &ns), 0);
	QUIET(hwheel_setup(w, NULL, 0, 0, &t), 0);
	QUIET(hwheel_mod(w, t, 3600 * SEC, 0), 0);
	QUIET(hwheel_next_expiry(w, &ns), 1);
	QUIET(hwheel_get_stats(w, &s), 0);
	errno = MARK;
	fd = hwheel_fd(w);
	CHECK_EQ(errno, MARK);
	CHECK(fd >= 0);
	QUIET(hwheel_poll(w, &e, 1), 0);
	QUIET(hwheel_mod(w, t, SEC, 0), 1);
	QUIET(hwheel_start(w, 0), 0);
	QUIET(hwheel_stop(w), 0);
	QUIET(hwheel_delete_sync(w, t), 1);
	QUIET(hwheel_free(w, t), 0);
	QUIET(hwheel_drain(w, &e, 1), 0);
	QUIET(hwheel_destroy(w), 0);
	QUIET(hwheel_destroy(NULL), 0);
}

static void refusals_leave_errno_alone(void)
{
	struct hwheel *w = NULL;
	struct hwheel_event e;

	QUIET(hwheel_create(NULL, 1, &w), -EINVAL);
	QUIET(hwheel_create(NULL, 0, &w), 0);
	QUIET(hwheel_mod(w, 77, SEC, 0), -ESTALE);
	QUIET(hwheel_delete_sync(w, 77), -ESTALE);
	QUIET(hwheel_advance(w, SEC, &e, 1), -EINVAL);
	QUIET(hwheel_start(w, 0), 0);
	QUIET(hwheel_start(w, 0), -EBUSY);
	QUIET(hwheel_poll(w, &e, 1), -EBUSY);
	QUIET(hwheel_drain(w, &e, 1), -EBUSY);
	QUIET(hwheel_destroy(w), 0);
}

static void waiting_leaves_errno_alone(void)
{
	struct hwheel *w = NULL;

	CHECK_EQ(hwheel_create(NULL, 0, &w), 0);
	CHECK_EQ(hwheel_start(w, 0), 0);
	for (int i = 0; i < 200; i++) {
		hwheel_timer_t t = 0;
		int answer, after;

		atomic_store(&release, 1);
		CHECK_EQ(hwheel_setup(w, count, 0, 0, &t), 0);
		CHECK_EQ(hwheel_mod(w, t, 0, 0), 0);
		if (i % 4 == 0)
			while (hwheel_pending(w, t) == 1)
				;
		errno = MARK;
		answer = hwheel_shutdown_sync(w, t);
		after = errno;
		CHECK(answer == 0 || answer == 1);
		CHECK_EQ(after, MARK);
		CHECK_EQ(hwheel_free(w, t), 0);
	}
	CHECK_EQ(hwheel_destroy(w), 0);
}

static const struct ktap_test tests[] = {
	TEST(success_leaves_errno_alone),
	TEST(refusals_leave_errno_alone),
	TEST(waiting_leaves_errno_alone),
};
KTAP_MAIN(tests)
