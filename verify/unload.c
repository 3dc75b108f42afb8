/* The library is loaded, unloaded and loaded again, with threads about. */
#include <dlfcn.h>
#include <pthread.h>
#include <stdatomic.h>
#include "ktap.h"

static __typeof__(hwheel_create) *create;
static __typeof__(hwheel_start) *start;
static __typeof__(hwheel_once) *once;
static __typeof__(hwheel_destroy) *destroy;

static void *load(void)
{
	void *library = dlopen(LIBRARY, RTLD_NOW | RTLD_LOCAL);

	CHECK(library != NULL);
	/* the way that POSIX shows to make a function of an object pointer */
	*(void **)&create = dlsym(library, "hwheel_create");
	*(void **)&start = dlsym(library, "hwheel_start");
	*(void **)&once = dlsym(library, "hwheel_once");
	*(void **)&destroy = dlsym(library, "hwheel_destroy");
	CHECK(create != NULL && start != NULL && once != NULL &&
	      destroy != NULL);
	return library;
}

static atomic_int calls;

static void count(struct hwheel *w, const struct hwheel_event *e)
{
	(void)w;
	(void)e;
	atomic_fetch_add(&calls, 1);
}

static atomic_int has_armed, may_end;

static void *arm_and_stay(void *w)
{
	atomic_store(&has_armed, once(w, 0, count, 0, 0, NULL) == 0);
	while (!atomic_load(&may_end))
		ktap_sleep_ms(1);
	return NULL;
}

TEST(a_thread_that_used_it_ends_after_it_was_closed)
{
	for (int i = 1; i <= 10; i++) {
		void *library = load();
		struct hwheel *w = NULL;
		pthread_t thread;

		atomic_store(&has_armed, 0);
		atomic_store(&may_end, 0);
		CHECK_EQ(create(NULL, &w), 0);
		CHECK_EQ(start(w), 0);
		CHECK_EQ(pthread_create(&thread, NULL, arm_and_stay, w), 0);
		ktap_until(&has_armed, 1);
		ktap_until(&calls, i);
		CHECK_EQ(atomic_load(&calls), i);
		CHECK_EQ(destroy(w), 0);
		CHECK_EQ(dlclose(library), 0);
		atomic_store(&may_end, 1);
		CHECK_EQ(pthread_join(thread, NULL), 0);
	}
}

TEST(closed_while_a_wheel_ticks_it_goes_on)
{
	void *library = load();
	struct hwheel *w = NULL;
	int before = atomic_load(&calls);

	CHECK_EQ(create(NULL, &w), 0);
	CHECK_EQ(start(w), 0);
	CHECK_EQ(once(w, 50 * MS, count, 0, 0, NULL), 0);
	CHECK_EQ(dlclose(library), 0);
	ktap_until(&calls, before + 1);
	/* it is still there: what was found before may still be called */
	CHECK(dlopen(LIBRARY, RTLD_NOW | RTLD_NOLOAD) != NULL);
	CHECK_EQ(destroy(w), 0);
	CHECK_EQ(atomic_load(&calls), before + 1);
}
