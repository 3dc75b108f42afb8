//! Waking a future from the thread that drives or drains the wheel.

use atomic_waker::AtomicWaker;
use std::panic::{catch_unwind, AssertUnwindSafe};
use std::ptr::with_exposed_provenance;
use std::sync::Arc;

/// Wakes the future of a timer that has fired or was drained.
///
/// # Safety
/// `cookie` is that of a timer whose function is PROMPT and which was pending. The
/// caller has ended it.
pub(super) unsafe fn end(cookie: u64) {
    let place = with_exposed_provenance::<AtomicWaker>(cookie as usize);
    // SAFETY: from an `Arc` in `Sleep::arm`, and the timer owned this count.
    let place = unsafe { Arc::from_raw(place) };
    // A panic must not leave a sweep half done. The panic hook has reported it.
    if let Err(panic) = catch_unwind(AssertUnwindSafe(move || place.wake())) {
        std::mem::forget(panic);
    }
}
