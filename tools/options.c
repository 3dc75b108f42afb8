#include "latency.h"

#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <hwheel.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define MOST_TIMERS 67000000 /* of a wheel */

static const char help[] =
"Usage: hwheel-latency [OPTION]...\n"
"\n"
"Arms timers of a timing wheel and shows how late they fire: each second the\n"
"minimum, average, 99th percentile and maximum lateness in microseconds.\n"
"\n"
"  -t, --threads=N       threads that arm timers, 1 to 1024 (1)\n"
"  -r, --rate=N          timers per second and thread, 1 to 10000000 (1000)\n"
"  -d, --delay=MIN[-MAX] delay of a timer, drawn from a range (1ms-100ms)\n"
"  -k, --tick=TIME       tick of the wheel, 1us to 3600s (1ms)\n"
"  -c, --clock=NAME      monotonic, boottime or realtime (monotonic)\n"
"  -m, --drive=WAY       thread: the tick thread of the wheel calls back;\n"
"                        descriptor: an event loop polls for events (thread)\n"
"  -R, --raw             also run a plain timerfd at the same rate\n"
"  -D, --duration=TIME   duration of the run; 0s: until interrupted (10s)\n"
"  -j, --json=FILE       write the histogram as JSON\n"
"  -s, --svg=FILE        write the histogram as a plot\n"
"  -q, --quiet           show the last line only\n"
"  -h, --help            show this text and exit\n"
"  -V, --version         show the version and exit\n"
"\n"
"A TIME is a number and a unit: ns, us, ms or s.\n"
"\n"
"Exit status: 0, 1 if a timer was early or lost or something failed, 2 for a\n"
"bad option.\n";

static const struct option longs[] = {
	{ "threads", required_argument, NULL, 't' },
	{ "rate", required_argument, NULL, 'r' },
	{ "delay", required_argument, NULL, 'd' },
	{ "tick", required_argument, NULL, 'k' },
	{ "clock", required_argument, NULL, 'c' },
	{ "drive", required_argument, NULL, 'm' },
	{ "raw", no_argument, NULL, 'R' },
	{ "duration", required_argument, NULL, 'D' },
	{ "json", required_argument, NULL, 'j' },
	{ "svg", required_argument, NULL, 's' },
	{ "quiet", no_argument, NULL, 'q' },
	{ "help", no_argument, NULL, 'h' },
	{ "version", no_argument, NULL, 'V' },
	{ 0 },
};

static const struct clock_name clocks[] = {
	{ "monotonic", CLOCK_MONOTONIC, HWHEEL_CLOCK_MONOTONIC },
	{ "boottime", CLOCK_BOOTTIME, HWHEEL_CLOCK_BOOTTIME },
	{ "realtime", CLOCK_REALTIME, HWHEEL_CLOCK_REALTIME },
};

void fail(int status, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	fputs("hwheel-latency: ", stderr);
	vfprintf(stderr, format, args);
	fputc('\n', stderr);
	va_end(args);
	exit(status);
}

/* Reads digits, and says where they end; false without any or with too many. */
static bool digits(const char *text, char **end, uint64_t *value)
{
	if (*text < '0' || *text > '9')
		return false;
	errno = 0;
	*value = strtoull(text, end, 10);
	return !errno;
}

static uint64_t number(const char *name, const char *text, uint64_t most)
{
	uint64_t value;
	char *end;

	if (!digits(text, &end, &value) || *end || !value || value > most)
		fail(2, "--%s: a number from 1 to %" PRIu64 " is wanted, not \"%s\"",
		     name, most, text);
	return value;
}

/* Reads a time of at most an hour that ends at `stop` or the end of the text. */
static uint64_t duration(const char *name, const char *text, char stop,
			 char **end)
{
	static const struct { const char *name; uint64_t ns; } units[] = {
		{ "ns", 1 }, { "us", 1000 }, { "ms", 1000000 },
		{ "s", 1000000000 },
	};
	const uint64_t hour = UINT64_C(3600000000000);
	uint64_t value;

	if (!digits(text, end, &value))
		goto bad;
	for (size_t i = 0; i < sizeof(units) / sizeof(units[0]); i++) {
		size_t length = strlen(units[i].name);

		if (strncmp(*end, units[i].name, length))
			continue;
		*end += length;
		if ((**end && **end != stop) || value > hour / units[i].ns)
			goto bad;
		return value * units[i].ns;
	}
bad:
	fail(2, "--%s: a time up to 3600s with a unit (ns, us, ms, s) is wanted, "
	     "not \"%s\"", name, text);
}

