/*
 * Random calls of every function, and a sorted list (sorted_list.h) that says what each of them
 * must return, which timers fire, in which order, and what is announced.
 *
 * An episode is the life of one wheel: random options, then some hundred steps. Each step draws
 * its numbers from the episode's seed and its own index. So a step can be left out, and the
 * others stay as they are. When library and list do not agree, the test looks for the fewest
 * steps that still fail, and prints their calls as lines of C.
 *
 * The clocks are the test's own (test_clock.h). The wheel is driven after one tick, or after a
 * hundred years. Callbacks, the function that wakes the loop, and the executor make calls, too.
 *
 * One thread owns about every third wheel. Another thread sends messages to that one, and is
 * refused all else, while the first one waits for it. The wheel changes hands now and then.
 *
 * With FUZZER the numbers are the bytes of a fuzzer, and an episode ends with them.
 *
 *	HWHEEL_SECONDS	how long, in seconds
 *	HWHEEL_SEED	the seed of the first episode; one that the test has printed
 */
#include "ktap.h"

#include <stdarg.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include "sorted_list.h"
#include "test_clock.h"

/* Every function of the library. `make check CHECK=exports` compares this with hwheel.map. */
#define FUNCTIONS(X) \
	X(hwheel_advance) X(hwheel_create) X(hwheel_destroy) X(hwheel_disown) \
	X(hwheel_drain) \
	X(hwheel_every) X(hwheel_fd) X(hwheel_get_stats) X(hwheel_key_delete) \
	X(hwheel_key_mod) X(hwheel_key_pending) X(hwheel_key_set) X(hwheel_list) \
	X(hwheel_next_expiry) X(hwheel_now) X(hwheel_once) X(hwheel_own) X(hwheel_poll) \
	X(hwheel_run_queued) X(hwheel_start) X(hwheel_stop) X(hwheel_strerror) \
	X(hwheel_timer_delete) X(hwheel_timer_delete_many) \
	X(hwheel_timer_delete_sync) X(hwheel_timer_free) X(hwheel_timer_mod) \
	X(hwheel_timer_mod_many) X(hwheel_timer_mod_range) \
	X(hwheel_timer_pending) X(hwheel_timer_prefetch) \
	X(hwheel_timer_remaining) X(hwheel_timer_set_period) \
	X(hwheel_timer_setup) X(hwheel_timer_shutdown) \
	X(hwheel_timer_shutdown_sync) X(hwheel_version) X(hwheel_version_string)

enum { TIMERS = 24, KEYS = 4, ALL = TIMERS + KEYS, EVENTS = 6, MANY = 6, STEPS = 300,
       /* One of this number of episodes is a flood. */
       FLOOD = 256 };

/* The lengths of the words in which the library keeps a tick. */
static const unsigned windows[] = { 34, 35, 36, 37, 38, 39 };

/* A call that may arm timers: whether it must wake the loop, and may; and whether it did. */
struct call {
	int must, may;
	unsigned wakes;
	struct call *outer;
};

static struct world {
	struct hwheel *wheel;
	struct hwheel_options o;
	struct list list;
	/* The last ones have a key instead of a handle. */
	struct timer timers[ALL];
	uint64_t cookies;
	/* The time of a manual clock, or of the wheel's system clock, which may step back. */
	uint64_t now;
	clockid_t clock;
	/* The descriptor, or -1. */
	int fd;
	/*
	 * What the last call has announced to a loop, which sleeps. It was woken. It has not
	 * asked when to drive again.
	 */
	int asleep, woken, blind;
	uint64_t announced;
	struct call *call;
	/* Depths: callbacks and the executor, the function that wakes; in hwheel_destroy(). */
	int inside, waking, ending;
	/* A thread that does not own the wheel makes a call. */
	int sends;
	/* Most delays are short. */
	int is_crowded;
	/* A call is under way of which the list already has all, and the library not yet. */
	int ahead;
	/* How many threads have made calls. */
	unsigned threads;
	int drained;
	/* The events of a call that drives, and those of which the list knows. */
	struct hwheel_event events[EVENTS];
	uint32_t delivered, max;
	/* Callbacks in the queue of the executor; what it has no room for. */
	unsigned queued, room;
	/* Callbacks of a call that may still make calls. */
	unsigned lively;
	uint64_t unclaimed, dropped, fired_in_call, revoked;
	/* Periods were skipped, and the test does not know how many. */
	int unseen;
} w;

/* What a process that fails leaves to its parent. */
static struct shared {
	uint64_t seed, episodes, calls, fired;
	unsigned long made[64];
	char why[600];
} *shared;

enum {
#define X(function) NUMBER_OF_##function,
	FUNCTIONS(X)
#undef X
	NUMBER_OF_FUNCTIONS
};
static const char *const function_names[] = {
#define X(function) #function,
	FUNCTIONS(X)
#undef X
};

/* Whether the calls are printed, and a line is not complete. */
static int say, open_line, is_quiet;

/* Names for the lines that are printed. */
static const char *name_of(const struct timer *t)
{
	static char names[8][16];
	static unsigned n;
	char *name = names[n++ % 8];

	snprintf(name, sizeof names[0], "%c%d", t->keyed ? 'k' : 't',
		 (int)(t - w.timers) - (t->keyed ? TIMERS : 0));
	return name;
}

/* What the list has. */
static void show_list(void)
{
	const struct list *l = &w.list;

	printf("\t/* the wheel's last tick: %" PRIu64 " to %" PRIu64 "; tick of the last timer: %"
	       PRIu64 "; announced: %" PRIu64 " */\n", l->hand_least, l->hand_most, l->reached,
	       w.announced);
	for (const struct timer *t = l->head; t != NULL; t = t->next)
		printf("\t/* %s: ticks %" PRIu64 " to %" PRIu64 ", period %" PRIu64 ", slack %"
		       PRIu64 ", deadline %" PRIu64 "%s%s%s%s */\n", name_of(t), t->first, t->last,
		       t->period, t->slack, t->deadline, t->exact ? ", exact" : "",
		       t->vague ? ", vague" : "", t->queued ? ", queued" : "",
		       t->running ? ", running" : "");
}

static _Noreturn void disagree(const char *file, int line, const char *condition)
{
	const char *name = strrchr(file, '/');

	snprintf(shared->why, sizeof shared->why, "%s:%d: %s",
		 name != NULL ? name + 1 : file, line, condition);
	if (say) {
		printf("%s\t/* here: %s */\n", open_line ? "\n" : "", shared->why);
		show_list();
		fflush(stdout);
	}
#ifdef FUZZER
	fprintf(stderr, "ERROR: %s\n", shared->why);
	abort();
#endif
	_exit(1);
}

__attribute__((format(printf, 1, 2)))
static void say_call(const char *format, ...)
{
	va_list args;

	if (!say)
		return;
	if (open_line)
		printf("\n");
	for (int n = 1 + w.inside + w.waking; n > 0; n--)
		printf("\t");
	va_start(args, format);
	vprintf(format, args);
	va_end(args);
	printf(";");
	open_line = 1;
	/* The call may not return. */
	fflush(stdout);
}

__attribute__((format(printf, 1, 2)))
static void say_more(const char *format, ...)
{
	va_list args;

	if (!say)
		return;
	if (!open_line)
		for (int n = 1 + w.inside + w.waking; n > 0; n--)
			printf("\t");
	va_start(args, format);
	printf(" /* ");
	vprintf(format, args);
	printf(" */\n");
	va_end(args);
	open_line = 0;
}

static int result(int number, int got)
{
	if (!is_quiet)
		say_more("%s: %d", function_names[number] + strlen("hwheel_"), got);
	shared->calls++;
	shared->made[number]++;
	return got;
}
#define CALL(function, ...) result(NUMBER_OF_##function, function(__VA_ARGS__))
/* A call without an argument but the wheel, which is printed. */
#define CALL_PLAINLY(function) (say_call(#function "(w)"), CALL(function, w.wheel))

/* Numbers: splitmix64. */
static uint64_t rng;

static uint64_t draw(void)
{
	uint64_t z = rng += UINT64_C(0x9e3779b97f4a7c15);

	z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
	z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
	return z ^ z >> 31;
}

/* What the fuzzer says comes before them. */
static const uint8_t *program, *program_end;

static uint64_t below(uint64_t n)
{
	uint64_t z = 0;

	if (program == program_end)
		return draw() % n;
	for (uint64_t left = n - 1; left != 0 && program < program_end; left >>= 8)
		z = z << 8 | *program++;
	return z % n;
}

static void seed_with(uint64_t a, uint64_t b)
{
	rng = a;
	rng = draw() ^ b * UINT64_C(0x9e3779b97f4a7c15);
	draw();
}

static int one_in(unsigned n)
{
	return below(n) == 0;
}

static uint64_t wheel_now(void)
{
	return later(w.now, time_of(&w.list, w.list.hand_most));
}

static const char *flag_names(uint32_t flags)
{
	static char names[4][32];
	static unsigned n;
	char *name = names[n++ % 4];

	if (flags == HWHEEL_ABS)
		return "HWHEEL_ABS";
	if (flags == HWHEEL_REDUCE)
		return "HWHEEL_REDUCE";
	if (flags == HWHEEL_IF_PENDING)
		return "HWHEEL_IF_PENDING";
	snprintf(name, sizeof names[0], flags == 0 ? "0" : "0x%x", flags);
	return name;
}

static int is_valid(uint64_t time)
{
	return time < END_OF_TIME || time == NEVER;
}

/* Flags of hwheel_timer_mod(). */
static int are_valid(uint32_t flags)
{
	const uint32_t one_of = HWHEEL_REDUCE | HWHEEL_IF_PENDING;

	return !(flags & ~(HWHEEL_ABS | one_of)) && (flags & one_of) != one_of;
}

