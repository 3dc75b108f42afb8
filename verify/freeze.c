/*
 * The freeze probe: is one thread stopped in the middle of a call ever in the
 * way of another?
 *
 * A child process works one wheel with a thread for each role, and drives
 * another one that has workers. The parent seizes these threads with ptrace,
 * stops one of them wherever it happens to be, and demands a thousand
 * operations of each of the others, a hundred callbacks of those that run
 * callbacks, before it lets the stopped one go on.
 *
 * One thread owns a third wheel, and two threads send messages to it.
 *
 * Two things are as documented and not demanded: workers have nothing to do
 * while the thread that drives their wheel is stopped; and keys do not fire
 * here, for the tick thread may wait for a thread that is stopped in a call by
 * key.
 *
 * A busy machine makes threads slow, and slow is not stalled: after 50 ms a
 * freeze is counted as late and the parent goes on waiting. A stall is a thread
 * that completes nothing for half a second while another is stopped, although
 * it had the processor for a tenth of that, or a thousand times, as one that
 * spins and yields; or because it sleeps. One that only waits for a processor is
 * waited for, and so is a worker whose driver does.
 *
 * usage: freeze [-m] freezes
 *
 * With -m every call is made under one mutex: the control, in which the probe
 * must find stalls, or it could not find any.
 */
#include <dlfcn.h>
#include <link.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include "verify.h"

#define DEMAND 1000
#define FIRES 100
#define LATE_NS (50 * MS)
#define STALL_NS (500 * MS)
#define STALL_RUN_NS (50 * MS)
#define STALL_SLICES 1000

#define TIMERS 256
#define KEYS 16
/* Periodic timers that nobody touches: there is something to fire, always. */
#define BEATS 16
/* Periodic timers for the workers, which have more to do than they can. */
#define TASKS 1024
/* Wheels that a thread meets in turn. */
#define OTHERS 20
/* Operations between two yields of a thread that is not to be stopped. */
#define BOUT 256
/* How far a callback of a worker counts. */
#define LABOUR 2000

/*
 * Up to POLL, threads that are made here; then the library's own. All but the
 * last are frozen.
 */
enum role {
	ARM, CANCEL, REARM, FREE, MEET, MEET_TOO, KEY, OWNER, SENDER,
	SENDER_TOO, POLL, TICK, WORKER, COLLEAGUE, ROLES
};

static const char *const names[ROLES] = {
	"arm", "cancel", "re-arm", "free", "meet", "meet too", "key", "owner",
	"sender", "send too", "poll", "tick", "worker", "colleague",
};

/* What parent and child both see. */
static struct shared {
	struct word done[ROLES];
	/* Who is to be stopped: the others yield, so that all go on soon. */
	atomic_int victim;
	_Atomic pid_t tid[ROLES];
} *shared;

static struct hwheel *wheel;
/* The one with workers. */
static struct hwheel *staffed;
static struct hwheel *others[OTHERS];
/* The one with an owner, and its timers. */
static struct hwheel *owned;
static hwheel_timer_t mine[TIMERS];
static struct word timers[TIMERS];

static int with_mutex;
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;

static void here(enum role role)
{
	atomic_store(&shared->tid[role], (pid_t)syscall(SYS_gettid));
}

static void fired(struct hwheel *w, const struct hwheel_event *event)
{
	if (atomic_load(&shared->tid[TICK]) == 0)
		here(TICK);
	bump(&shared->done[TICK].n, 1);
}

/* Who runs a callback of the wheel with workers. */
static _Thread_local enum role self = ROLES;

static void served(struct hwheel *w, const struct hwheel_event *event)
{
	pid_t nobody = 0;

	if (self == ROLES) {
		self = atomic_compare_exchange_strong(&shared->tid[WORKER],
						      &nobody, -1)
			? WORKER : COLLEAGUE;
		here(self);
	}
	/* where the queue is full the driver runs it, who counts its calls */
	if (self == POLL)
		return;
	for (volatile int n = 0; n < LABOUR; n = n + 1)
		;
	bump(&shared->done[self].n, 1);
}

