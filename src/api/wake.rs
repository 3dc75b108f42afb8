//! Wakes a task or a thread when the timer of a prompt fires.
//!
//! The cookie of such a timer is a place with the thing to wake, and a pending timer owns one
//! reference to that place. The thread that ends the pending timer takes over the reference: a
//! driver, a drain, or the owner of the prompt. So to cancel it waits for no thread.

use std::panic::{catch_unwind, AssertUnwindSafe};
use std::ptr::with_exposed_provenance;
use std::sync::Arc;

/// Something that a timer wakes. The call is short: it wakes a task or a thread. It may make
/// the calls that a [`handler`](crate::Options::handler) may make.
pub trait Wake: Send + Sync + 'static {
    /// The timer has fired or was drained. If this panics, the panic hook alone knows of it.
    fn wake(&self);
}

#[repr(C)]
pub(super) struct Place<T> {
    /// Ends a place of this type. The first member, so that [`end`] finds it.
    end: unsafe fn(*const ()),
    pub target: T,
}

impl<T: Wake> Place<T> {
    pub fn new(target: T) -> Self {
        let end = Self::end;
        Place { end, target }
    }

    /// # Safety
    /// `place` is from an `Arc` of this type, and a count of it is the caller's.
    unsafe fn end(place: *const ()) {
        // SAFETY: the caller's promise.
        let place = unsafe { Arc::from_raw(place.cast::<Self>()) };
        // A panic must not leave a sweep half done. The panic hook has reported it.
        if let Err(panic) = catch_unwind(AssertUnwindSafe(move || place.target.wake())) {
            std::mem::forget(panic);
        }
    }
}

/// Wakes what waits for a timer that has fired or was drained.
///
/// # Safety
/// `cookie` is that of a timer whose function is PROMPT and which was pending. The
/// caller has ended it.
pub(super) unsafe fn end_prompt(cookie: u64) {
    let place = with_exposed_provenance::<()>(cookie as usize);
    // SAFETY: from `Prompt::arm`, and the timer owned this count. A place begins with `end`.
    unsafe { (*place.cast::<unsafe fn(*const ())>())(place) };
}
