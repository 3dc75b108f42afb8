/*
 * Inside of the caller's functions: a callback, the executor, and the function that wakes the
 * loop. Each of them, called from each place, makes every call of the library. The calls that
 * the table in hwheel.h allows do what they do elsewhere. The others are refused, and change
 * nothing.
 */
#include "events.h"

/* A check inside of the library cannot leave it: the first one that fails is kept. */
static char why[256];
#define EXPECT(cond) do { \
	if (!(cond) && why[0] == 0) \
		snprintf(why, sizeof why, "%s:%d: %s", __FILE__, __LINE__, #cond); \
} while (0)

static struct hwheel_options options;
/* The timer whose callback or arm calls the function. */
static hwheel_timer_t timer;
static const char *key;
/* How often each function was called, and the timers that it has left behind have fired. */
static atomic_int callbacks, executors, wakes, marks;
/* The calling thread drives. */
static _Thread_local int drives;
/* A worker holds this while its callback compares the manual clock, so that it stands still. */
static pthread_mutex_t still = PTHREAD_MUTEX_INITIALIZER;

static void mark(struct hwheel *w, const struct hwheel_event *e)
{
	marks++;
}

static int is_manual(void)
{
	return options.clock == HWHEEL_CLOCK_MANUAL;
}

static int has_queue(void)
{
	return options.executor != NULL || options.workers != 0;
}

/* Calls for one timer, from its creation to its end. */
static void use_a_timer(struct hwheel *w)
{
	hwheel_timer_t t = 0, u = 0;
	uint64_t left = 0, delay = SEC;
	int32_t was = 77;

	EXPECT(hwheel_timer_delete_sync(w, 0) == -ESTALE);
	EXPECT(hwheel_timer_shutdown_sync(w, 0) == -ESTALE);
	EXPECT(hwheel_timer_setup(w, mark, 0, &t) == 0);
	EXPECT(hwheel_timer_pending(w, t) == 0);
	EXPECT(hwheel_timer_remaining(w, t, &left) == 0 && left == 0);
	hwheel_timer_prefetch(w, t);
	EXPECT(hwheel_timer_mod(w, t, 3600 * SEC, 0) == 0);
	EXPECT(hwheel_timer_pending(w, t) == 1);
	EXPECT(hwheel_timer_remaining(w, t, &left) == 1 && left > 3599 * SEC);
	EXPECT(hwheel_timer_mod(w, t, 60 * SEC, HWHEEL_REDUCE) == 1);
	EXPECT(hwheel_timer_mod_range(w, t, 30 * SEC, SEC, 0) == 1);
	EXPECT(hwheel_timer_set_period(w, t, SEC) == 0);
	EXPECT(hwheel_timer_mod_many(w, &t, &delay, 1, 0, &was) == 1 && was == 1);
	EXPECT(hwheel_timer_remaining(w, t, &left) == 1 && left > 0 && left <= SEC + MS);
	EXPECT(hwheel_timer_delete(w, t) == 1);
	EXPECT(hwheel_timer_delete_many(w, &t, 1, &was) == 1 && was == 0);
	EXPECT(hwheel_timer_mod(w, t, SEC, HWHEEL_IF_PENDING) == 0);
	EXPECT(hwheel_timer_mod(w, t, SEC, 0) == 0);
	EXPECT(hwheel_timer_delete_sync(w, t) == 1);
	EXPECT(hwheel_timer_mod(w, t, SEC, 0) == 0);
	EXPECT(hwheel_timer_shutdown_sync(w, t) == 1);
	EXPECT(hwheel_timer_mod(w, t, SEC, 0) == -ESHUTDOWN);
	EXPECT(hwheel_timer_free(w, t) == 0);
	EXPECT(hwheel_timer_free(w, t) == -ESTALE);
	EXPECT(hwheel_once(w, SEC, mark, 0, 0, &u) == 0);
	EXPECT(hwheel_timer_shutdown(w, u) == 1);
	EXPECT(hwheel_every(w, SEC, SEC, 0, mark, 0, 0, &u) == 0);
	EXPECT(hwheel_timer_delete(w, u) == 1);
	EXPECT(hwheel_timer_pending(w, u) == -ESTALE);
}

