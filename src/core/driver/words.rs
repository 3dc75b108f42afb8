//! The driver's own words, which the right to drive opens: what one call leaves to the next.

use crate::core::buckets::Buckets;

pub(crate) struct Driver {
    /// The last tick that was swept, or the tick of the sweep.
    pub hand: u64,
    /// The goal of the present sweep, as it was announced.
    pub goal: u64,
    /// The levels below this one still have a slot to empty, at the tick of the hand. 0 unless
    /// a sweep has stopped there.
    pub levels_left: u32,
    /// The index at which the driver goes on to look at every timer, or 0.
    pub looked_at: u32,
    /// The index at which a drain goes on, or 0.
    pub drained: u32,
    pub buckets: Buckets,
}

impl Driver {
    pub fn new(hand: u64, buckets: Buckets) -> Self {
        Driver {
            hand,
            goal: hand,
            levels_left: 0,
            looked_at: 0,
            drained: 0,
            buckets,
        }
    }
}
