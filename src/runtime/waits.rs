//! Callbacks that wait for the end of others, in all wheels of the process: no two
//! wait for each other.
//!
//! A callback runs in one thread, and that waits for one timer at a time. So whoever
//! is waited for waits for one other at most, and to follow them from the timer that
//! is to be waited for comes to an end, or to the thread that asks. Then all of these
//! would wait for ever, and it is refused.

use super::callbacks::Frame;
use crate::core::state::Handle;
use crate::sync::each_execution;
use crate::sys::fork::Process;
use crate::sys::lock::PerProcess;
use std::cell::Cell;

/// A timer: the wheel's id, and the handle.
type Timer = (u64, Handle);

/// A thread that waits inside a callback. It lies on its stack.
pub(super) struct Wait {
    /// The callbacks that it is inside of.
    inside: *const Frame,
    /// What it waits for.
    target: Timer,
    next: Cell<*const Wait>,
}

/// The first of those that wait.
struct First(*const Wait);
// SAFETY: used under the lock.
unsafe impl Send for First {}

each_execution! {
    static WAITS: PerProcess<First> = PerProcess::new(First(std::ptr::null()));
}

fn none() -> First {
    First(std::ptr::null())
}

impl First {
    fn find(&self, is: impl Fn(&Wait) -> bool) -> Option<&Wait> {
        let mut at = self.0;
        // SAFETY: a thread takes its own out, under the lock, before it goes on.
        while let Some(wait) = unsafe { at.as_ref() } {
            if is(wait) {
                return Some(wait);
            }
            at = wait.next.get();
        }
        None
    }
}

/// Whether a thread that is inside of these runs that timer's callback.
///
/// # Safety
/// As `Frame::any`.
unsafe fn runs(inside: *const Frame, timer: Timer) -> bool {
    // SAFETY: the caller's promise.
    unsafe { Frame::any(inside, |host, handle| (host, handle) == timer) }
}

impl Wait {
    /// Has this thread, which is inside of callbacks, wait for that of `target` in `f`;
    /// `None`, and `f` is not called, if that waits for this thread, directly or not.
    pub fn during<R>(
        process: Process,
        inside: *const Frame,
        target: Timer,
        f: impl FnOnce() -> R,
    ) -> Option<R> {
        let mark = process.mark();
        let mut first = WAITS.lock(mark, none);
        let mut timer = target;
        // SAFETY: threads that wait do not leave their callbacks, nor does this one.
        let runs = |inside, timer| unsafe { runs(inside, timer) };
        while let Some(other) = first.find(|wait| runs(wait.inside, timer)) {
            timer = other.target;
            if runs(inside, timer) {
                return None;
            }
        }
        let mine = Wait {
            inside,
            target,
            next: Cell::new(first.0),
        };
        first.0 = &raw const mine;
        drop(first);
        let result = f();
        let mut first = WAITS.lock(mark, none);
        match first.find(|wait| wait.next.get() == &raw const mine) {
            Some(before) => before.next.set(mine.next.get()),
            None => first.0 = mine.next.get(),
        }
        Some(result)
    }
}
