/*
 * The workloads, for any implementation of timers: WHEEL is a file of benches/wheels. Delays
 * are ticks of 1 ms.
 */
#include "wheel.h"
#include <semaphore.h>

/* Slow implementations do a fifth. */
#ifdef SLOW
#define TIMES (OPS / 5)
#else
#define TIMES OPS
#endif

/* Delays are uniform in 1 to this many ticks. */
static uint64_t longest = 60000;
static struct rng delays = { SEED };

static inline uint64_t ticks(struct rng *r)
{
	return 1 + below(r, longest);
}

static uint64_t fires;

#ifdef HAS_CLOCK
static void record(uint64_t cookie);
#else
static inline void record(uint64_t cookie)
{
	(void)cookie;
}
#endif

static inline uint64_t fired(uint64_t cookie)
{
	record(cookie);
	fires++;
	switch (repeat) {
	case RANDOM:
		return ticks(&delays);
	case FIFO:
		return longest;
	case IDLES:
		/* A deadline is cancelled before it comes. */
		return cookie % TIMERS == IDLE ? TIMEOUT : 0;
	default:
		return 0;
	}
}

static struct timer *armed_in(struct timer *t, uint64_t n, struct rng *r)
{
	int bad = 0;

	make_in(t, n);

	for (uint64_t i = 0; i < n; i++)
		bad |= arm(nth(t, i), ticks(r));
	check(bad);
	return t;
}

static struct timer *armed(uint64_t n, struct rng *r)
{
	return armed_in((struct timer *)pages(n * sizeof(struct timer)), n, r);
}

/* Moves that leave behind whatever moves leave behind. */
static void wear(struct timer *t, uint64_t n, uint64_t moves)
{
	struct rng r = { SEED + 1 };
	int bad = 0;

	for (uint64_t i = 0; i < moves; i++)
		bad |= arm(nth(t, below(&r, n)), ticks(&r));
	check(bad);
}

enum operation { REARM, BATCH, PAIR, REFRESH, MESSAGES };

struct job {
	enum operation operation;
	unsigned number, threads;
	uint64_t n, moves;
	pthread_barrier_t *barrier;
	double s;
};

static inline __attribute__((always_inline)) int operations(enum operation operation,
							     struct timer *t, uint64_t n,
							     struct rng *r, unsigned other)
{
	int bad = 0;

	(void)other;
	for (uint64_t i = 0; i < TIMES; i++) {
		struct timer *one;

#ifdef HAS_BATCH
		if (operation == BATCH) {
			struct timer *many[BATCH_SIZE];
			uint64_t times[BATCH_SIZE];

			for (unsigned k = 0; k < BATCH_SIZE; k++) {
				many[k] = nth(t, below(r, n));
				times[k] = ticks(r);
			}
			bad |= arm_many(many, times);
			i += BATCH_SIZE - 1;
			continue;
		}
#endif
		one = nth(t, below(r, n));
		switch (operation) {
#ifdef HAS_MESSAGES
		case MESSAGES:
			if (i % 16 == 15)
				bad |= message(other);
			if (i % 1000 == 999)
				bad |= sweep(1);
			bad |= cancel(one);
			bad |= arm(one, ticks(r));
			break;
#endif
		case PAIR:
			bad |= cancel(one);
			bad |= arm(one, ticks(r));
			break;
		case REFRESH:
			bad |= refresh(one);
			if (i % 1000 == 999)
				bad |= sweep(1);
			break;
		default:
			bad |= arm(one, ticks(r));
		}
	}
	return bad;
}

