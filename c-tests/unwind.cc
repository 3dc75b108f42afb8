// An exception that leaves a callback ends the process, wherever that runs, and
// whatever the caller would catch. So does the end of the thread. A line says why.
#include <cstdlib>
#include <csignal>
#include <cstdio>
#include <stdexcept>
#include <string>
#include <pthread.h>
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

static void leaver(hwheel *, const hwheel_event *)
{
	pthread_exit(nullptr);
}

static void cancelled(hwheel *, const hwheel_event *)
{
	pthread_cancel(pthread_self());
	pthread_testcancel();
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
static void advance_with(hwheel_executor_fn executor, hwheel_fn callback)
{
	hwheel_options o = {};

	o.clock = HWHEEL_CLOCK_MANUAL;
	o.executor = executor;
	hwheel *w = make(o);
	must(hwheel_once(w, 1, callback, 0, 0, nullptr));
	try {
		hwheel_advance(w, 2000000, nullptr, 0, NULL);
	} catch (const std::exception &) {
		_exit(3);
	}
}

static void start_with(uint32_t workers, hwheel_fn callback)
{
	hwheel_options o = {};

	o.workers = workers;
	hwheel *w = make(o);
	must(hwheel_once(w, 1, callback, 0, 0, nullptr));
	must(hwheel_start(w));
	sleep(5);
}

static void in_advance(hwheel_fn callback) { advance_with(nullptr, callback); }
static void in_executor(hwheel_fn callback) { advance_with(throwing_executor, callback); }
static void in_thread(hwheel_fn callback) { start_with(0, callback); }
static void in_worker(hwheel_fn callback) { start_with(1, callback); }

// What the process prints to standard error before it ends by a signal, or in another way.
static std::string last_words(void (*run)(hwheel_fn), hwheel_fn callback, int *status)
{
	std::string words;
	char some[512];
	int fds[2];
	ssize_t n;

	if (pipe(fds) != 0)
		abort();
	pid_t child = fork();
	if (child == 0) {
		dup2(fds[1], 2);
		close(fds[0]);
		close(fds[1]);
		run(callback);
		_exit(1);
	}
	close(fds[1]);
	while ((n = read(fds[0], some, sizeof some)) > 0)
		words.append(some, n);
	close(fds[0]);
	waitpid(child, status, 0);
	return words;
}

int main()
{
	static const char thrown[] = "from the callback";
	static const char left[] = "hwheel: pthread_exit() or pthread_cancel() in a callback\n";
	static const struct {
		const char *name;
		void (*run)(hwheel_fn callback);
		hwheel_fn callback;
		const char *says;
	} tests[] = {
		{ "an_exception_in_advance_ends_the_process", in_advance, thrower, thrown },
		{ "an_exception_in_the_tick_thread_ends_the_process", in_thread, thrower, thrown },
		{ "an_exception_in_a_worker_ends_the_process", in_worker, thrower, thrown },
		{ "an_exception_in_the_executor_ends_the_process", in_executor, thrower,
		  "from the executor" },
		{ "pthread_exit_in_advance_ends_the_process", in_advance, leaver, left },
		{ "pthread_exit_in_the_tick_thread_ends_the_process", in_thread, leaver, left },
		{ "pthread_exit_in_a_worker_ends_the_process", in_worker, leaver, left },
		{ "pthread_cancel_in_advance_ends_the_process", in_advance, cancelled, left },
		{ "pthread_cancel_in_the_tick_thread_ends_the_process", in_thread, cancelled,
		  left },
	};
	int number = 0, failed = 0;

	std::setvbuf(stdout, nullptr, _IOLBF, 0);
	std::printf("KTAP version 1\n1..%zu\n", sizeof tests / sizeof *tests);
	for (const auto &test : tests) {
		int status = 0;
		std::string words = last_words(test.run, test.callback, &status);
		bool ended = WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT &&
			     words.find(test.says) != std::string::npos;
		if (!ended)
			std::printf("# status %x, said %s\n", status, words.c_str());
		failed += !ended;
		std::printf("%sok %d %s\n", ended ? "" : "not ", ++number, test.name);
	}
	return failed != 0;
}
