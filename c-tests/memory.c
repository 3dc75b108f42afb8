/*
 * The books of memory. Entries, notes and resident memory follow the number of live
 * timers and threads, whatever the pattern of calls, and whether or not anybody drives.
 */
#include <malloc.h>
#include <poll.h>
#include <sys/mman.h>
#include "child.h"

static uint64_t resident(void)
{
	return ktap_memory(KTAP_RESIDENT);
}

/*
 * What the wheel's books may show for a number of timers that were live at once. A thread
 * has up to two runs of 64 records at hand. A timer has one note at most, or one of each
 * thread if several threads arm it at the same time. A thread has three chunks of notes that
 * are not full.
 */
static void check_books(struct hwheel *w, uint64_t timers, uint64_t threads)
{
	const uint64_t record = 48, run = 64, notes = 63, chunk = 256;
	struct hwheel_stats s = stats(w);

	CHECK(s.entries <= s.live);
	CHECK(s.live <= timers);
	CHECK(s.slab_bytes <= record * (timers + 2 * run * (threads + 1)));
	CHECK(s.note_bytes <= chunk * (timers * threads / notes + 3 * threads + 1));
}

/* A wheel with some timers, and its driver. */
enum { TIMERS = 1000 };
static struct hwheel *wheel;
static hwheel_timer_t timers[TIMERS];
static uint64_t due[TIMERS], now, tick, dice;

enum driver { NOBODY, FRAMES, STANDS, READABLE, EXPIRIES, TICK_THREAD, DRIVERS };
static const char *const driver_names[] = {
	"nobody", "frames", "clock stands", "descriptor", "next expiry", "tick thread",
};

static uint64_t roll(void)
{
	return ktap_dice(&dice) >> 3;
}

static void arm(unsigned i, uint64_t at)
{
	due[i] = at;
	CHECK(hwheel_timer_mod(wheel, timers[i], at, HWHEEL_ABS) >= 0);
}

/* Re-arms at random: what most timeouts of a server do. */
static void at_random(uint64_t n)
{
	arm(roll() % TIMERS, now + (1000 + roll() % 60000) * tick);
}

/* The worst for a wheel that keeps an entry for each arm. */
static void ever_earlier(uint64_t n)
{
	unsigned i = n % TIMERS;

	arm(i, due[i] > now + 1000 * tick ? due[i] - tick : now + 500000 * tick);
}

static void ever_later(uint64_t n)
{
	arm(n % TIMERS, now + (100000 + n / TIMERS) * tick);
}

/* One deadline for all. */
static void armed_and_cancelled(uint64_t n)
{
	arm(n % TIMERS, (now / (300000 * tick) + 2) * 300000 * tick);
	CHECK_EQ(hwheel_timer_delete(wheel, timers[n % TIMERS]), 1);
}

/* A long timeout that becomes a short one, and then never comes. */
static void shortened_and_freed(uint64_t n)
{
	unsigned i = n % TIMERS;

	arm(i, now + 1000000 * tick);
	arm(i, now + 5 * tick);
	CHECK(hwheel_timer_free(wheel, timers[i]) >= 0);
	CHECK_EQ(hwheel_timer_setup(wheel, NULL, i, &timers[i]), 0);
}

/* A timer for each request, cancelled long before it is due. */
static void made_and_cancelled(uint64_t n)
{
	hwheel_timer_t *t = &timers[n % TIMERS];
	int freed = hwheel_timer_free(wheel, *t);

	CHECK(freed >= 0 || freed == -ESTALE);
	CHECK_EQ(hwheel_once(wheel, 1000000 * tick, NULL, n, 0, t), 0);
}

static void never_and_back(uint64_t n)
{
	unsigned i = n % TIMERS;

	arm(i, now + (400000 - n % 300000) * tick);
	arm(i, HWHEEL_NEVER);
}

/* Soon enough that most of them fire. */
static void soon(uint64_t n)
{
	arm(n % TIMERS, now + (1 + roll() % 20) * tick);
}

static void (*const patterns[])(uint64_t n) = {
	at_random, ever_earlier, ever_later, armed_and_cancelled, shortened_and_freed,
	made_and_cancelled, never_and_back, soon,
};

