//! Callbacks that wait for other callbacks, in all wheels of the process: a wait
//! that would close a ring is refused.
//!
//! A thread inside a callback waits for one timer, or for all callbacks of a wheel. Each
//! callback that it waits for runs on a thread that may wait itself. If one of these
//! chains comes back to the first thread, all of them would wait for ever.

use super::callbacks::{Frame, Target};
use super::register::{is_own, lock, List, Listed, Register};
use crate::sync::Mutex;
use std::cell::Cell;

/// A thread that waits inside a callback. This lies on the thread's stack.
pub(super) struct Wait {
    /// The callbacks that the thread is in.
    inside: *const Frame,
    target: Target,
    next: Cell<*const Wait>,
}

impl Listed for Wait {
    fn next(&self) -> &Cell<*const Wait> {
        &self.next
    }
}

impl Wait {
    /// Calls `f`, in which this thread waits for `target`. `None`, without a call, if this
    /// thread runs that, or if that waits for this thread, directly or not.
    pub fn during<R>(
        register: &Mutex<Register>,
        target: Target,
        f: impl FnOnce() -> R,
    ) -> Option<R> {
        let inside = Frame::innermost();
        if inside.is_null() {
            return Some(f());
        }
        let mine = Wait {
            inside,
            target,
            next: Cell::new(std::ptr::null()),
        };
        let mut all = lock(register);
        if mine.closes_a_ring(&all.waits, target) {
            return None;
        }
        // SAFETY: removed below.
        unsafe { all.waits.add(&mine) };
        drop(all);
        let result = f();
        // If a callback has forked in `f`, this may be the child. There nobody gives back a
        // lock that a thread of the parent held.
        if is_own(register) {
            lock(register).waits.remove(&mine);
        }
        Some(result)
    }

    /// Whether this thread runs `target`.
    fn runs(&self, target: Target) -> bool {
        // SAFETY: a thread that waits does not leave its callbacks; nor does this one.
        unsafe { Frame::is_inside(self.inside, target) }
    }

    /// Whether this thread runs `target`, or `target` waits for it. The waits that are there
    /// form no ring.
    fn closes_a_ring(&self, waits: &List<Wait>, target: Target) -> bool {
        let goes_on = |wait: &Wait| wait.runs(target) && self.closes_a_ring(waits, wait.target);
        self.runs(target) || waits.find(goes_on).is_some()
    }
}

#[cfg(all(test, not(any(checked, miri))))]
mod tests {
    use super::super::callbacks::ANY;
    use super::super::register::REGISTER;
    use super::*;
    use crate::api::Wheel;

    /// As if another thread had held the lock at the fork.
    #[test]
    fn a_child_does_not_wait_for_the_lock_of_its_parent() {
        let wheel = Wheel::new().unwrap();
        let register = REGISTER.get().unwrap();
        let fork = || {
            let held = lock(register);
            // SAFETY: the child makes no call that could wait for another thread.
            let child = unsafe { libc::fork() };
            if child == 0 {
                // SAFETY: ends a child that hangs.
                unsafe { libc::alarm(10) };
                std::mem::forget(held);
            }
            child
        };
        let child = Frame::enter(wheel.host(), |_| {
            Wait::during(register, (u64::MAX, ANY), fork)
        });
        // SAFETY: as above.
        unsafe {
            if child == Some(0) {
                libc::_exit(0);
            }
            let mut status = -1;
            assert_eq!(
                libc::waitpid(child.unwrap(), &mut status, 0),
                child.unwrap()
            );
            assert_eq!(status, 0);
        }
    }
}
