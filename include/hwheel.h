/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * hwheel: a lock-free timing wheel.
 *
 * A wheel holds timers. The caller arms a timer with a time. When the time has
 * come, the wheel calls a callback or writes an event into the caller's array.
 *
 *	#include <hwheel.h>
 *	#include <stdio.h>
 *	#include <unistd.h>
 *
 *	static void timed_out(struct hwheel *wheel,
 *			      const struct hwheel_event *event)
 *	{
 *		(void)wheel;
 *		printf("request %d timed out\n", (int)event->cookie);
 *	}
 *
 *	int main(void)
 *	{
 *		struct hwheel *wheel;
 *
 *		if (hwheel_create(NULL, &wheel) || hwheel_start(wheel) ||
 *		    hwheel_once(wheel, 50 * HWHEEL_MSEC, timed_out, 1, 0, NULL))
 *			return 1;
 *		sleep(1);
 *		return hwheel_destroy(wheel) != 0;
 *	}
 *
 * One thread, or several? An event loop that uses its timers alone makes an
 * owned wheel, with hwheel_options.owned. Its calls need no locked instruction.
 * Other threads send the owner timers by hwheel_once() without a handle, for
 * example without a delay, as messages. Any thread may use the timers of a
 * shared wheel, which is the default.
 *
 * The program must drive the wheel, in one of four ways. hwheel_start() starts
 * a thread for it. An event loop watches hwheel_fd() and calls hwheel_poll(). A
 * loop that sleeps in its own call gives hwheel_options.wake, and polls at
 * hwheel_run.next_ns. Or the caller keeps the time and calls hwheel_advance().
 *
 * A server with several event loops has an owned wheel for each loop. A timer
 * without a delay in another loop's wheel is a message to that loop. A
 * connection that moves frees its timers in the old wheel, and sends a message
 * to the new loop, which sets up new ones. hwheel(7) has the rules for events
 * that are already on their way. It says when one shared wheel for all loops is
 * right.
 *
 * Rules for all functions:
 *
 * - A negative result is an error: a negated errno value, which
 *   hwheel_strerror() puts into words. A call that fails changes nothing and
 *   writes no output. errno keeps its value.
 * - Any thread may call them at any time, unless "Context" says otherwise.
 * - In an owned wheel, calls of another thread than the owner return -EPERM,
 *   and look at no other argument before. Other threads may call hwheel_once()
 *   with a NULL @timer, hwheel_own(), and the functions that take a const
 *   wheel, except hwheel_key_pending(). "Any thread" below means the owner
 *   then. hwheel(7) has more about owned wheels.
 * - A time is a number of nanoseconds below 2^63, or HWHEEL_NEVER. Any other
 *   number counts as negative and gives -EINVAL.
 * - A delay starts at the time of the call, even in a callback that runs late.
 * - A point of 2^63 or above on the wheel's clock never comes. This includes a
 *   delay that ends there, and a time that is rounded up to there.
 * - A timer fires at the first tick at or after its time, never before. A timer
 *   2^36 ticks away or more may be late by at most one part in a hundred
 *   million of its delay. Both numbers count from the last tick that the wheel
 *   has reached. That tick may be far behind the clock in two cases: while a
 *   thread catches up after a jump, or if nobody drives a wheel that has no
 *   timers.
 * - Callbacks run on the wheel's own threads, and on the caller's stack in
 *   hwheel_poll(), hwheel_advance(), hwheel_run_queued(), hwheel_stop() and
 *   hwheel_destroy(). No other function runs callbacks.
 * - No function is a cancellation point of pthread_cancel(). A callback that it
 *   runs may contain one; hwheel_fn says what a cancel does there.
 * - "Calls no allocator" has an exception for the first call of a thread in a
 *   process with many keys or libraries: hwheel(7), guarantee 10.
 * - At most 32767 threads of a process use timers at the same time. Calls of
 *   the next thread that make or arm a timer return -EUSERS until one of these
 *   threads ends. A thread keeps 768 bytes in each wheel that it uses, and the
 *   memory of at most 128 timers that were freed, until the wheel is destroyed;
 *   the next thread reuses them.
 * - In a forked child, calls on a wheel of the parent return -ESHUTDOWN, or the
 *   error for a bad argument (-EINVAL, -E2BIG). Only hwheel_destroy() works: it
 *   frees the child's copy. If a callback forks and the child returns from the
 *   callback, no other timer fires in the child. A call that ran the callback
 *   returns. If the tick thread or a worker ran it, that thread ends, and the
 *   child process with it.
 *
 * The wheel calls three kinds of functions of the caller:
 *
 *	callback (hwheel_fn)
 *		called by	the thread that drives, a worker,
 *				hwheel_run_queued(), hwheel_stop() and
 *				hwheel_destroy()
 *		state		its timer has fired: it is pending again if it
 *				has a period, and otherwise not
 *	executor
 *		called by	the thread that drives
 *		state		the callback is queued, and
 *				hwheel_run_queued() finds it
 *	wake
 *		called by	a call that arms a timer, and the end of a
 *				callback on a worker
 *		state		the timer is pending; the caller's handle may
 *				not be set yet
 *
 * Each of the three may call every function of the wheel except
 * hwheel_poll(), hwheel_advance(), hwheel_stop(), hwheel_drain() and
 * hwheel_destroy(). These return -EBUSY or -EDEADLK there and change nothing.
 * No lock of the wheel is held. An arm inside of the wake function does not
 * call the function again: the call that is under way serves it. An arm inside
 * of a callback on the thread that drives does not call it either, since that
 * thread looks at all timers before it announces a time.
 *
 * make regenerate WHAT=header writes this file from src/capi. Do not edit it.
 */

#ifndef HWHEEL_H
#define HWHEEL_H

#include <stdint.h>

/* Version */

/** Major version: incremented when the binary interface breaks. */
#define HWHEEL_VERSION_MAJOR 0

/** Minor version: incremented when functions are added. */
#define HWHEEL_VERSION_MINOR 1

/** Patch version. */
#define HWHEEL_VERSION_PATCH 0

/** Version of this header as one number, to compare with hwheel_version(). */
#define HWHEEL_VERSION \
	(HWHEEL_VERSION_MAJOR << 16 | HWHEEL_VERSION_MINOR << 8 | \
	 HWHEEL_VERSION_PATCH)

/* Times */

/** Nanoseconds in a microsecond. */
#define HWHEEL_USEC UINT64_C(1000)

/** Nanoseconds in a millisecond. */
#define HWHEEL_MSEC UINT64_C(1000000)

/** Nanoseconds in a second. */
#define HWHEEL_SEC UINT64_C(1000000000)

/** A time that never comes. */
#define HWHEEL_NEVER UINT64_MAX

/* For functions whose result the caller must not ignore. */
#ifndef HWHEEL_MUST_CHECK
#ifdef __GNUC__
#define HWHEEL_MUST_CHECK __attribute__((__warn_unused_result__))
#else
#define HWHEEL_MUST_CHECK
#endif
#endif

