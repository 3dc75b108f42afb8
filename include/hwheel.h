/*
 * hwheel: a lock-free timing wheel.
 *
 * Every function may be called from C and C++, from any thread unless its
 * "Context" says otherwise, and returns a negative errno value on failure;
 * errno itself is left alone. Times are nanoseconds, said in the name. On
 * failure nothing has changed and no output is written.
 *
 * SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * Generated from src/capi.rs by `make header`; do not edit.
 */

#ifndef HWHEEL_H
#define HWHEEL_H

#include <stdint.h>

/** Major version: incremented when the ABI breaks. */
#define HWHEEL_VERSION_MAJOR 0

/** Minor version: incremented when something is added. */
#define HWHEEL_VERSION_MINOR 1

/** Patch version. */
#define HWHEEL_VERSION_PATCH 0

/** Clock: CLOCK_MONOTONIC, the default. */
#define HWHEEL_CLOCK_MONOTONIC 0

/** Clock: CLOCK_BOOTTIME, which also counts the time the system is suspended. */
#define HWHEEL_CLOCK_BOOTTIME 1

/**
 * Clock: CLOCK_REALTIME, which follows the wall clock when that is set. Steps back are
 * held at the last time that the wheel has seen, and delays are counted from there: a
 * delay that is armed after a step back takes longer by the step. For delays take
 * HWHEEL_CLOCK_MONOTONIC.
 */
#define HWHEEL_CLOCK_REALTIME 2

/** Clock: the caller's own, moved by hwheel_advance(). */
#define HWHEEL_CLOCK_MANUAL 3

/**
 * Option flag: delays are counted from a time that is cheaper to read: by the
 * processor's counter, from the last time that the thread has read the clock. It is
 * never before CLOCK_MONOTONIC, and less than 0.1 ms after it, so that no timer is
 * early. HWHEEL_CLOCK_MONOTONIC alone; hwheel_create() takes 0.1 ms longer. Where
 * the kernel does not go by such a counter, the clock is read as without the flag.
 */
#define HWHEEL_COARSE 1

/**
 * Overload: a callback for which the queue has no room runs in the thread that
 * drives. The default.
 */
#define HWHEEL_OVERLOAD_RUN 0

/** Overload: the thread that drives waits until there is room. */
#define HWHEEL_OVERLOAD_BLOCK 1

/** Overload: the callback is not called; hwheel_stats.dropped counts it. */
#define HWHEEL_OVERLOAD_DROP 2

/** Arm flag: the time is a deadline on the wheel's clock, not a delay. */
#define HWHEEL_ABSTIME 1

/** Periodic flag: missed periods are fired one by one until caught up. */
#define HWHEEL_MISSED_BURST 2

/** Periodic flag: after a miss the next period is counted from now. */
#define HWHEEL_MISSED_DELAY 4

/** Event flag: handed back by hwheel_drain(), not fired. */
#define HWHEEL_EVENT_DRAINED 1

/** A delay or deadline that never comes. */
#define HWHEEL_NEVER UINT64_MAX

/** A timing wheel. Opaque; made by hwheel_create(). */
struct hwheel;

/**
 * The caller's executor: makes sure that some thread calls hwheel_work() once,
 * soon. Called in the thread that drives, which it must not hold up. The function
 * may call what a callback may call, and hwheel_work(); it must return. An executor
 * that runs nothing any more delays callbacks and nothing else: hwheel_stop() and
 * hwheel_destroy() run what is queued themselves.
 */
typedef void (*hwheel_executor_fn)(struct hwheel *wheel, void *executor_arg);

/**
 * How a wheel is made. A member that is zero takes its default; so a zeroed
 * struct with only @size set is the default wheel.
 *
 * @size: sizeof(struct hwheel_options). A shorter struct of an older version
 *   is completed with zeros; a longer one, up to 4096, is accepted if its
 *   unknown tail is zero.
 * @clock: one of HWHEEL_CLOCK_*.
 * @tick_ns: the length of a tick in nanoseconds, 1 to 3600000000000; default
 *   1000000 (1 ms). A timer fires at the first tick at or after its deadline.
 * @levels: 1 for the hashed wheel with rounds, 2 to 8 for the hierarchical
 *   wheel; default 4.
 * @slots: slots of each level, a power of two from 2 to 65536; default 256.
 *   @levels times log2(@slots) is at most 48.
 * @max_timers: the limit on live timers, 1 to 67108864; default 67108864. A timer that
 *   frees itself counts until its callback is over.
 * @flags: HWHEEL_COARSE or zero.
 * @start_ns: where a manual clock starts, below 2^62 ticks; zero for the other
 *   clocks.
 * @workers: threads that run callbacks, up to 256, made by hwheel_create(). The
 *   default, zero: the thread that drives runs them.
 * @queue: how many fired timers may wait for a worker or the executor, a power
 *   of two up to 1048576; default 1024. Unused without @workers or @executor.
 * @overload: what happens to one for which there is no room: HWHEEL_OVERLOAD_*.
 *   Unused without @workers or @executor.
 * @budget_items: a sweep stops after so many fired timers, and the next call
 *   goes on; zero for no limit. The tick thread goes on at once, after it has
 *   seen whether it is to stop.
 * @budget_ns: a sweep stops after so many nanoseconds; zero for no limit. A
 *   callback that runs is not interrupted.
 * @executor: called in the thread that drives for each callback that was put
 *   into the queue: have some thread call hwheel_work(). Not with @workers.
 * @executor_arg: handed to @executor.
 */
