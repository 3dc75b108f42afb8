/* Tests that run in a child of their own. */
#ifndef CHILD_H
#define CHILD_H

#include <signal.h>
#include <stdatomic.h>
#include <sys/wait.h>
#include <unistd.h>
#include "ktap.h"

/* Ends the child with a failure unless two integers are equal. */
#define EXPECT(value, wanted) do { \
	long long expect_got = (long long)(value); \
	long long expect_want = (long long)(wanted); \
	if (expect_got != expect_want) { \
		printf("# %s:%d: %s is %lld, not %s (%lld)\n", __FILE__, \
		       __LINE__, #value, expect_got, #wanted, expect_want); \
		fflush(stdout); \
		_exit(1); \
	} \
} while (0)

/* Hanging is failing. */
#define PATIENCE_S 120

/* Waits in a child until a count is high enough. */
static inline void until(atomic_int *what, int at_least)
{
	for (int i = 0; i < 20000 && atomic_load(what) < at_least; i++)
		ktap_sleep_ms(1);
	EXPECT(atomic_load(what) >= at_least, 1);
}

static inline pid_t start_child(void (*run)(void))
{
	pid_t child;

	fflush(stdout);
	child = fork();
	CHECK(child >= 0);
	if (child == 0) {
		alarm(PATIENCE_S);
		run();
		fflush(stdout);
		/* What threads of the parent held stays where it is. */
		_exit(0);
	}
	return child;
}

static inline int status_of(pid_t child)
{
	int status = 0;

	CHECK_EQ(waitpid(child, &status, 0), child);
	return status;
}

static inline void in_a_child(void (*run)(void))
{
	CHECK_EQ(status_of(start_child(run)), 0);
}

#endif
