/*
 * Stress: many threads, all operations, and counts that add up exactly.
 *
 * Threads pick a wheel and a timer at random and do something to it, while the
 * tick threads fire. Threads end and are replaced all the time; wheels are made
 * and destroyed beside those under test. In the end each wheel is stopped and
 * drained, and
 *
 *     armed = fired + cancelled + superseded + drained,    live = 0.
 *
 * None is lost: before that, all that is overdue must have fired. On the way
 * every callback checks that it is not early; a thread checks of its own timers
 * that they are silent after delete_sync, and of timers that it freed that
 * every operation on them is stale.
 *
 * usage: stress [-r] -s seconds | -n operations
 *
 * With -r threads rest now and then, so that the tick thread of a library that
 * dawdles gets its share of the processors and fires in time.
 */
#include <errno.h>
#include <pthread.h>
#include "verify.h"

#define MOST_TIMERS 4096
#define GHOSTS 8
#define MOST_THREADS 256
#define MOST_WHEELS 200
/* Operations in the life of a thread. */
#define LIFE 20000
/* Operations between two rests. */
#define BOUT 16

struct phase {
	unsigned threads, wheels, timers;
	uint32_t levels, slots;
};

static const struct phase phases[] = {
	{ 8, 1, 4096, 4, 256 },
	{ 64, 1, 4096, 1, 512 },
	{ 256, 1, 4096, 3, 16 },
	{ 8, 200, 64, 2, 64 },
};

/* What one thread has done, or all. */
struct tally {
	uint64_t operations, armed, superseded, cancelled;
	uint64_t stale, haunted, shut, synced, threads, wheels;
};

static struct {
	struct hwheel *wheel;
	_Atomic hwheel_timer_t timers[MOST_TIMERS];
} under_test[MOST_WHEELS];

static const struct phase *phase;
static struct tally total;
static pthread_mutex_t total_lock = PTHREAD_MUTEX_INITIALIZER;
static atomic_int over;
static int with_rests;
static _Atomic uint64_t operations_done, operations_wanted;
/* By callbacks. */
static struct word fired, armed_inside, cancelled_inside;

static void count(struct word *word)
{
	atomic_fetch_add_explicit(&word->n, 1, memory_order_relaxed);
}

static void not_early(struct hwheel *w, const struct hwheel_event *event)
{
	uint64_t now = 0;

	MUST(hwheel_now(w, &now) == 0);
	MUST(now >= event->deadline_ns);
	count(&fired);
}

/* One in eight arms itself again, one in eight frees itself. */
static void plain(struct hwheel *w, const struct hwheel_event *event)
{
	unsigned dice = (unsigned)(event->deadline_ns >> 4) & 7;
	int got = -ESTALE;

	not_early(w, event);
	if (dice == 0) {
		got = hwheel_mod(w, event->timer, MS, 0);
		if (got == 0)
			count(&armed_inside);
	} else if (dice == 1) {
		got = hwheel_free(w, event->timer);
		if (got == 1)
			count(&cancelled_inside);
	}
	MUST(got == 0 || got == 1 || got == -ESTALE || got == -ESHUTDOWN);
}

/* A periodic timer is armed again by firing. */
static void periodic(struct hwheel *w, const struct hwheel_event *event)
{
	not_early(w, event);
	count(&armed_inside);
}

/* A timer that only one thread arms: it says when its callback is inside. */
struct own {
	hwheel_timer_t timer;
	atomic_uint inside, calls;
};

static void silent(struct hwheel *w, const struct hwheel_event *event)
{
	struct own *own = (struct own *)(uintptr_t)event->cookie;

	atomic_store(&own->inside, 1);
	not_early(w, event);
	atomic_fetch_add(&own->calls, 1);
	atomic_store(&own->inside, 0);
}

struct worker {
	uint64_t rng;
	struct tally tally;
	struct hwheel *home;
	struct own own;
	/* Timers that this thread has freed, and where they lived. */
	struct { struct hwheel *wheel; hwheel_timer_t timer; } ghosts[GHOSTS];
};

static uint64_t dice(struct worker *me, uint64_t n)
{
	return rng_below(&me->rng, n);
}

static uint64_t some_delay(struct worker *me)
{
	switch (dice(me, 16)) {
	case 0:
		return 0;
	case 1:
		return HWHEEL_NEVER;
	case 2:
		return dice(me, 3600 * SEC);
	default:
		return dice(me, 20 * MS);
	}
}

static int known(struct worker *me, int got)
{
	MUST(got == 0 || got == 1 || got == -ESTALE || got == -ESHUTDOWN);
	me->tally.stale += got == -ESTALE;
	me->tally.shut += got == -ESHUTDOWN;
	return got;
}

