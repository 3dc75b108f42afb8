/*
 * Callbacks in threads of their own: one that takes long delays nobody else.
 */
#define _DEFAULT_SOURCE
#include <hwheel.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static atomic_uint beats, late;

/* A request to a slow server, say. */
static void slow(struct hwheel *wheel, const struct hwheel_event *event)
{
	(void)wheel;
	(void)event;
	usleep(200000);
}

static void beat(struct hwheel *wheel, const struct hwheel_event *event)
{
	uint64_t now;

	if (hwheel_now(wheel, &now) == 0 && now - event->deadline_ns > 100 * HWHEEL_MSEC)
		atomic_fetch_add(&late, 1);
	atomic_fetch_add(&beats, 1);
}

/* Beats every 10 ms while the slow one runs. Counts the late beats. */
static int run(uint32_t workers)
{
	struct hwheel_options options;
	struct hwheel *wheel;

	memset(&options, 0, sizeof options);
	options.size = sizeof options;
	options.workers = workers;
	atomic_store(&beats, 0);
	atomic_store(&late, 0);
	if (hwheel_create(&options, &wheel) < 0 ||
	    hwheel_every(wheel, 10 * HWHEEL_MSEC, 10 * HWHEEL_MSEC, 0, beat, 0, HWHEEL_MISSED_BURST, NULL) < 0 ||
	    hwheel_once(wheel, 100 * HWHEEL_MSEC, slow, 0, 0, NULL) < 0 ||
	    hwheel_start(wheel) < 0)
		return 1;
	usleep(500000);
	if (hwheel_destroy(wheel) < 0)
		return 1;
	printf("%u workers: %2u beats, %2u more than 100 ms late\n", workers,
	       atomic_load(&beats), atomic_load(&late));
	return 0;
}

int main(void)
{
	return run(0) || run(2);
}
