/*
 * The C functions as a machine whose program the fuzzer writes: each byte an
 * operation, the next ones its operands; a callback goes on reading the same
 * program. Two wheels on clocks of their own, and for each what a plain table
 * (table.h) says of its timers. After every call the two must agree:
 *
 * - none is lost: what is due has fired when an advance is done;
 * - none fires twice, too early, or after it was cancelled;
 * - every call answers what the table does, and an error changes nothing:
 *   handles that are stale, of the other wheel or invented, flags, NULLs,
 *   options of any size, and calls from callbacks that are refused there.
 *
 * Some wheels have an executor: their callbacks wait in a queue until the program
 * has one run, in the middle of a sweep, between two, or in another callback.
 */
#include <errno.h>
#include <sys/prctl.h>
#include "table.h"

enum { WHEELS = 2, MANY = 6 };

/* The longest step in ticks: one of years takes seconds. */
#define LEAP (UINT64_C(1) << 44)
/* The hand passes a due timer by more: an arm that leaves it alone writes its word anew. */
#define BEHIND (UINT64_C(1) << 35)

static struct world worlds[WHEELS];
/* Mostly one. */
static unsigned wheels;
static const uint8_t *program, *program_end;
static uint64_t cookies;
/* Over all executions. */
static uint64_t calls, refused, nested;

static uint64_t take(unsigned bytes)
{
	uint64_t n = 0;

	while (bytes-- > 0 && program < program_end)
		n = n << 8 | *program++;
	return n;
}

static struct world *other(struct world *w)
{
	return &worlds[w == worlds && wheels > 1];
}

static uint64_t a_time(const struct world *w)
{
	uint64_t dice = take(1);

	switch (dice % 8) {
	case 0: return take(1);
	case 1: return take(1) * w->tick_ns;
	case 2: return take(2) * w->tick_ns + take(1);
	case 3: return (UINT64_C(1) << take(1) % 45) * w->tick_ns - dice / 8;
	case 4: return (UINT64_C(1) << take(1) % 61) + take(1) - 128;
	case 5: return HWHEEL_NEVER - dice / 8 % 4;
	case 6: return take(8);
	default: return 0;
	}
}

/* Mostly none. */
static uint32_t some_flags(void)
{
	uint64_t dice = take(1);

	return dice < 192 ? 0 : dice < 224 ? HWHEEL_ABS : (uint32_t)take(4);
}

/* A negative number that was cast: refused everywhere. */
static int is_negative(uint64_t time)
{
	return time >> 63 && time != HWHEEL_NEVER;
}

/* The timers of keys have handles as well, which nobody is told but may guess. */
static hwheel_timer_t unless_guessed(struct world *w, hwheel_timer_t handle)
{
	for (unsigned i = TIMERS; i < COUNT(w->timers); i++)
		if ((w->timers[i].exists || w->timers[i].running) &&
		    find(w, handle) == NULL && hwheel_timer_pending(w->wheel, handle) >= 0)
			return 0;
	return handle;
}

/* A handle: mostly of a timer of this wheel; or of the other, or invented. */
static hwheel_timer_t a_handle(struct world *w)
{
	uint64_t dice = take(1), bit;
	const struct timer *t = &w->timers[dice % TIMERS];
	hwheel_timer_t h = t->handle;

	if (dice < 192)
		return h;
	if (dice < 216)
		return other(w)->timers[dice % TIMERS].handle;
	if (dice < 240) {
		/* A sum, so that it is the same one wherever the handles begin. */
		bit = take(1);
		h += bit < 128 ? UINT64_C(1) << bit % 64 : -(UINT64_C(1) << bit % 64);
		/* That of a timer that is gone may become that of the next life. */
		MUST(!t->exists || find(w, h) == NULL);
		return unless_guessed(w, h);
	}
	return unless_guessed(w, take(8));
}

static void run_program(struct world *w, unsigned most);

/* The events since the last time; a callback may come between two. */
static void deliver(struct world *w)
{
	for (; w->delivered < MOST_EVENTS; w->delivered++) {
		const struct hwheel_event *e = &w->events[w->delivered];

		if (e->cookie == 0)
			return;
		MUST(e->flags == 0);
		expected(w, e);
		MUST(!w->timers[e->cookie % COUNT(w->timers)].calls);
	}
}

/* Whether a timer with a callback has left the wheel unseen: into the queue. */
static int has_fired(struct world *w, const struct timer *t)
{
	unsigned i = (unsigned)(t - w->timers);

	if (!t->exists || !t->armed || !t->calls || t->running || t->said > w->now)
		return 0;
	if (t->period != 0)
		return ask(w, t) != w->now;
	return i < TIMERS ? hwheel_timer_pending(w->wheel, t->handle) != 1 :
			    hwheel_key_pending(w->wheel, &(uint64_t){ i - TIMERS }, sizeof(uint64_t)) != 1;
}

