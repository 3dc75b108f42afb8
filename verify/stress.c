/*
 * Stress: many threads, all operations, and counts that add up exactly.
 *
 * Threads pick a timer or a key at random and do something to it, while the
 * tick threads fire; some wheels have workers, each with its way to deal with a
 * full queue. Threads end and are replaced all the time; wheels are made and
 * destroyed concurrently with those under test. In the end each wheel is stopped and
 * drained, and
 *
 *     armed = fired + cancelled + superseded + drained,    live = 0.
 *
 * Meanwhile the books of memory hold, also of wheels whose driver is stopped for good.
 * None is lost: what is drained is not overdue. No key has anything pending:
 * each set of a key has fired, or was deleted, replaced or drained. On the way
 * every callback checks that it is not early; a thread checks of its own timers
 * that they are silent after delete_sync, and of timers that it freed that
 * every operation on them is stale.
 *
 * usage: stress -s seconds | -n operations
 */
#include "verify.h"

#define MOST_TIMERS 4096
#define KEYS 48
/* Timers of one call. */
#define BATCH 16
/* Of workers: so short that it is full now and then. */
#define QUEUE 16
#define GHOSTS 8
#define MOST_WHEELS 200
/* The most operations in the life of a thread. */
#define LIFE 20000
/* How many lives each thread and its successors have at least. */
#define LIVES 4
/* Calls on one wheel before the next, on average. */
#define STAY 64
/* The operations that a phase has at least, however little of the processor it gets. */
#define LEAST 8192

struct phase {
	unsigned threads, wheels, timers;
	uint32_t levels, slots, workers;
	/* Nobody drives, or the tick thread stays in a callback, until the threads end. */
	int undriven;
};

static const struct phase phases[] = {
	{ 8, 1, 4096, 4, 256, 0, 0 },
	{ 64, 1, 4096, 1, 512, 0, 0 },
	{ 256, 1, 4096, 3, 16, 0, 0 },
	{ 8, 200, 64, 2, 64, 0, 0 },
	{ 8, 3, 1024, 3, 64, 2, 0 },
	{ 16, 2, 1024, 4, 256, 0, 1 },
};

/* The wheels of a phase take turns, where they have workers. */
static const uint32_t overloads[] = { HWHEEL_OVERLOAD_RUN, HWHEEL_OVERLOAD_DROP };

/* The counts of one thread, or of all. Each member is one count. */
struct tally {
	uint64_t operations, armed, superseded, cancelled, keyed, batches;
	uint64_t stale, haunted, shut, synced, threads, wheels;
	/*
	 * Answers that may stand for another number of endings: a callback that was
	 * taken out may be one of a period, which has armed its timer again and told
	 * nobody; and a synchronous call may end a timer twice, one that waits in the
	 * queue and is armed again, and says so once.
	 */
	uint64_t taken, twice;
};

/* A key: a number, or a name that begins with it, short or long. */
struct key {
	/* Sets that found none pending, less what ended one. */
	_Atomic int64_t open;
	uint64_t name[5];
	uint32_t len;
};

static const uint32_t key_lengths[] = { sizeof(uint64_t), 20, 40 };

struct subject {
	struct hwheel *wheel;
	/* Nothing reports a callback that finds the queue full. */
	int drops;
	_Atomic hwheel_timer_t timers[MOST_TIMERS];
	struct key keys[KEYS];
};

static struct subject subjects[MOST_WHEELS];

static const struct phase *phase;
static struct tally total;
static pthread_mutex_t total_lock = PTHREAD_MUTEX_INITIALIZER;
static atomic_int over;
/* The tick threads that stay in a callback may go on. */
static atomic_int released;
static uint64_t longest_life;
static _Atomic uint64_t operations_left;
/* By callbacks. */
static struct { struct word fired, armed, superseded, cancelled; } inside;

static void count(struct word *word)
{
	atomic_fetch_add_explicit(&word->n, 1, memory_order_relaxed);
}