/* Ticks: few, or about a power of two, or about where a word of the library begins anew. */
static uint64_t some_ticks(void)
{
	switch (below(8)) {
	case 0: return 0;
	case 1: return 1;
	case 2: return below(10);
	case 3: return below(300);
	case 4: return below(70000);
	case 5: return (UINT64_C(1) << below(30)) - below(2);
	case 6: return (UINT64_C(1) << windows[below(COUNT(windows))]) + below(5) - 2;
	default: return UINT64_C(1) << below(44);
	}
}

static uint64_t ticks_to_ns(uint64_t ticks)
{
	return ticks > (END_OF_TIME - 1) / w.o.tick_ns ? END_OF_TIME - 1 : ticks * w.o.tick_ns;
}

static uint64_t some_delay(void)
{
	/* Many timers are due at the same tick, and callbacks change each other's. */
	if (w.is_crowded && !one_in(8))
		return ticks_to_ns(below(4));
	switch (below(20)) {
	case 0: return 0;
	case 1: return NEVER;
	case 2: return NEVER - 1 - below(3);
	case 3: return END_OF_TIME + below(3) - 2;
	case 4: return (UINT64_C(1) << below(63)) + below(3) - 1;
	case 5: return below(w.o.tick_ns);
	case 6: case 7: return ticks_to_ns(some_ticks()) + below(3) - 1;
	default: return ticks_to_ns(some_ticks()) + below(2) * below(w.o.tick_ns);
	}
}

/* A time; the point that it means. */
static uint64_t some_time(uint32_t flags, uint64_t *point)
{
	uint64_t time = some_delay();
	const struct timer *t = &w.timers[below(ALL)];

	if (!(flags & HWHEEL_ABS)) {
		*point = add_time(wheel_now(), time);
		return time;
	}
	switch (below(8)) {
	case 0:
		break;
	case 1:
		time = t->pending && t->last != NEVER ? time_of(&w.list, t->last) - below(2) : time;
		break;
	case 2:
		time = w.asleep && w.announced < END_OF_TIME ? w.announced + below(3) - 1 : time;
		break;
	default:
		if (time < END_OF_TIME - wheel_now())
			time += wheel_now();
		break;
	}
	*point = time < END_OF_TIME ? time : NEVER;
	return time;
}

static uint32_t some_flags(void)
{
	switch (below(24)) {
	case 0: return (uint32_t)below(UINT64_MAX);
	case 1: return 1u << below(32);
	case 2: case 3: case 4: case 5: case 6: return HWHEEL_ABS;
	default: return 0;
	}
}

/* The library's function that wakes: what a call must do. */
static void begin_call(struct call *call)
{
	*call = (struct call){ .outer = w.call };
	w.call = call;
}

static void end_call(struct call *call)
{
	w.call = call->outer;
	if (w.o.wake == NULL)
		return;
	EXPECT(call->wakes <= 1);
	/* The owner drives before it sleeps. */
	if (w.o.owned && !w.sends) {
		EXPECT(call->wakes == 0);
		return;
	}
	EXPECT(!call->must || call->wakes == 1);
	EXPECT(call->may || w.blind || call->wakes == 0);
}

/* A timer was armed for @point, or has become due again. */
static void see_arm(const struct timer *t, uint64_t point)
{
	/* Unless something sleeps, only the next call looks at what a callback has armed. */
	if (w.list.driving && w.o.wake == NULL && w.fd < 0)
		w.list.outdated++;
	if (!w.asleep || w.woken || w.call == NULL)
		return;
	/* For a due timer whose callback still runs, the end of that callback wakes the loop. */
	w.call->must |= time_of(&w.list, t->last) < w.announced &&
			!((t->queued || t->running) && t->first <= w.list.hand_most);
	w.call->may |= time_of(&w.list, t->first) < w.announced;
	/* One whose time is rounded up to the end of time may wake the loop, too. */
	w.call->may |= point != NEVER && (tick_at_or_after(&w.list, point) == NEVER ||
					  add_time(wheel_now(), w.o.tick_ns) == NEVER);
}

/* What the library says of a pending timer. */
static void ask(struct timer *t)
{
	const uint64_t untouched = END_OF_TIME + 77;
	uint64_t left = untouched;

	if (t->keyed || t->handle == 0)
		return;
	say_call("hwheel_timer_remaining(w, %s, &left)", name_of(t));
	if (!t->exists) {
		EXPECT(CALL(hwheel_timer_remaining, w.wheel, t->handle, &left) == -ESTALE);
	} else {
		EXPECT(CALL(hwheel_timer_remaining, w.wheel, t->handle, &left) == t->pending);
		if (t->pending && !t->queued && !t->running)
			list_told(&w.list, t, wheel_now(), left);
	}
	EXPECT((left == untouched) == (!t->exists || !t->pending));
}

static void after_arm(struct timer *t)
{
	if (t->pending && t->first != t->last)
		ask(t);
}

static struct timer *find(hwheel_timer_t handle)
{
	for (unsigned i = 0; handle != 0 && i < TIMERS; i++)
		if (w.timers[i].exists && w.timers[i].handle == handle)
			return &w.timers[i];
	return NULL;
}

/* A timer, which mostly exists. */
static struct timer *some_timer(void)
{
	struct timer *t = NULL;

	for (int tries = 0; tries < 4; tries++) {
		t = &w.timers[below(TIMERS)];
		if (t->exists)
			break;
	}
	return t;
}

static unsigned live(void)
{
	unsigned n = 0;

	for (unsigned i = 0; i < ALL; i++)
		n += w.timers[i].exists || w.timers[i].queued ||
		     (w.timers[i].running && (w.room != 0 || w.timers[i].keyed));
	return n;
}

/* What a call that arms returns, if its arguments are right. */
static int owed(const struct timer *t)
{
	return t == NULL ? -ESTALE : t->shut || w.drained ? -ESHUTDOWN : t->pending;
}

/* A sweep that has far to go would fire it too often. */
static int is_endless(const struct timer *t, uint64_t period)
{
	return t->missed == HWHEEL_MISSED_BURST && period != 0 &&
	       (wheel_now() - time_of(&w.list, w.list.hand_least)) /
	       later(period, w.o.tick_ns) > 50;
}

static void random_call(void);
static void call_as_a_stranger(void);
static void look_for_unclaimed(int is_complete);

/* The events that the library has written since the last look. */
static void deliver(void)
{
	while (w.delivered < w.max && w.events[w.delivered].cookie != 0) {
		const struct hwheel_event *e = &w.events[w.delivered++];
		struct timer *t = &w.timers[e->cookie % ALL];

		EXPECT(!t->calls);
		list_fire(&w.list, t, e);
		w.unseen |= e->missed == UINT32_MAX;
		w.fired_in_call++;
		if (!t->pending && t->frees_itself)
			t->exists = 0;
		/* A burst may have more events, which come before what the library says now. */
		else if (t->pending && t->missed != HWHEEL_MISSED_BURST)
			after_arm(t);
	}
	if (w.list.driving && w.max == 0)
		look_for_unclaimed(0);
}

/* The one timer whose callback has gone into the queue, unseen, or was dropped. */
static unsigned look_for_queued(int is_dropped)
{
	unsigned found = 0;

	for (unsigned i = 0; i < ALL; i++) {
		struct timer *t = &w.timers[i];

		if (!t->exists || !t->pending || !t->calls || t->queued || t->running ||
		    t->first > w.list.goal)
			continue;
		if ((t->keyed ? hwheel_key_pending(w.wheel, &i, sizeof i) :
				hwheel_timer_pending(w.wheel, t->handle)) == 1)
			continue;
		found++;
		EXPECT(is_dropped || w.list.reached <= t->last);
		if (!is_dropped)
			w.list.reached = later(w.list.reached, t->first);
		w.list.fired++;
		w.fired_in_call++;
		list_remove(&w.list, t);
		t->queued_first = t->first;
		t->queued_last = t->last;
		if (is_dropped) {
			w.dropped++;
			if (t->frees_itself)
				t->exists = 0;
		} else {
			t->queued = 1;
			w.queued++;
		}
	}
	return found;
}

/* A callback is over. A timer that has become due meanwhile is due at the next tick. */
static void end_callback(struct timer *t)
{
	t->running--;
	if (t->frees_itself && !t->pending && !t->running)
		t->exists = 0;
	if (w.room != 0 && t->pending && t->first <= w.list.hand_most) {
		uint64_t last = later(t->last, w.list.hand_most + 1);

		list_remove(&w.list, t);
		if (last != NEVER)
			last += (last - w.list.hand_least) / LATE_PART;
		/* In a wheel that was drained it may fire, or is handed back. */
		t->last = w.drained ? NEVER : last;
		t->vague = 1;
		list_insert(&w.list, t);
		see_arm(t, 0);
	}
}

static void callback(struct hwheel *wheel, const struct hwheel_event *e)
{
	struct timer *t = &w.timers[e->cookie % ALL];

	/* What another thread has written before it moved the clock. */
	pthread_mutex_lock(&alarms_lock);
	pthread_mutex_unlock(&alarms_lock);
	EXPECT(wheel == w.wheel && t->calls && e->cookie == t->cookie);
	deliver();
	w.inside++;
	say_call("callback of %s: %" PRIu64 " ns, %u missed", name_of(t), e->deadline_ns,
		 e->missed);
	if (t->queued) {
		EXPECT(e->timer == (t->keyed ? 0 : t->handle) && e->flags == 0);
		EXPECT(e->deadline_ns >= time_of(&w.list, t->queued_first) &&
		       e->deadline_ns <= time_of(&w.list, t->queued_last));
		t->queued = 0;
		w.queued--;
	} else {
		EXPECT(w.list.driving);
		EXPECT(w.room == 0 || w.queued == w.room);
		list_fire(&w.list, t, e);
		w.unseen |= e->missed == UINT32_MAX;
		w.fired_in_call++;
	}
	t->running++;
	/* A timer of once or of a key has no further use unless it is armed again. */
	if (t->keyed)
		t->exists = 0;
	if (w.lively > 0) {
		w.lively--;
		if (t->pending && w.room == 0 && t->first != t->last && !t->keyed) {
			t->running--;
			ask(t);
			t->running++;
		}
		for (uint64_t n = below(4); n > 0; n--)
			random_call();
	}
	end_callback(t);
	say_more("callback of %s ends", name_of(t));
	w.inside--;
}

