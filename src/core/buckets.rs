//! The buckets of the wheel: plain data of the driver, which no other thread reads. A timer has
//! at most one entry in all of them.
//!
//! A bucket is eight doubly linked lists, its *lanes*. Entries go to the ends of the lanes in turn,
//! and are taken from their fronts in the same turn. So a sweep walks the lanes side by side:
//! while it treats a timer of one lane, the records of the next timers of the other lanes are on
//! their way from the memory. A list is a chain of cache misses; eight lists are eight chains
//! that overlap. Timers that a thread arms one after the other for the same tick mostly fire in
//! that order.
//!
//! # An entry
//!
//! ```text
//!                  put: at the end of a lane
//!   no entry     ----------------------------->  linked
//!   tick 0       <-----------------------------  tick of the visit, next and prev
//!                  take_first: from the front; remove
//! ```
//! The entry is a record of the timer (`record.rs`). So nothing here needs memory, and nothing
//! can fail. `next` and `prev` name a node, or the lane: behind the last entry of a lane and
//! before the first one.
//!
//! # Invariants
//!
//! - A lane has a first and a last node, or it is all zeros, and empty.
//! - An entry is in the bucket of its tick, on the level that it belongs to.
//!   One bucket belongs to no tick. The *overdue* bucket has the timers whose tick the hand had
//!   passed when the driver took their note. Each sweep empties it first.
//! - A bucket with an entry is marked. A marked bucket may be empty: `remove` does not know the
//!   bucket of an entry in the middle of a lane. So whoever finds a bucket empty takes its mark
//!   away: `take_first` and `first`. A bucket without a mark is all zeros.
//! - Of a marked bucket, the lanes from the *turn* on are empty, until the turn has come round.
//!   No entry is for a tick before `least`.
//!
//! # Across a callback
//!
//! A sweep that empties a bucket keeps no place in it: the next entry is at the front of the
//! lane whose turn it is. So a callback, and whatever happens between two calls that drive, may
//! remove any entry of the bucket and put any entry into another one. Here all is cells, and
//! no reference to the inside of a list is kept.
//!
//! The bucket of a slot that a sweep empties gets no entry meanwhile: an entry is for a slot that
//! the hand enters later. The overdue bucket may get entries meanwhile, from the driver itself.
//!
//! # Why nothing is passed over
//!
//! An entry for tick `k`, placed when the hand was at `h < k`, lies on the level of the highest
//! bit in which `k` and `h` differ, in the slot of `k`. So `k` and the hand have the same digits
//! on the levels above, and `k` has the greater digit on this one. That stays so until the hand
//! *enters* the slot, at the first tick that has the digits of `k` from this level up. The
//! hand goes from entered slot to entered slot, and over a slot only if the slot is empty. So the
//! first slot is on the lowest level that has one, behind the digit of the hand.

use super::slab::{Records, Slab};
use super::state::INDEX_BITS;
use super::{Error, LANES, OVERFLOW_BITS, WORD};
use crate::sys::maps::{map, unmap, Pages};
use core::cell::Cell;

const MOST_LEVELS: usize = 64;

/// A level: 2^bits slots of 2^shift ticks.
#[derive(Clone, Copy, Debug, Default)]
struct Level {
    /// The number of slots less 1.
    mask: u32,
    /// Buckets of the levels below; a multiple of [`WORD`].
    base: u32,
    shift: u32,
}

/// The shape of a wheel: pure arithmetic. `lib.rs` says which tick belongs to which level.
pub(crate) struct Levels {
    levels: [Level; MOST_LEVELS],
    /// The level of the highest bit that differs.
    of_bit: [u8; 64],
    count: u32,
    buckets: u32,
}

impl Levels {
    /// `levels` levels of `2^slot_bits` slots, and the overflow levels. At least
    /// one level, at least one bit, at most 48 bits in all.
    pub fn new(levels: u32, slot_bits: u32) -> Self {
        let mut all = Levels {
            levels: [Level::default(); MOST_LEVELS],
            of_bit: [0; 64],
            count: 0,
            buckets: 0,
        };
        let mut shift = 0;
        while shift < 64 {
            let bits = if all.count < levels {
                slot_bits
            } else {
                OVERFLOW_BITS
            }
            .min(64 - shift);
            all.of_bit[shift as usize..(shift + bits) as usize].fill(all.count as u8);
            all.levels[all.count as usize] = Level {
                mask: (1 << bits) - 1,
                base: all.buckets,
                shift,
            };
            all.buckets += (1u32 << bits).max(WORD);
            all.count += 1;
            shift += bits;
        }
        all
    }