/* What has fired since the last look, and says it later or, dropped, never. */
static unsigned look(struct world *w, int into_queue)
{
	unsigned n = 0;

	for (unsigned i = 0; i < COUNT(w->timers); i++) {
		struct timer *t = &w->timers[i];
		uint64_t deadline = t->deadline, tick = t->tick;

		if (!has_fired(w, t))
			continue;
		n++;
		/* Of those that are dropped it is not known which came first. */
		t->exact &= into_queue;
		fires(w, t);
		if (into_queue) {
			enqueue(w, t);
			t->queued_deadline = deadline;
			t->queued_tick = tick;
			t->queued_behind = t->behind;
			t->exists = i < TIMERS;
		} else {
			w->dropped++;
		}
		if (t->period == 0)
			continue;
		t->leeway = t->slack;
		goes_on_somewhere(w, t);
		MUST(t->behind || t->period >= LATEST ||
		     t->tick >= tick_of(w, deadline + t->period));
	}
	return n;
}

static void work(struct world *w)
{
	uint32_t queued = w->queued;

	if (w->room == 0) {
		MUST(hwheel_run_queued(w->wheel) == -EINVAL);
		refused++;
	} else {
		MUST(hwheel_run_queued(w->wheel) == (queued > 0));
	}
}

/* The executor. */
static void queued(struct hwheel *wheel, void *arg)
{
	struct world *w = arg;

	MUST(w->wheel == wheel && w->driving);
	deliver(w);
	MUST(look(w, 1) == 1);
	if (w->overload == HWHEEL_OVERLOAD_RUN && take(1) % 4 == 0)
		work(w);
}

static void callback(struct hwheel *wheel, const struct hwheel_event *e)
{
	struct world *w = &worlds[wheel == worlds[1].wheel];
	struct timer *t = &w->timers[e->cookie % COUNT(w->timers)];

	MUST(w->wheel == wheel && t->calls && t->cookie == e->cookie);
	MUST(e->flags == 0);
	if (t->queued) {
		MUST(e->timer == t->handle);
		MUST(t->queued_behind || t->period != 0 || e->missed == 0);
		MUST(t->queued_behind || (e->deadline_ns >= t->queued_deadline &&
					  e->deadline_ns <= t->queued_tick * w->tick_ns));
		dequeue(w, t, 1);
	} else {
		MUST(w->driving && w->queued == w->room && !t->running);
		deliver(w);
		expected(w, e);
		t->running = 1;
		t->exists = t < w->timers + TIMERS;
	}
	nested++;
	w->inside++;
	run_program(w, 3);
	w->inside--;
	callback_is_over(w, t);
}

/* Long periods are kept in units. */
static uint64_t kept(uint64_t period)
{
	uint64_t unit = UINT64_C(1) << 16;

	if (period < UINT64_C(1) << 47 || period == HWHEEL_NEVER)
		return period;
	return (period / unit + (period % unit != 0)) * unit;
}

static void make(struct world *w, unsigned op)
{
	struct timer *t = &w->timers[take(1) % TIMERS], fresh = { 0 };
	hwheel_fn fn = take(1) % 2 ? callback : NULL;
	uint32_t flags = some_flags(), allowed = 0;
	uint64_t time = a_time(w), given = time, period = 0;
	int got;

	if (t->exists || t->running)
		return;
	fresh.calls = fn != NULL;
	fresh.cookie = ++cookies * COUNT(w->timers) + (uint64_t)(t - w->timers);
	fresh.frees_itself = op != 0;
	if (op == 0) {
		flags = 0;
		given = 0;
		got = hwheel_timer_setup(w->wheel, fn, fresh.cookie, &fresh.handle);
	} else if (op == 1) {
		allowed = HWHEEL_ABS;
		got = hwheel_once(w->wheel, time, fn, fresh.cookie, flags,
				  &fresh.handle);
	} else if (op == 2) {
		allowed = HWHEEL_ABS;
		got = hwheel_once(w->wheel, time, fn, fresh.cookie, flags | HWHEEL_ABS,
				  &fresh.handle);
		time = absolute(w, time, HWHEEL_ABS);
	} else {
		period = take(1) ? a_time(w) : 0;
		flags |= (uint32_t)take(1) % 4 * HWHEEL_MISSED_BURST;
		fresh.missed = flags & (HWHEEL_MISSED_BURST | HWHEEL_MISSED_DELAY);
		/* Not to be called for ever; nor where the table would not see it. */
		if (fresh.missed == HWHEEL_MISSED_BURST && period < LATEST / 64)
			period += LATEST / 64;
		if (fresh.missed == HWHEEL_MISSED_BURST && w->room != 0)
			return;
		allowed = HWHEEL_ABS | fresh.missed;
		fresh.slack = op == 3 ? 0 : a_time(w);
		got = hwheel_every(w->wheel, time, period, fresh.slack, fn, fresh.cookie,
				   flags, &fresh.handle);
		if (is_negative(period) || is_negative(fresh.slack))
			given = UINT64_C(1) << 63;
		if (fresh.slack > period)
			fresh.slack = period;
	}
	if (flags & ~allowed || is_negative(given) ||
	    (op >= 3 && (period == 0 ||
			 fresh.missed == (HWHEEL_MISSED_BURST | HWHEEL_MISSED_DELAY)))) {
		MUST(got == -EINVAL && fresh.handle == 0);
		refused++;
	} else if (w->drained) {
		MUST(got == -ESHUTDOWN && fresh.handle == 0);
		refused++;
	} else if (live(w) >= w->limit) {
		MUST(got == -ENOSPC && fresh.handle == 0);
		refused++;
	} else {
		MUST(got == 0 && fresh.handle != 0);
		*t = fresh;
		t->exists = 1;
		t->period = kept(period);
		if (op != 0)
			set_range(w, t, op == 2 ? time : absolute(w, time, flags),
				  t->slack);
		t->passed = op >= 3 && t->deadline < w->now &&
			    w->now - t->deadline >= UINT64_C(1) << 46;
		agree(w, t);
	}
}

