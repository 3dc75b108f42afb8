/*
 * The workloads, for any implementation of timers in C or C++. A program
 * defines struct timer and the functions below, each as the cheapest correct
 * call for its job, and includes this file. Times are ticks of 1 ms, which every
 * implementation gets in its own unit. A function that returns an int returns a
 * negative number on failure, which ends the program.
 */
#ifndef WORKLOADS_H
#define WORKLOADS_H

#include "bench.h"

struct timer;
/* What the caller of an implementation keeps for n timers; not measured as memory. */
static void prepare(uint64_t n);
/* Make the wheel, for this many threads, with ticks of this length. */
static void begin(unsigned threads, uint64_t tick_ns);
/* Make n timers that are not armed; the i-th calls fired(i) when it expires. */
static struct timer *make(uint64_t n);
static struct timer *nth(struct timer *t, uint64_t i);
/* Arm one that is idle. */
static int arm(struct timer *t, uint64_t ticks);
static int cancel(struct timer *t);
/* Arm one that is pending, in place. */
static int move(struct timer *t, uint64_t ticks);
#ifdef HAS_BATCH
/* Move BATCH_SIZE timers in one call; @ticks may be overwritten. */
static int move_many(struct timer **t, uint64_t *ticks);
#endif
/* Arm with TIMEOUT, whether pending or not. */
static int refresh(struct timer *t);
/* Pass @ticks ticks and fire what is due. */
static int sweep(uint64_t ticks);
#ifdef HAS_CLOCK
/* Make a wheel on the real clock, driven by its own thread if there is one. */
static void begin_real(int threaded, uint64_t tick_ns);
static int arm_ns(struct timer *t, uint64_t delay_ns);
/* Sleep until something may be due, and fire it. */
static void sleep_and_fire(void);
#endif

/* Delays are uniform in 1 to this many ticks. */
static uint64_t longest = 60000;
static struct rng delays = { SEED };

static inline uint64_t ticks(struct rng *r)
{
	return 1 + below(r, longest);
}

static void check(int result)
{
	if (result < 0) {
		fprintf(stderr, "a call has failed: %d\n", result);
		exit(1);
	}
}

static uint64_t fires;
static enum { ONCE, RANDOM, FIFO } repeat;

#ifdef HAS_CLOCK
static void record(uint64_t cookie);
#else
static inline void record(uint64_t cookie)
{
	(void)cookie;
}
#endif

/* Called when a timer expires; in how many ticks to arm it again, or 0. */
static inline uint64_t fired(uint64_t cookie)
{
	record(cookie);
	fires++;
	return repeat ? repeat == FIFO ? longest : ticks(&delays) : 0;
}

static struct timer *armed(uint64_t n, struct rng *r)
{
	struct timer *t = make(n);
	int bad = 0;

	for (uint64_t i = 0; i < n; i++)
		bad |= arm(nth(t, i), ticks(r));
	check(bad);
	return t;
}

/* Moves that leave behind whatever moves leave behind. */
static void wear(struct timer *t, uint64_t n, uint64_t moves)
{
	struct rng r = { SEED + 1 };
	int bad = 0;

	for (uint64_t i = 0; i < moves; i++)
		bad |= move(nth(t, below(&r, n)), ticks(&r));
	check(bad);
}

enum operation { REARM, BATCH, PAIR, CONSTANT, REFRESH };

struct job {
	enum operation operation;
	unsigned number;
	uint64_t n, moves;
	pthread_barrier_t *barrier;
	double s;
};

static inline __attribute__((always_inline)) int operations(enum operation operation,
							     struct timer *t, uint64_t n,
							     struct rng *r)
{
	int bad = 0;

