/*
 * Starts a server, opens connections to it over the loopback, and lets some of
 * them talk: none, a tenth and all. A fixed number of requests
 * is under way at any time, on random ones of those that talk. Prints figures. The
 * limit of open files may allow fewer connections than asked for.
 *
 * usage: load SERVER CONNECTIONS SECONDS DESCRIPTORS-OF-A-CONNECTION [LOOPS]
 */
#include "bench.h"
#include "server.h"
#include <errno.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/wait.h>

enum { WINDOW = 64, OTHER_FILES = 50 };

static struct shared *shared;
static unsigned loops = 1;
static pid_t server;
static int *connections;
static char *busy;
static int epoll;

static void die(const char *what)
{
	perror(what);
	if (server > 0)
		kill(server, SIGKILL);
	exit(1);
}

static double wall(void)
{
	return (double)nanoseconds() * 1e-9;
}

/* The processor time of the server, in seconds. */
static double used(void)
{
	struct timespec t;
	clockid_t id;

	if (clock_getcpuclockid(server, &id) != 0 || clock_gettime(id, &t) != 0)
		die("clock_getcpuclockid");
	return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

/* Of a file of /proc: the number after a name. */
static double number_in(const char *path, const char *name)
{
	char line[256];
	double number = 0;
	FILE *f = fopen(path, "r");

	if (f == NULL)
		die(path);
	while (fgets(line, sizeof line, f) != NULL)
		if (strncmp(line, name, strlen(name)) == 0)
			number = strtod(line + strlen(name), NULL);
	fclose(f);
	return number;
}

/* The sum of a count of all loops. */
#define ALL(count) (SEEN(shared->loops[0].count) + SEEN(shared->loops[1].count))

/* How often the server has slept. */
static double sleeps(void)
{
	char path[64];

	snprintf(path, sizeof path, "/proc/%d/status", (int)server);
	return number_in(path, "voluntary_ctxt_switches:");
}

static void memory_of(double *user, double *kernel)
{
	char path[64];

	snprintf(path, sizeof path, "/proc/%d/smaps_rollup", (int)server);
	*user = 1024 * number_in(path, "Anonymous:");
	*kernel = 1024 * number_in("/proc/meminfo", "Slab:");
}

/*
 * The profiler: looks at what the server is doing, at times that have nothing to
 * do with either program.
 */
static uint64_t seen[3];

static void *sampler(void *arg)
{
	struct sched_param first = { .sched_priority = 1 };
	struct rng r = { SEED };

	(void)arg;
	pin(1);
	/* Not allowed to everybody, and not needed. */
	pthread_setschedparam(pthread_self(), SCHED_FIFO, &first);
	for (;;) {
		struct timespec t = { 0, (long)(50000 + below(&r, 100000)) };

		nanosleep(&t, NULL);
		for (unsigned i = 0; i < loops; i++) {
			uint64_t *one = &seen[SEEN(shared->loops[i].doing)];

			TELL(*one, *one + 1);
		}
	}
	return NULL;
}

static void start(const char *program)
{
	char fd[16], number[16];
	int memory = memfd_create("shared", 0);

	if (memory < 0 || ftruncate(memory, sizeof *shared) != 0)
		die("memfd_create");
	shared = mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED, memory, 0);
	if (shared == MAP_FAILED)
		die("mmap");
	/* Touched now, so that its pages do not count later. */
	memset(shared->late, 1, sizeof shared->late);
	snprintf(fd, sizeof fd, "%d", memory);
	snprintf(number, sizeof number, "%u", loops);
	server = fork();
	if (server == 0) {
		execl(program, program, fd, number, (char *)NULL);
		perror(program);
		_exit(1);
	}
	while (SEEN(shared->port) == 0) {
		if (waitpid(server, NULL, WNOHANG) != 0)
			exit(1);
		usleep(1000);
	}
}

static void open_connections(unsigned n)
{
	struct linger reset = { 1, 0 };
	struct epoll_event e = { .events = EPOLLIN };
	int one = 1;

	connections = calloc(n, sizeof *connections);
	busy = calloc(n, 1);
	epoll = epoll_create1(0);
	for (unsigned i = 0; i < n; i++) {
		struct sockaddr_in from = { .sin_family = AF_INET }, to = from;
		int fd = socket(AF_INET, SOCK_STREAM, 0);

		/* An address has about 28,000 ports, but there are many addresses. */
		from.sin_addr.s_addr = htonl(INADDR_LOOPBACK + 1 + i / 20000);
		to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
		to.sin_port = htons((uint16_t)SEEN(shared->port));
		if (fd < 0)
			die("socket");
		setsockopt(fd, IPPROTO_IP, IP_BIND_ADDRESS_NO_PORT, &one, sizeof one);
		setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
		/* Leaves nothing behind for the next run to wait for. */
		setsockopt(fd, SOL_SOCKET, SO_LINGER, &reset, sizeof reset);
		if (bind(fd, (struct sockaddr *)&from, sizeof from) != 0 ||
		    connect(fd, (struct sockaddr *)&to, sizeof to) != 0)
			die("connect");
		e.data.u32 = i;
		if (epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &e) != 0)
			die("epoll_ctl");
		connections[i] = fd;
		while (i + 1 - ALL(accepted) > 1000)
			usleep(100);
	}
	while (ALL(accepted) < n)
		usleep(100);
}

