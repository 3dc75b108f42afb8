/*
 * hwheel-latency: how late do timers fire on this machine, with this tick?
 *
 * Some threads arm timers, each at its own rate; one thread, the wheel's or
 * an event loop, takes them as they fire and compares the clock with the
 * deadline, which this program has kept itself, in the timer's cookie.
 */
#include "latency.h"

#include <errno.h>
#include <hwheel.h>
#include <inttypes.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdalign.h>
#include <stdlib.h>
#include <string.h>
#include <sys/timerfd.h>
#include <unistd.h>

#define SECOND UINT64_C(1000000000)

static struct options options;
static struct hwheel *wheel;
static struct histogram fired, raw;
static atomic_bool arming_ends, driving_ends;

static struct armer {
	pthread_t thread;
	uint64_t random;
	alignas(64) uint64_t armed;	/* written by its thread */
} *armers;

/* In a test the clock is behind, so that every timer seems early. */
#ifndef BEHIND_S
#define BEHIND_S 0
#endif

static uint64_t now(clockid_t clock)
{
	struct timespec t;

	clock_gettime(clock, &t);
	return (uint64_t)(t.tv_sec - BEHIND_S) * SECOND + t.tv_nsec;
}

static struct timespec timespec_of(uint64_t ns)
{
	return (struct timespec){ ns / SECOND, ns % SECOND };
}

static void check(const char *what, int error)
{
	if (error < 0)
		fail(1, "%s: %s", what, hwheel_strerror(error));
}

static void start(pthread_t *thread, void *(*body)(void *), void *arg)
{
	check("cannot start a thread", -pthread_create(thread, NULL, body, arg));
}

static void record(uint64_t deadline)
{
	histogram_record(&fired, deadline, now(options.clock->system));
}

static void call_back(struct hwheel *w, const struct hwheel_event *event)
{
	(void)w;
	record(event->cookie);
}

static uint64_t draw_delay(struct armer *a)
{
	/* Marsaglia's xorshift, 64 bits. */
	a->random ^= a->random << 13;
	a->random ^= a->random >> 7;
	a->random ^= a->random << 17;
	return options.delay_min +
		a->random % (options.delay_max - options.delay_min + 1);
}

/* A sleep that is over already still costs an interrupt: it is left out. */
static void sleep_until(uint64_t ns)
{
	struct timespec t = timespec_of(ns);

	if (now(CLOCK_MONOTONIC) < ns)
		clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &t, NULL);
}

static void *arm(void *arg)
{
	hwheel_fn fn = options.descriptor ? NULL : call_back;
	uint64_t armed = 0, begin = now(CLOCK_MONOTONIC), deadline;
	struct armer *a = arg;

	while (!atomic_load(&arming_ends)) {
		sleep_until(begin + armed / options.rate * SECOND +
			    armed % options.rate * SECOND / options.rate);
		deadline = now(options.clock->system) + draw_delay(a);
		check("hwheel_once",
		      hwheel_once(wheel, deadline, fn, deadline, HWHEEL_ABS, NULL));
		a->armed = ++armed;
	}
	return NULL;
}

/* The event loop. It looks up now and then, to see whether it is over. */
static void *drive(void *arg)
{
	struct pollfd fd = { .fd = hwheel_fd(wheel), .events = POLLIN };
	struct hwheel_event events[256];
	int n;

	(void)arg;
	check("hwheel_fd", fd.fd);
	while (!atomic_load(&driving_ends)) {
		if (poll(&fd, 1, 100) <= 0)
			continue;
		n = hwheel_poll(wheel, events, 256, NULL);
		check("hwheel_poll", n);
		for (int i = 0; i < n; i++)
			record(events[i].cookie);
	}
	return NULL;
}

/* What the machine can do without a wheel: one timerfd, always set again. */
static void *run_raw(void *arg)
{
	uint64_t period = SECOND / options.rate, times, deadline, at;
	int fd = timerfd_create(options.clock->system, TFD_CLOEXEC);
	struct itimerspec value = { 0 };

	(void)arg;
	if (fd < 0)
		fail(1, "timerfd_create: %s", strerror(errno));
	deadline = now(options.clock->system) + period;
	while (!atomic_load(&arming_ends)) {
		value.it_value = timespec_of(deadline);
		if (timerfd_settime(fd, TFD_TIMER_ABSTIME, &value, NULL) ||
		    read(fd, &times, sizeof(times)) != sizeof(times))
			fail(1, "timerfd: %s", strerror(errno));
		at = now(options.clock->system);
		histogram_record(&raw, deadline, at);
		deadline += period;
		/* What was missed is left out: it says no more of a timer. */
		if (deadline <= at)
			deadline = at + period;
	}
	close(fd);
	return NULL;
}

static void put_columns(struct histogram *h, struct reading *seen)
{
	struct reading part;
	struct summary s;

	histogram_since(h, seen, &part);
	histogram_summary(h, &part, &s);
	printf(" %9" PRIu64 " %8.1f %8.1f %8.1f %8.1f", s.count, s.min / 1e3,
	       s.average / 1e3, s.p99 / 1e3, s.max / 1e3);
}

