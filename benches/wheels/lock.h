/*
 * What a user puts around timers for one thread if there are several: nothing,
 * a spin lock or a mutex, chosen when the program is compiled.
 */
#ifndef LOCK_H
#define LOCK_H

#if defined(LOCK_SPIN)
static struct { int taken; char rest[60]; } spin __attribute__((aligned(64)));

static inline void relax(void)
{
#if defined(__x86_64__) || defined(__i386__)
	__builtin_ia32_pause();
#elif defined(__aarch64__)
	__asm__ volatile("yield");
#endif
}

static inline void lock(void)
{
	while (__atomic_exchange_n(&spin.taken, 1, __ATOMIC_ACQUIRE))
		while (__atomic_load_n(&spin.taken, __ATOMIC_RELAXED))
			relax();
}

static inline void unlock(void)
{
	__atomic_store_n(&spin.taken, 0, __ATOMIC_RELEASE);
}
#elif defined(LOCK_MUTEX)
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;

static inline void lock(void)
{
	pthread_mutex_lock(&mutex);
}

static inline void unlock(void)
{
	pthread_mutex_unlock(&mutex);
}
#else
#define ONE_THREAD
static inline void lock(void) {}
static inline void unlock(void) {}
#endif

static inline void lock_for(unsigned threads)
{
#ifdef ONE_THREAD
	if (threads > 1) {
		fprintf(stderr, "for one thread only\n");
		exit(1);
	}
#else
	(void)threads;
#endif
}

#endif