/* The loop's function that wakes it. */
static void wake(struct hwheel *wheel, void *arg)
{
	EXPECT(wheel == w.wheel && arg == &w);
	EXPECT(!w.ending);
	EXPECT(w.call != NULL);
	w.call->wakes++;
	/* The loop wakes anyway, and a call from here cannot wake it again. */
	EXPECT(w.waking == 0);
	w.woken = 1;
	w.waking++;
	say_call("wake");
	if (w.sends)
		call_as_a_stranger();
	else if (!w.ahead)
		for (uint64_t n = below(3); n > 0; n--)
			random_call();
	say_more("wake ends");
	w.waking--;
}

static void executor(struct hwheel *wheel, void *arg)
{
	EXPECT(wheel == w.wheel && arg == &w);
	EXPECT(w.list.driving);
	deliver();
	EXPECT(look_for_queued(0) == 1);
	EXPECT(w.queued <= w.room);
	w.inside++;
	say_call("executor");
	if (w.lively > 0 && one_in(3)) {
		w.lively--;
		random_call();
	}
	say_more("executor ends");
	w.inside--;
}

/* The handle of a timer of which only the cookie is known. */
static hwheel_timer_t listed(uint64_t cookie)
{
	struct hwheel_event e[ALL + 1];
	uint64_t cursor = 0;
	int n = hwheel_list(w.wheel, &cursor, e, ALL + 1);

	for (int i = 0; i < n; i++)
		if (e[i].cookie == cookie)
			return e[i].timer;
	return 0;
}

/* Calls that make timers. */
static void make_timer(void)
{
	struct timer *t = &w.timers[below(TIMERS)], fresh = { 0 };
	unsigned how = (unsigned)below(4);
	hwheel_fn fn = one_in(3) ? NULL : callback;
	uint32_t flags = some_flags(), allowed = HWHEEL_ABS;
	uint64_t point = 0, time, period = 0, slack = 0;
	int want, got, wants_handle = !one_in(6);
	hwheel_timer_t handle = 0;
	struct call call;

	if (t->exists || t->running || t->queued)
		return;
	fresh.calls = fn != NULL;
	fresh.cookie = ++w.cookies * ALL + (uint64_t)(t - w.timers);
	fresh.frees_itself = how != 0;
	if (how == 3) {
		flags |= (uint32_t)below(4) * HWHEEL_MISSED_BURST;
		fresh.missed = flags & (HWHEEL_MISSED_BURST | HWHEEL_MISSED_DELAY);
		allowed |= fresh.missed;
		period = one_in(20) ? 0 : some_delay();
		slack = one_in(2) ? 0 : some_delay();
		/* The test would not see it fire in the queue. */
		if (w.room != 0 || is_endless(&fresh, period))
			return;
	}
	time = some_time(flags, &point);
	want = how == 0 ? 0 :
	       flags & ~allowed || !is_valid(time) || !is_valid(period) || !is_valid(slack) ||
	       (how == 3 && period == 0) ||
	       fresh.missed == (HWHEEL_MISSED_BURST | HWHEEL_MISSED_DELAY) ? -EINVAL : 0;
	if (want == 0)
		want = w.drained ? -ESHUTDOWN : live() >= w.o.max_timers ? -ENOSPC : 0;
	begin_call(&call);
	if (want == 0) {
		*t = fresh;
		t->exists = 1;
		t->period = kept_period(period);
		t->slack = earlier(earlier(slack, period), LONG_PERIOD);
		if (how != 0) {
			/* A time that has passed means the next tick. */
			list_arm(&w.list, t, point, tick_at_or_after(&w.list, point) <=
				 w.list.hand_least ? 0 : t->slack);
			/* The time of its first period is that of the caller, if it is recent. */
			t->exact = how == 3;
			t->vague = t->exact && point < wheel_now() &&
				   wheel_now() - point >= LONG_PERIOD / 2;
			see_arm(t, point);
		}
	}
	if (how == 0) {
		say_call("hwheel_timer_setup(w, %s, %d, &%s)", fn ? "callback" : "NULL",
			 (int)(t - w.timers), name_of(t));
		got = CALL(hwheel_timer_setup, w.wheel, fn, fresh.cookie, &handle);
	} else if (how < 3) {
		say_call("hwheel_once(w, %" PRIu64 ", %s, %d, %s, %s%s)", time,
			 fn ? "callback" : "NULL", (int)(t - w.timers), flag_names(flags),
			 wants_handle ? "&" : "NULL for ", name_of(t));
		got = CALL(hwheel_once, w.wheel, time, fn, fresh.cookie, flags,
			   wants_handle ? &handle : NULL);
	} else {
		say_call("hwheel_every(w, %" PRIu64 ", %" PRIu64 ", %" PRIu64 ", %s, %d, %s, &%s)",
			 time, period, slack, fn ? "callback" : "NULL", (int)(t - w.timers),
			 flag_names(flags), name_of(t));
		got = CALL(hwheel_every, w.wheel, time, period, slack, fn, fresh.cookie, flags,
			   &handle);
	}
	EXPECT(got == want);
	EXPECT((handle != 0) == (got == 0 && (how == 0 || how == 3 || wants_handle)));
	if (want == 0) {
		/* Without a handle the test finds it in a list. */
		t->handle = handle != 0 ? handle : listed(fresh.cookie);
		after_arm(t);
	}
	end_call(&call);
}

/* Runs a function in another thread, while this one waits. */
static void in_another_thread(void *(*run)(void *), void *arg)
{
	pthread_t thread;

	w.threads = 2;
	EXPECT(pthread_create(&thread, NULL, run, arg) == 0);
	EXPECT(pthread_join(thread, NULL) == 0);
}

struct message {
	uint64_t time, cookie;
	hwheel_fn fn;
	uint32_t flags;
	int got;
};

static void *send(void *arg)
{
	struct message *m = arg;

	m->got = hwheel_once(w.wheel, m->time, m->fn, m->cookie, m->flags, NULL);
	return NULL;
}

/* Another thread sends the owner a timer. */
static void message(void)
{
	struct timer *t = &w.timers[below(TIMERS)];
	struct message m = { .fn = one_in(3) ? NULL : callback, .flags = some_flags() };
	uint64_t point = 0;
	struct call call;
	int want;

	if (!w.o.owned || t->exists || t->running || w.sends || w.waking > 0)
		return;
	m.time = some_time(m.flags, &point);
	m.cookie = ++w.cookies * ALL + (uint64_t)(t - w.timers);
	want = m.flags & ~(uint32_t)HWHEEL_ABS || !is_valid(m.time) ? -EINVAL :
	       w.drained ? -ESHUTDOWN : live() >= w.o.max_timers ? -ENOSPC : 0;
	begin_call(&call);
	if (want == 0) {
		*t = (struct timer){ .exists = 1, .frees_itself = 1, .calls = m.fn != NULL,
				     .cookie = m.cookie };
		list_arm(&w.list, t, point, 0);
		see_arm(t, point);
	}
	say_call("another thread: hwheel_once(w, %" PRIu64 ", %s, %d, %s, NULL for %s)", m.time,
		 m.fn ? "callback" : "NULL", (int)(t - w.timers), flag_names(m.flags), name_of(t));
	w.sends++;
	in_another_thread(send, &m);
	EXPECT(result(NUMBER_OF_hwheel_once, m.got) == want);
	end_call(&call);
	w.sends--;
	if (want == 0) {
		t->handle = listed(m.cookie);
		EXPECT(t->handle != 0);
		after_arm(t);
	}
}

/* A thread that does not own the wheel changes nothing. */
static void call_as_a_stranger(void)
{
	hwheel_timer_t t = w.timers[below(TIMERS)].handle, made = 77;
	const unsigned key = TIMERS;
	uint64_t time = some_delay();
	int32_t was = 77;
	uint32_t flags = some_flags();

	EXPECT(hwheel_timer_setup(w.wheel, callback, 0, &made) == -EPERM);
	EXPECT(hwheel_once(w.wheel, time, callback, 0, flags, &made) == -EPERM);
	EXPECT(hwheel_every(w.wheel, time, time, 0, callback, 0, flags, &made) == -EPERM);
	EXPECT(hwheel_timer_mod(w.wheel, t, time, flags) == -EPERM);
	EXPECT(hwheel_timer_mod_range(w.wheel, t, time, time, flags) == -EPERM);
	EXPECT(hwheel_timer_set_period(w.wheel, t, time) == -EPERM);
	EXPECT(hwheel_timer_mod_many(w.wheel, &t, &time, 1, flags, &was) == -EPERM);
	EXPECT(hwheel_timer_delete_many(w.wheel, &t, 1, &was) == -EPERM);
	EXPECT(hwheel_timer_delete(w.wheel, t) == -EPERM);
	EXPECT(hwheel_timer_delete_sync(w.wheel, t) == -EPERM);
	EXPECT(hwheel_timer_shutdown(w.wheel, t) == -EPERM);
	EXPECT(hwheel_timer_shutdown_sync(w.wheel, t) == -EPERM);
	EXPECT(hwheel_timer_free(w.wheel, t) == -EPERM);
	EXPECT(hwheel_key_set(w.wheel, &key, sizeof key, time, callback, 0, flags) == -EPERM);
	EXPECT(hwheel_key_delete(w.wheel, &key, sizeof key) == -EPERM);
	EXPECT(hwheel_key_pending(w.wheel, &key, sizeof key) == -EPERM);
	EXPECT(hwheel_advance(w.wheel, time, NULL, 0, NULL) == -EPERM);
	EXPECT(hwheel_poll(w.wheel, NULL, 0, NULL) == -EPERM);
	EXPECT(hwheel_drain(w.wheel, NULL, 0) == -EPERM);
	EXPECT(hwheel_stop(w.wheel) == -EPERM);
	EXPECT(hwheel_disown(w.wheel) == -EPERM);
	EXPECT(made == 77 && was == 77);
}

