//! The driver's own words: what a sweep leaves to the next one.

use crate::core::buckets::Shards;
use crate::core::shard::Shard;
use crate::sync::{AtomicU32, AtomicU64, Ordering};
use std::ptr::null_mut;

/// The driver's own state, under its lock.
pub(crate) struct Driver {
    /// The last tick that was swept, or the tick of the sweep.
    pub hand: u64,
    /// The goal of the present sweep, as it was announced.
    pub goal: u64,
    /// A tick in which a sweep has stopped.
    pub tick: Tick,
    /// No thread may rely on a promise until another goal is announced.
    pub suspended: bool,
    /// The index at which a drain continues.
    pub drained: u32,
    pub cleaning: Cleaning,
}

// SAFETY: the pointers are to shards of the wheel, which every thread may use.
unsafe impl Send for Driver {}

impl Driver {
    pub fn new(hand: u64) -> Self {
        Driver {
            hand,
            goal: hand,
            tick: Tick {
                levels: 0,
                bucket: None,
                shards: Shards::of(0),
            },
            suspended: false,
            drained: 0,
            cleaning: Cleaning {
                shard: null_mut(),
                bucket: 0,
                rest: 0,
                asked: 0,
                thorough: false,
            },
        }
    }
}

/// A tick whose buckets are being emptied, from the top level down. A sweep that
/// stops leaves it as it is.
pub(crate) struct Tick {
    /// The slots of the levels below this one are still to be entered.
    pub levels: u32,
    /// The bucket that is being emptied, and the tick of its visits.
    pub bucket: Option<(u32, u64)>,
    /// Its shards that are still to be emptied.
    pub shards: Shards,
}

impl Tick {
    /// Whether a sweep has stopped in it.
    pub fn is_open(&self) -> bool {
        self.bucket.is_some() || self.levels != 0
    }
}

/// The position of a clean-up.
pub(crate) struct Cleaning {
    /// Null at the end. The shards before it are done.
    pub shard: *mut Shard,
    pub bucket: u32,
    /// The number of entries of that bucket that are left; 0 before its first piece. Only the
    /// driver's own shard has a number: another's is emptied, which is `usize::MAX`.
    pub rest: usize,
    /// The number of requests when the clean-up began; 0 if none is under way.
    pub asked: u32,
    /// The previous clean-up has left too many entries.
    pub thorough: bool,
}

/// The first and the last tick of the entries that the driver makes for timers that come
/// due while their callbacks run.
#[derive(Default)]
pub(crate) struct Held {
    first: AtomicU64,
    last: AtomicU64,
}

impl Held {
    /// Adds an entry at `tick`, which is behind all others, while the hand is at `hand`.
    /// Driver only.
    pub(super) fn add(&self, tick: u64, hand: u64) {
        // Relaxed, all: read between two loads of `driving`.
        if self.last.load(Ordering::Relaxed) <= hand {
            self.first.store(tick, Ordering::Relaxed);
        }
        self.last.store(tick, Ordering::Relaxed);
    }

    /// The first and the last of them. Relaxed, both: as in `add`.
    pub(super) fn ticks(&self) -> (u64, u64) {
        let [first, last] = [&self.first, &self.last].map(|word| word.load(Ordering::Relaxed));
        (first, last)
    }
}

/// What the keeper of a manual clock has noted, see `quiet.rs`. Zeros, as in a forked child,
/// are no answer. Relaxed, all: its own words.
#[derive(Default)]
#[repr(C, align(128))]
pub(crate) struct Quiet {
    /// The time before which nothing is due.
    pub(super) until: AtomicU64,
    pub(super) next_visit: AtomicU64,
    pub(super) driving: AtomicU32,
}
