//! What tests under either model checker have in common.

use crate::core::driver::{Fired, Sink};
use crate::core::life::Spec;
use crate::sync::{AtomicU64, Mutex, Ordering};
#[cfg(loom)]
pub use loom as tool;
#[cfg(shuttle)]
pub use shuttle as tool;
pub use tool::{sync::Condvar, thread};

pub(crate) use super::{at, shape, TICK_BITS};

/// A callback that differs from others, and is never called.
pub fn func(number: usize) -> usize {
    number
}

/// A spec with a callback.
pub fn called(number: usize) -> Spec {
    Spec {
        func: func(number),
        ..Spec::default()
    }
}

/// A sink whose driver wakes those that wait on a futex.
pub struct Waker<'a, F>(pub &'a Futex, pub F);

impl<F: FnMut(&Fired) -> bool> Sink for Waker<'_, F> {
    fn fire(&mut self, fired: &Fired) -> bool {
        self.1(fired)
    }
    fn wake(&self) {
        self.0.wake();
    }
}

/// Waits as on a futex: a thread that is not woken never returns, and the checker says
/// so.
#[derive(Default)]
pub struct Futex {
    lock: Mutex<()>,
    woken: Condvar,
}

impl Futex {
    pub fn wait(&self, word: &AtomicU64, seen: u64) {
        let held = self.lock.lock().unwrap();
        if word.load(Ordering::Relaxed) == seen {
            drop(self.woken.wait(held).unwrap());
        }
    }
    pub fn wake(&self) {
        drop(self.lock.lock().unwrap());
        self.woken.notify_all();
    }
}