static void *stranger(void *unused)
{
	call_as_a_stranger();
	return NULL;
}

static void *next_owner(void *unused)
{
	w.sends = 0;
	EXPECT(hwheel_own(w.wheel) == 0);
	for (uint64_t n = below(4); n > 0; n--)
		random_call();
	EXPECT(hwheel_disown(w.wheel) == 0);
	return NULL;
}

/* The wheel is given up, and another thread, or this one, takes it. */
static void change_hands(void)
{
	static int is_there;
	const int is_inside = w.inside > 0 || w.waking > 0;

	if (!w.o.owned || w.sends) {
		EXPECT(w.sends || CALL(hwheel_disown, w.wheel) == -EINVAL);
		EXPECT(w.sends || CALL(hwheel_own, w.wheel) == -EINVAL);
		return;
	}
	if (one_in(2)) {
		w.sends++;
		in_another_thread(stranger, NULL);
		w.sends--;
	}
	/* Not within the turn of the next owner: the calls would nest without end. */
	if (is_there)
		return;
	EXPECT(CALL_PLAINLY(hwheel_disown) == (is_inside ? -EDEADLK : 0));
	if (!is_inside && one_in(2)) {
		is_there = 1;
		in_another_thread(next_owner, NULL);
		is_there = 0;
	}
	if (!is_inside && one_in(2))
		message();
	EXPECT(CALL_PLAINLY(hwheel_own) == 0);
}

/* What a call that moves a timer, and returns @want, does to the list. */
static void move_in_list(struct timer *t, uint32_t flags, int want, uint64_t point)
{
	if (want < 0 || (want == 0 && flags & HWHEEL_IF_PENDING))
		return;
	if (flags & HWHEEL_REDUCE)
		list_reduce(&w.list, t, point);
	else
		list_arm(&w.list, t, point, 0);
	see_arm(t, point);
}

static void move_timer(void)
{
	struct timer *some = some_timer(), *t = find(some->handle);
	uint32_t flags = some_flags();
	unsigned how = (unsigned)below(8);
	uint64_t point, time, slack = 0;
	int want, got, invalid;
	struct call call;

	flags |= how == 0 ? HWHEEL_REDUCE : how == 1 ? HWHEEL_IF_PENDING :
		 how == 2 && one_in(8) ? HWHEEL_REDUCE | HWHEEL_IF_PENDING : 0;
	if (how == 3) {
		flags &= ~(uint32_t)(HWHEEL_REDUCE | HWHEEL_IF_PENDING);
		slack = some_delay();
	}
	time = some_time(flags, &point);
	if (t != NULL && is_endless(t, t->period))
		return;
	invalid = !are_valid(flags) || !is_valid(time) || !is_valid(slack);
	want = invalid ? -EINVAL : owed(t);
	begin_call(&call);
	if (want >= 0 && how == 3) {
		int was_exact = t->pending && (t->exact || t->vague);

		list_arm(&w.list, t, point, slack);
		t->vague = was_exact;
		see_arm(t, point);
	} else {
		move_in_list(t, flags, want, point);
	}
	if (how == 3) {
		say_call("hwheel_timer_mod_range(w, %s, %" PRIu64 ", %" PRIu64 ", %s)",
			 name_of(some), time, slack, flag_names(flags));
		got = CALL(hwheel_timer_mod_range, w.wheel, some->handle, time, slack, flags);
	} else {
		say_call("hwheel_timer_mod(w, %s, %" PRIu64 ", %s)", name_of(some), time,
			 flag_names(flags));
		got = CALL(hwheel_timer_mod, w.wheel, some->handle, time, flags);
	}
	EXPECT(got == want);
	if (t != NULL)
		after_arm(t);
	end_call(&call);
}

static void set_period(void)
{
	struct timer *some = some_timer(), *t = find(some->handle);
	uint64_t period = one_in(4) ? 0 : some_delay();
	int want = !is_valid(period) ? -EINVAL : t == NULL ? -ESTALE : t->shut ? -ESHUTDOWN : 0;

	if (w.room != 0 || (t != NULL && is_endless(t, period)))
		return;
	say_call("hwheel_timer_set_period(w, %s, %" PRIu64 ")", name_of(some), period);
	EXPECT(CALL(hwheel_timer_set_period, w.wheel, some->handle, period) == want);
	if (want == 0) {
		t->period = period == NEVER ? 0 : kept_period(period);
		t->vague = t->pending && (t->exact || t->vague);
	}
}

static void cancel_timer(void)
{
	static const struct {
		int number;
		int (*call)(struct hwheel *w, hwheel_timer_t t);
	} ways[] = {
		{ NUMBER_OF_hwheel_timer_delete, hwheel_timer_delete },
		{ NUMBER_OF_hwheel_timer_delete_sync, hwheel_timer_delete_sync },
		{ NUMBER_OF_hwheel_timer_shutdown, hwheel_timer_shutdown },
		{ NUMBER_OF_hwheel_timer_shutdown_sync, hwheel_timer_shutdown_sync },
		{ NUMBER_OF_hwheel_timer_free, hwheel_timer_free },
	};
	struct timer *some = some_timer(), *t = find(some->handle);
	unsigned how = (unsigned)below(COUNT(ways));
	int syncs = how == 1 || how == 3, want;

	want = t == NULL ? -ESTALE : syncs && t->running ? -EDEADLK : t->pending;
	/* A callback in the queue is taken out, even if its timer was freed. */
	if (syncs && some->queued) {
		want = 1;
		t = some;
	}
	say_call("%s(w, %s)", function_names[ways[how].number], name_of(some));
	EXPECT(result(ways[how].number, ways[how].call(w.wheel, some->handle)) == want);
	if (want < 0)
		return;
	if (syncs && t->queued) {
		t->queued = 0;
		w.queued--;
		w.revoked++;
	}
	list_cancel(&w.list, t);
	if (how == 4)
		t->exists = 0;
	t->shut |= t->exists && (how == 2 || how == 3);
}

/* No timer of this wheel: 0, a number, and the timer of another wheel. */
static void strange_handle(void)
{
	static struct hwheel *other;
	static hwheel_timer_t foreign;
	const uint64_t dice = below(5);
	hwheel_timer_t t = w.timers[below(TIMERS)].handle;
	uint64_t left = 77, time = 1;
	int32_t was = 77;

	if (other == NULL) {
		const struct hwheel_options o = {
			.size = sizeof o, .clock = HWHEEL_CLOCK_MANUAL, .start_ns = 12345,
		};

		EXPECT(hwheel_create(&o, &other) == 0);
		EXPECT(hwheel_once(other, SEC, NULL, 0, 0, &foreign) == 0);
	}
	t = dice == 0 ? 0 : dice == 1 ? NEVER : dice == 2 ? foreign :
	    dice == 3 ? t ^ UINT64_C(1) << below(64) : below(UINT64_MAX);
	/* The number may be the handle of a timer, of a key, or of a callback in the queue. */
	if (find(t) != NULL || hwheel_timer_pending(w.wheel, t) >= 0)
		return;
	for (unsigned i = 0; i < TIMERS; i++)
		if (w.timers[i].queued && w.timers[i].handle == t)
			return;
	say_call("calls with the handle %#" PRIx64, t);
	EXPECT(CALL(hwheel_timer_mod, w.wheel, t, SEC, 0) == -ESTALE);
	EXPECT(CALL(hwheel_timer_mod, w.wheel, t, SEC, HWHEEL_REDUCE) == -ESTALE);
	EXPECT(CALL(hwheel_timer_mod_range, w.wheel, t, SEC, SEC, 0) == -ESTALE);
	EXPECT(CALL(hwheel_timer_mod_many, w.wheel, &t, &time, 1, 0, &was) == 0 && was == -ESTALE);
	EXPECT(CALL(hwheel_timer_set_period, w.wheel, t, SEC) == -ESTALE);
	EXPECT(CALL(hwheel_timer_delete, w.wheel, t) == -ESTALE);
	EXPECT(CALL(hwheel_timer_delete_many, w.wheel, &t, 1, &was) == 0 && was == -ESTALE);
	EXPECT(CALL(hwheel_timer_delete_sync, w.wheel, t) == -ESTALE);
	EXPECT(CALL(hwheel_timer_shutdown, w.wheel, t) == -ESTALE);
	EXPECT(CALL(hwheel_timer_shutdown_sync, w.wheel, t) == -ESTALE);
	EXPECT(CALL(hwheel_timer_free, w.wheel, t) == -ESTALE);
	EXPECT(CALL(hwheel_timer_pending, w.wheel, t) == -ESTALE);
	EXPECT(CALL(hwheel_timer_remaining, w.wheel, t, &left) == -ESTALE && left == 77);
	EXPECT(hwheel_timer_pending(other, foreign) == 1);
}

