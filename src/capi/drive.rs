//! Driving a wheel, and its end.

use super::args::{extensible, with, with_mine, Wheel, EINVAL};
use super::event::{fill, hwheel_event};
use crate::runtime::drive::{Bounds, Driven, Room};
use crate::runtime::times::time;
use crate::runtime::{Errno, Host};
use core::ffi::c_int;

/// Bounds for one call that drives, and whether the call left work.
///
/// @size: sizeof(struct hwheel_run), set by the caller, at least 8. The rules
///   are those of struct hwheel_options.
/// @left: receives 1 if the call stopped at a bound, so that due timers may be
///   left; 0 if no due timer is left.
/// @max_fired: maximum number of timers to fire; 0 for no limit. The @max of the
///   call is a bound, too.
/// @max_ns: nanoseconds after which to stop, below 2^63, or HWHEEL_NEVER; 0 for
///   no limit. A running callback is not interrupted.
/// @next_ns: receives the time on the wheel's clock at which to call again, or
///   HWHEEL_NEVER if no timer is pending that ever fires. The time is past if
///   due timers are left. At the end of the call the time is never later than
///   the next timer, and at most 2^35 ticks after the last tick that the wheel
///   has reached. Later arms are announced by hwheel_options.wake or
///   hwheel_fd(), but those of an owner with a wake function are not: the owner
///   drives again before it sleeps. The time may be early after timers were
///   cancelled or moved to a later time. A call at the announced time removes at
///   least 64 of the earliest of these timers. A call at the same tick as the
///   call before removes as many. The next such call continues there, so that
///   several calls at the same time make @next_ns exact. With a descriptor, each
///   call removes them. If a call finds more than 64 pending timers in a slot of
///   a higher level, @next_ns may be as early as the time at which the wheel
///   enters that slot. It may stay so until a call at that time, also if most of
///   these timers are cancelled meanwhile.
///
/// The wheel works in rounds. A round first takes the timers that each thread
/// has armed since the last round. Then it fires what was due when the round
/// began. A call that stops at a bound has taken at least 32 timers, or has
/// fired one, or has passed a slot of the wheel. The next call goes on there. A
/// timer that is armed after the round has come to its thread waits for the
/// next round. So if every call is bounded, a timer that comes due fires in
/// the round that is under way or in the next one, however fast other threads
/// arm timers.
#[repr(C)]
pub struct hwheel_run {
    pub size: u32,
    pub left: u32,
    pub max_fired: u64,
    pub max_ns: u64,
    pub next_ns: u64,
}

