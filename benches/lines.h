/*
 * A workload for benches/lines.py, which reads a trace of all accesses to memory:
 * two threads and the one that passes time work in turn, on timers of their own,
 * and each operation is between two stores that the trace shows.
 */
#ifndef LINES_H
#define LINES_H

#include <semaphore.h>

enum { TURN_ARM, TURN_REARM, TURN_CANCEL, TURN_FIRE, TURN_IDLE, TURNS };
enum { LINES_TIMERS = 500, LINES_OPERATIONS = 100, THREADS = 3, END = 63 };

static volatile uint32_t marks[64] __attribute__((aligned(64)));
static sem_t go[THREADS], gone;
static int turn;

static inline void mark(int thread)
{
	marks[turn * THREADS + thread] = 1;
}

static void print_stack(void)
{
	pthread_attr_t attributes;
	size_t size;
	void *low;

	pthread_getattr_np(pthread_self(), &attributes);
	pthread_attr_getstack(&attributes, &low, &size);
	/* And the thread's own variables behind it. */
	printf("stack %p %zu\n", low, size + 65536);
	pthread_attr_destroy(&attributes);
}

static void *in_turn(void *arg)
{
	int thread = (int)(uintptr_t)arg, bad = 0;
	struct rng r = { SEED + (uint64_t)thread };
	struct timer *t = make(LINES_TIMERS);

	print_stack();
	sem_post(&gone);
	for (;;) {
		sem_wait(&go[thread]);
		for (int i = 0; i < (turn == TURN_ARM ? LINES_TIMERS : LINES_OPERATIONS); i++) {
			struct timer *one = nth(t, below(&r, LINES_TIMERS));
			uint64_t delay = ticks(&r);

			switch (turn) {
			case TURN_ARM:
				one = nth(t, (uint64_t)i);
				mark(thread);
				bad |= arm(one, delay);
				break;
			case TURN_REARM:
				mark(thread);
				bad |= move(one, delay);
				break;
			case TURN_CANCEL:
				mark(thread);
				bad |= cancel(one);
				break;
			}
			marks[END] = 1;
		}
		check(bad);
		sem_post(&gone);
	}
	return NULL;
}

static void run_turn(int thread, int which)
{
	turn = which;
	sem_post(&go[thread]);
	sem_wait(&gone);
}

static void lines(void)
{
	uint64_t before = 0;
	pthread_t id;

	/* A trace is long. */
	longest = 2000;
	/* The trace shows it where it happened. */
	setvbuf(stdout, NULL, _IOLBF, 0);
	begin(2, MS);
	printf("marks %p\n", (void *)(uintptr_t)marks);
	print_stack();
	sem_init(&gone, 0, 0);
	for (int i = 0; i < 2; i++) {
		sem_init(&go[i], 0, 0);
		start_thread(&id, in_turn, (void *)(uintptr_t)i);
		sem_wait(&gone);
	}
	/* The first round is a rehearsal, which maps memory; then all before is void. */
	for (int round = 0; round < 2; round++) {
		for (int which = TURN_ARM; which <= TURN_CANCEL; which++)
			for (int i = 0; i < 2; i++)
				run_turn(i, which);
		before = fires;
		turn = TURN_FIRE;
		for (uint64_t i = 0; i < longest; i += 10) {
			mark(2);
			check(sweep(10));
			marks[END] = 1;
		}
		if (round == 0) {
			marks[END - 1] = 1;
		}
	}
	before = fires - before;
	turn = TURN_IDLE;
	for (int i = 0; i < LINES_OPERATIONS; i++) {
		mark(2);
		check(sweep(1));
		marks[END] = 1;
	}
	printf("fired %" PRIu64 "\n", before);
}

#endif
