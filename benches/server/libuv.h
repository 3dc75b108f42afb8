/*
 * libuv's heap. The loop of the server asks it how long it may sleep; libuv's own
 * loop runs only if a timer is due.
 */
#include <uv.h>

struct timers { uv_timer_t idle, deadline; };

static uv_loop_t uv;

static void on_idle(uv_timer_t *t)
{
	idle_expired(t->data);
}

static void on_deadline(uv_timer_t *t)
{
	deadline_expired(t->data);
}

static void timers_begin(void)
{
	if (uv_loop_init(&uv) != 0)
		die("uv_loop_init");
}

static void timers_setup(struct connection *c)
{
	uv_timer_init(&uv, &timers_of(c)->idle);
	uv_timer_init(&uv, &timers_of(c)->deadline);
	timers_of(c)->idle.data = timers_of(c)->deadline.data = c;
}

static void idle_refresh(struct connection *c, uint64_t ms)
{
	uv_timer_start(&timers_of(c)->idle, on_idle, ms, 0);
}

static void deadline_begin(struct connection *c)
{
	uv_timer_start(&timers_of(c)->deadline, on_deadline, DEADLINE_MS, 0);
}

static void deadline_end(struct connection *c)
{
	uv_timer_stop(&timers_of(c)->deadline);
}

static void timers_woken(void)
{
	uv_update_time(&uv);
	if (uv_loop_alive(&uv) && uv_backend_timeout(&uv) == 0)
		uv_run(&uv, UV_RUN_NOWAIT);
}

static void timers_ready(struct connection *c)
{
	(void)c;
}

static void loop(void)
{
	for (;;)
		serve(uv_loop_alive(&uv) ? uv_backend_timeout(&uv) : -1);
}