static void drive(enum driver driver)
{
	struct pollfd readable = { .events = POLLIN };

	if (driver >= READABLE)
		now = ktap_now(wheel);
	else if (driver == FRAMES)
		now += 16 * tick;
	if (driver == READABLE)
		readable.fd = hwheel_fd(wheel);
	if (driver == FRAMES || driver == STANDS)
		CHECK_EQ(hwheel_advance(wheel, now, NULL, 0, NULL), 0);
	else if ((driver == READABLE && poll(&readable, 1, 0) == 1) ||
		 (driver == EXPIRIES && ktap_next(wheel) <= now))
		CHECK_EQ(hwheel_poll(wheel, NULL, 0, NULL), 0);
}

static void a_load(size_t pattern, enum driver driver, uint64_t tick_ns)
{
	const uint64_t calls = 100000, of_a_frame = 500;
	uint64_t before = 0;

	wheel = MADE(.tick_ns = tick_ns, .clock = driver <= STANDS ? HWHEEL_CLOCK_MANUAL : 0);
	if (driver == TICK_THREAD)
		CHECK_EQ(hwheel_start(wheel), 0);
	now = ktap_now(wheel);
	tick = tick_ns;
	dice = 88172645463325252u;
	for (unsigned i = 0; i < TIMERS; i++) {
		timers[i] = ktap_timer(wheel);
		due[i] = 0;
	}
	for (uint64_t n = 0; n < calls; n++) {
		patterns[pattern](n);
		if (n % of_a_frame == 0) {
			drive(driver);
			check_books(wheel, TIMERS, 1);
		}
		if (n == calls / 5)
			before = resident();
	}
	if (resident() > before + (256 << 10)) {
		printf("# %s, pattern %zu, ticks of %" PRIu64 " ns: %" PRIu64 " kB more\n",
		       driver_names[driver], pattern, tick_ns, (resident() - before) >> 10);
		CHECK(!"memory follows the number of calls");
	}
	CHECK_EQ(hwheel_destroy(wheel), 0);
}

TEST(memory_follows_the_timers_whatever_the_calls_and_the_driver)
{
	static const uint64_t ticks[] = { 1000, MS, 100 * MS, 3600 * SEC };

	for (size_t p = 0; p < COUNT(patterns); p++)
		for (int driver = 0; driver < DRIVERS; driver++)
			for (size_t t = 0; t < COUNT(ticks); t++)
				a_load(p, (enum driver)driver, ticks[t]);
}

/* Many calls: ten million arms, each shorter than the last one of its timer. */
MANUAL_TEST(ten_million_ever_shorter_arms_stay_bounded)
{
	hwheel_timer_t t[10];
	uint64_t before = 0;

	for (int i = 0; i < 10; i++)
		t[i] = ktap_timer(w);
	for (uint64_t i = 0; i < 10000000; i++) {
		uint64_t delay = 1000000 - i / 10 % 1000000;

		CHECK(hwheel_timer_mod(w, t[i % 10], delay * MS, HWHEEL_ABS) >= 0);
		if (i % 10000 == 0)
			check_books(w, 10, 1);
		if (i % 1000 == 0)
			CHECK(hwheel_advance(w, 0, NULL, 0, NULL) >= 0);
		if (i == 1000000)
			before = resident();
	}
	CHECK(resident() <= before + (64 << 10));
}