static void move(struct world *w, unsigned op)
{
	hwheel_timer_t handle = a_handle(w);
	struct timer *t = find(w, handle);
	uint32_t flags = some_flags() & ~(uint32_t)(HWHEEL_REDUCE | HWHEEL_IF_PENDING);
	uint64_t time = a_time(w), slack = op == 4 ? a_time(w) % LATEST : 0;
	uint64_t deadline, wish, before = 0;
	int got;

	if (t != NULL && t->behind && (op == 2 || op == 4))
		return;
	if (t != NULL && t->armed)
		before = ask(w, t);
	got = op == 0 ? hwheel_timer_mod(w->wheel, handle, time, flags) :
	      op == 1 ? hwheel_timer_mod(w->wheel, handle, time, flags | HWHEEL_ABS) :
	      op == 2 ? hwheel_timer_mod(w->wheel, handle, time, flags | HWHEEL_REDUCE) :
	      op == 3 ? hwheel_timer_mod(w->wheel, handle, time, flags | HWHEEL_IF_PENDING) :
			hwheel_timer_mod_range(w->wheel, handle, time, slack, flags);
	if (flags & ~(uint32_t)HWHEEL_ABS || is_negative(time) || is_negative(slack)) {
		MUST(got == -EINVAL);
		refused++;
	} else if (owed(w, t) < 0) {
		MUST(got == owed(w, t));
		refused++;
	} else {
		MUST(got == t->armed);
		deadline = absolute(w, time, op == 1 ? HWHEEL_ABS : flags);
		wish = tick_of(w, deadline);
		if (wish <= w->now / w->tick_ns)
			wish = w->now / w->tick_ns + 1;
		if (op == 2 && t->armed && (deadline == HWHEEL_NEVER ||
				(before != HWHEEL_NEVER && before / w->tick_ns <= wish))) {
			MUST(ask(w, t) == before);
			/* That far behind, its word is written anew, for the hand. */
			if (t->tick < w->now / w->tick_ns &&
			    w->now / w->tick_ns - t->tick > BEHIND) {
				t->tick = w->now / w->tick_ns;
				t->exact = 0;
			}
		} else if (op != 3 || t->armed) {
			uint64_t old = t->armed ? t->deadline : deadline;
			int periodic = t->armed && t->periodic;

			t->behind = 0;
			/* A range may leave it as it was made. */
			t->passed &= op == 4;
			set_range(w, t, deadline, slack);
			/*
			 * A timer that fires in the range stays where it is, and its event
			 * keeps the old deadline. A timer without a period does so as well,
			 * once it has a period again.
			 */
			t->periodic |= op == 4 && periodic;
			if (op == 4 && t->periodic && old < deadline)
				t->deadline = old;
		}
	}
	if (t != NULL)
		agree(w, t);
}

