//! Where a thread calls the caller's functions, to know whether it is in
//! a callback.

use super::at_hand;
use crate::core::state::Handle;
use core::cell::Cell;

/// A callback that a thread may be inside, or wait for: the id of a wheel, and the
/// handle of the callback's timer, or ANY.
pub(super) type Target = (u64, Handle);
/// Any callback of the wheel, or its executor. No timer has this handle.
pub(super) const ANY: Handle = 0;

/// A frame in which this thread calls the caller's functions: callbacks, or the
/// executor. A sweep has one frame for all of its calls.
pub(super) struct Frame {
    /// The id of the wheel.
    host: u64,
    /// The timer whose callback runs; 0 in the executor.
    pub timer: Cell<Handle>,
    outer: *const Frame,
}

impl Frame {
    /// Runs `f`, which calls the caller's functions. Their exceptions and panics end
    /// the process.
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

/// Runs `f`. An exception or a panic that would leave an `extern "C"` function ends
/// the process: a sweep cannot be left in the middle.
#[inline(always)]
pub(super) extern "C" fn guarded<R>(f: impl FnOnce() -> R) -> R {
    f()
}
