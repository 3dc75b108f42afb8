//! The driver's own words, which the right to drive opens: what one call leaves to the next.

use crate::core::buckets::Buckets;
use crate::core::inbox::Pass;

pub(crate) struct Driver {
    /// The last tick that was swept, or the tick of the sweep.
    pub hand: u64,
    /// The goal of the present sweep, as it was announced.
    pub goal: u64,
    /// The levels below this one still have a slot to empty, at the tick of the hand. 0 unless
    /// a sweep has stopped there.
    pub levels_left: u32,
    /// A collection has begun, and not ended; with a look at every timer.
    pub collects: bool,
    pub looks_at_all: bool,
    /// The inbox at which it goes on, and the index at which that look goes on.
    pub pass: Pass,
    pub looked_at: u32,
    /// The index at which a drain goes on, or 0.
    pub drained: u32,
    /// What the last settling has found.
    pub settled: Settled,
    pub buckets: Buckets,
}

/// What the driver knows of the entry that determines the next visit.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Settled {
    /// Nothing. Another settling may find a later visit.
    Unknown,
    /// Nothing that another settling could find.
    Enough,
    /// The timer of the entry at this tick: it was pending, and due by then.
    Timer(u32, u64),
}

impl Driver {
    pub fn new(hand: u64, buckets: Buckets) -> Self {
        Driver {
            hand,
            goal: hand,
            levels_left: 0,
            collects: false,
            looks_at_all: false,
            pass: Pass::default(),
            looked_at: 0,
            drained: 0,
            settled: Settled::Enough,
            buckets,
        }
    }

    /// Whether a call has stopped before its goal, or a timer is due.
    pub fn is_interrupted(&mut self) -> bool {
        self.collects
            || self.hand != self.goal
            || self.levels_left != 0
            || self.buckets.has_overdue()
    }
}