static void set_period(struct world *w)
{
	hwheel_timer_t handle = a_handle(w);
	struct timer *t = find(w, handle);
	uint64_t period = take(1) % 4 ? a_time(w) : 0;
	int got;

	if (t != NULL && t->missed == HWHEEL_MISSED_BURST && period < LATEST / 64)
		period += LATEST / 64;
	got = hwheel_timer_set_period(w->wheel, handle, period);
	if (is_negative(period) || t == NULL || t->shut) {
		MUST(got == (is_negative(period) ? -EINVAL : t == NULL ? -ESTALE : -ESHUTDOWN));
		refused++;
	} else {
		MUST(got == 0);
		t->period = period == HWHEEL_NEVER ? 0 : kept(period);
		t->periodic |= t->period != 0;
		/* What it says of periods that it has left out may be of either. */
		t->queued_behind = 1;
		t->behind |= t->passed;
		/* The present sweep may still come to this timer. */
		if (w->driving && t->armed)
			leave_period_out(w, t);
		agree(w, t);
	}
}

/* All that is armed, once each, a few at a time. */
static void list(struct world *w)
{
	struct hwheel_event events[MOST_EVENTS];
	uint32_t max = (uint32_t)take(1) % (MOST_EVENTS + 1), seen = 0;
	uint64_t cursor = 0;
	int got;

	/* The table may not have seen yet what has fired in a sweep. */
	if (w->driving)
		return;
	if (max == 0) {
		MUST(hwheel_list(w->wheel, &cursor, events, max) == -EINVAL && cursor == 0);
		refused++;
		return;
	}
	do {
		got = hwheel_list(w->wheel, &cursor, events, max);
		MUST(got >= 0 && (uint32_t)got <= max);
		for (int i = 0; i < got; i++) {
			struct timer *t = &w->timers[events[i].cookie % COUNT(w->timers)];

			MUST(t->exists && t->armed && t->cookie == events[i].cookie);
			MUST(events[i].flags == HWHEEL_EVENT_LISTED);
			MUST(events[i].timer == t->handle);
			MUST(t->behind || events[i].deadline_ns >= t->deadline ||
			     t->deadline >= LATEST);
			MUST((seen & UINT32_C(1) << (t - w->timers)) == 0);
			seen |= UINT32_C(1) << (t - w->timers);
		}
	} while ((uint32_t)got == max);
	for (unsigned i = 0; i < COUNT(w->timers); i++)
		MUST((seen >> i & 1) == (w->timers[i].exists && w->timers[i].armed));
}

/* Many at once, some of them twice: as one after another. */
static void many(struct world *w, unsigned op)
{
	hwheel_timer_t handles[MANY];
	uint64_t times[MANY];
	int32_t results[MANY];
	uint32_t n = (uint32_t)take(1) % (MANY + 1);
	uint32_t flags = op == 0 ? some_flags() & ~(uint32_t)(HWHEEL_REDUCE | HWHEEL_IF_PENDING) : 0;
	int got, good = 0, quiet = take(1) % 4 == 0;

	for (uint32_t i = 0; i < n; i++) {
		handles[i] = a_handle(w);
		times[i] = op == 0 ? a_time(w) : 0;
		results[i] = INT32_MAX;
	}
	got = op == 0 ? hwheel_timer_mod_many(w->wheel, handles, times, n, flags,
					quiet ? NULL : results) :
			hwheel_timer_delete_many(w->wheel, handles, n,
					   quiet ? NULL : results);
	if (flags & ~(uint32_t)HWHEEL_ABS) {
		MUST(got == -EINVAL && (n == 0 || results[0] == INT32_MAX));
		refused++;
		return;
	}
	for (uint32_t i = 0; i < n; i++) {
		struct timer *t = find(w, handles[i]);
		int want = op == 0 ? is_negative(times[i]) ? -EINVAL : owed(w, t) :
			   t == NULL ? -ESTALE : t->armed;

		MUST(results[i] == (quiet ? INT32_MAX : want));
		good += want >= 0;
		refused += want < 0;
		if (want >= 0 && op == 0) {
			t->behind = 0;
			set(w, t, absolute(w, times[i], flags));
		} else if (want >= 0) {
			cancelled(t);
		}
	}
	MUST(got == good);
	for (uint32_t i = 0; i < n; i++)
		if (find(w, handles[i]) != NULL)
			agree(w, find(w, handles[i]));
}

/* Whose callback waits in the queue, freed or not. */
static struct timer *waiting(struct world *w, hwheel_timer_t handle)
{
	for (unsigned i = 0; i < TIMERS; i++)
		if (w->timers[i].queued && w->timers[i].handle == handle)
			return &w->timers[i];
	return NULL;
}

/* Takes such a callback out of the queue, also that of a timer that is gone. */
static void take_out(struct world *w, struct timer *t, int for_good)
{
	MUST((for_good ? hwheel_timer_shutdown_sync(w->wheel, t->handle) :
			 hwheel_timer_delete_sync(w->wheel, t->handle)) == 1);
	dequeue(w, t, 0);
	t->running = 0;
	cancelled(t);
	t->shut |= for_good;
	agree(w, t);
}