/* What came after `seen`, of the wheel and of the raw timerfd. */
static void put_line(const char *title, struct reading seen[2])
{
	printf("%5s", title);
	put_columns(&fired, &seen[0]);
	if (options.raw) {
		printf("  |");
		put_columns(&raw, &seen[1]);
	}
	putchar('\n');
	fflush(stdout);
}

static void put_heading(void)
{
	static const char columns[] = "     fired   min us   avg us   p99 us   max us";
	int width = sizeof(columns) - 1;

	if (options.raw)
		printf("%5s %*s  | %*s\n", "", -width, "     the wheel", width,
		       "     a timerfd without it                    ");
	printf("%5s %s", "s", columns);
	if (options.raw)
		printf("  | %s", columns);
	putchar('\n');
}

/* A line each second, until the time is over or a signal of `set` comes. */
static void watch(const sigset_t *set)
{
	static struct reading seen[2];
	uint64_t begin = now(CLOCK_MONOTONIC), at = begin, next = begin;
	uint64_t end = options.duration ? begin + options.duration : UINT64_MAX;
	struct timespec left;
	char title[24];
	int got;

	while (at < end) {
		next += SECOND;
		do {
			uint64_t until = next < end ? next : end;

			left = timespec_of(until > at ? until - at : 0);
			got = sigtimedwait(set, NULL, &left);
			if (got >= 0)
				return;
			at = now(CLOCK_MONOTONIC);
		} while (at < next && at < end);
		if (options.quiet || at < next)
			continue;
		snprintf(title, sizeof(title), "%" PRIu64, (at - begin) / SECOND);
		put_line(title, seen);
	}
}

static uint64_t drain(void)
{
	struct hwheel_event events[256];
	uint64_t sum = 0;
	int n;

	do {
		n = hwheel_drain(wheel, events, 256);
		check("hwheel_drain", n);
		sum += n;
	} while (n == 256);
	return sum;
}

static void sum_up(struct result *r, const char *name, struct histogram *h)
{
	struct reading seen = { 0 };

	r->name = name;
	histogram_since(h, &seen, &r->all);
	histogram_summary(h, &r->all, &r->summary);
	r->early = atomic_load(&h->early);
	r->fired = r->summary.count + r->early;
}

/* Runs from the first arm until no timer is left, and counts those armed and drained. */
static void run(const sigset_t *signals, struct result *r)
{
	pthread_t driver, raw_thread;

	if (options.descriptor)
		start(&driver, drive, NULL);
	else
		check("hwheel_start", hwheel_start(wheel));
	if (options.raw)
		start(&raw_thread, run_raw, NULL);
	for (uint64_t i = 0; i < options.threads; i++) {
		armers[i].random = 0x9e3779b97f4a7c15 * (i + 1);
		start(&armers[i].thread, arm, &armers[i]);
	}
	watch(signals);
	atomic_store(&arming_ends, true);
	for (uint64_t i = 0; i < options.threads; i++) {
		pthread_join(armers[i].thread, NULL);
		r->armed += armers[i].armed;
	}
	if (options.raw)
		pthread_join(raw_thread, NULL);
	atomic_store(&driving_ends, true);
	if (options.descriptor)
		pthread_join(driver, NULL);
	else
		check("hwheel_stop", hwheel_stop(wheel));
	r->drained = drain();
}

int main(int argc, char **argv)
{
	struct hwheel_options shape = { .size = sizeof(shape) };
	static struct reading none[2];
	static struct result w, r;
	sigset_t signals;

	options_parse(&options, argc, argv);
	shape.clock = options.clock->wheel;
	shape.tick_ns = options.tick;
	check("hwheel_create", hwheel_create(&shape, &wheel));
	armers = aligned_alloc(64, options.threads * sizeof(*armers));
	if (!armers)
		fail(1, "no memory");
	memset(armers, 0, options.threads * sizeof(*armers));
	histogram_init(&fired);
	histogram_init(&raw);

	/* Blocked in every thread, and waited for in this one. */
	sigemptyset(&signals);
	sigaddset(&signals, SIGINT);
	sigaddset(&signals, SIGTERM);
	pthread_sigmask(SIG_BLOCK, &signals, NULL);

	put_heading();
	run(&signals, &w);
	put_line("all", none);
	if (ferror(stdout))
		fail(1, "cannot write to the standard output");
	check("hwheel_destroy", hwheel_destroy(wheel));

	sum_up(&w, "wheel", &fired);
	sum_up(&r, "raw", &raw);
	r.armed = r.fired;
	if (options.json)
		report_json(&options, &w, options.raw ? &r : NULL);
	if (options.svg)
		report_svg(&options, &w, options.raw ? &r : NULL);
	if (w.early)
		fail(1, "%" PRIu64 " timers were early", w.early);
	if (w.armed != w.fired + w.drained)
		fail(1, "%" PRIu64 " timers armed, but %" PRIu64 " fired and %"
		     PRIu64 " were left", w.armed, w.fired, w.drained);
	return 0;
}
