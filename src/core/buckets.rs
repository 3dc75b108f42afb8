//! The buckets of the wheel: plain data of the driver, which no other thread reads. A timer has
//! at most one entry in all of them.
//!
//! A bucket is a chain of chunks, all full but the last one. An entry is put at the end, and
//! taken from there. One that is removed gets the last one in its place. The *spot* of a timer,
//! in the slab, says where its entry is. Chunks lie in the slab as well: enough for the entries
//! of all timers that exist, so that nothing here can fail.
//!
//! One bucket belongs to no tick. The *overdue* bucket has the timers whose tick the hand had
//! passed when the driver took their note. Each sweep empties it first.

use super::entry::Entry;
use super::error::Error;
use super::levels::Levels;
use super::slab::{Slab, CHUNK_BITS, CHUNK_BYTES};
use super::state::NEVER;
use super::tunables::{ENTRIES, WORD};
use crate::sync::prefetch;
use crate::sys::maps::{map, unmap, Pages};

#[repr(C, align(256))]
struct Chunk {
    /// The chunk before this one, in a bucket or among the free ones; or 0.
    before: u32,
    bucket: u32,
    entries: [Entry; ENTRIES],
}

const _: () = assert!(size_of::<Chunk>() == CHUNK_BYTES);
/// A spot has the number of a chunk, and a place there.
const PLACE_BITS: u32 = 5;
const _: () = assert!(ENTRIES <= 1 << PLACE_BITS);

/// All zero is an empty bucket.
#[derive(Clone, Copy)]
struct Bucket {
    /// Its last chunk, or 0.
    last: u32,
    /// Entries of that chunk: at least one.
    filled: u32,
    /// No entry is for a tick before this one. Only of a bucket that is not empty.
    least: u64,
}

/// The words of bits are as wide as a word of the tunables.
const BITS: usize = u64::BITS as usize;

pub(crate) struct Buckets {
    pub levels: Levels,
    buckets: *mut Bucket,
    /// A bit for each bucket that is not empty.
    marks: *mut u64,
    /// The first free chunk, or 0, and the next one that was never used.
    free: u32,
    fresh: u32,
    /// Entries in all buckets.
    pub entries: u64,
}

// SAFETY: the memory is the buckets' own.
unsafe impl Send for Buckets {}

impl Buckets {
    pub fn new(levels: Levels) -> Result<Self, Error> {
        let at = map(Self::bytes(&levels), Pages::Small);
        if at.is_null() {
            return Err(Error::Memory);
        }
        let buckets = at.cast::<Bucket>();
        Ok(Buckets {
            buckets,
            // Within the bytes of `bytes`, which counts the same parts.
            marks: buckets.wrapping_add(Self::count(&levels)).cast(),
            levels,
            free: 0,
            fresh: 1,
            entries: 0,
        })
    }

    /// The number of buckets, the overdue one included.
    pub fn count(levels: &Levels) -> usize {
        (levels.buckets + 1) as usize
    }

    fn bytes(levels: &Levels) -> usize {
        let count = Self::count(levels);
        count * size_of::<Bucket>() + count.div_ceil(BITS) * size_of::<u64>()
    }

    /// # Safety
    /// No thread uses the buckets any more.
    pub unsafe fn unmap(&mut self) {
        // SAFETY: mapped by `new`.
        unsafe { unmap(self.buckets.cast(), Self::bytes(&self.levels)) };
    }

    #[inline(always)]
    pub fn overdue(&self) -> u32 {
        self.levels.buckets
    }

    pub fn has_overdue(&mut self) -> bool {
        self.at(self.overdue()).last != 0
    }

    #[inline(always)]
    fn at(&mut self, bucket: u32) -> &mut Bucket {
        debug_assert!(bucket <= self.overdue());
        // SAFETY: there is one for each number.
        unsafe { &mut *self.buckets.add(bucket as usize) }
    }

    #[inline(always)]
    fn mark(&mut self, bucket: u32) -> &mut u64 {
        // SAFETY: there is a bit for each bucket.
        unsafe { &mut *self.marks.add(bucket as usize / BITS) }
    }

    #[inline(always)]
    #[allow(clippy::mut_from_ref)]
    fn chunk(slab: &Slab, number: u32) -> &mut Chunk {
        // SAFETY: chunks that were taken are mapped, and the driver's alone. No caller keeps
        // two references to one.
        unsafe { &mut *slab.chunk(number).cast::<Chunk>() }
    }