static void cancel(struct world *w, unsigned op)
{
	hwheel_timer_t handle = a_handle(w);
	int syncs = op == 1 || op == 3, got;
	struct timer *t = syncs ? waiting(w, handle) : NULL;

	if (t != NULL) {
		take_out(w, t, op == 3);
		return;
	}
	t = find(w, handle);
	got = op == 0 ? hwheel_timer_delete(w->wheel, handle) :
	      op == 1 ? hwheel_timer_delete_sync(w->wheel, handle) :
	      op == 2 ? hwheel_timer_shutdown(w->wheel, handle) :
	      op == 3 ? hwheel_timer_shutdown_sync(w->wheel, handle) :
			hwheel_timer_free(w->wheel, handle);
	if (t == NULL) {
		MUST(got == -ESTALE);
		refused++;
		return;
	}
	if (syncs && t->running) {
		MUST(got == -EDEADLK);
		refused++;
	} else {
		MUST(got == t->armed);
		cancelled(t);
		t->shut |= op == 2 || op == 3;
		if (op == 4)
			forget(t);
	}
	agree(w, t);
}

static void key(struct world *w, unsigned op)
{
	uint64_t id = take(1) % KEYS, time = a_time(w);
	struct timer *t = &w->timers[TIMERS + id], fresh = { 0 };
	hwheel_fn fn = take(1) % 2 ? callback : NULL;
	uint32_t flags = some_flags();
	int got, was = t->exists;

	/* Its callback runs, and the table has room for one. */
	if (t->running)
		return;
	fresh.cookie = ++cookies * COUNT(w->timers) + TIMERS + id;
	fresh.calls = fn != NULL;
	if (op == 2) {
		got = hwheel_key_delete(w->wheel, &(uint64_t){ id }, sizeof(uint64_t));
		MUST(got == was);
		forget(t);
		return;
	}
	got = op == 0 ? hwheel_key_set(w->wheel, &(uint64_t){ id }, sizeof(uint64_t), time, fn, fresh.cookie, flags) :
			hwheel_key_mod(w->wheel, &(uint64_t){ id }, sizeof(uint64_t), time, flags);
	if (flags & ~(uint32_t)HWHEEL_ABS || is_negative(time)) {
		MUST(got == -EINVAL);
	} else if (w->drained) {
		MUST(got == -ESHUTDOWN);
	} else if (op == 0 && live(w) >= w->limit && (!was || t->calls != fresh.calls)) {
		MUST(got == -ENOSPC);
	} else {
		MUST(got == was);
		if (op == 0) {
			*t = fresh;
			t->exists = t->frees_itself = 1;
		}
		if (t->exists)
			set(w, t, absolute(w, time, flags));
		return;
	}
	refused++;
	MUST(hwheel_key_pending(w->wheel, &(uint64_t){ id }, sizeof(uint64_t)) == was);
}

/* Where to drive to: mostly on from now, or to what is due next. */
static uint64_t a_target(const struct world *w)
{
	uint64_t dice = take(1);

	switch (dice % 4) {
	case 0: return a_time(w);
	case 1: return soonest(w) - dice / 4 % 2;
	case 2: return w->now + dice / 4 * w->tick_ns;
	default: return w->now + a_time(w);
	}
}

static void advance(struct world *w)
{
	uint64_t to = a_target(w);
	uint32_t max = (uint32_t)take(1) % MOST_EVENTS + 1;
	struct hwheel_run run = {
		.size = sizeof run, .left = 7, .max_fired = w->budget,
	};
	int got;

	if (to > LATEST / 2 || (to > w->now && to - w->now > LEAP * w->tick_ns))
		to = w->now;
	if (w->driving || w->inside > 0) {
		MUST(hwheel_advance(w->wheel, to, w->events, max, NULL) == -EBUSY);
		refused++;
		return;
	}
	/* Ends at a tick, so that what has fired and goes on is due later. */
	if (w->room != 0)
		to -= to % w->tick_ns;
	if (to > w->now) {
		uint64_t ticks = (to - w->now) / w->tick_ns;

		w->longest = ticks > w->longest ? ticks : w->longest;
		w->now = to;
	}
	leave_periods_out(w);
	w->driving = 1;
	w->last_tick = w->swept = 0;
	w->delivered = 0;
	memset(w->events, 0, sizeof w->events);
	got = hwheel_advance(w->wheel, to, w->events, max, &run);
	w->driving = 0;
	deliver(w);
	if (w->room != 0 && look(w, 0) > 0)
		MUST(w->overload == HWHEEL_OVERLOAD_DROP && w->queued == w->room);
	MUST(got >= 0 && (uint32_t)got <= max && w->delivered == (uint32_t)got);
	MUST(w->budget == 0 || w->swept <= w->budget);
	if ((uint32_t)got < max && (w->budget == 0 || w->swept < w->budget))
		MUST(run.left == 0);
	if (run.left == 0) {
		w->hand = w->now / w->tick_ns;
		none_is_lost(w);
	}
}