static void use_a_key(struct hwheel *w)
{
	EXPECT(hwheel_key_set(w, "inside", 6, SEC, mark, 0, 0) == 0);
	EXPECT(hwheel_key_pending(w, "inside", 6) == 1);
	EXPECT(hwheel_key_mod(w, "inside", 6, 2 * SEC, 0) == 1);
	EXPECT(hwheel_key_set(w, "inside", 6, SEC, mark, 0, 0) == 1);
	EXPECT(hwheel_key_delete(w, "inside", 6) == 1);
	EXPECT(hwheel_key_pending(w, "inside", 6) == 0);
}

static void ask(struct hwheel *w)
{
	struct hwheel_stats s = { .size = sizeof s };
	struct hwheel_event e[8];
	uint64_t now = 0, next = 0, cursor = 0;
	int n;

	EXPECT(hwheel_now(w, &now) == 0);
	n = hwheel_next_expiry(w, &next);
	EXPECT(n == 0 || n == 1);
	EXPECT(hwheel_get_stats(w, &s) == 0);
	n = hwheel_list(w, &cursor, e, 8);
	EXPECT(n >= 0 && n < 8 && (uint64_t)n == s.pending);
	EXPECT(hwheel_version() == HWHEEL_VERSION && hwheel_version_string() != NULL);
	EXPECT(strcmp(hwheel_strerror(0), "success") == 0);
}

/* Calls that do not drive, but have to do with it. */
static void prepare_to_drive(struct hwheel *w)
{
	int has_alarm = !is_manual() && options.wake == NULL, n;
	struct hwheel *other = NULL;

	EXPECT(has_alarm ? hwheel_fd(w) >= 0 : hwheel_fd(w) == -EINVAL);
	if (!has_alarm)
		EXPECT(hwheel_start(w) == -EINVAL);
	/* Elsewhere it starts the tick thread, and then nobody may poll. */
	else if (drives)
		EXPECT(hwheel_start(w) == -EBUSY);
	n = hwheel_run_queued(w);
	EXPECT(has_queue() ? n == 0 || n == 1 : n == -EINVAL);
	EXPECT(hwheel_create(NULL, &other) == 0);
	EXPECT(hwheel_destroy(other) == 0);
}

/* Calls that are refused. */
static void do_what_is_refused(struct hwheel *w)
{
	struct hwheel_run run = { .size = sizeof run, .left = 77, .next_ns = 77 };
	struct hwheel_event e = { .cookie = 77 };

	EXPECT((is_manual() ? hwheel_advance(w, 3600 * SEC, &e, 1, &run) :
			      hwheel_poll(w, &e, 1, &run)) == -EBUSY);
	EXPECT((is_manual() ? hwheel_advance(w, 3600 * SEC, NULL, 0, NULL) :
			      hwheel_poll(w, NULL, 0, NULL)) == -EBUSY);
	EXPECT(hwheel_drain(w, &e, 1) == -EDEADLK);
	EXPECT(hwheel_stop(w) == -EDEADLK);
	EXPECT(hwheel_destroy(w) == -EDEADLK);
	EXPECT(run.left == 77 && run.next_ns == 77 && e.cookie == 77);
}

static void call_everything(struct hwheel *w)
{
	uint64_t before = 0, now = 0;

	EXPECT(hwheel_now(w, &before) == 0);
	ask(w);
	use_a_timer(w);
	use_a_key(w);
	do_what_is_refused(w);
	prepare_to_drive(w);
	/* It was not drained, and the clock was not moved. */
	EXPECT(hwheel_once(w, MS, mark, 0, 0, NULL) == 0);
	EXPECT(hwheel_now(w, &now) == 0 && (is_manual() ? now == before : now >= before));
}

