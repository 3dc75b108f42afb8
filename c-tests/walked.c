/*
 * Callbacks change any timer of the bucket that is being emptied, in a shared wheel and in an
 * owned one: earlier, later, for the same tick again, cancelled, freed, set up anew in the same
 * memory. So do calls between calls that were bounded. Each arming ends once, in the order of the
 * ticks, and what a call announces is exact when the wheel is driven again.
 */
#include "ktap.h"

enum { TIMERS = 60, STEPS = 400 };

static const struct shape {
	uint64_t tick;
	uint32_t levels, slots;
} shapes[] = {
	{ MS, 0, 0 }, { MS, 1, 2 }, { MS, 8, 2 }, { MS, 1, 65536 }, { 7001, 3, 8 }, { 1000, 2, 4 },
};

static struct hwheel *wheel;
static uint64_t tick, now, reached, rng;
static int longest;
static unsigned ends;
static struct timer {
	hwheel_timer_t handle;
	uint32_t life;
	/* The tick, or 0; and how often it was armed, has fired, and was cancelled. */
	uint64_t due;
} timers[TIMERS];
static char why[128];

#define EXPECT(condition) do { \
	if (!(condition) && !why[0]) \
		snprintf(why, sizeof why, "line %d: %s", __LINE__, #condition); \
} while (0)

static uint64_t below(uint64_t n)
{
	return (ktap_dice(&rng) >> 11) % n;
}

static void fire(struct hwheel *w, const struct hwheel_event *e);

static void set_up(struct timer *t)
{
	const uint64_t cookie = (uint64_t)++t->life << 32 | (uint64_t)(t - timers);

	EXPECT(hwheel_timer_setup(wheel, fire, cookie, &t->handle) == 0);
}

static void change(struct timer *t)
{
	const uint64_t delay = 1 + below((uint64_t)longest);
	const int was = t->due != 0;

	switch (below(8)) {
	case 0:
		EXPECT(hwheel_timer_delete(wheel, t->handle) == was);
		t->due = 0;
		return;
	case 1:
		EXPECT(hwheel_timer_free(wheel, t->handle) == was);
		EXPECT(hwheel_timer_mod(wheel, t->handle, tick, 0) == -ESTALE);
		t->due = 0;
		set_up(t);
		break;
	case 2:
		EXPECT(hwheel_timer_delete(wheel, t->handle) == was);
		t->due = 0;
		break;
	case 3:
		EXPECT(hwheel_timer_mod(wheel, t->handle, delay * tick, HWHEEL_REDUCE) == was);
		if (!was || now / tick + delay < t->due)
			t->due = now / tick + delay;
		return;
	default:
		break;
	}
	EXPECT(hwheel_timer_mod(wheel, t->handle, delay * tick, 0) == (t->due != 0));
	t->due = now / tick + delay;
}

static void fire(struct hwheel *w, const struct hwheel_event *e)
{
	struct timer *t = &timers[(uint32_t)e->cookie];

	EXPECT(w == wheel && t->life == e->cookie >> 32 && t->handle == e->timer);
	EXPECT(t->due != 0 && e->deadline_ns == t->due * tick && e->deadline_ns <= now);
	EXPECT(e->deadline_ns >= reached);
	reached = e->deadline_ns;
	t->due = 0;
	ends++;
	for (uint64_t n = below(5); n > 0; n--) {
		/* Often the neighbours: those that come next, and those in the same lane. */
		const uint64_t by = below(3) == 0 ? 8 * below(9) : below(TIMERS);

		change(&timers[((uint64_t)(t - timers) + by) % TIMERS]);
	}
}

static uint64_t first_due(void)
{
	uint64_t first = HWHEEL_NEVER;

	for (int i = 0; i < TIMERS; i++)
		if (timers[i].due != 0 && timers[i].due * tick < first)
			first = timers[i].due * tick;
	return first;
}

static void drive(void)
{
	struct hwheel_run run = { .size = sizeof run };
	const int is_bounded = below(3) == 0;
	uint64_t calls = 0;

	now += below(4) == 0 ? below(40) * tick : tick;
	reached = 0;
	if (is_bounded && below(2) == 0)
		run.max_fired = 1 + below(2);
	else if (is_bounded)
		run.max_ns = 1;
	do {
		EXPECT(hwheel_advance(wheel, now, NULL, 0, &run) == 0);
		EXPECT(run.next_ns <= first_due() || run.left);
		if (run.left)
			change(&timers[below(TIMERS)]);
	} while (run.left && calls++ < 10000);
	EXPECT(!run.left);
	for (int i = 0; i < TIMERS; i++)
		EXPECT(timers[i].due == 0 || timers[i].due * tick > now);
	/* Driving again makes it exact: a bucket has fewer than 64 timers. */
	run.max_fired = run.max_ns = 0;
	for (int i = 0; i < 8 && run.next_ns != first_due(); i++)
		EXPECT(hwheel_advance(wheel, now, NULL, 0, &run) == 0);
	EXPECT(run.next_ns == first_due());
}

