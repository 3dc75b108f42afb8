#include "table.h"

/* Further than this many ticks a deadline may be late by 1 / COARSE. */
#define EXACT (UINT64_C(1) << 36)
#define COARSE 50000000

uint64_t table_fired;

/* By how many ticks a deadline may be late that is so far away. */
static uint64_t rounded_by(uint64_t ticks)
{
	return ticks >= EXACT ? ticks / COARSE + 1 : 0;
}

uint64_t tick_of(const struct world *w, uint64_t ns)
{
	return ns / w->tick_ns + (ns % w->tick_ns != 0);
}

unsigned live(const struct world *w)
{
	unsigned n = 0;

	/* One that is freed in its callback is gone, but for an executor's wheel. */
	for (unsigned i = 0; i < COUNT(w->timers); i++)
		n += w->timers[i].exists ||
		     (w->timers[i].running && (w->room != 0 || i >= TIMERS));
	return n;
}

unsigned armed(const struct world *w)
{
	unsigned n = 0;

	for (unsigned i = 0; i < COUNT(w->timers); i++)
		n += w->timers[i].exists && w->timers[i].armed;
	return n;
}

struct timer *find(struct world *w, hwheel_timer_t handle)
{
	for (unsigned i = 0; i < TIMERS; i++)
		if (w->timers[i].exists && w->timers[i].handle == handle)
			return &w->timers[i];
	return NULL;
}

uint64_t absolute(const struct world *w, uint64_t time, uint32_t flags)
{
	if (time == HWHEEL_NEVER || flags & HWHEEL_ABS)
		return time;
	return time > HWHEEL_NEVER - w->now ? HWHEEL_NEVER : w->now + time;
}

void set_range(struct world *w, struct timer *t, uint64_t deadline, uint64_t slack)
{
	uint64_t past = w->now / w->tick_ns, tick = tick_of(w, deadline);

	t->deadline = deadline;
	t->armed = 1;
	/* The sweep that is under way comes by while its callback waits. */
	t->periodic = t->period != 0;
	t->vague = w->driving && t->queued && t->period != 0 && deadline <= w->now;
	t->behind |= t->vague;
	t->leeway = slack > t->slack ? slack : t->slack;
	t->tick = tick > past ? tick : past + 1;
	t->exact = slack == 0 && deadline < LATEST && t->tick - w->hand < EXACT;
	t->said = deadline;
	if (deadline >= LATEST || slack >= LATEST)
		t->tick = HWHEEL_NEVER;
	else
		t->tick += slack / w->tick_ns;
	if (t->tick != HWHEEL_NEVER)
		t->tick += rounded_by(t->tick - w->hand);
}

void set(struct world *w, struct timer *t, uint64_t deadline)
{
	t->passed = 0;
	set_range(w, t, deadline, 0);
}

void forget(struct timer *t)
{
	t->exists = t->armed = 0;
}

void cancelled(struct timer *t)
{
	t->armed = 0;
	if (t->frees_itself)
		forget(t);
}

uint64_t ask(struct world *w, const struct timer *t)
{
	uint64_t left = 0;

	MUST(hwheel_timer_remaining(w->wheel, t->handle, &left) == 1);
	return left == HWHEEL_NEVER ? left : w->now + left;
}

/* From now on the table knows the tick of a timer that is due later. */
static void narrow(struct world *w, struct timer *t)
{
	uint64_t at = ask(w, t);

	if (at == HWHEEL_NEVER) {
		MUST(t->tick == HWHEEL_NEVER);
	} else {
		MUST(at % w->tick_ns == 0 && at >= t->deadline);
		MUST(at / w->tick_ns <= t->tick);
		MUST(!t->exact || at / w->tick_ns == t->tick);
		t->tick = at / w->tick_ns;
		t->exact = 1;
	}
	t->said = at;
}

void agree(struct world *w, struct timer *t)
{
	uint64_t left = HWHEEL_NEVER;

	if (t->handle == 0)
		return;
	if (!t->exists) {
		MUST(hwheel_timer_pending(w->wheel, t->handle) == -ESTALE);
		return;
	}
	MUST(hwheel_timer_pending(w->wheel, t->handle) == t->armed);
	MUST(hwheel_timer_remaining(w->wheel, t->handle, &left) == t->armed);
	if (!t->armed || t->deadline == HWHEEL_NEVER)
		MUST(left == HWHEEL_NEVER);
	else if (t->behind)
		return;
	else if (t->deadline >= LATEST)
		MUST(left >= LATEST - w->now);
	else if (left > 0) {
		uint64_t now = w->now / w->tick_ns;

		/* A leap has put off to a rounded tick what its own callback holds up. */
		if (t->running && t->tick <= now) {
			t->tick = now + rounded_by(w->longest);
			t->exact = 0;
		}
		narrow(w, t);
	} else {
		MUST(t->deadline <= w->now);
	}
}

void fires(struct world *w, struct timer *t)
{
	table_fired++;
	w->swept++;
	MUST(t->exists && t->armed && t->deadline <= w->now);
	if (t->exact) {
		MUST(t->tick >= w->last_tick && t->tick <= w->now / w->tick_ns);
		w->last_tick = t->tick;
	}
	if (t->period == 0)
		cancelled(t);
}

void goes_on(struct world *w, struct timer *t, uint64_t deadline, uint64_t slack)
{
	set_range(w, t, deadline, slack);
	/* Those of a burst come faster than the table sees them. */
	if (t->missed != HWHEEL_MISSED_BURST && t->deadline < LATEST && t->handle != 0)
		narrow(w, t);
	t->exact = 0;
	/* It has not seen from when a delay counts, nor that a tick saturates. */
	if (t->behind && (t->missed == HWHEEL_MISSED_DELAY || t->period >= LATEST))
		t->vague = 1;
}

