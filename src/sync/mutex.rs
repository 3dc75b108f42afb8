//! A lock: that of the C library.
//!
//! - It stays where it was first locked, as POSIX demands. All locks do: they lie in a
//!   wheel, in the parts of a table of keys, in a page, or in a box.
//! - A forked child finds it as it was at the fork. If another thread held it, nobody
//!   unlocks it there: [`try_lock`] tells.
//! - It knows no poison. No panic leaves half done what a lock guards.

use core::cell::UnsafeCell;
use core::marker::PhantomData;
use core::ops::{Deref, DerefMut};

pub(crate) struct Mutex<T> {
    lock: UnsafeCell<libc::pthread_mutex_t>,
    value: UnsafeCell<T>,
}

// SAFETY: one thread at a time has the value.
unsafe impl<T: Send> Sync for Mutex<T> {}
// SAFETY: as the value. A lock that nobody holds belongs to no thread.
unsafe impl<T: Send> Send for Mutex<T> {}

impl<T> Mutex<T> {
    /// The C library needs no call to make such a lock, and none to end it.
    pub const fn new(value: T) -> Self {
        Mutex {
            lock: UnsafeCell::new(libc::PTHREAD_MUTEX_INITIALIZER),
            value: UnsafeCell::new(value),
        }
    }
}

impl<T: Default> Default for Mutex<T> {
    fn default() -> Self {
        Mutex::new(T::default())
    }
}

/// Waits for a lock.
#[inline]
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // SAFETY: initialized, and not held by this thread: no function of the library takes a
    // second lock of its kind.
    let error = unsafe { libc::pthread_mutex_lock(mutex.lock.get()) };
    debug_assert_eq!(error, 0);
    MutexGuard(mutex, PhantomData)
}

/// Takes a lock if nobody holds it.
pub(crate) fn try_lock<T>(mutex: &Mutex<T>) -> Option<MutexGuard<'_, T>> {
    // SAFETY: initialized.
    let error = unsafe { libc::pthread_mutex_trylock(mutex.lock.get()) };
    (error == 0).then(|| MutexGuard(mutex, PhantomData))
}

/// The value of a lock that no other thread uses any more.
pub(crate) fn inner<T>(mutex: &mut Mutex<T>) -> &mut T {
    mutex.value.get_mut()
}

/// Unlocks when it is dropped, on the thread that has locked.
pub(crate) struct MutexGuard<'a, T>(&'a Mutex<T>, PhantomData<*const ()>);

impl<T> Deref for MutexGuard<'_, T> {
    type Target = T;
    fn deref(&self) -> &T {
        // SAFETY: this thread has the lock.
        unsafe { &*self.0.value.get() }
    }
}

impl<T> DerefMut for MutexGuard<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: as above.
        unsafe { &mut *self.0.value.get() }
    }
}

impl<T> Drop for MutexGuard<'_, T> {
    #[inline]
    fn drop(&mut self) {
        // SAFETY: this thread has the lock.
        let error = unsafe { libc::pthread_mutex_unlock(self.0.lock.get()) };
        debug_assert_eq!(error, 0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threads_take_turns() {
        let (mutex, threads, times) = (Mutex::new(0), 4, if cfg!(miri) { 20 } else { 100_000 });
        std::thread::scope(|s| {
            for _ in 0..threads {
                s.spawn(|| (0..times).for_each(|_| *lock(&mutex) += 1));
            }
        });
        assert_eq!(*lock(&mutex), threads * times);
    }

    #[test]
    fn a_held_lock_is_refused_and_stays_held() {
        let mut mutex = Mutex::new(1);
        let mut held = lock(&mutex);
        *held = 2;
        for _ in 0..2 {
            let refused = || try_lock(&mutex).is_none();
            assert!(std::thread::scope(|s| s.spawn(refused).join().unwrap()));
        }
        drop(held);
        assert_eq!(try_lock(&mutex).as_deref(), Some(&2));
        assert_eq!(*inner(&mut mutex), 2);
    }
}
