/*
 * The common part of the hosts. Two sides, the loop's own and the wheel's, have
 * a thousand timers each, with the same deadlines. Compares when and in which
 * order the timers of the two sides fire. For C and C++.
 */
#ifndef COMPARE_H
#define COMPARE_H

#include <hwheel.h>
#include <inttypes.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#define TIMERS 1000
#define SPREAD_MS 1000
#define GIVE_UP_MS 30000

struct side {
	const char *name;
	int any_order;			/* the loop promises none */
	unsigned fired;			/* number of timers that have fired */
	unsigned order[TIMERS];		/* their numbers, in that order */
	int64_t late_ns[TIMERS];	/* their lateness, in that order */
};

struct comparison {
	uint64_t start_ns;
	uint32_t delay_ms[TIMERS];
	struct side loop, wheel;
	struct hwheel *to_arm;		/* for compare_arm() */
	unsigned char too_late[TIMERS];	/* armed when the deadline had passed */
};

static uint64_t monotonic_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
}

/* Deadlines of every millisecond of the next second, in no order. */
static void compare_begin(struct comparison *c, const char *loop)
{
	uint32_t random = 1;

	c->loop.name = loop;
	c->wheel.name = "hwheel";
	c->start_ns = monotonic_ns();
	for (unsigned i = 0; i < TIMERS; i++) {
		random = random * 1664525 + 1013904223;
		c->delay_ms[i] = 1 + (random >> 8) % SPREAD_MS;
	}
}

static uint64_t deadline_ns(const struct comparison *c, unsigned i)
{
	return c->start_ns + c->delay_ms[i] * UINT64_C(1000000);
}

/* Timer @i of a side has fired. True when all timers of both sides have. */
static int compare_fired(struct comparison *c, struct side *side, unsigned i)
{
	if (i < TIMERS && side->fired < TIMERS) {
		side->order[side->fired] = i;
		side->late_ns[side->fired] = (int64_t)(monotonic_ns() - deadline_ns(c, i));
	}
	side->fired++;
	return c->loop.fired >= TIMERS && c->wheel.fired >= TIMERS;
}

/*
 * Drives the wheel: takes what is due. @next_ns receives the time of the next call, and may
 * be NULL. True when both sides are complete.
 */
static int compare_poll(struct comparison *c, struct hwheel *wheel, uint64_t *next_ns)
{
	struct hwheel_event events[64];
	struct hwheel_run run = { sizeof run, 0, 0, 0, 0 };
	int n, done = 0;

	do {
		n = hwheel_poll(wheel, events, 64, &run);
		for (int i = 0; i < n; i++)
			done |= compare_fired(c, &c->wheel, (unsigned)events[i].cookie);
	} while (n >= 0 && run.left);
	if (next_ns)
		*next_ns = run.next_ns;
	return done || n < 0;
}

/* Arms the wheel's timers, on a thread: the loop, which may sleep, must wake. */
static inline void *compare_arm(void *comparison)
{
	struct comparison *c = (struct comparison *)comparison;

	for (unsigned i = 0; i < TIMERS; i++)
		if (hwheel_once(c->to_arm, deadline_ns(c, i), NULL, i, HWHEEL_ABS, NULL))
			exit(1);
		else
			c->too_late[i] = monotonic_ns() >= deadline_ns(c, i);
	return NULL;
}

static int by_value(const void *a, const void *b)
{
	int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;

	return (x > y) - (x < y);
}

static int complain(const struct side *side, const char *what)
{
	printf("%s: %s\n", side->name, what);
	return 1;
}

/* Every timer once, in the order of deadlines; then the times, sorted. */
static int check_side(const struct comparison *c, struct side *side)
{
	unsigned char seen[TIMERS] = { 0 };
	uint32_t last_ms = 0;

	if (side->fired != TIMERS)
		return complain(side, "not every timer fired once");
	for (unsigned k = 0; k < TIMERS; k++) {
		unsigned i = side->order[k];

		if (seen[i]++)
			return complain(side, "a timer fired twice");
		if (side->any_order || c->too_late[i])
			continue;
		if (c->delay_ms[i] < last_ms)
			return complain(side, "out of order");
		last_ms = c->delay_ms[i];
	}
	qsort(side->late_ns, TIMERS, sizeof side->late_ns[0], by_value);
	printf("%-9s late by %6.3f ms at least, %6.3f median, %6.3f at most\n",
	       side->name, (double)side->late_ns[0] / 1e6,
	       (double)side->late_ns[TIMERS / 2] / 1e6,
	       (double)side->late_ns[TIMERS - 1] / 1e6);
	return 0;
}

/*
 * Return: 0 if both sides fired everything in the order of deadlines, the
 * wheel nothing early, and the wheel's median is not later than the loop's by
 * more than its tick and a wake-up, for which a busy machine gets 5 ms.
 */
static int compare_end(struct comparison *c)
{
	if (check_side(c, &c->loop) || check_side(c, &c->wheel))
		return 1;
	if (c->wheel.late_ns[0] < 0)
		return complain(&c->wheel, "early");
	if (c->wheel.late_ns[TIMERS / 2] > c->loop.late_ns[TIMERS / 2] + 6000000)
		return complain(&c->wheel, "much later than the loop's own timers");
	printf("%d timers each, %s in the order of deadlines\n", TIMERS,
	       c->loop.any_order ? "the wheel's" : "both");
	return 0;
}

#endif