/* None that lives is lost when its entry moves, and each fires at its tick. */
WHEEL_TEST(each_fires_at_its_tick_however_often_it_moves, ktap_manual(0, 2, 16, 0))
{
	enum { N = 20000 };
	static hwheel_timer_t t[N];
	static uint64_t at[N];
	static struct hwheel_event e[N];
	uint64_t x = 1, fired = 0;

	for (int i = 0; i < N; i++) {
		CHECK_EQ(hwheel_timer_setup(w, NULL, (uint64_t)i, &t[i]), 0);
		at[i] = 100000;
		CHECK_EQ(hwheel_timer_mod(w, t[i], at[i] * MS, HWHEEL_ABS), 0);
	}
	for (uint64_t ms = 1; ms <= 60000; ms++) {
		for (int j = 0; j < 20; j++) {
			x = x * 6364136223846793005u + 1442695040888963407u;
			uint64_t i = (x >> 33) % N;

			if (at[i] <= ms + 1)
				continue;
			at[i] -= (at[i] - ms) / 2;
			CHECK_EQ(hwheel_timer_mod(w, t[i], at[i] * MS, HWHEEL_ABS), 1);
		}
		int n = hwheel_advance(w, ms * MS, e, N, NULL);

		CHECK(n >= 0);
		for (int j = 0; j < n; j++) {
			CHECK_EQ(at[e[j].cookie], ms);
			at[e[j].cookie] = 0;
			fired++;
		}
	}
	for (int i = 0; i < N; i++)
		CHECK(at[i] == 0 || at[i] > 60000);
	CHECK_EQ(stats(w).fired, fired);
	/* each pending timer has exactly its one entry */
	CHECK_EQ(stats(w).entries, stats(w).pending);
	check_books(w, N, 1);
}

/* Many arms for one tick, of timers that are armed or cancelled in between. */
static void one_deadline_again(uint64_t tick_ns, int cancelled)
{
	WHEEL w = ktap_manual(tick_ns, 0, 0, 0);
	hwheel_timer_t t[10];
	struct hwheel_event e[11];
	uint64_t at = 123456789 * tick_ns;

	for (int i = 0; i < 10; i++)
		t[i] = ktap_timer(w);
	for (uint64_t i = 0; i < 500000; i++) {
		CHECK(hwheel_timer_mod(w, t[i % 10], at, HWHEEL_ABS) >= 0);
		if (cancelled)
			CHECK_EQ(hwheel_timer_delete(w, t[i % 10]), 1);
		if (i % 1000 == 0) {
			check_books(w, 10, 1);
			CHECK_EQ(hwheel_advance(w, i / 1000 * tick_ns, NULL, 0, NULL), 0);
		}
	}
	for (int i = 0; i < 10; i++)
		CHECK_EQ(hwheel_timer_mod(w, t[i], at, HWHEEL_ABS), !cancelled);
	CHECK_EQ(hwheel_advance(w, at - tick_ns, e, 11, NULL), 0);
	CHECK_EQ(hwheel_advance(w, at, e, 11, NULL), 10);
	CHECK_EQ(stats(w).entries, 0);
}

TEST(arms_for_one_tick_stay_bounded)
{
	static const uint64_t ticks[] = { 1000, 4095, 1000000 };

	for (size_t i = 0; i < COUNT(ticks); i++) {
		one_deadline_again(ticks[i], 0);
		one_deadline_again(ticks[i], 1);
	}
}

/* The note for the first arm is there already, so later arms wake nobody and write none. */
TEST(arms_to_later_wake_nobody)
{
	struct hwheel_options o = { .size = sizeof o, .tick_ns = 3600 * SEC };
	struct hwheel_stats before;
	WHEEL w = ktap_started(&o);
	hwheel_timer_t t[10];

	for (uint64_t i = 0; i < 10; i++) {
		t[i] = ktap_timer(w);
		for (uint64_t tick = 100000; tick > 50000; tick -= 100)
			CHECK(hwheel_timer_mod(w, t[i], tick * o.tick_ns, 0) >= 0);
	}
	ktap_sleep_ms(50);
	before = stats(w);
	for (uint64_t i = 0; i < 5000; i++) {
		CHECK_EQ(hwheel_timer_mod(w, t[i % 10], (100000 + i) * o.tick_ns, 0), 1);
		if (i % 100 == 0)
			ktap_sleep_ms(1);
	}
	CHECK_EQ(stats(w).kicks, before.kicks);
	CHECK_EQ(stats(w).wakeups, before.wakeups);
	CHECK_EQ(stats(w).notes, before.notes);
	check_books(w, 10, 1);
}