static void drain(struct world *w)
{
	struct hwheel_event events[MOST_EVENTS];
	uint32_t max = (uint32_t)take(1) % (MOST_EVENTS + 1);
	int got = hwheel_drain(w->wheel, events, max);

	if (max == 0) {
		MUST(got == -EINVAL);
		refused++;
		return;
	}
	if (w->inside > 0) {
		MUST(got == -EDEADLK);
		refused++;
		return;
	}
	MUST(got >= 0 && (uint32_t)got <= max);
	w->drained = 1;
	for (int i = 0; i < got; i++) {
		struct timer *t = &w->timers[events[i].cookie % COUNT(w->timers)];

		MUST(t->exists && t->armed && t->cookie == events[i].cookie);
		MUST(events[i].flags == HWHEEL_EVENT_DRAINED);
		MUST(events[i].timer == t->handle);
		cancelled(t);
	}
	if ((uint32_t)got < max)
		MUST(armed(w) == 0);
}

static void next_expiry(struct world *w)
{
	uint64_t by = soonest(w), at = 0;
	int got = hwheel_next_expiry(w->wheel, &at);

	MUST(got == 0 || got == 1);
	if (by < LATEST)
		MUST(got == 1 && at <= by);
}

static void statistics(struct world *w)
{
	static union {
		struct hwheel_stats s;
		uint8_t bytes[4200];
	} u, untouched;
	uint32_t size = (uint32_t)take(2) % 4200;
	size_t written;
	int got;

	memset(&u, 0xaa, sizeof u);
	u.s.size = size;
	untouched = u;
	got = hwheel_get_stats(w->wheel, &u.s);
	MUST(got == (size < 8 ? -EINVAL : size > 4096 ? -E2BIG : 0));
	written = got == 0 ? size : sizeof size;
	MUST(memcmp(u.bytes + written, untouched.bytes + written,
		    sizeof u - written) == 0);
	u.s.size = sizeof u.s;
	MUST(hwheel_get_stats(w->wheel, &u.s) == 0);
	MUST(u.s.live == live(w) && u.s.pending == armed(w));
	MUST(u.s.queued == w->queued && u.s.dropped == w->dropped);
	MUST(u.s.armed == u.s.fired + u.s.cancelled + u.s.drained + u.s.pending);
	check_books(w->wheel, TIMERS + KEYS, 1);
}

static int is_power_of_two(uint32_t n)
{
	return n != 0 && (n & (n - 1)) == 0;
}

/* What hwheel_create() owes for these bytes. */
static int verdict(const uint8_t *bytes)
{
	struct hwheel_options o = { 0 };
	uint32_t size, bits = 0;

	memcpy(&size, bytes, sizeof size);
	if (size < 8)
		return -EINVAL;
	if (size > 4096)
		return -E2BIG;
	for (uint32_t i = sizeof o; i < size; i++)
		if (bytes[i] != 0)
			return -E2BIG;
	memcpy(&o, bytes, size < sizeof o ? size : sizeof o);
	o.tick_ns += o.tick_ns == 0 ? MS : 0;
	o.levels += o.levels == 0 ? 4 : 0;
	o.slots += o.slots == 0 ? 256 : 0;
	while (bits < 31 && UINT32_C(1) << bits < o.slots)
		bits++;
	if (o.clock > HWHEEL_CLOCK_MANUAL || o.tick_ns < 1000 || o.tick_ns > 3600 * SEC ||
	    o.levels > 8 || o.slots < 2 || o.slots > 65536 ||
	    !is_power_of_two(o.slots) || o.levels * bits > 48 ||
	    o.max_timers > 67000000 ||
	    o.workers > 256 || o.overload > HWHEEL_OVERLOAD_DROP ||
	    (o.workers != 0 && o.executor != NULL) ||
	    (o.executor == NULL && o.executor_arg != NULL) ||
	    (o.queue != 0 && !is_power_of_two(o.queue)) || o.queue > 1048576 ||
	    (o.clock != HWHEEL_CLOCK_MANUAL && o.start_ns != 0) ||
	    o.start_ns >> 63)
		return -EINVAL;
	return 0;
}

