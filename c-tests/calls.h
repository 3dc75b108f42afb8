/*
 * Every function that works on a wheel, called with good arguments and with bad ones. A test checks
 * that all of them return one error: of a call without a wheel, in a forked child, or in a thread that
 * does not own the wheel.
 */
#ifndef CALLS_H
#define CALLS_H

#include "ktap.h"

/* The callback of the timers. Each program defines it. */
static void on_call(struct hwheel *w, const struct hwheel_event *e);

/*
 * The functions that only the owner may call. Each has numbered variants, and returns NO_MORE behind
 * the last one. Variant 0 has good arguments, and most others have bad ones. The calls write to the
 * variables below.
 */
enum { NO_MORE = 1000 };

static hwheel_timer_t timer, made;
static uint64_t times[2];
static int32_t results[2];
static struct hwheel_event events[2];
static struct hwheel_run bounds;

static const uint64_t too_late = UINT64_C(1) << 63;

#define VARIANTS(name, ...) \
	static int name(struct hwheel *w, int n) \
	{ \
		(void)w; \
		switch (n) { __VA_ARGS__ default: return NO_MORE; } \
	}
#define ON(n, call) case n: return (call);

VARIANTS(once, ON(0, hwheel_once(w, MS, on_call, 1, 0, &made))
	 ON(1, hwheel_once(w, too_late, on_call, 1, 0, &made))
	 ON(2, hwheel_once(w, MS, on_call, 1, 1u << 31, &made)))
VARIANTS(every, ON(0, hwheel_every(w, MS, MS, 0, on_call, 1, 0, &made))
	 ON(1, hwheel_every(w, MS, 0, 0, on_call, 1, 0, &made))
	 ON(2, hwheel_every(w, too_late, MS, 0, on_call, 1, 0, &made))
	 ON(3, hwheel_every(w, MS, MS, 0, on_call, 1, 1u << 31, NULL))
	 ON(4, hwheel_every(w, MS, MS, 0, on_call, 1, 0, NULL)))
VARIANTS(setup, ON(0, hwheel_timer_setup(w, on_call, 1, &made))
	 ON(1, hwheel_timer_setup(w, on_call, 1, NULL)))
VARIANTS(mod, ON(0, hwheel_timer_mod(w, timer, MS, 0))
	 ON(1, hwheel_timer_mod(w, timer, MS, HWHEEL_ABS))
	 ON(2, hwheel_timer_mod(w, timer, 0, 0))
	 ON(3, hwheel_timer_mod(w, timer, HWHEEL_NEVER, 0))
	 ON(4, hwheel_timer_mod(w, timer, 2 * MS, HWHEEL_REDUCE))
	 ON(5, hwheel_timer_mod(w, timer, 2 * MS, HWHEEL_IF_PENDING))
	 ON(6, hwheel_timer_mod(w, timer, too_late, 0))
	 ON(7, hwheel_timer_mod(w, timer, too_late, HWHEEL_ABS))
	 ON(8, hwheel_timer_mod(w, timer, MS, 1u << 31))
	 ON(9, hwheel_timer_mod(w, 0, MS, 0))
	 ON(10, hwheel_timer_mod(w, JUNK, MS, HWHEEL_ABS))
	 ON(11, hwheel_timer_mod(w, UINT64_MAX, MS, 0)))
VARIANTS(mod_range, ON(0, hwheel_timer_mod_range(w, timer, MS, 9 * MS, 0))
	 ON(1, hwheel_timer_mod_range(w, timer, too_late, MS, 0))
	 ON(2, hwheel_timer_mod_range(w, timer, MS, too_late, 0))
	 ON(3, hwheel_timer_mod_range(w, timer, MS, MS, 1u << 31))
	 ON(4, hwheel_timer_mod_range(w, JUNK, MS, MS, 0)))
VARIANTS(set_period, ON(0, hwheel_timer_set_period(w, timer, MS))
	 ON(1, hwheel_timer_set_period(w, timer, too_late))
	 ON(2, hwheel_timer_set_period(w, JUNK, MS)))
VARIANTS(delete, ON(0, hwheel_timer_delete(w, timer)) ON(1, hwheel_timer_delete(w, 0))
	 ON(2, hwheel_timer_delete(w, JUNK)) ON(3, hwheel_timer_delete(w, UINT64_MAX)))
VARIANTS(delete_sync, ON(0, hwheel_timer_delete_sync(w, timer))
	 ON(1, hwheel_timer_delete_sync(w, 0)) ON(2, hwheel_timer_delete_sync(w, JUNK)))
