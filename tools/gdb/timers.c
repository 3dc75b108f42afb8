/* Timers in every state, for gdb to look at in stop_here(). */
#include <hwheel.h>
#include <stdio.h>
#include <stdlib.h>

#define MS HWHEEL_MSEC

struct connection {
	struct hwheel *wheel;
	hwheel_timer_t idle;
};

static void must(int result)
{
	if (result < 0) {
		fprintf(stderr, "%s\n", hwheel_strerror(result));
		exit(1);
	}
}

__attribute__((noinline)) static void stop_here(struct connection *c)
{
	__asm__ volatile("" : : "r"(c) : "memory");
}

static void timed_out(struct hwheel *wheel, const struct hwheel_event *event)
{
	if (event->cookie == 9)
		stop_here(&(struct connection){ wheel, event->timer });
}

int main(void)
{
	struct hwheel_options options = {
		.size = sizeof options, .clock = HWHEEL_CLOCK_MANUAL, .tick_ns = MS,
		.start_ns = 5 * HWHEEL_SEC,
	};
	struct hwheel *wheel, *none = NULL, *gone;
	hwheel_timer_t soon, far, never, rests, ended, freed, repeats, runs;
	struct hwheel_event event;
	struct connection c;

	must(hwheel_create(&options, &wheel));
	must(hwheel_create(NULL, &gone));
	must(hwheel_timer_setup(wheel, timed_out, 7, &soon));
	must(hwheel_timer_setup(wheel, NULL, 8, &far));
	must(hwheel_timer_setup(wheel, timed_out, 1, &never));
	must(hwheel_timer_setup(wheel, timed_out, 2, &rests));
	must(hwheel_timer_setup(wheel, timed_out, 3, &ended));
	must(hwheel_timer_setup(wheel, timed_out, 4, &freed));
	must(hwheel_timer_mod(wheel, soon, 40 * MS, 0));
	must(hwheel_timer_mod(wheel, far, 73000ULL * 86400 * HWHEEL_SEC, 0));
	must(hwheel_timer_mod(wheel, never, HWHEEL_NEVER, 0));
	must(hwheel_timer_mod(wheel, ended, MS, 0));
	must(hwheel_timer_shutdown(wheel, ended));
	must(hwheel_timer_free(wheel, freed));
	must(hwheel_every(wheel, 3 * MS, 250 * MS, 0, timed_out, 5, HWHEEL_MISSED_BURST, &repeats));
	must(hwheel_once(wheel, 2 * MS, timed_out, 9, 0, &runs));
	must(hwheel_key_set(wheel, "key", 3, 90 * MS, NULL, 6, 0));
	must(hwheel_advance(wheel, options.start_ns + 10 * MS, &event, 1, NULL));
	c = (struct connection){ wheel, repeats };
	stop_here(&c);
	must(hwheel_destroy(gone));
	must(hwheel_destroy(wheel));
	return none != NULL || c.idle != repeats || rests == far;
}