    /// Buckets of a level: the number of the first, and how many.
    fn slots(&self, level: u32) -> (u32, u32) {
        let l = self.levels[level as usize % MOST_LEVELS];
        (l.base, l.mask + 1)
    }

    /// The level that an entry for tick `k` belongs to while the hand is at `hand`: the
    /// lowest, if that is the same tick.
    #[inline(always)]
    pub fn level(&self, k: u64, hand: u64) -> u32 {
        u32::from(self.of_bit[63 - ((k ^ hand) | 1).leading_zeros() as usize])
    }

    /// The bucket of tick `k` on a level.
    #[inline(always)]
    pub fn bucket(&self, k: u64, level: u32) -> u32 {
        let l = self.levels[level as usize % MOST_LEVELS];
        l.base + ((k >> l.shift) as u32 & l.mask)
    }

    /// The tick at which the hand, which is at `hand`, enters a slot of a level, behind the one
    /// that it is in.
    #[inline(always)]
    fn entered(&self, hand: u64, level: u32, slot: u32) -> u64 {
        let l = self.levels[level as usize % MOST_LEVELS];
        ((hand >> l.shift) & !u64::from(l.mask) | u64::from(slot)) << l.shift
    }

    /// The slot of the hand on a level.
    #[inline(always)]
    fn digit(&self, hand: u64, level: u32) -> u32 {
        let l = self.levels[level as usize % MOST_LEVELS];
        (hand >> l.shift) as u32 & l.mask
    }
}

/// The first and the last node of a list, or zeros.
struct Lane {
    first: Cell<u32>,
    last: Cell<u32>,
}

/// In the place of a node: the number of a lane.
const LANE: u32 = 1 << 31;
const _: () = assert!(INDEX_BITS < 31 && LANES.is_power_of_two());

/// The node of that name; `None` for a lane, and for 0.
#[inline(always)]
fn node(name: u32) -> Option<u32> {
    (0 < name && name < LANE).then_some(name)
}

/// The lanes of a bucket.
type Lanes = [Lane; LANES as usize];

/// The parts of a bucket other than its lanes. All zero is a bucket without a mark.
struct Bucket {
    /// The complement of *least*, or 0.
    least: Cell<u64>,
    /// The number of entries that were put into the bucket since it was marked, up to the number
    /// of lanes; from there on a number as large or larger, for the same lane.
    turn: Cell<u32>,
    /// The lane from which the next entry is taken.
    from: Cell<u32>,
}

/// A bucket that a sweep empties: where its parts lie.
#[derive(Clone, Copy)]
pub(super) struct Emptied<'b> {
    buckets: &'b Buckets,
    number: u32,
    bucket: &'b Bucket,
    lanes: &'b Lanes,
    /// The lanes from this one on are empty.
    used: u32,
}

/// The first bucket that is marked.
pub(super) struct First {
    pub number: u32,
    /// The tick at which the hand enters its slot.
    pub entered: u64,
    /// The first node of one of its lanes. `None` if the bucket is empty: it has lost its mark.
    pub node: Option<u32>,
}

/// Bits of a word of marks: a multiple of [`WORD`].
const BITS: usize = u64::BITS as usize;

pub(crate) struct Buckets {
    pub levels: Levels,
    /// A bit for each bucket that is marked.
    marks: *const Cell<u64>,
    /// A bit for each level that may have a marked bucket behind the hand.
    occupied: Cell<u64>,
    buckets: *const Bucket,
    lanes: *const Lanes,
    /// The bucket in which the first entry of a lane may name one before it that was taken; or
    /// [`NONE`].
    torn: Cell<u32>,
    /// Entries in all buckets.
    pub entries: Cell<u64>,
}

/// The number of no bucket.
const NONE: u32 = u32::MAX;

// SAFETY: the memory is the buckets' own.
unsafe impl Send for Buckets {}

impl Buckets {
    pub fn new(levels: Levels) -> Result<Self, Error> {
        let count = Self::count(&levels);
        let at = map(Self::bytes(&levels), Pages::Small);
        if at.is_null() {
            return Err(Error::Memory);
        }
        // Within the bytes of `bytes`, which counts the same parts. The lanes come first: those of
        // a bucket fill a cache line.
        let lanes: *const Lanes = at.cast();
        let buckets: *const Bucket = lanes.wrapping_add(count).cast();
        Ok(Buckets {
            lanes,
            buckets,
            marks: buckets.wrapping_add(count).cast(),
            occupied: Cell::new(0),
            levels,
            torn: Cell::new(NONE),
            entries: Cell::new(0),
        })
    }