static void many(void)
{
	hwheel_timer_t handles[MANY];
	struct timer *some[MANY];
	uint64_t times[MANY], points[MANY];
	int32_t results[MANY], want[MANY];
	uint32_t n = (uint32_t)below(MANY + 1), flags = some_flags();
	int deletes = one_in(3), good = 0, quiet = one_in(4), got, invalid;
	struct call call;

	if (!deletes && one_in(3))
		flags |= one_in(2) ? HWHEEL_REDUCE : HWHEEL_IF_PENDING;
	invalid = !deletes && !are_valid(flags);
	begin_call(&call);
	for (uint32_t i = 0; i < n; i++) {
		struct timer *t;

		do {
			some[i] = some_timer();
			t = find(some[i]->handle);
		} while (t != NULL && is_endless(t, t->period));
		handles[i] = some[i]->handle;
		times[i] = some_time(flags, &points[i]);
		results[i] = 77;
		want[i] = deletes ? t == NULL ? -ESTALE : t->pending :
			  !is_valid(times[i]) ? -EINVAL : owed(t);
		good += want[i] >= 0;
		if (deletes && want[i] >= 0)
			list_cancel(&w.list, t);
		else if (!deletes && !invalid)
			move_in_list(t, flags, want[i], points[i]);
	}
	if (deletes) {
		say_call("hwheel_timer_delete_many(w, timers, %u, %s)", n,
			 quiet ? "NULL" : "results");
		got = CALL(hwheel_timer_delete_many, w.wheel, handles, n, quiet ? NULL : results);
	} else {
		say_call("hwheel_timer_mod_many(w, timers, times, %u, %s, %s)", n,
			 flag_names(flags), quiet ? "NULL" : "results");
		w.ahead++;
		got = CALL(hwheel_timer_mod_many, w.wheel, handles, times, n, flags,
			   quiet ? NULL : results);
		w.ahead--;
	}
	EXPECT(got == (invalid ? -EINVAL : good));
	for (uint32_t i = 0; i < n; i++) {
		EXPECT(results[i] == (quiet || invalid ? 77 : want[i]));
		say_more("%s, %" PRIu64 ": %d", name_of(some[i]), times[i], results[i]);
		if (find(handles[i]) != NULL)
			after_arm(find(handles[i]));
	}
	end_call(&call);
}

static void key(void)
{
	const unsigned id = TIMERS + (unsigned)below(KEYS);
	struct timer *t = &w.timers[id];
	hwheel_fn fn = one_in(3) ? NULL : callback;
	uint32_t flags = some_flags();
	uint64_t point, time = some_time(flags, &point), cookie;
	int was = t->exists, want;
	struct call call;

	if (t->running || t->queued)
		return;
	want = flags & ~(uint32_t)HWHEEL_ABS || !is_valid(time) ? -EINVAL :
	       w.drained ? -ESHUTDOWN : was;
	begin_call(&call);
	switch (below(4)) {
	case 0:
		say_call("hwheel_key_delete(w, key %s)", name_of(t));
		EXPECT(CALL(hwheel_key_delete, w.wheel, &id, sizeof id) == was);
		list_cancel(&w.list, t);
		t->exists = 0;
		break;
	case 1:
		say_call("hwheel_key_pending(w, key %s)", name_of(t));
		EXPECT(CALL(hwheel_key_pending, w.wheel, &id, sizeof id) == was);
		break;
	case 2:
		if (want == 1) {
			list_arm(&w.list, t, point, 0);
			see_arm(t, point);
		}
		say_call("hwheel_key_mod(w, key %s, %" PRIu64 ", %s)", name_of(t), time,
			 flag_names(flags));
		EXPECT(CALL(hwheel_key_mod, w.wheel, &id, sizeof id, time, flags) == want);
		break;
	default:
		cookie = ++w.cookies * ALL + id;
		if (want >= 0 && live() >= w.o.max_timers &&
		    (!was || t->calls != (fn != NULL)))
			want = -ENOSPC;
		if (want >= 0) {
			list_cancel(&w.list, t);
			*t = (struct timer){ .exists = 1, .frees_itself = 1, .keyed = 1,
					     .calls = fn != NULL, .cookie = cookie };
			list_arm(&w.list, t, point, 0);
			see_arm(t, point);
		}
		say_call("hwheel_key_set(w, key %s, %" PRIu64 ", %s, %u, %s)", name_of(t), time,
			 fn ? "callback" : "NULL", id, flag_names(flags));
		EXPECT(CALL(hwheel_key_set, w.wheel, &id, sizeof id, time, fn, cookie, flags) ==
		       want);
		break;
	}
	end_call(&call);
}

/* Questions. */
static void look_at_timer(void)
{
	struct timer *some = &w.timers[below(TIMERS)], *t = find(some->handle);

	say_call("hwheel_timer_pending(w, %s)", name_of(some));
	EXPECT(CALL(hwheel_timer_pending, w.wheel, some->handle) ==
	       (t == NULL ? -ESTALE : t->pending));
	hwheel_timer_prefetch(w.wheel, some->handle);
	shared->made[NUMBER_OF_hwheel_timer_prefetch]++;
	ask(some);
}

static void look_at_time(void)
{
	uint64_t now = 0;

	say_call("hwheel_now(w, &now)");
	EXPECT(CALL(hwheel_now, w.wheel, &now) == 0);
	say_more("%" PRIu64, now);
	EXPECT(now == wheel_now());
}

/*
 * The time at which to drive next is never later than the next timer. It is exact, unless it is
 * far away, or many timers were cancelled.
 */
static void check_next(uint64_t next, int is_exact)
{
	uint64_t most = list_next_most(&w.list), least = list_next_least(&w.list);
	uint64_t near = time_of(&w.list, w.list.hand_least) + ticks_to_ns(UINT64_C(1) << 33);

	/* What a drain has yet to hand back no longer counts. */
	EXPECT(next <= most || w.drained);
	if (!is_exact || w.drained)
		return;
	if (least == NEVER)
		EXPECT(next == NEVER);
	else if (least < near)
		EXPECT(next >= least);
	else
		EXPECT(next > time_of(&w.list, w.list.hand_least));
}

static void look_at_next(void)
{
	const uint64_t untouched = END_OF_TIME + 77;
	uint64_t next = untouched;
	int got;

	say_call("hwheel_next_expiry(w, &next)");
	got = CALL(hwheel_next_expiry, w.wheel, &next);
	say_more("%" PRIu64, next);
	EXPECT(got == 0 || got == 1);
	EXPECT((next == untouched) == (got == 0));
	check_next(got == 1 ? next : NEVER, w.list.outdated == 0 && !w.list.driving &&
		   !w.list.stopped && w.inside == 0);
	EXPECT(got == 0 || next < END_OF_TIME);
}

/*
 * Memory follows the number of timers, whatever the calls were: up to two runs of 64 records at
 * hand for each thread, an entry for each record, and a note of each thread, in chunks of 256
 * bytes.
 */
static void check_memory(const struct hwheel_stats *s)
{
	const uint64_t records = s->slab_bytes / 48;

	EXPECT(records <= ALL + 2 * 64 * (w.threads + 1));
	EXPECT(s->entries <= records);
	EXPECT(s->note_bytes <= 256 * (records * w.threads / 63 + 3 * w.threads + 1));
}

static void look_at_stats(void)
{
	struct hwheel_stats s = { .size = sizeof s };

	if (w.list.driving)
		return;
	say_call("hwheel_get_stats(w, &stats)");
	EXPECT(CALL(hwheel_get_stats, w.wheel, &s) == 0);
	EXPECT(s.pending == w.list.pending);
	EXPECT(s.armed == s.fired + s.cancelled + s.drained + s.pending);
	if (w.inside == 0)
		EXPECT(s.live == live());
	EXPECT(s.queued == w.queued);
	EXPECT(s.dropped == w.dropped);
	check_memory(&s);
	EXPECT(w.unseen || s.unclaimed == w.unclaimed);
	EXPECT(w.unseen || s.fired == w.list.fired - w.revoked);
	EXPECT(w.unseen || s.missed == w.list.skipped);
}

static void look_at_list(void)
{
	struct hwheel_event e[EVENTS];
	uint64_t cursor = 0;
	uint32_t max = 1 + (uint32_t)below(EVENTS), seen = 0;
	int got;

	if (w.list.driving)
		return;
	do {
		say_call("hwheel_list(w, &cursor, events, %u)", max);
		got = CALL(hwheel_list, w.wheel, &cursor, e, max);
		EXPECT(got >= 0 && (uint32_t)got <= max);
		for (int i = 0; i < got; i++) {
			const struct timer *t = &w.timers[e[i].cookie % ALL];

			EXPECT(t->pending && t->cookie == e[i].cookie);
			/* While a call that makes a timer wakes the loop, its handle is not set. */
			EXPECT(t->keyed ? e[i].timer == 0 :
			       e[i].timer == t->handle || (t->handle == 0 && w.waking > 0));
			EXPECT(e[i].flags == HWHEEL_EVENT_LISTED && e[i].missed == 0);
			EXPECT(t->vague || t->running || t->queued ||
			       (e[i].deadline_ns >= time_of(&w.list, t->first) &&
				e[i].deadline_ns <= time_of(&w.list, t->last)));
			EXPECT((seen & UINT32_C(1) << (t - w.timers)) == 0);
			seen |= UINT32_C(1) << (t - w.timers);
		}
	} while ((uint32_t)got == max);
	for (unsigned i = 0; i < ALL; i++)
		EXPECT((seen >> i & 1) == (uint32_t)w.timers[i].pending);
}

/* What hwheel_create() owes for these options. */
static int owed_for(const struct hwheel_options *given)
{
	struct hwheel_options o = *given;
	unsigned bits = 0;

	if (o.size < 8)
		return -EINVAL;
	if (o.size > sizeof o)
		return -E2BIG;
	memset((char *)&o + o.size, 0, sizeof o - o.size);
	o.tick_ns += o.tick_ns == 0 ? MS : 0;
	o.levels += o.levels == 0 ? 4 : 0;
	o.slots += o.slots == 0 ? 256 : 0;
	while (bits < 31 && UINT32_C(1) << bits < o.slots)
		bits++;
	if (o.clock > HWHEEL_CLOCK_MANUAL || o.tick_ns < 1000 || o.tick_ns > 3600 * SEC ||
	    o.levels > 8 || o.slots < 2 || o.slots > 65536 || o.slots & (o.slots - 1) ||
	    o.levels * bits > 48 || o.max_timers > 67000000 || o.workers > 256 ||
	    (o.clock != HWHEEL_CLOCK_MANUAL && o.start_ns != 0) || o.start_ns >= END_OF_TIME ||
	    o.queue > 1048576 || (o.queue & (o.queue - 1)) != 0 ||
	    o.overload > HWHEEL_OVERLOAD_DROP || (o.workers != 0 && o.executor != NULL) ||
	    (o.executor == NULL && o.executor_arg != NULL) || o.owned > 1 ||
	    (o.owned != 0 && (o.workers != 0 || o.executor != NULL)) ||
	    (o.wake == NULL && o.wake_arg != NULL))
		return -EINVAL;
	return 0;
}

