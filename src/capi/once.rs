//! Timers that one call makes and arms, and that free themselves.

use super::args::{due, with, with_mine, Wheel, EINVAL};
use super::event::{hwheel_fn, hwheel_timer_t, number_of_fn};
use crate::core::life::Spec;
use crate::core::ticks::{AUTO, BURST, DELAY};
use crate::runtime::times::time;
use crate::runtime::{Errno, Host};
use core::ffi::c_int;
use core::mem::MaybeUninit;

/// Flag: fire every missed period, one after another, until caught up.
pub const HWHEEL_MISSED_BURST: u32 = 1 << 4;
/// Flag: after a miss, start the next period now.
pub const HWHEEL_MISSED_DELAY: u32 = 1 << 5;

/// Makes a timer, armed if there is a time for it.
pub(super) fn make(
    host: &Host,
    (func, cookie): (hwheel_fn, u64),
    (period, kind): (u64, u16),
    due: Option<u64>,
    timer: Option<&mut MaybeUninit<hwheel_timer_t>>,
) -> Result<i32, Errno> {
    if timer.is_some() {
        // Nobody but the owner gets a handle.
        host.wheel.permit(host)?;
    }
    let spec = Spec {
        func: number_of_fn(func),
        cookie,
        period,
        kind,
        ..Spec::default()
    };
    let handle = host.setup(spec, due)?;
    if let Some(timer) = timer {
        timer.write(handle);
    }
    Ok(0)
}

