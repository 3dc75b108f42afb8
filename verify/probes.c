/* Comes past every probe, in an order that verify/probes.sh knows. */
#include "verify.h"

static void fired(struct hwheel *w, const struct hwheel_event *e)
{
}

/* The program runs what is queued. */
static void leave_queued(struct hwheel *w, void *arg)
{
}

int main(void)
{
	struct hwheel_options o = { .size = sizeof o, .clock = HWHEEL_CLOCK_MANUAL };
	struct hwheel_options by = o;
	struct hwheel *w, *asleep;
	hwheel_timer_t t;

	MUST(hwheel_create(&o, &w) == 0);
	MUST(hwheel_timer_setup(w, fired, 0, &t) == 0);
	MUST(hwheel_timer_mod(w, t, SEC, 0) == 0);
	MUST(hwheel_timer_delete(w, t) == 1);
	/* from level 1, and moved before it fires */
	MUST(hwheel_timer_mod(w, t, 2 * SEC, 0) == 0);
	MUST(hwheel_timer_mod(w, t, 2 * SEC + 1, 0) == 1);
	MUST(hwheel_advance(w, 3 * SEC, NULL, 0, NULL) == 0);
	MUST(hwheel_destroy(w) == 0);

	/* a callback that is queued: it returns once */
	by.executor = leave_queued;
	MUST(hwheel_create(&by, &w) == 0);
	MUST(hwheel_once(w, MS, fired, 0, 0, NULL) == 0);
	MUST(hwheel_advance(w, SEC, NULL, 0, NULL) == 0);
	MUST(hwheel_run_queued(w) == 1);
	MUST(hwheel_destroy(w) == 0);

	/* nobody polls: the kick is for a loop that would sleep */
	MUST(hwheel_create(NULL, &asleep) == 0);
	MUST(hwheel_fd(asleep) >= 0);
	MUST(hwheel_poll(asleep, NULL, 0, NULL) == 0);
	MUST(hwheel_once(asleep, 3600 * SEC, NULL, 0, 0, &t) == 0);
	return hwheel_destroy(asleep) == 0 ? 0 : 1;
}
