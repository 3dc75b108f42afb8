/*
 * Clocks and alarms of the program itself, which the library uses instead of the system's.
 * They stand still until the test moves them, so that a sleep of years takes no time.
 *
 * An alarm is a descriptor of timerfd_create(). It becomes readable when the test has moved its
 * clock to the time for which it is set.
 */
#ifndef TEST_CLOCK_H
#define TEST_CLOCK_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <sys/syscall.h>
#include <sys/timerfd.h>
#include <time.h>
#include <unistd.h>

/* The time of each clock. 0: that of the system. */
static _Atomic uint64_t clock_of[16];
/* How much later each look at CLOCK_MONOTONIC finds it. */
static _Atomic uint64_t look_ns;

static struct alarm_fd {
	int fd, clock, in_use;
	/* The time for which it is set, in ns; 0 if it is not set. */
	uint64_t at;
	/* It has gone off, and was not set again; and how often it was set. */
	int has_gone_off;
	unsigned sets;
} alarms[64];
static pthread_mutex_t alarms_lock = PTHREAD_MUTEX_INITIALIZER;

int clock_gettime(clockid_t clock, struct timespec *t)
{
	uint64_t ns = clock >= 0 && clock < 16 ? clock_of[clock] : 0;

	if (ns == 0)
		return (int)syscall(SYS_clock_gettime, clock, t);
	if (clock == CLOCK_MONOTONIC && look_ns != 0)
		ns = atomic_fetch_add(&clock_of[clock], look_ns) + look_ns;
	t->tv_sec = (time_t)(ns / 1000000000);
	t->tv_nsec = (long)(ns % 1000000000);
	return 0;
}

/* The descriptor is one of the system's. It goes off at once, or is not set. */
static inline int alarm_system(struct alarm_fd *a, int now)
{
	struct itimerspec value = { { 0, 0 }, { 0, now } };

	a->has_gone_off = now;
	return (int)syscall(SYS_timerfd_settime, a->fd, 0, &value, NULL);
}

int timerfd_create(int clock, int flags)
{
	int fd = (int)syscall(SYS_timerfd_create, CLOCK_MONOTONIC, flags);

	pthread_mutex_lock(&alarms_lock);
	for (unsigned i = 0; fd >= 0 && i < sizeof alarms / sizeof alarms[0]; i++) {
		/* The system gives the number again after it was closed. */
		if (alarms[i].in_use && alarms[i].fd != fd)
			continue;
		alarms[i] = (struct alarm_fd){ .fd = fd, .clock = clock, .in_use = 1 };
		break;
	}
	pthread_mutex_unlock(&alarms_lock);
	return fd;
}

static inline struct alarm_fd *alarm_of(int fd)
{
	for (unsigned i = 0; i < sizeof alarms / sizeof alarms[0]; i++)
		if (alarms[i].in_use && alarms[i].fd == fd)
			return &alarms[i];
	return NULL;
}

int timerfd_settime(int fd, int flags, const struct itimerspec *to, struct itimerspec *old)
{
	struct alarm_fd *a;
	int result;

	pthread_mutex_lock(&alarms_lock);
	a = alarm_of(fd);
	if (a == NULL) {
		result = (int)syscall(SYS_timerfd_settime, fd, flags, to, old);
	} else {
		a->at = (uint64_t)to->it_value.tv_sec * 1000000000 +
			(uint64_t)to->it_value.tv_nsec;
		a->sets++;
		result = alarm_system(a, a->at != 0 && a->at <= clock_of[a->clock]);
	}
	pthread_mutex_unlock(&alarms_lock);
	return result;
}

/* Moves a clock. As the system does, an alarm of the wall clock goes off when that is set. */
static inline void set_clock(clockid_t clock, uint64_t ns)
{
	pthread_mutex_lock(&alarms_lock);
	clock_of[clock] = ns;
	for (unsigned i = 0; i < sizeof alarms / sizeof alarms[0]; i++) {
		struct alarm_fd *a = &alarms[i];

		if (a->in_use && a->clock == clock && a->at != 0 &&
		    (a->at <= ns || clock == CLOCK_REALTIME))
			alarm_system(a, 1);
	}
	pthread_mutex_unlock(&alarms_lock);
}

static inline struct alarm_fd alarm_seen(int fd)
{
	struct alarm_fd seen, *a;

	pthread_mutex_lock(&alarms_lock);
	a = alarm_of(fd);
	seen = a != NULL ? *a : (struct alarm_fd){ .fd = -1 };
	pthread_mutex_unlock(&alarms_lock);
	return seen;
}

/*
 * Waits until a thread has set its alarm to a later time than @now, behind its first @sets
 * settings, and so sleeps. False if that takes long.
 */
static inline int alarm_sleeps(int fd, uint64_t now, unsigned sets)
{
	for (int i = 0; i < 10000; i++) {
		struct alarm_fd a = alarm_seen(fd);

		if (a.at > now && !a.has_gone_off && a.sets != sets)
			return 1;
		nanosleep(&(struct timespec){ 0, i < 50 ? 20000 : 1000000 }, NULL);
	}
	return 0;
}

#endif