    /// Places the entry of a timer that has none, for a tick after the hand that an entry can
    /// have.
    #[inline]
    pub fn place(&mut self, slab: &Slab, index: u32, tick: u64, hand: u64) {
        let bucket = self.levels.bucket(tick, self.levels.level(tick, hand));
        if self.levels.is_lowest(bucket) {
            // It is visited within a turn of that level.
            slab.prefetch_node(index);
        }
        self.put(slab, bucket, Entry::new(index, tick, hand), tick);
    }

    /// Places the entry of a timer that has none in the overdue bucket.
    pub fn place_overdue(&mut self, slab: &Slab, index: u32, hand: u64) {
        self.put(slab, self.overdue(), Entry::near(index, hand), hand);
    }

    #[inline]
    fn put(&mut self, slab: &Slab, bucket: u32, entry: Entry, tick: u64) {
        let last = self.at(bucket).last;
        if last == 0 || self.at(bucket).filled == ENTRIES as u32 {
            self.extend(slab, bucket, last);
        }
        let b = self.at(bucket);
        let place = b.filled;
        b.filled += 1;
        b.least = b.least.min(tick);
        Self::chunk(slab, b.last).entries[place as usize] = entry;
        slab.spot(entry.index()).set(b.last << PLACE_BITS | place);
        self.entries += 1;
    }

    fn extend(&mut self, slab: &Slab, bucket: u32, before: u32) {
        let number = self.take_chunk(slab);
        let chunk = Self::chunk(slab, number);
        (chunk.before, chunk.bucket) = (before, bucket);
        let b = self.at(bucket);
        (b.last, b.filled) = (number, 0);
        if before == 0 {
            b.least = NEVER;
            *self.mark(bucket) |= 1 << (bucket as usize % BITS);
        }
    }

    fn take_chunk(&mut self, slab: &Slab) -> u32 {
        if self.free != 0 {
            let number = self.free;
            self.free = Self::chunk(slab, number).before;
            return number;
        }
        let number = self.fresh;
        self.fresh += 1;
        if self.fresh % (1 << CHUNK_BITS) == slab.chunks {
            // The first one of the next block.
            self.fresh = ((self.fresh >> CHUNK_BITS) + 1) << CHUNK_BITS;
        }
        number
    }

    /// Takes the last entry of a bucket. Fetches the next ones, and those of the first call.
    #[inline]
    pub fn pop(&mut self, slab: &Slab, bucket: u32, is_begin: bool) -> Option<Entry> {
        let b = *self.at(bucket);
        if b.last == 0 {
            return None;
        }
        if is_begin || b.filled == ENTRIES as u32 {
            self.fetch_ahead(slab, bucket, is_begin);
        }
        let entry = Self::chunk(slab, b.last).entries[b.filled as usize - 1];
        slab.spot(entry.index()).set(0);
        self.shorten(slab, bucket);
        Some(entry)
    }

    /// Removes the entry of a timer that has one.
    pub fn remove(&mut self, slab: &Slab, index: u32) {
        let spot = slab.spot(index).replace(0);
        let bucket = Self::chunk(slab, spot >> PLACE_BITS).bucket;
        let b = *self.at(bucket);
        let last = Self::chunk(slab, b.last).entries[b.filled as usize - 1];
        if last.index() != index {
            Self::chunk(slab, spot >> PLACE_BITS).entries[Self::place_of(spot)] = last;
            slab.spot(last.index()).set(spot);
        }
        self.shorten(slab, bucket);
    }

    fn place_of(spot: u32) -> usize {
        (spot % (1 << PLACE_BITS)) as usize
    }

    /// The last entry of a bucket is gone.
    #[inline]
    fn shorten(&mut self, slab: &Slab, bucket: u32) {
        self.entries -= 1;
        let b = self.at(bucket);
        b.filled -= 1;
        if b.filled != 0 {
            return;
        }
        let number = b.last;
        let chunk = Self::chunk(slab, number);
        (b.last, b.filled) = (chunk.before, ENTRIES as u32);
        let is_empty = b.last == 0;
        chunk.before = std::mem::replace(&mut self.free, number);
        if is_empty {
            *self.mark(bucket) &= !(1 << (bucket as usize % BITS));
        }
    }