/* One timer whose periods are far behind, in a queue: the end of each callback asks again. */
TEST(a_burst_that_is_far_behind_has_one_entry)
{
	WHEEL w = MADE(.clock = HWHEEL_CLOCK_MANUAL, .executor = ktap_no_executor, .queue = 4);

	CHECK_EQ(hwheel_every(w, MS, MS, 0, ktap_nothing, 0, HWHEEL_MISSED_BURST, NULL), 0);
	for (int i = 0; i < 100000; i++) {
		CHECK_EQ(hwheel_advance(w, 200000 * MS, NULL, 0, NULL), 0);
		CHECK_EQ(hwheel_run_queued(w), 1);
		if (i % 512 == 0)
			check_books(w, 1, 1);
	}
}

static void run_at_once(struct hwheel *w, void *arg)
{
	CHECK(hwheel_run_queued(w) >= 0);
}

/* The periods of a burst whose callbacks all end within one call: one note serves all ends. */
TEST(a_burst_whose_callbacks_end_at_once_has_one_note)
{
	WHEEL w = MADE(.clock = HWHEEL_CLOCK_MANUAL, .executor = run_at_once, .queue = 4);

	CHECK_EQ(hwheel_every(w, MS, MS, 0, ktap_nothing, 0, HWHEEL_MISSED_BURST, NULL), 0);
	CHECK_EQ(hwheel_advance(w, 100000 * MS, NULL, 0, NULL), 0);
	CHECK_EQ(stats(w).fired, 100000);
	check_books(w, 1, 1);
}

/* Threads, each with its own timer, which is armed again at each tick. */
enum { CROWD = 16, STEPS = 3000 };
static pthread_barrier_t go, gone;

static void *one_timer_each(void *unused)
{
	hwheel_timer_t t = ktap_timer(wheel);

	for (int i = 0; i < STEPS; i++) {
		pthread_barrier_wait(&go);
		CHECK(hwheel_timer_mod(wheel, t, MS + (i % 3 == 0 ? 70 * SEC : 0), 0) >= 0);
		pthread_barrier_wait(&gone);
	}
	return unused;
}

/* With any number of slots. The threads had an entry in each slot. */
WHEEL_TEST(threads_take_no_memory_for_each_slot, wheel = ktap_manual(MS, 1, 65536, 0))
{
	pthread_t threads[CROWD];
	uint64_t before = 0;

	CHECK_EQ(pthread_barrier_init(&go, NULL, CROWD + 1), 0);
	CHECK_EQ(pthread_barrier_init(&gone, NULL, CROWD + 1), 0);
	ktap_begin(threads, CROWD, one_timer_each, NULL);
	for (int i = 0; i < STEPS; i++) {
		pthread_barrier_wait(&go);
		pthread_barrier_wait(&gone);
		CHECK_EQ(hwheel_advance(wheel, ktap_now(wheel) + 20 * MS, NULL, 0, NULL), 0);
		check_books(wheel, CROWD, CROWD + 1);
		if (i == STEPS / 10)
			before = resident();
	}
	/* the buckets themselves are 80 bytes each */
	CHECK(resident() <= before + 65536 * 80 + (64 << 10));
	ktap_end(threads, CROWD);
	pthread_barrier_destroy(&go);
	pthread_barrier_destroy(&gone);
}

/* Threads that all arm, cancel and free the same timers. */
enum { SHARED = 64 };
static _Atomic hwheel_timer_t shared[SHARED];
static atomic_int over;

static void *share(void *seed)
{
	uint64_t x = (uintptr_t)seed;

	for (int i = 0; i < 150000; i++) {
		ktap_dice(&x);
		hwheel_timer_t t = atomic_load(&shared[(x >> 20) % SHARED]);
		int r = hwheel_timer_mod(wheel, t, ((x >> 30) % 1000) * MS, 0);

		CHECK(r >= 0 || r == -ESTALE);
		if (i % 3 == 0)
			hwheel_timer_delete(wheel, t);
		if (i % 64 == 0 && hwheel_timer_free(wheel, t) >= 0)
			atomic_store(&shared[(x >> 20) % SHARED], ktap_timer(wheel));
	}
	atomic_fetch_add(&over, 1);
	return NULL;
}

