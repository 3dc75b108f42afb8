//! Times, for C and for Rust: which numbers of nanoseconds are times, and the manual clock.
//!
//! A time is below 2^63, or it is [`NEVER`]. Any other value is a negative number
//! that was cast, and an error.

pub(crate) use crate::core::state::NEVER;
use crate::runtime::Errno;
use crate::sync::{AtomicU64, Ordering};

/// The longest time that is not never: 292 years.
pub(crate) const LONGEST: u64 = i64::MAX as u64;

/// A delay, a deadline, a period or a slack.
#[inline]
pub(crate) fn time(ns: u64) -> Result<u64, Errno> {
    match ns {
        NEVER => Ok(NEVER),
        _ => clock(ns),
    }
}

/// A time that a clock can show: not never.
#[inline]
pub(crate) fn clock(ns: u64) -> Result<u64, Errno> {
    (ns <= LONGEST).then_some(ns).ok_or(-libc::EINVAL)
}

/// The manual clock. It shows the latest time that an advance has set.
pub(crate) struct Manual(AtomicU64);

impl Manual {
    /// Shows `start`. On a system's clock `start` stays, and is the first time of that clock.
    pub fn new(start: u64) -> Self {
        Manual(AtomicU64::new(start))
    }

    #[inline(always)]
    pub fn shows(&self) -> u64 {
        // Acquire: pairs with `raise`.
        self.0.load(Ordering::Acquire)
    }

    /// Sets the clock, unless it shows a later time, and returns what it shows. Under the
    /// driver's lock.
    pub fn raise(&self, now: u64) -> u64 {
        // Relaxed: written under the lock.
        let now = now.max(self.0.load(Ordering::Relaxed));
        // Release: pairs with `shows`.
        self.0.store(now, Ordering::Release);
        now
    }
}
