//! Timers that have fired: handles, events and callbacks.

use super::args::{hwheel, EINVAL};
use crate::core::driver::{Fired, DRAINED, LISTED};
use crate::runtime::drive::Room;
use crate::runtime::{Errno, Host};
use core::mem::offset_of;

/// Event flag: hwheel_drain() handed the timer back; it has not fired.
pub const HWHEEL_EVENT_DRAINED: u32 = 1 << 8;
/// Event flag: hwheel_list() shows the timer; it is pending.
pub const HWHEEL_EVENT_LISTED: u32 = 1 << 9;

/// A timer that has fired. hwheel_drain() and hwheel_list() use the same struct.
///
/// @timer: handle of the timer; 0 for a timer with a key. If the timer freed
///   itself, the handle is already stale.
/// @cookie: the value that the caller gave with the timer.
/// @deadline_ns: the time of the timer's tick, on the wheel's clock: the
///   caller's time, rounded up to a tick. For a period it is the exact time,
///   unless hwheel_timer_mod() has moved the timer. hwheel_list() always gives
///   the time of the tick, which for a period includes its slack.
/// @missed: number of periods that were skipped, before or after this one;
///   4294967295 stands for that number or more.
/// @flags: HWHEEL_EVENT_*.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct hwheel_event {
    pub timer: hwheel_timer_t,
    pub cookie: u64,
    pub deadline_ns: u64,
    pub missed: u32,
    pub flags: u32,
}

/// Handle of a timer, never 0. The library checks every handle. The handle of a
/// freed timer is an error (-ESTALE) and never touches another timer. So is a
/// handle of another wheel, or one with a wrong bit, until millions of timers
/// have used the same memory.
pub type hwheel_timer_t = u64;

/// A callback. @event is valid until the callback returns.
///
/// It runs on the thread that drives the wheel, or on a worker or a thread of
/// the executor if the wheel has them. The callback of one timer never runs on
/// two threads at once. If a timer is armed again and comes due before its
/// callback has returned, it stays pending until the callback returns, and then
/// fires.
///
/// A callback may call every function of the wheel except hwheel_poll(),
/// hwheel_advance(), hwheel_stop(), hwheel_drain() and hwheel_destroy(), for any
/// timer, its own included. A callback must return, on the thread and the stack
/// on which it was called, and must not leave by longjmp(). An exception or a
/// pthread_cancel() that leaves a callback ends the process.
pub type hwheel_fn =
    Option<unsafe extern "C-unwind" fn(wheel: *mut hwheel, event: *const hwheel_event)>;

/// A callback as the core keeps it.
pub(super) fn number_of_fn(func: hwheel_fn) -> usize {
    func.map_or(0, |f| (f as *const ()).expose_provenance())
}

const _: () = {
    assert!(offset_of!(Fired, handle) == offset_of!(hwheel_event, timer));
    assert!(offset_of!(Fired, cookie) == offset_of!(hwheel_event, cookie));
    assert!(offset_of!(Fired, deadline_ns) == offset_of!(hwheel_event, deadline_ns));
    assert!(offset_of!(Fired, missed) == offset_of!(hwheel_event, missed));
    assert!(offset_of!(Fired, flags) == offset_of!(hwheel_event, flags));
    assert!(DRAINED == HWHEEL_EVENT_DRAINED && LISTED == HWHEEL_EVENT_LISTED);
};

/// The event of a timer.
fn event(fired: &Fired) -> &hwheel_event {
    // SAFETY: it begins like an event, see above.
    unsafe { &*core::ptr::from_ref(fired).cast() }
}

/// Calls the C function of a timer.
///
/// # Safety
/// `fired.func` is a `hwheel_fn` that `hwheel_timer_setup` or a like call was
/// given.
pub(super) unsafe fn call(host: &Host, fired: &Fired) {
    let func = core::ptr::with_exposed_provenance::<()>(fired.func);
    // SAFETY: the caller's promise; a null one is `None`.
    let func = unsafe { core::mem::transmute::<*const (), hwheel_fn>(func) };
    // SAFETY: no timer without a function is called; the contract of `hwheel_fn`.
    unsafe { func.unwrap_unchecked()(core::ptr::from_ref(host).cast_mut().cast(), event(fired)) }
}

/// Has `hand_over` fill a caller's array, which has room unless it is empty. Returns the
/// number of events, and the result.
///
/// # Safety
/// `events` is null or has room for `max` events.
pub(super) unsafe fn fill<R>(
    events: *mut hwheel_event,
    max: u32,
    hand_over: impl FnOnce(Room<'_>) -> Result<R, Errno>,
) -> Result<(i32, R), Errno> {
    if (events.is_null() && max != 0) || max > i32::MAX as u32 {
        return Err(EINVAL);
    }
    let mut n = 0;
    let mut put = |fired: &Fired| {
        // SAFETY: the array has `max` events and is asked for none when full.
        unsafe { events.add(n as usize).write(*event(fired)) };
        n += 1;
        n < max
    };
    let result = hand_over(if max == 0 { None } else { Some(&mut put) })?;
    Ok((n as i32, result))
}