static void threads_that_share_timers(int is_driven)
{
	enum { THREADS = 4 };
	pthread_t threads[THREADS];

	wheel = ktap_manual(MS, 0, 0, 0);
	over = 0;
	for (int i = 0; i < SHARED; i++)
		atomic_store(&shared[i], ktap_timer(wheel));
	for (uintptr_t i = 0; i < THREADS; i++)
		CHECK_EQ(pthread_create(&threads[i], NULL, share, (void *)(i + 1)), 0);
	while (atomic_load(&over) < THREADS) {
		struct hwheel_stats s = stats(wheel);

		if (is_driven)
			CHECK_EQ(hwheel_advance(wheel, ktap_now(wheel) + MS, NULL, 0, NULL), 0);
		CHECK(s.note_bytes <= 256 * (SHARED * THREADS / 63 + 3 * THREADS + 4));
	}
	ktap_end(threads, THREADS);
	check_books(wheel, SHARED + THREADS, THREADS + 1);
	CHECK_EQ(hwheel_advance(wheel, ktap_now(wheel) + 2 * SEC, NULL, 0, NULL), 0);
	CHECK_EQ(stats(wheel).pending, 0);
	CHECK_EQ(hwheel_destroy(wheel), 0);
}

TEST(threads_that_share_timers_stay_bounded)
{
	threads_that_share_timers(0);
	threads_that_share_timers(1);
}

static void *arm_and_end(void *unused)
{
	CHECK_EQ(hwheel_timer_free(wheel, ktap_armed(wheel, NULL, 0, SEC)), 1);
	return unused;
}

/* A thread leaves its number, its inbox and its free records to the next one. */
WHEEL_TEST(threads_that_come_and_go_leave_nothing, wheel = ktap_manual(MS, 0, 0, 0))
{
	uint64_t before = 0;

	if (KTAP_EMULATED)
		SKIP("the process includes the memory of the emulator");
	for (int i = 0; i < 3000; i++) {
		ktap_in_a_thread(arm_and_end, NULL);
		check_books(wheel, 2, 2);
		if (i == 300)
			before = resident();
	}
	CHECK(resident() <= before + (64 << 10));
}

enum { MANY = 4096 };
static _Atomic hwheel_timer_t many[MANY];

/* Makes missing timers, or frees timers, at random. An odd number makes. */
static void *make_or_free(void *number)
{
	uint64_t x = (uintptr_t)number;
	int makes = x % 2 == 1;

	while (!atomic_load(&over)) {
		_Atomic hwheel_timer_t *at = &many[ktap_dice(&x) % MANY];
		hwheel_timer_t none = 0, t;

		if (!makes) {
			t = atomic_exchange(at, 0);
			if (t != 0)
				CHECK_EQ(hwheel_timer_free(wheel, t), 0);
		} else if (atomic_load(at) == 0) {
			t = ktap_timer(wheel);
			if (!atomic_compare_exchange_strong(at, &none, t))
				CHECK_EQ(hwheel_timer_free(wheel, t), 0);
		}
	}
	return NULL;
}

/* The records that some threads free serve the threads that make timers. */
WHEEL_TEST(threads_that_only_make_or_only_free_stay_bounded, wheel = ktap_manual(MS, 0, 0, 0))
{
	enum { THREADS = 8 };
	pthread_t threads[THREADS];

	over = 0;
	for (uintptr_t i = 0; i < THREADS; i++)
		CHECK_EQ(pthread_create(&threads[i], NULL, make_or_free, (void *)(i + 1)), 0);
	for (int i = 0; i < 200; i++) {
		ktap_sleep_ms(10);
		check_books(wheel, MANY + THREADS, THREADS);
	}
	atomic_store(&over, 1);
	ktap_end(threads, THREADS);
	check_books(wheel, MANY, THREADS);
}

#if __GLIBC_PREREQ(2, 33)
/* The memory that the allocator has given out. */
static uint64_t heap(void)
{
	struct mallinfo2 m = mallinfo2();

	return m.uordblks + m.hblkhd;
}
#endif

