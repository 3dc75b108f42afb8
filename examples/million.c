/*
 * A million timers: two threads arm one-shot timers with delays uniform in
 * 1 ms to 4 s and ask back every third 100 ms later, while the tick thread
 * fires the rest. Every timer is accounted for: it has fired once, not before
 * its deadline, or its cancelling said that it never will.
 *
 * The exit status is 0 if that is so.
 */
#define _DEFAULT_SOURCE
#include <hwheel.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#define THREADS 2
#define TIMERS 1000000
#define SLICE 5000	/* timers armed by a thread at a stretch, each 10 ms */
#define LAG 10		/* slices after which a third is asked back */
#define MS HWHEEL_MSEC
#define LONGEST (4000 * MS)
#define PATIENCE (30000 * MS)	/* a busy machine may be slow, a lost timer never ends */

struct timer {
	hwheel_timer_t handle;
	uint64_t not_before;
	atomic_uint fired;
	unsigned int cancelled;
};

static struct hwheel *wheel;
static struct timer *timers;
static uint32_t *lateness;	/* in ns; written by the tick thread alone */
static atomic_uint armed, fired, cancelled, early, refused;

static uint64_t now_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return ts.tv_sec * 1000 * MS + ts.tv_nsec;
}

static void sleep_ns(uint64_t ns)
{
	struct timespec ts = { 0, (long)ns };

	nanosleep(&ts, NULL);
}

static uint64_t draw(uint64_t *state)	/* xorshift */
{
	*state ^= *state << 13;
	*state ^= *state >> 7;
	*state ^= *state << 17;
	return *state;
}

static void on_timer(struct hwheel *w, const struct hwheel_event *event)
{
	struct timer *timer = &timers[event->cookie];
	uint64_t now = now_ns();
	uint64_t late = now - event->deadline_ns;

	(void)w;
	if (now < timer->not_before || now < event->deadline_ns)
		atomic_fetch_add(&early, 1);
	atomic_fetch_add(&timer->fired, 1);
	lateness[atomic_fetch_add(&fired, 1) % TIMERS] =
		late < UINT32_MAX ? late : UINT32_MAX;
}

static void arm(unsigned int i, uint64_t *seed)
{
	uint64_t delay = MS + draw(seed) % (LONGEST - MS);
	struct timer *timer = &timers[i];

	timer->not_before = now_ns() + delay;
	if (hwheel_once(wheel, delay, on_timer, i, 0, &timer->handle) == 0)
		atomic_fetch_add(&armed, 1);
	else
		atomic_fetch_add(&refused, 1);
}

static void cancel(unsigned int i)
{
	timers[i].cancelled = hwheel_timer_delete(wheel, timers[i].handle) == 1;
	if (timers[i].cancelled)
		atomic_fetch_add(&cancelled, 1);
}

static void *run(void *arg)
{
	unsigned int first = *(unsigned int *)arg;
	unsigned int end = first + TIMERS / THREADS;
	uint64_t seed = 88172645463325252ull + first;

	for (unsigned int at = first; at < end + LAG * SLICE; at += SLICE) {
		for (unsigned int i = at; i < at + SLICE && i < end; i++)
			arm(i, &seed);
		if (at >= first + LAG * SLICE)
			for (unsigned int i = at - LAG * SLICE;
			     i < at - LAG * SLICE + SLICE; i += 3)
				cancel(i);
		sleep_ns(10 * MS);
	}
	return NULL;
}

static uint64_t resident(void)
{
	unsigned long pages = 0;
	FILE *f = fopen("/proc/self/statm", "r");

	if (f && fscanf(f, "%*s %lu", &pages) != 1)
		pages = 0;
	if (f)
		fclose(f);
	return pages * (uint64_t)sysconf(_SC_PAGESIZE);
}

static int ascending(const void *a, const void *b)
{
	uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;

	return (x > y) - (x < y);
}

static double percentile(unsigned int n, double p)	/* in us */
{
	return n ? lateness[(unsigned int)((n - 1) * p)] / 1e3 : 0;
}

