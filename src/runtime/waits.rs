//! Callbacks that wait for other callbacks, in all wheels of the process: a wait
//! that would close a cycle is refused.
//!
//! A thread inside a callback waits for one timer, or for all callbacks of a wheel. Each
//! callback that it waits for runs on a thread that may wait itself. If one of these
//! chains leads back to the first thread, all of them would wait forever.

use super::frames::{Frame, Target};
use crate::sync::{lock, Mutex};
use crate::sys::fork::PerProcess;
use core::cell::Cell;
use core::ptr::null;

/// A thread that waits inside a callback. This lies on the thread's stack.
struct Wait {
    /// The callbacks that the thread is in.
    inside: *const Frame,
    target: Target,
    next: Cell<*const Wait>,
}

/// The threads that wait inside a callback: a list. Only such a wait takes its lock.
pub(super) struct Waits(*const Wait);

// SAFETY: used under the lock. Of a thread that waits, the others read what it does not
// change.
unsafe impl Send for Waits {}

pub(super) static WAITS: PerProcess<Mutex<Waits>> = PerProcess::new();

impl Default for Waits {
    fn default() -> Self {
        Waits(null())
    }
}

impl Wait {
    /// Whether this thread runs `target`.
    fn runs(&self, target: Target) -> bool {
        // SAFETY: a thread that waits does not leave its callbacks; nor does this one.
        unsafe { Frame::has(self.inside, target) }
    }
}

impl Waits {
    fn each_wait(&self) -> impl Iterator<Item = &Wait> {
        // SAFETY: a wait stays where it is until its thread has removed it.
        let next = |at: *const Wait| unsafe { at.as_ref() };
        core::iter::successors(next(self.0), move |wait| next(wait.next.get()))
    }

    /// Whether the thread of `mine` runs `target`, or `target` waits for it. The others alone
    /// form no cycle.
    fn lead_to(&self, mine: &Wait, target: Target) -> bool {
        let goes_on = |wait: &Wait| wait.runs(target) && self.lead_to(mine, wait.target);
        mine.runs(target) || self.each_wait().any(goes_on)
    }

    fn remove(&mut self, mine: &Wait) {
        let is_before = |wait: &&Wait| core::ptr::eq(wait.next.get(), mine);
        let before = self.each_wait().find(is_before);
        match before {
            Some(before) => before.next.set(mine.next.get()),
            None => self.0 = mine.next.get(),
        }
    }
}

/// Calls `f`, in which this thread waits for `target`. `None`, without a call, if this
/// thread runs `target`, or if `target` waits for this thread, directly or not.
pub(super) fn wait_for<R>(all: &Mutex<Waits>, target: Target, f: impl FnOnce() -> R) -> Option<R> {
    let inside = Frame::innermost();
    if inside.is_null() {
        return Some(f());
    }
    let mut waits = lock(all);
    let next = Cell::new(waits.0);
    let mine = Wait {
        inside,
        target,
        next,
    };
    if waits.lead_to(&mine, target) {
        return None;
    }
    waits.0 = &mine;
    drop(waits);
    let result = f();
    // If a callback has forked in `f`, this may be the child. There nobody gives back a
    // lock that a thread of the parent held.
    if WAITS.get().is_some_and(|own| core::ptr::eq(own, all)) {
        lock(all).remove(&mine);
    }
    Some(result)
}

#[cfg(all(test, feature = "std", not(any(checked, miri))))]
mod tests {
    use super::*;
    use crate::api::Wheel;
    use crate::runtime::frames::{Frame, ANY};

    /// As if another thread had held the lock at the fork.
    #[test]
    fn a_child_does_not_wait_for_the_lock_of_its_parent() {
        let wheel = Wheel::new().unwrap();
        let waits = WAITS.get().unwrap();
        let fork = || {
            let held = lock(waits);
            // SAFETY: the child makes no call that could wait for another thread.
            let child = unsafe { libc::fork() };
            if child == 0 {
                // SAFETY: ends a child that hangs.
                unsafe { libc::alarm(10) };
                std::mem::forget(held);
            }
            child
        };
        let child = Frame::enter(wheel.host().id, |_| wait_for(waits, (u64::MAX, ANY), fork));
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
