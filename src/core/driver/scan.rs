//! Finding the next slot, and emptying its bucket.

use super::{Sink, Sweep};
use crate::core::buckets::Shards;
use crate::core::entry::Entry;
use crate::core::memory::Memory;
use crate::core::node::Hot;
use crate::core::queue::Front;
use crate::core::shard::Shard;
use crate::core::state::{StateWord, NEVER};
use crate::core::tunables::{ENTRIES, LOOK_AHEAD};
use crate::core::wheel::Wheel;
use crate::sync::{prefetch, Ordering};

/// A tick whose buckets are being emptied, from the top level down. A sweep that
/// stops leaves it as it is.
pub(super) struct Tick {
    /// The slots of the levels below this one are still to be entered.
    levels: u32,
    /// The bucket that is being emptied, and the tick of its visits.
    bucket: Option<(u32, u64)>,
    /// Its shards that are still to be emptied, and the present one.
    shards: Shards,
    shard: *mut Shard,
    /// The bucket all of whose nodes were asked for ahead of its tick.
    ahead: u32,
}

impl Tick {
    pub fn none() -> Self {
        Tick {
            levels: 0,
            bucket: None,
            shards: Shards::default(),
            shard: std::ptr::null_mut(),
            ahead: u32::MAX,
        }
    }

    /// Whether a sweep has stopped in it.
    pub fn is_open(&self) -> bool {
        self.bucket.is_some() || self.levels != 0
    }
}

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
        for level in 0..self.levels.count() {
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
        if !self.stop {
            self.open(self.wheel.buckets.urgent(), self.d.hand);
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
        loop {
            if self.d.tick.shard.is_null() {
                let Some(bit) = self.d.tick.shards.next() else {
                    self.d.tick.bucket = None;
                    return;
                };
                self.d.tick.shard = self.wheel.buckets.first_shard(bit);
            }
            let shard = self.d.tick.shard;
            // SAFETY: shards live as long as the wheel.
            let front = unsafe { Shard::front(shard, bucket) };
            // Most shards that share a bit have nothing.
            if !front.peek(0, |_| ()) {
                self.empty_queue(shard, front, bucket, tick);
                if self.stop {
                    return;
                }
            }
            // SAFETY: shards live as long as the wheel. Relaxed: published with the shard.
            self.d.tick.shard = unsafe { &*shard }.next_of_bit.load(Ordering::Relaxed);
        }
    }

    /// Takes the entries of a bucket out of a shard, chunk by chunk, up to where the
    /// sweep stops.
    fn empty_queue(&mut self, shard: *mut Shard, front: &Front, bucket: u32, tick: u64) {
        // Only on the lowest level are most entries visits.
        let visits = self.wheel.levels.is_lowest(bucket) && bucket != self.d.tick.ahead;
        if visits {
            self.fetch_chunk(front);
        }
        // In a pooled wheel no visit takes the short way.
        let due = match self.wheel.pooled {
            true => StateWord::NONE,
            false => StateWord::plain_due(tick),
        };
        loop {
            prefetch_chunk(front.second_chunk());
            if visits {
                self.fetch(front, tick);
            }
            let before = front.room();
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
            let taken = (before - front.room()) as u64;
            self.wheel.shared.count.taken.bump(taken);
            // Not where nothing was: each call goes on.
            self.stop |= taken != 0 && self.sink.is_enough();
            // SAFETY: as above.
            if self.stop || !unsafe { self.own.go_on(shard, bucket) } {
                return;
            }
        }
    }

    /// Prefetches the nodes of the present chunk.
    pub(super) fn fetch_chunk(&self, front: &Front) {
        front.peek(front.room(), |entry| {
            self.wheel.slab.prefetch_hot(entry.index());
        });
    }

    /// Asks for the nodes of the next chunk, and the callbacks of those in this one
    /// that will fire.
    fn fetch(&self, front: &Front, tick: u64) {
        let slab = &self.wheel.slab;
        let mut here = front.room();
        front.peek(here + ENTRIES, |entry| {
            if here == 0 {
                return slab.prefetch_hot(entry.index());
            }
            here -= 1;
            // Relaxed: a guess.
            let may_fire = |hot: &Hot| StateWord(hot.state.load(Ordering::Relaxed)).may_fire(tick);
            if may_fire(slab.hot(entry.index())) {
                slab.prefetch_fire(entry.index());
            }
        });
    }

    /// Places an entry for tick `k` while the hand is at `hand`, without a read of its
    /// node. False without memory; then the driver goes through all nodes.
    pub(super) fn place(&mut self, entry: Entry, k: u64, hand: u64) -> bool {
        let wheel = self.wheel;
        let bucket = wheel.levels.place(k, hand).bucket;
        if !self.own.push(&wheel.memory, bucket, entry) {
            // Release: as of a request by a thread.
            wheel.shared.rescue.store(1, Ordering::Release);
            return false;
        }
        wheel.shared.count.placed.bump(1);
        wheel.buckets.mark_own(bucket);
        true
    }

    /// Promises a node a visit at a tick that can be promised.
    pub(super) fn promise(&mut self, index: u32, tick: u64, hand: u64) -> bool {
        self.place(Entry::new(index, tick, hand), tick, hand)
    }

    /// Asks for the first nodes of the next tick while there is time.
    pub(super) fn look_ahead(&mut self, next: u64) {
        if next == NEVER {
            return;
        }
        let levels = &self.wheel.levels;
        if levels.level(next, self.d.hand) != 0 {
            return;
        }
        let bucket = levels.place_on(next, 0).bucket;
        let slab = &self.wheel.slab;
        let mut all = true;
        for bit in self.wheel.buckets.look(bucket) {
            let shard = self.wheel.buckets.first_shard(bit);
            // SAFETY: shards live as long as the wheel.
            let front = unsafe { Shard::front(shard, bucket) };
            all &= front.peek(LOOK_AHEAD, |entry| slab.prefetch_node(entry.index()));
        }
        self.d.tick.ahead = if all { bucket } else { u32::MAX };
    }
}

fn prefetch_chunk<T>(chunk: *mut T) {
    if !chunk.is_null() {
        for line in 0..4 {
            prefetch(chunk.cast::<u8>().wrapping_add(64 * line));
        }
    }
}