static void not_early(struct hwheel *w, const struct hwheel_event *event)
{
	uint64_t now = 0;

	MUST(hwheel_now(w, &now) == 0);
	MUST(now >= event->deadline_ns);
	count(&inside.fired);
}

/* The driver stays in here. */
static void stay(struct hwheel *w, const struct hwheel_event *event)
{
	not_early(w, event);
	while (!atomic_load(&released))
		sleep_ns(MS);
}

/* One in eight arms itself again, one in eight frees itself. */
static void plain(struct hwheel *w, const struct hwheel_event *event)
{
	unsigned dice = (unsigned)(event->deadline_ns >> 4) & 7;
	int got = -ESTALE;

	not_early(w, event);
	if (dice == 0) {
		got = hwheel_timer_mod(w, event->timer, MS, 0);
		if (got == 0)
			count(&inside.armed);
	} else if (dice == 1) {
		got = hwheel_timer_free(w, event->timer);
		if (got == 1)
			count(&inside.cancelled);
	}
	MUST(got == 0 || got == 1 || got == -ESTALE || got == -ESHUTDOWN);
}

/* A periodic timer is armed again by firing. */
static void periodic(struct hwheel *w, const struct hwheel_event *event)
{
	not_early(w, event);
	count(&inside.armed);
}

static int set_key(struct hwheel *w, struct key *key, uint64_t delay, hwheel_fn fn)
{
	return hwheel_key_set(w, key->name, key->len, delay, fn, (uintptr_t)key, 0);
}

static void key_ended(const struct hwheel_event *event)
{
	struct key *key = (struct key *)(uintptr_t)event->cookie;

	atomic_fetch_sub(&key->open, 1);
}

static void keyed(struct hwheel *w, const struct hwheel_event *event)
{
	not_early(w, event);
	MUST(event->timer == 0);
	key_ended(event);
}

/* Sets its key again, unless somebody has done so: then it takes the place. */
static void keyed_again(struct hwheel *w, const struct hwheel_event *event)
{
	struct key *key = (struct key *)(uintptr_t)event->cookie;
	int got;

	keyed(w, event);
	got = set_key(w, key, MS, keyed);
	MUST(got == 0 || got == 1);
	count(&inside.armed);
	if (got == 1)
		count(&inside.superseded);
	else
		atomic_fetch_add(&key->open, 1);
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
	struct rng rng;
	struct tally tally;
	/* Where it is at work, and where its own timer lives. */
	struct subject *at;
	struct hwheel *home;
	struct own own;
	/* Timers that this thread has freed, and where they lived. */
	struct ghost { struct hwheel *wheel; hwheel_timer_t timer; } ghosts[GHOSTS];
};

static uint64_t dice(struct worker *me, uint64_t n)
{
	return below(&me->rng, n);
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
	me->ghosts[dice(me, GHOSTS)] = (struct ghost){ w, timer };
}

/*
 * A timer that is gone stays gone, whatever lives at its place. Its callback may
 * still be in the queue of workers; a synchronous call takes it out.
 */
static void haunt(struct worker *me)
{
	struct ghost ghost = me->ghosts[dice(me, GHOSTS)];
	struct hwheel *w = ghost.wheel;
	hwheel_timer_t timer = ghost.timer;
	uint64_t ns = 0;
	int got;

	if (w == NULL)
		return;
	MUST(hwheel_timer_mod(w, timer, 0, 0) == -ESTALE);
	MUST(hwheel_timer_mod(w, timer, 0, HWHEEL_REDUCE) == -ESTALE);
	MUST(hwheel_timer_delete(w, timer) == -ESTALE);
	got = hwheel_timer_shutdown_sync(w, timer);
	MUST(got == -ESTALE || got == 1);
	cancelled(me, got);
	me->tally.taken += got == 1;
	MUST(hwheel_timer_free(w, timer) == -ESTALE);
	MUST(hwheel_timer_remaining(w, timer, &ns) == -ESTALE);
	me->tally.haunted++;
}

