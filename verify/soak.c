/*
 * 64 threads on three wheels, for any time: one wheel has a tick thread,
 * one a descriptor and a wall clock that is set back and forth, one workers. The wheels
 * are made and destroyed, started and stopped while they are used, and processes are
 * forked. At the end of each life the books balance: every arm has ended once. All the time
 * the memory of each wheel is below what its timers and threads need.
 *
 *	soak [seconds]
 */
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>
#include "verify.h"

enum {
	THREADS = 64, WHEELS = 3, USERS = THREADS - 4, OWN = 4, SHARED = 8,
	LIFE_MS = 3000, WAITED = 30
};
enum { TICKING, POLLED, WORKING };

/* A timer of one user. */
struct own {
	hwheel_timer_t timer;
	uint64_t armed, cancelled;
	atomic_ullong fired, drained;
};

struct life {
	struct hwheel *wheel;
	struct own own[USERS][OWN];
	hwheel_timer_t shared[SHARED];
	/* of timers that free themselves, and of keys; and the most that there were */
	atomic_ullong armed, fired, cancelled, drained, peak;
};

static struct life lives[WHEELS];
static atomic_int over;
static atomic_ullong calls, forks, steps, starts, refusals, generations;
static atomic_llong offset_ns;

/* The wall clock of the library: the kernel's, and what it was set by. */
int clock_gettime(clockid_t clock, struct timespec *t)
{
	int r = (int)syscall(SYS_clock_gettime, clock, t);

	if (r == 0 && clock == CLOCK_REALTIME) {
		long long ns = t->tv_sec * 1000000000ll + t->tv_nsec + atomic_load(&offset_ns);

		t->tv_sec = ns / 1000000000;
		t->tv_nsec = ns % 1000000000;
	}
	return r;
}

static uint64_t now_ms(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000 + (uint64_t)t.tv_nsec / 1000000;
}

static void nap_ms(unsigned ms)
{
	struct timespec t = { ms / 1000, (long)(ms % 1000) * 1000000 };

	nanosleep(&t, NULL);
}

static unsigned roll(unsigned *seed, unsigned below)
{
	return (unsigned)rand_r(seed) % below;
}

static struct life *life_of(const struct hwheel *w)
{
	for (int i = 0; i < WHEELS; i++)
		if (lives[i].wheel == w)
			return &lives[i];
	abort();
}

/* A cookie is an own timer, or 0 for one that frees itself, or WAITED. */
static void ended(struct life *life, const struct hwheel_event *e)
{
	struct own *own = (struct own *)(uintptr_t)e->cookie;
	int drained = (e->flags & HWHEEL_EVENT_DRAINED) != 0;

	if (e->cookie == WAITED)
		return;
	if (e->cookie == 0)
		atomic_fetch_add(drained ? &life->drained : &life->fired, 1);
	else
		atomic_fetch_add(drained ? &own->drained : &own->fired, 1);
}

static void callback(struct hwheel *w, const struct hwheel_event *e)
{
	struct life *life = life_of(w);
	unsigned seed = (unsigned)(uintptr_t)e ^ (unsigned)atomic_load(&calls);
	uint64_t at;
	int r;

	switch (roll(&seed, 64)) {
	case 0:
		nap_ms(1);
		break;
	case 1:
		MUST(hwheel_stop(w) == -EDEADLK);
		MUST(hwheel_destroy(w) == -EDEADLK);
		MUST(hwheel_poll(w, NULL, 0, NULL) == -EBUSY);
		break;
	case 2:
		MUST(hwheel_next_expiry(w, &at) >= 0);
		break;
	case 3:
	case 4:
		r = hwheel_timer_delete_sync(w, life->shared[roll(&seed, SHARED)]);
		MUST(r == 0 || r == 1 || r == -EDEADLK);
		break;
	case 5:
		r = hwheel_timer_mod(w, life->shared[roll(&seed, SHARED)], roll(&seed, 5) * MS, 0);
		MUST(r == 0 || r == 1);
		break;
	}
	ended(life, e);
}

static void make(int i)
{
	struct hwheel_options o = { .size = sizeof o };
	struct life *life = &lives[i];
	unsigned seed = (unsigned)atomic_load(&generations);

	memset(life, 0, sizeof *life);
	if (i == POLLED)
		o.clock = HWHEEL_CLOCK_REALTIME;
	if (i == WORKING) {
		o.workers = 1 + roll(&seed, 4);
		o.queue = 1u << roll(&seed, 7);
	}
	MUST(hwheel_create(&o, &life->wheel) == 0);
	for (int u = 0; u < USERS; u++)
		for (int n = 0; n < OWN; n++)
			MUST(hwheel_timer_setup(life->wheel, i == POLLED && n % 2 ? NULL : callback,
					  (uintptr_t)&life->own[u][n],
					  &life->own[u][n].timer) == 0);
	for (int n = 0; n < SHARED; n++)
		MUST(hwheel_timer_setup(life->wheel, callback, WAITED, &life->shared[n]) == 0);
}

static uint64_t sum(atomic_ullong *a)
{
	return atomic_load(a);
}

