//! The next expiry, for a thread that does not drive. It takes no lock, changes
//! nothing and holds up no driver.
//!
//! The thread reads the buckets as the driver does before a sleep. If no thread has
//! driven meanwhile, the result is right; `driving` tells this, like a sequence
//! lock. Otherwise the answer is the tick that the driver has reached, which is
//! never late.

use crate::core::entry::Entry;
use crate::core::memory::Memory;
use crate::core::node::Hot;
use crate::core::shard::Shard;
use crate::core::state::{StateWord, NEVER};
use crate::core::ticks::END_OF_TIME;
use crate::core::tunables::{PEEK, SETTLE};
use crate::core::wheel::Wheel;
use crate::sync::{fence, Ordering};

/// The maximum number of nodes that are read if the entries do not say enough.
const FEW: usize = 4096;

impl<M: Memory> Wheel<M> {
    /// The first tick at which an entry in a slot wants a visit, or `first` if that is
    /// before. Of a slot with too many entries, the tick at which the hand enters it.
    pub(super) fn first_wanted(
        &self,
        hand: u64,
        mut first: u64,
        budget: &mut usize,
        mut wanted: impl FnMut(Entry) -> u64,
    ) -> u64 {
        self.each_slot(hand, |entered, _, bucket| {
            if entered >= first {
                return false;
            }
            let found = self.look_into(bucket, budget, &mut wanted);
            first = first.min(found.map_or(entered, |tick| tick.max(entered)));
            true
        });
        first
    }

    /// Shows the marked slots of each level, with their first and last ticks, up to the
    /// one of which `see` says that it goes no further.
    #[inline(always)]
    fn each_slot(&self, hand: u64, mut see: impl FnMut(u64, u64, u32) -> bool) {
        for level in 0..self.levels.count {
            let (base, slots) = self.levels.slots(level);
            let next = self.levels.next_digit(hand, level);
            // Slots after the next one.
            let mut at = 0;
            while let Some(distance) =
                self.buckets
                    .next_slot(base, slots, (next + at) & (slots - 1))
            {
                at += distance;
                if at >= slots {
                    break;
                }
                let (entered, _) = self.levels.entered(hand, level, at);
                let (after, _) = self.levels.entered(hand, level, at + 1);
                let bucket = base + ((next + at) & (slots - 1));
                // Past the last tick of 64 bits there is no slot.
                if entered > hand && !see(entered, after.wrapping_sub(1), bucket) {
                    break;
                }
                at += 1;
            }
        }
    }

    /// The first tick that an entry of a bucket wants; `None` if the entries, which stay
    /// there, are more than `budget` allows.
    fn look_into(
        &self,
        bucket: u32,
        budget: &mut usize,
        mut wanted: impl FnMut(Entry) -> u64,
    ) -> Option<u64> {
        let mut first = NEVER;
        let mut shards = self.buckets.look(bucket);
        let is_whole = self.buckets.are_all(&mut shards, |shard| {
            // SAFETY: shards live as long as the wheel.
            let front = unsafe { Shard::front(shard, bucket) };
            front.peek(PEEK.min(*budget), |entry| {
                *budget -= 1;
                first = first.min(wanted(entry));
            })
        });
        is_whole.then_some(first)
    }

    /// When the next timer fires, in nanoseconds; `None` if none is pending.
    /// Perhaps too early, never late. Lock-free.
    pub fn next_expiry(&self) -> Option<u64> {
        let driving = &self.shared.driving;
        // Acquire: pairs with the Release in `Drive::give_back`.
        let before = driving.load(Ordering::Acquire);
        let wanted = (before & 1 == 0).then(|| self.next_wanted());
        // A sequence lock: the reads above come before this load.
        fence(Ordering::Acquire);
        let undisturbed = driving.load(Ordering::Relaxed) == before;
        // Relaxed: an old value is an earlier tick.
        let come_to = || self.shared.hand.load(Ordering::Relaxed);
        let next = wanted.filter(|_| undisturbed).unwrap_or_else(come_to);
        // A tick whose time is out of range is not reached.
        Some(self.ticks.ns(next)).filter(|ns| *ns < END_OF_TIME)
    }

    /// The first tick at which a visit is wanted.
    fn next_wanted(&self) -> u64 {
        let shared = &self.shared;
        // Relaxed, all: read between two loads of `driving`.
        let hand = shared.hand.load(Ordering::Relaxed);
        if shared.stopped.load(Ordering::Relaxed) != 0
            || shared.rescue.load(Ordering::Relaxed) != 0
            || self.may_be_held_up(hand)
        {
            // The nodes are more exact than the entries: in the middle of a tick, and if a
            // timer is due whose entry is far ahead.
            return if self.slab.indices().len() <= FEW {
                self.earliest_of_all(hand)
            } else {
                hand
            };
        }
        let mut budget = SETTLE;
        let due = |entry: Entry| deadline(self.slab.hot(entry.index()), hand);
        let urgent = self.look_into(self.buckets.urgent(), &mut budget, due);
        let first = urgent.map_or(hand, |tick| tick.max(hand));
        let first = self.first_wanted(hand, first, &mut budget, due);
        // Acquire: pairs with arm.wake. No visit is wanted before that tick. An arm
        // that relies on a promise at or after the floor has not lowered it.
        let known = shared.next_visit.load(Ordering::Acquire);
        // The floor is 0 until a driver has slept on this wheel.
        let floor = shared.floor.load(Ordering::Relaxed);
        let bound = if floor == 0 { known } else { known.min(floor) };
        first.max(bound)
    }

    /// Whether a timer that is due may wait for the end of its callback. The driver has
    /// made an entry for it far ahead.
    fn may_be_held_up(&self, hand: u64) -> bool {
        let (first, last) = self.shared.held.ticks();
        let (mut budget, mut found) = (SETTLE, false);
        if last > hand {
            self.each_slot(hand, |entered, end, bucket| {
                if entered > last {
                    return false;
                }
                if end >= first {
                    let due = |entry: Entry| deadline(self.slab.hot(entry.index()), hand);
                    let due = self.look_into(bucket, &mut budget, due);
                    found |= due.unwrap_or(hand) <= hand;
                }
                !found
            });
        }
        found
    }

    fn earliest_of_all(&self, hand: u64) -> u64 {
        let deadline = |(_, hot): (u32, &Hot)| deadline(hot, hand).max(hand);
        self.slab.used().map(deadline).min().unwrap_or(NEVER)
    }
}

/// The deadline of a timer; [`NEVER`] if it is not pending.
fn deadline(hot: &Hot, hand: u64) -> u64 {
    // Acquire: pairs with arm.exchange.
    StateWord(hot.state.load(Ordering::Acquire)).due(hand)
}