/* Nothing runs after a sync delete. */
static void hush(struct worker *me)
{
	struct own *own = &me->own;
	unsigned calls;
	int got;

	if (dice(me, 4) != 0) {
		armed(me, hwheel_timer_mod(me->home, own->timer, dice(me, MS), 0));
		return;
	}
	got = hwheel_timer_delete_sync(me->home, own->timer);
	MUST(got == 0 || got == 1);
	cancelled(me, got);
	me->tally.twice += got == 1 && phase->workers != 0;
	MUST(atomic_load(&own->inside) == 0);
	calls = atomic_load(&own->calls);
	if (dice(me, 64) == 0)
		sleep_ns(2 * MS);
	MUST(atomic_load(&own->calls) == calls);
	me->tally.synced++;
}

/* A wheel besides those under test: made, used, destroyed while armed. */
static void come_and_go(struct worker *me)
{
	struct hwheel_options o = { .size = sizeof o, .max_timers = 100 };
	struct hwheel *w = NULL;
	hwheel_timer_t timer = 0;

	MUST(hwheel_create(&o, &w) == 0);
	MUST(hwheel_once(w, 3600 * SEC, NULL, 0, 0, &timer) == 0);
	if (dice(me, 2) == 0)
		MUST(hwheel_start(w) == 0);
	MUST(hwheel_timer_delete(w, timer) == 1);
	MUST(hwheel_every(w, 0, MS, 0, NULL, 0, 0, NULL) == 0);
	MUST(hwheel_destroy(w) == 0);
	me->tally.wheels++;
}

/* A new timer in the place of an old one, which is freed. */
static void renew(struct worker *me, _Atomic hwheel_timer_t *slot)
{
	static const uint32_t missed[] = { 0, HWHEEL_MISSED_BURST, HWHEEL_MISSED_DELAY };
	hwheel_timer_t fresh = 0, old;
	struct hwheel *w = me->at->wheel;
	uint64_t delay = some_delay(me), now = 0;
	hwheel_fn fn = dice(me, 4) ? plain : NULL;
	int got;

	/* a dropped period is armed again and nobody told */
	switch (dice(me, me->at->drops ? 3 : 4)) {
	case 0:
		got = hwheel_timer_setup(w, fn, 0, &fresh);
		me->tally.armed -= got == 0;
		break;
	case 1:
		MUST(hwheel_now(w, &now) == 0);
		got = hwheel_once(w, now + dice(me, MS), fn, 0, HWHEEL_ABS, &fresh);
		break;
	case 2:
		got = hwheel_once(w, delay, fn, 0, 0, &fresh);
		break;
	default:
		got = hwheel_every(w, delay, 100 * MS + dice(me, SEC), 0, periodic,
				   0, missed[dice(me, 3)], &fresh);
	}
	MUST(got == 0);
	me->tally.armed++;
	old = atomic_exchange(slot, fresh);
	got = hwheel_timer_free(w, old);
	cancelled(me, got);
	if (got >= 0)
		remember(me, w, old);
}

static _Atomic hwheel_timer_t *some_slot(struct worker *me)
{
	return &me->at->timers[dice(me, phase->timers)];
}

static void use_key(struct worker *me)
{
	struct hwheel *w = me->at->wheel;
	struct key *key = &me->at->keys[dice(me, KEYS)];
	int got;

	switch (dice(me, 4)) {
	case 0:
		known(me, hwheel_key_mod(w, key->name, key->len, some_delay(me), 0));
		break;
	case 1:
		got = hwheel_key_delete(w, key->name, key->len);
		cancelled(me, got);
		atomic_fetch_sub(&key->open, got == 1);
		break;
	default:
		got = set_key(w, key, some_delay(me),
			      dice(me, 4) ? keyed : keyed_again);
		armed(me, got);
		atomic_fetch_add(&key->open, got == 0);
		me->tally.keyed++;
	}
}