    /// The tick of a timer's entry, if it has one.
    #[inline]
    pub fn tick(&self, slab: &Slab, index: u32, hand: u64) -> Option<u64> {
        let spot = slab.spot(index).get();
        if spot == 0 {
            return None;
        }
        let entry = Self::chunk(slab, spot >> PLACE_BITS).entries[Self::place_of(spot)];
        Some(entry.tick(hand))
    }

    /// Fetches what a sweep needs for the entries of the chunk before the last one of a bucket,
    /// and at the beginning of the bucket for those of the last one as well.
    #[inline]
    fn fetch_ahead(&mut self, slab: &Slab, bucket: u32, is_begin: bool) {
        let b = *self.at(bucket);
        let is_lowest = self.levels.is_lowest(bucket);
        let fetch = |number: u32, filled: usize| {
            for entry in &Self::chunk(slab, number).entries[..filled] {
                slab.prefetch_spot(entry.index());
                // Only on the lowest level are most entries visits.
                if is_lowest {
                    slab.prefetch_node(entry.index());
                }
            }
        };
        if is_begin {
            fetch(b.last, b.filled as usize);
        }
        let before = Self::chunk(slab, b.last).before;
        if before != 0 {
            fetch(before, ENTRIES);
            let third = slab.chunk(Self::chunk(slab, before).before);
            (0..CHUNK_BYTES / 64).for_each(|line| prefetch(third.wrapping_add(64 * line)));
        }
    }

    /// The first bucket that is not empty, and the tick at which the hand enters its slot.
    #[inline]
    fn first(&self, hand: u64) -> Option<(u32, u64)> {
        for level in 0..self.levels.count {
            let (base, slots) = self.levels.slots(level);
            let from = self.levels.digit(hand, level) + 1;
            if let Some(bucket) = self.next_marked(base + from, base + slots) {
                return Some((bucket, self.levels.entered(hand, level, bucket - base)));
            }
        }
        None
    }

    /// The first bucket that is not empty, from one to before another. A level has whole words.
    #[inline(always)]
    fn next_marked(&self, from: u32, end: u32) -> Option<u32> {
        const { assert!(BITS as u32 % WORD == 0) };
        let mut at = from;
        while at < end {
            // SAFETY: there is a bit for each bucket.
            let word = unsafe { *self.marks.add(at as usize / BITS) };
            let marked = word >> (at as usize % BITS);
            if marked != 0 {
                return Some(at + marked.trailing_zeros()).filter(|found| *found < end);
            }
            at = (at / BITS as u32 + 1) * BITS as u32;
        }
        None
    }

    /// The first tick after the hand at which the hand enters a slot that is not empty.
    #[inline]
    pub fn next_entered(&self, hand: u64) -> u64 {
        self.first(hand).map_or(NEVER, |(_, entered)| entered)
    }

    /// The first bucket that is not empty, and a tick before which no entry wants a visit. On
    /// the lowest level, it is that of its entries.
    pub fn first_wanted(&mut self, hand: u64) -> Option<(u32, u64)> {
        let (bucket, entered) = self.first(hand)?;
        Some((bucket, entered.max(self.at(bucket).least)))
    }

    /// The earliest entry of a bucket that is not empty: its node and tick. `None` if that
    /// is not known after `most` entries.
    pub fn earliest(
        &mut self,
        slab: &Slab,
        bucket: u32,
        hand: u64,
        most: usize,
    ) -> Option<(u32, u64)> {
        let Bucket {
            last,
            filled,
            least,
        } = *self.at(bucket);
        let (mut first, mut seen) = ((0, NEVER), 0);
        let (mut number, mut filled) = (last, filled as usize);
        while number != 0 {
            let chunk = Self::chunk(slab, number);
            for entry in chunk.entries[..filled].iter().rev() {
                if seen == most {
                    return None;
                }
                seen += 1;
                let tick = entry.tick(hand);
                if tick < first.1 {
                    first = (entry.index(), tick);
                }
                if tick <= least {
                    return Some(first);
                }
            }
            (number, filled) = (chunk.before, ENTRIES);
        }
        self.at(bucket).least = first.1;
        Some(first)
    }
}