struct hwheel_options {
  uint32_t size;
  uint32_t clock;
  uint64_t tick_ns;
  uint32_t levels;
  uint32_t slots;
  uint32_t max_timers;
  uint32_t flags;
  uint64_t start_ns;
  uint32_t workers;
  uint32_t queue;
  uint32_t overload;
  uint32_t budget_items;
  uint64_t budget_ns;
  hwheel_executor_fn executor;
  void *executor_arg;
};

/**
 * What a wheel has done. Counts are exact when nobody uses the wheel.
 *
 * @size: sizeof(struct hwheel_stats), set by the caller.
 * @reserved: zero.
 * @live: timers that exist, armed or not.
 * @fired: timers fired, periods counted one by one. Callbacks that were taken out of
 *   the queue are cancelled, not fired.
 * @missed: periods left out.
 * @unclaimed: timers without a callback that came due where nobody took events.
 * @sweeps: how often the hand was moved.
 * @wakeups: how often the tick thread woke.
 * @kicks: how often an arm woke the driver, being the earliest.
 * @pushes: promises put into buckets by arms. An arm whose timer is looked at
 *   early enough anyway pushes none.
 * @repeats: pushes made again because the hand had just passed.
 * @slab_bytes: memory of timers.
 * @armed: arms of timers that rested; each period that follows another is one.
 *   Each ends in one way: @armed is @fired + @cancelled + @drained + @pending.
 * @rearmed: arms that moved a pending timer. Where several threads move one
 *   timer at the same moment, some may not be counted.
 * @quiet: of these, those that pushed no promise.
 * @cancelled: cancels of pending timers.
 * @drained: pending timers handed back by hwheel_drain().
 * @pending: timers that are pending now.
 * @entries: promises in buckets at present, seven bytes each.
 * @dead: of these, those that nobody waits for any more.
 * @queued: callbacks waiting for a worker.
 * @lateness: how many timers fired how late, from the deadline to the begin of
 *   the sweep that fired them: [0] not at all, [i] from 2^(i-1) ns to below
 *   2^i ns, the last also what was later.
 * @dropped: callbacks that were not called, because the queue was full.
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
  uint64_t pushes;
  uint64_t repeats;
  uint64_t slab_bytes;
  uint64_t armed;
  uint64_t rearmed;
  uint64_t quiet;
  uint64_t cancelled;
  uint64_t drained;
  uint64_t pending;
  uint64_t entries;
  uint64_t dead;
  uint64_t queued;
  uint64_t lateness[40];
  uint64_t dropped;
};

/**
 * The name of a timer: never 0, never used for another timer while anybody
 * could still hold it. A wrong one is an error (-ESTALE), never a danger.
 */
typedef uint64_t hwheel_timer_t;

/**
 * A timer that has fired, or that hwheel_drain() has handed back.
 *
 * @timer: its handle. Stale already if the timer was one that frees itself; 0
 *   if it was one with a key.
 * @cookie: what the caller gave when it made the timer.
 * @deadline_ns: when it was due.
 * @missed: how many periods were left out: before this one, because the callback
 *   was still running; after it, because they had passed as well when it was
 *   fired.
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
 * A callback. It runs in the thread that drives the wheel, or in a worker or
 * the executor's thread if there are such, and may do anything with the wheel
 * except destroy, stop or drain it, or wait for itself. It must return; a C++
 * exception that leaves it ends the process. The callback of one timer never
 * runs in two threads at once: a period that comes due meanwhile is left out
 * and counted as missed, unless it is a HWHEEL_MISSED_BURST; what else comes
 * due meanwhile fires when it is over.
 */
typedef void (*hwheel_fn)(struct hwheel *wheel, const struct hwheel_event *event);

