/*
 * What a wheel must do, told by a list of its pending timers, sorted by time. It calls no
 * function of the library and knows nothing of wheels: only the rules of hwheel.h.
 *
 * A timer has the first and the last tick at which it may fire. Mostly the two are the same. They
 * differ for a timer with slack, for one that is 2^36 ticks away or more, and for one whose
 * time has passed when it is armed, if the wheel's last tick is not known. If the library has
 * named the time, they are the same again.
 */
#ifndef SORTED_LIST_H
#define SORTED_LIST_H

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <hwheel.h>

#define NEVER HWHEEL_NEVER
#define END_OF_TIME (UINT64_C(1) << 63)
/* From this number of ticks on a timer may be late by one part in a hundred million. */
#define EXACT (UINT64_C(1) << 36)
#define LATE_PART 100000000
/* From here on a period is rounded up, and slack is cut. */
#define LONG_PERIOD (UINT64_C(1) << 47)

/* Ends the program: library and list do not agree. The test defines this. */
_Noreturn static void disagree(const char *file, int line, const char *condition);
#define EXPECT(condition) \
	((condition) ? (void)0 : disagree(__FILE__, __LINE__, #condition))

struct timer {
	hwheel_timer_t handle;
	uint64_t cookie;
	/* It exists; is pending; was shut down; frees itself; has a callback; has a key. */
	int exists, pending, shut, frees_itself, calls, keyed;
	/* The first and the last tick at which it may fire; NEVER if it never fires. */
	uint64_t first, last;
	uint64_t period, slack;
	/* HWHEEL_MISSED_*. */
	uint32_t missed;
	/*
	 * The time of a period, which lies between two ticks. If it is not exact, the event has
	 * the time of the tick instead; if it is vague, either, or a period too many.
	 */
	uint64_t deadline;
	int exact, vague;
	/* The number of its callbacks that run; its callback is in the queue, for this event. */
	int running, queued;
	uint64_t queued_first, queued_last;
	/* It was due when this number of calls to drive began. */
	unsigned waited;
	struct timer *next;
};

struct list {
	/* The pending timer that comes first. */
	struct timer *head;
	uint64_t tick_ns;
	unsigned pending;
	/* The last tick that the wheel has reached lies between these. */
	uint64_t hand_least, hand_most;
	/* The last call that drives has stopped at a bound. */
	int stopped;
	/* While the wheel is driven: the time and its tick, and the tick of the last timer. */
	int driving;
	uint64_t now, goal, reached;
	/* The time that the last call has announced; NEVER if it is not known. */
	uint64_t announced;
	/* Whether each call that drives drops outdated timers, and whether this call does. */
	int sleeps, drops;
	/* Timers that were cancelled or moved later, and those before the call under way. */
	unsigned outdated, outdated_before;
	uint64_t fired, skipped;
	/* The wheel was drained. A due timer may fire, or the next drain hands it back. */
	int closed;
};

static inline uint64_t tick_at_or_after(const struct list *l, uint64_t ns)
{
	uint64_t tick = ns / l->tick_ns + (ns % l->tick_ns != 0);

	return ns >= END_OF_TIME || tick > (END_OF_TIME - 1) / l->tick_ns ? NEVER : tick;
}

static inline uint64_t time_of(const struct list *l, uint64_t tick)
{
	return tick == NEVER ? NEVER : tick * l->tick_ns;
}

static inline uint64_t later(uint64_t a, uint64_t b)
{
	return a > b ? a : b;
}

static inline uint64_t earlier(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

static inline uint64_t add_time(uint64_t a, uint64_t b)
{
	return a >= END_OF_TIME || b >= END_OF_TIME || a + b >= END_OF_TIME ? NEVER : a + b;
}

static inline void list_remove(struct list *l, struct timer *t)
{
	struct timer **at = &l->head;

	if (!t->pending)
		return;
	while (*at != t)
		at = &(*at)->next;
	*at = t->next;
	t->pending = 0;
	l->pending--;
}

static inline void list_insert(struct list *l, struct timer *t)
{
	struct timer **at = &l->head;

	while (*at != NULL && (*at)->last <= t->last)
		at = &(*at)->next;
	t->next = *at;
	*at = t;
	t->pending = 1;
	t->waited = 0;
	l->pending++;
}

/* It may fire from this tick on, and until that one. */
static inline void list_move(struct list *l, struct timer *t, uint64_t first, uint64_t last)
{
	list_remove(l, t);
	t->first = first;
	t->last = last;
	list_insert(l, t);
}

/*
 * The ticks from @time to @time + @slack, but only after a tick that lies between @least and
 * @most. Such a distance as is rounded counts from the last tick that the wheel has reached.
 */
static inline void ticks_of(const struct list *l, uint64_t time, uint64_t slack,
			    uint64_t least, uint64_t most, uint64_t *first, uint64_t *last)
{
	uint64_t end = add_time(time, slack), distance;

	*first = *last = tick_at_or_after(l, time);
	if (*first == NEVER)
		return;
	end = end == NEVER ? END_OF_TIME - 1 : end;
	*last = later(*last, end / l->tick_ns);
	*last = later(*last, most + 1);
	*first = later(*first, least + 1);
	distance = *last - l->hand_least;
	if (distance >= EXACT)
		*last += distance / LATE_PART;
	if (*last > (END_OF_TIME - 1) / l->tick_ns)
		*last = NEVER;
	if (*first > (END_OF_TIME - 1) / l->tick_ns)
		*first = NEVER;
}

/* It fires from @time on, at most @slack later. */
static inline void list_arm(struct list *l, struct timer *t, uint64_t time, uint64_t slack)
{
	uint64_t first, last;

	ticks_of(l, time, slack, l->hand_least, l->hand_most, &first, &last);
	if (t->pending) {
		l->outdated += first > t->first || time > t->deadline;
		list_remove(l, t);
	}
	t->first = first;
	t->last = last;
	t->deadline = time;
	t->exact = t->vague = 0;
	list_insert(l, t);
}

/* The earlier of the time that it has and the new one. */
static inline void list_reduce(struct list *l, struct timer *t, uint64_t time)
{
	uint64_t first, last;

	if (!t->pending) {
		list_arm(l, t, time, 0);
		return;
	}
	ticks_of(l, time, 0, l->hand_least, l->hand_most, &first, &last);
	if (first >= t->last) {
		if (t->first == NEVER)
			t->deadline = earlier(t->deadline, time);
		/* If the wheel has passed the timer by 2^35 ticks, the library keeps a later tick. */
		if (l->hand_most > t->first && l->hand_most - t->first > EXACT / 2)
			list_move(l, t, t->first, later(t->last, l->hand_most));
		return;
	}
	if (last >= t->first)
		t->vague = 1;
	else
		t->exact = t->vague = 0;
	list_move(l, t, earlier(first, t->first), earlier(last, t->last));
}

/* The library has named the time; 0 if it has passed. */
static inline void list_told(struct list *l, struct timer *t, uint64_t now, uint64_t left)
{
	uint64_t tick;

	if (left == 0) {
		EXPECT(time_of(l, t->first) <= now);
		return;
	}
	tick = left == NEVER ? NEVER : (now + left) / l->tick_ns;
	EXPECT(left == NEVER || (now + left) % l->tick_ns == 0);
	EXPECT(tick >= t->first && tick <= t->last);
	list_move(l, t, tick, tick);
}

static inline void list_cancel(struct list *l, struct timer *t)
{
	l->outdated += (unsigned)t->pending;
	list_remove(l, t);
	if (t->frees_itself)
		t->exists = 0;
}

/* A period as the library keeps it. */
static inline uint64_t kept_period(uint64_t ns)
{
	const uint64_t unit = UINT64_C(1) << 16;

	if (ns < LONG_PERIOD || ns == NEVER)
		return ns;
	ns = (ns / unit + (ns % unit != 0)) * unit;
	return earlier(ns, END_OF_TIME - 1);
}

/* The wheel is driven to the time @now. */
static inline void list_begin(struct list *l, uint64_t now)
{
	l->driving = 1;
	l->outdated_before = l->outdated;
	l->drops = l->sleeps || now >= l->announced || now / l->tick_ns == l->now / l->tick_ns;
	l->now = now;
	l->goal = later(now / l->tick_ns, l->hand_most);
	l->reached = l->hand_least;
	l->hand_most = l->goal;
	for (struct timer *t = l->head; t != NULL && t->last <= l->goal; t = t->next)
		t->waited++;
}

/* A periodic timer that has fired, unseen: now it is due at a tick between these. */
static inline void list_skip(struct list *l, struct timer *t, uint64_t first, uint64_t last)
{
	list_move(l, t, first, last);
	t->vague = 1;
}

/* A timer with this event fires: whether it may, and when it fires again. */
static inline void list_fire(struct list *l, struct timer *t, const struct hwheel_event *e)
{
	const uint64_t at = e->deadline_ns, tick = at / l->tick_ns;
	uint64_t most = earlier(t->last, l->goal), until, skipped, next;

	EXPECT(t->exists && t->pending);
	EXPECT(e->cookie == t->cookie);
	EXPECT(e->timer == (t->keyed ? 0 : t->handle));
	EXPECT(e->flags == 0);
	/* Not early, and not behind a timer of a later tick. */
	EXPECT(t->first <= l->goal);
	EXPECT(l->reached <= t->last);
	l->reached = later(l->reached, t->first);
	if (t->period == 0 || !(t->exact || t->vague)) {
		if (!t->vague) {
			EXPECT(at % l->tick_ns == 0);
			EXPECT(tick >= t->first && tick <= most);
			EXPECT(tick >= l->reached);
			l->reached = t->first = t->last = tick;
		}
	} else if (t->vague) {
		EXPECT(at <= time_of(l, most));
	} else {
		EXPECT(at == t->deadline && at <= time_of(l, most));
	}
	l->fired++;
	t->waited = 0;
	if (t->period == 0) {
		EXPECT(e->missed == 0 || t->vague);
		list_remove(l, t);
		return;
	}
	/* The last tick whose periods are over: they are skipped. */
	until = t->missed == HWHEEL_MISSED_BURST ? t->first : l->goal;
	if (t->missed == HWHEEL_MISSED_BURST && t->first != t->last)
		t->vague = 1;
	skipped = time_of(l, until) < at ? 0 : (time_of(l, until) - at) / t->period;
	if (t->vague)
		skipped = e->missed;
	else
		EXPECT(e->missed == earlier(skipped, UINT32_MAX));
	l->skipped += e->missed;
	if (t->period == NEVER)
		next = NEVER;
	else if (t->missed == HWHEEL_MISSED_DELAY && skipped > 0)
		next = add_time(later(l->now, time_of(l, until)), t->period);
	else if (skipped > (END_OF_TIME - at) / t->period)
		next = NEVER;
	else
		next = add_time(at, (skipped + 1) * t->period);
	list_remove(l, t);
	until = earlier(until, l->goal);
	/* The period may have become shorter than the slack. */
	ticks_of(l, next, earlier(t->slack, t->period), until, until, &t->first, &t->last);
	t->deadline = t->period == NEVER ? END_OF_TIME - 1 : next;
	t->exact = 1;
	if (t->vague && t->period != NEVER) {
		/* What was skipped is not known exactly. */
		t->first = 0;
		t->last = NEVER;
	}
	list_insert(l, t);
}

/* The call has stopped at a bound, or has fired all that was due. */
static inline void list_end(struct list *l, int is_complete)
{
	l->driving = 0;
	l->stopped = !is_complete;
	if (!is_complete)
		return;
	l->hand_least = l->hand_most = l->goal;
	/* Such a call drops at least 64 of them. */
	if (l->drops)
		l->outdated -= l->outdated_before < 64 ? l->outdated_before : 64;
	/* None is lost. */
	for (const struct timer *t = l->head; t != NULL && t->last <= l->goal; t = t->next)
		EXPECT(t->queued || t->running || l->closed);
}

/* The time of the timer that comes first: at most, and at least. */
static inline uint64_t list_next_most(const struct list *l)
{
	for (const struct timer *t = l->head; t != NULL; t = t->next)
		if (!t->queued && !t->running)
			return time_of(l, t->last);
	return NEVER;
}

static inline uint64_t list_next_least(const struct list *l)
{
	uint64_t least = NEVER;

	for (const struct timer *t = l->head; t != NULL; t = t->next) {
		/* A time that is rounded up to the end of time counts for the library. */
		if (t->first == NEVER && t->deadline != NEVER)
			least = earlier(least, (END_OF_TIME - 1) / l->tick_ns);
		least = earlier(least, t->first);
	}
	return time_of(l, least);
}

#endif
