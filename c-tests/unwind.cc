// An exception that leaves a callback ends the process, wherever that runs, and
// whatever the caller would catch.
#include <cstdlib>
#include <csignal>
#include <cstdio>
#include <stdexcept>
#include <sys/wait.h>
#include <unistd.h>
#include <hwheel.h>

static void must(int result)
{
	if (result < 0)
		abort();
}

static void thrower(hwheel *, const hwheel_event *)
{
	throw std::runtime_error("from the callback");
}

static void throwing_executor(hwheel *, void *)
{
	throw std::runtime_error("from the executor");
}

static hwheel *make(hwheel_options o)
{
	hwheel *w = nullptr;

	o.size = sizeof o;
	if (hwheel_create(&o, &w) != 0)
		_exit(2);
	return w;
}

/* A manual wheel: what the caller of hwheel_advance() would catch. */
static void advance_with(hwheel_executor_fn executor)
{
	hwheel_options o = {};

	o.clock = HWHEEL_CLOCK_MANUAL;
	o.executor = executor;
	hwheel *w = make(o);
	must(hwheel_once(w, 1, thrower, 0, 0, nullptr));
	try {
		hwheel_advance(w, 2000000, nullptr, 0, NULL);
	} catch (const std::exception &) {
		_exit(3);
	}
}

static void start_with(uint32_t workers)
{
	hwheel_options o = {};

	o.workers = workers;
	hwheel *w = make(o);
	must(hwheel_once(w, 1, thrower, 0, 0, nullptr));
	must(hwheel_start(w));
	sleep(5);
}

static void advance() { advance_with(nullptr); }
static void executor() { advance_with(throwing_executor); }
static void tick_thread() { start_with(0); }
static void worker() { start_with(1); }

int main()
{
	static const struct {
		const char *name;
		void (*run)();
	} tests[] = {
		{ "an_exception_in_advance_ends_the_process", advance },
		{ "an_exception_in_the_tick_thread_ends_the_process", tick_thread },
		{ "an_exception_in_a_worker_ends_the_process", worker },
		{ "an_exception_in_the_executor_ends_the_process", executor },
	};
	int number = 0, failed = 0;

	std::setvbuf(stdout, nullptr, _IOLBF, 0);
	std::printf("KTAP version 1\n1..4\n");
	for (const auto &test : tests) {
		int status = 0;
		pid_t child = fork();

		if (child == 0) {
			test.run();
			_exit(1);
		}
		waitpid(child, &status, 0);
		bool ended = WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT;
		if (!ended)
			std::printf("# status %x\n", status);
		failed += !ended;
		std::printf("%sok %d %s\n", ended ? "" : "not ", ++number, test.name);
	}
	return failed != 0;
}
