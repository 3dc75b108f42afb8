//! Where a thread calls the caller's functions, to know whether it is in
//! a callback.

use super::at_hand;
use crate::core::state::Handle;
use crate::core::{number_of, Thread};
use core::cell::Cell;

/// Any of the caller's functions of the wheel. No timer has this handle.
pub(super) const ANY: Handle = 0;
/// The function that wakes the driver. No timer has this handle, either.
pub(super) const WAKE: Handle = 1;

/// A frame in which this thread calls the caller's functions: callbacks, the executor, or the
/// function that wakes the driver. A sweep has one frame for all of its calls.
pub(super) struct Frame {
    /// The id of the wheel.
    host: u64,
    /// The frame is that of a sweep: the thread drives the wheel.
    sweeps: bool,
    /// The timer whose callback runs; 0 in the executor; [`WAKE`].
    pub timer: Cell<Handle>,
    /// In the function that wakes the driver: this thread has wanted to call it once more.
    pub again: Cell<bool>,
    outer: *const Frame,
}

impl Frame {
    /// Runs `f`, which calls the caller's functions. Their exceptions and panics end
    /// the process. `sweeps` says whether `f` is a sweep of the wheel.
    pub(super) fn enter<R>(host: u64, sweeps: bool, f: impl FnOnce(&Frame) -> R) -> R {
        let frame = Frame {
            host,
            sweeps,
            timer: Cell::new(0),
            again: Cell::new(false),
            outer: innermost(),
        };
        at_hand::with(|mine| mine.inside.set((&raw const frame).cast()));
        let result = guarded(|| f(&frame));
        at_hand::with(|mine| mine.inside.set(frame.outer.cast()));
        result
    }

    /// The number of this thread, or 0; and whether the innermost frame of this thread is that
    /// of a sweep of the wheel.
    #[inline(always)]
    pub(super) fn thread_in_sweep(host: u64) -> (Thread, bool) {
        at_hand::with(|mine| {
            let innermost: *const Frame = mine.inside.get().cast();
            // SAFETY: as in `find`.
            let is_in = unsafe { innermost.as_ref() }.is_some_and(|f| f.host == host && f.sweeps);
            (number_of(mine.identity.get()), is_in)
        })
    }

    /// Whether this thread is inside the function of that timer and wheel, or of [`ANY`]. `see`
    /// gets the frame. A callback may drive another wheel: all frames count.
    pub(super) fn find(host: u64, timer: Handle, see: impl FnOnce(&Frame)) -> bool {
        let mut at = innermost();
        // SAFETY: frames live on this thread's stack, outer ones longer.
        while let Some(frame) = unsafe { at.as_ref() } {
            if frame.host == host && (timer == ANY || frame.timer.get() == timer) {
                see(frame);
                return true;
            }
            at = frame.outer;
        }
        false
    }
}

/// The innermost frame of this thread, or null.
fn innermost() -> *const Frame {
    at_hand::with(|mine| mine.inside.get()).cast()
}

/// Runs `f`. An exception or a panic that would leave an `extern "C"` function ends
/// the process: a sweep cannot be left in the middle.
#[inline(always)]
extern "C" fn guarded<R>(f: impl FnOnce() -> R) -> R {
    f()
}