static void request(struct rng *r, unsigned talking)
{
	static const char text[MESSAGE];
	uint64_t i;

	do
		i = below(r, talking);
	while (busy[i]);
	busy[i] = 1;
	if (write(connections[i], text, MESSAGE) != MESSAGE)
		die("write");
}

static unsigned reply(uint32_t i)
{
	char text[MESSAGE];

	/* A reply is small enough to come in one piece over the loopback. */
	if (read(connections[i], text, MESSAGE) != MESSAGE)
		die("read");
	busy[i] = 0;
	return 1;
}

/* Requests on the first @talking connections, for @length seconds. */
static void talk(unsigned talking, double length)
{
	static struct rng r = { SEED };
	struct epoll_event events[WINDOW];
	unsigned under_way = 0, window = talking < 2 * WINDOW ? talking / 2 : WINDOW;
	double end = wall() + length;

	if (talking == 0) {
		usleep((useconds_t)(length * 1e6));
		return;
	}
	do {
		int n;

		while (under_way < window && wall() < end) {
			request(&r, talking);
			under_way++;
		}
		n = under_way ? epoll_wait(epoll, events, WINDOW, -1) : 0;
		for (int i = 0; i < n; i++)
			under_way -= reply(events[i].data.u32);
	} while (under_way > 0 || wall() < end);
}

static void figure_of(const char *name, const char *mix, double value)
{
	char text[64];

	snprintf(text, sizeof text, "%s@%s", name, mix);
	figure(text, value);
}

static void measure(const char *mix, unsigned talking, double length)
{
	static int64_t late[LATES];
	uint64_t requests, expired, first, n, samples[3];
	double processor, slept, begin;

	talk(talking, 0.3);
	requests = ALL(requests);
	slept = sleeps();
	expired = ALL(expired);
	first = SEEN(shared->loops[0].expired);
	for (int i = 0; i < 3; i++)
		samples[i] = SEEN(seen[i]);
	processor = used();
	begin = wall();
	talk(talking, length);
	processor = used() - processor;
	length = wall() - begin;
	requests = ALL(requests) - requests;
	for (int i = 0; i < 3; i++)
		samples[i] = SEEN(seen[i]) - samples[i];
	if (requests > 0) {
		figure_of("request", mix, processor * 1e9 / (double)requests);
		figure_of("requests", mix, (double)requests / length);
	}
	figure_of("processor", mix, processor * 1e6 / length);
	figure_of("wakeups", mix, (sleeps() - slept) / length);
	if (samples[SERVING] + samples[IN_TIMERS] > 0) {
		double share = (double)samples[IN_TIMERS] /
			       (double)(samples[SERVING] + samples[IN_TIMERS]);

		figure_of("share", mix, 100 * share);
		if (requests > 0)
			figure_of("timers", mix, share * processor * 1e9 / (double)requests);
	}
	figure_of("expired", mix, (double)(ALL(expired) - expired) / length);
	n = SEEN(shared->loops[0].expired) - first;
	if (n == 0 || n > LATES)
		return;
	for (uint64_t i = 0; i < n; i++)
		late[i] = shared->late[(first + i) % LATES];
	qsort(late, n, sizeof *late, ascending);
	figure_of("least", mix, (double)late[0]);
	figure_of("p50", mix, (double)late[n / 2]);
	figure_of("p99", mix, (double)late[n * 99 / 100]);
}

int main(int argc, char **argv)
{
	static const struct { const char *name; unsigned mille; } mixes[] = {
		{ "0", 0 }, { "10", 100 }, { "100", 1000 },
	};
	struct rlimit files;
	double user, kernel, user_then, kernel_then, length;
	rlim_t each;
	unsigned n;
	pthread_t id;

	if (argc != 5 && argc != 6)
		return 2;
	if (argc == 6)
		loops = (unsigned)atoi(argv[5]);
	n = (unsigned)atoi(argv[2]);
	length = atof(argv[3]);
	each = (rlim_t)atoi(argv[4]);
	pin(1);
	getrlimit(RLIMIT_NOFILE, &files);
	/* Only a privileged user may raise the hard limit. */
	if (files.rlim_max < each * n + OTHER_FILES)
		setrlimit(RLIMIT_NOFILE, &(struct rlimit){ each * n + OTHER_FILES,
							     each * n + OTHER_FILES });
	getrlimit(RLIMIT_NOFILE, &files);
	files.rlim_cur = files.rlim_max;
	setrlimit(RLIMIT_NOFILE, &files);
	if (n > (files.rlim_max - OTHER_FILES) / each)
		n = (unsigned)((files.rlim_max - OTHER_FILES) / each);
	start(argv[1]);
	memory_of(&user, &kernel);
	open_connections(n);
	memory_of(&user_then, &kernel_then);
	figure("connections", n);
	figure("user", (user_then - user) / n);
	figure("kernel", (kernel_then - kernel) / n);
	start_thread(&id, sampler, NULL);
	for (size_t i = 0; i < sizeof mixes / sizeof *mixes; i++)
		measure(mixes[i].name, (unsigned)((uint64_t)n * mixes[i].mille / 1000), length);
	for (unsigned i = 0; i < n; i++)
		close(connections[i]);
	kill(server, SIGTERM);
	waitpid(server, NULL, 0);
	fflush(stdout);
	_exit(0);
}
