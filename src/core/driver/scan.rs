//! Finding the next slot, and emptying its bucket.

use super::{Sink, Sweep};
use crate::core::buckets::Shards;
use crate::core::entry::Entry;
use crate::core::memory::Memory;
use crate::core::queue::Batch;
use crate::core::shard::Shard;
use crate::core::state::{StateWord, NEVER};
use crate::core::tunables::{ENTRIES, LOOK_AHEAD};
use crate::core::wheel::Wheel;
use crate::sync::{prefetch, Ordering};

/// Entries that were taken out of a queue, and the next one to handle.
struct Taken {
    batch: Batch,
    at: usize,
    len: usize,
}

impl Taken {
    const NONE: Taken = Taken {
        batch: [Entry(0); ENTRIES],
        at: 0,
        len: 0,
    };

    fn entries(&self) -> &[Entry] {
        &self.batch[..self.len.min(ENTRIES)]
    }
}

/// A tick whose buckets are being emptied, from the top level down. A sweep that
/// stops leaves it as it is, with the entries that were taken out.
pub(super) struct Tick {
    /// The slots of the levels below this one are still to be entered.
    levels: u32,
    /// The bucket that is being emptied, and the tick of its visits.
    bucket: Option<(u32, u64)>,
    /// Its shards that are still to be emptied, and the present one.
    shards: Shards,
    shard: *mut Shard,
    /// The present entries, and those that were fetched ahead; `now` is the index of
    /// the present ones.
    taken: [Taken; 2],
    now: usize,
    /// The bucket that was looked into ahead of its tick.
    ahead: u32,
}

impl Tick {
    pub fn none() -> Self {
        Tick {
            levels: 0,
            bucket: None,
            shards: Shards::default(),
            shard: std::ptr::null_mut(),
            taken: [Taken::NONE; 2],
            now: 0,
            ahead: u32::MAX,
        }
    }