void goes_on_somewhere(struct world *w, struct timer *t)
{
	uint64_t at = ask(w, t), span = t->leeway + w->tick_ns;
	uint64_t far = t->period / w->tick_ns;

	/* Coarsely, if that was in the middle of a leap, or is one itself. */
	if (far < w->longest)
		far = w->longest;
	span += rounded_by(far) * w->tick_ns;
	t->armed = 1;
	t->vague = t->behind && (t->missed == HWHEEL_MISSED_DELAY || t->period >= LATEST);
	t->said = at;
	t->exact = 0;
	t->deadline = at == HWHEEL_NEVER ? at : at > span ? at - span : 0;
	t->tick = at == HWHEEL_NEVER ? at : at / w->tick_ns;
}

/* The next period, after @missed missed ones. */
static uint64_t next_period(const struct world *w, const struct timer *t,
			    uint32_t missed)
{
	uint64_t now = w->now / w->tick_ns * w->tick_ns, from = t->deadline;

	MUST(missed == 0 || missed == UINT32_MAX || from + missed * t->period <= w->now);
	if (t->missed == HWHEEL_MISSED_DELAY && missed > 0)
		from = w->now;
	else if (missed == UINT32_MAX)
		from += (now - from) / t->period * t->period;
	else
		from += missed * t->period;
	return from > HWHEEL_NEVER - t->period ? HWHEEL_NEVER : from + t->period;
}

void expected(struct world *w, const struct hwheel_event *e)
{
	struct timer *t = &w->timers[e->cookie % COUNT(w->timers)];
	uint64_t before = 0;

	MUST(t->cookie == e->cookie && e->timer == t->handle);
	if (!t->behind) {
		MUST(e->deadline_ns >= t->deadline);
		MUST(e->deadline_ns <= t->tick * w->tick_ns);
		MUST(t->periodic || e->deadline_ns % w->tick_ns == 0);
		if (t->passed && t->period != 0)
			before = (e->deadline_ns - t->deadline) / t->period;
		if (e->missed == UINT32_MAX || before > e->missed)
			before = 0;
		t->passed = 0;
		t->deadline = e->deadline_ns;
	}
	fires(w, t);
	if (t->period == 0)
		MUST(t->behind || e->missed == 0);
	else if (t->behind)
		goes_on_somewhere(w, t);
	else
		goes_on(w, t, next_period(w, t, e->missed - (uint32_t)before), t->slack);
	if (t->period != 0 && t->missed != HWHEEL_MISSED_BURST && !t->behind)
		MUST(t->deadline > w->now / w->tick_ns * w->tick_ns);
}

/*
 * It exists for as long as its callback runs, and may arm itself again. If that
 * came due meanwhile it waited for the end, and a period was left out.
 */
void callback_is_over(struct world *w, struct timer *t)
{
	uint64_t past = w->now / w->tick_ns;

	t->running = 0;
	if (t->exists && t->armed && t->vague) {
		goes_on_somewhere(w, t);
		/* Coarsely, if that was in the middle of a leap. */
		if (t->tick != HWHEEL_NEVER)
			t->tick += rounded_by(w->longest);
		t->left = w->drained && t->said <= w->now;
	}
	if (!t->exists || !t->armed) {
		if (t->frees_itself)
			forget(t);
	} else if (t->tick <= past) {
		t->tick = past + 1;
		t->exact = 0;
		t->left = w->drained;
	}
}

int owed(const struct world *w, const struct timer *t)
{
	return t == NULL ? -ESTALE : t->shut || w->drained ? -ESHUTDOWN : t->armed;
}

/* Fires by a tick that the table knows: not held up by its own callback. */
static int is_due(const struct world *w, const struct timer *t)
{
	return t->exists && t->armed && t->deadline < LATEST && !t->vague &&
	       !t->left && (!t->running || t->deadline > w->now);
}

void none_is_lost(struct world *w)
{
	for (unsigned i = 0; i < COUNT(w->timers); i++)
		if (is_due(w, &w->timers[i]))
			MUST(w->timers[i].tick > w->now / w->tick_ns);
}

uint64_t soonest(const struct world *w)
{
	uint64_t at = LATEST;

	for (unsigned i = 0; i < COUNT(w->timers); i++) {
		const struct timer *t = &w->timers[i];

		if (is_due(w, t) && t->tick < at / w->tick_ns)
			at = t->tick * w->tick_ns;
	}
	return at;
}

void enqueue(struct world *w, struct timer *t)
{
	MUST(w->queued < w->room);
	w->line[w->queued++] = t;
	t->running = t->queued = 1;
}

void dequeue(struct world *w, struct timer *t, int in_turn)
{
	uint32_t i = 0;

	while (i < w->queued && w->line[i] != t)
		i++;
	MUST(i < w->queued && (!in_turn || i == 0));
	w->queued--;
	memmove(w->line + i, w->line + i + 1, (w->queued - i) * sizeof w->line[0]);
	t->queued = 0;
}

void leave_period_out(const struct world *w, struct timer *t)
{
	if (t->queued && t->period != 0 && t->deadline <= w->now)
		t->vague = t->behind = 1;
}

void leave_periods_out(struct world *w)
{
	for (unsigned i = 0; i < TIMERS; i++)
		leave_period_out(w, &w->timers[i]);
}
