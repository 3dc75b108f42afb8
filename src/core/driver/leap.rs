//! Long ways over nothing.
//!
//! State words and entries keep only some bits of their ticks, so the hand goes
//! at most [`LEAP`] at once while anything may be armed relative to where it
//! was. A wheel that was idle for long, or whose clock counts nanoseconds, would
//! take many such steps over nothing. Instead it leaps:
//!
//! ```text
//!   arming thread                       driver
//!   arm.push, arm.exchange              leap.suspend  gate := LEAPING (RMW)
//!   --- fence ---                       --- fence ---
//!   arm.mark                            leap.scan     read all bits
//!   arm.check  gate is not a hand       leap.land     gate: LEAPING -> goal
//! ```
//! No arm that was made relative to the old hand passes its check after
//! leap.suspend. One that has passed before has set its marks, and leap.scan
//! sees them; so the hand lands before the first of them. An arm that fails its
//! check finds how far the hand has gone and repairs its own word (`arm.rs`).
//!
//! A driver that is stopped in the middle holds up nobody: a thread that must
//! arm calls the leap off, by putting the old hand back. Then leap.land fails,
//! and the driver goes on step by step.

use super::{Sink, Sweep};
use crate::core::memory::Memory;
use crate::core::state::{LEAP, NEVER};

impl<M: Memory, S: Sink> Sweep<'_, M, S> {
    /// Moves the hand over nothing, if there is nothing for more than a step;
    /// true if it has moved.
    pub(super) fn leap(&mut self, target: u64) -> bool {
        if self.d.tick.is_open() || self.is_rescuing() || self.landing(target) - self.d.hand <= LEAP
        {
            return false;
        }
        let gate = &self.wheel.gate;
        gate.begin_leap();
        // leap.scan
        let goal = if self.wheel.buckets.is_empty(self.wheel.buckets.urgent()) {
            self.landing(target)
        } else {
            self.d.hand
        };
        // leap.land, perhaps where it began.
        let landed = gate.finish_leap(goal.max(self.d.goal), &self.wheel.ticks);
        if !landed || goal <= self.d.goal {
            return false;
        }
        self.move_to(goal);
        self.d.goal = goal;
        self.d.suspended = false;
        true
    }

    /// How far the hand can go without entering a slot.
    fn landing(&self, target: u64) -> u64 {
        match self.scan(self.d.hand) {
            NEVER => target,
            next => target.min(next - 1),
        }
    }
}
