/*
 * The three timer queues that the textbook starts from (Varghese and Lauck
 * 1987, schemes 1 to 3): an unsorted list, a sorted list, a binary heap.
 * W9 measures the price of starting a timer and of passing a tick.
 */
#include "c/bench.h"

struct timer {
	struct timer *next, *prev;
	uint64_t due, at, cookie;
	void (*fn)(uint64_t cookie);
};

static struct timer list = { &list, &list, 0, 0, 0, NULL };
static struct timer **heap;
static uint64_t heaped, fired;

static void count(uint64_t cookie)
{
	fired += cookie | 1;
}

static void link_before(struct timer *t, struct timer *next)
{
	t->next = next;
	t->prev = next->prev;
	t->prev->next = t;
	next->prev = t;
}

static void list_cancel(struct timer *t)
{
	if (t->next == NULL)
		return;
	t->next->prev = t->prev;
	t->prev->next = t->next;
	t->next = NULL;
}

static void fire(struct timer *t)
{
	t->fn(t->cookie);
}

/* Scheme 1: starts in O(1), looks at every timer every tick. */
static void unsorted_arm(struct timer *t)
{
	link_before(t, list.next);
}

static void unsorted_sweep(uint64_t now)
{
	for (struct timer *t = list.next, *next; t != &list; t = next) {
		next = t->next;
		if (t->due <= now) {
			list_cancel(t);
			fire(t);
		}
	}
}

/* Scheme 2: walks to its place, looks at the first. */
static void sorted_arm(struct timer *t)
{
	struct timer *next = list.next;

	while (next != &list && next->due <= t->due)
		next = next->next;
	link_before(t, next);
}

static void sorted_sweep(uint64_t now)
{
	struct timer *t;

	while ((t = list.next) != &list && t->due <= now) {
		list_cancel(t);
		fire(t);
	}
}

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

static void heap_arm(struct timer *t)
{
	heap_up(t, ++heaped);
}

static void heap_cancel(struct timer *t)
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

static void heap_sweep(uint64_t now)
{
	while (heaped > 0 && heap[1]->due <= now) {
		struct timer *t = heap[1];

		heap_cancel(t);
		fire(t);
	}
}

static const struct queue {
	const char *name;
	void (*arm)(struct timer *t);
	void (*cancel)(struct timer *t);
	void (*sweep)(uint64_t now);
} queues[] = {
	{ "unsorted", unsorted_arm, list_cancel, unsorted_sweep },
	{ "sorted", sorted_arm, list_cancel, sorted_sweep },
	{ "heap", heap_arm, heap_cancel, heap_sweep },
};

static const struct queue *queue;
static struct timer *timers;

static void pair(uint64_t i, uint64_t due)
{
	queue->cancel(&timers[i]);
	timers[i].due = due;
	queue->arm(&timers[i]);
}

/* textbook QUEUE W9 N */
int main(int argc, char **argv)
{
	struct rng r = { SEED };
	uint64_t n;

	if (argc != 4 || strcmp(argv[2], "W9") != 0)
		return 2;
	for (size_t i = 0; i < sizeof queues / sizeof *queues; i++)
		if (strcmp(argv[1], queues[i].name) == 0)
			queue = &queues[i];
	if (queue == NULL)
		return 2;
	n = strtoull(argv[3], NULL, 10);
	timers = calloc(n, sizeof *timers);
	heap = calloc(n + 1, sizeof *heap);
	for (uint64_t i = 0; i < n; i++) {
		timers[i].fn = count;
		timers[i].cookie = i;
		pair(i, delay(&r));
	}
	textbook(n, pair, queue->sweep);
	free(timers);
	free(heap);
	return 0;
}