static void create_and_destroy(const struct world *w)
{
	static uint8_t bytes[8192];
	struct hwheel_options o = { .size = sizeof o };
	struct hwheel *made = NULL;
	int got, want;

	memset(bytes, 0, sizeof bytes);
	switch (take(1) % 4) {
	case 0: o.size = (uint32_t)take(2) % 5000; break;
	case 1: o.size = (uint32_t)take(4); break;
	}
	o.clock = (uint32_t)take(1) % 5;
	o.tick_ns = a_time(w);
	o.levels = (uint32_t)take(1) % 10;
	o.slots = UINT32_C(1) << take(1) % 18;
	if (take(1) % 8 == 0)
		o.slots += (uint32_t)take(1);
	o.max_timers = (uint32_t)take(4);
	o.start_ns = take(1) % 2 ? a_time(w) : 0;
	if (take(1) % 8 == 0) {
		/* Few threads, or too many: they take longer than all the rest. */
		o.workers = take(1) % 64 ? 0 : take(1) % 4 ? 1 : 257;
		o.queue = (uint32_t)take(3);
		o.overload = (uint32_t)take(1) % 5;
		o.executor = take(1) % 4 ? NULL : queued;
		o.executor_arg = take(1) % 4 ? NULL : &worlds;
	}
	memcpy(bytes, &o, sizeof o);
	/* And a tail, perhaps. */
	for (unsigned n = take(1) % 4; n > 0; n--)
		bytes[sizeof o + take(2) % 5000] = (uint8_t)take(1);
	want = verdict(bytes);
	got = hwheel_create((struct hwheel_options *)bytes, &made);
	MUST(got == want);
	MUST((made != NULL) == (got == 0));
	refused += got != 0;
	MUST(hwheel_destroy(made) == 0);
}

static void nothing_at_all(struct world *w)
{
	struct hwheel_event e;
	struct hwheel_stats s = { .size = sizeof s };
	uint64_t n = 0;
	int got;

	MUST(hwheel_create(NULL, NULL) == -EINVAL);
	MUST(hwheel_now(NULL, &n) == -EINVAL && hwheel_now(w->wheel, NULL) == -EINVAL);
	MUST(hwheel_next_expiry(w->wheel, NULL) == -EINVAL);
	MUST(hwheel_get_stats(NULL, &s) == -EINVAL);
	MUST(hwheel_timer_setup(w->wheel, NULL, 0, NULL) == -EINVAL);
	MUST(hwheel_timer_setup(NULL, NULL, 0, &n) == -EINVAL);
	MUST(hwheel_timer_mod(NULL, 1, 0, 0) == -EINVAL && hwheel_timer_free(NULL, 1) == -EINVAL);
	MUST(hwheel_timer_delete(NULL, 1) == -EINVAL && hwheel_timer_pending(NULL, 1) == -EINVAL);
	MUST(hwheel_timer_remaining(w->wheel, 0, NULL) == -EINVAL);
	MUST(hwheel_once(NULL, 0, NULL, 0, 0, NULL) == -EINVAL);
	MUST(hwheel_timer_mod_range(NULL, 1, 0, 0, 0) == -EINVAL);
	MUST(hwheel_timer_mod_many(w->wheel, NULL, NULL, 0, 0, NULL) == 0);
	MUST(hwheel_timer_mod_many(w->wheel, &n, NULL, 1, 0, NULL) == -EINVAL);
	MUST(hwheel_timer_delete_many(w->wheel, NULL, 1, NULL) == -EINVAL);
	MUST(hwheel_timer_delete_many(w->wheel, &n, UINT32_MAX, NULL) == -EINVAL);
	MUST(hwheel_key_set(w->wheel, NULL, 1, 0, NULL, 0, 0) == -EINVAL);
	MUST(hwheel_key_delete(w->wheel, "k", 0) == -EINVAL);
	MUST(hwheel_advance(w->wheel, 0, NULL, 1, NULL) == -EINVAL);
	MUST(hwheel_advance(w->wheel, 0, &e, UINT32_MAX, NULL) == -EINVAL);
	MUST(hwheel_drain(w->wheel, NULL, 1) == -EINVAL);
	/* What a wheel on the caller's clock has not. */
	MUST(hwheel_fd(w->wheel) == -EINVAL);
	got = hwheel_poll(w->wheel, &e, 1, NULL);
	MUST(got == -EINVAL || (w->inside > 0 && got == -EBUSY));
	MUST(hwheel_start(w->wheel) == -EINVAL);
	MUST(hwheel_run_queued(NULL) == -EINVAL);
	MUST(hwheel_stop(w->wheel) == (w->inside > 0 ? -EDEADLK : 0));
	if (w->inside > 0)
		MUST(hwheel_destroy(w->wheel) == -EDEADLK);
	else
		MUST(w->queued == 0);
}

