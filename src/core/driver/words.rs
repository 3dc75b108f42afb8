//! The driver's own words, which the right to drive opens: what one call leaves to the next.
//!
//! All of them are cells: while the driver runs a callback, it has no exclusive reference to
//! any of them.

use crate::core::buckets::Buckets;
use crate::core::inbox::Pass;
use core::cell::Cell;

pub(crate) struct Driver {
    /// The last tick that was swept, or the tick of the sweep.
    pub hand: Cell<u64>,
    /// The goal of the present sweep, as it was announced.
    pub goal: Cell<u64>,
    /// The time of the last call.
    pub asked_ns: Cell<u64>,
    /// The last call came at the time that the call before had announced, or at the same tick.
    pub is_awaited: Cell<bool>,
    /// The levels below this one still have a slot to empty, at the tick of the hand. 0 unless
    /// a sweep has stopped there.
    pub levels_left: Cell<u32>,
    /// A collection has begun, and not ended; with a look at every timer.
    pub collects: Cell<bool>,
    pub looks_at_all: Cell<bool>,
    /// The inbox at which it goes on, and the index at which that look goes on.
    pub pass: Cell<Pass>,
    pub looked_at: Cell<u32>,
    /// The index at which a drain goes on, or 0.
    pub drained: Cell<u32>,
    /// What the last settling has found.
    pub settled: Cell<Settled>,
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
            hand: Cell::new(hand),
            goal: Cell::new(hand),
            asked_ns: Cell::new(0),
            is_awaited: Cell::new(false),
            levels_left: Cell::new(0),
            collects: Cell::new(false),
            looks_at_all: Cell::new(false),
            pass: Cell::default(),
            looked_at: Cell::new(0),
            drained: Cell::new(0),
            settled: Cell::new(Settled::Enough),
            buckets,
        }
    }

    /// Whether a call has stopped before its goal, or a timer is due.
    pub fn is_interrupted(&self) -> bool {
        self.collects.get()
            || self.hand.get() != self.goal.get()
            || self.levels_left.get() != 0
            || self.buckets.has_overdue()
    }
}
