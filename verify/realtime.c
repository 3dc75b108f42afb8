/*
 * Under RealtimeSanitizer: arming, moving, asking, cancelling, freeing and
 * firing neither allocate nor lock nor enter the kernel where it may block.
 * The tool ends the process at the first such call between __rtsan_realtime_
 * enter() and exit(), in this thread.
 *
 * Made ready before: the memory of the wheel, and the caller's number and inbox. Two
 * errors can be planted, which must be found: with -a a callback allocates,
 * with -m the wheel has to map memory.
 */
#include "verify.h"

enum { TIMERS = 3000, ROUNDS = 100, CALLS = 17 };

/* What is made ready is for more timers than are used. */
enum { MOST = 3 * TIMERS };

void __rtsan_realtime_enter(void);
void __rtsan_realtime_exit(void);

static unsigned fired;
static int allocates;
static void *volatile leak;

static void count(struct hwheel *w, const struct hwheel_event *e)
{
	fired++;
	if (allocates)
		leak = malloc(1);
}

/* Every call that is not to block. One timer stays, armed. */
static void use(struct hwheel *w, uint64_t delay, hwheel_timer_t *timer)
{
	hwheel_timer_t after = 0, at = 0, every = 0;
	uint64_t now = 0, left = 0;

	MUST(hwheel_now(w, &now) == 0);
	MUST(hwheel_timer_setup(w, count, 0, timer) == 0);
	MUST(hwheel_timer_mod(w, *timer, delay, 0) == 0);
	MUST(hwheel_timer_mod(w, *timer, now + 3 * delay, HWHEEL_ABS) == 1);
	MUST(hwheel_timer_mod(w, *timer, 2 * delay, HWHEEL_REDUCE) == 1);
	MUST(hwheel_timer_mod(w, *timer, delay, HWHEEL_IF_PENDING) == 1);
	MUST(hwheel_timer_pending(w, *timer) == 1);
	/* To the tick after it. */
	MUST(hwheel_timer_remaining(w, *timer, &left) == 1 && left <= delay + MS);
	MUST(hwheel_once(w, delay, count, 0, 0, &after) == 0);
	MUST(hwheel_once(w, now + 2 * delay, count, 0, HWHEEL_ABS, &at) == 0);
	MUST(hwheel_every(w, delay, delay, 0, count, 0, 0, &every) == 0);
	MUST(hwheel_timer_delete(w, after) == 1);
	MUST(hwheel_timer_shutdown(w, at) == 1);
	MUST(hwheel_timer_free(w, every) == 1);
	MUST(hwheel_timer_delete(w, *timer) == 1);
	MUST(hwheel_timer_mod(w, *timer, delay, 0) == 0);
}

/* With its own clock, or one that hardly moves: all delays equal. */
static void storm(struct hwheel *w, uint64_t *now, unsigned n)
{
	uint64_t spread = now != NULL ? 1009 * SEC : 1;
	static hwheel_timer_t timers[MOST];

	for (unsigned round = 0; round < ROUNDS; round++) {
		for (unsigned i = 0; i < n; i++)
			use(w, 100 * SEC + i * 7919 * SEC % spread, &timers[i]);
		for (unsigned step = 0; now != NULL && step < 100; step++) {
			*now += 12 * SEC;
			MUST(hwheel_advance(w, *now, NULL, 0, NULL) == 0);
		}
		for (unsigned i = 0; i < n; i++)
			MUST(hwheel_timer_free(w, timers[i]) >= 0);
	}
}

static void without_blocking(struct hwheel *w, uint64_t *now)
{
	__rtsan_realtime_enter();
	storm(w, now, TIMERS);
	__rtsan_realtime_exit();
}

int main(int argc, char **argv)
{
	struct hwheel_options o = {
		.size = sizeof o, .clock = HWHEEL_CLOCK_MANUAL,
	};
	int fresh = argc > 1 && strcmp(argv[1], "-m") == 0;
	struct hwheel *manual = NULL, *driven = NULL;
	uint64_t now = 0;

	MUST(hwheel_create(&o, &manual) == 0);
	if (!fresh)
		storm(manual, &now, MOST);
	fired = 0;
	allocates = argc > 1 && strcmp(argv[1], "-a") == 0;
	without_blocking(manual, &now);

	/* While a tick thread sleeps for an earlier timer. */
	MUST(hwheel_create(NULL, &driven) == 0);
	MUST(hwheel_start(driven) == 0);
	MUST(hwheel_every(driven, MS, MS, 0, NULL, 0, 0, NULL) == 0);
	storm(driven, NULL, MOST);
	without_blocking(driven, NULL);

	printf("    %u calls and %u callbacks, none blocked\n",
	       2 * TIMERS * ROUNDS * CALLS, fired);
	MUST(hwheel_destroy(driven) == 0);
	return hwheel_destroy(manual) == 0 ? 0 : 1;
}