static void step(struct world *w)
{
	unsigned op = (unsigned)take(1) % 68;
	uint64_t now = 0;

	calls++;
	if (op < 14)
		make(w, op % 5);
	else if (op < 28)
		move(w, op % 5);
	else if (op < 38)
		cancel(w, op % 5);
	else if (op < 44)
		key(w, op % 3);
	else if (op < 57)
		advance(w);
	else if (op == 57)
		next_expiry(w);
	else if (op == 58)
		statistics(w);
	else if (op == 59)
		drain(w);
	else if (op == 60)
		create_and_destroy(w);
	else if (op == 61)
		nothing_at_all(w);
	else if (op == 62)
		many(w, (unsigned)take(1) % 2);
	else if (op < 65)
		work(w);
	else if (op == 65)
		set_period(w);
	else if (op == 66)
		list(w);
	else
		agree(w, &w->timers[take(1) % TIMERS]);
	MUST(hwheel_now(w->wheel, &now) == 0 && now == w->now);
}

/* Some steps: mostly with one wheel, from a callback too. */
static void run_program(struct world *w, unsigned most)
{
	while (most-- > 0 && program < program_end)
		step(take(1) % 8 ? w : other(w));
}

static void begin(struct world *w)
{
	static const uint64_t ticks[] = { 1000, 7001, MS, 1 << 20, SEC };
	static const struct { uint32_t levels, slots; } shapes[] = {
		{ 1, 2 }, { 1, 64 }, { 2, 4 }, { 4, 256 }, { 8, 8 }, { 6, 64 },
	};
	uint64_t shape = take(1) % COUNT(shapes);
	struct hwheel_options o = {
		.size = sizeof o, .clock = HWHEEL_CLOCK_MANUAL,
		.tick_ns = ticks[take(1) % COUNT(ticks)],
		.levels = shapes[shape].levels, .slots = shapes[shape].slots,
		.max_timers = take(1) % 4 ? TIMERS + KEYS + 2 : 5,
	};
	uint64_t start = take(1);

	o.start_ns = start % 2 ? (UINT64_C(1) << take(1) % 50) - take(1) % 2 : 0;
	memset(w, 0, sizeof *w);
	if (start % 8 < 2) {
		o.executor = queued;
		o.executor_arg = w;
		o.overload = (uint32_t)start % 8;
		o.queue = UINT32_C(1) << start / 8 % 5;
	}
	w->room = o.queue;
	w->overload = o.overload;
	w->budget = start < 192 ? 0 : 1 + start % 4;
	w->tick_ns = o.tick_ns;
	w->limit = o.max_timers;
	w->now = o.start_ns;
	w->hand = w->now / w->tick_ns;
	MUST(hwheel_create(&o, &w->wheel) == 0);
}

static void finish(struct world *w)
{
	for (unsigned i = 0; i < TIMERS; i++) {
		struct timer *t = &w->timers[i];

		agree(w, t);
		if (t->exists)
			MUST(hwheel_timer_free(w->wheel, t->handle) == t->armed);
		forget(t);
	}
	for (unsigned i = 0; i < KEYS; i++) {
		MUST(hwheel_key_delete(w->wheel, &(uint64_t){ i }, sizeof(uint64_t)) == w->timers[TIMERS + i].exists);
		forget(&w->timers[TIMERS + i]);
	}
	statistics(w);
	MUST(hwheel_destroy(w->wheel) == 0);
	MUST(w->queued == 0 && live(w) == 0);
	/* The next wheel may be at the same address. */
	w->wheel = NULL;
}

/* For verify/fuzz/run.sh, which adds them up. */
static void say(void)
{
	printf("stat::calls: %" PRIu64 "\nstat::fired: %" PRIu64
	       "\nstat::callbacks: %" PRIu64 "\nstat::errors: %" PRIu64 "\n",
	       calls, table_fired, nested, refused);
}

const char *__asan_default_options(void);

/* To clear what is freed is half of an execution, unless it is used again soon. */
const char *__asan_default_options(void)
{
	return "quarantine_size_mb=1:malloc_context_size=8";
}

int LLVMFuzzerInitialize(int *argc, char ***argv);
int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size);

/* Each execution makes wheels: to clear a huge page for each takes longer than
 * all the rest. */
int LLVMFuzzerInitialize(int *argc, char ***argv)
{
	(void)argc;
	(void)argv;
	return prctl(PR_SET_THP_DISABLE, 1, 0, 0, 0) != 0 || atexit(say) != 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
	program = bytes;
	program_end = bytes + size;
	wheels = take(1) % 4 ? 1 : WHEELS;
	for (unsigned i = 0; i < wheels; i++)
		begin(&worlds[i]);
	while (program < program_end)
		run_program(&worlds[0], 1000);
	for (unsigned i = 0; i < wheels; i++)
		finish(&worlds[i]);
	return 0;
}
