/* hwheel_timer_delete(), hwheel_timer_shutdown(), hwheel_timer_free(), and handles that are not a timer's. */
#include "events.h"

static void fires_nothing(struct hwheel *w)
{
	no_event(w, ktap_now(w) + 3600 * SEC);
}

/* Every function that takes a handle says `want`. */
static void all_say(struct hwheel *w, hwheel_timer_t t, int want)
{
	uint64_t ns = 77;

	CHECK_EQ(hwheel_timer_mod(w, t, MS, 0), want);
	CHECK_EQ(hwheel_timer_mod(w, t, MS, HWHEEL_ABS), want);
	CHECK_EQ(hwheel_timer_mod(w, t, MS, HWHEEL_REDUCE), want);
	CHECK_EQ(hwheel_timer_mod(w, t, MS, HWHEEL_IF_PENDING), want);
	CHECK_EQ(hwheel_timer_pending(w, t), want);
	CHECK_EQ(hwheel_timer_remaining(w, t, &ns), want);
	CHECK_EQ(ns, 77);
	CHECK_EQ(hwheel_timer_delete(w, t), want);
	CHECK_EQ(hwheel_timer_delete_sync(w, t), want);
	CHECK_EQ(hwheel_timer_shutdown(w, t), want);
	CHECK_EQ(hwheel_timer_shutdown_sync(w, t), want);
	CHECK_EQ(hwheel_timer_free(w, t), want);
}

/* Each call, and its variant that waits for a callback, of which there is none here. */
typedef int cancel_fn(struct hwheel *w, hwheel_timer_t t);
static cancel_fn *const deletes[] = { hwheel_timer_delete, hwheel_timer_delete_sync };
static cancel_fn *const shutdowns[] = { hwheel_timer_shutdown, hwheel_timer_shutdown_sync };

TEST(delete_says_whether_it_was_armed)
{
	for (int i = 0; i < 2; i++) {
		WHEEL w = ktap_manual(0, 0, 0, 0);
		hwheel_timer_t t = ktap_timer(w);

		CHECK_EQ(deletes[i](w, t), 0);
		CHECK_EQ(hwheel_timer_mod(w, t, 10 * MS, 0), 0);
		CHECK_EQ(deletes[i](w, t), 1);
		CHECK_EQ(deletes[i](w, t), 0);
		CHECK_EQ(hwheel_timer_pending(w, t), 0);
		fires_nothing(w);
		/* it can be armed again, and has fired after that */
		CHECK_EQ(hwheel_timer_mod(w, t, 10 * MS, 0), 0);
		one_event(w, 7200 * SEC);
		CHECK_EQ(deletes[i](w, t), 0);
	}
}

TEST(shutdown_is_for_good)
{
	for (int i = 0; i < 2; i++) {
		WHEEL w = ktap_manual(0, 0, 0, 0);
		hwheel_timer_t t = ktap_armed(w, NULL, 0, 10 * MS), u = ktap_timer(w);

		CHECK_EQ(shutdowns[i](w, t), 1);
		CHECK_EQ(shutdowns[i](w, t), 0);
		CHECK_EQ(shutdowns[i](w, u), 0);
		ktap_refuses_arms(w, t);
		ktap_refuses_arms(w, u);
		fires_nothing(w);
		/* both still exist */
		CHECK_EQ(hwheel_timer_pending(w, t), 0);
		CHECK_EQ(hwheel_timer_delete(w, t), 0);
		ktap_refuses_arms(w, t);
		CHECK_EQ(hwheel_timer_free(w, t), 0);
		CHECK_EQ(hwheel_timer_free(w, u), 0);
		all_say(w, t, -ESTALE);
		all_say(w, u, -ESTALE);
		/* a new timer in the same place is not shut down */
		ktap_armed(w, NULL, 0, 10 * MS);
	}
}

MANUAL_TEST(free_says_whether_it_was_armed)
{
	hwheel_timer_t t = ktap_armed(w, NULL, 0, 10 * MS), u = ktap_timer(w);

	CHECK_EQ(hwheel_timer_free(w, t), 1);
	CHECK_EQ(hwheel_timer_free(w, u), 0);
	CHECK_EQ(hwheel_timer_free(w, t), -ESTALE);
	CHECK_EQ(hwheel_timer_free(w, u), -ESTALE);
	fires_nothing(w);
}

MANUAL_TEST(a_handle_is_not_used_twice)
{
	enum { N = 100000 };
	static hwheel_timer_t t[N];

	for (int i = 0; i < N; i++) {
		t[i] = ktap_timer(w);
		CHECK(i == 0 || t[i] != t[i - 1]);
		CHECK_EQ(hwheel_timer_free(w, t[i]), 0);
	}
	ktap_timer(w);
	for (int i = 0; i < N; i++)
		CHECK_EQ(hwheel_timer_pending(w, t[i]), -ESTALE);
	CHECK_EQ(stats(w).live, 1);
}

TEST(a_handle_of_another_wheel_is_stale)
{
	WHEEL a = ktap_manual(0, 0, 0, 0);
	WHEEL b = ktap_manual(0, 0, 0, 0);
	hwheel_timer_t of_a = ktap_armed(a, NULL, 0, MS), of_b = ktap_armed(b, NULL, 0, MS);

	all_say(b, of_a, -ESTALE);
	all_say(a, of_b, -ESTALE);
	CHECK_EQ(hwheel_timer_pending(a, of_a), 1);
	CHECK_EQ(hwheel_timer_pending(b, of_b), 1);
}