/* Arms by the timer, and by timers of one call. */
static int arm(hwheel_timer_t timer, struct rng *rng)
{
	uint64_t delay = below(rng, MS);

	if (below(rng, 4) == 0)
		return hwheel_once(wheel, delay, fired, 0, 0, NULL);
	return hwheel_timer_mod(wheel, timer, delay, 0);
}

static int rearm(hwheel_timer_t timer, struct rng *rng)
{
	uint64_t delay = below(rng, MS);

	switch (below(rng, 4)) {
	case 0:
		return hwheel_timer_mod(wheel, timer, delay, HWHEEL_REDUCE);
	case 1:
		return hwheel_timer_mod(wheel, timer, delay + MS, HWHEEL_IF_PENDING);
	default:
		return hwheel_timer_mod(wheel, timer, delay, 0);
	}
}

/* Puts a new timer in the place of the one that it frees. */
static int renew(struct word *place)
{
	hwheel_timer_t fresh = 0;

	MUST(hwheel_timer_setup(wheel, fired, 0, &fresh) == 0);
	return hwheel_timer_free(wheel, atomic_exchange(&place->n, fresh));
}

/* In another wheel. */
static int meet(uint64_t n)
{
	struct hwheel *w = others[n % OTHERS];
	hwheel_timer_t timer = 0;

	MUST(hwheel_once(w, SEC, NULL, 0, 0, &timer) == 0);
	return hwheel_timer_free(w, timer);
}

static int use_key(struct rng *rng)
{
	uint64_t id = below(rng, KEYS);
	uint64_t delay = (1 + below(rng, 100)) * 3600 * SEC;

	switch (below(rng, 4)) {
	case 0:
		return hwheel_key_mod(wheel, &id, sizeof id, delay, 0);
	case 1:
		return hwheel_key_delete(wheel, &id, sizeof id);
	default:
		return hwheel_key_set(wheel, &id, sizeof id, delay, fired, 0, 0);
	}
}

/* A message. While the owner is stopped, there may be too many. */
static int message(struct rng *rng)
{
	int got = hwheel_once(owned, below(rng, MS), NULL, 0, 0, NULL);

	return got == -ENOSPC ? 0 : got;
}

/* What an owner does; now and then it gives the wheel up, and takes it again. */
static int own(uint64_t n, struct rng *rng)
{
	hwheel_timer_t timer = mine[n % TIMERS];

	if (n % 1000 == 0) {
		MUST(hwheel_disown(owned) == 0);
		MUST(hwheel_own(owned) == 0);
	}
	if (n % 8 == 0)
		return hwheel_poll(owned, NULL, 0, NULL);
	if (n % 8 == 1)
		return hwheel_timer_delete(owned, timer);
	return hwheel_timer_mod(owned, timer, below(rng, MS), 0);
}

static void *work(void *arg)
{
	enum role role = (enum role)(uintptr_t)arg;
	struct rng rng = { SEED + role };

	self = role;
	here(role);
	if (role == OWNER)
		MUST(hwheel_own(owned) == 0);
	for (uint64_t n = 0;; n++) {
		struct word *place = &timers[below(&rng, TIMERS)];
		hwheel_timer_t timer = atomic_load(&place->n);
		/* Now and then the call of another role, which may wait for the same. */
		enum role call = role < MEET && below(&rng, 8) == 0
					 ? (enum role)below(&rng, MEET) : role;
		int got;

		if (with_mutex)
			pthread_mutex_lock(&mutex);
		if (call == ARM)
			got = arm(timer, &rng);
		else if (call == CANCEL)
			got = hwheel_timer_delete(wheel, timer);
		else if (call == REARM)
			got = rearm(timer, &rng);
		else if (call == FREE)
			got = renew(place);
		else if (call == MEET || call == MEET_TOO)
			got = meet(n);
		else if (call == KEY)
			got = use_key(&rng);
		else if (role == OWNER)
			got = own(n, &rng);
		else if (role == SENDER || role == SENDER_TOO)
			got = message(&rng);
		else
			got = hwheel_poll(staffed, NULL, 0, NULL);
		if (with_mutex)
			pthread_mutex_unlock(&mutex);
		/* another thread may have freed the timer meanwhile */
		MUST(got == 0 || got == 1 || got == -ESTALE);
		bump(&shared->done[role].n, 1);
		if (n % BOUT == 0 && atomic_load(&shared->victim) != (int)role)
			sched_yield();
	}
	return NULL;
}