static void make_another(void)
{
	struct {
		struct hwheel_options o;
		char beyond[64];
	} given = { .o = { .size = sizeof given.o } };
	struct hwheel_options *o = &given.o;
	struct hwheel *made = NULL;
	int want;

	o->owned = one_in(3);
	switch (below(13)) {
	case 0: o->size = (uint32_t)below(sizeof *o + 1); break;
	case 1: o->clock = (uint32_t)below(6); break;
	case 2: o->tick_ns = some_delay(); break;
	case 3: o->levels = (uint32_t)below(12); break;
	case 4: o->slots = 1u << below(18) | (uint32_t)below(2); break;
	case 5: o->max_timers = (uint32_t)below(UINT64_MAX); break;
	case 6: o->start_ns = some_delay(); break;
	case 7: o->queue = (uint32_t)below(5) << below(20); break;
	case 8: o->overload = (uint32_t)below(4); break;
	case 9: o->wake_arg = &w; o->wake = one_in(2) ? wake : NULL; break;
	case 10: o->executor_arg = &w; o->executor = one_in(2) ? executor : NULL; break;
	case 11: o->owned = (uint32_t)below(4) << below(30); break;
	default: o->clock = HWHEEL_CLOCK_MANUAL; o->start_ns = some_delay(); break;
	}
	want = owed_for(o);
	if (one_in(8)) {
		/* A longer struct of zeros is valid; with anything else it is not. */
		const char other = (char)below(2);

		o->size = sizeof *o;
		want = other ? -E2BIG : owed_for(o);
		o->size = sizeof given;
		given.beyond[below(sizeof given.beyond)] = other;
	}
	say_call("hwheel_create(&options, &other)");
	EXPECT(CALL(hwheel_create, o, &made) == want);
	EXPECT((made != NULL) == (want == 0));
	say_call("hwheel_destroy(other)");
	EXPECT(CALL(hwheel_destroy, made) == 0);
}

static void look_at_library(void)
{
	uint32_t version = hwheel_version();
	char text[32];

	shared->made[NUMBER_OF_hwheel_version]++;
	shared->made[NUMBER_OF_hwheel_version_string]++;
	shared->made[NUMBER_OF_hwheel_strerror]++;
	snprintf(text, sizeof text, "%u.%u.%u", version >> 16, version >> 8 & 255, version & 255);
	EXPECT(version == HWHEEL_VERSION && strcmp(text, hwheel_version_string()) == 0);
	EXPECT(strcmp(hwheel_strerror((int)below(3)), "success") == 0);
	EXPECT(strlen(hwheel_strerror(-(int)below(200))) > 0);
}

/* Driving. */

/* What the loop knows after a call that drives: when to call again. */
static void check_announced(const struct hwheel_run *run, int is_complete)
{
	if (!is_complete) {
		EXPECT(run->next_ns <= wheel_now());
		return;
	}
	check_next(run->next_ns, w.list.outdated == 0);
	/* An idle loop sleeps. */
	EXPECT(w.list.outdated != 0 || run->next_ns > time_of(&w.list, w.list.goal) ||
	       list_next_least(&w.list) <= time_of(&w.list, w.list.goal));
}

/*
 * The alarm of the descriptor is never too late. The tick thread may be about to set it once more,
 * for a timer that was armed while it set the alarm.
 */
static void check_alarm(void)
{
	struct alarm_fd a;
	int is_early;

	if (w.fd < 0 || w.list.driving || w.inside > 0 || w.waking > 0)
		return;
	for (int i = 0;; i++) {
		a = alarm_seen(w.fd);
		EXPECT(a.fd == w.fd);
		is_early = w.drained || list_next_most(&w.list) == NEVER ||
			   (a.at != 0 && a.at <= list_next_most(&w.list));
		if (is_early || w.threads == 1 || i == 10000)
			break;
		nanosleep(&(struct timespec){ 0, 1000000 }, NULL);
	}
	EXPECT(is_early);
}

/* The latest time to which timers with HWHEEL_MISSED_BURST let the wheel be driven. */
static uint64_t latest_goal(void)
{
	uint64_t latest = END_OF_TIME - 1;

	for (unsigned i = 0; i < ALL; i++) {
		const struct timer *t = &w.timers[i];

		if (t->pending && t->period != 0 && t->missed == HWHEEL_MISSED_BURST &&
		    t->first != NEVER)
			latest = earlier(latest, add_time(time_of(&w.list, t->first),
					 t->period > END_OF_TIME / 64 ? END_OF_TIME / 2 :
					 later(t->period, w.o.tick_ns) * 30));
	}
	return later(latest, wheel_now());
}

static uint64_t some_goal(void)
{
	uint64_t now = w.now, next = list_next_most(&w.list), to;

	switch (below(12)) {
	case 0: case 1:
		return now;
	case 2: case 3: case 4:
		to = next == NEVER ? now : next - below(2);
		break;
	case 5:
		to = w.asleep && w.announced < END_OF_TIME ? w.announced : now;
		break;
	case 6:
		to = add_time(now, below(2 * w.o.tick_ns));
		break;
	case 7:
		to = one_in(4) ? add_time(now, UINT64_C(1) << below(63)) : now;
		break;
	default:
		to = add_time(now, ticks_to_ns(some_ticks()) + below(2) * below(w.o.tick_ns));
		break;
	}
	to = to == NEVER ? now : earlier(to, latest_goal());
	return later(to, now);
}

static void move_clock(uint64_t to)
{
	w.now = to;
	if (w.clock >= 0) {
		say_call("the clock shows %" PRIu64, to);
		say_more("moved");
		set_clock(w.clock, to);
	}
}

/* Timers without a callback that were due in a call without room for events. */
static void look_for_unclaimed(int is_complete)
{
	for (unsigned i = 0; i < ALL; i++) {
		struct timer *t = &w.timers[i];
		int pending;

		if (!t->pending || t->calls || t->first > w.list.goal)
			continue;
		pending = t->keyed ? hwheel_key_pending(w.wheel, &i, sizeof i) :
				     hwheel_timer_pending(w.wheel, t->handle);
		if (t->period == 0 && pending != 1) {
			EXPECT(pending == (t->frees_itself && !t->keyed ? -ESTALE : 0));
			list_remove(&w.list, t);
			t->exists = !t->frees_itself;
			w.list.fired++;
			w.unclaimed++;
		} else if (t->period != 0) {
			uint64_t left = 0;

			EXPECT(hwheel_timer_remaining(w.wheel, t->handle, &left) == 1);
			w.unseen = 1;
			if (left != 0) {
				uint64_t tick = left == NEVER ? NEVER :
						(wheel_now() + left) / w.o.tick_ns;

				EXPECT(tick > w.list.goal);
				list_skip(&w.list, t, tick, tick);
			} else {
				EXPECT(!is_complete);
				list_skip(&w.list, t, t->first, w.list.goal);
			}
		}
	}
}

/* A call that drives is over, or the tick thread has fired what is due, and sleeps. */
static void end_drive(int is_complete)
{
	if (w.room != 0 && look_for_queued(1) > 0)
		EXPECT(w.o.overload == HWHEEL_OVERLOAD_DROP && w.queued == w.room);
	if (w.max == 0)
		look_for_unclaimed(is_complete);
	for (unsigned i = 0; i < ALL; i++)
		after_arm(&w.timers[i]);
	list_end(&w.list, is_complete);
}

static void drive(void)
{
	/* a time that no call announces */
	const uint64_t untouched = END_OF_TIME + 77;
	struct hwheel_run run = { .size = sizeof run, .left = 77, .next_ns = untouched };
	int manual = w.clock < 0, got, bounded, is_complete, with_run = !one_in(5), knows_next;
	uint64_t to;

	if (w.inside > 0 || w.waking > 0) {
		say_call("drive");
		got = manual ? CALL(hwheel_advance, w.wheel, w.now, NULL, 0, NULL) :
			       CALL(hwheel_poll, w.wheel, NULL, 0, NULL);
		EXPECT(got == -EBUSY);
		return;
	}
	to = some_goal();
	/* A clock that steps back. */
	if (!manual && !w.list.stopped && one_in(12))
		to = w.now - below(earlier(w.now, ticks_to_ns(some_ticks() + 1)));
	else if (manual && one_in(12))
		to = below(w.now + 1);
	w.max = one_in(3) ? 0 : (uint32_t)below(EVENTS + 1);
	memset(w.events, 0, sizeof w.events);
	w.delivered = 0;
	w.fired_in_call = 0;
	/* What is dropped is not seen before the end of the call. */
	w.lively = w.o.overload == HWHEEL_OVERLOAD_DROP ? 0 : 12;
	if (one_in(3))
		run.max_fired = 1 + below(3);
	if (one_in(4))
		run.max_ns = one_in(3) ? NEVER : one_in(2) ? 1 : below(END_OF_TIME);
	/* Each look at the clock takes time, so that a bound in time is reached. */
	if (w.clock != CLOCK_MONOTONIC && with_run && run.max_ns != 0)
		look_ns = below(4);
	/* A caller of an earlier version knows fewer members. */
	knows_next = !with_run || !one_in(12);
	if (!knows_next)
		run.size = offsetof(struct hwheel_run, next_ns);
	bounded = with_run && (run.max_fired != 0 || (run.max_ns != 0 && look_ns != 0));
	if (!manual)
		move_clock(to);
	else if (to > w.now)
		w.now = to;
	w.list.sleeps = w.fd >= 0;
	list_begin(&w.list, wheel_now());
	w.asleep = 0;
	if (manual)
		say_call("hwheel_advance(w, %" PRIu64 ", events, %u, %s)", to, w.max,
			 with_run ? "&run" : "NULL");
	else
		say_call("hwheel_poll(w, events, %u, %s)", w.max, with_run ? "&run" : "NULL");
	if (with_run)
		say_more("max_fired %" PRIu64 ", max_ns %" PRIu64, run.max_fired, run.max_ns);
	struct call call;

	begin_call(&call);
	got = manual ? CALL(hwheel_advance, w.wheel, to, w.max ? w.events : NULL, w.max,
			    with_run ? &run : NULL) :
		       CALL(hwheel_poll, w.wheel, w.max ? w.events : NULL, w.max,
			    with_run ? &run : NULL);
	look_ns = 0;
	deliver();
	EXPECT(got >= 0 && (uint32_t)got == w.delivered);
	if (with_run) {
		say_more("left %u, next_ns %" PRIu64, run.left, run.next_ns);
		EXPECT(run.left <= 1);
		EXPECT((run.next_ns == untouched) == !knows_next);
	}
	is_complete = with_run ? !run.left : w.max == 0 || (uint32_t)got < w.max;
	end_drive(is_complete);
	EXPECT(!with_run || run.max_fired == 0 || w.fired_in_call <= run.max_fired);
	/* A call stops only at a bound. */
	if (with_run && !(w.max != 0 && (uint32_t)got == w.max) &&
	    (run.max_fired == 0 || (w.max != 0 && w.fired_in_call < run.max_fired)) &&
	    (run.max_ns == 0 || !bounded))
		EXPECT(!run.left);
	end_call(&call);
	w.woken = 0;
	if (with_run && knows_next) {
		check_announced(&run, is_complete);
		w.announced = run.next_ns;
		w.asleep = is_complete && w.o.wake != NULL;
	} else {
		w.asleep = 0;
	}
	w.blind = !with_run || !knows_next;
	w.list.announced = w.blind ? NEVER : run.next_ns;
	w.max = 0;
	for (const struct timer *t = w.list.head; t != NULL; t = t->next)
		EXPECT(t->waited < 1000);
}