/* The answer of a call that arms always. */
static void armed(struct worker *me, int got)
{
	known(me, got);
	me->tally.armed += got >= 0;
	me->tally.superseded += got == 1;
}

/* The answer of one that arms, or moves what stays armed. */
static void armed_or_moved(struct worker *me, int got)
{
	me->tally.armed += known(me, got) == 0;
}

static void cancelled(struct worker *me, int got)
{
	me->tally.cancelled += known(me, got) == 1;
}

static void remember(struct worker *me, struct hwheel *w, hwheel_timer_t timer)
{
	unsigned n = (unsigned)dice(me, GHOSTS);

	me->ghosts[n].wheel = w;
	me->ghosts[n].timer = timer;
}

/* A timer that is gone stays gone, whatever lives at its place. */
static void haunt(struct worker *me)
{
	unsigned n = (unsigned)dice(me, GHOSTS);
	struct hwheel *w = me->ghosts[n].wheel;
	hwheel_timer_t timer = me->ghosts[n].timer;
	uint64_t ns = 0;

	if (w == NULL)
		return;
	MUST(hwheel_mod(w, timer, 0, 0) == -ESTALE);
	MUST(hwheel_reduce(w, timer, 0, 0) == -ESTALE);
	MUST(hwheel_delete(w, timer) == -ESTALE);
	MUST(hwheel_shutdown_sync(w, timer) == -ESTALE);
	MUST(hwheel_free(w, timer) == -ESTALE);
	MUST(hwheel_remaining(w, timer, &ns) == -ESTALE);
	me->tally.haunted++;
}

/* Nothing runs after a sync delete. */
static void hush(struct worker *me)
{
	struct own *own = &me->own;
	unsigned calls;
	int got;

	if (dice(me, 4) != 0) {
		armed(me, hwheel_mod(me->home, own->timer, dice(me, MS), 0));
		return;
	}
	got = hwheel_delete_sync(me->home, own->timer);
	MUST(got == 0 || got == 1);
	cancelled(me, got);
	MUST(atomic_load(&own->inside) == 0);
	calls = atomic_load(&own->calls);
	if (dice(me, 64) == 0)
		sleep_ns(2 * MS);
	MUST(atomic_load(&own->calls) == calls);
	me->tally.synced++;
}

/* A wheel beside those under test: made, used, destroyed while armed. */
static void come_and_go(struct worker *me)
{
	struct hwheel_options o = { .size = sizeof o, .max_timers = 100 };
	struct hwheel *w = NULL;
	hwheel_timer_t timer = 0;

	MUST(hwheel_create(&o, 0, &w) == 0);
	MUST(hwheel_after(w, 3600 * SEC, NULL, 0, 0, &timer) == 0);
	if (dice(me, 2) == 0)
		MUST(hwheel_start(w, 0) == 0);
	MUST(hwheel_delete(w, timer) == 1);
	MUST(hwheel_every(w, 0, MS, NULL, 0, 0, NULL) == 0);
	MUST(hwheel_destroy(w) == 0);
	me->tally.wheels++;
}

/* A new timer in the place of an old one, which is freed. */
static void renew(struct worker *me, struct hwheel *w,
		  _Atomic hwheel_timer_t *slot)
{
	static const uint32_t missed[] = {
		0, HWHEEL_MISSED_BURST, HWHEEL_MISSED_DELAY,
	};
	hwheel_timer_t fresh = 0, old;
	uint64_t delay = some_delay(me), now = 0;
	hwheel_fn fn = dice(me, 4) ? plain : NULL;
	int got;

	switch (dice(me, 4)) {
	case 0:
		got = hwheel_setup(w, fn, 0, 0, &fresh);
		me->tally.armed -= got == 0;
		break;
	case 1:
		MUST(hwheel_now(w, &now) == 0);
		got = hwheel_at(w, now + dice(me, MS), fn, 0, 0, &fresh);
		break;
	case 2:
		got = hwheel_every(w, delay, 100 * MS + dice(me, SEC), periodic,
				   0, missed[dice(me, 3)], &fresh);
		break;
	default:
		got = hwheel_after(w, delay, fn, 0, 0, &fresh);
	}
	MUST(got == 0);
	me->tally.armed++;
	old = atomic_exchange(slot, fresh);
	got = hwheel_free(w, old);
	cancelled(me, got);
	if (got >= 0)
		remember(me, w, old);
}

