/* Signals that belong to a callback reach the program's handlers. */
#include <sys/time.h>
#include "child.h"

static const int own[] = { SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGSYS };

static void leave(int signal)
{
	_exit(signal);
}

static void raise_it(struct hwheel *w, const struct hwheel_event *e)
{
	/* as the processor does: to this thread, at once, and not to be blocked */
	if (e->cookie == SIGSEGV)
		*(volatile int *)(uintptr_t)(e->cookie - SIGSEGV) = 1;
	raise((int)e->cookie);
}

static int signal_to_raise;
static uint32_t workers;

static void crash(void)
{
	struct sigaction action = { .sa_handler = leave };
	struct hwheel *w = MADE(.workers = workers);

	CHECK_EQ(sigaction(signal_to_raise, &action, NULL), 0);
	CHECK_EQ(hwheel_start(w), 0);
	CHECK_EQ(hwheel_once(w, 0, raise_it, (uint64_t)signal_to_raise, 0, NULL), 0);
	ktap_sleep_ms(5000);
	_exit(255);
}

static void crash_in(uint32_t threads)
{
	workers = threads;
	for (size_t i = 0; i < COUNT(own); i++) {
		int status;

		signal_to_raise = own[i];
		status = status_of(start_child(crash));
		CHECK(WIFEXITED(status));
		CHECK_EQ(WEXITSTATUS(status), own[i]);
	}
}

TEST_OF(the_handler_runs_for_a_fault_in_the_tick_thread, crash_in(0))
TEST_OF(the_handler_runs_for_a_fault_in_a_worker, crash_in(1))

static atomic_int samples;
static pthread_t callback_thread;
static atomic_int inside;

static void sample(int signal)
{
	if (atomic_load(&inside) && pthread_equal(pthread_self(), callback_thread))
		atomic_fetch_add(&samples, 1);
}

/* Works until the profiler has seen it. */
static void work(struct hwheel *w, const struct hwheel_event *e)
{
	uint64_t end = ktap_clock() + 20 * SEC;

	callback_thread = pthread_self();
	atomic_store(&inside, 1);
	while (ktap_clock() < end && atomic_load(&samples) < 3)
		;
	atomic_store(&inside, 2);
}

CHILD_TEST(a_profiler_sees_callbacks)
{
	struct itimerval each = { { 0, 1000 }, { 0, 1000 } };
	struct sigaction action = { .sa_handler = sample, .sa_flags = SA_RESTART };
	WHEEL w = ktap_started(NULL);

	CHECK_EQ(sigaction(SIGPROF, &action, NULL), 0);
	CHECK_EQ(setitimer(ITIMER_PROF, &each, NULL), 0);
	CHECK_EQ(hwheel_once(w, 0, work, 0, 0, NULL), 0);
	while (atomic_load(&inside) != 2)
		ktap_sleep_ms(1);
	CHECK(atomic_load(&samples) >= 3);
	CHECK_EQ(hwheel_stop(w), 0);
}