static void get_descriptor(void)
{
	int fd, can = w.clock >= 0 && w.o.wake == NULL;

	fd = CALL_PLAINLY(hwheel_fd);
	EXPECT(can ? fd >= 0 : fd == -EINVAL);
	EXPECT(!can || w.fd < 0 || w.fd == fd);
	if (can && w.fd < 0) {
		w.fd = fd;
		EXPECT(alarm_seen(fd).at != 0);
	}
}

static void end_tick(unsigned sets)
{
	EXPECT(alarm_sleeps(w.fd, w.now, sets));
	end_drive(1);
	w.lively = 0;
}

static void begin_tick(void)
{
	w.lively = w.o.overload == HWHEEL_OVERLOAD_DROP ? 0 : 4;
	w.fired_in_call = 0;
	w.list.sleeps = 1;
	list_begin(&w.list, wheel_now());
}

/*
 * The tick thread drives for a while, and then is stopped. While it makes calls, in callbacks,
 * this thread waits.
 */
static void tick_thread(void)
{
	unsigned sets;

	w.threads = 2;
	get_descriptor();
	sets = alarm_seen(w.fd).sets;
	begin_tick();
	say_call("hwheel_start(w)");
	/* Counted first: afterwards the tick thread counts the calls of callbacks. */
	result(NUMBER_OF_hwheel_start, 0);
	EXPECT(hwheel_start(w.wheel) == 0);
	end_tick(sets);
	for (uint64_t n = below(4); n > 0; n--) {
		uint64_t to;

		sets = alarm_seen(w.fd).sets - 1;
		/* Where nothing is due at once. */
		if (one_in(2) && wheel_now() / w.o.tick_ns == w.list.hand_least) {
			make_timer();
			move_timer();
			/* An arm for an earlier time has woken it. */
			EXPECT(alarm_sleeps(w.fd, w.now, sets));
			check_alarm();
		}
		to = some_goal();
		if (alarm_seen(w.fd).at > to && w.clock != CLOCK_REALTIME) {
			move_clock(to);
			continue;
		}
		sets = alarm_seen(w.fd).sets;
		w.now = to;
		begin_tick();
		move_clock(to);
		end_tick(sets);
	}
	say_call("hwheel_poll(w, NULL, 0, NULL)");
	EXPECT(CALL(hwheel_poll, w.wheel, NULL, 0, NULL) == -EBUSY);
	EXPECT(CALL(hwheel_start, w.wheel) == -EBUSY);
	w.lively = 4;
	EXPECT(CALL_PLAINLY(hwheel_stop) == 0);
	EXPECT(w.queued == 0);
}

static void start(void)
{
	const int can = w.clock >= 0 && w.o.wake == NULL && !w.o.owned;

	if (can && w.inside == 0 && w.waking == 0 && !w.drained) {
		if (one_in(3))
			tick_thread();
		return;
	}
	/* Where it would start, the list does not know when timers fire. */
	if (can && !w.drained && !w.list.driving)
		return;
	EXPECT(CALL_PLAINLY(hwheel_start) ==
	       (!can ? -EINVAL : w.list.driving ? -EBUSY : -ESHUTDOWN));
}

static void stop(void)
{
	const int is_inside = w.inside > 0 || w.waking > 0;
	struct call call;

	begin_call(&call);
	if (!is_inside)
		w.lively = 8;
	call.may = 1;
	EXPECT(CALL_PLAINLY(hwheel_stop) == (is_inside ? -EDEADLK : 0));
	EXPECT(is_inside || w.queued == 0);
	w.woken |= call.wakes > 0;
	end_call(&call);
}

static void run_queued(void)
{
	unsigned queued = w.queued;
	struct call call;

	begin_call(&call);
	call.may = 1;
	if (w.inside == 0)
		w.lively = 3;
	EXPECT(CALL_PLAINLY(hwheel_run_queued) == (w.room == 0 ? -EINVAL : queued > 0));
	end_call(&call);
}

static void drain(void)
{
	struct hwheel_event e[EVENTS];
	uint32_t max = (uint32_t)below(EVENTS + 1);
	const int is_inside = w.inside > 0 || w.waking > 0;
	int got;

	if (!is_inside && !one_in(20))
		return;
	say_call("hwheel_drain(w, events, %u)", max);
	got = CALL(hwheel_drain, w.wheel, e, max);
	if (max == 0 || is_inside) {
		EXPECT(got == (max == 0 ? -EINVAL : -EDEADLK));
		return;
	}
	EXPECT(got >= 0 && (uint32_t)got <= max);
	w.drained = w.list.closed = 1;
	w.asleep = 0;
	for (int i = 0; i < got; i++) {
		struct timer *t = &w.timers[e[i].cookie % ALL];

		EXPECT(t->pending && t->cookie == e[i].cookie);
		EXPECT(e[i].flags == HWHEEL_EVENT_DRAINED);
		EXPECT(e[i].timer == (t->keyed ? 0 : t->handle));
		list_cancel(&w.list, t);
	}
	if ((uint32_t)got < max)
		EXPECT(w.list.pending == 0);
}

static void destroy_too_early(void)
{
	if (w.inside == 0 && w.waking == 0)
		return;
	EXPECT(CALL_PLAINLY(hwheel_destroy) == -EDEADLK);
}

static void make_a_rare_call(void)
{
	one_in(8) ? make_another() : one_in(4) ? strange_handle() : look_at_library();
}

static void random_call(void)
{
	/* Of a hundred numbers, a call has those below its end, from the end of the call before. */
	static const struct {
		uint64_t end;
		void (*make)(void);
	} calls[] = {
		{ 20, make_timer }, { 38, move_timer }, { 48, cancel_timer }, { 55, key },
		{ 58, many }, { 60, set_period }, { 64, look_at_timer }, { 66, look_at_time },
		{ 70, look_at_next }, { 72, look_at_stats }, { 73, look_at_list },
		{ 74, get_descriptor }, { 75, start }, { 76, stop }, { 78, run_queued },
		{ 79, drain }, { 80, destroy_too_early }, { 84, message }, { 85, change_hands },
		{ 86, make_a_rare_call }, { 100, drive },
	};
	const uint64_t op = below(100);
	unsigned i = 0;

	while (op >= calls[i].end)
		i++;
	calls[i].make();
	check_alarm();
}

static void begin(uint64_t seed)
{
	static const uint64_t ticks[] = { 1000, 1000, 7001, MS, MS, 1 << 20, SEC, 3600 * SEC };
	static const struct { uint32_t levels, slots; } shapes[] = {
		{ 0, 0 }, { 0, 0 }, { 1, 2 }, { 1, 64 }, { 2, 4 }, { 8, 8 }, { 6, 64 }, { 1, 4096 },
	};
	const unsigned shape = (seed_with(seed, 0), (unsigned)below(COUNT(shapes)));

	memset(&w, 0, sizeof w);
	w.o = (struct hwheel_options){
		.size = sizeof w.o, .clock = (uint32_t)below(4),
		.tick_ns = ticks[below(COUNT(ticks))],
		.levels = shapes[shape].levels, .slots = shapes[shape].slots,
		.max_timers = one_in(6) ? 5 : ALL + 2,
	};
	w.clock = system_clock(w.o.clock);
	w.fd = -1;
	w.list.announced = NEVER;
	w.threads = 1;
	for (unsigned i = 0; i < 16; i++)
		clock_of[i] = i == CLOCK_MONOTONIC || i == CLOCK_BOOTTIME || i == CLOCK_REALTIME ?
			      1 + below(UINT64_C(1) << (20 + below(40))) : 0;
	w.now = w.clock >= 0 ? clock_of[w.clock] : one_in(2) ? 0 : below(UINT64_C(1) << below(62));
	if (w.clock < 0)
		w.o.start_ns = w.now;
	if (one_in(2)) {
		w.o.wake = wake;
		w.o.wake_arg = &w;
	}
	if (one_in(4)) {
		w.o.executor = executor;
		w.o.executor_arg = &w;
		w.o.queue = UINT32_C(1) << below(5);
		w.o.overload = (uint32_t)below(2);
		w.room = w.o.queue;
	}
	w.o.owned = w.o.executor == NULL && one_in(2);
	w.is_crowded = one_in(3);
	w.list.tick_ns = w.o.tick_ns;
	w.list.hand_least = w.list.hand_most = w.now / w.o.tick_ns;
	say_call("options: clock %u, tick_ns %" PRIu64 ", levels %u, slots %u, max_timers %u, "
		 "start_ns %" PRIu64 ", queue %u, overload %u, executor %s, wake %s, owned %u; the "
		 "time is %" PRIu64, w.o.clock, w.o.tick_ns, w.o.levels, w.o.slots, w.o.max_timers,
		 w.o.start_ns, w.o.queue, w.o.overload, w.o.executor ? "yes" : "no",
		 w.o.wake ? "yes" : "no", w.o.owned, w.now);
	EXPECT(CALL(hwheel_create, &w.o, &w.wheel) == 0);
}

