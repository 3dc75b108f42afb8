//! A lock that belongs to a process: a child that was forked while a thread of its
//! parent held it finds it free, and what it guards fresh.
//!
//! A thread that waits for it sleeps (Drepper, *Futexes Are Tricky*, the second
//! mutex), so that one of higher priority does not keep the holder from its processor.

use super::futex::{wait, wake};
use crate::sync::{AtomicU32, Ordering};
use std::cell::UnsafeCell;
use std::mem::MaybeUninit;
use std::ops::{Deref, DerefMut};

/// Some thread waits, or may.
const CONTENDED: u32 = 1;

/// A value of each process. What a parent left is forgotten.
pub(crate) struct PerProcess<T> {
    /// 0, or the process whose thread holds it, and CONTENDED.
    word: AtomicU32,
    fresh: fn() -> T,
    /// The process that the value belongs to; 0 before there is one.
    value: UnsafeCell<(u64, MaybeUninit<T>)>,
}

// SAFETY: the value is used by the holder of the lock alone.
unsafe impl<T: Send> Sync for PerProcess<T> {}

/// The value while it is locked.
pub(crate) struct Locked<'a, T>(&'a PerProcess<T>);

/// What stands for a process in the word: odd and even differ by CONTENDED. A lock
/// that is held across a fork is told apart unless 2^31 processes lie between.
fn holder(mark: u64) -> u32 {
    (mark as u32) << 1
}

impl<T> PerProcess<T> {
    /// `fresh` makes the value of a process.
    pub const fn new(fresh: fn() -> T) -> Self {
        PerProcess {
            word: AtomicU32::new(0),
            fresh,
            value: UnsafeCell::new((0, MaybeUninit::uninit())),
        }
    }

    /// One try for a thread of the process with that mark. The error is the word, which
    /// another thread of it holds.
    fn take(&self, mark: u64, as_word: u32) -> Result<Locked<'_, T>, u32> {
        let mut seen = 0;
        // Acquire: pairs with the Release of `drop`.
        while let Err(word) =
            self.word
                .compare_exchange(seen, as_word, Ordering::Acquire, Ordering::Relaxed)
        {
            if word & !CONTENDED == holder(mark) {
                return Err(word);
            }
            // Free by now, or a copy of another process's lock: take it.
            seen = word;
        }
        // SAFETY: this thread holds the lock.
        let (of, value) = unsafe { &mut *self.value.get() };
        if *of != mark {
            // None yet, or a copy of the parent's, perhaps in the middle of a change.
            value.write((self.fresh)());
            *of = mark;
        }
        Ok(Locked(self))
    }

    /// Locks it unless another thread does.
    pub fn try_lock(&self, mark: u64) -> Option<Locked<'_, T>> {
        self.take(mark, holder(mark)).ok()
    }

    /// Locks it, and waits for that.
    pub fn lock(&self, mark: u64) -> Locked<'_, T> {
        let mut mine = holder(mark);
        loop {
            let seen = match self.take(mark, mine) {
                Ok(locked) => return locked,
                Err(word) => word,
            };
            // Relaxed: a request; the kernel compares again.
            let contended = seen & CONTENDED != 0
                || self
                    .word
                    .compare_exchange(seen, seen | CONTENDED, Ordering::Relaxed, Ordering::Relaxed)
                    .is_ok();
            if contended {
                // Others may wait as well: who has waited says so.
                mine = holder(mark) | CONTENDED;
                // SAFETY: a static, or borrowed.
                unsafe { wait(std::ptr::from_ref(&self.word).cast(), seen | CONTENDED) };
            }
        }
    }
}

impl<T> Deref for Locked<'_, T> {
    type Target = T;
    fn deref(&self) -> &T {
        // SAFETY: this thread holds the lock, and `take` has made a value.
        unsafe { (*self.0.value.get()).1.assume_init_ref() }
    }
}

impl<T> DerefMut for Locked<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: as above.
        unsafe { (*self.0.value.get()).1.assume_init_mut() }
    }
}

impl<T> Drop for Locked<'_, T> {
    fn drop(&mut self) {
        // Release: the value; pairs with the Acquire in `take`.
        if self.0.word.swap(0, Ordering::Release) & CONTENDED != 0 {
            wake(std::ptr::from_ref(&self.0.word).cast(), 1);
        }
    }
}

#[cfg(all(test, not(checked)))]
mod tests {
    use super::*;

    /// As in a child that was forked while a thread of its parent held it.
    #[test]
    fn a_lock_that_another_process_holds_is_taken_and_its_value_forgotten() {
        let lock = PerProcess::new(|| 3);
        *lock.lock(7) += 1;
        std::mem::forget(lock.lock(7));
        assert!(lock.try_lock(7).is_none());
        let mut locked = lock
            .try_lock(8)
            .expect("no thread of this process holds it");
        assert_eq!(*locked, 3);
        *locked += 2;
        drop(locked);
        assert_eq!(*lock.lock(8), 5);
    }

    #[test]
    fn one_at_a_time_and_all_in_turn() {
        let lock = PerProcess::new(|| 0u64);
        std::thread::scope(|s| {
            for _ in 0..4 {
                s.spawn(|| (0..10_000).for_each(|_| *lock.lock(1) += 1));
            }
        });
        assert_eq!(*lock.lock(1), 40_000);
    }
}