    /// The number of buckets, the overdue one included.
    fn count(levels: &Levels) -> usize {
        levels.buckets as usize + 1
    }

    fn bytes(levels: &Levels) -> usize {
        let count = Self::count(levels);
        count * (size_of::<Lanes>() + size_of::<Bucket>()) + count.div_ceil(BITS) * size_of::<u64>()
    }

    /// # Safety
    /// No thread uses the buckets any more.
    pub unsafe fn unmap(&self) {
        // SAFETY: mapped by `new`.
        unsafe { unmap(self.lanes.cast_mut().cast(), Self::bytes(&self.levels)) };
    }

    #[inline(always)]
    pub fn overdue(&self) -> u32 {
        self.levels.buckets
    }

    pub fn has_overdue(&self) -> bool {
        self.numbered(self.overdue()).turn.get() != 0
    }

    #[inline(always)]
    fn numbered(&self, number: u32) -> &Bucket {
        debug_assert!(number <= self.overdue());
        // SAFETY: there is one for each number.
        unsafe { &*self.buckets.add(number as usize) }
    }

    #[inline(always)]
    fn lanes_of(&self, number: u32) -> &Lanes {
        debug_assert!(number <= self.overdue());
        // SAFETY: as above.
        unsafe { &*self.lanes.add(number as usize) }
    }

    #[inline(always)]
    fn marks_of(&self, number: u32) -> &Cell<u64> {
        // SAFETY: there is a bit for each bucket.
        unsafe { &*self.marks.add(number as usize / BITS) }
    }

    /// The lane of that name.
    #[inline(always)]
    fn lane(&self, name: u32) -> &Lane {
        let number = name & !LANE;
        &self.lanes_of(number / LANES)[(number % LANES) as usize]
    }

    /// Places the entry of a timer that has none, for a tick that is not before the hand: in which
    /// bucket. Fetches what a visit needs, if that comes within a turn of the lowest level.
    #[inline(always)]
    pub fn place(&self, slab: &Slab, node: Records<'_>, tick: u64, hand: u64) -> u32 {
        if self.levels.level(tick, hand) == 0 {
            node.prefetch_all();
        }
        self.place_used(slab, node, tick, hand)
    }

    /// Places the entry of a timer that the caller has just used.
    #[inline(always)]
    pub fn place_used(&self, slab: &Slab, node: Records<'_>, tick: u64, hand: u64) -> u32 {
        let level = self.levels.level(tick, hand);
        self.occupied.set(self.occupied.get() | 1 << level);
        let number = self.levels.bucket(tick, level);
        self.put(slab, node, number, tick);
        number
    }

    /// Places the entry of a timer that has none in the overdue bucket.
    #[cold]
    pub fn place_overdue(&self, slab: &Slab, node: Records<'_>, hand: u64) {
        self.put(slab, node, self.overdue(), hand);
    }

    #[inline(always)]
    fn put(&self, slab: &Slab, node: Records<'_>, number: u32, tick: u64) {
        debug_assert_eq!(node.entry().tick.get(), 0, "it has an entry");
        let bucket = self.numbered(number);
        let mark = self.marks_of(number);
        mark.set(mark.get() | 1 << (number as usize % BITS));
        bucket.least.set(bucket.least.get().max(!tick));
        let turn = bucket.turn.get();
        bucket.turn.set((turn % LANES + 1) | (turn & LANES));
        let name = LANE | (number * LANES + turn % LANES);
        let lane = &self.lanes_of(number)[(turn % LANES) as usize];
        let last = lane.last.replace(node.index);
        // Whether the lane was empty is a guess that a processor often gets wrong. So there is no
        // branch: node 0 has a record, which is not written.
        let before = &slab.entry_of(last).next;
        let (before, prev) = match last {
            0 => (&lane.first, name),
            _ => (before, last),
        };
        before.set(node.index);
        let entry = node.entry();
        entry.tick.set(tick);
        entry.next.set(name);
        entry.prev.set(prev);
        self.entries.set(self.entries.get() + 1);
    }

    /// An empty bucket loses its mark.
    #[inline(always)]
    fn clear_mark(&self, number: u32) {
        let bucket = self.numbered(number);
        bucket.least.set(0);
        bucket.turn.set(0);
        bucket.from.set(0);
        let mark = self.marks_of(number);
        mark.set(mark.get() & !(1 << (number as usize % BITS)));
    }