/// Drives, with a caller's array and bounds.
///
/// # Safety
/// Pointers as in the functions that call it.
#[inline(never)]
unsafe fn drive(
    wheel: Wheel<'_>,
    how: impl FnOnce(&Host, Bounds, Room<'_>) -> Result<Driven, Errno>,
    events: *mut hwheel_event,
    max: u32,
    run: *mut hwheel_run,
) -> c_int {
    with_mine(wheel, |host| {
        // SAFETY: the caller's promise.
        let given = unsafe { extensible(run) }?;
        let bounds = Bounds {
            items: given.max_fired,
            ns: time(given.max_ns)?,
        };
        // SAFETY: the caller's promise.
        let (n, driven) = unsafe { fill(events, max, |room| how(host, bounds, room)) }?;
        if !run.is_null() {
            const END: usize = core::mem::offset_of!(hwheel_run, next_ns) + size_of::<u64>();
            // SAFETY: not null, and as long as its size says.
            unsafe {
                (*run).left = u32::from(!driven.done);
                if (*run).size as usize >= END {
                    (*run).next_ns = driven.next_ns;
                }
            }
        }
        Ok(n)
    })
}

/// hwheel_advance() - Drive a wheel with a manual clock.
/// @wheel: the wheel.
/// @now_ns: the current time, below 2^63. A time before the last one leaves the
///   clock where it is, so 0 fires due timers without moving the clock.
/// @events: receives events; may be NULL if @max is 0.
/// @max: number of events that @events has room for. With 0, all due timers
///   fire, within the bounds of @run. The event of a timer without a callback is
///   then discarded, and hwheel_stats.unclaimed counts it.
/// @run: bounds for this call; NULL for none.
///
/// Fires every timer that is due at @now_ns, in the order of their ticks. Calls
/// their callbacks, and writes an event for each timer without one. Stops when
/// @events is full or a bound of @run is reached. The next call continues there.
///
/// The time that a call takes follows the timers that are due, those that were
/// armed since the last call, and those that were armed for about this time and
/// then cancelled or moved: a million of these take some 25 ms. @run bounds all
/// of it.
///
/// Return:
/// * n - the number of events written. Without @run, fewer than @max means that
///   no due timer is left. With @run, see @left.
/// * -EINVAL - @wheel is NULL, @events is NULL and @max is not 0, @max is above
///   2147483647, @now_ns is 2^63 or above, the clock is not manual, or a bound
///   is not valid.
/// * -E2BIG - @run has members that this version does not know, or its @size is
///   above 4096.
/// * -EBUSY - another thread drives, or the call comes from a callback, the
///   executor or the wake function of this wheel.
/// * -ESHUTDOWN - this is a forked child.
///
/// Context: any thread, but not in a callback of this wheel; one thread drives
/// at a time. Runs callbacks on the caller's stack, unless the wheel has workers
/// or an executor. Blocks briefly for the lock of a key whose timer fires.
#[no_mangle]
pub unsafe extern "C" fn hwheel_advance(
    wheel: Wheel<'_>,
    now_ns: u64,
    events: *mut hwheel_event,
    max: u32,
    run: *mut hwheel_run,
) -> c_int {
    if max as usize | run.addr() == 0 {
        return with(wheel, |host| {
            host.advance(now_ns, Bounds::default(), None).map(|_| 0)
        });
    }
    let how = |host: &Host, bounds, room: Room<'_>| host.advance(now_ns, bounds, room);
    // SAFETY: the caller's promise.
    unsafe { drive(wheel, how, events, max, run) }
}

/// hwheel_poll() - Drive a wheel with a system clock.
/// @wheel: the wheel.
/// @events: receives events; may be NULL if @max is 0.
/// @max: number of events that @events has room for. With 0, all due timers
///   fire, within the bounds of @run. The event of a timer without a callback is
///   then discarded, and hwheel_stats.unclaimed counts it.
/// @run: bounds for this call; NULL for none.
///
/// Fires every timer that is due on the wheel's clock, as hwheel_advance() does.
/// Then it sets the descriptor of hwheel_fd() for the next timer. If due timers
/// are left, the descriptor becomes readable again at once.
///
/// An event stays in @events if its timer is then cancelled, moved or freed:
/// hwheel_timer_delete() says how to recognize such an event.
///
/// Return:
/// * n - the number of events written. Without @run, fewer than @max means that
///   no due timer is left. With @run, see @left.
/// * -EINVAL - @wheel is NULL, @events is NULL and @max is not 0, @max is above
///   2147483647, the clock is manual, or a bound is not valid.
/// * -E2BIG - @run has members that this version does not know, or its @size is
///   above 4096.
/// * -EBUSY - another thread drives, the tick thread is started, or the call
///   comes from a callback, the executor or the wake function of this wheel.
/// * -ESHUTDOWN - this is a forked child.
///
/// Context: any thread, but not in a callback of this wheel; one thread drives
/// at a time. Runs callbacks on the caller's stack, unless the wheel has workers
/// or an executor. Blocks briefly for the lock of a key whose timer fires.
#[no_mangle]
pub unsafe extern "C" fn hwheel_poll(
    wheel: Wheel<'_>,
    events: *mut hwheel_event,
    max: u32,
    run: *mut hwheel_run,
) -> c_int {
    // SAFETY: the caller's promise.
    unsafe { drive(wheel, Host::poll, events, max, run) }
}

/// hwheel_fd() - Get a descriptor that becomes readable when a timer is due.
/// @wheel: the wheel.
///
/// For poll(), epoll, select() or an event loop: when it is readable, call
/// hwheel_poll(). The first call makes the descriptor. It is close-on-exec and
/// belongs to the wheel: the caller neither reads nor closes it.
///
/// The descriptor may be readable with nothing due. Edge-triggered epoll
/// works, too: if hwheel_poll() leaves due timers, epoll reports the
/// descriptor again. This also holds if another thread got -EBUSY. If several
/// threads wait in one epoll instance, use EPOLLONESHOT to avoid the error:
/// the thread that wakes up calls hwheel_poll(), then re-arms the descriptor.
/// If each thread has its own epoll instance, give each its own wheel.
///
/// Return:
/// * n - the descriptor, 0 or above.
/// * -EINVAL - @wheel is NULL, its clock is manual, or it has a function
///   hwheel_options.wake.
/// * -EMFILE, -ENFILE, -ENOMEM - the system has no descriptor left.
/// * -EPERM, -ENOSYS - a filter of system calls refuses a timerfd.
/// * -ESHUTDOWN - this is a forked child.
///
/// Context: any thread, also in a callback. Never blocks.
#[no_mangle]
#[must_use]
pub extern "C" fn hwheel_fd(wheel: Wheel<'_>) -> c_int {
    with(wheel, Host::descriptor)
}

/// hwheel_start() - Start the tick thread.
/// @wheel: the wheel.
///
/// The tick thread drives the wheel: it sleeps until a timer is due, and runs
/// the callbacks unless workers or an executor do. The event of a timer without
/// a callback is discarded, and hwheel_stats.unclaimed counts it.
///
/// The tick thread and the workers block all signals except SIGSEGV, SIGBUS,
/// SIGFPE, SIGILL, SIGTRAP, SIGSYS and SIGPROF. The program's handlers for these
/// work in callbacks, too. A program that a callback starts inherits the blocked
/// signals. Unblock them between fork() and exec, or use POSIX_SPAWN_SETSIGMASK.
///
/// Return:
/// * 0 - the tick thread drives the wheel.
/// * -EINVAL - @wheel is NULL, its clock is manual, it has a function
///   hwheel_options.wake, or it is an owned wheel.
/// * -EBUSY - the tick thread is started already, or another thread drives.
/// * -EAGAIN, -EMFILE, -ENFILE, -ENOMEM - the system has no thread or descriptor
///   left; hwheel_poll() still works.
/// * -EPERM, -ENOSYS - a filter of system calls refuses a thread or a timerfd.
/// * -ESHUTDOWN - the wheel was drained, or this is a forked child.
///
/// Context: any thread, also in a callback, but in one on the driving thread it
/// returns -EBUSY. Does not wait for the tick thread.
#[no_mangle]
#[must_use]
pub extern "C" fn hwheel_start(wheel: Wheel<'_>) -> c_int {
    with(wheel, |h| h.start().map(|()| 0))
}

/// hwheel_stop() - Stop the tick thread.
/// @wheel: the wheel.
///
/// When this call returns, no callback is running, and none starts until a
/// thread drives the wheel again. This holds with and without a tick thread.
///
/// The call waits for running callbacks, and for an hwheel_poll(),
/// hwheel_advance() or hwheel_run_queued() of another thread. Such a poll or
/// advance first fires all timers that are due, within its own bounds.
///
/// The call runs queued callbacks, some on the caller's stack, because their
/// timers have fired. Meanwhile the driving thread queues no others: it runs
/// callbacks itself. So this call returns in bounded time if callbacks return,
/// whatever the executor does.
///
/// Timers stay pending, also those that are due when the tick thread ends, and
/// arming works as before: hwheel_start() continues, and so does hwheel_poll().
///
/// Return:
/// * 0 - no thread drives the wheel, unless a callback that ran in this call has
///   started it again.
/// * -EINVAL - @wheel is NULL.
/// * -EDEADLK - the call comes from a callback, the executor or the wake
///   function of this wheel; nothing has changed.
/// * -EBUSY - another thread is stopping the wheel.
/// * -ESHUTDOWN - this is a forked child.
///
/// Context: any thread, but not in a callback of this wheel. Blocks until every
/// running callback has returned and no other thread drives, so the caller must
/// not hold a lock that a callback takes. Two callbacks that stop each other's
/// wheels never return.
#[no_mangle]
pub extern "C" fn hwheel_stop(wheel: Wheel<'_>) -> c_int {
    with(wheel, |h| h.stop().map(|()| 0))
}

/// hwheel_run_queued() - Run one queued callback.
/// @wheel: a wheel with workers or an executor.
///
/// The executor's threads call this once for each request. Any other thread may
/// call it to help. After hwheel_stop() or hwheel_timer_delete_sync() there may
/// be fewer callbacks than requests.
///
/// Return:
/// * 1 - one callback has run.
/// * 0 - no callback was waiting.
/// * -EINVAL - @wheel is NULL, or has neither workers nor an executor.
/// * -ESHUTDOWN - this is a forked child.
///
/// Context: any thread, also in a callback. Runs the callback on the caller's
/// stack.
#[no_mangle]
pub extern "C" fn hwheel_run_queued(wheel: Wheel<'_>) -> c_int {
    with(wheel, Host::work)
}

/// hwheel_drain() - Shut the wheel down and get every pending timer back.
/// @wheel: the wheel.
/// @events: receives the timers, in no particular order, with
///   HWHEEL_EVENT_DRAINED.
/// @max: number of events that @events has room for, at least 1.
///
/// From the first call on, every attempt to make or arm a timer or to start the
/// tick thread fails with -ESHUTDOWN. Each pending timer is handed back exactly
/// once. Its callback, if it has one, is not called. Timers of hwheel_once(),
/// hwheel_every() and hwheel_key_set() are freed. Queued callbacks still run,
/// because their timers have fired. If the wheel is driven before the last call,
/// due timers may still fire.
///
/// Return:
/// * n - the number of timers written. Fewer than @max means that none is left.
/// * -EINVAL - @wheel or @events is NULL, or @max is 0 or above 2147483647.
/// * -EBUSY - the tick thread is started, or another thread drives.
/// * -EDEADLK - the call comes from a callback, the executor or the wake
///   function of this wheel.
/// * -ESHUTDOWN - this is a forked child.
///
/// Context: any thread, but not in a callback of this wheel; one thread drives
/// at a time. Visits every timer once. Briefly takes the lock of each key.
#[no_mangle]
#[must_use]
pub unsafe extern "C" fn hwheel_drain(
    wheel: Wheel<'_>,
    events: *mut hwheel_event,
    max: u32,
) -> c_int {
    with_mine(wheel, |host| {
        let drain = |room: Room<'_>| host.drain(room.ok_or(EINVAL)?);
        // SAFETY: the caller's promise.
        let (n, _) = unsafe { fill(events, max, drain) }?;
        Ok(n)
    })
}