static void operate(struct worker *me)
{
	unsigned n = (unsigned)dice(me, phase->wheels);
	struct hwheel *w = under_test[n].wheel;
	_Atomic hwheel_timer_t *slot = &under_test[n].timers[dice(me, phase->timers)];
	hwheel_timer_t timer = atomic_load(slot);
	uint64_t now = 0;

	switch (dice(me, 16)) {
	case 0:
	case 1:
	case 2:
		renew(me, w, slot);
		break;
	case 3:
	case 4:
	case 5:
		armed(me, hwheel_mod(w, timer, some_delay(me), 0));
		break;
	case 6:
		MUST(hwheel_now(w, &now) == 0);
		armed(me, hwheel_mod_at(w, timer, now + dice(me, MS), 0));
		break;
	case 7:
		armed_or_moved(me, hwheel_reduce(w, timer, some_delay(me), 0));
		break;
	case 8:
		known(me, hwheel_mod_pending(w, timer, some_delay(me), 0));
		break;
	case 9:
		cancelled(me, hwheel_delete(w, timer));
		break;
	case 10:
		cancelled(me, hwheel_free(w, timer));
		break;
	case 11:
		cancelled(me, hwheel_shutdown(w, timer));
		break;
	case 12:
		known(me, hwheel_remaining(w, timer, &now));
		known(me, hwheel_pending(w, timer));
		break;
	case 13:
		haunt(me);
		break;
	default:
		hush(me);
	}
	me->tally.operations++;
}

static void add(const struct tally *t)
{
	pthread_mutex_lock(&total_lock);
	total.operations += t->operations;
	total.armed += t->armed;
	total.superseded += t->superseded;
	total.cancelled += t->cancelled;
	total.stale += t->stale;
	total.haunted += t->haunted;
	total.shut += t->shut;
	total.synced += t->synced;
	total.threads++;
	total.wheels += t->wheels;
	pthread_mutex_unlock(&total_lock);
}

static void *work(void *seed)
{
	struct worker me = { .rng = (uint64_t)(uintptr_t)seed };

	me.home = under_test[dice(&me, phase->wheels)].wheel;
	MUST(hwheel_setup(me.home, silent, (uintptr_t)&me.own, 0,
			  &me.own.timer) == 0);
	for (int i = 0; i < LIFE && !atomic_load(&over); i++) {
		operate(&me);
		if (with_rests && i % BOUT == 0)
			sleep_ns(phase->threads * (MS / 4));
	}
	come_and_go(&me);
	cancelled(&me, hwheel_shutdown_sync(me.home, me.own.timer));
	MUST(atomic_load(&me.own.inside) == 0);
	MUST(hwheel_free(me.home, me.own.timer) == 0);
	if (atomic_fetch_add(&operations_done, me.tally.operations) >=
	    operations_wanted)
		atomic_store(&over, 1);
	add(&me.tally);
	return NULL;
}

static uint64_t next_seed(void)
{
	static uint64_t seed = 0x5eed;

	return rng_next(&seed) | 1;
}

static pthread_t start_one(void)
{
	pthread_t thread;

	MUST(pthread_create(&thread, NULL, work,
			    (void *)(uintptr_t)next_seed()) == 0);
	return thread;
}

/* Threads that are replaced as they end, until it is over. */
static void crowd(unsigned n, uint64_t until)
{
	static pthread_t threads[MOST_THREADS];
	uint64_t said = clock_ns();

	for (unsigned i = 0; i < n; i++)
		threads[i] = start_one();
	while (!atomic_load(&over)) {
		sleep_ns(MS);
		for (unsigned i = 0; i < n; i++)
			if (pthread_tryjoin_np(threads[i], NULL) == 0)
				threads[i] = start_one();
		if (clock_ns() > until)
			atomic_store(&over, 1);
		if (clock_ns() - said > 20 * SEC) {
			said = clock_ns();
			printf("  %u threads, %u wheels: %" PRIu64
			       " operations so far\n", n, phase->wheels,
			       atomic_load(&operations_done));
			fflush(stdout);
		}
	}
	for (unsigned i = 0; i < n; i++)
		pthread_join(threads[i], NULL);
}

/* Waits until every timer that is overdue has fired: none is lost. */
static uint64_t catch_up(unsigned n)
{
	struct hwheel *w = under_test[n].wheel;
	uint64_t now = 0, left = 0;

	MUST(hwheel_now(w, &now) == 0);
	for (unsigned i = 0; i < phase->timers; i++) {
		hwheel_timer_t timer = atomic_load(&under_test[n].timers[i]);
		uint64_t patience = clock_ns() + 60 * SEC;

		while (hwheel_remaining(w, timer, &left) == 1 && left == 0) {
			MUST(clock_ns() < patience);
			sleep_ns(MS);
		}
	}
	return now;
}