	for (uint64_t i = 0; i < OPS; i++) {
		struct timer *one;

#ifdef HAS_BATCH
		if (operation == BATCH) {
			struct timer *many[BATCH_SIZE];
			uint64_t times[BATCH_SIZE];

			for (unsigned k = 0; k < BATCH_SIZE; k++) {
				many[k] = nth(t, below(r, n));
				times[k] = ticks(r);
			}
			bad |= move_many(many, times);
			i += BATCH_SIZE - 1;
			continue;
		}
#endif
		one = nth(t, below(r, n));
		switch (operation) {
		case PAIR:
			bad |= cancel(one);
			bad |= arm(one, ticks(r));
			break;
		case CONSTANT:
			bad |= refresh(one);
			bad |= cancel(one);
			break;
		case REFRESH:
			bad |= refresh(one);
			if (i % 1000 == 999)
				bad |= sweep(1);
			break;
		default:
			bad |= move(one, ticks(r));
		}
	}
	return bad;
}

/* Each operation in a loop of its own. */
static int operate(enum operation operation, struct timer *t, uint64_t n, struct rng *r)
{
	switch (operation) {
	case BATCH:
		return operations(BATCH, t, n, r);
	case PAIR:
		return operations(PAIR, t, n, r);
	case CONSTANT:
		return operations(CONSTANT, t, n, r);
	case REFRESH:
		return operations(REFRESH, t, n, r);
	default:
		return operations(REARM, t, n, r);
	}
}

static void *thread(void *arg)
{
	struct job *j = (struct job *)arg;
	struct rng r = { SEED + 2 + j->number };
	struct timer *t;
	double start;
	int bad = 0;

	pin(j->number);
	if (j->operation == CONSTANT || j->operation == REFRESH) {
		t = make(j->n);
		for (uint64_t i = 0; i < j->n; i++) {
			bad |= refresh(nth(t, i));
			if (j->operation == CONSTANT)
				bad |= cancel(nth(t, i));
		}
	} else {
		t = armed(j->n, &r);
	}
	wear(t, j->n, j->moves);
	pthread_barrier_wait(j->barrier);
	start = seconds();
	bad |= operate(j->operation, t, j->n, &r);
	j->s = seconds() - start;
	check(bad);
	return NULL;
}

/* n timers a thread. The figure is the time divided by the operations of all. */
static void churn(enum operation operation, uint64_t n, unsigned threads, uint64_t moves)
{
	pthread_barrier_t barrier;
	pthread_t id[MOST_THREADS];
	static struct job job[MOST_THREADS];
	double slowest = 0;

	begin(threads, MS);
	pthread_barrier_init(&barrier, NULL, threads);
	for (unsigned i = 0; i < threads; i++) {
		job[i].operation = operation;
		job[i].number = i;
		job[i].n = n;
		job[i].moves = moves;
		job[i].barrier = &barrier;
		if (i > 0)
			start_thread(&id[i], thread, &job[i]);
	}
	thread(&job[0]);
	for (unsigned i = 0; i < threads; i++) {
		if (i > 0)
			pthread_join(id[i], NULL);
		if (job[i].s > slowest)
			slowest = job[i].s;
	}
	figure("ns", slowest * 1e9 / ((double)OPS * threads));
}

/* All timers are armed, and fired tick by tick; again, until enough have fired. */
static void cycle(uint64_t n, uint64_t moves)
{
	uint64_t turns = OPS / n > 300 ? 300 : OPS / n < 1 || moves > 0 ? 1 : OPS / n;
	double arming = 0, firing = 0, a, b;
	struct rng r = { SEED };
	struct timer *t;

	begin(1, MS);
	t = make(n);
	/* The first turn is a rehearsal, which maps memory. */
	for (uint64_t turn = 0; turn <= turns; turn++) {
		int bad = 0;

		a = seconds();
		for (uint64_t i = 0; i < n; i++)
			bad |= arm(nth(t, i), ticks(&r));
		b = seconds();
		if (turn > 0) {
			arming += b - a;
			wear(t, n, moves);
		}
		a = seconds();
		for (uint64_t i = 0; i < longest; i++)
			bad |= sweep(1);
		if (turn > 0)
			firing += seconds() - a;
		check(bad);
	}
	if (fires != (turns + 1) * n) {
		fprintf(stderr, "%" PRIu64 " fired of %" PRIu64 "\n", fires, (turns + 1) * n);
		exit(1);
	}
	figure("arm", arming * 1e9 / (double)(turns * n));
	figure("fire", firing * 1e9 / (double)(turns * n));
}

