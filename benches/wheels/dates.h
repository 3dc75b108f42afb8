/*
 * The rule of HAProxy's timers and of many servers written by hand: the date lies in the
 * caller's object. To arm or to cancel is to store the date. The queue has an entry that is
 * never later than the date, and looks at the date when it comes to the entry. Here the queue
 * is a wheel of two levels, and any loop has it to itself: a floor for timers in an object.
 */
#define HAS_SERVER
#define HAS_PREFETCH
#define SLOTS 256
#define NO_DATE UINT64_MAX

struct timer {
	/* When to fire, and for when the entry is queued; NO_DATE: not at all. */
	uint64_t date, queued;
	struct timer *next, *prev;
	uint64_t cookie;
};

/* Of a tick each, up to the next multiple of SLOTS; and of SLOTS ticks each. Rings. */
static struct timer near[SLOTS], far[SLOTS];
static uint64_t now;

static inline void leave(struct timer *t)
{
	t->next->prev = t->prev;
	t->prev->next = t->next;
}

static inline void enter(struct timer *t, uint64_t when)
{
	struct timer *ring;

	/* Beyond the wheel: its last slot, which looks at the date again. */
	if (when / SLOTS - now / SLOTS >= SLOTS)
		when = (now / SLOTS + SLOTS - 1) * SLOTS;
	ring = when / SLOTS == now / SLOTS ? &near[when % SLOTS] : &far[when / SLOTS % SLOTS];
	t->queued = when;
	t->prev = ring->prev;
	t->next = ring;
	ring->prev->next = t;
	ring->prev = t;
}

static inline void begin(unsigned threads, uint64_t tick_ns)
{
	(void)tick_ns;
	lock_for(threads);
	for (int i = 0; i < SLOTS; i++) {
		near[i].next = near[i].prev = &near[i];
		far[i].next = far[i].prev = &far[i];
	}
}

static inline int setup(struct timer *t, uint64_t cookie)
{
	t->date = t->queued = NO_DATE;
	t->cookie = cookie;
	return 0;
}

/* The rare part of an arm: the entry is later than the date, or there is none. */
static __attribute__((noinline)) void queue(struct timer *t)
{
	if (t->queued != NO_DATE)
		leave(t);
	enter(t, t->date);
}

static inline int arm(struct timer *t, uint64_t delay)
{
	__atomic_store_n(&t->date, now + delay, __ATOMIC_RELAXED);
	if (__builtin_expect(t->queued > t->date, 0))
		queue(t);
	return 0;
}

static inline int cancel(struct timer *t)
{
	__atomic_store_n(&t->date, NO_DATE, __ATOMIC_RELAXED);
	return 0;
}

static inline void prefetch(struct timer *t)
{
	__builtin_prefetch(t);
}

/* The queue has come to an entry. */
static inline void look_at(struct timer *t)
{
	uint64_t again;

	leave(t);
	t->queued = NO_DATE;
	if (t->date == NO_DATE)
		return;
	if (t->date > now) {
		enter(t, t->date);
		return;
	}
	t->date = NO_DATE;
	again = fired(t->cookie);
	if (again > 0)
		arm(t, again);
}

static inline int sweep(uint64_t n)
{
	for (; n > 0; n--) {
		struct timer *ring = &far[++now / SLOTS % SLOTS];

		if (now % SLOTS == 0)
			while (ring->next != ring)
				look_at(ring->next);
		ring = &near[now % SLOTS];
		while (ring->next != ring)
			look_at(ring->next);
	}
	return 0;
}

static uint64_t start_ns;

static inline int begin_server(void)
{
	begin(1, MS);
	start_ns = nanoseconds();
	return -1;
}

static inline void woken(uint64_t now_ns)
{
	uint64_t tick = now_ns > start_ns ? (now_ns - start_ns) / MS : 0;

	if (tick > now)
		sweep(tick - now);
}

static inline int patience(void)
{
	int ms = 1;

	while ((now + (uint64_t)ms) % SLOTS != 0 &&
	       near[(now + (uint64_t)ms) % SLOTS].next == &near[(now + (uint64_t)ms) % SLOTS])
		ms++;
	return ms;
}

static inline void ready(struct timer *t)
{
	(void)t;
}
