/*
 * A GLib main loop drives the wheel, together with its own timers. One GSource stands for
 * all timers of the wheel. Its ready time is the time at which the wheel wants to be polled,
 * and the wake function sets the ready time to 0. The loop's thread owns the wheel: after it
 * has armed timers, it calls wake() itself. Messages of other threads call it.
 */
#define _DEFAULT_SOURCE
#include "compare.h"
#include <glib.h>
#include <stdatomic.h>

static struct comparison comparison;
static struct hwheel *wheel;
static GMainLoop *loop;
static atomic_int woken;

static void wake(struct hwheel *w, void *source)
{
	(void)w;
	atomic_store(&woken, 1);
	g_source_set_ready_time(source, 0);
}

static gboolean drive(GSource *source, GSourceFunc unused, gpointer data)
{
	uint64_t next_ns;

	(void)unused;
	(void)data;
	/* A thread may wake the loop after the poll: its ready time must not be lost. */
	do {
		atomic_store(&woken, 0);
		if (compare_poll(&comparison, wheel, &next_ns))
			g_main_loop_quit(loop);
		g_source_set_ready_time(source, next_ns == HWHEEL_NEVER ? -1 :
					(gint64)(next_ns / 1000 + (next_ns % 1000 != 0)));
	} while (atomic_load(&woken));
	return G_SOURCE_CONTINUE;
}

static gboolean own_timer(gpointer number)
{
	if (compare_fired(&comparison, &comparison.loop, GPOINTER_TO_UINT(number)))
		g_main_loop_quit(loop);
	return G_SOURCE_REMOVE;
}

static gboolean give_up(gpointer unused)
{
	(void)unused;
	g_main_loop_quit(loop);
	return G_SOURCE_REMOVE;
}

int main(void)
{
	static GSourceFuncs functions = { .dispatch = drive };
	struct hwheel_options options = { .size = sizeof options, .wake = wake, .owned = 1 };
	GSource *source = g_source_new(&functions, sizeof(GSource));
	GThread *thread;

	options.wake_arg = source;
	if (hwheel_create(&options, &wheel))
		return 1;
	loop = g_main_loop_new(NULL, FALSE);
	g_source_attach(source, NULL);
	g_source_set_ready_time(source, 0); /* the first poll */
	compare_begin(&comparison, "GLib");
	comparison.loop.any_order = 1; /* of what is due, the source that was added first */
	for (unsigned i = 0; i < TIMERS; i++)
		g_timeout_add(comparison.delay_ms[i], own_timer, GUINT_TO_POINTER(i));
	g_timeout_add(GIVE_UP_MS, give_up, NULL);
	comparison.to_arm = wheel;
	thread = g_thread_new("arms", compare_arm, &comparison);
	g_main_loop_run(loop);
	g_thread_join(thread);

	g_source_destroy(source);
	g_source_unref(source);
	g_main_loop_unref(loop);
	return compare_end(&comparison) || hwheel_destroy(wheel);
}
