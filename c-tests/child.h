/* Tests that run in a child of their own. */
#ifndef CHILD_H
#define CHILD_H

#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
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

/* Filters system calls: these fail until the process ends. Returns 0, or -1 without seccomp. */
#define DENY(error, ...) deny(error, sizeof((const int[]){ __VA_ARGS__ }) / sizeof(int), \
			      (const int[]){ __VA_ARGS__ })

static inline int deny(int error, size_t n, const int *numbers)
{
	struct sock_filter code[2 * 16 + 2];
	struct sock_fprog filter = { 0, code };
	unsigned short at = 0;

	CHECK(n <= 16);
	code[at++] = (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS,
						  offsetof(struct seccomp_data, nr));
	for (size_t i = 0; i < n; i++) {
		code[at++] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K,
							  (unsigned)numbers[i], 0, 1);
		code[at++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K,
							  SECCOMP_RET_ERRNO | (unsigned)error);
	}
	code[at++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
	filter.len = at;
	CHECK_EQ(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), 0);
	return prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter);
}

/* A test that runs in a child. */
#define CHILD_TEST(name) \
	static void name##_in_it(void); \
	TEST(name) { in_a_child(name##_in_it); } \
	static void name##_in_it(void)

#endif