/* Each operation in a loop of its own. */
static int operate(enum operation operation, struct timer *t, uint64_t n, struct rng *r,
		   unsigned other)
{
	switch (operation) {
	case BATCH:
		return operations(BATCH, t, n, r, other);
	case PAIR:
		return operations(PAIR, t, n, r, other);
	case REFRESH:
		return operations(REFRESH, t, n, r, other);
#ifdef HAS_MESSAGES
	case MESSAGES:
		return operations(MESSAGES, t, n, r, other);
#endif
	default:
		return operations(REARM, t, n, r, other);
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
#ifdef WHEEL_EACH
	begin(1, MS);
#endif
#ifdef HAS_MESSAGES
	answer_to(j->number);
#endif
	if (j->operation == REFRESH) {
		t = make(j->n);
		for (uint64_t i = 0; i < j->n; i++)
			bad |= refresh(nth(t, i));
	} else {
		t = armed(j->n, &r);
	}
	wear(t, j->n, j->moves);
	pthread_barrier_wait(j->barrier);
	start = seconds();
	bad |= operate(j->operation, t, j->n, &r, (j->number + 1) % j->threads);
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

#ifndef WHEEL_EACH
	begin(threads, MS);
#endif
	pthread_barrier_init(&barrier, NULL, threads);
	for (unsigned i = 0; i < threads; i++) {
		job[i].operation = operation;
		job[i].number = i;
		job[i].threads = threads;
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
	figure("ns", slowest * 1e9 / ((double)TIMES * threads));
}

/* All timers are armed, and fired tick by tick; again, until enough have fired. */
static void cycle(uint64_t n, uint64_t moves)
{
	uint64_t turns = TIMES / n > 300 ? 300 : TIMES / n < 1 || moves > 0 ? 1 : TIMES / n;
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
	while (fires < TIMES) {
		before = fires;
		bad |= sweep(1);
		for (owed += fires - before; !fifo && owed >= 10; owed -= 10)
			bad |= arm(nth(t, below(&r, n)), ticks(&r));
	}
	figure("ns", (seconds() - start) * 1e9 / (double)fires);
	check(bad);
}

/*
 * Resident bytes for each of n timers, with all that the wheel needs: when they are armed, when
 * the wheel has been driven, and when it has been used.
 */
static void memory(uint64_t n)
{
	struct timer *t = (struct timer *)pages(n * sizeof *t);
	struct rng r = { SEED };
	uint64_t before;
	int bad = 0;

#ifdef HAS_HANDLES
	/* What the caller keeps is no memory of the library's. */
	memset((void *)t, 1, n * sizeof *t);
#endif
	before = resident();
	begin(1, MS);
	armed_in(t, n, &r);
	figure("bytes", (double)(resident() - before) / (double)n);
	/* The first tick, and a minute in which a timer in ten thousand moves at each tick. */
	bad |= sweep(1);
	figure("driven", (double)(resident() - before) / (double)n);
	for (unsigned tick = 0; tick < 60000; tick++) {
		for (uint64_t i = 0; i < n / 10000; i++)
			bad |= arm(nth(t, below(&r, n)), ticks(&r));
		bad |= sweep(1);
	}
	figure("worn", (double)(resident() - before) / (double)n);
	check(bad);
}

static unsigned waiting;

/* A thread that has armed a timer, and stays. */
static void *bystander(void *delay)
{
	struct timer *t = make(1);

	check(arm(nth(t, 0), *(uint64_t *)delay));
	__atomic_fetch_add(&waiting, 1, __ATOMIC_RELEASE);
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
	while (__atomic_load_n(&waiting, __ATOMIC_ACQUIRE) < n)
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

/* To pass nearly all the time that there is, in ticks of a microsecond, with nothing due. */
static void leap(unsigned threads)
{
	struct timer *t;
	double start;

	begin(threads, 1000);
	t = make(1);
	check(arm(nth(t, 0), 1) | sweep(1));
	bystanders(threads - 1, 1);
	check(sweep(1));
	if (fires != threads) {
		fprintf(stderr, "only %" PRIu64 " fired\n", fires);
		exit(1);
	}
	start = seconds();
	check(sweep(UINT64_C(9200000000000000)));
	figure("us", (seconds() - start) * 1e6);
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

/*
 * What timers add to a request of a server. A request arrives for a random one of n
 * connections. The loop knows which when it wakes; then a read and a write touch as much
 * memory as WALK, which "machine touched" measures, and separate the calls on timers: before
 * the write the deadline of the request is armed, behind it cancelled, and the idle timeout
 * moved. A tick passes every RATE requests. Before it measures, time has passed for longer
 * than all timeouts, so that each connection has the timers, entries and leftovers that it
 * has for good. Ticks of the same requests with and without timers alternate; the figure is
 * the difference.
 */
#define RATE 128
#define WALK (32 << 10)
#ifdef SLOW
#define SETTLE (TIMEOUT / 10)
#else
#define SETTLE (TIMEOUT + DEADLINE)
#endif

struct connection {
	/* What the loop and the parser need first, and the timers next to it. */
	uint64_t first[4];
	struct timer timers[TIMERS];
	uint64_t rest[8];
} __attribute__((aligned(64)));

static char *others;
static int ends[2] = { -1, -1 };

/* The first lock that the kernel takes waits for all stores before it. */
static inline void lock_of_the_kernel(void)
{
	static int word;

	__atomic_fetch_add(&word, 1, __ATOMIC_SEQ_CST);
}

/* Nothing of what follows begins before all that precedes has ended. */
static inline void serialise(void)
{
#if defined(__x86_64__)
	__asm__ volatile("mfence; lfence" : : : "memory");
#elif defined(__aarch64__)
	__asm__ volatile("dsb sy; isb" : : : "memory");
#else
	__sync_synchronize();
#endif
}

/* The read of a request or the write of its reply, or half of a walk in its place. */
static __attribute__((noinline)) void system_call(int number)
{
	char text[64] = "";

	if (ends[0] >= 0) {
		if ((number == 0 ? read(ends[0], text, sizeof text) :
				   write(ends[0], text, sizeof text)) != sizeof text)
			exit(1);
		return;
	}
	lock_of_the_kernel();
	for (size_t i = 0; i < WALK / 2; i += 64)
		(void)*(volatile char *)&others[(size_t)number * (WALK / 2) + i];
	serialise();
}

static inline __attribute__((always_inline)) int request(struct connection *c, int walks,
							  int timers)
{
	int bad = 0;

	c->first[0]++;
#if defined(PREFETCH)
	if (timers) {
		prefetch(&c->timers[IDLE]);
		prefetch(&c->timers[REQUEST]);
	}
#endif
	if (walks)
		system_call(0);
	if (timers)
		bad |= deadline(&c->timers[REQUEST]);
	c->rest[0]++;
	if (walks)
		system_call(1);
	if (timers) {
		bad |= cancel(&c->timers[REQUEST]);
		bad |= refresh(&c->timers[IDLE]);
	}
	return bad;
}

/* The requests of a tick. */
static inline __attribute__((always_inline)) int requests_of_a_tick(struct connection *c,
		uint64_t n, struct rng *r, int walks, int timers)
{
	int bad = 0;

	for (int i = 0; i < RATE; i++) {
		char text[64] = "";

		if (walks && ends[1] >= 0 && write(ends[1], text, sizeof text) < 0)
			exit(1);
		bad |= request(&c[below(r, n)], walks, timers);
		if (walks && ends[1] >= 0 && read(ends[1], text, sizeof text) < 0)
			exit(1);
	}
	if (timers)
		bad |= sweep(1);
	return bad;
}

static void requests(uint64_t n, int sockets)
{
	struct connection *c = (struct connection *)pages(n * sizeof *c);
	double start, with = 0, without = 0;
	/* A real read and write take much longer than a walk. */
	const int ticks = TIMES / (sockets ? 4000 : 1000);
	struct rng r = { SEED };
	int bad = 0;

	begin(1, MS);
	repeat = IDLES;
	if (sockets)
		connection_over_loopback(ends);
	others = (char *)pages(WALK);
	memset(others, 1, WALK);
	for (uint64_t i = 0; i < n; i++) {
		check(setup(&c[i].timers[IDLE], 2 * i));
		check(setup(&c[i].timers[REQUEST], 2 * i + 1));
		/* As if it had been silent for a while. */
		check(arm(&c[i].timers[IDLE], 1 + below(&r, TIMEOUT)));
	}
	for (int i = 0; i < SETTLE; i++)
		bad |= requests_of_a_tick(c, n, &r, 0, 1);
	for (int i = 0; i < 2 * ticks; i++) {
		start = seconds();
		if (i % 2) {
			bad |= requests_of_a_tick(c, n, &r, 1, 1);
			with += seconds() - start;
		} else {
			bad |= requests_of_a_tick(c, n, &r, 1, 0);
			without += seconds() - start;
		}
	}
	check(bad);
	figure("timers", (with - without) * 1e9 / (RATE * ticks));
	figure("others", without * 1e9 / (RATE * ticks));
	figure("expired", (double)fires);
}

/*
 * A workload for benches/lines.py, which reads a trace of all accesses to memory:
 * two threads and the one that passes time work in turn, on timers of their own,
 * and each operation is between two stores that the trace shows.
 */
enum { TURN_ARM, TURN_REARM, TURN_CANCEL, TURN_FIRE, TURN_IDLE, TURNS };
enum { LINES_TIMERS = 500, LINES_OPERATIONS = 100, THREADS = 3, END = 63 };

static volatile uint32_t marks[64] __attribute__((aligned(64)));
static sem_t go[THREADS], gone;
static int turn;

static inline void mark(int thread)
{
	marks[turn * THREADS + thread] = 1;
}

static void print_stack(void)
{
	pthread_attr_t attributes;
	size_t size;
	void *low;

	pthread_getattr_np(pthread_self(), &attributes);
	pthread_attr_getstack(&attributes, &low, &size);
	/* And the thread's own variables behind it. */
	printf("stack %p %zu\n", low, size + 65536);
	pthread_attr_destroy(&attributes);
}

static void *in_turn(void *arg)
{
	int thread = (int)(uintptr_t)arg, bad = 0;
	struct rng r = { SEED + (uint64_t)thread };
	struct timer *t = make(LINES_TIMERS);

	print_stack();
	sem_post(&gone);
	for (;;) {
		sem_wait(&go[thread]);
		for (int i = 0; i < (turn == TURN_ARM ? LINES_TIMERS : LINES_OPERATIONS); i++) {
			struct timer *one = nth(t, below(&r, LINES_TIMERS));
			uint64_t delay = ticks(&r);

			switch (turn) {
			case TURN_ARM:
				one = nth(t, (uint64_t)i);
				mark(thread);
				bad |= arm(one, delay);
				break;
			case TURN_REARM:
				mark(thread);
				bad |= arm(one, delay);
				break;
			case TURN_CANCEL:
				mark(thread);
				bad |= cancel(one);
				break;
			}
			marks[END] = 1;
		}
		check(bad);
		sem_post(&gone);
	}
	return NULL;
}

static void run_turn(int thread, int which)
{
	turn = which;
	sem_post(&go[thread]);
	sem_wait(&gone);
}

static void lines(void)
{
	uint64_t before = 0;
	pthread_t id;

	/* A trace is long. */
	longest = 2000;
	/* The trace shows it where it happened. */
	setvbuf(stdout, NULL, _IOLBF, 0);
	begin(2, MS);
	printf("marks %p\n", (void *)(uintptr_t)marks);
	print_stack();
	sem_init(&gone, 0, 0);
	for (int i = 0; i < 2; i++) {
		sem_init(&go[i], 0, 0);
		start_thread(&id, in_turn, (void *)(uintptr_t)i);
		sem_wait(&gone);
	}
	/* The first round is a rehearsal, which maps memory; then all before is void. */
	for (int round = 0; round < 2; round++) {
		for (int which = TURN_ARM; which <= TURN_CANCEL; which++)
			for (int i = 0; i < 2; i++)
				run_turn(i, which);
		before = fires;
		turn = TURN_FIRE;
		for (uint64_t i = 0; i < longest; i += 10) {
			mark(2);
			check(sweep(10));
			marks[END] = 1;
		}
		if (round == 0)
			marks[END - 1] = 1;
	}
	before = fires - before;
	turn = TURN_IDLE;
	for (int i = 0; i < LINES_OPERATIONS; i++) {
		mark(2);
		check(sweep(1));
		marks[END] = 1;
	}
	printf("fired %" PRIu64 "\n", before);
}

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
#ifdef HAS_MESSAGES
	/* As pair, and every sixteenth operation sends another thread's wheel a message. */
	else if (strcmp(what, "messages") == 0)
		churn(MESSAGES, n, threads, moves);
#endif
	else if (strcmp(what, "refresh") == 0)
		churn(REFRESH, n, threads, moves);
	else if (strcmp(what, "cycle") == 0)
		cycle(n, moves);
	else if (strcmp(what, "heartbeat") == 0)
		heartbeat(n, moves, 0);
	else if (strcmp(what, "fifo") == 0)
		heartbeat(n, moves, 1);
	else if (strcmp(what, "request") == 0)
		requests(n, 0);
	else if (strcmp(what, "request-socket") == 0)
		requests(n, 1);
#ifdef HAS_CLOCK
	else if (strcmp(what, "lateness") == 0)
		lateness(0, n);
	else if (strcmp(what, "lateness-thread") == 0)
		lateness(1, n);
#endif
	else if (strcmp(what, "memory") == 0)
		memory(n);
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