/*
 * As many operations in one call; the same timer may be among them twice. What
 * turns out to be gone is renewed, so that most timers exist.
 */
static void use_many(struct worker *me, int arm)
{
	struct hwheel *w = me->at->wheel;
	_Atomic hwheel_timer_t *slots[BATCH];
	hwheel_timer_t timers[BATCH];
	uint64_t delays[BATCH];
	int32_t results[BATCH];
	uint32_t n = 1 + (uint32_t)dice(me, BATCH);
	int exist = 0, got;

	for (uint32_t i = 0; i < n; i++) {
		slots[i] = some_slot(me);
		timers[i] = atomic_load(slots[i]);
		delays[i] = some_delay(me);
	}
	got = arm ? hwheel_timer_mod_many(w, timers, delays, n, 0, results)
		  : hwheel_timer_delete_many(w, timers, n, results);
	for (uint32_t i = 0; i < n; i++) {
		exist += results[i] >= 0;
		if (arm)
			armed(me, results[i]);
		else
			cancelled(me, results[i]);
		if (results[i] == -ESTALE)
			renew(me, slots[i]);
	}
	MUST(got == exist);
	me->tally.operations += n - 1;
	me->tally.batches++;
}

static void operate(struct worker *me)
{
	struct hwheel *w = me->at->wheel;
	_Atomic hwheel_timer_t *slot = some_slot(me);
	hwheel_timer_t timer = atomic_load(slot);
	uint64_t now = 0;

	switch (dice(me, 20)) {
	case 0: case 1: case 2:
		renew(me, slot);
		break;
	case 3: case 4: case 5:
		armed(me, hwheel_timer_mod(w, timer, some_delay(me), 0));
		break;
	case 6:
		MUST(hwheel_now(w, &now) == 0);
		armed(me, hwheel_timer_mod(w, timer, now + dice(me, MS), HWHEEL_ABS));
		break;
	case 7:
		armed_or_moved(me, hwheel_timer_mod(w, timer, some_delay(me), HWHEEL_REDUCE));
		break;
	case 8:
		known(me, hwheel_timer_mod(w, timer, some_delay(me), HWHEEL_IF_PENDING));
		break;
	case 9:
		cancelled(me, hwheel_timer_delete(w, timer));
		break;
	case 10:
		cancelled(me, hwheel_timer_free(w, timer));
		break;
	case 11:
		cancelled(me, hwheel_timer_shutdown(w, timer));
		break;
	case 12:
		known(me, hwheel_timer_remaining(w, timer, &now));
		known(me, hwheel_timer_pending(w, timer));
		break;
	case 13:
		haunt(me);
		break;
	case 14: case 15:
		hush(me);
		break;
	case 16: case 17:
		use_key(me);
		break;
	case 18:
		use_many(me, 1);
		break;
	default:
		use_many(me, 0);
	}
	me->tally.operations++;
}

static void add(const struct tally *t)
{
	const uint64_t *counts = (const uint64_t *)t;

	pthread_mutex_lock(&total_lock);
	for (size_t i = 0; i < sizeof total / sizeof *counts; i++)
		((uint64_t *)&total)[i] += counts[i];
	pthread_mutex_unlock(&total_lock);
}

/* Takes the operations of a life from those that are left. */
static uint64_t claim_life(void)
{
	uint64_t left = atomic_load(&operations_left), life;

	do {
		life = left < longest_life ? left : longest_life;
	} while (!atomic_compare_exchange_weak(&operations_left, &left, left - life));
	return life;
}

static struct subject *somewhere(struct worker *me)
{
	return &subjects[dice(me, phase->wheels)];
}

