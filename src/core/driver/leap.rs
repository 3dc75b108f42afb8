//! Leaps: long steps of the hand over an empty wheel.
//!
//! State words and entries keep only some bits of their ticks. So the hand moves at
//! most [`LEAP`] ticks at once while an arm relative to its old position may be
//! under way. A wheel that was idle for long, or whose tick is a nanosecond, would
//! take many such steps over nothing. Instead it leaps:
//!
//! ```text
//!   arming thread                       driver
//!   arm.push, arm.exchange              leap.suspend  gate := LEAPING (RMW)
//!   --- fence ---                       --- fence ---
//!   arm.mark                            leap.scan     read all bits
//!   arm.check  gate is not a hand       leap.land     gate: LEAPING -> goal
//! ```
//! After leap.suspend, no arm relative to the old hand passes its check. An arm
//! that passed before has set its marks, and leap.scan sees them. So the hand lands
//! before the first mark. An arm without memory has requested a rescue instead, and then
//! the hand does not leap. An arm that fails its check sees how far the hand has moved,
//! and repairs its own word (`arm.rs`).
//!
//! A driver that is stopped during a leap holds up no thread: a thread that must
//! arm calls the leap off and restores the old hand. Then leap.land fails, and the
//! driver continues step by step.

use super::{Sink, Sweep};
use crate::core::memory::Memory;
use crate::core::state::{LEAP, NEVER};

impl<M: Memory, S: Sink> Sweep<'_, M, S> {
    /// Leaps if no slot is marked for more than a step; true if the hand has moved.
    /// Not inlined, so that a sweep that does not leap does not pay for it.
    #[inline(never)]
    pub(super) fn leap(&mut self, target: u64) -> bool {
        if self.d.tick.is_open() || self.landing(target) - self.d.hand <= LEAP {
            return false;
        }
        let gate = &self.wheel.gate;
        gate.begin_leap();
        // leap.scan
        let is_urgent = !self.wheel.buckets.is_empty(self.wheel.buckets.urgent());
        let goal = if is_urgent || self.is_rescuing() {
            self.d.hand
        } else {
            self.landing(target)
        };
        // leap.land, perhaps at the old hand.
        let landed = gate.finish_leap(goal.max(self.d.goal), &self.wheel.ticks);
        if !landed || goal <= self.d.goal {
            return false;
        }
        self.move_to(goal);
        self.d.goal = goal;
        self.d.suspended = false;
        true
    }

    /// The last tick that the hand can move to without entering a slot.
    fn landing(&self, target: u64) -> u64 {
        match self.wheel.scan(self.d.hand) {
            NEVER => target,
            next => target.min(next - 1),
        }
    }
}