#ifdef __cplusplus
extern "C" {
#endif

/* Wheels */

/** A timing wheel. hwheel_create() makes one. */
struct hwheel;

/** Clock: CLOCK_MONOTONIC. The default. */
#define HWHEEL_CLOCK_MONOTONIC 0

/** Clock: CLOCK_BOOTTIME, which also counts time spent in suspend. */
#define HWHEEL_CLOCK_BOOTTIME 1

/** Clock: CLOCK_REALTIME, the wall clock. Timers follow when it is set. */
#define HWHEEL_CLOCK_REALTIME 2

/** Clock: the caller's own. hwheel_advance() moves it. */
#define HWHEEL_CLOCK_MANUAL 3

/** Overload: the driving thread runs the callback itself. The default. */
#define HWHEEL_OVERLOAD_RUN 0

/**
 * Overload: the callback does not run. hwheel_stats.dropped counts it, and
 * hwheel_stats.fired counts its timer.
 */
#define HWHEEL_OVERLOAD_DROP 1

/**
 * The caller's executor. It arranges that a thread soon calls
 * hwheel_run_queued() once.
 *
 * The driving thread calls it once for each callback that it has put into the
 * queue, so it must not block for long. It may refuse or lose a request: the
 * callback then waits until a thread calls hwheel_run_queued(). It may call any
 * function of the wheel that a callback may call. It must return, and no
 * exception may leave it.
 *
 * hwheel_stop() and hwheel_destroy() run the callbacks that are still queued,
 * so the executor's threads may end before these calls. An executor that no
 * longer runs anything delays callbacks and nothing else.
 */
typedef void (*hwheel_executor_fn)(struct hwheel *wheel, void *executor_arg);

/**
 * The caller's function that wakes the loop which drives the wheel.
 *
 * An arm calls it if its timer is due before the time that the last
 * hwheel_poll() or hwheel_advance() has announced in hwheel_run.next_ns. The
 * end of a callback on a worker calls it if the timer has become due again. The
 * calling thread holds no lock of the wheel. One call serves all arms until the
 * next hwheel_poll() or hwheel_advance(), so a loop that was woken calls one of
 * the two before it sleeps again. Threads that arm timers concurrently may each
 * call the function.
 *
 * A call may come when the loop does not sleep, also while it drives the wheel.
 * The loop must not lose it: the next sleep then ends at once. A loop that
 * drives a wheel with HWHEEL_CLOCK_REALTIME sleeps on the same clock, or polls
 * when the clock is set, because no function announces that.
 *
 * A loop that sleeps until HWHEEL_NEVER is woken by each arm of a timer that
 * ever fires, however far its time, and however long the loop has slept.
 *
 * The function must not block, and no exception may leave it. It may call the
 * functions that a callback may call, and may arm timers.
 */
typedef void (*hwheel_wake_fn)(struct hwheel *wheel, void *wake_arg);

/**
 * How to make a wheel. A member that is zero has its default value.
 *
 * @size: sizeof(struct hwheel_options), at least 8. Zeros complete a shorter
 *   struct. A longer one, up to 4096 bytes, is valid if all bytes beyond the
 *   members that the library knows are zero.
 * @clock: one of HWHEEL_CLOCK_*.
 * @tick_ns: length of a tick in nanoseconds, 1000 to one hour; default
 *   HWHEEL_MSEC. A timer fires at the first tick at or after its deadline.
 * @levels: 1 for a hashed wheel, 2 to 8 for a hierarchical wheel; default 4.
 *   Timers beyond the last level go to levels that the wheel adds.
 * @slots: number of slots of each level, a power of two from 2 to 65536;
 *   default 256. @levels times log2(@slots) is at most 48.
 * @max_timers: maximum number of live timers, 1 to 67000000; default 67000000.
 *   A timer is live from its creation until it is freed. A timer that frees
 *   itself is live until its callback has returned. A thread that is stopped
 *   inside a call may hold freed timers back. A call that makes a timer may
 *   then return -ENOSPC early: below the limit by up to 64 timers for each
 *   thread that is stopped.
 * @workers: number of threads that run callbacks, 0 to 256; default 0, which
 *   means that the driving thread runs them. hwheel_create() starts the
 *   threads.
 * @start_ns: initial time of a manual clock, below 2^63 ns; 0 for the other
 *   clocks.
 * @queue: maximum number of expired timers that wait for a worker or the
 *   executor, a power of two up to 1048576; default 1024.
 * @overload: what happens to a callback when the queue is full: one of
 *   HWHEEL_OVERLOAD_*.
 * @executor: the caller's own way to run callbacks, or NULL. Not together with
 *   @workers.
 * @executor_arg: the second argument of @executor. Without @executor it is
 *   NULL; any other value is -EINVAL.
 * @wake: the function that wakes the loop which drives the wheel, or NULL. It
 *   serves loops that sleep in their own call instead of watching a
 *   descriptor, with any clock. hwheel_poll() or hwheel_advance() announces the
 *   next call in hwheel_run.next_ns, and the library makes no system call for
 *   timers.
 *   hwheel_start() and hwheel_fd() return -EINVAL for such a wheel. A forked
 *   child never calls @wake, and neither does hwheel_destroy().
 * @wake_arg: the second argument of @wake. Without @wake it is NULL; any other
 *   value is -EINVAL.
 *
 * @owned: 1 for a wheel that one thread owns, 0 for one that any thread may
 *   use; default 0. The thread that calls hwheel_create() is the owner, until
 *   it calls hwheel_disown(). Other threads send the owner timers by
 *   hwheel_once() without a handle. @wake or the descriptor wakes the owner
 *   for them; without either nobody is woken. An arm of the owner does not
 *   call @wake: the owner drives the wheel before it sleeps. Not together with
 *   @workers or @executor, and hwheel_start() returns -EINVAL.
 *
 * Without workers or an executor, @queue and @overload are checked, but have no
 * effect.
 */
struct hwheel_options {
	uint32_t size;
	uint32_t clock;
	uint64_t tick_ns;
	uint32_t levels;
	uint32_t slots;
	uint32_t max_timers;
	uint32_t workers;
	uint64_t start_ns;
	uint32_t queue;
	uint32_t overload;
	hwheel_executor_fn executor;
	void *executor_arg;
	hwheel_wake_fn wake;
	void *wake_arg;
	uint32_t owned;
};

/**
 * hwheel_create() - Make a wheel.
 * @options: how to make it; NULL for the defaults.
 * @wheel: receives the wheel.
 *
 * The new wheel has no timers, and no thread drives it yet. Apart from its
 * workers it has no threads, and it has no descriptor: hwheel_fd() makes the
 * descriptor, hwheel_start() the tick thread and the descriptor.
 *
 * Return:
 * * 0 - @wheel is set.
 * * -EINVAL - @wheel is NULL, or an option is out of range.
 * * -E2BIG - the options have members that this version does not know, or @size
 *   is above 4096.
 * * -ENOMEM - no memory, no address space, or no key of pthread_key_create().
 * * -EUSERS - the wheel is to be an owned one, and 32767 other threads of the
 *   process use timers.
 * * -EAGAIN - the system cannot start the workers.
 * * -EPERM, -ENOSYS - a filter of system calls refuses the workers.
 *
 * Context: any thread. May block in the kernel for memory.
 */
HWHEEL_MUST_CHECK
int hwheel_create(const struct hwheel_options *options,
		  struct hwheel **wheel);

/**
 * hwheel_disown() - Give up an owned wheel.
 * @wheel: a wheel of hwheel_options.owned.
 *
 * Afterwards nobody owns the wheel, until a thread calls hwheel_own(). Timers
 * stay pending. Other threads may send timers meanwhile.
 *
 * Return:
 * * 0 - nobody owns the wheel.
 * * -EINVAL - @wheel is NULL, or a shared wheel.
 * * -EPERM - another thread owns the wheel, or nobody does.
 * * -EDEADLK - the call comes from a callback of this wheel.
 * * -ESHUTDOWN - this is a forked child.
 *
 * Context: any thread, but not in a callback of this wheel. Never blocks.
 */
HWHEEL_MUST_CHECK
int hwheel_disown(struct hwheel *wheel);

/**
 * hwheel_own() - Become the owner of a wheel that nobody owns.
 * @wheel: a wheel of hwheel_options.owned.
 *
 * Takes the wheel after hwheel_disown(), or from a thread that has ended. The
 * new owner sees all that the last owner did. It drives the wheel before it
 * sleeps, because a timer that another thread sent meanwhile may be due.
 *
 * A thread has ended when the destructors of its thread-specific data have
 * run. If its first call comes in one of them, the thread has ended when the
 * kernel has removed it, shortly after pthread_join(). A main thread whose
 * main() returns ends the process instead.
 *
 * Return:
 * * 0 - the calling thread owns the wheel.
 * * -EINVAL - @wheel is NULL, or a shared wheel.
 * * -EBUSY - another thread owns the wheel.
 * * -EUSERS - 32767 other threads of the process use timers.
 * * -ENOMEM - no memory.
 * * -ESHUTDOWN - this is a forked child.
 *
 * Context: any thread. May block in the kernel for memory.
 */
HWHEEL_MUST_CHECK
int hwheel_own(struct hwheel *wheel);

/**
 * hwheel_destroy() - Stop and free a wheel.
 * @wheel: the wheel; NULL is allowed.
 *
 * Stops the wheel like hwheel_stop(), then frees it with all its timers and its
 * descriptor. Pending timers do not fire. Call hwheel_drain() first to get them
 * back. All handles of the wheel become invalid.
 *
 * A forked child may destroy its copy of the wheel. That frees memory only. In
 * a child that a callback has forked, this call returns -EDEADLK until the
 * callback returns.
 *
 * Return:
 * * 0 - the wheel is gone.
 * * -EPERM - the wheel is an owned one, and another thread owns it or nobody
 *   does. hwheel_own() comes first then.
 * * -EDEADLK - the call comes from a callback, the executor or the wake
 *   function of this wheel; nothing has changed.
 * * -EBUSY - another thread is in hwheel_stop().
 *
 * Context: no other thread may use the wheel during or after this call. May run
 * queued callbacks on the caller's stack. Blocks until every running callback
 * has returned. Two callbacks that destroy each other's wheels never return.
 */
int hwheel_destroy(struct hwheel *wheel);

/* Timers: handles, events and callbacks */

/**
 * Handle of a timer, never 0. The library checks every handle. The handle of a
 * freed timer is an error (-ESTALE) and never touches another timer. So is a
 * handle of another wheel, or one with a wrong bit, until millions of timers
 * have used the same memory.
 */
typedef uint64_t hwheel_timer_t;

/** Event flag: hwheel_drain() handed the timer back; it has not fired. */
#define HWHEEL_EVENT_DRAINED (1 << 8)

/** Event flag: hwheel_list() shows the timer; it is pending. */
#define HWHEEL_EVENT_LISTED (1 << 9)

/**
 * A timer that has fired. hwheel_drain() and hwheel_list() use the same struct.
 *
 * @timer: handle of the timer; 0 for a timer with a key. If the timer freed
 *   itself, the handle is already stale.
 * @cookie: the value that the caller gave with the timer.
 * @deadline_ns: the time of the timer's tick, on the wheel's clock: the
 *   caller's time, rounded up to a tick. For a period it is the exact time,
 *   unless hwheel_timer_mod() has moved the timer. hwheel_list() always gives
 *   the time of the tick, which for a period includes its slack.
 * @missed: number of periods that were skipped, before or after this one;
 *   4294967295 stands for that number or more.
 * @flags: HWHEEL_EVENT_*.
 */
struct hwheel_event {
	hwheel_timer_t timer;
	uint64_t cookie;
	uint64_t deadline_ns;
	uint32_t missed;
	uint32_t flags;
};

/**
 * A callback. @event is valid until the callback returns.
 *
 * It runs on the thread that drives the wheel, or on a worker or a thread of
 * the executor if the wheel has them. The callback of one timer never runs on
 * two threads at once. If a timer is armed again and comes due before its
 * callback has returned, it stays pending until the callback returns, and then
 * fires.
 *
 * A callback may call every function of the wheel except hwheel_poll(),
 * hwheel_advance(), hwheel_stop(), hwheel_drain() and hwheel_destroy(), for any
 * timer, its own included. A callback must return, on the thread and the stack
 * on which it was called, and must not leave by longjmp(). An exception or a
 * pthread_cancel() that leaves a callback ends the process.
 */
typedef void (*hwheel_fn)(struct hwheel *wheel,
			  const struct hwheel_event *event);

/* Timers that free themselves */

/** Flag: the time is a point on the wheel's clock, not a delay. */
#define HWHEEL_ABS (1 << 0)

/** Flag: fire every missed period, one after another, until caught up. */
#define HWHEEL_MISSED_BURST (1 << 4)

/** Flag: after a miss, start the next period now. */
#define HWHEEL_MISSED_DELAY (1 << 5)

/**
 * hwheel_once() - Make a timer that fires once.
 * @wheel: the wheel.
 * @time_ns: delay in nanoseconds, or with HWHEEL_ABS a point on the wheel's
 *   clock. HWHEEL_NEVER is never. A time that has passed means the next tick
 *   that the wheel reaches.
 * @fn: the callback; NULL for an event.
 * @cookie: any value; the callback or the event receives it.
 * @flags: 0 or HWHEEL_ABS.
 * @timer: receives the handle, for example to cancel the timer; may be NULL.
 *
 * A timer that is kept costs less than half of a new one: one call of
 * hwheel_timer_setup(), then hwheel_timer_mod() and hwheel_timer_delete().
 *
 * With a NULL @timer any thread may call this on an owned wheel. The timer is
 * a message to the owner. The owner gets the callback or event, and sees what
 * the sender has written before this call. A message cannot be cancelled.
 *
 * The timer frees itself after it has fired. The handle in an event is already
 * stale; a handle in a callback is stale once the callback has returned. On a
 * wheel that another thread drives, the timer may fire before this call
 * returns. @timer is set last: the callback must neither read nor free it.
 *
 * Return:
 * * 0 - the timer is pending, or has fired already.
 * * -EINVAL - @wheel is NULL, a flag is unknown, or @time_ns is 2^63 or above
 *   and not HWHEEL_NEVER.
 * * -EPERM - the calling thread does not own the wheel, and @timer is not NULL.
 * * -ENOSPC - the limit on live timers is reached.
 * * -ENOMEM - no memory.
 * * -EUSERS - 32767 other threads of the process use timers.
 * * -ESHUTDOWN - the wheel was drained, or this is a forked child.
 *
 * Context: any thread, also in a callback. Lock-free; calls no allocator.
 */
HWHEEL_MUST_CHECK
int hwheel_once(struct hwheel *wheel,
		uint64_t time_ns,
		hwheel_fn fn,
		uint64_t cookie,
		uint32_t flags,
		hwheel_timer_t *timer);

/**
 * hwheel_every() - Make a timer that fires periodically.
 * @wheel: the wheel.
 * @first_ns: delay until the first time in nanoseconds, or with HWHEEL_ABS a
 *   point on the wheel's clock. HWHEEL_NEVER is never.
 * @period_ns: nanoseconds from each deadline to the next, at least 1.
 *   With HWHEEL_NEVER the timer fires once, and stays pending until it is
 *   cancelled. A period of 2^47 ns (39 hours) or more is rounded up to a
 *   multiple of 65536 ns. With a period below a tick the timer fires once per
 *   tick, and the other periods count as missed.
 * @slack_ns: how long after each deadline the timer may fire, to share a
 *   wake-up with other timers; 0 for none. Slack below a tick has no effect.
 *   Slack is limited to one period, and to 2^47 ns (39 hours). With a period of
 *   HWHEEL_NEVER only the second limit applies.
 * @fn: the callback; NULL for an event.
 * @cookie: any value; the callback or the event receives it.
 * @flags: HWHEEL_ABS, and at most one of HWHEEL_MISSED_*; may be 0.
 * @timer: receives the handle; may be NULL.
 *
 * Deadlines do not drift: each one is the previous one plus the period,
 * whenever the callback ran. While its callback runs, the timer is pending for
 * the next period, so the callback can cancel it, by the handle of its event.
 * hwheel_timer_delete() frees it. The timer may fire before @timer is set, as
 * with hwheel_once().
 *
 * If @first_ns has passed, the timer fires at the next tick, and the periods
 * since @first_ns count as missed, even with HWHEEL_MISSED_BURST. If the last
 * missed time is still 2^48 ns (78 hours) or more before that tick, the periods
 * count from that tick. With HWHEEL_MISSED_DELAY the missed time before the
 * last one decides.
 *
 * If the callback runs on the driving thread and takes longer than the period,
 * the timer fires again at once, one time, and reports the rest as missed. On a
 * worker or a thread of the executor a period that comes due while the callback
 * runs or waits in the queue counts as missed. With HWHEEL_MISSED_BURST such a
 * period fires afterwards, unless the callback takes more than 2^34 ticks. A
 * time that hwheel_timer_mod() has set meanwhile is no period, and fires.
 *
 * If no thread drives the wheel for several periods, the timer by default fires
 * once, keeps its rhythm, and reports the other periods in @missed of its
 * event. With HWHEEL_MISSED_BURST each of them fires. With HWHEEL_MISSED_DELAY
 * the next period starts now.
 *
 * Return:
 * * 0 - the timer is pending.
 * * -EINVAL - @wheel is NULL, @period_ns is 0, a flag is unknown, both
 *   HWHEEL_MISSED_* are given, or a time is 2^63 or above and not HWHEEL_NEVER.
 * * -ENOSPC - the limit on live timers is reached.
 * * -ENOMEM - no memory.
 * * -EUSERS - 32767 other threads of the process use timers.
 * * -ESHUTDOWN - the wheel was drained, or this is a forked child.
 *
 * Context: any thread, also in a callback. Lock-free; calls no allocator.
 */
HWHEEL_MUST_CHECK
int hwheel_every(struct hwheel *wheel,
		 uint64_t first_ns,
		 uint64_t period_ns,
		 uint64_t slack_ns,
		 hwheel_fn fn,
		 uint64_t cookie,
		 uint32_t flags,
		 hwheel_timer_t *timer);

/* Timers to arm again and again */

/** Flag: arm or move the timer only if that makes it fire earlier. */
#define HWHEEL_REDUCE (1 << 1)

/** Flag: move the timer only if it is pending. */
#define HWHEEL_IF_PENDING (1 << 2)

/**
 * hwheel_timer_setup() - Make a timer that can be armed again and again.
 * @wheel: the wheel.
 * @fn: the callback; NULL for an event.
 * @cookie: any value; the callback or the event receives it.
 * @timer: receives the handle.
 *
 * The timer is not pending. It exists until hwheel_timer_free().
 *
 * Return:
 * * 0 - @timer is set.
 * * -EINVAL - @wheel or @timer is NULL.
 * * -ENOSPC - the limit on live timers is reached.
 * * -ENOMEM - no memory.
 * * -EUSERS - 32767 other threads of the process use timers.
 * * -ESHUTDOWN - the wheel was drained, or this is a forked child.
 *
 * Context: any thread, also in a callback. Lock-free; calls no allocator.
 */
HWHEEL_MUST_CHECK
int hwheel_timer_setup(struct hwheel *wheel,
		       hwheel_fn fn,
		       uint64_t cookie,
		       hwheel_timer_t *timer);

/**
 * hwheel_timer_mod() - Arm a timer, or move it if it is pending.
 * @wheel: the wheel.
 * @timer: the timer.
 * @time_ns: delay in nanoseconds, or with HWHEEL_ABS a point on the wheel's
 *   clock. HWHEEL_NEVER is never.
 * @flags: HWHEEL_ABS, and at most one of HWHEEL_REDUCE and HWHEEL_IF_PENDING;
 *   may be 0.
 *
 * The timer fires at the first tick at or after the time, and no longer at its
 * old time. A time that has passed, and a delay of 0, mean the next tick that
 * the wheel reaches.
 *
 * With HWHEEL_REDUCE a pending timer fires at the earlier of the two times.
 * With HWHEEL_IF_PENDING a timer that is not pending stays so.
 *
 * A periodic timer continues its rhythm from the tick of the new time.
 *
 * Return:
 * * 1 - the timer was pending. It now fires at the new time, or with
 *   HWHEEL_REDUCE at the earlier one.
 * * 0 - the timer was not pending. It is pending now, unless @flags has
 *   HWHEEL_IF_PENDING.
 * * -EINVAL - @wheel is NULL, a flag is unknown, HWHEEL_REDUCE and
 *   HWHEEL_IF_PENDING are combined, or @time_ns is 2^63 or above and not
 *   HWHEEL_NEVER.
 * * -ESTALE - the timer no longer exists.
 * * -ENOMEM - no memory; nothing has changed. The wheel is shared, and this is
 *   the first call of this thread that makes or arms a timer of it.
 * * -EUSERS - 32767 other threads of the process use timers.
 * * -ESHUTDOWN - the timer was shut down, the wheel was drained, or this is a
 *   forked child.
 *
 * Context: any thread, also in a callback. Lock-free; calls no allocator. Makes
 * a system call only to wake the driver of a system clock for a new earliest
 * time, or to map more memory.
 */
int hwheel_timer_mod(struct hwheel *wheel,
		     hwheel_timer_t timer,
		     uint64_t time_ns,
		     uint32_t flags);

/**
 * hwheel_timer_mod_range() - Arm or move a timer to any time in a range.
 * @wheel: the wheel.
 * @timer: the timer.
 * @time_ns: the earliest time: a delay in nanoseconds, or with HWHEEL_ABS a
 *   point on the wheel's clock. HWHEEL_NEVER is never.
 * @slack_ns: length of the range in nanoseconds. Slack below a tick has no
 *   effect.
 * @flags: 0 or HWHEEL_ABS.
 *
 * The wheel picks a tick in the range that other timers with slack also use, so
 * that they share a wake-up. A timer that is already due in the range stays
 * where it is, which costs no more than a move. Its event and its rhythm then
 * show the deadline of the earlier call, which may lie before the range. If all
 * ticks of the range have passed, the timer fires at the next tick.
 *
 * Return:
 * * 1 - the timer was pending; it fires in the range.
 * * 0 - the timer was not pending; it is now.
 * * -EINVAL - @wheel is NULL, a flag is unknown, or a time is 2^63 or above and
 *   not HWHEEL_NEVER.
 * * -ESTALE - the timer no longer exists.
 * * -ENOMEM - no memory; nothing has changed. The wheel is shared, and this is
 *   the first call of this thread that makes or arms a timer of it.
 * * -EUSERS - 32767 other threads of the process use timers.
 * * -ESHUTDOWN - the timer was shut down, the wheel was drained, or this is a
 *   forked child.
 *
 * Context: any thread, also in a callback. Lock-free; calls no allocator.
 */
int hwheel_timer_mod_range(struct hwheel *wheel,
			   hwheel_timer_t timer,
			   uint64_t time_ns,
			   uint64_t slack_ns,
			   uint32_t flags);

/**
 * hwheel_timer_set_period() - Make a timer periodic, or change its period.
 * @wheel: the wheel.
 * @timer: the timer.
 * @period_ns: the period in nanoseconds; 0 or HWHEEL_NEVER for none. A period
 *   of 2^47 ns (39 hours) or more is rounded up to a multiple of 65536 ns.
 *
 * This call does not arm the timer: hwheel_timer_mod() sets the next time. When
 * the timer has fired at that time, it is pending again, one period later.
 * Without a period a timer of hwheel_timer_setup() is then not pending, and a
 * timer of hwheel_once() or hwheel_every() frees itself.
 *
 * Missed periods are skipped and counted, unless hwheel_every() made the timer
 * with a flag HWHEEL_MISSED_*.
 *
 * Return:
 * * 0 - the period is set.
 * * -EINVAL - @wheel is NULL, or @period_ns is 2^63 or above and not
 *   HWHEEL_NEVER.
 * * -ESTALE - the timer no longer exists.
 * * -ESHUTDOWN - the timer was shut down, or this is a forked child.
 *
 * Context: any thread, also in a callback. Lock-free; calls no allocator.
 */
int hwheel_timer_set_period(struct hwheel *wheel,
			    hwheel_timer_t timer,
			    uint64_t period_ns);

/**
 * hwheel_timer_free() - Cancel and free a timer.
 * @wheel: the wheel.
 * @timer: the timer.
 *
 * The handle is stale from now on. A callback that is running or queued is not
 * stopped; to wait for it, call hwheel_timer_shutdown_sync() first.
 *
 * Return:
 * * 1 - the timer was pending and will not fire.
 * * 0 - the timer was not pending.
 * * -EINVAL - @wheel is NULL.
 * * -ESTALE - the timer no longer exists.
 * * -ESHUTDOWN - this is a forked child.
 *
 * Context: any thread, also in the timer's own callback. Lock-free; calls no
 * allocator.
 */
int hwheel_timer_free(struct hwheel *wheel, hwheel_timer_t timer);

/* Any timer */

/**
 * hwheel_timer_delete() - Cancel a timer.
 * @wheel: the wheel.
 * @timer: the timer.
 *
 * A timer of hwheel_timer_setup() can be armed again. A timer of hwheel_once()
 * or hwheel_every() is freed. A callback that is running or queued is not
 * stopped; hwheel_timer_delete_sync() waits for it, or takes it out of the
 * queue.
 *
 * An event that is already in the caller's array cannot be recalled, not even
 * by hwheel_timer_mod(). Compare its @timer with the handle that the object
 * holds now, and clear that handle when the object goes away. On a wheel that
 * also has timers with keys, test @timer for 0 first. If a timer without a
 * period is pending when its event is handled, the timer was armed again:
 * ignore the event.
 *
 * Return:
 * * 1 - the timer was pending and will not fire.
 * * 0 - the timer was not pending: it was not armed, or it has fired. Its
 *   callback may be running, or may be queued and run later.
 * * -EINVAL - @wheel is NULL.
 * * -ESTALE - the timer no longer exists.
 * * -ESHUTDOWN - this is a forked child.
 *
 * Context: any thread, also in a callback. Lock-free; calls no allocator.
 */
int hwheel_timer_delete(struct hwheel *wheel, hwheel_timer_t timer);

/**
 * hwheel_timer_delete_sync() - Cancel a timer and wait for its callback.
 * @wheel: the wheel.
 * @timer: the timer.
 *
 * When this call returns 1 or 0, the callback is not running on any thread. It
 * does not start again, unless a thread arms the timer again. A queued callback
 * is taken out of the queue and does not run. This call runs no callback. The
 * timer may be armed again while this call waits. The call then cancels the
 * timer each time, and still returns 1.
 *
 * Callbacks that wait for each other in a cycle never return. They may belong
 * to one wheel or to several.
 *
 * Return:
 * * 1 - the timer was pending, its callback had armed it again, or the callback
 *   was taken out of the queue, even if the timer no longer exists.
 * * 0 - the timer was not pending.
 * * -EINVAL - @wheel is NULL.
 * * -EDEADLK - the call comes from this timer's callback, or from a callback of
 *   another timer or wheel that runs inside of it; nothing has changed.
 * * -ESTALE - the timer no longer exists, and its callback is not running on
 *   another thread. A callback that has freed its own timer gets this, too.
 * * -ESHUTDOWN - this is a forked child.
 *
 * Context: any thread, also in the callback of another timer. Blocks while the
 * callback runs, so the caller must not hold a lock that the callback takes.
 */
int hwheel_timer_delete_sync(struct hwheel *wheel, hwheel_timer_t timer);

/**
 * hwheel_timer_shutdown() - Cancel a timer for good.
 * @wheel: the wheel.
 * @timer: the timer.
 *
 * Like hwheel_timer_delete(), but the timer cannot be armed again. A timer of
 * hwheel_timer_setup() exists until hwheel_timer_free(), and an attempt to arm
 * it returns -ESHUTDOWN. A timer of hwheel_once() or hwheel_every() is freed,
 * and the same attempt returns -ESTALE.
 *
 * Return:
 * * 1 - the timer was pending and will not fire.
 * * 0 - the timer was not pending.
 * * -EINVAL - @wheel is NULL.
 * * -ESTALE - the timer no longer exists.
 * * -ESHUTDOWN - this is a forked child.
 *
 * Context: any thread, also in a callback. Lock-free; calls no allocator.
 */
int hwheel_timer_shutdown(struct hwheel *wheel, hwheel_timer_t timer);

/**
 * hwheel_timer_shutdown_sync() - Shut a timer down and wait for its callback.
 * @wheel: the wheel.
 * @timer: the timer.
 *
 * Like hwheel_timer_shutdown(). When this call returns 1 or 0, the callback is
 * not running on any thread and never starts again.
 *
 * Callbacks that wait for each other in a cycle never return. They may belong
 * to one wheel or to several.
 *
 * Return:
 * * 1 - the timer was pending and will not fire, or its callback was taken out
 *   of the queue, even if the timer no longer exists.
 * * 0 - the timer was not pending.
 * * -EINVAL - @wheel is NULL.
 * * -EDEADLK - the call comes from this timer's callback, or from a callback of
 *   another timer or wheel that runs inside of it; nothing has changed.
 * * -ESTALE - the timer no longer exists, and its callback is not running on
 *   another thread. A callback that has freed its own timer gets this, too.
 * * -ESHUTDOWN - this is a forked child.
 *
 * Context: any thread, also in the callback of another timer. Blocks while the
 * callback runs, so the caller must not hold a lock that the callback takes.
 */
int hwheel_timer_shutdown_sync(struct hwheel *wheel, hwheel_timer_t timer);

/**
 * hwheel_timer_pending() - Test whether a timer is pending.
 * @wheel: the wheel.
 * @timer: the timer.
 *
 * Return:
 * * 1 - the timer is pending.
 * * 0 - the timer is not pending.
 * * -EINVAL - @wheel is NULL.
 * * -ESTALE - the timer no longer exists.
 * * -ESHUTDOWN - this is a forked child.
 *
 * Context: any thread, also in a callback. Wait-free.
 */
int hwheel_timer_pending(const struct hwheel *wheel, hwheel_timer_t timer);

/**
 * hwheel_timer_remaining() - Get the time left until a timer fires.
 * @wheel: the wheel.
 * @timer: the timer.
 * @remaining_ns: receives the nanoseconds: 0 if the time has passed,
 *   HWHEEL_NEVER if it never comes.
 *
 * Return:
 * * 1 - the timer is pending; @remaining_ns is set.
 * * 0 - the timer is not pending; @remaining_ns is not written.
 * * -EINVAL - @wheel or @remaining_ns is NULL.
 * * -ESTALE - the timer no longer exists.
 * * -ESHUTDOWN - this is a forked child.
 *
 * Context: any thread, also in a callback. Wait-free.
 */
HWHEEL_MUST_CHECK
int hwheel_timer_remaining(const struct hwheel *wheel,
			   hwheel_timer_t timer,
			   uint64_t *remaining_ns);

/**
 * hwheel_timer_prefetch() - Fetch a timer's memory ahead of a call on it.
 * @wheel: the wheel; NULL is allowed.
 * @timer: the timer; any number is allowed.
 *
 * A hint for servers. A server that has learned which connection has sent
 * something calls this before it reads the data. A later hwheel_timer_mod() or
 * hwheel_timer_delete() then does not wait for memory. The hint changes no
 * timer.
 *
 * Return: nothing.
 *
 * Context: any thread, also in a callback. Wait-free.
 */
void hwheel_timer_prefetch(const struct hwheel *wheel, hwheel_timer_t timer);

/* Driving: the tick thread */

/**
 * hwheel_start() - Start the tick thread.
 * @wheel: the wheel.
 *
 * The tick thread drives the wheel: it sleeps until a timer is due, and runs
 * the callbacks unless workers or an executor do. The event of a timer without
 * a callback is discarded, and hwheel_stats.unclaimed counts it.
 *
 * The tick thread and the workers block all signals except SIGSEGV, SIGBUS,
 * SIGFPE, SIGILL, SIGTRAP, SIGSYS and SIGPROF. The program's handlers for these
 * work in callbacks, too. A program that a callback starts inherits the blocked
 * signals. Unblock them between fork() and exec, or use POSIX_SPAWN_SETSIGMASK.
 *
 * Return:
 * * 0 - the tick thread drives the wheel.
 * * -EINVAL - @wheel is NULL, its clock is manual, it has a function
 *   hwheel_options.wake, or it is an owned wheel.
 * * -EBUSY - the tick thread is started already, or another thread drives.
 * * -EAGAIN, -EMFILE, -ENFILE, -ENOMEM - the system has no thread or descriptor
 *   left; hwheel_poll() still works.
 * * -EPERM, -ENOSYS - a filter of system calls refuses a thread or a timerfd.
 * * -ESHUTDOWN - the wheel was drained, or this is a forked child.
 *
 * Context: any thread, also in a callback, but in one on the driving thread it
 * returns -EBUSY. Does not wait for the tick thread.
 */
HWHEEL_MUST_CHECK
int hwheel_start(struct hwheel *wheel);

/**
 * hwheel_stop() - Stop the tick thread.
 * @wheel: the wheel.
 *
 * When this call returns, no callback is running, and none starts until a
 * thread drives the wheel again. This holds with and without a tick thread.
 *
 * The call waits for running callbacks, and for an hwheel_poll(),
 * hwheel_advance() or hwheel_run_queued() of another thread. Such a poll or
 * advance first fires all timers that are due, within its own bounds.
 *
 * The call runs queued callbacks, some on the caller's stack, because their
 * timers have fired. Meanwhile the driving thread queues no others: it runs
 * callbacks itself. So this call returns in bounded time if callbacks return,
 * whatever the executor does.
 *
 * Timers stay pending, also those that are due when the tick thread ends, and
 * arming works as before: hwheel_start() continues, and so does hwheel_poll().
 *
 * Return:
 * * 0 - no thread drives the wheel, unless a callback that ran in this call has
 *   started it again.
 * * -EINVAL - @wheel is NULL.
 * * -EDEADLK - the call comes from a callback, the executor or the wake
 *   function of this wheel; nothing has changed.
 * * -EBUSY - another thread is stopping the wheel.
 * * -ESHUTDOWN - this is a forked child.
 *
 * Context: any thread, but not in a callback of this wheel. Blocks until every
 * running callback has returned and no other thread drives, so the caller must
 * not hold a lock that a callback takes. Two callbacks that stop each other's
 * wheels never return.
 */
int hwheel_stop(struct hwheel *wheel);

/* Driving: an event loop, or the caller's own clock */

/**
 * Bounds for one call that drives, and whether the call left work.
 *
 * @size: sizeof(struct hwheel_run), set by the caller, at least 8. The rules
 *   are those of struct hwheel_options.
 * @left: receives 1 if the call stopped at a bound, so that due timers may be
 *   left; 0 if no due timer is left.
 * @max_fired: maximum number of timers to fire; 0 for no limit. The @max of the
 *   call is a bound, too.
 * @max_ns: nanoseconds after which to stop, below 2^63, or HWHEEL_NEVER; 0 for
 *   no limit. A running callback is not interrupted.
 * @next_ns: receives the time on the wheel's clock at which to call again, or
 *   HWHEEL_NEVER if no timer is pending that ever fires. The time is past if
 *   due timers are left. At the end of the call the time is never later than
 *   the next timer, and at most 2^35 ticks after the last tick that the wheel
 *   has reached. Later arms are announced by hwheel_options.wake or
 *   hwheel_fd(), but those of an owner with a wake function are not: the owner
 *   drives again before it sleeps. The time may be early after timers were
 *   cancelled or moved to a later time. A call at the announced time removes at
 *   least 64 of the earliest of these timers. A call at the same tick as the
 *   call before removes as many. The next such call continues there, so that
 *   several calls at the same time make @next_ns exact. With a descriptor, each
 *   call removes them. If a call finds more than 64 pending timers in a slot of
 *   a higher level, @next_ns may be as early as the time at which the wheel
 *   enters that slot. It may stay so until a call at that time, also if most of
 *   these timers are cancelled meanwhile.
 *
 * The wheel works in rounds. A round first takes the timers that each thread
 * has armed since the last round. Then it fires what was due when the round
 * began. A call that stops at a bound has taken at least 32 timers, or has
 * fired one, or has passed a slot of the wheel. The next call goes on there. A
 * timer that is armed after the round has come to its thread waits for the
 * next round. So if every call is bounded, a timer that comes due fires in
 * the round that is under way or in the next one, however fast other threads
 * arm timers.
 */
struct hwheel_run {
	uint32_t size;
	uint32_t left;
	uint64_t max_fired;
	uint64_t max_ns;
	uint64_t next_ns;
};

/**
 * hwheel_fd() - Get a descriptor that becomes readable when a timer is due.
 * @wheel: the wheel.
 *
 * For poll(), epoll, select() or an event loop: when it is readable, call
 * hwheel_poll(). The first call makes the descriptor. It is close-on-exec and
 * belongs to the wheel: the caller neither reads nor closes it.
 *
 * The descriptor may be readable with nothing due. Edge-triggered epoll
 * works, too: if hwheel_poll() leaves due timers, epoll reports the
 * descriptor again. This also holds if another thread got -EBUSY. If several
 * threads wait in one epoll instance, use EPOLLONESHOT to avoid the error:
 * the thread that wakes up calls hwheel_poll(), then re-arms the descriptor.
 * If each thread has its own epoll instance, give each its own wheel.
 *
 * Return:
 * * n - the descriptor, 0 or above.
 * * -EINVAL - @wheel is NULL, its clock is manual, or it has a function
 *   hwheel_options.wake.
 * * -EMFILE, -ENFILE, -ENOMEM - the system has no descriptor left.
 * * -EPERM, -ENOSYS - a filter of system calls refuses a timerfd.
 * * -ESHUTDOWN - this is a forked child.
 *
 * Context: any thread, also in a callback. Never blocks.
 */
HWHEEL_MUST_CHECK
int hwheel_fd(struct hwheel *wheel);

/**
 * hwheel_poll() - Drive a wheel with a system clock.
 * @wheel: the wheel.
 * @events: receives events; may be NULL if @max is 0.
 * @max: number of events that @events has room for. With 0, all due timers
 *   fire, within the bounds of @run. The event of a timer without a callback is
 *   then discarded, and hwheel_stats.unclaimed counts it.
 * @run: bounds for this call; NULL for none.
 *
 * Fires every timer that is due on the wheel's clock, as hwheel_advance() does.
 * Then it sets the descriptor of hwheel_fd() for the next timer. If due timers
 * are left, the descriptor becomes readable again at once.
 *
 * An event stays in @events if its timer is then cancelled, moved or freed:
 * hwheel_timer_delete() says how to recognize such an event.
 *
 * Return:
 * * n - the number of events written. Without @run, fewer than @max means that
 *   no due timer is left. With @run, see @left.
 * * -EINVAL - @wheel is NULL, @events is NULL and @max is not 0, @max is above
 *   2147483647, the clock is manual, or a bound is not valid.
 * * -E2BIG - @run has members that this version does not know, or its @size is
 *   above 4096.
 * * -EBUSY - another thread drives, the tick thread is started, or the call
 *   comes from a callback, the executor or the wake function of this wheel.
 * * -ESHUTDOWN - this is a forked child.
 *
 * Context: any thread, but not in a callback of this wheel; one thread drives
 * at a time. Runs callbacks on the caller's stack, unless the wheel has workers
 * or an executor. Blocks briefly for the lock of a key whose timer fires.
 */
int hwheel_poll(struct hwheel *wheel,
		struct hwheel_event *events,
		uint32_t max,
		struct hwheel_run *run);

/**
 * hwheel_advance() - Drive a wheel with a manual clock.
 * @wheel: the wheel.
 * @now_ns: the current time, below 2^63. A time before the last one leaves the
 *   clock where it is, so 0 fires due timers without moving the clock.
 * @events: receives events; may be NULL if @max is 0.
 * @max: number of events that @events has room for. With 0, all due timers
 *   fire, within the bounds of @run. The event of a timer without a callback is
 *   then discarded, and hwheel_stats.unclaimed counts it.
 * @run: bounds for this call; NULL for none.
 *
 * Fires every timer that is due at @now_ns, in the order of their ticks. Calls
 * their callbacks, and writes an event for each timer without one. Stops when
 * @events is full or a bound of @run is reached. The next call continues there.
 *
 * The time that a call takes follows the timers that are due, those that were
 * armed since the last call, and those that were armed for about this time and
 * then cancelled or moved: a million of these take some 25 ms. @run bounds all
 * of it.
 *
 * Return:
 * * n - the number of events written. Without @run, fewer than @max means that
 *   no due timer is left. With @run, see @left.
 * * -EINVAL - @wheel is NULL, @events is NULL and @max is not 0, @max is above
 *   2147483647, @now_ns is 2^63 or above, the clock is not manual, or a bound
 *   is not valid.
 * * -E2BIG - @run has members that this version does not know, or its @size is
 *   above 4096.
 * * -EBUSY - another thread drives, or the call comes from a callback, the
 *   executor or the wake function of this wheel.
 * * -ESHUTDOWN - this is a forked child.
 *
 * Context: any thread, but not in a callback of this wheel; one thread drives
 * at a time. Runs callbacks on the caller's stack, unless the wheel has workers
 * or an executor. Blocks briefly for the lock of a key whose timer fires.
 */
int hwheel_advance(struct hwheel *wheel,
		   uint64_t now_ns,
		   struct hwheel_event *events,
		   uint32_t max,
		   struct hwheel_run *run);

/**
 * hwheel_next_expiry() - Get the time at which to drive the wheel next.
 * @wheel: the wheel.
 * @time_ns: receives the time in nanoseconds on the wheel's clock.
 *
 * The time is never later than the next timer. It may be past, and the call may
 * return 1 although no timer is pending: after a timer was cancelled or moved
 * to a later time, until the wheel is driven; after a call that stopped at a
 * bound; in a callback; and while another thread drives. The number of pending
 * timers is in hwheel_stats.pending.
 *
 * Do not sleep until this time: this call announces nothing, so that an arm of
 * another thread would not wake the caller. A loop sleeps until
 * hwheel_run.next_ns of the last call that drove the wheel, which is also more
 * exact.
 *
 * A timer that is due while its own callback still runs does not count: the end
 * of the callback wakes the driver. Once hwheel_drain() has begun, the time may
 * also be later than a timer that was not handed back yet.
 *
 * Return:
 * * 1 - @time_ns is set.
 * * 0 - no timer is pending, or none of them ever fires; @time_ns is not
 *   written.
 * * -EINVAL - an argument is NULL.
 * * -ESHUTDOWN - this is a forked child.
 *
 * Context: any thread, also in a callback. Never blocks, and never disturbs a
 * thread that drives.
 */
HWHEEL_MUST_CHECK
int hwheel_next_expiry(const struct hwheel *wheel,
		       uint64_t *time_ns);

/**
 * hwheel_now() - Get the time on the wheel's clock.
 * @wheel: the wheel.
 * @now_ns: receives the time in nanoseconds.
 *
 * If the system clock steps back, the wheel's time does not go below the last
 * tick to which the wheel was driven. It stays there until the clock catches
 * up.
 *
 * Return:
 * * 0 - @now_ns is set.
 * * -EINVAL - an argument is NULL.
 * * -ESHUTDOWN - this is a forked child.
 *
 * Context: any thread, also in a callback. Wait-free.
 */
int hwheel_now(const struct hwheel *wheel, uint64_t *now_ns);

/* Driving: workers and executors */

/**
 * hwheel_run_queued() - Run one queued callback.
 * @wheel: a wheel with workers or an executor.
 *
 * The executor's threads call this once for each request. Any other thread may
 * call it to help. After hwheel_stop() or hwheel_timer_delete_sync() there may
 * be fewer callbacks than requests.
 *
 * Return:
 * * 1 - one callback has run.
 * * 0 - no callback was waiting.
 * * -EINVAL - @wheel is NULL, or has neither workers nor an executor.
 * * -ESHUTDOWN - this is a forked child.
 *
 * Context: any thread, also in a callback. Runs the callback on the caller's
 * stack.
 */
int hwheel_run_queued(struct hwheel *wheel);

/* The end */

/**
 * hwheel_drain() - Shut the wheel down and get every pending timer back.
 * @wheel: the wheel.
 * @events: receives the timers, in no particular order, with
 *   HWHEEL_EVENT_DRAINED.
 * @max: number of events that @events has room for, at least 1.
 *
 * From the first call on, every attempt to make or arm a timer or to start the
 * tick thread fails with -ESHUTDOWN. Each pending timer is handed back exactly
 * once. Its callback, if it has one, is not called. Timers of hwheel_once(),
 * hwheel_every() and hwheel_key_set() are freed. Queued callbacks still run,
 * because their timers have fired. If the wheel is driven before the last call,
 * due timers may still fire.
 *
 * Return:
 * * n - the number of timers written. Fewer than @max means that none is left.
 * * -EINVAL - @wheel or @events is NULL, or @max is 0 or above 2147483647.
 * * -EBUSY - the tick thread is started, or another thread drives.
 * * -EDEADLK - the call comes from a callback, the executor or the wake
 *   function of this wheel.
 * * -ESHUTDOWN - this is a forked child.
 *
 * Context: any thread, but not in a callback of this wheel; one thread drives
 * at a time. Visits every timer once. Briefly takes the lock of each key.
 */
HWHEEL_MUST_CHECK
int hwheel_drain(struct hwheel *wheel,
		 struct hwheel_event *events,
		 uint32_t max);

/* Many timers in one call */

/**
 * hwheel_timer_mod_many() - Arm or move many timers.
 * @wheel: the wheel.
 * @timers: array of @count timers; may be NULL if @count is 0.
 * @times_ns: array of @count delays in nanoseconds, or with HWHEEL_ABS points
 *   on the wheel's clock; may be NULL if @count is 0.
 * @count: number of timers, at most 2147483647.
 * @flags: flags for all of them: HWHEEL_ABS, and at most one of HWHEEL_REDUCE
 *   and HWHEEL_IF_PENDING; may be 0.
 * @results: array of @count results, each as returned by hwheel_timer_mod();
 *   may be NULL.
 *
 * Does the same as @count calls of hwheel_timer_mod(), in order, but faster: it
 * reads the clock once and prefetches the memory of the next timers. A timer
 * that fails does not stop the others.
 *
 * Return:
 * * n - the number of timers whose result is 0 or 1.
 * * -EINVAL - @wheel or an array is NULL, @count is above 2147483647, a flag is
 *   unknown, or HWHEEL_REDUCE and HWHEEL_IF_PENDING are combined; no result is
 *   written.
 * * -ESHUTDOWN - this is a forked child; no result is written.
 *
 * Context: any thread, also in a callback. Lock-free; calls no allocator.
 */
int hwheel_timer_mod_many(struct hwheel *wheel,
			  const hwheel_timer_t *timers,
			  const uint64_t *times_ns,
			  uint32_t count,
			  uint32_t flags,
			  int32_t *results);

/**
 * hwheel_timer_delete_many() - Cancel many timers.
 * @wheel: the wheel.
 * @timers: array of @count timers; may be NULL if @count is 0.
 * @count: number of timers, at most 2147483647.
 * @results: array of @count results, each as returned by hwheel_timer_delete();
 *   may be NULL.
 *
 * Does the same as @count calls of hwheel_timer_delete(), in order, but faster:
 * it prefetches the memory of the next timers. A timer that fails does not stop
 * the others.
 *
 * Return:
 * * n - the number of timers that existed: their results are 0 or 1.
 * * -EINVAL - @wheel or @timers is NULL, or @count is above 2147483647; no
 *   result is written.
 * * -ESHUTDOWN - this is a forked child; no result is written.
 *
 * Context: any thread, also in a callback. Lock-free; calls no allocator.
 */
int hwheel_timer_delete_many(struct hwheel *wheel,
			     const hwheel_timer_t *timers,
			     uint32_t count,
			     int32_t *results);

/* Timers by key */

/**
 * hwheel_key_set() - Give a key a timer that fires once.
 * @wheel: the wheel.
 * @key: any bytes, for example those of a number; the wheel copies them.
 * @key_len: number of bytes, 1 to 255.
 * @time_ns: delay in nanoseconds, or with HWHEEL_ABS a point on the wheel's
 *   clock. HWHEEL_NEVER is never.
 * @fn: the callback; NULL for an event.
 * @cookie: any value; the callback or the event receives it.
 * @flags: 0 or HWHEEL_ABS.
 *
 * The new timer replaces a pending timer of the same key, which then does not
 * fire. With the same @fn this call moves the timer and needs no memory. With
 * another @fn both timers count as live until this call returns.
 *
 * A keyed timer has no handle: @timer of its event is 0. Its key is free before
 * the callback starts, so the callback can set the key again. With workers, two
 * callbacks of one key may then run concurrently. If the old timer comes due
 * during this call, it is either replaced, or it fires and the key gets a new
 * timer.
 *
 * Return:
 * * 1 - a pending timer of this key was replaced.
 * * 0 - the key had no pending timer; it has one now.
 * * -EINVAL - @wheel or @key is NULL, @key_len is 0 or above 255, a flag is
 *   unknown, or @time_ns is 2^63 or above and not HWHEEL_NEVER.
 * * -ENOSPC - the limit on live timers is reached; nothing has changed.
 * * -ENOMEM - no memory; nothing has changed.
 * * -EUSERS - 32767 other threads of the process use timers.
 * * -ESHUTDOWN - the wheel was drained, or this is a forked child.
 *
 * Context: any thread, also in a callback. Briefly takes one of 64 locks,
 * chosen by the key; no callback runs under it. Calls the allocator for a key
 * of more than 30 bytes and when the table grows. The table takes 70 to 150
 * bytes for each key. It shrinks when less than an eighth of it is used.
 */
HWHEEL_MUST_CHECK
int hwheel_key_set(struct hwheel *wheel,
		   const void *key,
		   uint32_t key_len,
		   uint64_t time_ns,
		   hwheel_fn fn,
		   uint64_t cookie,
		   uint32_t flags);

/**
 * hwheel_key_mod() - Move the pending timer of a key.
 * @wheel: the wheel.
 * @key: the key, as in hwheel_key_set().
 * @key_len: number of bytes, 1 to 255.
 * @time_ns: delay in nanoseconds, or with HWHEEL_ABS a point on the wheel's
 *   clock. HWHEEL_NEVER is never.
 * @flags: 0 or HWHEEL_ABS.
 *
 * The timer keeps its callback and its cookie.
 *
 * Return:
 * * 1 - the timer was pending and has been moved.
 * * 0 - the key has no pending timer; nothing has changed.
 * * -EINVAL - @wheel or @key is NULL, @key_len is 0 or above 255, a flag is
 *   unknown, or @time_ns is 2^63 or above and not HWHEEL_NEVER.
 * * -ENOMEM - no memory; nothing has changed.
 * * -EUSERS - 32767 other threads of the process use timers.
 * * -ESHUTDOWN - the wheel was drained, or this is a forked child.
 *
 * Context: any thread, also in a callback. Briefly takes the lock of the key.
 * Calls no allocator.
 */
int hwheel_key_mod(struct hwheel *wheel,
		   const void *key,
		   uint32_t key_len,
		   uint64_t time_ns,
		   uint32_t flags);

/**
 * hwheel_key_delete() - Cancel the pending timer of a key.
 * @wheel: the wheel.
 * @key: the key, as in hwheel_key_set().
 * @key_len: number of bytes, 1 to 255.
 *
 * Return:
 * * 1 - the timer was pending and will not fire; timer and key are gone.
 * * 0 - the key has no pending timer: none was set, or it has fired.
 * * -EINVAL - @wheel or @key is NULL, or @key_len is 0 or above 255.
 * * -ESHUTDOWN - this is a forked child.
 *
 * Context: any thread, also in a callback. Briefly takes the lock of the key.
 * Calls the allocator only to free the memory of a key of more than 30 bytes,
 * and to move a large table that is mostly empty to a smaller one.
 */
int hwheel_key_delete(struct hwheel *wheel, const void *key, uint32_t key_len);

/**
 * hwheel_key_pending() - Test whether a key has a pending timer.
 * @wheel: the wheel.
 * @key: the key, as in hwheel_key_set().
 * @key_len: number of bytes, 1 to 255.
 *
 * Return:
 * * 1 - the key has a pending timer.
 * * 0 - the key has none.
 * * -EINVAL - @wheel or @key is NULL, or @key_len is 0 or above 255.
 * * -ESHUTDOWN - this is a forked child.
 *
 * Context: any thread, also in a callback. Briefly takes the lock of the key.
 * Calls no allocator.
 */
int hwheel_key_pending(const struct hwheel *wheel,
		       const void *key,
		       uint32_t key_len);

/* Inspection */

/**
 * hwheel_list() - Walk over the pending timers.
 * @wheel: the wheel.
 * @cursor: where the walk continues. The caller sets it to 0 before the first
 *   call; each call moves it on.
 * @events: receives the timers, in no particular order, with
 *   HWHEEL_EVENT_LISTED.
 * @max: number of events that @events has room for, at least 1.
 *
 * Serves to inspect, to debug, and to cancel all timers that match. A timer
 * with a key has the handle 0; only hwheel_key_delete() cancels it.
 *
 * A timer that is pending during the whole walk is listed exactly once. A timer
 * that is armed, fires or is cancelled during the walk may or may not be
 * listed. A listed timer may have fired when this call returns. The walk may
 * take longer while other threads create timers. It ends at the latest after
 * @max_timers timers.
 *
 * Return:
 * * n - the number of timers written. Fewer than @max means that the walk is
 *   over.
 * * -EINVAL - an argument is NULL, or @max is 0 or above 2147483647.
 * * -ESHUTDOWN - this is a forked child.
 *
 * Context: any thread, also in a callback. Lock-free for timers without a key;
 * takes the lock of each key that it lists. A walk visits every timer once. It
 * takes milliseconds for a million timers, some hundred milliseconds if they
 * have keys.
 */
HWHEEL_MUST_CHECK
int hwheel_list(const struct hwheel *wheel,
		uint64_t *cursor,
		struct hwheel_event *events,
		uint32_t max);

/**
 * Counts of what a wheel has done. They are exact while no thread uses the
 * wheel.
 *
 * The driver keeps at most one entry for each timer, in the bucket of the tick
 * at which the driver looks at the timer. A thread that arms a timer writes a
 * note for the driver if neither the entry nor another note is early enough.
 *
 * @size: sizeof(struct hwheel_stats), set by the caller, at least 8.
 * @reserved: receives 0.
 * @live: number of timers that exist, pending or not.
 * @fired: number of timers that have fired; each period counts.
 * @missed: number of periods that were skipped.
 * @unclaimed: number of timers without a callback that came due in a call
 *   without room for events.
 * @sweeps: number of times that the driver has moved the wheel's hand.
 * @wakeups: number of times that the tick thread woke up.
 * @kicks: number of arms that woke the driver for a new earliest time.
 * @notes: number of notes that threads have written for the driver.
 * @slab_bytes: bytes of memory for timers.
 * @armed: number of arms of timers that were not pending; each further period
 *   counts. It is the sum of fired, cancelled, drained and pending.
 * @rearmed: number of arms that moved a pending timer. When several threads
 *   move one timer at the same time, some of them may not count.
 * @cancelled: number of pending timers that were cancelled, and of callbacks
 *   that were taken out of the queue. The timer of such a callback does not
 *   count as fired.
 * @drained: number of timers that a drain has handed back.
 * @pending: number of timers that are pending now.
 * @entries: number of entries in buckets, after the last time that the wheel
 *   was driven.
 * @queued: number of callbacks that wait for a worker or the executor.
 * @lateness: number of timers by lateness, from the deadline to the start of
 *   the sweep. Element 0 counts timers that were not late, element i those from
 *   2^(i-1) ns to below 2^i ns, the last element all later ones. Callbacks that
 *   were taken out of the queue count.
 * @dropped: number of callbacks that did not run because the queue was full.
 * @note_bytes: bytes of memory for notes.
 */
struct hwheel_stats {
	uint32_t size;
	uint32_t reserved;
	uint64_t live;
	uint64_t fired;
	uint64_t missed;
	uint64_t unclaimed;
	uint64_t sweeps;
	uint64_t wakeups;
	uint64_t kicks;
	uint64_t notes;
	uint64_t slab_bytes;
	uint64_t armed;
	uint64_t rearmed;
	uint64_t cancelled;
	uint64_t drained;
	uint64_t pending;
	uint64_t entries;
	uint64_t queued;
	uint64_t lateness[40];
	uint64_t dropped;
	uint64_t note_bytes;
};

/**
 * hwheel_get_stats() - Get the counts of a wheel.
 * @wheel: the wheel.
 * @stats: receives the counts. Its @size says how much of it to write.
 *
 * The library sets members that this version does not know to 0.
 *
 * Return:
 * * 0 - @stats is set.
 * * -EINVAL - an argument is NULL, or @size is below 8.
 * * -E2BIG - @size is above 4096.
 * * -ESHUTDOWN - this is a forked child.
 *
 * Context: any thread, also in a callback. Never blocks. Sums the counts of all
 * threads, which takes nanoseconds for each thread and each queued callback,
 * however many timers there are.
 */
int hwheel_get_stats(const struct hwheel *wheel, struct hwheel_stats *stats);

/* The library */

/**
 * hwheel_strerror() - Describe an error.
 * @error: a value that a function of this library has returned.
 *
 * The text says what the error means for a wheel: "the timer no longer exists"
 * for -ESTALE, where strerror() says "Stale file handle".
 *
 * Return: a string that stays valid until the process ends; "success" for 0 and
 * above, "unknown error" for a value that no function returns. Never NULL.
 *
 * Context: any thread. Wait-free.
 */
const char *hwheel_strerror(int error);

/**
 * hwheel_version() - Get the version of the library in use.
 *
 * Return: the version as in HWHEEL_VERSION.
 *
 * Context: any thread. Wait-free.
 */
uint32_t hwheel_version(void);

/**
 * hwheel_version_string() - Get the version of the library as text.
 *
 * Return: a string such as "0.1.0". It stays valid until the process ends.
 *
 * Context: any thread. Wait-free.
 */
const char *hwheel_version_string(void);

#ifdef __cplusplus
} /* extern "C" */
#endif

#endif /* HWHEEL_H */