static void range(struct options *o, const char *text)
{
	char *end;

	o->delay_min = duration("delay", text, '-', &end);
	o->delay_max = *end ? duration("delay", end + 1, 0, &end) :
			      o->delay_min;
	if (o->delay_max < o->delay_min)
		fail(2, "--delay: \"%s\" ends before it begins", text);
}

static const struct clock_name *clock_named(const char *text)
{
	for (size_t i = 0; i < sizeof(clocks) / sizeof(clocks[0]); i++)
		if (!strcmp(text, clocks[i].name))
			return &clocks[i];
	fail(2, "--clock: monotonic, boottime or realtime is wanted, not \"%s\"", text);
}

static bool is_descriptor(const char *text)
{
	if (strcmp(text, "thread") && strcmp(text, "descriptor"))
		fail(2, "--drive: thread or descriptor is wanted, not \"%s\"", text);
	return *text == 'd';
}

/*
 * Opened before the run, so that a wrong name does not cost one; and not emptied, as the
 * other one may be wrong.
 */
static FILE *output(const char *name, const char *path)
{
	int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0666);
	FILE *file = fd < 0 ? NULL : fdopen(fd, "w");

	if (!file)
		fail(2, "--%s: cannot write \"%s\": %s", name, path,
		     strerror(errno));
	return file;
}

/* What was in a file before. A pipe has nothing. */
static void empty(FILE *file)
{
	if (file && ftruncate(fileno(file), 0) && errno != EINVAL)
		fail(1, "cannot empty a file: %s", strerror(errno));
}

static void set(struct options *o, int option, const char *arg,
		const char **json, const char **svg)
{
	char *end;

	switch (option) {
	case 't':
		o->threads = number("threads", arg, 1024);
		break;
	case 'r':
		o->rate = number("rate", arg, 10000000);
		break;
	case 'd':
		range(o, arg);
		break;
	case 'k':
		o->tick = duration("tick", arg, 0, &end);
		if (o->tick < 1000)
			fail(2, "--tick: at least 1us is wanted, not \"%s\"", arg);
		break;
	case 'c':
		o->clock = clock_named(arg);
		break;
	case 'm':
		o->descriptor = is_descriptor(arg);
		break;
	case 'R':
		o->raw = true;
		break;
	case 'D':
		o->duration = duration("duration", arg, 0, &end);
		break;
	case 'j':
		*json = arg;
		break;
	case 's':
		*svg = arg;
		break;
	case 'q':
		o->quiet = true;
		break;
	case 'h':
		fputs(help, stdout);
		exit(0);
	case 'V':
		printf("hwheel-latency %s\n", hwheel_version_string());
		exit(0);
	default: /* getopt has said what is wrong */
		fail(2, "try --help");
	}
}

void options_parse(struct options *o, int argc, char **argv)
{
	const char *json = NULL, *svg = NULL;
	uint64_t at_once;
	int option;

	*o = (struct options){
		.threads = 1, .rate = 1000,
		.delay_min = 1000000, .delay_max = 100000000,
		.tick = 1000000, .duration = UINT64_C(10000000000),
		.clock = &clocks[0],
	};
	while ((option = getopt_long(argc, argv, "t:r:d:k:c:m:RD:j:s:qhV", longs,
				     NULL)) != -1)
		set(o, option, optarg, &json, &svg);
	if (optind < argc)
		fail(2, "\"%s\" is not an option; try --help", argv[optind]);
	/* At most 1024 * 10^7 * 3600: no overflow. */
	at_once = o->threads * o->rate * (o->delay_max / 1000000000 + 1);
	if (at_once > MOST_TIMERS)
		fail(2, "--threads, --rate and --delay: up to %" PRIu64
		     " timers at once, and a wheel holds %d", at_once,
		     MOST_TIMERS);
	if (json)
		o->json = output("json", json);
	if (svg)
		o->svg = output("svg", svg);
	empty(o->json);
	empty(o->svg);
}
