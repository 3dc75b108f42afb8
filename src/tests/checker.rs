//! What tests under either model checker have in common.

use crate::core::driver::{Fired, Sink};
use crate::core::life::Spec;
use crate::runtime::{Host, Options};
use crate::sync::{AtomicU64, Mutex, Ordering};
#[cfg(loom)]
pub use loom as tool;
#[cfg(shuttle)]
pub use shuttle as tool;
use std::any::Any;
use std::collections::HashMap;
use std::marker::PhantomData;
// Of the standard library: to keep books is no step of an order, and orders nothing.
use std::sync::Mutex as Books;
pub use tool::{sync::Condvar, thread};

pub(crate) use super::{at, shape, TICK_BITS};

pub(crate) mod mutex {
    //! The lock of a model checker.

    pub(crate) use super::tool::sync::{Mutex, MutexGuard};
    use std::sync::PoisonError;

    /// Waits for a lock, poisoned or not: a panic ends the test.
    pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
        mutex.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn try_lock<T>(mutex: &Mutex<T>) -> Option<MutexGuard<'_, T>> {
        mutex.try_lock().ok()
    }

    pub(crate) fn inner<T>(mutex: &mut Mutex<T>) -> &mut T {
        mutex.get_mut().unwrap_or_else(PoisonError::into_inner)
    }
}

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

/// A wheel on a clock, which all threads use until it is destroyed.
pub(crate) struct Hosted(*mut Host);

// SAFETY: the wheel is for all threads.
unsafe impl Sync for Hosted {}
// SAFETY: as above.
unsafe impl Send for Hosted {}

impl Hosted {
    pub fn new(options: Options, callback: unsafe fn(&Host, &Fired)) -> Hosted {
        Hosted(Host::create(options, callback).unwrap())
    }

    /// The last call on it, when the other threads are gone.
    pub fn destroy(&self) {
        // SAFETY: nothing uses it any more.
        assert_eq!(unsafe { Host::destroy(self.0) }, Ok(()));
    }
}

impl std::ops::Deref for Hosted {
    type Target = Host;
    fn deref(&self) -> &Host {
        // SAFETY: it is there until `destroy`.
        unsafe { &*self.0 }
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
    /// How a call waits on it.
    pub fn waits(&self) -> impl Fn(&AtomicU64, u64) + '_ {
        |word, seen| self.wait(word, seen)
    }
}

/// A value of each execution. Not of size zero: its place tells it from others.
pub(crate) struct PerExecution<T>(u8, PhantomData<T>);

// SAFETY: what is there is shared by threads only if it may be.
unsafe impl<T: Sync> Sync for PerExecution<T> {}

struct Values(HashMap<usize, Box<dyn Any>>);
// SAFETY: as above.
unsafe impl Send for Values {}

tool::lazy_static! {
    static ref VALUES: Books<Values> = Books::new(Values(HashMap::new()));
}

impl<T: Default + 'static> PerExecution<T> {
    pub const fn new() -> Self {
        PerExecution(0, PhantomData)
    }

    pub fn get(&self) -> &T {
        let mut values = VALUES.lock().unwrap();
        let at = std::ptr::from_ref(self).addr();
        let value = values.0.entry(at).or_insert_with(|| Box::new(T::default()));
        let value: *const T = value.downcast_ref().unwrap();
        // SAFETY: in a box, until the end of the execution.
        unsafe { &*value }
    }
}