VARIANTS(mod_many, ON(0, hwheel_timer_mod_many(w, &timer, times, 1, 0, results))
	 ON(1, hwheel_timer_mod_many(w, NULL, NULL, 1, 0, results))
	 ON(2, hwheel_timer_mod_many(w, &timer, times, 1, 1u << 31, results))
	 ON(3, hwheel_timer_mod_many(w, &timer, times, UINT32_MAX, 0, results))
	 ON(4, hwheel_timer_mod_many(w, &timer, times, 1, HWHEEL_REDUCE, results))
	 ON(5, hwheel_timer_mod_many(w, NULL, NULL, 0, 0, NULL)))
VARIANTS(delete_many, ON(0, hwheel_timer_delete_many(w, &timer, 1, results))
	 ON(1, hwheel_timer_delete_many(w, NULL, 1, results))
	 ON(2, hwheel_timer_delete_many(w, &timer, UINT32_MAX, results))
	 ON(3, hwheel_timer_delete_many(w, NULL, 0, NULL)))
VARIANTS(key_set, ON(0, hwheel_key_set(w, "k", 1, MS, on_call, 1, 0))
	 ON(1, hwheel_key_set(w, NULL, 1, MS, on_call, 1, 0))
	 ON(2, hwheel_key_set(w, "k", 0, MS, on_call, 1, 0))
	 ON(3, hwheel_key_set(w, "k", 1, too_late, on_call, 1, 0))
	 ON(4, hwheel_key_set(w, "k", 1, MS, on_call, 1, 1u << 31)))
VARIANTS(key_mod, ON(0, hwheel_key_mod(w, "key", 3, MS, 0))
	 ON(1, hwheel_key_mod(w, NULL, 3, MS, 0)) ON(2, hwheel_key_mod(w, "key", 3, too_late, 0))
	 ON(3, hwheel_key_mod(w, "no", 2, MS, 0)))
VARIANTS(key_delete, ON(0, hwheel_key_delete(w, "key", 3)) ON(1, hwheel_key_delete(w, NULL, 3))
	 ON(2, hwheel_key_delete(w, "no", 2)))
VARIANTS(key_pending, ON(0, hwheel_key_pending(w, "key", 3)) ON(1, hwheel_key_pending(w, NULL, 3))
	 ON(2, hwheel_key_pending(w, "no", 2)))
VARIANTS(advance, ON(0, hwheel_advance(w, 1, NULL, 0, NULL))
	 ON(1, hwheel_advance(w, SEC, events, 2, &bounds))
	 ON(2, hwheel_advance(w, too_late, NULL, 0, NULL))
	 ON(3, hwheel_advance(w, SEC, NULL, 2, NULL))
	 ON(4, hwheel_advance(w, SEC, events, UINT32_MAX, NULL))
	 ON(5, hwheel_advance(w, too_late, events, 2, &bounds)))
VARIANTS(poll_it, ON(0, hwheel_poll(w, NULL, 0, NULL)) ON(1, hwheel_poll(w, events, 2, &bounds))
	 ON(2, hwheel_poll(w, NULL, 2, NULL)) ON(3, hwheel_poll(w, events, UINT32_MAX, NULL)))
VARIANTS(fd, ON(0, hwheel_fd(w)))
VARIANTS(start, ON(0, hwheel_start(w)))
VARIANTS(stop, ON(0, hwheel_stop(w)))
VARIANTS(run_queued, ON(0, hwheel_run_queued(w)))
/* These calls end the timer and the wheel, so they come last. */
VARIANTS(shutdown_it, ON(0, hwheel_timer_shutdown(w, timer)) ON(1, hwheel_timer_shutdown(w, 0))
	 ON(2, hwheel_timer_shutdown(w, JUNK)))
VARIANTS(shutdown_sync, ON(0, hwheel_timer_shutdown_sync(w, timer))
	 ON(1, hwheel_timer_shutdown_sync(w, 0)) ON(2, hwheel_timer_shutdown_sync(w, JUNK)))
VARIANTS(free_it, ON(0, hwheel_timer_free(w, timer)) ON(1, hwheel_timer_free(w, 0))
	 ON(2, hwheel_timer_free(w, JUNK)))
VARIANTS(drain, ON(0, hwheel_drain(w, events, 2)) ON(1, hwheel_drain(w, NULL, 2))
	 ON(2, hwheel_drain(w, events, 0)) ON(3, hwheel_drain(w, events, UINT32_MAX)))

/* The results for the owner of a wheel with a manual clock. ANY_COUNT stands for 0 or more. */
enum { ANY_COUNT = 2000 };

