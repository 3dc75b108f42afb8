/*
 * The cost of loading the library, and the memory that it adds to a process. Each figure is the
 * minimum over many new processes.
 *
 * cost <library>	prints "dlopen <microseconds>", "resident <kB>", "locked <kB>"
 */
#include <hwheel.h>
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define TIMES 40

static const char *library;

static uint64_t now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
}

/* The resident memory, in kB: the exact sum, where the field of status is an estimate. */
static long resident_kb(void)
{
	char line[256];
	long kb = -1;
	FILE *file = fopen("/proc/self/smaps_rollup", "r");

	while (file != NULL && fgets(line, sizeof line, file) != NULL)
		if (sscanf(line, "Rss: %ld", &kb) == 1)
			break;
	if (file != NULL)
		fclose(file);
	return kb;
}

static void *loaded(void)
{
	void *handle = dlopen(library, RTLD_NOW | RTLD_LOCAL);

	if (handle == NULL) {
		fprintf(stderr, "%s\n", dlerror());
		_exit(1);
	}
	return handle;
}

static long dlopen_ns(void)
{
	uint64_t begin = now_ns();

	loaded();
	return (long)(now_ns() - begin);
}

/* What the library and a wheel with a timer that is armed add, in kB. */
static long wheel_kb(void)
{
	__typeof__(hwheel_create) *create;
	__typeof__(hwheel_once) *arm;
	struct hwheel *w;
	/* The first reading itself takes memory. */
	long before = (resident_kb(), resident_kb());
	void *handle = loaded();

	*(void **)&create = dlsym(handle, "hwheel_create");
	*(void **)&arm = dlsym(handle, "hwheel_once");
	if (create(NULL, &w) != 0 || arm(w, 1000000000, NULL, 0, 0, NULL) != 0)
		_exit(1);
	return resident_kb() - before;
}

/* What the library adds to a process that has no wheel and locks its memory, in kB. */
static long locked_kb(void)
{
	long before;

	if (mlockall(MCL_CURRENT) != 0)
		_exit(1);
	before = (resident_kb(), resident_kb());
	loaded();
	if (mlockall(MCL_CURRENT) != 0)
		_exit(1);
	return resident_kb() - before;
}

/* In a new process. */
static long value_of(long (*figure)(void))
{
	long value = -1;
	int ends[2], status = 1;
	pid_t child;

	if (pipe(ends) != 0 || (child = fork()) < 0)
		exit(1);
	if (child == 0) {
		value = figure();
		_exit(write(ends[1], &value, sizeof value) != sizeof value);
	}
	waitpid(child, &status, 0);
	if (status != 0 || read(ends[0], &value, sizeof value) != sizeof value)
		exit(1);
	close(ends[0]);
	close(ends[1]);
	return value;
}

static long least(long (*figure)(void))
{
	long least = value_of(figure);

	for (int i = 1; i < TIMES; i++) {
		long value = value_of(figure);

		least = value < least ? value : least;
	}
	return least;
}

int main(int argc, char **argv)
{
	if (argc != 2)
		return 2;
	library = argv[1];
	printf("dlopen %ld\n", (least(dlopen_ns) + 500) / 1000);
	printf("resident %ld\n", least(wheel_kb));
	printf("locked %ld\n", least(locked_kb));
	return 0;
}
