/* No timers: the floor. */
struct timers { int none; };

static void timers_begin(void) {}
static void timers_woken(void) {}
static void timers_setup(struct connection *c) { (void)c; }
static void timers_ready(struct connection *c) { (void)c; }
static void idle_refresh(struct connection *c, uint64_t ms) { (void)c; (void)ms; }
static void deadline_begin(struct connection *c) { (void)c; }
static void deadline_end(struct connection *c) { (void)c; }

static void loop(void)
{
	(void)idle_expired;
	(void)deadline_expired;
	for (;;)
		serve(-1);
}
