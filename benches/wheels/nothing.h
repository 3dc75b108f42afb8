/* No timers at all: what the loops of the workloads take themselves. */
#define HAS_SERVER
#define NO_CLOCK

struct timer {
	char byte;
};

static inline void begin(unsigned threads, uint64_t tick_ns)
{
	(void)threads;
	(void)tick_ns;
}

static inline int setup(struct timer *t, uint64_t cookie)
{
	(void)t;
	(void)cookie;
	return 0;
}

/* The compiler must work out the arguments. */
static inline int arm(struct timer *t, uint64_t delay)
{
	__asm__ volatile("" : : "r"(t), "r"(delay));
	(void)fired;
	return 0;
}

static inline int cancel(struct timer *t)
{
	return arm(t, 0);
}

static inline int sweep(uint64_t n)
{
	return arm(NULL, n);
}

static inline void ready(struct timer *t)
{
	(void)t;
}