static void *work(void *seed)
{
	struct worker me = { .rng = { (uintptr_t)seed }, .tally.threads = 1 };
	uint64_t life = claim_life();
	int got;

	if (life == 0)
		return NULL;
	me.at = somewhere(&me);
	me.home = me.at->wheel;
	MUST(hwheel_timer_setup(me.home, silent, (uintptr_t)&me.own, &me.own.timer) == 0);
	for (int i = 1; me.tally.operations < life; i++) {
		if (atomic_load(&over) && i > LEAST / (int)phase->threads)
			break;
		if (dice(&me, STAY) == 0)
			me.at = somewhere(&me);
		operate(&me);
	}
	come_and_go(&me);
	got = hwheel_timer_shutdown_sync(me.home, me.own.timer);
	cancelled(&me, got);
	me.tally.twice += got == 1 && phase->workers != 0;
	MUST(atomic_load(&me.own.inside) == 0);
	MUST(hwheel_timer_free(me.home, me.own.timer) == 0);
	add(&me.tally);
	return NULL;
}

static pthread_t start_one(void)
{
	static struct rng seeds = { SEED };
	pthread_t thread;

	start_thread(&thread, work, (void *)(uintptr_t)next(&seeds));
	return thread;
}

/*
 * The books of memory, for the number of timers that were live at the same time and of
 * threads that used the wheel at the same time. They do not depend on what the calls were,
 * nor on whether a thread drives. A thread has up to two runs of 64 records at hand, and
 * three chunks of notes that are not full. A timer has at most one entry, and one note of
 * each thread. A thread makes a timer before it frees the one in whose place it comes. A timer
 * that is freed stays for as long as its callback waits in the queue.
 */
static void check_memory(const struct hwheel *w)
{
	const uint64_t record = 48, run = 64, notes = 63, chunk = 256;
	uint64_t threads = phase->threads + phase->workers + 2, records;
	uint64_t timers = phase->timers + 2 * KEYS + 4 * phase->threads;
	struct hwheel_stats s = { .size = sizeof s }, later = s;

	if (phase->workers != 0)
		timers += QUEUE + phase->workers;
	MUST(hwheel_get_stats(w, &s) == 0);
	/* Other threads may make timers between the counts. So the records are counted last. */
	MUST(hwheel_get_stats(w, &later) == 0);
	records = later.slab_bytes / record;
	MUST(records <= timers + 2 * run * (threads + 1));
	MUST(s.entries <= records);
	MUST(s.note_bytes <= chunk * (records * threads / notes + 3 * threads + 1));
}

/* Threads that are replaced as they end, until there is nothing left to do. */
static void crowd(unsigned n, uint64_t until)
{
	static pthread_t threads[MOST_THREADS];
	uint64_t said = nanoseconds(), all = atomic_load(&operations_left), left;
	unsigned looked = 0;

	for (unsigned i = 0; i < n; i++)
		threads[i] = start_one();
	while ((left = atomic_load(&operations_left)) != 0 &&
	       !atomic_load(&over)) {
		sleep_ns(MS);
		check_memory(subjects[looked++ % phase->wheels].wheel);
		for (unsigned i = 0; i < n; i++)
			if (pthread_tryjoin_np(threads[i], NULL) == 0)
				threads[i] = start_one();
		if (nanoseconds() > until)
			atomic_store(&over, 1);
		if (nanoseconds() - said > 20 * SEC) {
			said = nanoseconds();
			printf("  %u threads, %u wheels: %" PRIu64 " operations so far\n", n,
			       phase->wheels, all - left);
			fflush(stdout);
		}
	}
	for (unsigned i = 0; i < n; i++)
		pthread_join(threads[i], NULL);
}

/*
 * Waits until a timer has fired that comes after all that is due now: ticks
 * come in order, so that what is overdue then is lost. Returns the time.
 */
static uint64_t catch_up(struct hwheel *w)
{
	uint64_t now = 0, patience = nanoseconds() + 60 * SEC;
	hwheel_timer_t last = 0;

	MUST(hwheel_now(w, &now) == 0);
	MUST(hwheel_once(w, now + 2 * MS, NULL, 0, HWHEEL_ABS, &last) == 0);
	total.armed++;
	while (hwheel_timer_pending(w, last) == 1) {
		MUST(nanoseconds() < patience);
		sleep_ns(MS);
	}
	return now;
}