/* Its timer has fired: it is not pending, and may be armed again. */
static void callback(struct hwheel *w, const struct hwheel_event *e)
{
	if (++callbacks > 1)
		return;
	EXPECT(e->timer == timer);
	EXPECT(hwheel_timer_pending(w, timer) == 0);
	EXPECT(hwheel_timer_delete_sync(w, timer) == -EDEADLK);
	EXPECT(hwheel_timer_shutdown_sync(w, timer) == -EDEADLK);
	call_everything(w);
	EXPECT(hwheel_timer_mod(w, timer, 2 * MS, 0) == 0);
	EXPECT(hwheel_timer_pending(w, timer) == 1);
}

/* One with a period is pending for the next one. */
static void periodic_callback(struct hwheel *w, const struct hwheel_event *e)
{
	if (++callbacks > 1)
		return;
	EXPECT(hwheel_timer_pending(w, e->timer) == 1);
	call_everything(w);
	EXPECT(hwheel_timer_delete(w, e->timer) == 1);
}

/* The callback is queued. The first call runs it here, the others leave that to the test. */
static void executor(struct hwheel *w, void *arg)
{
	struct hwheel_stats s = { .size = sizeof s };

	EXPECT(arg == &options);
	if (++executors > 1)
		return;
	EXPECT(hwheel_get_stats(w, &s) == 0 && s.queued == 1);
	EXPECT(hwheel_timer_pending(w, timer) == 0);
	call_everything(w);
	/* hwheel_run_queued() among these calls has run it. */
	EXPECT(callbacks == 1);
}

static void quiet_executor(struct hwheel *w, void *arg)
{
	executors++;
}

/* The timer is pending already. */
static void wake(struct hwheel *w, void *arg)
{
	EXPECT(arg == &options);
	if (++wakes > 1)
		return;
	if (key != NULL)
		EXPECT(hwheel_key_pending(w, key, (uint32_t)strlen(key)) == 1);
	else if (timer != 0)
		EXPECT(hwheel_timer_pending(w, timer) == 1);
	call_everything(w);
}

/* Makes a wheel with these functions and workers, or with none of them. */
static struct hwheel *make(uint32_t clock, hwheel_executor_fn executor, uint32_t workers,
			   hwheel_wake_fn wake)
{
	why[0] = 0;
	timer = 0;
	key = NULL;
	callbacks = executors = wakes = marks = 0;
	options = (struct hwheel_options){
		.size = sizeof options, .clock = clock, .workers = workers,
		.executor = executor, .executor_arg = executor != NULL ? &options : NULL,
		.wake = wake, .wake_arg = wake != NULL ? &options : NULL,
	};
	return ktap_made(&options);
}

/* Drives the wheel for a millisecond of its clock. */
static void drive(struct hwheel *w)
{
	int n;

	drives = 1;
	if (is_manual()) {
		pthread_mutex_lock(&still);
		n = hwheel_advance(w, ktap_now(w) + MS, NULL, 0, NULL);
		pthread_mutex_unlock(&still);
	} else {
		n = hwheel_poll(w, NULL, 0, NULL);
	}
	CHECK_EQ(n, 0);
	drives = 0;
	if (!is_manual() || options.workers != 0)
		ktap_sleep_ms(1);
}

/* Until these numbers of callbacks, and of timers that were left behind, have come. */
static void drive_until(struct hwheel *w, int n_callbacks, int n_marks)
{
	for (int i = 0; i < 10000 && (callbacks < n_callbacks || marks < n_marks); i++)
		drive(w);
	/* No more. */
	for (int i = 0; i < 5; i++)
		drive(w);
	CHECK_EQ(callbacks, n_callbacks);
	CHECK_EQ(marks, n_marks);
}

/* Every check inside has passed, and the wheel still works. */
static void end(struct hwheel *w)
{
	if (why[0] != 0) {
		snprintf(ktap_why, sizeof ktap_why, "%s", why);
		ktap_fail();
	}
	if (w == NULL)
		return;
	CHECK_EQ(hwheel_timer_free(w, ktap_armed(w, mark, 0, SEC)), 1);
	CHECK_EQ(hwheel_destroy(w), 0);
}