static void beat(struct hwheel *w, hwheel_fn fn, int n, uint64_t period_ns)
{
	while (n-- > 0)
		MUST(hwheel_every(w, 0, period_ns, 0, fn, 0, 0, NULL) == 0);
}

/* A tick so short that the tick thread is hardly ever asleep. */
static void child(void)
{
	struct hwheel_options o = { .size = sizeof o, .tick_ns = 10000 };
	pthread_t thread;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	MUST(hwheel_create(&o, &wheel) == 0);
	for (int i = 0; i < OTHERS; i++)
		MUST(hwheel_create(NULL, &others[i]) == 0);
	for (int i = 0; i < TIMERS; i++) {
		hwheel_timer_t timer = 0;

		MUST(hwheel_timer_setup(wheel, fired, 0, &timer) == 0);
		atomic_store(&timers[i].n, timer);
	}
	beat(wheel, fired, BEATS, MS / 10);
	MUST(hwheel_start(wheel) == 0);
	o.owned = 1;
	/* One call drives this number of messages in a few ms. One that takes 50 ms may count as a stall. */
	o.max_timers = 1 << 14;
	MUST(hwheel_create(&o, &owned) == 0);
	MUST(hwheel_fd(owned) >= 0);
	for (int i = 0; i < TIMERS; i++)
		MUST(hwheel_timer_setup(owned, NULL, 0, &mine[i]) == 0);
	MUST(hwheel_disown(owned) == 0);
	o.owned = 0;
	o.max_timers = 0;
	o.workers = 2;
	MUST(hwheel_create(&o, &staffed) == 0);
	beat(staffed, served, TASKS, MS);
	for (uintptr_t role = ARM; role <= POLL; role++)
		start_thread(&thread, work, (void *)role);
	for (;;)
		pause();
}

/* Where the library's code is; the child has it at the same place. */
static uintptr_t text, text_end;

static int find_text(struct dl_phdr_info *info, size_t size, void *inside)
{
	uintptr_t at = (uintptr_t)inside;

	for (int i = 0; i < info->dlpi_phnum; i++) {
		const ElfW(Phdr) *p = &info->dlpi_phdr[i];
		uintptr_t from = info->dlpi_addr + p->p_vaddr;

		if (p->p_type == PT_LOAD && at - from < p->p_memsz) {
			text = from;
			text_end = from + p->p_memsz;
			return 1;
		}
	}
	return 0;
}

enum where { LIBRARY, KERNEL, ELSEWHERE, PLACES };

/* Where a stopped thread is: "number arguments.. sp pc", -1 if in no call. */
static enum where locate(pid_t pid, pid_t tid)
{
	char path[64], line[256] = "";
	const char *pc;
	uintptr_t at;
	FILE *file;

	snprintf(path, sizeof path, "/proc/%d/task/%d/syscall", pid, tid);
	file = fopen(path, "r");
	MUST(file != NULL && fgets(line, sizeof line, file) != NULL);
	fclose(file);
	if (line[0] != '-')
		return KERNEL;
	pc = strrchr(line, ' ');
	MUST(pc != NULL);
	at = strtoull(pc, NULL, 16);
	return at >= text && at < text_end ? LIBRARY : ELSEWHERE;
}