/*
 * Waits for the timers that came due while their callback waited for a worker, or ran: they fire
 * when that has ended, which may be after timers that are due later.
 */
static void catch_up_with_workers(const struct hwheel *w, uint64_t time)
{
	uint64_t cursor = 0, patience = nanoseconds() + 60 * SEC;
	struct hwheel_event e;
	int got;

	while ((got = hwheel_list(w, &cursor, &e, 1)) == 1) {
		if (e.deadline_ns > time)
			continue;
		MUST(nanoseconds() < patience);
		sleep_ns(MS);
		cursor = 0;
	}
	MUST(got == 0);
}

/* No key has anything pending. Of callbacks that were dropped nobody knows. */
static void check_keys(const struct subject *subject, uint64_t dropped)
{
	uint64_t left = 0;

	for (unsigned i = 0; i < KEYS; i++) {
		int64_t open = atomic_load(&subject->keys[i].open);

		MUST(open >= 0);
		left += (uint64_t)open;
	}
	MUST(left <= dropped);
}

/* What wheels say in the end. */
struct result {
	uint64_t fired, unclaimed, dropped, drained;
};

/* Stops a wheel and gives back what it holds. */
static void finish(struct subject *subject, struct result *r)
{
	struct hwheel *w = subject->wheel;
	struct hwheel_stats s = { .size = sizeof s };
	struct hwheel_event events[64];
	uint64_t caught_up;
	int got;

	check_memory(w);
	got = hwheel_start(w);
	MUST(got == 0 || got == -EBUSY);
	caught_up = catch_up(w);
	if (phase->workers != 0)
		catch_up_with_workers(w, caught_up + MS);
	MUST(hwheel_stop(w) == 0);
	do {
		got = hwheel_drain(w, events, COUNT(events));
		MUST(got >= 0);
		for (int i = 0; i < got; i++) {
			MUST(events[i].flags == HWHEEL_EVENT_DRAINED);
			MUST(events[i].deadline_ns > caught_up);
			if (events[i].timer == 0)
				key_ended(&events[i]);
		}
		r->drained += (uint64_t)got;
	} while (got == COUNT(events));
	for (unsigned i = 0; i < phase->timers; i++) {
		got = hwheel_timer_free(w, atomic_load(&subject->timers[i]));
		MUST(got == 0 || got == -ESTALE);
	}
	MUST(hwheel_get_stats(w, &s) == 0);
	MUST(s.live == 0);
	MUST(s.armed == s.fired + s.cancelled + s.drained + s.pending);
	MUST(s.dropped == 0 || subject->drops);
	check_keys(subject, s.dropped);
	r->fired += s.fired;
	r->unclaimed += s.unclaimed;
	r->dropped += s.dropped;
	MUST(hwheel_destroy(w) == 0);
	memset(subject, 0, sizeof *subject);
}

static void begin_with(struct subject *subject, uint32_t overload)
{
	struct hwheel_options o = {
		.size = sizeof o, .tick_ns = MS / 10,
		.levels = phase->levels, .slots = phase->slots,
	};

	if (phase->workers != 0) {
		o.workers = phase->workers;
		o.queue = QUEUE;
		o.overload = overload;
		subject->drops = overload == HWHEEL_OVERLOAD_DROP;
	}
	for (unsigned i = 0; i < KEYS; i++) {
		subject->keys[i].name[0] = i;
		subject->keys[i].len = key_lengths[i % COUNT(key_lengths)];
	}
	MUST(hwheel_create(&o, &subject->wheel) == 0);
	if (phase->undriven && subject == subjects)
		return;
	MUST(hwheel_start(subject->wheel) == 0);
	if (!phase->undriven)
		return;
	MUST(hwheel_once(subject->wheel, 0, stay, 0, 0, NULL) == 0);
	total.armed++;
	while (atomic_load(&inside.fired.n) == 0)
		sleep_ns(MS);
}