/*
 * Timers of at most a second arm themselves again in their callback: after a
 * random delay, and for every ten that fire one is moved before it does; or after
 * one second each, so that the first to be armed is the first to fire. The figure
 * is for one that fires.
 */
static void heartbeat(uint64_t n, uint64_t moves, int fifo)
{
	uint64_t owed = 0, before;
	struct rng r = { SEED };
	struct timer *t;
	double start;
	int bad = 0;

	repeat = fifo ? FIFO : RANDOM;
	longest = 1000;
	begin(1, MS);
	t = armed(n, &r);
	for (uint64_t i = 0; i < 2 * longest; i++)
		bad |= sweep(1);
	wear(t, n, moves);
	fires = 0;
	start = seconds();
	while (fires < OPS) {
		before = fires;
		bad |= sweep(1);
		for (owed += fires - before; !fifo && owed >= 10; owed -= 10)
			bad |= move(nth(t, below(&r, n)), ticks(&r));
	}
	figure("ns", (seconds() - start) * 1e9 / (double)fires);
	check(bad);
}

/* Resident bytes for each of n timers, with all that the wheel needs. */
static void memory(uint64_t n)
{
	struct rng r = { SEED };
	uint64_t before;

	prepare(n);
	before = resident();
	begin(1, MS);
	armed(n, &r);
	figure("bytes", (double)(resident() - before) / (double)n);
}

static unsigned ready;

/* A thread that has armed a timer, and stays. */
static void *bystander(void *delay)
{
	struct timer *t = make(1);

	check(arm(nth(t, 0), *(uint64_t *)delay));
	__atomic_fetch_add(&ready, 1, __ATOMIC_RELEASE);
	for (;;)
		pause();
	return NULL;
}

static void bystanders(unsigned n, uint64_t delay)
{
	static uint64_t kept;
	pthread_t id;

	kept = delay;
	for (unsigned i = 0; i < n; i++)
		start_thread(&id, bystander, &kept);
	while (__atomic_load_n(&ready, __ATOMIC_ACQUIRE) < n)
		usleep(100);
}

/* To arm a timer for the next tick and to pass that, while others hold timers. */
static void tick(unsigned threads)
{
	struct timer *t;
	double start = 0;
	int bad = 0;

	begin(threads, MS);
	t = make(1);
	check(arm(nth(t, 0), 1) | sweep(1));
	bystanders(threads - 1, 3600000);
	fires = 0;
	for (int i = -10000; i < 100000; i++) {
		if (i == 0)
			start = seconds();
		bad |= arm(nth(t, 0), 1) | sweep(1);
	}
	figure("ns", (seconds() - start) * 1e9 / 100000);
	check(bad);
	if (fires != 110000) {
		fprintf(stderr, "only %" PRIu64 " fired\n", fires);
		exit(1);
	}
}

/* To pass 2^60 ticks in which nothing is due. */
static void leap(unsigned threads)
{
	struct timer *t;
	double start;

	begin(threads, 1);
	t = make(1);
	check(arm(nth(t, 0), 1) | sweep(1));
	bystanders(threads - 1, 1);
	check(sweep(1));
	if (fires != threads) {
		fprintf(stderr, "only %" PRIu64 " fired\n", fires);
		exit(1);
	}
	start = seconds();
	check(sweep(UINT64_C(1) << 60));
	figure("us", (seconds() - start) * 1e6);
}

static void idle(void)
{
	double start;
	int bad = 0;

	begin(1, MS);
	check(arm(nth(make(1), 0), 100 * OPS));
	start = seconds();
	for (int i = 0; i < OPS; i++)
		bad |= sweep(1);
	figure("ns", (seconds() - start) * 1e9 / OPS);
	check(bad);
}

/*
 * The textbook's picture: to cancel and arm one of n timers, and to pass a tick,
 * each with its own stopwatch, until both are long enough.
 */