int main(void)
{
	struct hwheel_stats stats = { .size = sizeof(stats) };
	unsigned int first[THREADS], lost = 0, doubled = 0, peak = 0, seen = 0;
	uint64_t start, end, before, bytes = 0;
	pthread_t threads[THREADS];
	struct rusage usage;
	int terminal = isatty(STDOUT_FILENO);

	timers = calloc(TIMERS, sizeof(*timers));
	lateness = calloc(TIMERS, sizeof(*lateness));
	if (!timers || !lateness)
		return 1;
	for (unsigned int i = 0; i < TIMERS; i++)	/* resident from here */
		timers[i].not_before = lateness[i] = UINT32_MAX;
	before = resident();

	if (hwheel_create(NULL, &wheel) || hwheel_start(wheel)) {
		fprintf(stderr, "million: no wheel\n");
		return 1;
	}
	start = now_ns();
	for (unsigned int t = 0; t < THREADS; t++) {
		first[t] = t * (TIMERS / THREADS);
		if (pthread_create(&threads[t], NULL, run, &first[t])) {
			fprintf(stderr, "million: no thread\n");
			return 1;
		}
	}
	for (end = start + PATIENCE;;) {
		unsigned int a = atomic_load(&armed), f = atomic_load(&fired);
		unsigned int c = atomic_load(&cancelled), live = a - f - c;

		if (live > peak && live < TIMERS) {
			peak = live;
			bytes = resident() - before;
		}
		if (terminal) {
			printf("\r%5.1f s  armed %7u  fired %7u  cancelled %7u ",
			       (now_ns() - start) / 1e9, a, f, c);
			fflush(stdout);
		}
		if (a + f + c != seen) {
			seen = a + f + c;
			end = now_ns() + PATIENCE;
		}
		if ((a == TIMERS && f + c >= a) || now_ns() > end)
			break;
		sleep_ns(50 * MS);
	}
	for (unsigned int t = 0; t < THREADS; t++)
		pthread_join(threads[t], NULL);
	hwheel_stop(wheel);
	hwheel_get_stats(wheel, &stats);
	getrusage(RUSAGE_SELF, &usage);

	for (unsigned int i = 0; i < TIMERS; i++) {
		unsigned int ends = timers[i].fired + timers[i].cancelled;

		lost += ends == 0;
		doubled += ends > 1;
	}
	qsort(lateness, fired, sizeof(*lateness), ascending);
	printf("%sa million timers, %d threads and the tick thread, 1 ms ticks\n",
	       terminal ? "\r\033[K" : "", THREADS);
	printf("  armed            %10u\n", armed);
	printf("  fired            %10u\n", fired);
	printf("  cancelled        %10u\n", cancelled);
	printf("  lost             %10u\n", lost);
	printf("  doubled          %10u\n", doubled);
	printf("  early            %10u\n", early);
	printf("  left in wheel    %10" PRIu64 "\n", stats.live);
	printf("  lateness p50     %10.0f us\n", percentile(fired, 0.50));
	printf("  lateness p99     %10.0f us\n", percentile(fired, 0.99));
	printf("  lateness max     %10.0f us\n", percentile(fired, 1.0));
	printf("  elapsed          %10.2f s\n", (now_ns() - start) / 1e9);
	printf("  processor        %10.2f s\n",
	       usage.ru_utime.tv_sec + usage.ru_utime.tv_usec / 1e6 +
	       usage.ru_stime.tv_sec + usage.ru_stime.tv_usec / 1e6);
	printf("  memory per timer %10.1f bytes, at %u live\n",
	       peak ? (double)bytes / peak : 0, peak);
	if (lost || doubled || early || refused || stats.live ||
	    armed != TIMERS || fired + cancelled != armed) {
		printf("FAILED: a timer was lost, doubled, early or refused\n");
		return 1;
	}
	printf("  every timer accounted for\n");
	return hwheel_destroy(wheel) != 0;
}
