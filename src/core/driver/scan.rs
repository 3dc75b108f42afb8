//! Finding the next slot, and emptying its bucket.

use super::{Sink, Sweep};
use crate::core::entry::Entry;
use crate::core::memory::Memory;
use crate::core::queue::Front;
use crate::core::shard::Shard;
use crate::core::state::{StateWord, NEVER};
use crate::core::wheel::{Wheel, DROPPED, WANTED};
use crate::sync::Ordering;

impl<M: Memory> Wheel<M> {
    /// Step sweep.scan: the first tick after `hand` at which a marked slot is
    /// entered. A slot found within the present turn of its level comes before
    /// all slots above.
    #[inline(always)]
    pub(super) fn scan(&self, hand: u64) -> u64 {
        let mut first = NEVER;
        // Mostly the lowest level has one, in the word and the turn of the hand.
        if let Some(entered) = self.levels.next_lowest(hand, |b| self.buckets.word(b)) {
            return entered;
        }
        for level in 0..self.levels.count {
            let (base, slots) = self.levels.slots(level);
            let from = self.levels.next_digit(hand, level);
            let Some(distance) = self.buckets.next_slot(base, slots, from) else {
                continue;
            };
            let (entered, same_turn) = self.levels.entered(hand, level, distance);
            if entered > hand {
                first = first.min(entered);
            }
            if same_turn {
                break;
            }
        }
        first
    }
}

impl<M: Memory, S: Sink> Sweep<'_, M, S> {
    /// Enters the slots of tick `to`, coming from `from`.
    pub(super) fn enter(&mut self, from: u64, to: u64) {
        self.d.tick.levels = self.wheel.levels.level(to, from) + 1;
        self.empty_levels(to);
    }

    fn empty_levels(&mut self, tick: u64) {
        while !self.stop && self.d.tick.levels != 0 {
            self.d.tick.levels -= 1;
            let place = self.wheel.levels.place_on(tick, self.d.tick.levels);
            self.open(place.bucket, tick);
        }
    }

    /// Empties the urgent bucket, once, after a tick in which the last sweep has
    /// stopped. Entries that come meanwhile lower `next_visit` for good. Those that came
    /// before sweep.begin do not: so the bucket is not passed over, unless this sweep
    /// stops and leaves `next_visit` low itself.
    pub(super) fn empty_urgent(&mut self) {
        if self.d.tick.is_open() {
            self.empty_bucket();
            self.empty_levels(self.d.hand);
        }
        let urgent = self.wheel.buckets.urgent();
        if !self.stop && !self.wheel.buckets.is_empty(urgent) {
            self.open(urgent, self.d.hand);
        }
    }

    fn open(&mut self, bucket: u32, tick: u64) {
        if let Some(shards) = self.wheel.buckets.take(bucket) {
            self.d.tick.bucket = Some((bucket, tick));
            self.d.tick.shards = shards;
            self.empty_bucket();
        }
    }

    /// Takes every entry out of the open bucket.
    fn empty_bucket(&mut self) {
        let Some((bucket, tick)) = self.d.tick.bucket else {
            return;
        };
        self.now_ns = self.wheel.ticks.ns_of_reached(tick);
        let mut shards = self.d.tick.shards;
        let is_done = self.wheel.buckets.are_all(&mut shards, |shard| {
            // SAFETY: shards live as long as the wheel.
            let front = unsafe { Shard::front(shard, bucket) };
            // Most shards that share a bit have nothing.
            front.is_empty() || {
                self.empty_queue(shard, front, bucket, tick);
                !self.stop
            }
        });
        self.d.tick.shards = shards;
        if is_done {
            self.d.tick.bucket = None;
        }
    }

    /// Takes the entries of a bucket out of a shard, chunk by chunk, up to where the
    /// sweep stops.
    fn empty_queue(&mut self, shard: *mut Shard, front: &Front, bucket: u32, tick: u64) {
        let slab = &self.wheel.slab;
        let fetch = |entry: Entry| slab.prefetch_node(entry.index());
        // Only on the lowest level are most entries visits.
        let visits = self.wheel.levels.is_lowest(bucket);
        if visits {
            front.first().ahead(fetch);
        }
        // In a pooled wheel no visit takes the short way.
        let due = match self.wheel.pooled {
            true => StateWord::NONE,
            false => StateWord::plain_due(tick),
        };
        loop {
            // SAFETY: only a queue that is not empty comes here.
            if let Some(second) = unsafe { front.second() } {
                second.prefetch();
                if visits {
                    second.ahead(fetch);
                }
            }
            let first = front.first();
            // SAFETY: this thread drives.
            while let Some(entry) = unsafe { front.take() } {
                let k = match entry.is_for(tick) {
                    true => tick,
                    false => entry.tick(tick),
                };
                if k > tick {
                    probe!(cascade, self.wheel, k);
                    self.place(entry, k, tick);
                } else if !self.visit(entry.index(), tick, due) {
                    self.stop = true;
                    break;
                }
            }
            let taken = first.distance(front.first()) as u64;
            self.wheel.shared.count.taken.bump(taken);
            // Not where nothing was: each call goes on.
            self.stop |= taken != 0 && self.sink.is_enough();
            // SAFETY: as above.
            if self.stop || !unsafe { self.own.go_on(shard, bucket) } {
                return;
            }
        }
    }

    /// Places an entry for tick `k` while the hand is at `hand`, without a read of its
    /// node. Without memory the entry is dropped; then the driver goes through all nodes.
    pub(super) fn place(&mut self, entry: Entry, k: u64, hand: u64) {
        let wheel = self.wheel;
        if !self.place_in(wheel.levels.place(k, hand).bucket, entry) {
            // Relaxed: the driver's own request.
            wheel.shared.rescue.store(DROPPED, Ordering::Relaxed);
        }
    }

    /// Places an entry in a bucket; false without memory.
    fn place_in(&mut self, bucket: u32, entry: Entry) -> bool {
        let wheel = self.wheel;
        if !self.own.push(&wheel.memory, bucket, entry) {
            return false;
        }
        if wheel.levels.is_lowest(bucket) {
            // It is visited within a turn of that level.
            wheel.slab.prefetch_node(entry.index());
        }
        wheel.shared.count.placed.bump(1);
        wheel.buckets.mark_own(bucket);
        true
    }

    /// Promises a node a visit at a tick that can be promised. False without memory; then
    /// the driver goes through all nodes.
    pub(super) fn promise(&mut self, index: u32, tick: u64, hand: u64) -> bool {
        let bucket = self.wheel.levels.place(tick, hand).bucket;
        self.promise_in(bucket, Entry::new(index, tick, hand))
    }

    /// The same in a bucket.
    pub(super) fn promise_in(&mut self, bucket: u32, entry: Entry) -> bool {
        let is_placed = self.place_in(bucket, entry);
        if !is_placed {
            let rescue = &self.wheel.shared.rescue;
            // Relaxed, both: as above.
            _ = rescue.compare_exchange(0, WANTED, Ordering::Relaxed, Ordering::Relaxed);
        }
        is_placed
    }
}