static void book(uint64_t n)
{
	struct rng r = { SEED };
	double pairs = 0, passing = 0, a, b;
	uint64_t passed = 0;
	struct timer *t;
	int bad = 0;

	begin(1, MS);
	t = armed(n, &r);
	while (passed < 10 || pairs + passing < 0.2) {
		a = seconds();
		for (int i = 0; i < 1000; i++) {
			struct timer *one = nth(t, below(&r, n));

			bad |= cancel(one);
			bad |= arm(one, ticks(&r));
		}
		b = seconds();
		bad |= sweep(1);
		passing += seconds() - b;
		pairs += b - a;
		passed++;
	}
	check(bad);
	figure("pair", pairs * 1e9 / ((double)passed * 1000));
	figure("tick", passing * 1e9 / (double)passed);
}

#ifdef HAS_CLOCK
enum { LATE = 1000 };
static int64_t late[LATE];
static uint64_t due[LATE];
static uint32_t lates;

static void record(uint64_t cookie)
{
	/* Only the workload below sets a time. */
	if (due[cookie % LATE] == 0)
		return;
	late[lates] = (int64_t)(nanoseconds() - due[cookie]);
	__atomic_store_n(&lates, lates + 1, __ATOMIC_RELEASE);
}

/* How late 1,000 timers fire that are due within a second of the real clock. */
static void lateness(int threaded, uint64_t tick_us)
{
	struct rng r = { SEED };
	struct timer *t;

	begin_real(threaded, tick_us * 1000);
	t = make(LATE);
	for (uint64_t i = 0; i < LATE; i++) {
		uint64_t delay = MS + below(&r, SEC - MS);

		due[i] = nanoseconds() + delay;
		check(arm_ns(nth(t, i), delay));
	}
	while (__atomic_load_n(&lates, __ATOMIC_ACQUIRE) < LATE)
		sleep_and_fire();
	quantiles(late, LATE);
}
#endif

#include "lines.h"

int main(int argc, char **argv)
{
	const char *what = argc > 1 ? argv[1] : "";
	uint64_t n = argc > 2 ? strtoull(argv[2], NULL, 10) : 1;
	unsigned threads = argc > 3 ? (unsigned)atoi(argv[3]) : 1;
	uint64_t moves = argc > 4 ? strtoull(argv[4], NULL, 10) : 0;

	if (n < 1 || threads < 1 || threads > MOST_THREADS) {
		fprintf(stderr, "usage: %s WORKLOAD [TIMERS [THREADS [MOVES BEFORE]]]\n", argv[0]);
		return 2;
	}
	pin(0);
	if (strcmp(what, "rearm") == 0)
		churn(REARM, n, threads, moves);
#ifdef HAS_BATCH
	else if (strcmp(what, "batch") == 0)
		churn(BATCH, n, threads, moves);
#endif
	else if (strcmp(what, "pair") == 0)
		churn(PAIR, n, threads, moves);
	else if (strcmp(what, "constant") == 0)
		churn(CONSTANT, n, threads, moves);
	else if (strcmp(what, "refresh") == 0)
		churn(REFRESH, n, threads, moves);
	else if (strcmp(what, "cycle") == 0)
		cycle(n, moves);
	else if (strcmp(what, "heartbeat") == 0)
		heartbeat(n, moves, 0);
	else if (strcmp(what, "fifo") == 0)
		heartbeat(n, moves, 1);
	else if (strcmp(what, "book") == 0)
		book(n);
#ifdef HAS_CLOCK
	else if (strcmp(what, "lateness") == 0)
		lateness(0, n);
	else if (strcmp(what, "lateness-thread") == 0)
		lateness(1, n);
#endif
	else if (strcmp(what, "memory") == 0)
		memory(n);
	else if (strcmp(what, "idle") == 0)
		idle();
	else if (strcmp(what, "tick") == 0)
		tick(threads);
	else if (strcmp(what, "lines") == 0)
		lines();
	else if (strcmp(what, "leap") == 0)
		leap(threads);
	else
		return 2;
	fflush(stdout);
	/* Bystanders never end. */
	_exit(0);
}

#endif
