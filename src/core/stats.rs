//! Statistics: each thread counts in its inbox, the driver in its own words, so no
//! counter is a contended line. A reader adds them up.

use core::sync::atomic::{AtomicU64, Ordering};

/// A count. Not from [`crate::sync`]: it publishes nothing, so the model checkers
/// need not know it. Relaxed, where one count is read or written.
#[derive(Default)]
pub(crate) struct Tally(AtomicU64);

impl Tally {
    /// Counts, where one thread writes and others read.
    #[inline(always)]
    pub fn bump(&self, by: u64) {
        let n = self.0.load(Ordering::Relaxed);
        self.0.store(n.wrapping_add(by), Ordering::Relaxed);
    }

    /// Counts, where several threads write.
    pub fn add(&self, by: u64) {
        self.0.fetch_add(by, Ordering::Relaxed);
    }

    /// Replaces the count.
    pub fn set(&self, count: u64) {
        self.0.store(count, Ordering::Relaxed);
    }

    pub fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }

    /// The count, before those that are read next.
    pub fn seen(&self) -> u64 {
        self.0.load(Ordering::Acquire)
    }
}

/// The counts of a thread.
#[derive(Default)]
#[repr(C)]
pub(crate) struct Count {
    /// Arms.
    pub arms: Tally,
    /// Of these, those of timers that were pending. There is no count for each kind: the
    /// place of its store would depend on the timer, which is often not in the cache, and
    /// the loads of later calls would wait until the processor knows that place.
    pub moves: Tally,
    /// Pending timers that a call has ended: deleted, shut down or freed.
    pub cancels: Tally,
    /// Notes written into inboxes.
    pub notes: Tally,
    pub setups: Tally,
    pub frees: Tally,
    pub kicks: Tally,
}

impl Count {
    /// Counts an arm of a timer that was pending or not, by the thread itself.
    #[inline(always)]
    pub fn arm(&self, was: bool) {
        self.arms.bump(1);
        self.moves.bump(was.into());
    }
}

/// The counts of the driver, in addition to those of its thread.
#[derive(Default)]
pub(crate) struct Driven {
    pub sweeps: Tally,
    pub fired: Tally,
    /// Of these, those that were armed again for their next period.
    pub periods: Tally,
    pub missed: Tally,
    pub drained: Tally,
    /// Entries in buckets. Not a sum: the last value.
    pub entries: Tally,
}
