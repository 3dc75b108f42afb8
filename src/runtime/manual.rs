//! The manual clock. It shows the latest time that an advance has set.

use crate::sync::{AtomicU64, Ordering};

pub(crate) struct Manual(AtomicU64);

impl Manual {
    /// Shows `start`. On a system's clock `start` stays, and is the first time of that clock.
    pub fn new(start: u64) -> Self {
        Manual(AtomicU64::new(start))
    }

    #[inline(always)]
    pub fn now(&self) -> u64 {
        // Acquire: pairs with `raise`.
        self.0.load(Ordering::Acquire)
    }

    /// Sets the clock, unless it shows a later time, and returns what it shows. Under the
    /// driver's lock.
    pub fn raise(&self, now: u64) -> u64 {
        // Relaxed: written under the lock.
        let now = now.max(self.0.load(Ordering::Relaxed));
        // Release: pairs with `now`.
        self.0.store(now, Ordering::Release);
        now
    }
}