/* A test with a wheel of each clock up to @last, and with these functions and workers. */
#define CLOCKS_TEST(name, last, ...) \
	static void name##_with(struct hwheel *w); \
	TEST(name) \
	{ \
		for (uint32_t clock = 0; clock <= (last); clock++) { \
			struct hwheel *w = make(clock, __VA_ARGS__); \
\
			name##_with(w); \
			end(w); \
		} \
	} \
	static void name##_with(struct hwheel *w)

CLOCKS_TEST(in_a_callback_of_a_call_that_drives, HWHEEL_CLOCK_MANUAL, NULL, 0, NULL)
{
	hwheel_timer_t periodic;

	timer = ktap_armed(w, callback, 0, MS);
	drive_until(w, 2, 1);
	end(NULL);
	callbacks = 0;
	CHECK_EQ(hwheel_every(w, MS, MS, 0, periodic_callback, 0, 0, &periodic), 0);
	drive_until(w, 1, 2);
}

/* It drives, so hwheel_start() is refused. */
static void tick_thread_callback(struct hwheel *w, const struct hwheel_event *e)
{
	drives = 1;
	callback(w, e);
}

CLOCKS_TEST(in_a_callback_of_the_tick_thread, HWHEEL_CLOCK_REALTIME, NULL, 0, NULL)
{
	timer = ktap_armed(w, tick_thread_callback, 0, 10 * MS);
	CHECK_EQ(hwheel_start(w), 0);
	ktap_until(&callbacks, 2);
	ktap_until(&marks, 1);
	CHECK_EQ(hwheel_stop(w), 0);
}

static void worker_callback(struct hwheel *w, const struct hwheel_event *e)
{
	pthread_mutex_lock(&still);
	callback(w, e);
	pthread_mutex_unlock(&still);
}

CLOCKS_TEST(in_a_callback_of_a_worker, HWHEEL_CLOCK_MANUAL, NULL, 2, NULL)
{
	timer = ktap_armed(w, worker_callback, 0, MS);
	drive_until(w, 2, 1);
}

/* A callback that waits in the queue, of a wheel without a thread for it. */
static struct hwheel *queue(hwheel_wake_fn wake)
{
	struct hwheel *w = make(HWHEEL_CLOCK_MANUAL, quiet_executor, 0, wake);

	timer = ktap_armed(w, callback, 0, MS);
	for (int i = 0; i < 5; i++)
		drive(w);
	CHECK_EQ(executors, 1);
	CHECK_EQ(callbacks, 0);
	return w;
}

TEST(in_a_callback_of_run_queued_and_of_stop)
{
	for (int stops = 0; stops < 2; stops++) {
		struct hwheel *w = queue(NULL);

		if (stops)
			CHECK_EQ(hwheel_stop(w), 0);
		else
			CHECK_EQ(hwheel_run_queued(w), 1);
		CHECK_EQ(callbacks, 1);
		end(NULL);
		for (int i = 0; i < 5; i++)
			drive(w);
		CHECK_EQ(hwheel_stop(w), 0);
		CHECK_EQ(callbacks, 2);
		CHECK_EQ(marks, 1);
		end(w);
	}
}

static void quiet_wake(struct hwheel *w, void *arg)
{
	wakes++;
}

TEST(in_a_callback_of_destroy)
{
	struct hwheel *w = queue(quiet_wake);

	CHECK_EQ(drive_to(w, 6 * MS), HWHEEL_NEVER);
	wakes = 0;
	CHECK_EQ(hwheel_destroy(w), 0);
	CHECK_EQ(wakes, 0);
	CHECK_EQ(callbacks, 1);
	end(NULL);
	/* Pending timers do not fire. */
	CHECK_EQ(marks, 0);
}

static void start(struct hwheel *w, const struct hwheel_event *e)
{
	callbacks++;
	EXPECT(hwheel_start(w) == 0);
	EXPECT(hwheel_start(w) == -EBUSY);
}

