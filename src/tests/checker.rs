//! What tests under either model checker have in common.

use super::{at, Heap, Own};
use crate::runtime::keys::Timers;
use crate::sync::{AtomicU64, Mutex, Ordering};
use crate::wheel::{Error, Handle, How, Park, Spec, Wheel};
#[cfg(loom)]
pub use loom::{sync::Condvar, thread};
#[cfg(shuttle)]
pub use shuttle::{sync::Condvar, thread};

/// Waits as on a futex: who is not woken waits for ever, and the checker says
/// so.
#[derive(Default)]
pub struct Futex {
    lock: Mutex<()>,
    woken: Condvar,
}

impl Park for Futex {
    fn wait(&self, word: &AtomicU64, seen: u64) {
        let held = self.lock.lock().unwrap();
        if word.load(Ordering::Relaxed) == seen {
            drop(self.woken.wait(held).unwrap());
        }
    }
    fn wake(&self, _: &AtomicU64) {
        drop(self.lock.lock().unwrap());
        self.woken.notify_all();
    }
}

/// A wheel with names, as one of its threads sees it.
pub struct Names<'a> {
    pub wheel: &'a Wheel<Heap>,
    pub own: Own,
}

impl Timers for Names<'_> {
    type When = u64;
    type Error = Error;

    fn make(&self, spec: Spec, when: u64) -> Result<Handle, Error> {
        self.wheel.setup(&self.own, spec, Some(at(when)))
    }
    fn shift(&self, timer: Handle, when: u64) -> Result<bool, Error> {
        self.wheel.arm(&self.own, timer, at(when), How::Pending)
    }
    fn end(&self, timer: Handle) -> bool {
        self.wheel.cancel(&self.own, timer, 0) == Ok(true)
    }
    fn is_pending(&self, timer: Handle) -> bool {
        matches!(self.wheel.due(timer), Ok(Some(_)))
    }
}