static void finish(void)
{
	look_at_list();
	look_at_stats();
	/* Queued callbacks run, and make calls, but nobody wakes a loop. */
	w.ending = 1;
	w.asleep = 0;
	w.lively = 4;
	EXPECT(CALL_PLAINLY(hwheel_destroy) == 0);
	EXPECT(w.queued == 0);
}

#ifdef FUZZER
const char *__asan_default_options(void);
int LLVMFuzzerInitialize(int *argc, char ***argv);
int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size);

/* To clear what is freed is half of an execution, unless it is used again soon. */
const char *__asan_default_options(void)
{
	return "quarantine_size_mb=1:malloc_context_size=8";
}

/* For verify/fuzz/run.sh, which adds them up. */
static void print_sums(void)
{
	printf("stat::calls: %" PRIu64 "\nstat::fired: %" PRIu64 "\n", shared->calls, shared->fired);
}

/* The clocks of the fuzzer are those of the test, so it cannot see that an input takes long. */
static void takes_long(int signal)
{
	(void)signal;
	abort();
}

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
	static struct shared counts;

	shared = &counts;
	signal(SIGALRM, takes_long);
	/* To clear a huge page for each wheel takes longer than all the rest. */
	return prctl(PR_SET_THP_DISABLE, 1, 0, 0, 0) != 0 || atexit(print_sums) != 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
	program = bytes;
	program_end = bytes + size;
	alarm(60);
	begin(0);
	while (program < program_end)
		random_call();
	finish();
	alarm(0);
	for (unsigned i = 0; i < COUNT(clock_of); i++)
		clock_of[i] = 0;
	shared->fired += w.list.fired;
	return 0;
}
#else
/*
 * A flood: each call has a bound in time, and before each call more timers are made than a call
 * takes. A timer that comes due fires in the round that is under way, or in the next one.
 */
static struct {
	unsigned turn, fired[8];
} flooded;

static void flood_callback(struct hwheel *w, const struct hwheel_event *e)
{
	flooded.fired[e->cookie] = flooded.turn;
}

static void flood(uint64_t seed)
{
	enum { TURNS = 200, TAKEN = 32, DUE = COUNT(flooded.fired) };
	struct hwheel_options o = { .size = sizeof o, .clock = HWHEEL_CLOCK_MANUAL };
	const unsigned a_turn = (seed_with(seed, 0), 1 + (unsigned)below(100));
	const uint64_t max_ns = 1 + below(3);
	unsigned due[DUE], latest[DUE];
	struct hwheel *wheel;

	memset(&flooded, 0, sizeof flooded);
	clock_of[CLOCK_MONOTONIC] = 1;
	say_call("before each of %d calls of hwheel_advance(), with max_ns %" PRIu64 ", %u new "
		 "timers", TURNS, max_ns, a_turn);
	is_quiet = 1;
	EXPECT(CALL(hwheel_create, &o, &wheel) == 0);
	for (unsigned i = 0; i < DUE; i++) {
		due[i] = 1 + (unsigned)below(5);
		/* The end of the round that is under way then, and of the next one. */
		latest[i] = due[i] + due[i] * a_turn / TAKEN + 2 * DUE;
		latest[i] += latest[i] * a_turn / TAKEN + 2 * DUE;
		EXPECT(CALL(hwheel_once, wheel, due[i] * MS, flood_callback, i, 0, NULL) == 0);
	}
	for (flooded.turn = 1; flooded.turn <= TURNS; flooded.turn++) {
		struct hwheel_run run = { .size = sizeof run, .max_ns = max_ns };

		for (unsigned i = 0; i < a_turn; i++)
			EXPECT(CALL(hwheel_once, wheel, 3600 * SEC + below(SEC), NULL, 0, 0,
				    NULL) == 0);
		look_ns = 2;
		EXPECT(CALL(hwheel_advance, wheel, flooded.turn * MS, NULL, 0, &run) == 0);
		look_ns = 0;
		for (unsigned i = 0; i < DUE; i++) {
			EXPECT(flooded.fired[i] == 0 || flooded.fired[i] >= due[i]);
			EXPECT(flooded.fired[i] != 0 || flooded.turn < latest[i]);
		}
	}
	EXPECT(CALL(hwheel_destroy, wheel) == 0);
	is_quiet = 0;
	shared->episodes++;
}

static void episode(uint64_t seed, const uint8_t *skip)
{
	if (seed % FLOOD == 0) {
		flood(seed);
		return;
	}
	begin(seed);
	for (unsigned i = 0; i < STEPS; i++) {
		if (skip != NULL && skip[i])
			continue;
		seed_with(seed, i + 1);
		random_call();
	}
	seed_with(seed, STEPS + 1);
	finish();
	shared->episodes++;
	shared->fired += w.list.fired;
}

/* The system's clock. */
static double seconds(void)
{
	struct timespec t;

	syscall(SYS_clock_gettime, CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

/*
 * Runs an episode in a child, and returns whether it fails; at the same place as before, if
 * @why is not NULL.
 */
static int fails(uint64_t seed, const uint8_t *skip, const char *why, int is_said)
{
	int status = 0;
	pid_t child;

	fflush(stdout);
	child = fork();
	if (child == 0) {
		say = is_said;
		alarm(5);
		shared->why[0] = 0;
		episode(seed, skip);
		_exit(0);
	}
	waitpid(child, &status, 0);
	return status != 0 && (why == NULL || strcmp(why, shared->why) == 0);
}

/* Leaves out steps as long as the episode still fails, and prints the calls of the rest. */
static void shrink(uint64_t seed)
{
	static uint8_t skip[STEPS];
	const double end = seconds() + 60;
	char why[sizeof shared->why];
	unsigned left = 0;

	memset(skip, 0, sizeof skip);
	memcpy(why, shared->why, sizeof why);
	if (!fails(seed, skip, why, 0)) {
		printf("# the episode of this seed does not fail alone\n");
		return;
	}
	for (unsigned length = STEPS / 2; length > 0; length = length > 1 ? (length + 1) / 2 : 0) {
		if (seed % FLOOD == 0)
			break;
		for (unsigned from = 0; from < STEPS && seconds() < end; from += length) {
			uint8_t before[STEPS];

			memcpy(before, skip, sizeof skip);
			for (unsigned i = from; i < from + length && i < STEPS; i++)
				skip[i] = 1;
			if (memcmp(before, skip, sizeof skip) != 0 && !fails(seed, skip, why, 0))
				memcpy(skip, before, sizeof skip);
		}
		if (length == 1)
			break;
	}
	for (unsigned i = 0; i < STEPS; i++)
		left += !skip[i];
	if (seed % FLOOD != 0)
		printf("# %u of %u steps still fail. The calls:\n", left, STEPS);
	fails(seed, skip, NULL, 1);
	if (shared->why[0] == 0)
		printf("\t/* here the process ended by a signal */\n");
}

static uint64_t env_number(const char *name, uint64_t otherwise)
{
	const char *text = getenv(name);

	return text != NULL ? strtoull(text, NULL, 0) : otherwise;
}

TEST(random_calls_agree_with_a_sorted_list)
{
	const double end = seconds() + (double)env_number("HWHEEL_SECONDS", 5);
	uint64_t seed = env_number("HWHEEL_SEED", 0);
	unsigned functions = 0;
	int status = 0, alone = seed != 0;
	pid_t child;

	shared = mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE,
		      MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	CHECK(shared != MAP_FAILED);
	/* To clear a huge page for each wheel takes longer than all the rest. */
	prctl(PR_SET_THP_DISABLE, 1, 0, 0, 0);
	if (seed == 0)
		seed = (uint64_t)(seconds() * 1e9) * UINT64_C(0x9e3779b97f4a7c15) >> 24;
	printf("# seed %" PRIu64 "\n", seed);
	fflush(stdout);
	child = fork();
	if (child == 0) {
		for (; seconds() < end || shared->episodes == 0; seed++) {
			shared->seed = seed;
			alarm(60);
			episode(seed, NULL);
		}
		_exit(0);
	}
	CHECK(child > 0);
	waitpid(child, &status, 0);
	printf("# %" PRIu64 " episodes, %" PRIu64 " calls, %" PRIu64 " timers fired\n",
	       shared->episodes, shared->calls, shared->fired);
	if (status != 0) {
		char why[sizeof shared->why];

		memcpy(why, shared->why, sizeof why);
		printf("# HWHEEL_SEED=%" PRIu64 " fails: %s\n", shared->seed,
		       WIFSIGNALED(status) ? strsignal(WTERMSIG(status)) : why);
		shrink(shared->seed);
	}
	CHECK_EQ(status, 0);
	for (unsigned i = 0; i < NUMBER_OF_FUNCTIONS; i++) {
		if (shared->made[i] == 0)
			printf("# no call of %s\n", function_names[i]);
		functions += shared->made[i] != 0;
	}
	if (shared->episodes > 1000 && !alone)
		CHECK_EQ(functions, NUMBER_OF_FUNCTIONS);
}
#endif