static const struct function {
	const char *name;
	int (*call)(struct hwheel *w, int n);
	int to_owner[12];
} owners_only[] = {
	{ "once", once, { 0, -EINVAL, -EINVAL } },
	{ "every", every, { 0, -EINVAL, -EINVAL, -EINVAL, 0 } },
	{ "timer_setup", setup, { 0, -EINVAL } },
	{ "timer_mod", mod, { 1, 1, 1, 1, 1, 1, -EINVAL, -EINVAL, -EINVAL, -ESTALE, -ESTALE,
			      -ESTALE } },
	{ "timer_mod_range", mod_range, { 1, -EINVAL, -EINVAL, -EINVAL, -ESTALE } },
	{ "timer_set_period", set_period, { 0, -EINVAL, -ESTALE } },
	{ "timer_mod_many", mod_many, { 1, -EINVAL, -EINVAL, -EINVAL, 1, 0 } },
	{ "timer_delete", delete, { 1, -ESTALE, -ESTALE, -ESTALE } },
	{ "timer_delete_sync", delete_sync, { 0, -ESTALE, -ESTALE } },
	{ "timer_delete_many", delete_many, { 1, -EINVAL, -EINVAL, 0 } },
	{ "key_set", key_set, { 0, -EINVAL, -EINVAL, -EINVAL, -EINVAL } },
	{ "key_mod", key_mod, { 1, -EINVAL, -EINVAL, 0 } },
	{ "key_pending", key_pending, { 1, -EINVAL, 0 } },
	{ "key_delete", key_delete, { 1, -EINVAL, 0 } },
	{ "advance", advance, { 0, ANY_COUNT, -EINVAL, -EINVAL, -EINVAL, -EINVAL } },
	{ "poll", poll_it, { -EINVAL, -EINVAL, -EINVAL, -EINVAL } },
	{ "fd", fd, { -EINVAL } },
	{ "start", start, { -EINVAL } },
	{ "stop", stop, { 0 } },
	{ "run_queued", run_queued, { -EINVAL } },
	{ "timer_shutdown", shutdown_it, { ANY_COUNT, -ESTALE, -ESTALE } },
	{ "timer_shutdown_sync", shutdown_sync, { 0, -ESTALE, -ESTALE } },
	{ "timer_free", free_it, { 0, -ESTALE, -ESTALE } },
	{ "drain", drain, { ANY_COUNT, -EINVAL, -EINVAL, -EINVAL } },
};

/* Functions that only read, for any thread. */
static uint64_t cursor;
static struct hwheel_stats read_stats;

VARIANTS(pending, ON(0, hwheel_timer_pending(w, timer)))
VARIANTS(remaining, ON(0, hwheel_timer_remaining(w, timer, &made)))
VARIANTS(next_expiry, ON(0, hwheel_next_expiry(w, &made)))
VARIANTS(now_of, ON(0, hwheel_now(w, &made)))
VARIANTS(list, ON(0, hwheel_list(w, &cursor, events, 2)))
VARIANTS(get_stats, ON(0, hwheel_get_stats(w, &read_stats)))
VARIANTS(change_hands, ON(0, hwheel_disown(w)) ON(1, hwheel_own(w)))

static const struct function readers[] = {
	{ .name = "timer_pending", pending }, { .name = "timer_remaining", remaining },
	{ .name = "next_expiry", next_expiry }, { .name = "now", now_of }, { .name = "list", list },
	{ .name = "get_stats", get_stats }, { .name = "disown and own", change_hands },
};

static void expect_junk(void)
{
	CHECK_EQ(made, JUNK);
	for (int i = 0; i < 2; i++) {
		CHECK_EQ(results[i], 77);
		CHECK_EQ(events[i].cookie, JUNK);
	}
	CHECK_EQ(bounds.next_ns, JUNK);
	CHECK_EQ(bounds.left, 77);
}

static void fill_with_junk(void)
{
	made = JUNK;
	times[0] = times[1] = MS;
	results[0] = results[1] = 77;
	events[0].cookie = events[1].cookie = JUNK;
	bounds = (struct hwheel_run){ .size = sizeof bounds, .left = 77, .next_ns = JUNK };
}

static void differs(const struct function *f, int n, int got, int want)
{
	snprintf(ktap_why, sizeof ktap_why, "%s %d: %d, not %d", f->name, n, got, want);
	ktap_fail();
}

/* Calls each variant of @n functions: all return @want, and write nothing. */
static void all_return(struct hwheel *w, const struct function *f, size_t n, int want)
{
	fill_with_junk();
	cursor = 77;
	read_stats = (struct hwheel_stats){ .size = sizeof read_stats, .live = 77 };
	for (; n > 0; n--, f++)
		for (int v = 0, got; (got = f->call(w, v)) != NO_MORE; v++) {
			if (got != want)
				differs(f, v, got, want);
			expect_junk();
		}
	CHECK_EQ(cursor, 77);
	CHECK_EQ(read_stats.live, 77);
}

#define ALL_RETURN(w, functions, want) all_return(w, functions, COUNT(functions), want)

#endif
