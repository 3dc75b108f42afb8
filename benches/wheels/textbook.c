/*
 * The three timer queues that the textbook starts from (Varghese and Lauck
 * 1987, schemes 1 to 3): an unsorted list, a sorted list, a binary heap. One of
 * UNSORTED, SORTED and HEAP is defined.
 */
#include "../workloads.h"

struct timer {
	struct timer *next, *prev;
	uint64_t due, at, cookie;
	uint64_t (*fn)(uint64_t cookie);
};

static uint64_t now;

static void fire(struct timer *t)
{
	uint64_t again = t->fn(t->cookie);

	if (again > 0)
		arm(t, again);
}

#ifdef HEAP
static struct timer *heap[10000001];
static uint64_t heaped;

/* Scheme 3: O(log n) both. A timer knows its place, counted from 1. */
static void put(struct timer *t, uint64_t at)
{
	heap[at] = t;
	t->at = at;
}

static void heap_up(struct timer *t, uint64_t at)
{
	for (; at > 1 && heap[at / 2]->due > t->due; at /= 2)
		put(heap[at / 2], at);
	put(t, at);
}

static void heap_down(struct timer *t, uint64_t at)
{
	uint64_t child;

	for (; (child = 2 * at) <= heaped; at = child) {
		if (child < heaped && heap[child + 1]->due < heap[child]->due)
			child++;
		if (heap[child]->due >= t->due)
			break;
		put(heap[child], at);
	}
	put(t, at);
}

static void queue_arm(struct timer *t)
{
	heap_up(t, ++heaped);
}

static void queue_cancel(struct timer *t)
{
	struct timer *last;

	if (t->at == 0)
		return;
	last = heap[heaped--];
	if (last != t) {
		if (last->due < t->due)
			heap_up(last, t->at);
		else
			heap_down(last, t->at);
	}
	t->at = 0;
}

static void queue_sweep(void)
{
	while (heaped > 0 && heap[1]->due <= now) {
		struct timer *t = heap[1];

		queue_cancel(t);
		fire(t);
	}
}
#else
static struct timer list = { &list, &list, 0, 0, 0, NULL };

static void link_before(struct timer *t, struct timer *next)
{
	t->next = next;
	t->prev = next->prev;
	t->prev->next = t;
	next->prev = t;
}

static void queue_cancel(struct timer *t)
{
	if (t->next == NULL)
		return;
	t->next->prev = t->prev;
	t->prev->next = t->next;
	t->next = NULL;
}

#ifdef SORTED
/* Scheme 2: walks to its place, looks at the first. */
static void queue_arm(struct timer *t)
{
	struct timer *next = list.next;

	while (next != &list && next->due <= t->due)
		next = next->next;
	link_before(t, next);
}

static void queue_sweep(void)
{
	struct timer *t;

	while ((t = list.next) != &list && t->due <= now) {
		queue_cancel(t);
		fire(t);
	}
}
#else
/* Scheme 1: starts in O(1), looks at every timer every tick. */
static void queue_arm(struct timer *t)
{
	link_before(t, list.next);
}

static void queue_sweep(void)
{
	for (struct timer *t = list.next, *next; t != &list; t = next) {
		next = t->next;
		if (t->due <= now) {
			queue_cancel(t);
			fire(t);
		}
	}
}
#endif
#endif

#include "in_array.h"

static void begin(unsigned threads, uint64_t tick_ns)
{
	(void)tick_ns;
	check(threads > 1 ? -1 : 0);
}

static struct timer *make(uint64_t n)
{
	struct timer *t = pages(n * sizeof *t);

	for (uint64_t i = 0; i < n; i++) {
		t[i].fn = fired;
		t[i].cookie = i;
	}
	return t;
}

static inline int arm(struct timer *t, uint64_t delay)
{
	t->due = now + delay;
	queue_arm(t);
	return 0;
}

static inline int cancel(struct timer *t)
{
	queue_cancel(t);
	return 0;
}

static inline int move(struct timer *t, uint64_t delay)
{
	queue_cancel(t);
	return arm(t, delay);
}

static inline int refresh(struct timer *t)
{
	return move(t, TIMEOUT);
}

static inline int sweep(uint64_t n)
{
	now += n;
	queue_sweep();
	return 0;
}
