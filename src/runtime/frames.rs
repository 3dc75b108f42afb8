//! Where a thread calls the caller's functions, so that it can be told whether it is in
//! a callback.

use super::at_hand;
use crate::core::state::Handle;
use std::cell::Cell;

/// What a thread may be inside of, or wait for: the id of a wheel, and the handle of the
/// timer whose callback it is, or ANY.
pub(super) type Target = (u64, Handle);
/// Any callback of the wheel, or its executor. No timer has this handle.
pub(super) const ANY: Handle = 0;

/// Where this thread calls the caller's functions: callbacks, or the executor. A
/// sweep has one for all of its calls.
pub(super) struct Frame {
    /// The id of the wheel.
    host: u64,
    /// The timer whose callback runs; 0 in the executor.
    pub timer: Cell<Handle>,
    outer: *const Frame,
}

impl Frame {
    /// Runs `f`, which calls the caller's functions. An exception or a panic of theirs
    /// ends the process.
    pub(super) fn enter<R>(host: u64, f: impl FnOnce(&Frame) -> R) -> R {
        let frame = Frame {
            host,
            timer: Cell::new(0),
            outer: Frame::innermost(),
        };
        at_hand::with(|mine| mine.inside.set((&raw const frame).cast()));
        let result = guarded(|| f(&frame));
        at_hand::with(|mine| mine.inside.set(frame.outer.cast()));
        result
    }

    /// The innermost frame of this thread.
    pub(super) fn innermost() -> *const Frame {
        at_hand::with(|mine| mine.inside.get()).cast()
    }

    /// Whether the thread of these frames is inside `target`.
    ///
    /// # Safety
    /// `at` is the innermost frame of a thread that does not leave it.
    pub(super) unsafe fn is_inside(mut at: *const Frame, (host, timer): Target) -> bool {
        // SAFETY: frames live on their thread's stack, outer ones longer.
        while let Some(frame) = unsafe { at.as_ref() } {
            if frame.host == host && (timer == ANY || frame.timer.get() == timer) {
                return true;
            }
            at = frame.outer;
        }
        false
    }
}

/// Runs `f`. No exception and no panic leaves an `extern "C"` function, but ends the
/// process: a sweep cannot be left in its middle.
#[inline(always)]
extern "C" fn guarded<R>(f: impl FnOnce() -> R) -> R {
    f()
}