/* Its thread does not drive. */
TEST(a_callback_of_run_queued_starts_the_tick_thread)
{
	struct hwheel *w = make(HWHEEL_CLOCK_MONOTONIC, quiet_executor, 0, NULL);

	CHECK_EQ(hwheel_once(w, 0, start, 0, 0, NULL), 0);
	for (int i = 0; i < 10000 && executors == 0; i++)
		drive(w);
	CHECK_EQ(hwheel_run_queued(w), 1);
	CHECK_EQ(callbacks, 1);
	CHECK_EQ(hwheel_poll(w, NULL, 0, NULL), -EBUSY);
	CHECK_EQ(hwheel_stop(w), 0);
	end(w);
}

CLOCKS_TEST(in_the_executor, HWHEEL_CLOCK_MANUAL, executor, 0, NULL)
{
	timer = ktap_armed(w, callback, 0, MS);
	/* The callback runs again, and it and the executor leave a timer behind. */
	for (int i = 0; i < 10000 && executors < 4; i++)
		drive(w);
	CHECK_EQ(hwheel_stop(w), 0);
	end(NULL);
	CHECK_EQ(callbacks, 2);
	CHECK_EQ(marks, 2);
}

/* The arms that wake the loop. */
enum by { ONCE, EVERY, MOD, REDUCE, RANGE, MOD_MANY, KEY_SET, KEY_MOD, ARMS };

static void arm(struct hwheel *w, enum by by)
{
	uint64_t delay = 5 * MS;
	int got;

	timer = by <= EVERY ? 0 : ktap_timer_of(w, mark, 0);
	key = by == KEY_SET ? "key" : by == KEY_MOD ? "other key" : NULL;
	got = by == ONCE ? hwheel_once(w, delay, mark, 0, 0, NULL) :
	      by == EVERY ? hwheel_every(w, delay, HWHEEL_NEVER, 0, mark, 0, 0, NULL) :
	      by == MOD ? hwheel_timer_mod(w, timer, delay, 0) :
	      by == REDUCE ? hwheel_timer_mod(w, timer, delay, HWHEEL_REDUCE) :
	      by == RANGE ? hwheel_timer_mod_range(w, timer, delay, MS, 0) :
	      by == MOD_MANY ? hwheel_timer_mod_many(w, &timer, &delay, 1, 0, NULL) :
	      by == KEY_SET ? hwheel_key_set(w, key, 3, delay, mark, 0, 0) :
			      hwheel_key_mod(w, key, 9, delay, 0);
	CHECK_EQ(got, by == MOD_MANY || by == KEY_MOD);
}

TEST(in_the_function_that_wakes)
{
	for (uint32_t clock = 0; clock <= HWHEEL_CLOCK_MANUAL; clock++)
		for (enum by by = 0; by < ARMS; by++) {
			struct hwheel *w = make(clock, NULL, 0, wake);

			CHECK_EQ(hwheel_key_set(w, "other key", 9, 3600 * SEC, mark, 0, 0), 0);
			drive_to(w, 0);
			arm(w, by);
			end(NULL);
			CHECK_EQ(wakes, 1);
			/* That timer, and the one that the function has armed. */
			drive_until(w, 0, 2);
			end(w);
		}
}

/* A callback that arms its timer for the past, and then ends, makes it due again. */
static void arm_for_the_past(struct hwheel *w, const struct hwheel_event *e)
{
	if (++callbacks == 1)
		EXPECT(hwheel_timer_mod(w, e->timer, 0, HWHEEL_ABS) == 0);
}

TEST(in_the_function_that_wakes_at_the_end_of_a_callback)
{
	struct hwheel *w = make(HWHEEL_CLOCK_MANUAL, quiet_executor, 0, wake);

	timer = ktap_armed(w, arm_for_the_past, 0, MS);
	CHECK_EQ(drive_to(w, 5 * MS), HWHEEL_NEVER);
	CHECK_EQ(hwheel_run_queued(w), 1);
	end(NULL);
	CHECK_EQ(wakes, 1);
	for (int i = 0; i < 10; i++)
		drive(w);
	CHECK_EQ(hwheel_stop(w), 0);
	CHECK_EQ(callbacks, 2);
	CHECK_EQ(marks, 1);
	end(w);
}