#ifdef __cplusplus
extern "C" {
#endif /* __cplusplus */

/**
 * hwheel_version() - The version of the library that is linked.
 *
 * Return: major * 65536 + minor * 256 + patch; compare with HWHEEL_VERSION_*.
 *
 * Context: any thread, any time. Never blocks.
 */
uint32_t hwheel_version(void);

/**
 * hwheel_version_string() - The same for people.
 *
 * Return: a string such as "0.1.0" that lives as long as the process.
 *
 * Context: any thread, any time. Never blocks.
 */
const char *hwheel_version_string(void);

/**
 * hwheel_create() - Make a wheel.
 * @options: its clock, tick and shape; NULL for the defaults.
 * @flags: zero.
 * @wheel: where the wheel is written; untouched on failure.
 *
 * Return:
 * * 0 - @wheel is a wheel with no timers, which nobody drives yet.
 * * -EINVAL - @wheel is NULL, a flag is unknown, a member is out of range, or
 *   @size is below 8.
 * * -E2BIG - the options have a tail that this version does not know.
 * * -ENOMEM - no memory or address space; nothing is left behind.
 * * -EAGAIN - no threads for @workers; nothing is left behind.
 *
 * Context: any thread. May block in the kernel for memory. No descriptor and
 * no thread but the workers is made before hwheel_fd() or hwheel_start() asks
 * for one.
 */
int hwheel_create(const struct hwheel_options *options,
                  uint32_t flags,
                  struct hwheel **wheel);

/**
 * hwheel_destroy() - Stop and free a wheel.
 * @wheel: the wheel, or NULL for nothing.
 *
 * The tick thread is stopped and waited for. Armed timers do not fire; to get
 * them back call hwheel_drain() first. Callbacks that wait in the queue of workers
 * or executor run before, as in hwheel_stop(), in bounded time. A forked child may
 * destroy its copy; nothing runs there.
 *
 * Return:
 * * 0 - @wheel is gone.
 * * -EDEADLK - called from one of its own callbacks or from its executor; nothing
 *   has changed.
 * * -EBUSY - another thread is in hwheel_stop().
 *
 * Context: the caller makes sure that no other thread uses the wheel. Blocks
 * while a callback of the wheel runs. Runs callbacks that are queued.
 */
int hwheel_destroy(struct hwheel *wheel);

/**
 * hwheel_now() - The time on the wheel's clock.
 * @wheel: the wheel.
 * @now_ns: where the time is written, in nanoseconds.
 *
 * A clock that steps back is held at the last time the wheel has seen.
 *
 * Return:
 * * 0 - @now_ns is set.
 * * -EINVAL - an argument is NULL.
 * * -ESHUTDOWN - a forked child.
 *
 * Context: any thread. Never blocks.
 */
int hwheel_now(struct hwheel *wheel, uint64_t *now_ns);

/**
 * hwheel_next_expiry() - When the next timer fires.
 * @wheel: the wheel.
 * @deadline_ns: where the time is written, in nanoseconds on the wheel's
 *   clock: the begin of the tick at which the wheel wants to be driven next.
 *
 * Never later than the truth. The time may be earlier than the truth where many
 * timers were cancelled, or while another thread drives the wheel. Then it is the
 * begin of a tick that this thread has come to.
 *
 * Return:
 * * 1 - @deadline_ns is set.
 * * 0 - no timer is armed, or all are due never; @deadline_ns is untouched.
 * * -EINVAL - an argument is NULL.
 * * -ESHUTDOWN - a forked child.
 *
 * Context: any thread, also in a callback. Takes no lock: it neither waits for a
 * thread that drives nor has one get -EBUSY. Does a bounded amount of work.
 */
int hwheel_next_expiry(struct hwheel *wheel, uint64_t *deadline_ns);

/**
 * hwheel_get_stats() - What the wheel has done so far.
 * @wheel: the wheel.
 * @stats: its @size says how much of it may be written.
 *
 * Return:
 * * 0 - @stats is filled, as far as its size goes; a part that this version
 *   does not know is zeroed.
 * * -EINVAL - an argument is NULL, or the size is below 8.
 * * -E2BIG - the size is above 4096.
 * * -ESHUTDOWN - a forked child.
 *
 * Context: any thread. Never blocks. Looks at every timer once: milliseconds
 * for a million.
 */
int hwheel_get_stats(struct hwheel *wheel, struct hwheel_stats *stats);

/**
 * hwheel_setup() - Make a timer that can be armed again and again.
 * @wheel: the wheel.
 * @fn: called when it fires; NULL for a timer that is delivered as an event.
 * @cookie: handed to the callback or the event.
 * @flags: zero.
 * @timer: where the handle is written; untouched on failure.
 *
 * The timer is not armed. It exists until hwheel_free().
 *
 * Return:
 * * 0 - @timer is a new timer.
 * * -EINVAL - @wheel or @timer is NULL, or a flag is unknown.
 * * -ENOSPC - the limit on live timers is reached.
 * * -ENOMEM - no memory; nothing has changed.
 * * -ESHUTDOWN - the wheel was drained, or this is a forked child.
 *
 * Context: any thread, also in a callback. Lock-free; calls no allocator.
 */
int hwheel_setup(struct hwheel *wheel,
                 hwheel_fn fn,
                 uint64_t cookie,
                 uint32_t flags,
                 hwheel_timer_t *timer);

/**
 * hwheel_mod() - Arm a timer, or move it if it is armed.
 * @wheel: the wheel.
 * @timer: the timer.
 * @delay_ns: nanoseconds from now; HWHEEL_NEVER is never. With 0 it fires at
 *   the next tick, not within this call.
 * @flags: HWHEEL_ABSTIME if the time is a deadline.
 *
 * After it has returned the timer does not fire at its old deadline any more.
 * On a periodic timer it sets the next deadline, from which the periods are
 * counted on.
 *
 * Return:
 * * 1 - it was armed and has been moved.
 * * 0 - it was not armed and is now.
 * * -EINVAL - @wheel is NULL or a flag is unknown.
 * * -ESTALE - no such timer.
 * * -ENOMEM - no memory; nothing has changed.
 * * -ESHUTDOWN - the timer was shut down, the wheel was drained, or this is a
 *   forked child.
 *
 * Context: any thread, also in a callback. Lock-free; calls no allocator. Makes
 * a system call only to wake the driver for a deadline that is the earliest,
 * or to map memory.
 */
int hwheel_mod(struct hwheel *wheel,
               hwheel_timer_t timer,
               uint64_t delay_ns,
               uint32_t flags);

/**
 * hwheel_mod_at() - Arm or move a timer to a deadline.
 * @wheel: the wheel.
 * @timer: the timer.
 * @deadline_ns: nanoseconds on the wheel's clock; HWHEEL_NEVER is never. One
 *   that has passed fires at the next tick.
 * @flags: zero.
 *
 * The same as hwheel_mod() with HWHEEL_ABSTIME. The clock is not read.
 *
 * Return: as hwheel_mod().
 *
 * Context: as hwheel_mod().
 */
int hwheel_mod_at(struct hwheel *wheel,
                  hwheel_timer_t timer,
                  uint64_t deadline_ns,
                  uint32_t flags);

/**
 * hwheel_mod_range() - Arm a timer, or move it, to any time in a range.
 * @wheel: the wheel.
 * @timer: the timer.
 * @delay_ns: nanoseconds from now to the earliest time.
 * @slack_ns: nanoseconds from there to the latest.
 * @flags: HWHEEL_ABSTIME if the earliest time is a deadline.
 *
 * Of the ticks in the range that is chosen to which most other timers with slack
 * come as well, so that wake-ups are shared. A timer that is due in the range
 * already stays where it is, which costs next to nothing. The timer never fires
 * after the end of the range, unless no tick that is still to come lies in it: then
 * it fires at the first one after the earliest time.
 *
 * Return: as hwheel_mod().
 *
 * Context: as hwheel_mod().
 */
int hwheel_mod_range(struct hwheel *wheel,
                     hwheel_timer_t timer,
                     uint64_t delay_ns,
                     uint64_t slack_ns,
                     uint32_t flags);

/**
 * hwheel_reduce() - Arm a timer, or move it, but only to an earlier deadline.
 * @wheel: the wheel.
 * @timer: the timer.
 * @delay_ns: nanoseconds from now.
 * @flags: HWHEEL_ABSTIME if the time is a deadline.
 *
 * Return:
 * * 1 - it was armed; it now fires at the earlier of both deadlines.
 * * 0 - it was not armed and is now.
 * * otherwise as hwheel_mod().
 *
 * Context: as hwheel_mod().
 */
int hwheel_reduce(struct hwheel *wheel,
                  hwheel_timer_t timer,
                  uint64_t delay_ns,
                  uint32_t flags);

/**
 * hwheel_mod_pending() - Move a timer, but only if it is armed.
 * @wheel: the wheel.
 * @timer: the timer.
 * @delay_ns: nanoseconds from now.
 * @flags: HWHEEL_ABSTIME if the time is a deadline.
 *
 * Return:
 * * 1 - it was armed and has been moved.
 * * 0 - it was not armed; nothing has changed.
 * * otherwise as hwheel_mod().
 *
 * Context: as hwheel_mod().
 */
int hwheel_mod_pending(struct hwheel *wheel,
                       hwheel_timer_t timer,
                       uint64_t delay_ns,
                       uint32_t flags);

/**
 * hwheel_delete() - Cancel a timer.
 * @wheel: the wheel.
 * @timer: the timer.
 *
 * A timer of hwheel_setup() can be armed again. One of hwheel_after(),
 * hwheel_at() or hwheel_every() is freed. A callback that has begun goes on.
 *
 * Return:
 * * 1 - it was armed and will not fire.
 * * 0 - it was not armed: it has fired, or its callback is running.
 * * -EINVAL - @wheel is NULL.
 * * -ESTALE - no such timer, or not any more.
 * * -ESHUTDOWN - a forked child.
 *
 * Context: any thread, also in a callback. Lock-free; calls no allocator.
 */
int hwheel_delete(struct hwheel *wheel, hwheel_timer_t timer);

/**
 * hwheel_delete_sync() - Cancel a timer and wait for its callback.
 * @wheel: the wheel.
 * @timer: the timer.
 *
 * When it returns, the callback is not running on any thread and will not
 * start, unless somebody arms the timer again. A callback that waits in the queue
 * of workers or executor is taken out of it and does not run. The call runs no
 * callback itself.
 *
 * Callbacks may wait for each other's timers as long as there is no ring of them:
 * the one that would close it is refused, across wheels as well.
 *
 * Return:
 * * 1 - it was armed, or had armed itself again in its callback, or its callback
 *   was taken out of the queue.
 * * 0 - it was not armed.
 * * -EINVAL - @wheel is NULL.
 * * -EDEADLK - called from the timer's own callback, or from one that this callback
 *   waits for in turn; nothing has changed.
 * * -ESTALE - no such timer, or not any more; its callback is over.
 * * -ESHUTDOWN - a forked child.
 *
 * Context: any thread, also in the callback of another timer. Blocks while
 * the callback runs, once it has begun.
 */
int hwheel_delete_sync(struct hwheel *wheel, hwheel_timer_t timer);

/**
 * hwheel_shutdown() - Cancel a timer for good.
 * @wheel: the wheel.
 * @timer: the timer.
 *
 * As hwheel_delete(), and from now on every attempt to arm it is -ESHUTDOWN.
 * It still exists, and is freed by hwheel_free(); but a timer of
 * hwheel_after(), hwheel_at() or hwheel_every() is freed here.
 *
 * Return: as hwheel_delete().
 *
 * Context: as hwheel_delete().
 */
int hwheel_shutdown(struct hwheel *wheel, hwheel_timer_t timer);

/**
 * hwheel_shutdown_sync() - Cancel a timer for good and wait for its callback.
 * @wheel: the wheel.
 * @timer: the timer.
 *
 * As hwheel_shutdown(); when it returns, the callback is not running on any
 * thread and never starts again.
 *
 * Return: as hwheel_delete_sync().
 *
 * Context: as hwheel_delete_sync().
 */
int hwheel_shutdown_sync(struct hwheel *wheel, hwheel_timer_t timer);

/**
 * hwheel_free() - Cancel and free a timer.
 * @wheel: the wheel.
 * @timer: the timer.
 *
 * The handle is stale from now on. If the callback is running, it goes on;
 * to wait for it, call hwheel_shutdown_sync() first.
 *
 * Return: as hwheel_delete().
 *
 * Context: as hwheel_delete(); also in the timer's own callback.
 */
int hwheel_free(struct hwheel *wheel, hwheel_timer_t timer);

/**
 * hwheel_pending() - Whether a timer is armed.
 * @wheel: the wheel.
 * @timer: the timer.
 *
 * Return:
 * * 1 - it is armed.
 * * 0 - it is not.
 * * -EINVAL - @wheel is NULL.
 * * -ESTALE - no such timer, or not any more.
 * * -ESHUTDOWN - a forked child.
 *
 * Context: any thread, also in a callback. Wait-free.
 */
int hwheel_pending(struct hwheel *wheel, hwheel_timer_t timer);

/**
 * hwheel_remaining() - How long until a timer's deadline.
 * @wheel: the wheel.
 * @timer: the timer.
 * @remaining_ns: where the nanoseconds are written: 0 if the deadline has
 *   passed, HWHEEL_NEVER if it never comes.
 *
 * Return:
 * * 1 - it is armed; @remaining_ns is set.
 * * 0 - it is not armed; @remaining_ns is untouched.
 * * -EINVAL - @wheel or @remaining_ns is NULL.
 * * -ESTALE - no such timer, or not any more.
 * * -ESHUTDOWN - a forked child.
 *
 * Context: any thread, also in a callback. Wait-free.
 */
int hwheel_remaining(struct hwheel *wheel, hwheel_timer_t timer, uint64_t *remaining_ns);

/**
 * hwheel_after() - Fire once after a delay.
 * @wheel: the wheel.
 * @delay_ns: nanoseconds from now; HWHEEL_NEVER is never.
 * @fn: the callback, or NULL for an event.
 * @cookie: handed to the callback or the event.
 * @flags: zero.
 * @timer: where the handle is written, with which it can be cancelled; may be
 *   NULL. It may have fired, and the handle be stale, when this returns.
 *
 * The timer frees itself when it has fired.
 *
 * Return:
 * * 0 - it is armed.
 * * otherwise as hwheel_setup().
 *
 * Context: as hwheel_mod().
 */
int hwheel_after(struct hwheel *wheel,
                 uint64_t delay_ns,
                 hwheel_fn fn,
                 uint64_t cookie,
                 uint32_t flags,
                 hwheel_timer_t *timer);

/**
 * hwheel_at() - Fire once at a deadline.
 * @wheel: the wheel.
 * @deadline_ns: nanoseconds on the wheel's clock; HWHEEL_NEVER is never. One
 *   that has passed fires at the next tick.
 * @fn: the callback, or NULL for an event.
 * @cookie: handed to the callback or the event.
 * @flags: zero.
 * @timer: as in hwheel_after().
 *
 * Return: as hwheel_after().
 *
 * Context: as hwheel_mod().
 */
int hwheel_at(struct hwheel *wheel,
              uint64_t deadline_ns,
              hwheel_fn fn,
              uint64_t cookie,
              uint32_t flags,
              hwheel_timer_t *timer);

/**
 * hwheel_every() - Fire again and again.
 * @wheel: the wheel.
 * @first_ns: nanoseconds from now to the first time.
 * @period_ns: nanoseconds from each deadline to the next, at least 1. A
 *   period below a tick is fired once a tick, and the rest counts as missed.
 * @fn: the callback, or NULL for an event.
 * @cookie: handed to the callback or the event.
 * @flags: HWHEEL_ABSTIME if the first time is a deadline; and what to do when
 *   a period was missed because the wheel was not driven in time. By default
 *   missed periods are left out and counted, and the rhythm is kept. With
 *   HWHEEL_MISSED_BURST each is fired, at once, until caught up. With
 *   HWHEEL_MISSED_DELAY the next is counted from now.
 * @timer: as in hwheel_after().
 *
 * Deadlines do not drift: each is counted from the last one, not from when
 * the callback ran. While the callback runs the timer is armed for the next
 * period, so that it can be cancelled there.
 *
 * Return: as hwheel_after(); -EINVAL also if @period_ns is 0.
 *
 * Context: as hwheel_mod().
 */
int hwheel_every(struct hwheel *wheel,
                 uint64_t first_ns,
                 uint64_t period_ns,
                 hwheel_fn fn,
                 uint64_t cookie,
                 uint32_t flags,
                 hwheel_timer_t *timer);

/**
 * hwheel_every_range() - Fire again and again, at any time in a range.
 * @wheel: the wheel.
 * @first_ns: as in hwheel_every().
 * @period_ns: as in hwheel_every().
 * @slack_ns: each may be so many nanoseconds later than its deadline, so that it
 *   shares a wake-up with others. No more than @period_ns counts, and none below
 *   a tick. The rhythm is kept: the next deadline is counted from the last one.
 * @fn: the callback, or NULL for an event.
 * @cookie: handed to the callback or the event.
 * @flags: as in hwheel_every().
 * @timer: as in hwheel_after().
 *
 * Return: as hwheel_every().
 *
 * Context: as hwheel_mod().
 */
int hwheel_every_range(struct hwheel *wheel,
                       uint64_t first_ns,
                       uint64_t period_ns,
                       uint64_t slack_ns,
                       hwheel_fn fn,
                       uint64_t cookie,
                       uint32_t flags,
                       hwheel_timer_t *timer);

/**
 * hwheel_mod_many() - Arm or move many timers.
 * @wheel: the wheel.
 * @timers: the timers; may be NULL if @n is 0.
 * @delays_ns: for each the nanoseconds from now; HWHEEL_NEVER is never. May be
 *   NULL if @n is 0.
 * @n: how many, at most 2147483647.
 * @flags: HWHEEL_ABSTIME if the times are deadlines.
 * @results: where it is written for each what hwheel_mod() would have returned;
 *   NULL if nobody asks.
 *
 * As @n calls of hwheel_mod(), one after another, but faster: the memory of the
 * next timers is fetched while the present one is armed, and the clock is read
 * once. One that fails stops none of the others.
 *
 * Return:
 * * n - so many were armed or moved.
 * * -EINVAL - an array is NULL, @wheel is, @n is above 2147483647, or a flag is
 *   unknown; no result is written.
 * * -ESHUTDOWN - a forked child; no result is written.
 *
 * Context: as hwheel_mod().
 */
int hwheel_mod_many(struct hwheel *wheel,
                    const hwheel_timer_t *timers,
                    const uint64_t *delays_ns,
                    uint32_t n,
                    uint32_t flags,
                    int32_t *results);

/**
 * hwheel_delete_many() - Cancel many timers.
 * @wheel: the wheel.
 * @timers: the timers; may be NULL if @n is 0.
 * @n: how many, at most 2147483647.
 * @results: where it is written for each what hwheel_delete() would have
 *   returned; NULL if nobody asks.
 *
 * As @n calls of hwheel_delete(), one after another, but faster: the memory of
 * the next timers is fetched while the present one is cancelled. One that fails
 * stops none of the others.
 *
 * Return:
 * * n - so many exist, whether they were armed or not: their results are 0 or 1.
 * * -EINVAL - @timers is NULL, @wheel is, or @n is above 2147483647; no result
 *   is written.
 * * -ESHUTDOWN - a forked child; no result is written.
 *
 * Context: as hwheel_delete().
 */
int hwheel_delete_many(struct hwheel *wheel,
                       const hwheel_timer_t *timers,
                       uint32_t n,
                       int32_t *results);

/**
 * hwheel_key_set() - Give a key a timer that fires once.
 * @wheel: the wheel.
 * @key: any bytes, which are copied. For numbers there is hwheel_id_set().
 * @key_len: how many, 1 to 255.
 * @delay_ns: nanoseconds from now; HWHEEL_NEVER is never.
 * @fn: the callback, or NULL for an event.
 * @cookie: handed to the callback or the event.
 * @flags: HWHEEL_ABSTIME if the time is a deadline.
 *
 * If the key has a pending timer, this one takes its place, and that does not
 * fire. If both have the same @fn it is moved, which asks for no memory;
 * otherwise both count as live until this returns.
 *
 * A keyed timer has no handle: @timer of its event is 0. When it fires, its key
 * is free before the callback begins, which may set it again. Where this call
 * and a firing meet, one comes first: either the pending timer is replaced and
 * does not fire, or it fires and this is a new one.
 *
 * Return:
 * * 1 - a pending timer of that key was replaced.
 * * 0 - the key had none, and has one now.
 * * -EINVAL - @wheel or @key is NULL, @key_len is 0 or above 255, or a flag is
 *   unknown.
 * * -ENOSPC - the limit on live timers is reached; nothing has changed.
 * * -ENOMEM - no memory; nothing has changed.
 * * -ESHUTDOWN - the wheel was drained, or this is a forked child.
 *
 * Context: any thread, also in a callback. Calls the allocator for a key of more
 * than 30 bytes, and where the table of keys grows. Blocks while another thread
 * is at work on the same sixty-fourth part of all keys; no callback runs
 * meanwhile. The driver blocks likewise when a keyed timer fires.
 */
int hwheel_key_set(struct hwheel *wheel,
                   const void *key,
                   uint32_t key_len,
                   uint64_t delay_ns,
                   hwheel_fn fn,
                   uint64_t cookie,
                   uint32_t flags);

/**
 * hwheel_key_move() - Move the pending timer of a key.
 * @wheel: the wheel.
 * @key: as in hwheel_key_set().
 * @key_len: as in hwheel_key_set().
 * @delay_ns: nanoseconds from now; HWHEEL_NEVER is never.
 * @flags: HWHEEL_ABSTIME if the time is a deadline.
 *
 * Return:
 * * 1 - it was pending and has been moved.
 * * 0 - the key has no pending timer; nothing has changed.
 * * -EINVAL, -ENOMEM, -ESHUTDOWN - as hwheel_key_set().
 *
 * Context: as hwheel_key_set(). Calls no allocator.
 */
int hwheel_key_move(struct hwheel *wheel,
                    const void *key,
                    uint32_t key_len,
                    uint64_t delay_ns,
                    uint32_t flags);

/**
 * hwheel_key_delete() - Cancel the pending timer of a key.
 * @wheel: the wheel.
 * @key: as in hwheel_key_set().
 * @key_len: as in hwheel_key_set().
 *
 * Return:
 * * 1 - it was pending and will not fire; it and the key are gone.
 * * 0 - the key has no pending timer: none was set, or it has fired, or its
 *   callback is running.
 * * -EINVAL - @wheel or @key is NULL, or @key_len is 0 or above 255.
 * * -ESHUTDOWN - a forked child.
 *
 * Context: as hwheel_key_set(). Asks for no memory.
 */
int hwheel_key_delete(struct hwheel *wheel, const void *key, uint32_t key_len);

/**
 * hwheel_key_pending() - Whether a key has a pending timer.
 * @wheel: the wheel.
 * @key: as in hwheel_key_set().
 * @key_len: as in hwheel_key_set().
 *
 * Return:
 * * 1 - it has.
 * * 0 - it has not.
 * * otherwise as hwheel_key_delete().
 *
 * Context: as hwheel_key_delete().
 */
int hwheel_key_pending(struct hwheel *wheel, const void *key, uint32_t key_len);

/**
 * hwheel_id_set() - Give a number a timer that fires once.
 * @wheel: the wheel.
 * @id: any number.
 * @delay_ns: nanoseconds from now; HWHEEL_NEVER is never.
 * @fn: the callback, or NULL for an event.
 * @cookie: handed to the callback or the event.
 * @flags: HWHEEL_ABSTIME if the time is a deadline.
 *
 * As hwheel_key_set(); the key is the eight bytes of the number, as they are in
 * memory.
 *
 * Return: as hwheel_key_set().
 *
 * Context: as hwheel_key_set().
 */
int hwheel_id_set(struct hwheel *wheel,
                  uint64_t id,
                  uint64_t delay_ns,
                  hwheel_fn fn,
                  uint64_t cookie,
                  uint32_t flags);

/**
 * hwheel_id_move() - Move the pending timer of a number.
 * @wheel: the wheel.
 * @id: as in hwheel_id_set().
 * @delay_ns: nanoseconds from now; HWHEEL_NEVER is never.
 * @flags: HWHEEL_ABSTIME if the time is a deadline.
 *
 * Return: as hwheel_key_move().
 *
 * Context: as hwheel_key_move().
 */
int hwheel_id_move(struct hwheel *wheel, uint64_t id, uint64_t delay_ns, uint32_t flags);

/**
 * hwheel_id_delete() - Cancel the pending timer of a number.
 * @wheel: the wheel.
 * @id: as in hwheel_id_set().
 *
 * Return: as hwheel_key_delete().
 *
 * Context: as hwheel_key_delete().
 */
int hwheel_id_delete(struct hwheel *wheel, uint64_t id);

/**
 * hwheel_id_pending() - Whether a number has a pending timer.
 * @wheel: the wheel.
 * @id: as in hwheel_id_set().
 *
 * Return: as hwheel_key_pending().
 *
 * Context: as hwheel_key_pending().
 */
int hwheel_id_pending(struct hwheel *wheel, uint64_t id);

/**
 * hwheel_advance() - Drive a wheel with a manual clock.
 * @wheel: the wheel.
 * @now_ns: the time now. A step back is held at the last time.
 * @events: where events are written; may be NULL if @max is 0.
 * @max: room for so many events. With 0, timers without a callback are
 *   dropped when they come due, and counted as unclaimed.
 *
 * Fires every timer due by @now_ns, in the order of their ticks: callbacks
 * are called, the others are written to @events. If @max events were written
 * there may be more: call again with the same time.
 *
 * Return:
 * * n - so many events were written; if fewer than @max, all is done.
 * * -EINVAL - @wheel is NULL, @events is NULL and @max is not 0, @max is above
 *   2147483647, or the clock is not manual.
 * * -EBUSY - another thread drives, or this is a callback of the wheel.
 * * -ESHUTDOWN - a forked child.
 *
 * Context: one thread at a time, the others get -EBUSY. Runs callbacks.
 */
int hwheel_advance(struct hwheel *wheel,
                   uint64_t now_ns,
                   struct hwheel_event *events,
                   uint32_t max);

/**
 * hwheel_poll() - Drive a wheel with a system clock.
 * @wheel: the wheel.
 * @events: where events are written; may be NULL if @max is 0.
 * @max: as in hwheel_advance().
 *
 * Fires every timer that is due on the wheel's clock, as hwheel_advance()
 * does, and sets the descriptor of hwheel_fd() for the next one. If @max
 * events were written, the descriptor stays readable.
 *
 * Return:
 * * n - so many events were written; if fewer than @max, all is done.
 * * -EINVAL - as in hwheel_advance(); the clock is manual.
 * * -EBUSY - another thread drives, the tick thread is started, or this is a
 *   callback of the wheel.
 * * -ESHUTDOWN - a forked child.
 *
 * Context: one thread at a time, the others get -EBUSY. Runs callbacks.
 */
int hwheel_poll(struct hwheel *wheel, struct hwheel_event *events, uint32_t max);

/**
 * hwheel_fd() - A descriptor that becomes readable when a timer is due.
 * @wheel: the wheel.
 *
 * For poll, epoll, select or an event loop; when it is readable call
 * hwheel_poll(). It is close-on-exec, belongs to the wheel, and is neither
 * read nor closed by the caller. It is made by the first call.
 *
 * Return:
 * * n - the descriptor, 0 or above.
 * * -EINVAL - @wheel is NULL or its clock is manual.
 * * -EMFILE, -ENFILE, -ENOMEM - as the system said; nothing has changed.
 * * -ESHUTDOWN - a forked child.
 *
 * Context: any thread. Never blocks.
 */
int hwheel_fd(struct hwheel *wheel);

/**
 * hwheel_start() - Start the tick thread.
 * @wheel: the wheel.
 * @flags: zero.
 *
 * A thread of the wheel sleeps until timers are due and runs their callbacks.
 * The thread and the workers block all signals but SIGSEGV, SIGBUS, SIGFPE, SIGILL,
 * SIGTRAP, SIGSYS and SIGPROF, which reach the program's handlers from a callback
 * too. A timer without a callback is dropped when it comes due, and counted as
 * unclaimed.
 *
 * Return:
 * * 0 - the thread drives the wheel.
 * * -EINVAL - @wheel is NULL, a flag is unknown, or the clock is manual.
 * * -EBUSY - it is started already, or another thread drives.
 * * -EAGAIN, -EMFILE, -ENFILE, -ENOMEM - as the system said; nothing has
 *   changed, and the wheel can be driven by hwheel_poll().
 * * -ESHUTDOWN - the wheel was drained, or this is a forked child.
 *
 * Context: any thread. Does not wait for the thread.
 */
int hwheel_start(struct hwheel *wheel, uint32_t flags);

/**
 * hwheel_stop() - End the tick thread.
 * @wheel: the wheel.
 *
 * When it returns no callback runs and none will start. What waits in the queue
 * of workers or executor has fired: it is run before, by workers, by the executor's
 * threads, or by the calling thread; also where no tick thread was started. Until
 * then nothing is added to the queue: the thread that drives runs callbacks itself.
 * So the call ends in bounded time if callbacks end, whatever the executor does.
 * Timers stay armed: start again, poll, or drain.
 *
 * Return:
 * * 0 - no thread drives the wheel.
 * * -EINVAL - @wheel is NULL.
 * * -EDEADLK - called from a callback of the wheel or from its executor; nothing
 *   has changed.
 * * -EBUSY - another thread is stopping it.
 * * -ESHUTDOWN - a forked child.
 *
 * Context: any thread. Blocks while a callback runs. Runs callbacks that are queued,
 * so the caller holds no lock that they take.
 */
int hwheel_stop(struct hwheel *wheel);

/**
 * hwheel_work() - Run a callback that waits in the queue.
 * @wheel: a wheel with workers or an executor.
 *
 * What the executor's threads call, once for each time that they were asked.
 * Others may help in the same way. There may be less to do than was asked for,
 * after hwheel_stop() or hwheel_delete_sync().
 *
 * Return:
 * * 1 - one was run.
 * * 0 - none was waiting.
 * * -EINVAL - @wheel is NULL, or has neither workers nor an executor.
 * * -ESHUTDOWN - a forked child.
 *
 * Context: any thread. Blocks for no other thread; runs as long as the callback.
 */
int hwheel_work(struct hwheel *wheel);

/**
 * hwheel_drain() - Shut the wheel down and get every armed timer back.
 * @wheel: the wheel.
 * @events: where they are written, in no order, with HWHEEL_EVENT_DRAINED.
 * @max: room for so many, at least 1.
 *
 * From the first call on every attempt to arm is -ESHUTDOWN. Each timer that
 * was armed and has neither fired nor been cancelled is handed back exactly
 * once, whether or not it has a callback, which is not called. Timers of
 * hwheel_after(), hwheel_at() and hwheel_every() are freed by it. A callback that
 * waits in the queue of workers or executor has fired: it runs.
 *
 * Return:
 * * n - so many were written; if fewer than @max, there are no more.
 * * -EINVAL - @wheel or @events is NULL, or @max is 0 or above 2147483647.
 * * -EBUSY - the tick thread is started, or another thread drives.
 * * -EDEADLK - called from a callback of the wheel or from its executor.
 * * -ESHUTDOWN - a forked child.
 *
 * Context: one thread at a time. Never blocks; looks at every timer once.
 */
int hwheel_drain(struct hwheel *wheel, struct hwheel_event *events, uint32_t max);

#ifdef __cplusplus
}  // extern "C"
#endif  /* __cplusplus */

#endif  /* HWHEEL_H */