/// hwheel_once() - Make a timer that fires once.
/// @wheel: the wheel.
/// @time_ns: delay in nanoseconds, or with HWHEEL_ABS a point on the wheel's
///   clock. HWHEEL_NEVER is never. A time that has passed means the next tick
///   that the wheel reaches.
/// @fn: the callback; NULL for an event.
/// @cookie: any value; the callback or the event receives it.
/// @flags: 0 or HWHEEL_ABS.
/// @timer: receives the handle, for example to cancel the timer; may be NULL.
///
/// A timer that is kept costs less than half of a new one: one call of
/// hwheel_timer_setup(), then hwheel_timer_mod() and hwheel_timer_delete().
///
/// With a NULL @timer any thread may call this on an owned wheel. The timer is
/// a message to the owner. The owner gets the callback or event, and sees what
/// the sender has written before this call. A message cannot be cancelled.
///
/// The timer frees itself after it has fired. The handle in an event is already
/// stale; a handle in a callback is stale once the callback has returned. On a
/// wheel that another thread drives, the timer may fire before this call
/// returns. @timer is set last: the callback must neither read nor free it.
///
/// Return:
/// * 0 - the timer is pending, or has fired already.
/// * -EINVAL - @wheel is NULL, a flag is unknown, or @time_ns is 2^63 or above
///   and not HWHEEL_NEVER.
/// * -EPERM - the calling thread does not own the wheel, and @timer is not NULL.
/// * -ENOSPC - the limit on live timers is reached.
/// * -ENOMEM - no memory.
/// * -EUSERS - 32767 other threads of the process use timers.
/// * -ESHUTDOWN - the wheel was drained, or this is a forked child.
///
/// Context: any thread, also in a callback. Lock-free; calls no allocator.
#[no_mangle]
#[must_use]
pub extern "C" fn hwheel_once(
    wheel: Wheel<'_>,
    time_ns: u64,
    r#fn: hwheel_fn,
    cookie: u64,
    flags: u32,
    timer: Option<&mut MaybeUninit<hwheel_timer_t>>,
) -> c_int {
    with(wheel, |h| {
        if timer.is_some() {
            h.check_mine()?;
        }
        let due = due(h, time_ns, flags)?;
        make(h, (r#fn, cookie), (0, AUTO), Some(due), timer)
    })
}

/// hwheel_every() - Make a timer that fires periodically.
/// @wheel: the wheel.
/// @first_ns: delay until the first time in nanoseconds, or with HWHEEL_ABS a
///   point on the wheel's clock. HWHEEL_NEVER is never.
/// @period_ns: nanoseconds from each deadline to the next, at least 1.
///   With HWHEEL_NEVER the timer fires once, and stays pending until it is
///   cancelled. A period of 2^47 ns (39 hours) or more is rounded up to a
///   multiple of 65536 ns. With a period below a tick the timer fires once per
///   tick, and the other periods count as missed.
/// @slack_ns: how long after each deadline the timer may fire, to share a
///   wake-up with other timers; 0 for none. Slack below a tick has no effect.
///   Slack is limited to one period, and to 2^47 ns (39 hours). With a period of
///   HWHEEL_NEVER only the second limit applies.
/// @fn: the callback; NULL for an event.
/// @cookie: any value; the callback or the event receives it.
/// @flags: HWHEEL_ABS, and at most one of HWHEEL_MISSED_*; may be 0.
/// @timer: receives the handle; may be NULL.
///
/// Deadlines do not drift: each one is the previous one plus the period,
/// whenever the callback ran. While its callback runs, the timer is pending for
/// the next period, so the callback can cancel it, by the handle of its event.
/// hwheel_timer_delete() frees it. The timer may fire before @timer is set, as
/// with hwheel_once().
///
/// If @first_ns has passed, the timer fires at the next tick, and the periods
/// since @first_ns count as missed, even with HWHEEL_MISSED_BURST. If the last
/// missed time is still 2^48 ns (78 hours) or more before that tick, the periods
/// count from that tick. With HWHEEL_MISSED_DELAY the missed time before the
/// last one decides.
///
/// If the callback runs on the driving thread and takes longer than the period,
/// the timer fires again at once, one time, and reports the rest as missed. On a
/// worker or a thread of the executor a period that comes due while the callback
/// runs or waits in the queue counts as missed. With HWHEEL_MISSED_BURST such a
/// period fires afterwards, unless the callback takes more than 2^34 ticks. A
/// time that hwheel_timer_mod() has set meanwhile is no period, and fires.
///
/// If no thread drives the wheel for several periods, the timer by default fires
/// once, keeps its rhythm, and reports the other periods in @missed of its
/// event. With HWHEEL_MISSED_BURST each of them fires. With HWHEEL_MISSED_DELAY
/// the next period starts now.
///
/// Return:
/// * 0 - the timer is pending.
/// * -EINVAL - @wheel is NULL, @period_ns is 0, a flag is unknown, both
///   HWHEEL_MISSED_* are given, or a time is 2^63 or above and not HWHEEL_NEVER.
/// * -ENOSPC - the limit on live timers is reached.
/// * -ENOMEM - no memory.
/// * -EUSERS - 32767 other threads of the process use timers.
/// * -ESHUTDOWN - the wheel was drained, or this is a forked child.
///
/// Context: any thread, also in a callback. Lock-free; calls no allocator.
#[no_mangle]
#[must_use]
#[allow(clippy::too_many_arguments)]
pub extern "C" fn hwheel_every(
    wheel: Wheel<'_>,
    first_ns: u64,
    period_ns: u64,
    slack_ns: u64,
    r#fn: hwheel_fn,
    cookie: u64,
    flags: u32,
    timer: Option<&mut MaybeUninit<hwheel_timer_t>>,
) -> c_int {
    with_mine(wheel, |host| {
        let missed = flags & (HWHEEL_MISSED_BURST | HWHEEL_MISSED_DELAY);
        let kind = match missed {
            0 => AUTO,
            HWHEEL_MISSED_BURST => AUTO | BURST,
            HWHEEL_MISSED_DELAY => AUTO | DELAY,
            _ => return Err(EINVAL),
        };
        let first = due(host, first_ns, flags & !missed)?;
        let (period, slack) = (time(period_ns)?, time(slack_ns)?);
        if period == 0 {
            return Err(EINVAL);
        }
        let kind = kind | host.slack(slack, period);
        make(host, (r#fn, cookie), (period, kind), Some(first), timer)
    })
}
