//! The threads of the process that wait inside a callback: a list, under a lock. Only such a
//! wait takes it.

use super::frames::Target;
use super::list::{List, Node};
use super::waits::Wait;
use crate::sync::{self, Mutex, MutexGuard};
use crate::sys::fork::PerProcess;
use crate::sys::quietly;

#[derive(Default)]
pub(super) struct Register {
    pub waits: List<Wait>,
}

// SAFETY: used under the lock. Of a thread that waits, the others read what it does not
// change.
unsafe impl Send for Register {}

pub(super) static REGISTER: PerProcess<Mutex<Register>> = PerProcess::new();

pub(super) fn lock(register: &Mutex<Register>) -> MutexGuard<'_, Register> {
    quietly(|| sync::lock(register))
}

/// Calls `f`, in which this thread waits for `target`. `None`, without a call, if this
/// thread runs `target`, or if `target` waits for this thread, directly or not.
pub(super) fn wait_for<R>(
    register: &Mutex<Register>,
    target: Target,
    f: impl FnOnce() -> R,
) -> Option<R> {
    let Some(mine) = Wait::new(target).map(Node::new) else {
        return Some(f());
    };
    let mut all = lock(register);
    if mine.value.is_waited_for(&all.waits, target) {
        return None;
    }
    // SAFETY: removed below.
    unsafe { all.waits.add(&mine) };
    drop(all);
    let result = f();
    // If a callback has forked in `f`, this may be the child. There nobody gives back a
    // lock that a thread of the parent held.
    let own = REGISTER.get();
    if own.is_some_and(|own| std::ptr::eq(own, register)) {
        lock(register).waits.remove(&mine);
    }
    Some(result)
}

#[cfg(all(test, not(any(checked, miri))))]
#[path = "../tests/waits.rs"]
mod tests;
