//! The model checker's atomics, at any of which a thread can be stopped for
//! ever: it is ended by unwinding, and nothing of what it was about to do is
//! done. What the others were promised must still hold.

#[cfg(not(weakened))]
use loom::sync::atomic as real;
use loom::thread::{current, ThreadId};
use std::cell::Cell;
use std::panic::{catch_unwind, resume_unwind, AssertUnwindSafe};

#[cfg(not(weakened))]
pub(crate) use real::Ordering;

thread_local! {
    /// The thread that is to be stopped, and after how many more accesses. The
    /// checker runs all threads of an execution in one of the system's.
    static LEFT: Cell<Option<(ThreadId, u32)>> = const { Cell::new(None) };
}

/// The payload with which a stopped thread unwinds.
struct Stopped;

/// Counts an access of the calling thread, which may be its last.
pub(super) fn access() {
    let Some((thread, left)) = LEFT.get() else {
        return;
    };
    if thread != current().id() {
        return;
    }
    if left == 0 {
        LEFT.set(None);
        resume_unwind(Box::new(Stopped));
    }
    LEFT.set(Some((thread, left - 1)));
}

/// Runs `f`, whose thread is stopped before its access number `n`, from 0;
/// `None` if it was. One thread of an execution.
pub(crate) fn stopped_before<R>(n: u32, f: impl FnOnce() -> R) -> Option<R> {
    LEFT.set(Some((current().id(), n)));
    let result = catch_unwind(AssertUnwindSafe(f));
    LEFT.set(None);
    match result {
        Ok(result) => Some(result),
        Err(payload) if payload.is::<Stopped>() => None,
        Err(payload) => resume_unwind(payload),
    }
}

/// The second word of each atomic. An access to the atomic comes behind a store to this word.
/// Without the store the checker leaves out executions: it tries an access before the last one
/// of the atomic only, and where a thread has read the atomic before it writes it, that is the
/// thread's own read. Nobody reads the word, so it orders nothing. An exchange would: with a
/// fence before it in one thread and behind it in another, it synchronizes them.
#[derive(Default)]
pub(super) struct Turns(loom::sync::atomic::AtomicU32);

impl Turns {
    pub fn new() -> Self {
        Self::default()
    }

    pub fn take(&self) {
        self.0.store(0, loom::sync::atomic::Ordering::Relaxed);
    }
}

#[cfg(not(weakened))]
fn hook(order: Ordering, argument: usize) -> Ordering {
    if argument == 0 {
        access();
    }
    order
}

#[cfg(not(weakened))]
#[track_caller]
pub(crate) fn fence(order: Ordering) {
    access();
    real::fence(order);
}

#[cfg(not(weakened))]
hooked!();
