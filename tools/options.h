/* The options of hwheel-latency. */
#ifndef OPTIONS_H
#define OPTIONS_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <time.h>

struct clock_name {
	const char *name;
	clockid_t system;
	uint32_t wheel;
};

struct options {
	uint64_t threads;
	uint64_t rate;			/* timers a second and thread */
	uint64_t delay_min, delay_max;	/* nanoseconds, as all times */
	uint64_t tick;
	uint64_t duration;		/* 0: until interrupted */
	const struct clock_name *clock;
	bool descriptor;
	bool raw;
	bool quiet;
	FILE *json, *svg;
};

/* Fills in the options; ends the program for --help and for a bad one. */
void options_parse(struct options *o, int argc, char **argv);

/* Prints "hwheel-latency: " and a message, and ends with that status. */
__attribute__((noreturn, format(printf, 2, 3)))
void fail(int status, const char *format, ...);

#endif
