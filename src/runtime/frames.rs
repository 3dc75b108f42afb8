//! Where a thread calls the caller's functions, to know whether it is in
//! a callback.

use super::at_hand;
use crate::core::state::Handle;
use core::cell::Cell;

/// A callback that a thread may be inside, or wait for: the id of a wheel, and the
/// handle of the callback's timer, or ANY.
pub(super) type Target = (u64, Handle);
/// Any of the caller's functions of the wheel. No timer has this handle.
pub(super) const ANY: Handle = 0;
/// The function that wakes the driver. No timer has this handle, either.
pub(super) const WAKE: Handle = 1;

/// A frame in which this thread calls the caller's functions: callbacks, the executor, or the
/// function that wakes the driver. A sweep has one frame for all of its calls.
pub(super) struct Frame {
    /// The id of the wheel.
    host: u64,
    /// The timer whose callback runs; 0 in the executor; [`WAKE`].
    pub timer: Cell<Handle>,
    /// In the function that wakes the driver: this thread has wanted to call it once more.
    pub again: Cell<bool>,
    outer: *const Frame,
}

impl Frame {
    /// Runs `f`, which calls the caller's functions. Their exceptions and panics end
    /// the process.
    pub(super) fn enter<R>(host: u64, f: impl FnOnce(&Frame) -> R) -> R {
        let frame = Frame {
            host,
            timer: Cell::new(0),
            again: Cell::new(false),
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

    /// The frame in which the thread of these frames is inside `target`.
    ///
    /// # Safety
    /// `at` is the innermost frame of a thread that does not leave it.
    pub(super) unsafe fn find<'a>(
        mut at: *const Frame,
        (host, timer): Target,
    ) -> Option<&'a Frame> {
        // SAFETY: frames live on their thread's stack, outer ones longer.
        while let Some(frame) = unsafe { at.as_ref() } {
            if frame.host == host && (timer == ANY || frame.timer.get() == timer) {
                return Some(frame);
            }
            at = frame.outer;
        }
        None
    }

    /// Whether the thread of these frames is inside `target`.
    ///
    /// # Safety
    /// As for `find`.
    pub(super) unsafe fn has(at: *const Frame, target: Target) -> bool {
        // SAFETY: the caller's promise.
        unsafe { Frame::find(at, target) }.is_some()
    }
}

/// Runs `f`. An exception or a panic that would leave an `extern "C"` function ends
/// the process: a sweep cannot be left in the middle.
#[inline(always)]
pub(super) extern "C" fn guarded<R>(f: impl FnOnce() -> R) -> R {
    f()
}