static void walk(uint32_t owned, int delay)
{
	unsigned sum = 0;

	longest = delay;
	for (unsigned n = 0; n < COUNT(shapes) * (KTAP_SLOW ? 1 : 6); n++) {
		const struct shape *s = &shapes[n % COUNT(shapes)];

		rng = n + 1;
		tick = s->tick;
		now = 0;
		ends = 0;
		why[0] = 0;
		memset(timers, 0, sizeof timers);
		wheel = MADE(.clock = HWHEEL_CLOCK_MANUAL, .tick_ns = s->tick, .levels = s->levels,
			.slots = s->slots, .owned = owned);
		for (int i = 0; i < TIMERS; i++)
			set_up(&timers[i]);
		for (int i = 0; i < STEPS && !why[0]; i++) {
			/* Many for one tick, or for one slot of a higher level. */
			const uint64_t delay = 2 + below((uint64_t)longest);

			for (int k = 0; k < TIMERS && i % 8 == 0; k++) {
				struct timer *t = &timers[k];

				EXPECT(hwheel_timer_mod(wheel, t->handle, delay * tick, 0) ==
				       (t->due != 0));
				t->due = now / tick + delay;
			}
			if (below(4) == 0)
				change(&timers[below(TIMERS)]);
			drive();
		}
		if (why[0])
			printf("# shape %u, levels %u, slots %u: %s\n", n, s->levels, s->slots, why);
		CHECK_EQ(why[0], 0);
		for (int i = 0; i < TIMERS; i++)
			EXPECT(hwheel_timer_free(wheel, timers[i].handle) == (timers[i].due != 0));
		CHECK_EQ(why[0], 0);
		CHECK_EQ(stats(wheel).live, 0);
		CHECK_EQ(hwheel_destroy(wheel), 0);
		CHECK(ends > STEPS);
		sum += ends;
	}
	printf("# figures: %u timers fired\n", sum);
}

static void walk_near_and_far(uint32_t owned)
{
	walk(owned, 4);
	walk(owned, 100);
}

TEST_OF(callbacks_change_the_bucket_of_a_shared_wheel, walk_near_and_far(0))
TEST_OF(callbacks_change_the_bucket_of_an_owned_wheel, walk_near_and_far(1))

/* A bucket of each number of timers about the number of lanes, and one that is changed often. */
TEST(a_bucket_of_each_size_is_emptied_whole)
{
	for (uint32_t owned = 0; owned < 2; owned++) {
		for (uint64_t size = 1; size < 40; size++) {
			struct hwheel_event e[41];
			uint64_t seen = 0;
			hwheel_timer_t t;

			wheel = MADE(.clock = HWHEEL_CLOCK_MANUAL, .owned = owned);
			/* The turn of the bucket goes round many times. */
			t = ktap_timer(wheel);
			for (uint64_t i = 0; i < 1000 + size; i++) {
				CHECK_EQ(hwheel_timer_mod(wheel, t, 9 * MS, 0), 0);
				CHECK_EQ(hwheel_advance(wheel, 0, NULL, 0, NULL), 0);
				CHECK_EQ(hwheel_timer_mod(wheel, t, 8 * MS, 0), 1);
				CHECK_EQ(hwheel_advance(wheel, 0, NULL, 0, NULL), 0);
				CHECK_EQ(hwheel_timer_delete(wheel, t), 1);
				if (i >= 1000)
					CHECK_EQ(hwheel_once(wheel, 9 * MS, NULL, i - 1000, 0,
							     NULL), 0);
			}
			CHECK_EQ(hwheel_advance(wheel, 9 * MS, e, COUNT(e), NULL), size);
			for (uint64_t i = 0; i < size; i++)
				seen |= UINT64_C(1) << e[i].cookie;
			CHECK(seen == (UINT64_C(1) << size) - 1);
			CHECK_EQ(stats(wheel).entries, 0);
			CHECK_EQ(hwheel_destroy(wheel), 0);
		}
	}
}