    /// Whether all of this number of entries of a bucket were asked for ahead of its
    /// tick.
    fn is_at_hand(&self, bucket: u32, entries: usize) -> bool {
        bucket == self.ahead && entries <= LOOK_AHEAD
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
    pub(super) fn next_entered(&self, hand: u64) -> u64 {
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
    #[inline]
    pub(super) fn scan(&self, hand: u64) -> u64 {
        self.wheel.next_entered(hand)
    }

    /// Enters the slots of tick `to`, coming from `from`.
    pub(super) fn enter(&mut self, from: u64, to: u64) {
        self.d.tick.levels = self.wheel.levels.level(to, from) + 1;
        self.empty_levels(to);
    }

    /// Continues a tick in which the last sweep has stopped.
    fn resume(&mut self) {
        if self.d.tick.is_open() {
            self.empty_bucket();
            self.empty_levels(self.d.hand);
        }
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
        self.resume();
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
        loop {
            self.meet_all(tick);
            if self.stop {
                return;
            }
            let t = &mut self.d.tick;
            if t.taken[t.now ^ 1].len == 0 {
                self.fetch(bucket);
            }
            let t = &mut self.d.tick;
            (t.taken[t.now].at, t.taken[t.now].len) = (0, 0);
            if t.taken[t.now ^ 1].len == 0 {
                t.bucket = None;
                return;
            }
            t.now ^= 1;
            self.stop |= self.sink.is_enough();
            // The nodes of the next chunk are on their way while these are
            // visited.
            self.fetch(bucket);
            self.fetch_callbacks(bucket, tick);
        }
    }

    /// Meets the entries that were taken out, up to where the sweep stops.
    #[inline]
    fn meet_all(&mut self, tick: u64) {
        let now = self.d.tick.now;
        let mut at = self.d.tick.taken[now].at;
        while let (false, Some(&entry)) = (self.stop, self.d.tick.taken[now].entries().get(at)) {
            at += 1;
            if entry.is_for(tick) {
                self.visit(entry.index(), tick);
            } else {
                self.meet(entry, tick);
            }
        }
        self.d.tick.taken[now].at = at;
    }

    fn meet(&mut self, entry: Entry, tick: u64) {
        let k = entry.tick(tick);
        if k > tick {
            probe!(cascade, self.wheel, k);
            self.place(entry.index(), k, tick);
        } else {
            self.visit(entry.index(), tick);
        }
    }

    /// Takes the entries of the next chunk of the bucket, of any shard.
    fn fetch(&mut self, bucket: u32) {
        let tick = &mut self.d.tick;
        let ahead = &mut tick.taken[tick.now ^ 1];
        let n = loop {
            if tick.shard.is_null() {
                let Some(bit) = tick.shards.next() else {
                    return;
                };
                tick.shard = self.wheel.buckets.first_shard(bit);
                continue;
            }
            // SAFETY: this thread drives, and shards live as long as the wheel.
            let n = unsafe { self.own.take_from(tick.shard, bucket, &mut ahead.batch) };
            if n != 0 {
                (ahead.at, ahead.len) = (0, n);
                self.wheel.shared.count.taken.bump(n as u64);
                // SAFETY: as above.
                prefetch_chunk(unsafe { Shard::front(tick.shard, bucket) }.second_chunk());
                break n;
            }
            // SAFETY: as above. Relaxed: published with the shard.
            tick.shard = unsafe { &*tick.shard }.next_of_bit.load(Ordering::Relaxed);
        };
        // Only on the lowest level are most entries visits.
        if self.wheel.levels.is_lowest(bucket) && !tick.is_at_hand(bucket, n) {
            for entry in tick.taken[tick.now ^ 1].entries() {
                self.wheel.slab.prefetch_hot(entry.index());
            }
        }
    }

    /// Asks for the callbacks of those that will fire.
    fn fetch_callbacks(&self, bucket: u32, tick: u64) {
        let now = &self.d.tick.taken[self.d.tick.now];
        if !self.wheel.levels.is_lowest(bucket) || self.d.tick.is_at_hand(bucket, now.len) {
            return;
        }
        for entry in now.entries() {
            let Some(hot) = self.wheel.slab.hot(entry.index()) else {
                continue;
            };
            // Relaxed: a guess.
            if StateWord(hot.state.load(Ordering::Relaxed)).may_fire(tick) {
                self.wheel.slab.prefetch_fire(entry.index());
            }
        }
    }

    /// Places an entry while the hand is at `hand`, without a read of its node.
    /// False without memory; then the driver goes through all nodes.
    pub(super) fn place(&mut self, index: u32, tick: u64, hand: u64) -> bool {
        let wheel = self.wheel;
        let bucket = wheel.levels.place(tick, hand).bucket;
        if !self
            .own
            .push(&wheel.memory, bucket, Entry::new(index, tick, hand))
        {
            // Release: as of a request by a thread.
            wheel.shared.rescue.store(1, Ordering::Release);
            return false;
        }
        wheel.shared.count.placed.bump(1);
        if !wheel.buckets.is_marked(bucket, &self.own) {
            wheel.buckets.mark(bucket, &self.own);
        }
        true
    }

    /// Asks for the first nodes of the next tick while there is time.
    pub(super) fn look_ahead(&mut self, next: u64) {
        if next == NEVER || next <= self.d.hand {
            return;
        }
        let levels = &self.wheel.levels;
        if levels.level(next, self.d.hand) != 0 {
            return;
        }
        let bucket = levels.place_on(next, 0).bucket;
        self.d.tick.ahead = bucket;
        let mut shards = self.wheel.buckets.look(bucket);
        while let Some(bit) = shards.next() {
            let shard = self.wheel.buckets.first_shard(bit);
            // SAFETY: shards live as long as the wheel.
            let front = unsafe { Shard::front(shard, bucket) };
            front.peek(LOOK_AHEAD, |entry| {
                self.wheel.slab.prefetch_hot(entry.index());
                self.wheel.slab.prefetch_fire(entry.index());
            });
        }
    }
}

fn prefetch_chunk<T>(chunk: *mut T) {
    if !chunk.is_null() {
        for line in 0..4 {
            prefetch(chunk.cast::<u8>().wrapping_add(64 * line));
        }
    }
}
