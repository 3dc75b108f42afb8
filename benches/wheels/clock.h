/*
 * A false clock for implementations that ask the C library for the time: it
 * shows the time of the workload, and is cheaper to read than the real one, which
 * is in their favour.
 */
#ifndef CLOCK_H
#define CLOCK_H

#include <sys/syscall.h>

/* The time shown; 0 for the real one. */
static uint64_t shown;

int clock_gettime(clockid_t id, struct timespec *t)
{
	if (shown == 0 || id == CLOCK_MONOTONIC_RAW || id == CLOCK_THREAD_CPUTIME_ID)
		return (int)syscall(SYS_clock_gettime, id, t);
	t->tv_sec = (time_t)(shown / SEC);
	t->tv_nsec = (long)(shown % SEC);
	return 0;
}

#endif
