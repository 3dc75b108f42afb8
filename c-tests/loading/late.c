/*
 * Loads the library as plug-ins and language runtimes do: after threads have started, again
 * after a dlclose(), and into a namespace; and closes it while it is in use.
 *
 * late <library> [<directory>]	with a directory it first loads 1.so, 2.so, ... from there, until
 *				static thread-local memory is used up
 */
#include <dlfcn.h>
#include <pthread.h>
#include <stdatomic.h>
static int begin(int argc, char **argv);
#define KTAP_BEGIN begin
#include "../ktap.h"

#define LIBRARIES 80

static const char *library, *directory;
static __typeof__(hwheel_create) *create;
static __typeof__(hwheel_timer_setup) *timer_setup;
static __typeof__(hwheel_timer_mod) *timer_mod;
static __typeof__(hwheel_timer_delete) *timer_cancel;
static __typeof__(hwheel_start) *start;
static __typeof__(hwheel_once) *once;
static __typeof__(hwheel_destroy) *destroy;

/* the way that POSIX shows to make a function of an object pointer */
#define FIND(handle, name) \
	CHECK((*(void **)&(name) = dlsym(handle, "hwheel_" #name)) != NULL)

static void find(void *handle)
{
	if (handle == NULL)
		printf("# %s\n", dlerror());
	CHECK(handle != NULL);
	FIND(handle, create);
	FIND(handle, timer_setup);
	FIND(handle, timer_mod);
	CHECK((*(void **)&timer_cancel = dlsym(handle, "hwheel_timer_delete")) != NULL);
	FIND(handle, start);
	FIND(handle, once);
	FIND(handle, destroy);
}

static void *opened(void)
{
	void *handle = dlopen(library, RTLD_NOW | RTLD_LOCAL);

	find(handle);
	return handle;
}

static struct hwheel *wheel;

static void make(void)
{
	CHECK_EQ(create(NULL, &wheel), 0);
}

/* each thread has its words: it arms and cancels a thousand times */
static void *use(void *unused)
{
	hwheel_timer_t timer;

	CHECK_EQ(timer_setup(wheel, NULL, 0, &timer), 0);
	for (int i = 0; i < 1000; i++) {
		CHECK_EQ(timer_mod(wheel, timer, (1 + i) * MS * 1000, 0), 0);
		CHECK_EQ(timer_cancel(wheel, timer), 1);
	}
	return unused;
}

static atomic_int calls;

static void count(struct hwheel *w, const struct hwheel_event *e)
{
	atomic_fetch_add(&calls, 1);
}

static void works(void)
{
	pthread_t threads[4];
	int before = atomic_load(&calls);

	make();
	use(NULL);
	ktap_begin(threads, 4, use, NULL);
	ktap_end(threads, 4);
	CHECK_EQ(start(wheel), 0);
	CHECK_EQ(once(wheel, 0, count, 0, 0, NULL), 0);
	ktap_until(&calls, before + 1);
	CHECK_EQ(atomic_load(&calls), before + 1);
	CHECK_EQ(destroy(wheel), 0);
}

/* A thread that is there before the library. */
static pthread_barrier_t loaded;

static void *use_when_loaded(void *unused)
{
	pthread_barrier_wait(&loaded);
	return use(unused);
}

TEST(threads_that_came_first_use_it)
{
	void *handle;

	pthread_barrier_init(&loaded, NULL, 2);
	pthread_t thread = ktap_thread(use_when_loaded, NULL);
	handle = opened();
	make();
	pthread_barrier_wait(&loaded);
	ktap_join(thread);
	CHECK_EQ(destroy(wheel), 0);
	works();
	CHECK_EQ(dlclose(handle), 0);
}

TEST(it_is_closed_and_loaded_again)
{
	void *handle = dlopen(library, RTLD_LAZY | RTLD_GLOBAL);

	find(handle);
	for (int i = 0; i < 3; i++) {
		works();
		CHECK_EQ(dlclose(handle), 0);
		handle = opened();
	}
	works();
	CHECK_EQ(dlclose(handle), 0);
}

static atomic_int has_armed, may_end;

static void *arm_and_stay(void *unused)
{
	atomic_store(&has_armed, once(wheel, 0, count, 0, 0, NULL) == 0);
	while (!atomic_load(&may_end))
		ktap_sleep_ms(1);
	return unused;
}

TEST(a_thread_that_used_it_ends_after_it_was_closed)
{
	for (int before = atomic_load(&calls), i = 1; i <= 10; i++) {
		void *handle = opened();

		has_armed = may_end = 0;
		make();
		CHECK_EQ(start(wheel), 0);
		pthread_t thread = ktap_thread(arm_and_stay, NULL);
		ktap_until(&has_armed, 1);
		ktap_until(&calls, before + i);
		CHECK_EQ(atomic_load(&calls), before + i);
		CHECK_EQ(destroy(wheel), 0);
		CHECK_EQ(dlclose(handle), 0);
		atomic_store(&may_end, 1);
		ktap_join(thread);
	}
}

TEST(closed_while_a_wheel_ticks_it_goes_on)
{
	void *handle = opened();
	int before = atomic_load(&calls);

	make();
	CHECK_EQ(start(wheel), 0);
	CHECK_EQ(once(wheel, 50 * MS, count, 0, 0, NULL), 0);
	CHECK_EQ(dlclose(handle), 0);
	ktap_until(&calls, before + 1);
	/* it is still there: functions that were found before may be called */
	CHECK(dlopen(library, RTLD_NOW | RTLD_NOLOAD) != NULL);
	CHECK_EQ(destroy(wheel), 0);
	CHECK_EQ(atomic_load(&calls), before + 1);
}

/* The last libraries take 8 bytes each: less than the library. */
static int uses_up_static_memory(void)
{
	char path[4096];
	int found = 0, last = 0;

	for (int i = 1; i <= LIBRARIES; i++) {
		snprintf(path, sizeof path, "%s/%d.so", directory, i);
		last = dlopen(path, RTLD_NOW) != NULL;
		found += last;
	}
	printf("# %d of %d libraries found static thread-local memory\n", found, LIBRARIES);
	return !last;
}

TEST(it_works_in_a_namespace)
{
#ifdef LM_ID_NEWLM
	void *second, *created;

	if (directory != NULL)
		SKIP("the C library of a namespace needs static thread-local memory");
	opened();
	works();
	created = *(void **)&create;
	second = dlmopen(LM_ID_NEWLM, library, RTLD_NOW | RTLD_LOCAL);
	find(second);
	works();
	CHECK(created != *(void **)&create);
	CHECK_EQ(dlclose(second), 0);
	works();
#else
	SKIP("this C library has no dlmopen()");
#endif
}

static int begin(int argc, char **argv)
{
	if (argc < 2)
		return 1;
	library = argv[1];
	directory = argc > 2 ? argv[2] : NULL;
	if (directory != NULL && !uses_up_static_memory()) {
		puts("not ok: static thread-local memory is not used up");
		return 1;
	}
	return 0;
}
