/*
 * Errors that the tools must find, each in what the library itself writes, so
 * that a library without the tool's checks in it does not pass for a clean one.
 *
 * usage: control overrun | leak | race
 */
#include "verify.h"

static struct hwheel *wheel;
static struct hwheel_event *events;
static atomic_int done;

static void *drive(void *arg)
{
	MUST(hwheel_advance(wheel, SEC, events, 2, NULL) == 2);
	/* Relaxed, so that it orders nothing. */
	atomic_store_explicit(&done, 1, memory_order_relaxed);
	return NULL;
}

int main(int argc, char **argv)
{
	struct hwheel_options o = {
		.size = sizeof o, .clock = HWHEEL_CLOCK_MANUAL,
	};
	const char *planted = argc == 2 ? argv[1] : "";
	uint64_t seen = 0;
	pthread_t thread;

	MUST(hwheel_create(&o, &wheel) == 0);
	MUST(hwheel_once(wheel, MS, NULL, 1, 0, NULL) == 0);
	MUST(hwheel_once(wheel, MS, NULL, 2, 0, NULL) == 0);
	events = malloc((strcmp(planted, "overrun") == 0 ? 1 : 2) * sizeof *events);
	if (strcmp(planted, "overrun") == 0) {
		drive(NULL);
	} else if (strcmp(planted, "leak") == 0) {
		drive(NULL);
		events = NULL;
	} else if (strcmp(planted, "race") == 0) {
		start_thread(&thread, drive, NULL);
		while (!atomic_load_explicit(&done, memory_order_relaxed))
			;
		seen = events[0].cookie;
		pthread_join(thread, NULL);
	} else {
		fprintf(stderr, "usage: control overrun | leak | race\n");
		return 2;
	}
	free(events);
	return seen > 2 || hwheel_destroy(wheel) != 0;
}
