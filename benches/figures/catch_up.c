/* The cost of firing a timer in a leap over timers far beyond the top level: by their
 * number, and by the shape of the wheel. */
#include "figure.h"

static uint64_t state = 88172645463325252u;

static uint64_t rnd(void)
{
	state ^= state << 13;
	state ^= state >> 7;
	state ^= state << 17;
	return state;
}

static void catch_up(unsigned count, uint32_t levels)
{
	struct hwheel *w = manual(1, levels, 0);
	static struct hwheel_event events[1024];
	unsigned fired = 0;
	double begin_s, spent;
	int n;

	for (unsigned i = 0; i < count; i++) {
		hwheel_timer_t t;

		if (hwheel_once(w, rnd() % (UINT64_C(1) << 44), NULL, 0, 0, &t) != 0)
			abort();
	}
	begin_s = seconds();
	do {
		n = hwheel_advance(w, UINT64_C(1) << 45, events, 1024, NULL);
		fired += n > 0 ? (unsigned)n : 0;
	} while (n == 1024);
	spent = seconds() - begin_s;
	printf("catch up: %u timers over 2^44 ticks, %u levels: %.0f ns each\n",
	       fired, levels, spent / fired * 1e9);
	if (fired != count || hwheel_destroy(w) != 0)
		abort();
}

int main(void)
{
	for (unsigned count = 12500; count <= 100000; count *= 2)
		catch_up(count, 4);
	catch_up(1000, 1);
	catch_up(2000, 1);
	return 0;
}
