//! How a wheel is made, and its end.

use super::args::{extensible, hwheel, with, Wheel, EINVAL};
use super::event::call;
use crate::runtime::{number, Host, Options};
use core::ffi::c_int;
use core::mem::MaybeUninit;

/// Clock: CLOCK_MONOTONIC. The default.
pub const HWHEEL_CLOCK_MONOTONIC: u32 = 0;
/// Clock: CLOCK_BOOTTIME, which also counts time spent in suspend.
pub const HWHEEL_CLOCK_BOOTTIME: u32 = 1;
/// Clock: CLOCK_REALTIME, the wall clock. Timers follow when it is set.
pub const HWHEEL_CLOCK_REALTIME: u32 = 2;
/// Clock: the caller's own. hwheel_advance() moves it.
pub const HWHEEL_CLOCK_MANUAL: u32 = 3;

/// Overload: the driving thread runs the callback itself. The default.
pub const HWHEEL_OVERLOAD_RUN: u32 = 0;
/// Overload: the callback does not run. hwheel_stats.dropped counts it, and
/// hwheel_stats.fired counts its timer.
pub const HWHEEL_OVERLOAD_DROP: u32 = 1;

/// hwheel_create() - Make a wheel.
/// @options: how to make it; NULL for the defaults.
/// @wheel: receives the wheel.
///
/// The new wheel has no timers, and no thread drives it yet. Apart from its
/// workers it has no threads, and it has no descriptor: hwheel_fd() makes the
/// descriptor, hwheel_start() the tick thread and the descriptor.
///
/// Return:
/// * 0 - @wheel is set.
/// * -EINVAL - @wheel is NULL, or an option is out of range.
/// * -E2BIG - the options have members that this version does not know, or @size
///   is above 4096.
/// * -ENOMEM - no memory, no address space, or no key of pthread_key_create().
/// * -EUSERS - the wheel is to be an owned one, and 32767 other threads of the
///   process use timers.
/// * -EAGAIN - the system cannot start the workers.
/// * -EPERM, -ENOSYS - a filter of system calls refuses the workers.
///
/// Context: any thread. May block in the kernel for memory.
#[no_mangle]
#[must_use]
pub unsafe extern "C" fn hwheel_create(
    options: *const Options,
    wheel: Option<&mut MaybeUninit<*mut hwheel>>,
) -> c_int {
    number((|| {
        let wheel = wheel.ok_or(EINVAL)?;
        // SAFETY: the caller's promise.
        let options = unsafe { extensible(options) }?;
        wheel.write(Host::create(options, call)?.cast());
        Ok(0)
    })())
}

/// hwheel_disown() - Give up an owned wheel.
/// @wheel: a wheel of hwheel_options.owned.
///
/// Afterwards nobody owns the wheel, until a thread calls hwheel_own(). Timers
/// stay pending. Other threads may send timers meanwhile.
///
/// Return:
/// * 0 - nobody owns the wheel.
/// * -EINVAL - @wheel is NULL, or a shared wheel.
/// * -EPERM - another thread owns the wheel, or nobody does.
/// * -EDEADLK - the call comes from a callback of this wheel.
/// * -ESHUTDOWN - this is a forked child.
///
/// Context: any thread, but not in a callback of this wheel. Never blocks.
#[no_mangle]
#[must_use]
pub extern "C" fn hwheel_disown(wheel: Wheel<'_>) -> c_int {
    with(wheel, |h| h.disown().map(|()| 0))
}

/// hwheel_own() - Become the owner of a wheel that nobody owns.
/// @wheel: a wheel of hwheel_options.owned.
///
/// Takes the wheel after hwheel_disown(), or from a thread that has ended. The
/// new owner sees all that the last owner did. It drives the wheel before it
/// sleeps, because a timer that another thread sent meanwhile may be due.
///
/// A thread has ended when the destructors of its thread-specific data have
/// run. If its first call comes in one of them, the thread has ended when the
/// kernel has removed it, shortly after pthread_join(). A main thread whose
/// main() returns ends the process instead.
///
/// Return:
/// * 0 - the calling thread owns the wheel.
/// * -EINVAL - @wheel is NULL, or a shared wheel.
/// * -EBUSY - another thread owns the wheel.
/// * -EUSERS - 32767 other threads of the process use timers.
/// * -ENOMEM - no memory.
/// * -ESHUTDOWN - this is a forked child.
///
/// Context: any thread. May block in the kernel for memory.
#[no_mangle]
#[must_use]
pub extern "C" fn hwheel_own(wheel: Wheel<'_>) -> c_int {
    with(wheel, |h| h.own().map(|()| 0))
}

/// hwheel_destroy() - Stop and free a wheel.
/// @wheel: the wheel; NULL is allowed.
///
/// Stops the wheel like hwheel_stop(), then frees it with all its timers and its
/// descriptor. Pending timers do not fire. Call hwheel_drain() first to get them
/// back. All handles of the wheel become invalid.
///
/// A forked child may destroy its copy of the wheel. That frees memory only. In
/// a child that a callback has forked, this call returns -EDEADLK until the
/// callback returns.
///
/// Return:
/// * 0 - the wheel is gone.
/// * -EPERM - the wheel is an owned one, and another thread owns it or nobody
///   does. hwheel_own() comes first then.
/// * -EDEADLK - the call comes from a callback, the executor or the wake
///   function of this wheel; nothing has changed.
/// * -EBUSY - another thread is in hwheel_stop().
///
/// Context: no other thread may use the wheel during or after this call. May run
/// queued callbacks on the caller's stack. Blocks until every running callback
/// has returned. Two callbacks that destroy each other's wheels never return.
#[no_mangle]
pub unsafe extern "C" fn hwheel_destroy(wheel: *mut hwheel) -> c_int {
    if wheel.is_null() {
        return 0;
    }
    // SAFETY: the caller's promise.
    number(unsafe { Host::destroy(wheel.cast()) }.map(|()| 0))
}
