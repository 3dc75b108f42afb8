//! The buckets of the wheel: plain data of the driver, which no other thread reads. A timer has
//! at most one entry in all of them.
//!
//! A bucket is a queue of chunks: entries are put at its end and taken from its front. So timers
//! that a thread arms one after the other for the same tick mostly fire in that order. An entry
//! that is removed gets the first one in its place. The *spot* of a timer, in the slab, says where
//! its entry is. Chunks lie in the slab as well: enough for the entries of all timers that exist,
//! so that nothing here can fail.
//!
//! A sweep empties the bucket of a slot that the hand has entered, in one call or in several. It
//! gets no entry meanwhile: an entry is for a slot that the hand enters later (`levels.rs`).
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
    /// The chunk behind this one, in a bucket or among the free ones; or 0.
    next: u32,
    bucket: u32,
    entries: [Entry; ENTRIES],
}

const _: () = assert!(size_of::<Chunk>() == CHUNK_BYTES);
/// A spot has the number of a chunk, and a place there.
const PLACE_BITS: u32 = 5;
const PLACES: u32 = 1 << PLACE_BITS;
const _: () = assert!(ENTRIES < PLACES as usize);

/// All zero is an empty bucket: no chunk, and no room.
#[derive(Clone, Copy)]
struct Bucket {
    /// The spot of the first entry, or 0.
    first: u32,
    /// The last chunk, and how many of its places are free.
    last: u32,
    /// No entry of the bucket is for a tick before this one.
    least: u64,
}

impl Bucket {
    const EMPTY: Bucket = Bucket {
        first: 0,
        last: 0,
        least: 0,
    };

    #[inline(always)]
    fn is_empty(&self) -> bool {
        self.first == 0
    }

    #[inline(always)]
    fn room(&self) -> u32 {
        self.last % PLACES
    }

    #[inline(always)]
    fn last_chunk(&self) -> u32 {
        self.last >> PLACE_BITS
    }

