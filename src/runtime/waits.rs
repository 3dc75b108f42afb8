//! Callbacks that wait for other callbacks, in all wheels of the process: a wait
//! that would close a ring is refused.
//!
//! A callback runs on one thread, and that thread waits for at most one timer. So
//! from the timer that a thread wants to wait for, one chain leads from callback
//! to callback. The chain ends, or it comes back to the thread. In the second case
//! all of them would wait for ever.

use super::callbacks::Frame;
use super::register::{lock, Listed, Register};
use crate::core::state::Handle;
use crate::sync::Mutex;
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

impl Listed for Wait {
    fn next(&self) -> &Cell<*const Wait> {
        &self.next
    }
}

impl Wait {
    /// Calls `f`, in which this thread waits for the callback of `target`. `None`,
    /// without a call, if that callback waits for this thread, directly or not.
    pub fn during<R>(
        register: &Mutex<Register>,
        inside: *const Frame,
        target: Timer,
        f: impl FnOnce() -> R,
    ) -> Option<R> {
        // Whether a thread that is in these frames runs that timer's callback.
        let runs = |inside, timer| {
            let is = |host, handle| (host, handle) == timer;
            // SAFETY: threads that wait do not leave their callbacks, nor does this one.
            unsafe { Frame::any(inside, is) }
        };
        let mine = Wait {
            inside,
            target,
            next: Cell::new(std::ptr::null()),
        };
        let mut all = lock(register);
        let mut timer = target;
        while let Some(other) = all.waits.find(|wait| runs(wait.inside, timer)) {
            timer = other.target;
            if runs(inside, timer) {
                return None;
            }
        }
        // SAFETY: removed below.
        unsafe { all.waits.add(&mine) };
        drop(all);
        let result = f();
        lock(register).waits.remove(&mine);
        Some(result)
    }
}
