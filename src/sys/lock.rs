//! A lock and what it guards. Zeroed memory is a free lock and a fresh value, so a
//! forked child has that where its parent's is in a page that the kernel clears.
//!
//! A thread that waits for the lock sleeps (Drepper, *Futexes Are Tricky*, the second
//! mutex), so that one of higher priority does not keep the holder from its processor.

use super::futex::{wait, wake};
use crate::sync::{AtomicU32, Fresh, Ordering};
use std::cell::UnsafeCell;

/// A thread holds it.
const HELD: u32 = 1;
/// The same, and another thread waits, or may.
const CONTENDED: u32 = 2;

pub(crate) struct Lock<T> {
    word: AtomicU32,
    value: UnsafeCell<T>,
}

// SAFETY: the value is used by the holder of the lock alone.
unsafe impl<T: Send> Sync for Lock<T> {}

impl<T: Fresh> Fresh for Lock<T> {
    #[cfg(checked)]
    fn fresh() -> Self {
        Lock {
            word: AtomicU32::new(0),
            value: UnsafeCell::new(T::fresh()),
        }
    }
}

impl<T> Lock<T> {
    /// Calls `f` with the value, unless another thread holds the lock.
    pub fn try_with<R>(&self, f: impl FnOnce(&mut T) -> R) -> Option<R> {
        self.take().then(|| self.release_after(f))
    }

    /// Calls `f` with the value, and waits for the lock before.
    pub fn with<R>(&self, f: impl FnOnce(&mut T) -> R) -> R {
        if !self.take() {
            // Other threads may wait as well, so a thread that has waited says so.
            // Acquire: as in `take`.
            while self.word.swap(CONTENDED, Ordering::Acquire) != 0 {
                // SAFETY: borrowed.
                unsafe { wait(std::ptr::from_ref(&self.word).cast(), CONTENDED) };
            }
        }
        self.release_after(f)
    }

    fn take(&self) -> bool {
        // Acquire: pairs with the Release in `release_after`.
        self.word
            .compare_exchange(0, HELD, Ordering::Acquire, Ordering::Relaxed)
            .is_ok()
    }

    /// For the thread that holds the lock.
    fn release_after<R>(&self, f: impl FnOnce(&mut T) -> R) -> R {
        // SAFETY: this thread holds the lock.
        let result = f(unsafe { &mut *self.value.get() });
        // Release: the value; pairs with the Acquires above.
        if self.word.swap(0, Ordering::Release) == CONTENDED {
            wake(std::ptr::from_ref(&self.word).cast(), 1);
        }
        result
    }
}

#[cfg(all(test, not(checked)))]
mod tests {
    use super::*;

    #[test]
    fn one_at_a_time_and_all_in_turn() {
        let lock = Lock {
            word: AtomicU32::new(0),
            value: UnsafeCell::new(0),
        };
        std::thread::scope(|s| {
            for _ in 0..4 {
                s.spawn(|| (0..10_000).for_each(|_| lock.with(|n| *n += 1)));
            }
        });
        lock.with(|n| assert_eq!(*n, 40_000));
        lock.with(|_| assert!(lock.try_with(|_| ()).is_none()));
        lock.try_with(|n| *n += 1).expect("it is free");
    }
}
