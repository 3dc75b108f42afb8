/* Tests that run in a child of their own. */
#ifndef CHILD_H
#define CHILD_H

#include <sys/wait.h>
#include "ktap.h"

/* Hanging is failing. */
#define PATIENCE_S 120

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

/* A test that runs in a child. */
#define CHILD_TEST(name) \
	static void name##_in_it(void); \
	TEST(name) { in_a_child(name##_in_it); } \
	static void name##_in_it(void)

#endif
