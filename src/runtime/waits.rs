//! Callbacks that wait for other callbacks, in all wheels of the process: a wait
//! that would close a ring is refused.
//!
//! A callback runs on one thread, and that thread waits for at most one timer. So
//! from the timer that a thread wants to wait for, one chain leads from callback
//! to callback. The chain ends, or it comes back to the thread. In the second case
//! all of them would wait for ever.

use super::callbacks::Frame;
use crate::core::state::Handle;
use crate::sync::each_execution;
use crate::sys::fork::Process;
use crate::sys::lock::PerProcess;
use std::cell::Cell;

/// A timer: the wheel's id, and the handle.
type Timer = (u64, Handle);

/// A thread that waits inside a callback. This lies on the thread's stack.
pub(super) struct Wait {
    /// The callbacks that the thread is in.
    inside: *const Frame,
    /// The timer that it waits for.
    target: Timer,
    next: Cell<*const Wait>,
}

/// The list of the threads that wait.
struct First(*const Wait);
// SAFETY: used under the lock.
unsafe impl Send for First {}

each_execution! {
    static WAITS: PerProcess<First> = PerProcess::new(|| First(std::ptr::null()));
}

impl First {
    fn find(&self, is: impl Fn(&Wait) -> bool) -> Option<&Wait> {
        let mut at = self.0;
        // SAFETY: a thread removes its own, under the lock, before it continues.
        while let Some(wait) = unsafe { at.as_ref() } {
            if is(wait) {
                return Some(wait);
            }
            at = wait.next.get();
        }
        None
    }
}

impl Wait {
    /// Calls `f`, in which this thread waits for the callback of `target`. `None`,
    /// without a call, if that callback waits for this thread, directly or not.
    pub fn during<R>(
        process: Process,
        inside: *const Frame,
        target: Timer,
        f: impl FnOnce() -> R,
    ) -> Option<R> {
        let mark = process.mark();
        let mut first = WAITS.lock(mark);
        let mut timer = target;
        // Whether a thread that is in these frames runs that timer's callback.
        let runs = |inside, timer| {
            let is = |host, handle| (host, handle) == timer;
            // SAFETY: threads that wait do not leave their callbacks, nor does this one.
            unsafe { Frame::any(inside, is) }
        };
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
        let mut first = WAITS.lock(mark);
        match first.find(|wait| wait.next.get() == &raw const mine) {
            Some(before) => before.next.set(mine.next.get()),
            None => first.0 = mine.next.get(),
        }
        Some(result)
    }
}
