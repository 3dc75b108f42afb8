/* nginx's timers on a wheel: ngx_event_timer.h. hwheel(7), "A loop that caches its time". */
#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_event.h>
#include <hwheel.h>

struct slot {
	hwheel_timer_t timer;
	ngx_event_t *event;
	struct slot *next; /* a slot that is free */
};

static struct hwheel *wheel;
static struct slot *free_slots;
static ngx_uint_t fired, asked;

/* nginx's functions that add a timer return nothing, and a lost timeout is worse than an end. */
static void demand(int result, const char *what)
{
	if (result >= 0)
		return;
	ngx_log_error(NGX_LOG_EMERG, ngx_cycle->log, 0, "%s: %s", what, hwheel_strerror(result));
	exit(2);
}

static struct slot *slot_of(const ngx_event_t *ev)
{
	return (struct slot *)ev->timer.key;
}

static void give_back(struct slot *slot)
{
	slot->event->timer_set = 0;
	slot->next = free_slots;
	free_slots = slot;
}

static void expired(struct hwheel *w, const struct hwheel_event *event)
{
	struct slot *slot = (struct slot *)(uintptr_t)event->cookie;
	ngx_event_t *ev = slot->event;

	(void)w;
	fired++;
	ngx_log_debug1(NGX_LOG_DEBUG_EVENT, ev->log, 0, "timer of %d expired",
		       ngx_event_ident(ev->data));
	give_back(slot);
	ev->timedout = 1;
	ev->handler(ev);
}

/* Each worker calls it after its fork. */
ngx_int_t ngx_event_timer_init(ngx_log_t *log)
{
	struct hwheel_options options;
	int result;

	ngx_memzero(&options, sizeof(options));
	options.size = sizeof(options);
	options.clock = HWHEEL_CLOCK_MANUAL;
	options.owned = 1;
	options.start_ns = ngx_current_msec * HWHEEL_MSEC;
	result = hwheel_create(&options, &wheel);
	if (result == 0)
		return NGX_OK;
	ngx_log_error(NGX_LOG_EMERG, log, 0, "hwheel_create(): %s", hwheel_strerror(result));
	return NGX_ERROR;
}

static uint64_t advance(void)
{
	struct hwheel_run run;

	ngx_memzero(&run, sizeof(run));
	run.size = sizeof(run);
	demand(hwheel_advance(wheel, ngx_current_msec * HWHEEL_MSEC, NULL, 0, &run),
	       "hwheel_advance()");
	return run.next_ns;
}

/*
 * The last step before the sleep. A handler may have posted an event or ended the work, at
 * which nginx looks after the sleep. So the loop does not sleep after a handler.
 */
ngx_msec_t ngx_event_find_timer(void)
{
	ngx_uint_t before = fired;
	uint64_t next_ns = advance(), ms = next_ns / HWHEEL_MSEC + (next_ns % HWHEEL_MSEC != 0);

	asked = 1;
	if (fired != before)
		return 0;
	if (next_ns == HWHEEL_NEVER)
		return NGX_TIMER_INFINITE;
	return ms > ngx_current_msec ? ms - ngx_current_msec : 0;
}

/* With "timer_resolution" a signal ends each sleep, and nginx does not ask for its length. */
void ngx_event_expire_timers(void)
{
	if (!asked)
		(void)advance();
	asked = 0;
}

/* Whether the worker may end: only timers are left that nginx calls cancelable. */
ngx_int_t ngx_event_no_timers_left(void)
{
	struct hwheel_event events[64];
	uint64_t cursor = 0;
	int n;

	do {
		n = hwheel_list(wheel, &cursor, events, 64);
		demand(n, "hwheel_list()");
		for (int i = 0; i < n; i++)
			if (!((struct slot *)(uintptr_t)events[i].cookie)->event->cancelable)
				return NGX_AGAIN;
	} while (n == 64);
	return NGX_OK;
}

static struct slot *take(ngx_event_t *ev)
{
	struct slot *slot = free_slots;

	if (slot != NULL) {
		free_slots = slot->next;
	} else {
		slot = malloc(sizeof(*slot));
		demand(slot == NULL ? -NGX_ENOMEM : 0, "a timer");
		demand(hwheel_timer_setup(wheel, expired, (uintptr_t)slot, &slot->timer),
		       "hwheel_timer_setup()");
	}
	slot->event = ev;
	ev->timer.key = (ngx_rbtree_key_t)slot;
	ev->timer_set = 1;
	return slot;
}

void ngx_event_add_timer(ngx_event_t *ev, ngx_msec_t timer)
{
	/* A year stands for longer times. */
	const ngx_msec_t most = 365 * 86400 * (ngx_msec_t)1000;
	struct slot *slot = ev->timer_set ? slot_of(ev) : take(ev);
	uint64_t time_ns = (ngx_current_msec + ngx_min(timer, most)) * HWHEEL_MSEC;

	ngx_log_debug2(NGX_LOG_DEBUG_EVENT, ev->log, 0, "timer of %d: %M ms",
		       ngx_event_ident(ev->data), timer);
	demand(hwheel_timer_mod(wheel, slot->timer, time_ns, HWHEEL_ABS), "hwheel_timer_mod()");
}

void ngx_event_del_timer(ngx_event_t *ev)
{
	struct slot *slot = slot_of(ev);

	ngx_log_debug1(NGX_LOG_DEBUG_EVENT, ev->log, 0, "timer of %d deleted",
		       ngx_event_ident(ev->data));
	demand(hwheel_timer_delete(wheel, slot->timer), "hwheel_timer_delete()");
	give_back(slot);
}