    /// A bucket that is to be emptied.
    #[inline(always)]
    pub fn empty(&self, slab: &Slab, number: u32) -> Emptied<'_> {
        self.mend(slab);
        let bucket = self.numbered(number);
        Emptied {
            buckets: self,
            number,
            bucket,
            lanes: self.lanes_of(number),
            used: bucket.turn.get().min(LANES),
        }
    }

    /// Fetches what visits to the first timer of each lane of a bucket need.
    #[inline(always)]
    pub fn prefetch(&self, slab: &Slab, number: u32) {
        let used = self.numbered(number).turn.get().min(LANES);
        for lane in &self.lanes_of(number)[..used as usize] {
            slab.records(lane.first.get()).prefetch_all();
        }
    }

    /// Whether `take_first` has left a first entry that names one before it.
    #[inline(always)]
    pub fn is_torn(&self) -> bool {
        self.torn.get() != NONE
    }

    /// Makes the first entry of each lane name the lane before it, where `take_first` has left that.
    #[inline(always)]
    pub fn mend(&self, slab: &Slab) {
        if self.is_torn() {
            self.mend_torn(slab, self.torn.replace(NONE));
        }
    }

    #[cold]
    #[inline(never)]
    fn mend_torn(&self, slab: &Slab, number: u32) {
        for (lane, n) in self.lanes_of(number).iter().zip(0..) {
            if let Some(first) = node(lane.first.get()) {
                slab.entry_of(first).prev.set(LANE | (number * LANES + n));
            }
        }
    }

    /// Removes the entry of a timer that has one.
    pub fn remove(&self, slab: &Slab, removed: Records<'_>) {
        self.mend(slab);
        self.unlink(slab, removed);
    }

    /// Removes the entry of a timer that has one, while no bucket is torn.
    #[inline(always)]
    pub fn unlink(&self, slab: &Slab, removed: Records<'_>) {
        debug_assert!(!self.is_torn(), "a first entry names one before it");
        let entry = removed.entry();
        entry.tick.set(0);
        let (prev, next) = (entry.prev.get(), entry.next.get());
        match node(prev) {
            Some(before) => slab.entry_of(before).next.set(next),
            None => self.lane(prev).first.set(node(next).unwrap_or(0)),
        }
        match node(next) {
            Some(after) => slab.entry_of(after).prev.set(prev),
            None => self.lane(next).last.set(node(prev).unwrap_or(0)),
        }
        self.entries.set(self.entries.get() - 1);
    }

    /// The first node of a bucket's first lane that has an entry; `None` if the bucket is empty.
    #[inline(always)]
    fn first_node(&self, number: u32) -> Option<u32> {
        let mut firsts = self.lanes_of(number).iter().map(|lane| lane.first.get());
        firsts.find(|first| *first != 0)
    }

    /// The first marked bucket behind that of the hand. An empty one loses its mark.
    #[inline(always)]
    pub fn first(&self, hand: u64) -> Option<First> {
        let (number, entered) = self.first_marked(hand)?;
        let node = self.first_node(number);
        if node.is_none() {
            self.clear_mark(number);
        }
        Some(First {
            number,
            entered,
            node,
        })
    }

    /// The first marked bucket behind that of the hand, which may be empty: its number, and the
    /// tick at which the hand enters its slot.
    #[inline]
    pub fn first_marked(&self, hand: u64) -> Option<(u32, u64)> {
        loop {
            let occupied = self.occupied.get();
            if occupied == 0 {
                return None;
            }
            let level = occupied.trailing_zeros();
            let (base, slots) = self.levels.slots(level);
            let from = self.levels.digit(hand, level) + 1;
            if let Some(number) = self.next_marked(base + from, base + slots) {
                return Some((number, self.levels.entered(hand, level, number - base)));
            }
            self.occupied.set(occupied & (occupied - 1));
        }
    }

    /// The first marked bucket, from one to before another. A level has whole words.
    #[inline(always)]
    fn next_marked(&self, from: u32, end: u32) -> Option<u32> {
        const { assert!(BITS as u32 % WORD == 0) };
        let mut at = from;
        while at < end {
            let marked = self.marks_of(at).get() >> (at as usize % BITS);
            if marked != 0 {
                return Some(at + marked.trailing_zeros()).filter(|found| *found < end);
            }
            at = (at / BITS as u32 + 1) * BITS as u32;
        }
        None
    }

    /// A tick before which no entry of a bucket that is not empty wants a visit. On the lowest
    /// level, it is that of its entries.
    #[inline]
    pub fn least(&self, number: u32) -> u64 {
        !self.numbered(number).least.get()
    }

    /// No entry of the bucket is for a tick before this one.
    pub fn set_least(&self, number: u32, tick: u64) {
        self.numbered(number).least.set(!tick);
    }

    /// The entries of a bucket, lane by lane: their nodes and ticks. The entry that was returned
    /// last may be removed, and placed again.
    pub fn entries_of<'s>(
        &'s self,
        slab: &'s Slab,
        number: u32,
    ) -> impl Iterator<Item = (Records<'s>, u64)> + 's {
        self.lanes_of(number).iter().flat_map(move |lane| {
            let mut name = lane.first.get();
            core::iter::from_fn(move || {
                let seen = slab.records(node(name)?);
                name = seen.entry().next.get();
                Some((seen, seen.entry().tick.get()))
            })
        })
    }
}