/* Of many keys few are left, whether the others were deleted or have fired, also of long ones. */
TEST(keys_that_are_gone_take_no_memory)
{
#if __GLIBC_PREREQ(2, 33)
	enum { KEYS = 200000, ONE_OF = 500, LEFT = KEYS / ONE_OF };

	for (int way = 0; way < 4; way++) {
		const int fire = way % 2;
		const uint32_t length = way < 2 ? sizeof(uint64_t) : 200;
		WHEEL w = ktap_manual(0, 0, 0, 0);
		uint64_t before = heap(), key[25] = { 0 };

		for (int round = 0; round < 2; round++) {
			for (key[0] = 0; key[0] < KEYS; key[0]++)
				CHECK(hwheel_key_set(w, key, length, (key[0] % ONE_OF ? 1 : 100) * SEC,
						     ktap_nothing, 0, 0) >= 0);
			CHECK(heap() - before > KEYS * (40 + length));
			if (fire)
				CHECK_EQ(hwheel_advance(w, ktap_now(w) + 2 * SEC, NULL, 0, NULL), 0);
			for (key[0] = 0; key[0] < KEYS && !fire; key[0]++)
				if (key[0] % ONE_OF)
					CHECK_EQ(hwheel_key_delete(w, key, length), 1);
			/* 64 tables, each with room for some keys */
			CHECK(heap() - before < 64 * 16 * 80 + LEFT * (640 + length));
			CHECK_EQ(stats(w).live, LEFT);
			for (key[0] = 0; key[0] < KEYS; key[0]++)
				CHECK_EQ(hwheel_key_pending(w, key, length), key[0] % ONE_OF == 0);
		}
		for (key[0] = 0; key[0] < KEYS; key[0] += ONE_OF)
			CHECK_EQ(hwheel_key_delete(w, key, length), 1);
		CHECK_EQ(stats(w).live, 0);
	}
#else
	SKIP("the C library does not say what its allocator has given out");
#endif
}

/* With one timer each, which one thread arms in turn. */
TEST(a_wheel_takes_little_memory)
{
	enum { WHEELS = 500, KB = 1024 };
	static struct hwheel *w[WHEELS];
	static hwheel_timer_t t[WHEELS];
	uint64_t before = resident(), grown;

	if (KTAP_EMULATED)
		SKIP("the process includes the memory of the emulator");
	for (int i = 0; i < WHEELS; i++) {
		w[i] = ktap_manual(0, 0, 0, 0);
		t[i] = ktap_timer(w[i]);
	}
	for (uint64_t round = 1; round < 20; round++)
		for (int i = 0; i < WHEELS; i++) {
			CHECK(hwheel_timer_mod(w[i], t[i], (round * 7919 % 300 + 1) * SEC, 0) >= 0);
			CHECK_EQ(hwheel_advance(w[i], round * MS, NULL, 0, NULL), 0);
			check_books(w[i], 1, 1);
		}
	grown = resident() - before;
	printf("# %" PRIu64 " kB for each of %d wheels\n", grown / WHEELS / KB, WHEELS);
	CHECK(grown <= WHEELS * 100 * KB);
	for (int i = 0; i < WHEELS; i++)
		CHECK_EQ(hwheel_destroy(w[i]), 0);
}

/* A program that locks its memory pays at the first timer, and not later. */
static void locked(void)
{
	uint64_t first, before;
	hwheel_timer_t t;

	if (mlockall(MCL_CURRENT | MCL_FUTURE) != 0)
		_exit(4);
	before = resident();
	WHEEL w = ktap_made(NULL);
	t = ktap_armed(w, NULL, 0, SEC);
	first = resident();
	printf("# locked: %" PRIu64 " kB for a wheel with one timer\n", (first - before) >> 10);
	CHECK(first - before <= 32 << 20);
	for (int i = 0; i < 100000; i++)
		CHECK_EQ(hwheel_timer_mod(w, t, (uint64_t)(100000 - i) * SEC, 0), 1);
	CHECK_EQ(hwheel_poll(w, NULL, 0, NULL), 0);
	CHECK(resident() <= first + (64 << 10));
}

TEST(memory_that_is_locked)
{
	int status = status_of(start_child(locked));

	if (WIFEXITED(status) && WEXITSTATUS(status) == 4)
		SKIP("mlockall() is refused");
	CHECK_EQ(status, 0);
}