/* Stops a wheel and gives back what it holds. */
static void finish(unsigned n, uint64_t *all_fired, uint64_t *unclaimed,
		   uint64_t *drained)
{
	struct hwheel *w = under_test[n].wheel;
	struct hwheel_stats s = { .size = sizeof s };
	struct hwheel_event events[64];
	uint64_t caught_up = catch_up(n);
	int got;

	MUST(hwheel_stop(w) == 0);
	do {
		got = hwheel_drain(w, events, COUNT(events));
		MUST(got >= 0);
		for (int i = 0; i < got; i++) {
			MUST(events[i].flags == HWHEEL_EVENT_DRAINED);
			MUST(events[i].deadline_ns > caught_up);
		}
		*drained += (uint64_t)got;
	} while (got == COUNT(events));
	for (unsigned i = 0; i < phase->timers; i++) {
		got = hwheel_free(w, atomic_load(&under_test[n].timers[i]));
		MUST(got == 0 || got == -ESTALE);
	}
	MUST(hwheel_get_stats(w, &s) == 0);
	MUST(s.live == 0);
	*all_fired += s.fired;
	*unclaimed += s.unclaimed;
	MUST(hwheel_destroy(w) == 0);
	memset(&under_test[n], 0, sizeof under_test[n]);
}

static void run(const struct phase *p, uint64_t seconds, uint64_t operations)
{
	struct hwheel_options o = {
		.size = sizeof o, .tick_ns = with_rests ? MS : MS / 10,
		.levels = p->levels, .slots = p->slots,
	};
	uint64_t all_fired = 0, unclaimed = 0, drained = 0, begin = clock_ns();
	uint64_t armed_all, ended;

	phase = p;
	memset(&total, 0, sizeof total);
	atomic_store(&over, 0);
	atomic_store(&operations_done, 0);
	atomic_store(&operations_wanted, operations);
	atomic_store(&fired.n, 0);
	atomic_store(&armed_inside.n, 0);
	atomic_store(&cancelled_inside.n, 0);
	for (unsigned i = 0; i < p->wheels; i++) {
		MUST(hwheel_create(&o, 0, &under_test[i].wheel) == 0);
		MUST(hwheel_start(under_test[i].wheel, 0) == 0);
	}
	crowd(p->threads, begin + seconds * SEC);
	for (unsigned i = 0; i < p->wheels; i++)
		finish(i, &all_fired, &unclaimed, &drained);

	armed_all = total.armed + atomic_load(&armed_inside.n);
	ended = all_fired + total.cancelled + atomic_load(&cancelled_inside.n) +
		total.superseded + drained;
	printf("%3u threads (%" PRIu64 " in all), %3u wheels (and %" PRIu64
	       " beside), %" PRIu32 " levels of %" PRIu32 ":\n"
	       "  operations %" PRIu64 " in %.1f s, stale %" PRIu64
	       ", ghosts %" PRIu64 ", shut down %" PRIu64
	       ", synced %" PRIu64 "\n"
	       "  armed %" PRIu64 " = fired %" PRIu64 " + cancelled %" PRIu64
	       " + superseded %" PRIu64 " + drained %" PRIu64 "\n",
	       p->threads, total.threads, p->wheels, total.wheels, p->levels,
	       p->slots, total.operations, (double)(clock_ns() - begin) / 1e9,
	       total.stale, total.haunted, total.shut, total.synced,
	       armed_all, all_fired,
	       total.cancelled + atomic_load(&cancelled_inside.n),
	       total.superseded, drained);
	fflush(stdout);
	MUST(armed_all == ended);
	MUST(all_fired == atomic_load(&fired.n) + unclaimed);
	MUST(all_fired > 0 && total.cancelled > 0 && total.superseded > 0);
	MUST(drained > 0 && total.stale > 0 && total.haunted > 0);
	MUST(total.synced > 0);
}

int main(int argc, char **argv)
{
	uint64_t n = argc > 2 ? strtoull(argv[argc - 1], NULL, 10) : 0;
	uint64_t share = (n + COUNT(phases) - 1) / COUNT(phases);
	const char *unit = argc > 2 ? argv[argc - 2] : "";
	int by_time = strcmp(unit, "-s") == 0;

	with_rests = argc == 4 && strcmp(argv[1], "-r") == 0;
	if (n == 0 || argc != 3 + with_rests ||
	    (!by_time && strcmp(unit, "-n") != 0)) {
		fprintf(stderr,
			"usage: stress [-r] -s seconds | -n operations\n");
		return 2;
	}
	for (size_t i = 0; i < COUNT(phases); i++)
		run(&phases[i], by_time ? share : UINT32_MAX,
		    by_time ? UINT64_MAX : share);
	return 0;
}