static uint64_t run(const struct phase *p, uint64_t seconds, uint64_t operations)
{
	uint64_t begin = nanoseconds(), armed_all, superseded_all, cancelled_all, ended;
	struct result r = { 0 };

	phase = p;
	memset(&total, 0, sizeof total);
	memset(&inside, 0, sizeof inside);
	atomic_store(&over, 0);
	atomic_store(&released, 0);
	longest_life = operations / (LIVES * p->threads);
	if (longest_life > LIFE)
		longest_life = LIFE;
	atomic_store(&operations_left, operations);
	for (unsigned i = 0; i < p->wheels; i++)
		begin_with(&subjects[i], overloads[i % COUNT(overloads)]);
	crowd(p->threads, nanoseconds() + seconds * SEC);
	atomic_store(&released, 1);
	for (unsigned i = 0; i < p->wheels; i++)
		finish(&subjects[i], &r);

	armed_all = total.armed + atomic_load(&inside.armed.n);
	superseded_all = total.superseded + atomic_load(&inside.superseded.n);
	cancelled_all = total.cancelled + atomic_load(&inside.cancelled.n);
	printf("%3u threads (%" PRIu64 " in all), %3u wheels (and %" PRIu64
	       " besides), %" PRIu32 " levels of %" PRIu32 ", %" PRIu32
	       " workers:\n"
	       "  operations %" PRIu64 " in %.1f s, batches %" PRIu64
	       ", keys set %" PRIu64 ",\n"
	       "  stale %" PRIu64 ", ghosts %" PRIu64 ", shut down %" PRIu64
	       ", synced %" PRIu64 ", dropped %" PRIu64
	       ", taken out %" PRIu64 "\n"
	       "  armed %" PRIu64 " = fired %" PRIu64 " + cancelled %" PRIu64
	       " + superseded %" PRIu64 " + drained %" PRIu64 "\n",
	       p->threads, total.threads, p->wheels, total.wheels, p->levels,
	       p->slots, p->workers, total.operations,
	       (double)(nanoseconds() - begin) / 1e9, total.batches, total.keyed,
	       total.stale, total.haunted, total.shut, total.synced, r.dropped,
	       total.taken,
	       armed_all, r.fired, cancelled_all, superseded_all, r.drained);
	fflush(stdout);
	ended = r.fired + cancelled_all + superseded_all + r.drained;
	MUST(ended <= armed_all + total.taken && ended + total.twice >= armed_all);
	MUST(r.fired == atomic_load(&inside.fired.n) + r.unclaimed + r.dropped);
	MUST(r.fired > 0 && total.cancelled > 0 && total.superseded > 0);
	MUST(r.drained > 0 && total.stale > 0 && total.haunted > 0);
	MUST(total.synced > 0 && total.keyed > 0 && total.batches > 0);
	return total.operations;
}

int main(int argc, char **argv)
{
	uint64_t n = argc == 3 ? strtoull(argv[2], NULL, 10) : 0;
	uint64_t done = 0, begin = nanoseconds();
	uint64_t share = (n + COUNT(phases) - 1) / COUNT(phases);
	const char *unit = argc == 3 ? argv[1] : "";
	int by_time = strcmp(unit, "-s") == 0;

	if (n == 0 || (!by_time && strcmp(unit, "-n") != 0)) {
		fprintf(stderr, "usage: stress -s seconds | -n operations\n");
		return 2;
	}
	for (size_t i = 0; i < COUNT(phases); i++)
		done += run(&phases[i], by_time ? share : UINT32_MAX, by_time ? UINT64_MAX : share);
	printf("%" PRIu64 " operations in %.0f s, every timer accounted for\n", done,
	       (double)(nanoseconds() - begin) / 1e9);
	return 0;
}
