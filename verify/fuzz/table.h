/*
 * What a plain table says of the timers of a wheel: which there are, by which tick
 * each fires, and what a call owes. It knows nothing of how a wheel works.
 *
 * Times stay below 2^60 ns, so that it needs no wide arithmetic.
 */
#ifndef TABLE_H
#define TABLE_H

#include <errno.h>
#include "../verify.h"

enum { TIMERS = 24, KEYS = 4, MOST_EVENTS = 8, MOST_ROOM = 16 };

#define LATEST (UINT64_C(1) << 60)

struct timer {
	hwheel_timer_t handle;
	uint64_t cookie, period, slack;
	/*
	 * Not before this. An event has the tick that it fired in, and a periodic
	 * timer's event a time of its own up to that, if nobody has moved it.
	 */
	uint64_t deadline;
	/* The slack of this deadline, or of the next one. */
	uint64_t leeway;
	/* The tick by which it fires, and whether that is exactly when. */
	uint64_t tick;
	int exact;
	/* The time of that tick as the library has said it, or the deadline. */
	uint64_t said;
	uint32_t missed;
	int exists, armed, shut, frees_itself, calls;
	/* It has a period, or had one when it was armed. */
	int periodic;
	/*
	 * Its first time had passed long before it was made. The event may count the
	 * periods up to then as missed before its deadline.
	 */
	int passed;
	/* Freed or not, its callback runs; or waits in the queue, for this event. */
	int running, queued;
	uint64_t queued_deadline, queued_tick;
	int queued_behind;
	/*
	 * A period has come due meanwhile: the table does not know the next one,
	 * until the timer is moved.
	 */
	int vague, behind;
	/* It came due while its callback ran, which ended behind a drain: that alone
	 * is sure to hand it over. */
	int left;
};

struct world {
	struct hwheel *wheel;
	/* The last ones are those of the keys. */
	struct timer timers[TIMERS + KEYS];
	uint64_t now, tick_ns, limit, last_tick;
	/* The longest sweep so far, in ticks. */
	uint64_t longest;
	/* A sweep stops after @budget timers, and has fired @swept. */
	uint32_t budget, swept;
	/* Where the hand may still be, in ticks: from there it is far or near. */
	uint64_t hand;
	int driving, drained;
	/* Callbacks that run, one in another. */
	int inside;
	/*
	 * Of an executor's queue: its room, how many wait in it, what it had no room
	 * for. In the line is who waits, in order.
	 */
	uint32_t room, overload, queued;
	struct timer *line[MOST_ROOM];
	uint64_t dropped;
	/* What an advance writes, and how much of it the table knows of. */
	struct hwheel_event events[MOST_EVENTS];
	uint32_t delivered;
};

/* How many have fired, over all executions. */
extern uint64_t table_fired;

/* The first tick at or after a time; a time, from what a call was given. */
uint64_t tick_of(const struct world *w, uint64_t ns);
uint64_t absolute(const struct world *w, uint64_t time, uint32_t flags);

/* How many timers there are, and how many of them are armed. */
unsigned live(const struct world *w);
unsigned armed(const struct world *w);
/* The timer of a handle, or NULL. */
struct timer *find(struct world *w, hwheel_timer_t handle);
/* By when the next one fires, as far as the table knows. */
uint64_t soonest(const struct world *w);
/* What an arm owes, but for its flags. */
int owed(const struct world *w, const struct timer *t);

/* It was armed to that deadline, or so much later. */
void set(struct world *w, struct timer *t, uint64_t deadline);
void set_range(struct world *w, struct timer *t, uint64_t deadline, uint64_t slack);
/* It was cancelled; it was freed. */
void cancelled(struct timer *t);
void forget(struct timer *t);

/* It fires; and is armed to its next period. */
void fires(struct world *w, struct timer *t);
void goes_on(struct world *w, struct timer *t, uint64_t deadline, uint64_t slack);
/* It is armed to a later period. The table does not know how many periods have passed. */
void goes_on_somewhere(struct world *w, struct timer *t);
/* It has fired, and says how. */
void expected(struct world *w, const struct hwheel_event *e);
/* Its callback goes into the queue; comes out of it, in its turn or not. */
void enqueue(struct world *w, struct timer *t);
void dequeue(struct world *w, struct timer *t, int in_turn);
/* What comes due while its callback waits is left out. */
void leave_period_out(const struct world *w, struct timer *t);
void leave_periods_out(struct world *w);
void callback_is_over(struct world *w, struct timer *t);

/* The time of an armed timer's tick, or now if that has passed. */
uint64_t ask(struct world *w, const struct timer *t);
/* What the library says of a timer is what the table does, or more exact. */
void agree(struct world *w, struct timer *t);
/* What was due has fired. */
void none_is_lost(struct world *w);

#endif
