//! Whether an advance would find nothing to do.
//!
//! The keeper of a manual clock asks without the lock. At the end of a drive it notes until
//! when nothing is due, and the two words that this depends on. While both are the same, so
//! is the answer: an arm that wants an earlier visit has lowered the next visit, and a driver
//! that has changed the wheel has changed `driving`.

use super::Drive;
use crate::core::memory::Memory;
use crate::core::state::LEAP;
use crate::core::wheel::Wheel;
use crate::sync::Ordering;

impl<M: Memory> Wheel<M> {
    /// Whether an advance to `now_ns` would find nothing to do, by what was noted; false
    /// beside a driver. Keeper only.
    #[inline(always)]
    pub fn is_quiet(&self, now_ns: u64) -> bool {
        let (noted, shared) = (&self.quiet, &self.shared);
        now_ns < noted.until.load(Ordering::Relaxed)
            // What happened before this call has lowered it. Acquire: if a later drive has
            // written it, `driving` has another value below.
            && noted.next_visit.load(Ordering::Relaxed) == shared.next_visit.load(Ordering::Acquire)
            // Relaxed: see above.
            && noted.driving.load(Ordering::Relaxed) == shared.driving.load(Ordering::Relaxed)
    }
}

impl<M: Memory> Drive<'_, M> {
    /// Whether an advance to `now_ns` would find nothing to do.
    pub fn nothing_due(&self, now_ns: u64) -> bool {
        now_ns < self.quiet().0
    }

    /// Whether an arm or a driver has changed what was noted. Keeper only.
    #[inline(always)]
    pub fn was_changed(&self) -> bool {
        let (noted, shared) = (&self.wheel.quiet, &self.wheel.shared);
        noted.next_visit.load(Ordering::Relaxed) != shared.next_visit.load(Ordering::Relaxed)
            || noted.driving.load(Ordering::Relaxed) != self.after(false)
    }

    /// For `is_quiet`, before the lock is given back: after a sweep that has not stopped, or
    /// after nothing has changed. Keeper only, and not in a forked child.
    #[inline(always)]
    pub fn note_quiet(&self, has_swept: bool) {
        let noted = &self.wheel.quiet;
        let (until, next_visit) = self.quiet();
        noted.until.store(until, Ordering::Relaxed);
        noted.next_visit.store(next_visit, Ordering::Relaxed);
        noted
            .driving
            .store(self.after(has_swept), Ordering::Relaxed);
    }

    /// The time before which an advance finds nothing to do, and the next visit, which has
    /// told it.
    #[inline(always)]
    fn quiet(&self) -> (u64, u64) {
        let Wheel { shared, ticks, .. } = self.wheel;
        // Relaxed, both: what happened before this call has lowered it, and the hand moves
        // under the lock.
        let next_visit = shared.next_visit.load(Ordering::Relaxed);
        let hand = shared.hand.load(Ordering::Relaxed);
        (ticks.ns_or_end(next_visit.min(hand + LEAP)), next_visit)
    }
}
