/*
 * A clock that is 5 s behind. With it in place of the program's own clock every
 * timer seems early, and hwheel-latency must notice.
 */
#undef clock_gettime
#include <time.h>

int clock_behind(clockid_t clock, struct timespec *t);

int clock_behind(clockid_t clock, struct timespec *t)
{
	int error = clock_gettime(clock, t);

	t->tv_sec -= 5;
	return error;
}