impl Emptied<'_> {
    /// Whether each lane had an entry.
    #[inline(always)]
    pub fn is_large(&self) -> bool {
        self.used == LANES
    }

    /// Takes the first entry of the lane whose turn it is: its node and tick. `None` if the bucket
    /// is empty. `fetch` fetches what is needed of the next one.
    #[inline(always)]
    pub fn take_first<'s>(
        &self,
        slab: &'s Slab,
        fetch: impl FnOnce(Records<'s>),
    ) -> Option<(Records<'s>, u64)> {
        for _ in 0..self.used {
            let turn = self.bucket.from.get();
            let next = turn + 1;
            self.bucket
                .from
                .set(if next < self.used { next } else { 0 });
            let lane = &self.lanes[turn as usize % LANES as usize];
            let first = lane.first.get();
            if first != 0 {
                return Some(self.take_first_of(slab, lane, first, fetch));
            }
        }
        self.buckets.clear_mark(self.number);
        None
    }

    #[inline(always)]
    fn take_first_of<'s>(
        &self,
        slab: &'s Slab,
        lane: &Lane,
        first: u32,
        fetch: impl FnOnce(Records<'s>),
    ) -> (Records<'s>, u64) {
        let popped = slab.records(first);
        let entry = popped.entry();
        let next = entry.next.get();
        if next < LANE {
            // `next` is not in the cache yet. A write to it would delay the next exchange of a
            // state word, which waits for all writes before it.
            self.buckets.torn.set(self.number);
            lane.first.set(next);
            fetch(slab.records(next));
        } else {
            lane.first.set(0);
            lane.last.set(0);
        }
        self.buckets.entries.set(self.buckets.entries.get() - 1);
        (popped, entry.tick.replace(0))
    }
}

#[cfg(all(test, not(checked)))]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// Also from a hand that has moved on since, up to that tick.
        #[test]
        fn a_slot_is_entered_after_the_hand_and_not_after_the_tick(
            bits in 1u32..9, count in 1u32..6, hand in 0u64..1 << 62, by in 0u32..62, low: u64,
            part in 0.0f64..1.0,
        ) {
            let levels = Levels::new(count, bits);
            let k = hand + (1 << by) + (low & ((1 << by) - 1));
            let level = levels.level(k, hand);
            let slot = levels.bucket(k, level) - levels.slots(level).0;
            let entered = levels.entered(hand, level, slot);
            prop_assert!(hand < entered && entered <= k);
            prop_assert!(levels.digit(hand, level) < slot);
            let to = hand + ((entered - hand) as f64 * part) as u64;
            if to < entered {
                prop_assert_eq!(levels.entered(to, level, slot), entered);
                prop_assert!(levels.digit(to, level) < slot);
            }
        }
    }

    #[test]
    fn the_default_shape_has_ten_levels() {
        let levels = Levels::new(4, 8);
        assert_eq!(levels.count, 10);
        assert_eq!(levels.buckets, 4 * 256 + 6 * 64);
        assert_eq!(levels.bucket(5, levels.level(5, 4)), 5);
        assert_eq!(levels.level(0x312, 5), 1);
        assert_eq!(levels.bucket(0x312, 1), 256 + 3);
        assert_eq!(levels.entered(5, 1, 3), 0x300);
        // The topmost level has two bits.
        assert_eq!(
            levels.bucket(1 << 63, levels.level(1 << 63, 5)),
            4 * 256 + 5 * 64 + 2
        );
    }
}
