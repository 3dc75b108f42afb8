/*
 * nginx's timers on a wheel that the worker owns: in place of nginx's own file of this name,
 * whose functions these are. benches/nginx/build.sh puts it there.
 *
 * An event of nginx has room for the node of a tree. Its key is here the address of a slot,
 * which has the handle of a timer. nginx clears and frees events whose timer is not pending,
 * so the handle cannot stay in the event.
 */
#ifndef _NGX_EVENT_TIMER_H_INCLUDED_
#define _NGX_EVENT_TIMER_H_INCLUDED_

#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_event.h>

#define NGX_TIMER_INFINITE ((ngx_msec_t)-1)

ngx_int_t ngx_event_timer_init(ngx_log_t *log);
ngx_msec_t ngx_event_find_timer(void);
void ngx_event_expire_timers(void);
ngx_int_t ngx_event_no_timers_left(void);
void ngx_event_add_timer(ngx_event_t *ev, ngx_msec_t timer);
void ngx_event_del_timer(ngx_event_t *ev);

#endif