/* One more that frees itself. What has ended is read first, so the peak is no less. */
static void opens(struct life *life)
{
	uint64_t ended = sum(&life->fired) + sum(&life->cancelled) + sum(&life->drained);
	unsigned long long open = atomic_fetch_add(&life->armed, 1) + 1 - ended;
	unsigned long long peak = atomic_load(&life->peak);

	while (peak < open && !atomic_compare_exchange_weak(&life->peak, &peak, open))
		;
}

/* A key or a callback may have another timer for a moment. */
static void check_memory(struct life *life)
{
	check_books(life->wheel, sum(&life->peak) + USERS * OWN + SHARED + 2 * THREADS,
		    THREADS + 8);
}

/* Nobody uses it any more. */
static void end(int i)
{
	struct life *life = &lives[i];
	struct hwheel_event events[64];
	int n;

	MUST(hwheel_stop(life->wheel) == 0);
	do {
		n = hwheel_drain(life->wheel, events, 64);
		MUST(n >= 0);
		for (int e = 0; e < n; e++)
			ended(life, &events[e]);
	} while (n == 64);
	MUST(hwheel_stop(life->wheel) == 0);
	for (int u = 0; u < USERS; u++)
		for (int t = 0; t < OWN; t++) {
			struct own *own = &life->own[u][t];

			MUST(own->armed == own->cancelled + sum(&own->fired) + sum(&own->drained));
		}
	MUST(sum(&life->armed) == sum(&life->cancelled) + sum(&life->fired) + sum(&life->drained));
	MUST(hwheel_destroy(life->wheel) == 0);
}

static void use_own(struct life *life, struct own *own, unsigned *seed)
{
	uint64_t delay = roll(seed, 20) * MS / 2;
	uint64_t open;
	int r;

	switch (roll(seed, 5)) {
	case 0:
		r = hwheel_timer_delete(life->wheel, own->timer);
		MUST(r == 0 || r == 1);
		own->cancelled += (unsigned)r;
		break;
	case 1:
		r = hwheel_timer_delete_sync(life->wheel, own->timer);
		MUST(r == 0 || r == 1);
		/* Nothing runs: what has not ended was cancelled now. An event is
		 * counted when its array is read. */
		if ((own - &life->own[0][0]) % OWN % 2 == 0 || life != &lives[POLLED]) {
			open = own->armed - own->cancelled - sum(&own->fired);
			MUST((open != 0) == r);
			own->cancelled += open;
		} else {
			own->cancelled += (unsigned)r;
		}
		break;
	case 2:
		r = hwheel_timer_mod_range(life->wheel, own->timer, delay, delay, 0);
		MUST(r == 0 || r == 1);
		own->armed += r == 0;
		break;
	default:
		r = hwheel_timer_mod(life->wheel, own->timer, delay, 0);
		MUST(r == 0 || r == 1);
		own->armed += r == 0;
	}
}

static void use_any(struct life *life, unsigned *seed)
{
	uint64_t delay = roll(seed, 20) * MS / 2, id = roll(seed, 100), at;
	hwheel_timer_t t;
	int r;

	switch (roll(seed, 8)) {
	case 0:
	case 1:
		opens(life);
		MUST(hwheel_once(life->wheel, delay, callback, 0, 0, &t) == 0);
		if (roll(seed, 2))
			break;
		r = hwheel_timer_delete(life->wheel, t);
		MUST(r == 0 || r == 1 || r == -ESTALE);
		atomic_fetch_add(&life->cancelled, r == 1);
		break;
	case 2:
	case 3:
		opens(life);
		r = hwheel_key_set(life->wheel, &(uint64_t){ id }, sizeof(uint64_t), delay, callback, 0, 0);
		MUST(r == 0 || r == 1);
		atomic_fetch_add(&life->cancelled, (unsigned)r);
		break;
	case 4:
		r = hwheel_key_delete(life->wheel, &(uint64_t){ id }, sizeof(uint64_t));
		MUST(r == 0 || r == 1);
		atomic_fetch_add(&life->cancelled, (unsigned)r);
		break;
	case 5:
		MUST(hwheel_next_expiry(life->wheel, &at) >= 0);
		break;
	case 6:
		r = hwheel_timer_mod(life->wheel, life->shared[roll(seed, SHARED)], delay, 0);
		MUST(r == 0 || r == 1);
		break;
	case 7:
		r = hwheel_timer_delete_sync(life->wheel, life->shared[roll(seed, SHARED)]);
		MUST(r == 0 || r == 1);
		break;
	}
}

static void *user(void *arg)
{
	unsigned u = (unsigned)(uintptr_t)arg, seed = u + 1000 * (unsigned)generations;

	while (!atomic_load(&over)) {
		struct life *life = &lives[roll(&seed, WHEELS)];

		if (roll(&seed, 2))
			use_own(life, &life->own[u][roll(&seed, OWN)], &seed);
		else
			use_any(life, &seed);
		atomic_fetch_add(&calls, 1);
		if (roll(&seed, 16) == 0)
			nap_ms(roll(&seed, 3));
	}
	return NULL;
}

