//! Timers that can be armed again and again, and calls for any timer.

use super::args::{due, with, with_mine, ConstWheel, Wheel, EINVAL, HWHEEL_ABS};
use super::event::{hwheel_fn, hwheel_timer_t};
use super::once::make;
use crate::core::arm::How;
use crate::runtime::times::{time, LONGEST, NEVER};
use crate::runtime::{number, Errno, Host};
use core::ffi::c_int;
use core::mem::MaybeUninit;

/// Flag: arm or move the timer only if that makes it fire earlier.
pub const HWHEEL_REDUCE: u32 = 1 << 1;
/// Flag: move the timer only if it is pending.
pub const HWHEEL_IF_PENDING: u32 = 1 << 2;

/// hwheel_timer_setup() - Make a timer that can be armed again and again.
/// @wheel: the wheel.
/// @fn: the callback; NULL for an event.
/// @cookie: any value; the callback or the event receives it.
/// @timer: receives the handle.
///
/// The timer is not pending. It exists until hwheel_timer_free().
///
/// Return:
/// * 0 - @timer is set.
/// * -EINVAL - @wheel or @timer is NULL.
/// * -ENOSPC - the limit on live timers is reached.
/// * -ENOMEM - no memory.
/// * -EUSERS - 32767 other threads of the process use timers.
/// * -ESHUTDOWN - the wheel was drained, or this is a forked child.
///
/// Context: any thread, also in a callback. Lock-free; calls no allocator.
#[no_mangle]
#[must_use]
pub extern "C" fn hwheel_timer_setup(
    wheel: Wheel<'_>,
    r#fn: hwheel_fn,
    cookie: u64,
    timer: Option<&mut MaybeUninit<hwheel_timer_t>>,
) -> c_int {
    if timer.is_none() {
        return with_mine(wheel, |_| Err::<c_int, _>(EINVAL));
    }
    with(wheel, |h| make(h, (r#fn, cookie), (0, 0), None, timer))
}

/// The condition of an arm.
fn condition(flags: u32) -> Result<How, Errno> {
    match flags & !HWHEEL_ABS {
        0 => Ok(How::Always),
        HWHEEL_REDUCE => Ok(How::Earlier),
        HWHEEL_IF_PENDING => Ok(How::Pending),
        _ => Err(EINVAL),
    }
}

/// Arms with flags, or refuses the time.
#[inline(never)]
fn arm(host: &Host, timer: hwheel_timer_t, time_ns: u64, flags: u32) -> i32 {
    with_mine(Some(host), |host| {
        let how = condition(flags)?;
        host.arm(timer, due(host, time_ns, flags & HWHEEL_ABS)?, how)
    })
}

/// hwheel_timer_mod() - Arm a timer, or move it if it is pending.
/// @wheel: the wheel.
/// @timer: the timer.
/// @time_ns: delay in nanoseconds, or with HWHEEL_ABS a point on the wheel's
///   clock. HWHEEL_NEVER is never.
/// @flags: HWHEEL_ABS, and at most one of HWHEEL_REDUCE and HWHEEL_IF_PENDING;
///   may be 0.
///
/// The timer fires at the first tick at or after the time, and no longer at its
/// old time. A time that has passed, and a delay of 0, mean the next tick that
/// the wheel reaches.
///
/// With HWHEEL_REDUCE a pending timer fires at the earlier of the two times.
/// With HWHEEL_IF_PENDING a timer that is not pending stays so.
///
/// A periodic timer continues its rhythm from the tick of the new time.
///
/// Return:
/// * 1 - the timer was pending. It now fires at the new time, or with
///   HWHEEL_REDUCE at the earlier one.
/// * 0 - the timer was not pending. It is pending now, unless @flags has
///   HWHEEL_IF_PENDING.
/// * -EINVAL - @wheel is NULL, a flag is unknown, HWHEEL_REDUCE and
///   HWHEEL_IF_PENDING are combined, or @time_ns is 2^63 or above and not
///   HWHEEL_NEVER.
/// * -ESTALE - the timer no longer exists.
/// * -ENOMEM - no memory; nothing has changed. The wheel is shared, and this is
///   the first call of this thread that makes or arms a timer of it.
/// * -EUSERS - 32767 other threads of the process use timers.
/// * -ESHUTDOWN - the timer was shut down, the wheel was drained, or this is a
///   forked child.
///
/// Context: any thread, also in a callback. Lock-free; calls no allocator. Makes
/// a system call only to wake the driver of a system clock for a new earliest
/// time, or to map more memory.
#[no_mangle]
pub extern "C" fn hwheel_timer_mod(
    wheel: Wheel<'_>,
    timer: hwheel_timer_t,
    time_ns: u64,
    flags: u32,
) -> c_int {
    match wheel {
        None => EINVAL,
        // The short way. Both terms are below 2^63: no overflow, and a sum that
        // is not is never.
        Some(host) if flags == 0 && (time_ns as i64) > 0 => host.arm_after(timer, time_ns),
        Some(host) if flags == HWHEEL_ABS && time_ns <= LONGEST => host.arm_at(timer, time_ns),
        Some(host) => arm(host, timer, time_ns, flags),
    }
}

/// hwheel_timer_mod_range() - Arm or move a timer to any time in a range.
/// @wheel: the wheel.
/// @timer: the timer.
/// @time_ns: the earliest time: a delay in nanoseconds, or with HWHEEL_ABS a
///   point on the wheel's clock. HWHEEL_NEVER is never.
/// @slack_ns: length of the range in nanoseconds. Slack below a tick has no
///   effect.
/// @flags: 0 or HWHEEL_ABS.
///
/// The wheel picks a tick in the range that other timers with slack also use, so
/// that they share a wake-up. A timer that is already due in the range stays
/// where it is, which costs no more than a move. Its event and its rhythm then
/// show the deadline of the earlier call, which may lie before the range. If all
/// ticks of the range have passed, the timer fires at the next tick.
///
/// Return:
/// * 1 - the timer was pending; it fires in the range.
/// * 0 - the timer was not pending; it is now.
/// * -EINVAL - @wheel is NULL, a flag is unknown, or a time is 2^63 or above and
///   not HWHEEL_NEVER.
/// * -ESTALE - the timer no longer exists.
/// * -ENOMEM - no memory; nothing has changed. The wheel is shared, and this is
///   the first call of this thread that makes or arms a timer of it.
/// * -EUSERS - 32767 other threads of the process use timers.
/// * -ESHUTDOWN - the timer was shut down, the wheel was drained, or this is a
///   forked child.
///
/// Context: any thread, also in a callback. Lock-free; calls no allocator.
#[no_mangle]
pub extern "C" fn hwheel_timer_mod_range(
    wheel: Wheel<'_>,
    timer: hwheel_timer_t,
    time_ns: u64,
    slack_ns: u64,
    flags: u32,
) -> c_int {
    with_mine(wheel, |h| {
        h.arm(timer, due(h, time_ns, flags)?, How::Within(time(slack_ns)?))
    })
}

/// hwheel_timer_set_period() - Make a timer periodic, or change its period.
/// @wheel: the wheel.
/// @timer: the timer.
/// @period_ns: the period in nanoseconds; 0 or HWHEEL_NEVER for none. A period
///   of 2^47 ns (39 hours) or more is rounded up to a multiple of 65536 ns.
///
/// This call does not arm the timer: hwheel_timer_mod() sets the next time. When
/// the timer has fired at that time, it is pending again, one period later.
/// Without a period a timer of hwheel_timer_setup() is then not pending, and a
/// timer of hwheel_once() or hwheel_every() frees itself.
///
/// Missed periods are skipped and counted, unless hwheel_every() made the timer
/// with a flag HWHEEL_MISSED_*.
///
/// Return:
/// * 0 - the period is set.
/// * -EINVAL - @wheel is NULL, or @period_ns is 2^63 or above and not
///   HWHEEL_NEVER.
/// * -ESTALE - the timer no longer exists.
/// * -ESHUTDOWN - the timer was shut down, or this is a forked child.
///
/// Context: any thread, also in a callback. Lock-free; calls no allocator.
#[no_mangle]
pub extern "C" fn hwheel_timer_set_period(
    wheel: Wheel<'_>,
    timer: hwheel_timer_t,
    period_ns: u64,
) -> c_int {
    with_mine(wheel, |h| h.set_period(timer, time(period_ns)?).map(|()| 0))
}

/// hwheel_timer_delete() - Cancel a timer.
/// @wheel: the wheel.
/// @timer: the timer.
///
/// A timer of hwheel_timer_setup() can be armed again. A timer of hwheel_once()
/// or hwheel_every() is freed. A callback that is running or queued is not
/// stopped; hwheel_timer_delete_sync() waits for it, or takes it out of the
/// queue.
///
/// An event that is already in the caller's array cannot be recalled, not even
/// by hwheel_timer_mod(). Compare its @timer with the handle that the object
/// holds now, and clear that handle when the object goes away. On a wheel that
/// also has timers with keys, test @timer for 0 first. If a timer without a
/// period is pending when its event is handled, the timer was armed again:
/// ignore the event.
///
/// Return:
/// * 1 - the timer was pending and will not fire.
/// * 0 - the timer was not pending: it was not armed, or it has fired. Its
///   callback may be running, or may be queued and run later.
/// * -EINVAL - @wheel is NULL.
/// * -ESTALE - the timer no longer exists.
/// * -ESHUTDOWN - this is a forked child.
///
/// Context: any thread, also in a callback. Lock-free; calls no allocator.
#[no_mangle]
pub extern "C" fn hwheel_timer_delete(wheel: Wheel<'_>, timer: hwheel_timer_t) -> c_int {
    with(wheel, |h| Ok(h.delete(timer)))
}

/// hwheel_timer_delete_sync() - Cancel a timer and wait for its callback.
/// @wheel: the wheel.
/// @timer: the timer.
///
/// When this call returns 1 or 0, the callback is not running on any thread. It
/// does not start again, unless a thread arms the timer again. A queued callback
/// is taken out of the queue and does not run. This call runs no callback. The
/// timer may be armed again while this call waits. The call then cancels the
/// timer each time, and still returns 1.
///
/// Callbacks that wait for each other in a cycle never return. They may belong
/// to one wheel or to several.
///
/// Return:
/// * 1 - the timer was pending, its callback had armed it again, or the callback
///   was taken out of the queue, even if the timer no longer exists.
/// * 0 - the timer was not pending.
/// * -EINVAL - @wheel is NULL.
/// * -EDEADLK - the call comes from this timer's callback, or from a callback of
///   another timer or wheel that runs inside of it; nothing has changed.
/// * -ESTALE - the timer no longer exists, and its callback is not running on
///   another thread. A callback that has freed its own timer gets this, too.
/// * -ESHUTDOWN - this is a forked child.
///
/// Context: any thread, also in the callback of another timer. Blocks while the
/// callback runs, so the caller must not hold a lock that the callback takes.
#[no_mangle]
pub extern "C" fn hwheel_timer_delete_sync(wheel: Wheel<'_>, timer: hwheel_timer_t) -> c_int {
    with(wheel, |h| h.cancel_sync(timer, false))
}

/// hwheel_timer_shutdown() - Cancel a timer for good.
/// @wheel: the wheel.
/// @timer: the timer.
///
/// Like hwheel_timer_delete(), but the timer cannot be armed again. A timer of
/// hwheel_timer_setup() exists until hwheel_timer_free(), and an attempt to arm
/// it returns -ESHUTDOWN. A timer of hwheel_once() or hwheel_every() is freed,
/// and the same attempt returns -ESTALE.
///
/// Return:
/// * 1 - the timer was pending and will not fire.
/// * 0 - the timer was not pending.
/// * -EINVAL - @wheel is NULL.
/// * -ESTALE - the timer no longer exists.
/// * -ESHUTDOWN - this is a forked child.
///
/// Context: any thread, also in a callback. Lock-free; calls no allocator.
#[no_mangle]
pub extern "C" fn hwheel_timer_shutdown(wheel: Wheel<'_>, timer: hwheel_timer_t) -> c_int {
    with(wheel, |h| Ok(h.wheel.cancel(h, timer, true)?))
}

/// hwheel_timer_shutdown_sync() - Shut a timer down and wait for its callback.
/// @wheel: the wheel.
/// @timer: the timer.
///
/// Like hwheel_timer_shutdown(). When this call returns 1 or 0, the callback is
/// not running on any thread and never starts again.
///
/// Callbacks that wait for each other in a cycle never return. They may belong
/// to one wheel or to several.
///
/// Return:
/// * 1 - the timer was pending and will not fire, or its callback was taken out
///   of the queue, even if the timer no longer exists.
/// * 0 - the timer was not pending.
/// * -EINVAL - @wheel is NULL.
/// * -EDEADLK - the call comes from this timer's callback, or from a callback of
///   another timer or wheel that runs inside of it; nothing has changed.
/// * -ESTALE - the timer no longer exists, and its callback is not running on
///   another thread. A callback that has freed its own timer gets this, too.
/// * -ESHUTDOWN - this is a forked child.
///
/// Context: any thread, also in the callback of another timer. Blocks while the
/// callback runs, so the caller must not hold a lock that the callback takes.
#[no_mangle]
pub extern "C" fn hwheel_timer_shutdown_sync(wheel: Wheel<'_>, timer: hwheel_timer_t) -> c_int {
    with(wheel, |h| h.cancel_sync(timer, true))
}

/// hwheel_timer_free() - Cancel and free a timer.
/// @wheel: the wheel.
/// @timer: the timer.
///
/// The handle is stale from now on. A callback that is running or queued is not
/// stopped; to wait for it, call hwheel_timer_shutdown_sync() first.
///
/// Return:
/// * 1 - the timer was pending and will not fire.
/// * 0 - the timer was not pending.
/// * -EINVAL - @wheel is NULL.
/// * -ESTALE - the timer no longer exists.
/// * -ESHUTDOWN - this is a forked child.
///
/// Context: any thread, also in the timer's own callback. Lock-free; calls no
/// allocator.
#[no_mangle]
pub extern "C" fn hwheel_timer_free(wheel: Wheel<'_>, timer: hwheel_timer_t) -> c_int {
    with(wheel, |h| Ok(h.wheel.free(h, timer)?))
}

/// hwheel_timer_pending() - Test whether a timer is pending.
/// @wheel: the wheel.
/// @timer: the timer.
///
/// Return:
/// * 1 - the timer is pending.
/// * 0 - the timer is not pending.
/// * -EINVAL - @wheel is NULL.
/// * -ESTALE - the timer no longer exists.
/// * -ESHUTDOWN - this is a forked child.
///
/// Context: any thread, also in a callback. Wait-free.
#[no_mangle]
pub extern "C" fn hwheel_timer_pending(wheel: ConstWheel<'_>, timer: hwheel_timer_t) -> c_int {
    with(wheel, |h| Ok(i32::from(h.wheel.is_pending(timer)?)))
}

/// hwheel_timer_prefetch() - Fetch a timer's memory ahead of a call on it.
/// @wheel: the wheel; NULL is allowed.
/// @timer: the timer; any number is allowed.
///
/// A hint for servers. A server that has learned which connection has sent
/// something calls this before it reads the data. A later hwheel_timer_mod() or
/// hwheel_timer_delete() then does not wait for memory. The hint changes no
/// timer.
///
/// Return: nothing.
///
/// Context: any thread, also in a callback. Wait-free.
#[no_mangle]
pub extern "C" fn hwheel_timer_prefetch(wheel: ConstWheel<'_>, timer: hwheel_timer_t) {
    if let Some(host) = wheel {
        host.wheel.prefetch(timer);
    }
}

/// hwheel_timer_remaining() - Get the time left until a timer fires.
/// @wheel: the wheel.
/// @timer: the timer.
/// @remaining_ns: receives the nanoseconds: 0 if the time has passed,
///   HWHEEL_NEVER if it never comes.
///
/// Return:
/// * 1 - the timer is pending; @remaining_ns is set.
/// * 0 - the timer is not pending; @remaining_ns is not written.
/// * -EINVAL - @wheel or @remaining_ns is NULL.
/// * -ESTALE - the timer no longer exists.
/// * -ESHUTDOWN - this is a forked child.
///
/// Context: any thread, also in a callback. Wait-free.
#[no_mangle]
#[must_use]
pub extern "C" fn hwheel_timer_remaining(
    wheel: ConstWheel<'_>,
    timer: hwheel_timer_t,
    remaining_ns: Option<&mut MaybeUninit<u64>>,
) -> c_int {
    with(wheel, |host| {
        let remaining_ns = remaining_ns.ok_or(EINVAL)?;
        let Some(deadline) = host.wheel.due(timer)? else {
            return Ok(0);
        };
        remaining_ns.write(match deadline {
            NEVER => NEVER,
            ns => ns.saturating_sub(host.now()),
        });
        Ok(1)
    })
}

/// Acts on each of a caller's timers, and writes the results.
///
/// # Safety
/// The arrays are null or have `count` members.
unsafe fn many(
    host: &Host,
    timers: *const hwheel_timer_t,
    count: u32,
    results: *mut i32,
    mut act: impl FnMut(usize, hwheel_timer_t) -> i32,
) -> Result<i32, Errno> {
    if (timers.is_null() && count != 0) || count > i32::MAX as u32 {
        return Err(EINVAL);
    }
    let done = host.each(
        count as usize,
        // SAFETY: the caller's promise; asked for below `count`.
        |i| unsafe { timers.add(i).read() },
        |i, timer| {
            let result = act(i, timer);
            if !results.is_null() {
                // SAFETY: as above.
                unsafe { results.add(i).write(result) };
            }
            result
        },
    )?;
    Ok(done as i32)
}

/// hwheel_timer_mod_many() - Arm or move many timers.
/// @wheel: the wheel.
/// @timers: array of @count timers; may be NULL if @count is 0.
/// @times_ns: array of @count delays in nanoseconds, or with HWHEEL_ABS points
///   on the wheel's clock; may be NULL if @count is 0.
/// @count: number of timers, at most 2147483647.
/// @flags: flags for all of them: HWHEEL_ABS, and at most one of HWHEEL_REDUCE
///   and HWHEEL_IF_PENDING; may be 0.
/// @results: array of @count results, each as returned by hwheel_timer_mod();
///   may be NULL.
///
/// Does the same as @count calls of hwheel_timer_mod(), in order, but faster: it
/// reads the clock once and prefetches the memory of the next timers. A timer
/// that fails does not stop the others.
///
/// Return:
/// * n - the number of timers whose result is 0 or 1.
/// * -EINVAL - @wheel or an array is NULL, @count is above 2147483647, a flag is
///   unknown, or HWHEEL_REDUCE and HWHEEL_IF_PENDING are combined; no result is
///   written.
/// * -ESHUTDOWN - this is a forked child; no result is written.
///
/// Context: any thread, also in a callback. Lock-free; calls no allocator.
#[no_mangle]
pub unsafe extern "C" fn hwheel_timer_mod_many(
    wheel: Wheel<'_>,
    timers: *const hwheel_timer_t,
    times_ns: *const u64,
    count: u32,
    flags: u32,
    results: *mut i32,
) -> c_int {
    with_mine(wheel, |host| {
        let how = condition(flags)?;
        if times_ns.is_null() && count != 0 {
            return Err(EINVAL);
        }
        let from = match flags & HWHEEL_ABS {
            0 => host.now(),
            _ => 0,
        };
        let act = |i, timer| {
            // SAFETY: the caller's promise; asked for below `count`.
            let ns = unsafe { times_ns.add(i).read() };
            // Both terms are below 2^63: no overflow.
            if ns <= LONGEST && how == How::Always {
                return host.arm_at(timer, from.wrapping_add(ns));
            }
            number(time(ns).and_then(|ns| host.arm(timer, from.saturating_add(ns), how)))
        };
        // SAFETY: the caller's promise.
        unsafe { many(host, timers, count, results, act) }
    })
}

/// hwheel_timer_delete_many() - Cancel many timers.
/// @wheel: the wheel.
/// @timers: array of @count timers; may be NULL if @count is 0.
/// @count: number of timers, at most 2147483647.
/// @results: array of @count results, each as returned by hwheel_timer_delete();
///   may be NULL.
///
/// Does the same as @count calls of hwheel_timer_delete(), in order, but faster:
/// it prefetches the memory of the next timers. A timer that fails does not stop
/// the others.
///
/// Return:
/// * n - the number of timers that existed: their results are 0 or 1.
/// * -EINVAL - @wheel or @timers is NULL, or @count is above 2147483647; no
///   result is written.
/// * -ESHUTDOWN - this is a forked child; no result is written.
///
/// Context: any thread, also in a callback. Lock-free; calls no allocator.
#[no_mangle]
pub unsafe extern "C" fn hwheel_timer_delete_many(
    wheel: Wheel<'_>,
    timers: *const hwheel_timer_t,
    count: u32,
    results: *mut i32,
) -> c_int {
    // SAFETY: the caller's promise.
    with_mine(wheel, |h| unsafe {
        many(h, timers, count, results, |_, timer| h.delete(timer))
    })
}