    /// The spot behind the last entry.
    #[inline(always)]
    fn end(&self) -> u32 {
        (self.last & !(PLACES - 1)) + ENTRIES as u32 - self.room()
    }
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
        let marks = at.cast::<u64>();
        Ok(Buckets {
            marks,
            // Within the bytes of `bytes`, which counts the same parts.
            buckets: marks.wrapping_add(Self::words(&levels)).cast(),
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

    /// Words of bits.
    fn words(levels: &Levels) -> usize {
        Self::count(levels).div_ceil(BITS)
    }

    fn bytes(levels: &Levels) -> usize {
        Self::words(levels) * size_of::<u64>() + Self::count(levels) * size_of::<Bucket>()
    }

    /// # Safety
    /// No thread uses the buckets any more.
    pub unsafe fn unmap(&mut self) {
        // SAFETY: mapped by `new`.
        unsafe { unmap(self.marks.cast(), Self::bytes(&self.levels)) };
    }

    #[inline(always)]
    pub fn overdue(&self) -> u32 {
        self.levels.buckets
    }

    pub fn has_overdue(&mut self) -> bool {
        !self.at(self.overdue()).is_empty()
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
        if self.at(bucket).room() == 0 {
            self.extend(slab, bucket);
        }
        let b = self.at(bucket);
        let spot = b.end();
        // One place of room less.
        b.last -= 1;
        b.least = b.least.min(tick);
        *Self::entry_at(slab, spot) = entry;
        slab.spot(entry.index()).set(spot);
        self.entries += 1;
    }

    #[cold]
    fn extend(&mut self, slab: &Slab, bucket: u32) {
        let number = self.take_chunk(slab);
        Self::chunk(slab, number).bucket = bucket;
        let b = self.at(bucket);
        let last = b.last_chunk();
        b.last = number << PLACE_BITS | ENTRIES as u32;
        if b.is_empty() {
            (b.first, b.least) = (number << PLACE_BITS, NEVER);
            *self.mark(bucket) |= 1 << (bucket as usize % BITS);
        } else {
            Self::chunk(slab, last).next = number;
        }
    }

    fn take_chunk(&mut self, slab: &Slab) -> u32 {
        if self.free != 0 {
            let number = self.free;
            self.free = Self::chunk(slab, number).next;
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

    /// Takes the first entry of a bucket.
    #[inline]
    pub fn take(&mut self, slab: &Slab, bucket: u32) -> Option<Entry> {
        let b = self.at(bucket);
        if b.is_empty() {
            return None;
        }
        let entry = *Self::entry_at(slab, b.first);
        slab.spot(entry.index()).set(0);
        self.leave_first(slab, bucket);
        Some(entry)
    }

    /// Removes the entry of a timer that has one.
    pub fn remove(&mut self, slab: &Slab, index: u32) {
        let spot = slab.spot(index).replace(0);
        let bucket = Self::chunk(slab, spot >> PLACE_BITS).bucket;
        let first = *Self::entry_at(slab, self.at(bucket).first);
        if first.index() != index {
            *Self::entry_at(slab, spot) = first;
            slab.spot(first.index()).set(spot);
        }
        self.leave_first(slab, bucket);
    }

    /// The first entry of a bucket is gone.
    #[inline]
    fn leave_first(&mut self, slab: &Slab, bucket: u32) {
        self.entries -= 1;
        let b = self.at(bucket);
        let number = b.first >> PLACE_BITS;
        b.first += 1;
        let is_last = b.first == b.end();
        if !is_last && b.first % PLACES != ENTRIES as u32 {
            return;
        }
        let chunk = Self::chunk(slab, number);
        if is_last {
            *b = Bucket::EMPTY;
            *self.mark(bucket) &= !(1 << (bucket as usize % BITS));
        } else {
            b.first = chunk.next << PLACE_BITS;
            self.fetch_second(slab, bucket);
        }
        chunk.next = std::mem::replace(&mut self.free, number);
    }

    /// Fetches what a sweep needs for the first entries of a bucket. Taking them fetches the
    /// others.
    #[inline]
    pub fn fetch(&mut self, slab: &Slab, bucket: u32) {
        let b = *self.at(bucket);
        if !b.is_empty() {
            self.fetch_chunk(slab, bucket, b.first >> PLACE_BITS);
            self.fetch_second(slab, bucket);
        }
    }

    /// Fetches what a sweep needs for the entries of the second chunk of a bucket, and the
    /// third chunk.
    fn fetch_second(&mut self, slab: &Slab, bucket: u32) {
        let b = *self.at(bucket);
        let number = b.first >> PLACE_BITS;
        if number != b.last_chunk() {
            let second = Self::chunk(slab, number).next;
            self.fetch_chunk(slab, bucket, second);
            if second != b.last_chunk() {
                let third = slab.chunk(Self::chunk(slab, second).next);
                (0..CHUNK_BYTES / 64).for_each(|line| prefetch(third.wrapping_add(64 * line)));
            }
        }
    }

    #[inline(never)]
    fn fetch_chunk(&mut self, slab: &Slab, bucket: u32, number: u32) {
        let b = self.at(bucket);
        let filled = match number == b.last_chunk() {
            true => b.end() % PLACES,
            false => ENTRIES as u32,
        };
        let is_lowest = self.levels.is_lowest(bucket);
        for entry in &Self::chunk(slab, number).entries[..filled as usize] {
            slab.prefetch_spot(entry.index());
            if is_lowest {
                slab.prefetch_node(entry.index());
            }
        }
    }

    #[inline(always)]
    #[allow(clippy::mut_from_ref)]
    fn entry_at(slab: &Slab, spot: u32) -> &mut Entry {
        let chunk = Self::chunk(slab, spot >> PLACE_BITS);
        // SAFETY: no spot that is used is behind the entries.
        unsafe { chunk.entries.get_unchecked_mut((spot % PLACES) as usize) }
    }

    /// The tick of a timer's entry, if it has one.
    #[inline]
    pub fn tick(&self, slab: &Slab, index: u32, hand: u64) -> Option<u64> {
        let spot = slab.spot(index).get();
        if spot == 0 {
            return None;
        }
        Some(Self::entry_at(slab, spot).tick(hand))
    }

    /// The first bucket that is not empty, and the tick at which the hand enters its slot.
    #[inline]
    pub fn first(&self, hand: u64) -> Option<(u32, u64)> {
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

    /// A tick before which no entry of a bucket that is not empty wants a visit. On the lowest
    /// level, it is that of its entries.
    #[inline]
    pub fn least(&mut self, bucket: u32) -> u64 {
        self.at(bucket).least
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
        let b = self.at(bucket);
        let (mut spot, mut earliest) = (b.first, (0, NEVER));
        for _ in 0..most {
            let entry = Self::entry_at(slab, spot);
            let tick = entry.tick(hand);
            if tick < earliest.1 {
                earliest = (entry.index(), tick);
            }
            if tick <= b.least {
                return Some(earliest);
            }
            spot += 1;
            if spot == b.end() {
                b.least = earliest.1;
                return Some(earliest);
            }
            if spot % PLACES == ENTRIES as u32 {
                spot = Self::chunk(slab, spot >> PLACE_BITS).next << PLACE_BITS;
            }
        }
        None
    }
}
