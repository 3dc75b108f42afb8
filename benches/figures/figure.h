/* Functions that the programs of this directory share. */
#ifndef FIGURE_H
#define FIGURE_H

#include <errno.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <hwheel.h>

#define MS UINT64_C(1000000)

static inline double seconds(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static inline struct hwheel *manual(uint64_t tick_ns, uint32_t levels, uint32_t slots)
{
	struct hwheel_options o;
	struct hwheel *w = NULL;

	memset(&o, 0, sizeof o);
	o.size = sizeof o;
	o.clock = HWHEEL_CLOCK_MANUAL;
	o.tick_ns = tick_ns;
	o.levels = levels;
	o.slots = slots;
	if (hwheel_create(&o, &w) != 0)
		abort();
	return w;
}

/* Threads that use a wheel once, and then keep their part of it. */
struct users {
	struct hwheel *wheel;
	void (*use)(struct hwheel *wheel, unsigned n);
	unsigned count;
	pthread_barrier_t used, done;
	pthread_t threads[256];
};

struct user {
	struct users *all;
	unsigned n;
};

static inline void *user(void *arg)
{
	struct user mine = *(struct user *)arg;

	free(arg);
	mine.all->use(mine.all->wheel, mine.n);
	pthread_barrier_wait(&mine.all->used);
	pthread_barrier_wait(&mine.all->done);
	return NULL;
}

static inline void begin(struct users *all, struct hwheel *w, unsigned count,
			 void (*use)(struct hwheel *, unsigned))
{
	all->wheel = w;
	all->use = use;
	all->count = count;
	pthread_barrier_init(&all->used, NULL, count + 1);
	pthread_barrier_init(&all->done, NULL, count + 1);
	for (unsigned i = 0; i < count; i++) {
		struct user *one = malloc(sizeof *one);

		if (one == NULL)
			abort();
		one->all = all;
		one->n = i;
		if (pthread_create(&all->threads[i], NULL, user, one) != 0)
			abort();
	}
	pthread_barrier_wait(&all->used);
}

static inline void finish(struct users *all)
{
	pthread_barrier_wait(&all->done);
	for (unsigned i = 0; i < all->count; i++)
		pthread_join(all->threads[i], NULL);
}

#endif