/* The only one that drives its wheel. */
static void *poller(void *arg)
{
	struct life *life = &lives[POLLED];
	struct hwheel_event events[16];
	struct pollfd p = { .events = POLLIN };

	p.fd = hwheel_fd(life->wheel);
	MUST(p.fd >= 0);
	while (!atomic_load(&over)) {
		int n;

		poll(&p, 1, 5);
		n = hwheel_poll(life->wheel, events, 16, NULL);
		/* Queries do not disturb it. */
		MUST(n >= 0);
		for (int i = 0; i < n; i++)
			ended(life, &events[i]);
	}
	return arg;
}

static void *starter(void *arg)
{
	unsigned seed = (unsigned)generations;

	while (!atomic_load(&over)) {
		struct hwheel *w = lives[roll(&seed, 2) ? TICKING : WORKING].wheel;
		int r = roll(&seed, 3) ? hwheel_start(w) : hwheel_stop(w);

		MUST(r == 0 || r == -EBUSY);
		atomic_fetch_add(r == 0 ? &starts : &refusals, 1);
		nap_ms(roll(&seed, 20));
	}
	return arg;
}

static void *setter(void *arg)
{
	unsigned seed = 7 * (unsigned)generations;

	while (!atomic_load(&over)) {
		atomic_store(&offset_ns, ((long long)roll(&seed, 4000) - 2000) * 1000000);
		atomic_fetch_add(&steps, 1);
		nap_ms(roll(&seed, 100));
	}
	return arg;
}

static void child(void)
{
	struct hwheel *w = NULL;
	struct hwheel_event event;
	uint64_t at;

	alarm(60);
	for (int i = 0; i < WHEELS; i++) {
		if (hwheel_once(lives[i].wheel, 0, callback, 0, 0, NULL) != -ESHUTDOWN ||
		    hwheel_next_expiry(lives[i].wheel, &at) != -ESHUTDOWN ||
		    hwheel_stop(lives[i].wheel) != -ESHUTDOWN ||
		    hwheel_destroy(lives[i].wheel) != 0)
			_exit(1);
	}
	if (hwheel_create(NULL, &w) != 0 || hwheel_once(w, 0, NULL, 7, 0, NULL) != 0)
		_exit(2);
	for (int i = 0; i < 10000; i++) {
		if (hwheel_poll(w, &event, 1, NULL) == 1)
			_exit(event.cookie == 7 && hwheel_destroy(w) == 0 ? 0 : 3);
		usleep(1000);
	}
	_exit(4);
}

static void *forker(void *arg)
{
	unsigned seed = 3 * (unsigned)generations;

	while (!atomic_load(&over)) {
		int status = 0;
		pid_t pid = fork();

		MUST(pid >= 0);
		if (pid == 0)
			child();
		MUST(waitpid(pid, &status, 0) == pid);
		if (status != 0)
			fprintf(stderr, "a child ended with %x\n", (unsigned)status);
		MUST(status == 0);
		atomic_fetch_add(&forks, 1);
		nap_ms(roll(&seed, 200));
	}
	return arg;
}

int main(int argc, char **argv)
{
	uint64_t seconds = argc > 1 ? strtoull(argv[1], NULL, 10) : 3600;
	uint64_t end_ms = now_ms() + seconds * 1000, said = now_ms();
	void *(*const others[])(void *) = { poller, starter, setter, forker };

	setvbuf(stdout, NULL, _IOLBF, 0);
	do {
		pthread_t threads[THREADS];
		uint64_t until = now_ms() + LIFE_MS;

		atomic_store(&over, 0);
		atomic_store(&offset_ns, 0);
		atomic_fetch_add(&generations, 1);
		for (int i = 0; i < WHEELS; i++)
			make(i);
		for (uintptr_t i = 0; i < THREADS; i++)
			MUST(pthread_create(&threads[i], NULL,
					    i < USERS ? user : others[i - USERS],
					    (void *)i) == 0);
		while (now_ms() < until && now_ms() < end_ms) {
			nap_ms(50);
			for (int i = 0; i < WHEELS; i++)
				check_memory(&lives[i]);
		}
		/* A core file of this process shows the thread that hangs. */
		alarm(120);
		atomic_store(&over, 1);
		for (int i = 0; i < THREADS; i++)
			pthread_join(threads[i], NULL);
		for (int i = 0; i < WHEELS; i++) {
			check_memory(&lives[i]);
			end(i);
		}
		alarm(0);
		if (now_ms() - said > 60000 || now_ms() >= end_ms) {
			printf("  %s%llu lives of 3 wheels, %llu calls, %llu starts and stops, "
			       "%llu refused, %llu forks, %llu clock steps: the books balance\n",
			       now_ms() >= end_ms ? "figures: " : "",
			       (unsigned long long)generations, (unsigned long long)calls,
			       (unsigned long long)starts, (unsigned long long)refusals,
			       (unsigned long long)forks, (unsigned long long)steps);
			said = now_ms();
		}
	} while (now_ms() < end_ms);
	return 0;
}