static void stop(pid_t tid)
{
	int status = 0;

	MUST(ptrace(PTRACE_INTERRUPT, tid, NULL, NULL) == 0);
	MUST(waitpid(tid, &status, __WALL) == tid);
	MUST(WIFSTOPPED(status));
}

static uint64_t done_by(int role)
{
	return atomic_load(&shared->done[role].n);
}

/* What a thread has had of the processors, and whether it sleeps. */
struct use {
	uint64_t ran_ns, slices;
	int asleep;
};

static struct use use_of(pid_t pid, pid_t tid)
{
	struct use use = { 0, 0, 0 };
	char path[64], state = 0;
	FILE *file;

	snprintf(path, sizeof path, "/proc/%d/task/%d/schedstat", pid, tid);
	file = fopen(path, "r");
	MUST(file != NULL &&
	     fscanf(file, "%" SCNu64 " %*u %" SCNu64, &use.ran_ns, &use.slices) == 2);
	fclose(file);
	snprintf(path, sizeof path, "/proc/%d/task/%d/stat", pid, tid);
	file = fopen(path, "r");
	MUST(file != NULL && fscanf(file, "%*d (%*[^)]) %c", &state) == 1);
	fclose(file);
	use.asleep = state == 'S' || state == 'D';
	return use;
}

static int is_worker(int role)
{
	return role == WORKER || role == COLLEAGUE;
}

/* A thread that is waited for. */
struct watch {
	uint64_t goal, seen, since, polls;
	/* As it came to stand still, and half a second ago. */
	struct use first, use;
};

/* Whether it has stood still for long, though it had a processor. */
static int is_stalled(struct watch *w, int role, uint64_t n, pid_t pid,
		      uint64_t now)
{
	pid_t tid = atomic_load(&shared->tid[role]);
	struct use use;

	if (n != w->seen) {
		w->seen = n;
		w->since = 0;
		return 0;
	}
	if (w->since == 0) {
		w->since = now;
		w->polls = done_by(POLL);
		w->first = w->use = use_of(pid, tid);
		return 0;
	}
	if (now - w->since < STALL_NS)
		return 0;
	if (is_worker(role) && done_by(POLL) - w->polls < DEMAND)
		return 0;
	use = use_of(pid, tid);
	if (use.ran_ns - w->first.ran_ns > STALL_RUN_NS ||
	    use.slices - w->first.slices > STALL_SLICES ||
	    (use.ran_ns == w->use.ran_ns && use.asleep && w->use.asleep))
		return 1;
	/* if it has just fallen asleep: watched anew from here */
	w->since = now;
	w->polls = done_by(POLL);
	w->use = use;
	return 0;
}

/* What is demanded of a role while another one is stopped. */
static uint64_t demand(int role, enum role stopped)
{
	if (role == (int)stopped || (is_worker(role) && stopped == POLL))
		return 0;
	return role < TICK ? DEMAND : FIRES;
}

/*
 * Waits until all have done what is demanded. Returns the nanoseconds it took,
 * or UINT64_MAX for a stall.
 */
static uint64_t await_others(pid_t pid, enum role stopped, enum role *stalled)
{
	uint64_t begin = nanoseconds(), now = begin;
	struct watch watch[ROLES] = { 0 };

	for (int r = 0; r < ROLES; r++)
		watch[r].goal = done_by(r) + demand(r, stopped);
	for (;;) {
		int waiting = 0;

		for (int r = 0; r < ROLES; r++) {
			uint64_t n = done_by(r);

			if (n >= watch[r].goal)
				continue;
			waiting = 1;
			*stalled = (enum role)r;
			/* until then its driver must go on as well */
			if (is_worker(r))
				watch[POLL].goal = done_by(POLL) + DEMAND;
			if (is_stalled(&watch[r], r, n, pid, now))
				return UINT64_MAX;
		}
		if (!waiting)
			return now - begin;
		sleep_ns(MS / 20);
		now = nanoseconds();
	}
}

static double ms(uint64_t ns)
{
	return (double)ns / 1e6;
}

