/* The resident memory of a small wheel, with huge pages where the system has them. */
#include "figure.h"

enum { WHEELS = 1000 };

static long resident(void)
{
	long all, mine = 0;
	FILE *file = fopen("/proc/self/statm", "r");

	if (file == NULL || fscanf(file, "%ld %ld", &all, &mine) != 2)
		abort();
	fclose(file);
	return mine * 4096;
}

int main(void)
{
	static struct hwheel *w[WHEELS];
	long before = resident(), empty, used;
	hwheel_timer_t t;

	for (int i = 0; i < WHEELS; i++)
		if (hwheel_create(NULL, &w[i]) != 0)
			abort();
	empty = resident();
	for (int i = 0; i < WHEELS; i++)
		if (hwheel_once(w[i], 60000 * MS, NULL, 0, 0, &t) != 0)
			abort();
	used = resident();
	printf("small: an empty wheel keeps %ld bytes, one with a timer %ld\n",
	       (empty - before) / WHEELS, (used - before) / WHEELS);
	for (int i = 0; i < WHEELS; i++)
		hwheel_destroy(w[i]);
	return 0;
}