/* Also if the other one was destroyed, and this one has its address. */
TEST(so_is_one_of_a_wheel_that_was_destroyed)
{
	hwheel_timer_t old[64], fresh[64];

	for (int round = 0; round < 50; round++) {
		WHEEL w = ktap_manual(0, 0, 0, 0);

		for (int n = 0; n < 64; n++)
			CHECK_EQ(hwheel_once(w, MS, NULL, 0, 0, &fresh[n]), 0);
		for (int n = 0; n < 64 && round > 0; n++)
			all_say(w, old[n], -ESTALE);
		CHECK_EQ(stats(w).pending, 64);
		memcpy(old, fresh, sizeof old);
	}
}

/* Wherever the clocks begin, and whichever of the two was made first. */
TEST(so_is_one_of_a_wheel_that_began_at_another_time)
{
	enum { WHEELS = 3 * 62 };
	struct hwheel *w[WHEELS];
	hwheel_timer_t t[WHEELS];

	for (int i = 0; i < WHEELS; i++) {
		w[i] = ktap_manual(1000, 0, 0, i % 3 == 1 ? 0 : UINT64_C(1) << i / 3);
		t[i] = ktap_timer(w[i]);
	}
	for (int i = 0; i < WHEELS; i++)
		for (int j = 0; j < WHEELS; j++)
			CHECK_EQ(hwheel_timer_pending(w[i], t[j]), i == j ? 0 : -ESTALE);
	for (int i = 0; i < WHEELS; i++)
		CHECK_EQ(hwheel_destroy(w[i]), 0);
}

/*
 * Every number that differs from a handle in one bit or two, and every number that
 * differs in any of the lowest nine bits: all flags, and a bit of the generation.
 */
static void neighbours_are_stale(struct hwheel *w, hwheel_timer_t t)
{
	for (hwheel_timer_t low = 1; low < 512; low++)
		all_say(w, t ^ low, -ESTALE);
	for (int bit = 0; bit < 64; bit++)
		for (int other = 0; other <= bit; other++)
			all_say(w, t ^ UINT64_C(1) << bit ^ (other < bit ? UINT64_C(1) << other : 0),
				-ESTALE);
}

MANUAL_TEST(garbage_is_stale)
{
	hwheel_timer_t t;
	uint64_t x = 88172645463325252u;

	/* before there is any timer, and with one */
	all_say(w, 0, -ESTALE);
	all_say(w, 1, -ESTALE);
	all_say(w, UINT64_MAX, -ESTALE);
	t = ktap_timer(w);
	neighbours_are_stale(w, t);
	CHECK_EQ(hwheel_timer_pending(w, t), 0);
	CHECK_EQ(hwheel_timer_mod(w, t, MS, 0), 0);
	all_say(w, 0, -ESTALE);
	all_say(w, UINT64_MAX, -ESTALE);
	neighbours_are_stale(w, t);
	for (int i = 0; i < 100000; i++)
		if (ktap_dice(&x) != t)
			all_say(w, x, -ESTALE);
	CHECK_EQ(hwheel_timer_pending(w, t), 1);
}

/* Also if the handles next to it are those of other timers, young or old. */
MANUAL_TEST(garbage_is_stale_beside_many_timers)
{
	enum { MANY = 1000, SOME = 20 };
	static hwheel_timer_t t[MANY];

	for (int i = 0; i < MANY; i++) {
		t[i] = ktap_timer(w);
		for (int life = 0; life < i % 7; life++) {
			CHECK_EQ(hwheel_timer_free(w, t[i]), 0);
			t[i] = ktap_timer(w);
		}
		CHECK_EQ(hwheel_timer_mod(w, t[i], MS, 0), 0);
	}
	for (int i = 0; i < MANY; i += MANY / SOME)
		neighbours_are_stale(w, t[i]);
	for (int i = 0; i < MANY; i++)
		CHECK_EQ(hwheel_timer_pending(w, t[i]), 1);
}

/* Each of these has other flags than a plain timer that is due soon. */
TEST(garbage_is_stale_beside_any_kind_of_timer)
{
	const uint64_t first[] = { MS, UINT64_C(1) << 50, UINT64_C(1) << 62, HWHEEL_NEVER };

	for (unsigned i = 0; i < 2 * COUNT(first); i++) {
		WHEEL w = ktap_manual(1000, 0, 0, 0);
		hwheel_timer_t t;

		if (i % 2)
			CHECK_EQ(hwheel_once(w, first[i / 2], NULL, 0, 0, &t), 0);
		else
			CHECK_EQ(hwheel_every(w, first[i / 2], MS / 3, 0, NULL, 0, 0, &t), 0);
		neighbours_are_stale(w, t);
		CHECK_EQ(hwheel_timer_delete(w, t), 1);
	}
}

static struct {
	int shutdown, mod;
	unsigned calls;
} in_callback;

static void shut_self(struct hwheel *w, const struct hwheel_event *e)
{
	in_callback.calls++;
	in_callback.shutdown = hwheel_timer_shutdown(w, e->timer);
	in_callback.mod = hwheel_timer_mod(w, e->timer, MS, 0);
}

MANUAL_TEST(a_callback_shuts_its_own_timer_down)
{
	hwheel_timer_t t = ktap_armed(w, shut_self, 0, 10 * MS);

	memset(&in_callback, 0, sizeof in_callback);
	CHECK_EQ(hwheel_advance(w, SEC, NULL, 0, NULL), 0);
	CHECK_EQ(in_callback.calls, 1);
	CHECK_EQ(in_callback.shutdown, 0);
	CHECK_EQ(in_callback.mod, -ESHUTDOWN);
	CHECK_EQ(hwheel_timer_mod(w, t, MS, 0), -ESHUTDOWN);
	CHECK_EQ(hwheel_timer_free(w, t), 0);
}