/* Freezes one role @freezes times; returns how often another one stalled. */
static int probe(pid_t pid, enum role role, int freezes, struct rng *rng)
{
	pid_t tid = atomic_load(&shared->tid[role]);
	uint64_t *took = calloc((size_t)freezes, sizeof *took);
	int places[PLACES] = { 0 }, stalls[ROLES] = { 0 };
	int good = 0, late = 0, bad = 0;
	uint64_t before = 0;

	MUST(took != NULL);
	atomic_store(&shared->victim, role);
	for (int i = 0; i < freezes; i++) {
		enum role stalled = ROLES;
		uint64_t ns;

		/* not where it was stopped last */
		while (done_by(role) == before) {
			MUST(waitpid(pid, NULL, WNOHANG) == 0);
			sleep_ns(MS / 20);
		}
		sleep_ns(below(rng, MS / 5));
		stop(tid);
		before = done_by(role);
		places[locate(pid, tid)]++;
		ns = await_others(pid, role, &stalled);
		MUST(done_by(role) == before);
		MUST(ptrace(PTRACE_CONT, tid, NULL, NULL) == 0);
		if (ns == UINT64_MAX) {
			stalls[stalled]++;
			bad++;
			continue;
		}
		took[good++] = ns;
		late += ns > LATE_NS;
	}
	qsort(took, (size_t)good, sizeof *took, ascending);
	printf("%-8s %8d %8d %8d %8d %7d %7d", names[role], freezes,
	       places[LIBRARY], places[KERNEL], places[ELSEWHERE], late, bad);
	if (good > 0)
		printf(" %8.2f %8.2f %8.2f", ms(took[good / 2]),
		       ms(took[good * 99 / 100]), ms(took[good - 1]));
	for (int r = 0; r < ROLES; r++)
		if (stalls[r] != 0)
			printf(" %s:%d", names[r], stalls[r]);
	printf("\n");
	fflush(stdout);
	free(took);
	return bad;
}

static void seize(void)
{
	for (int r = 0; r < ROLES; r++) {
		pid_t tid;

		while ((tid = atomic_load(&shared->tid[r])) <= 0)
			sleep_ns(MS);
		if (ptrace(PTRACE_SEIZE, tid, NULL, NULL) == 0)
			continue;
		printf("freeze: skipped, ptrace is not permitted here: %s\n",
		       strerror(errno));
		exit(EXIT_SKIP);
	}
}

int main(int argc, char **argv)
{
	int freezes, stalls = 0;
	struct rng rng = { SEED };
	pid_t pid;

	with_mutex = argc > 1 && strcmp(argv[1], "-m") == 0;
	freezes = argc > 1 ? atoi(argv[argc - 1]) : 0;
	if (freezes <= 0) {
		fprintf(stderr, "usage: freeze [-m] freezes\n");
		return 2;
	}
	dl_iterate_phdr(find_text, (void *)(uintptr_t)hwheel_timer_mod);
	MUST(text != 0);
	shared = mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE,
		      MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	MUST(shared != MAP_FAILED);
	pid = fork();
	MUST(pid >= 0);
	if (pid == 0)
		child();
	seize();
	printf("%s\n%-8s %8s %8s %8s %8s %7s %7s %8s %8s %8s\n",
	       with_mutex ? "control: under one mutex" : "the library",
	       "role", "freezes", "library", "kernel", "outside", "late",
	       "stalls", "ms: p50", "p99", "max");
	for (int r = 0; r < COLLEAGUE; r++)
		stalls += probe(pid, (enum role)r, freezes, &rng);
	kill(pid, SIGKILL);
	printf("%d stalls in %d freezes%s\n", stalls,
	       freezes * COLLEAGUE, with_mutex ? " under a mutex" : "");
	if (with_mutex && stalls == 0)
		printf("the control stalled nowhere: the probe sees nothing\n");
	return with_mutex ? stalls == 0 : stalls != 0;
}
