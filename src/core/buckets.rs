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
//! passed when the driver took their note. Each sweep empties it first. It may get entries
//! meanwhile.

use super::entry::Entry;
use super::error::Error;
use super::levels::Levels;
use super::slab::{Chunk, Records, Slab, PLACES};
use super::state::NEVER;
use super::tunables::WORD;
use crate::sync::prefetch;
use crate::sys::maps::{map, unmap, Pages};
use core::cell::Cell;

/// All zero is an empty bucket. A bucket that has no room for one more entry, the empty one
/// included, ends where a chunk ends.
#[derive(Clone, Copy)]
struct Bucket {
    /// The spot of the first entry.
    first: u32,
    /// The spot behind the last entry.
    end: u32,
    /// No entry of the bucket is for a tick before this one.
    least: u64,
}

impl Bucket {
    const EMPTY: Bucket = Bucket {
        first: 0,
        end: 0,
        least: 0,
    };

    #[inline(always)]
    fn is_empty(&self) -> bool {
        self.end == 0
    }

    /// Its entries from a spot to the end of that chunk.
    #[inline(always)]
    fn entries<'s>(&self, slab: &'s Slab, spot: u32) -> &'s [Cell<Entry>] {
        let number = chunk_before(spot);
        let end = match number == chunk_before(self.end) {
            true => self.end,
            false => (number + 1) * PLACES,
        };
        slab.entries(spot, end - spot)
    }
}

/// The chunk of the place before a spot.
#[inline(always)]
fn chunk_before(spot: u32) -> u32 {
    (spot - 1) / PLACES
}

/// The spot of the first entry of a chunk.
#[inline(always)]
fn first_of(chunk: u32) -> u32 {
    chunk * PLACES + 1
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

    /// Whether no entry of a bucket is for a later tick than the one at which a sweep empties it.
    #[inline(always)]
    pub fn is_of_one_tick(&self, bucket: u32) -> bool {
        self.levels.is_lowest(bucket) || bucket == self.overdue()
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

    /// Places the entry of a timer that has none and is due after the hand. Returns the tick of
    /// the entry, which is at most `due`.
    #[inline(always)]
    pub fn place(&mut self, slab: &Slab, node: Records<'_>, due: u64, hand: u64) -> u64 {
        let (entry, tick) = Entry::by(node.index, due, hand);
        let bucket = self.levels.bucket(tick, self.levels.level(tick, hand));
        if self.levels.is_lowest(bucket) {
            // It is visited within a turn of that level.
            node.prefetch();
        }
        self.put(slab, node, bucket, entry, tick);
        tick
    }

    /// Places the entry of a timer that has none in the overdue bucket.
    pub fn place_overdue(&mut self, slab: &Slab, node: Records<'_>, hand: u64) {
        let entry = Entry::near(node.index, hand);
        self.put(slab, node, self.overdue(), entry, hand);
    }

    #[inline(always)]
    fn put(&mut self, slab: &Slab, node: Records<'_>, bucket: u32, entry: Entry, tick: u64) {
        if self.at(bucket).end % PLACES == 0 {
            self.extend(slab, bucket);
        }
        let b = self.at(bucket);
        let spot = b.end;
        b.end += 1;
        b.least = b.least.min(tick);
        slab.entry(spot).set(entry);
        node.spot().set(spot);
        self.entries += 1;
    }

    #[cold]
    fn extend(&mut self, slab: &Slab, bucket: u32) {
        let number = self.take_chunk(slab);
        slab.chunk(number).bucket.set(bucket);
        let b = self.at(bucket);
        let end = core::mem::replace(&mut b.end, first_of(number));
        if end == 0 {
            (b.first, b.least) = (b.end, NEVER);
            *self.mark(bucket) |= 1 << (bucket as usize % BITS);
        } else {
            slab.chunk(chunk_before(end)).next.set(number);
        }
    }

    fn take_chunk(&mut self, slab: &Slab) -> u32 {
        if self.free != 0 {
            let number = self.free;
            self.free = slab.chunk(number).next.get();
            return number;
        }
        let number = self.fresh;
        self.fresh = slab.chunk_after(number);
        number
    }

    /// The entries of a bucket up to the end of its first chunk. A caller that takes some, from
    /// the first one on, clears their spots, and then calls `leave`.
    #[inline(always)]
    pub fn front<'s>(&mut self, slab: &'s Slab, bucket: u32) -> &'s [Cell<Entry>] {
        let b = *self.at(bucket);
        match b.is_empty() {
            true => &[],
            false => b.entries(slab, b.first),
        }
    }

    /// The first entries of a bucket are gone, all of them in its first chunk.
    #[inline(always)]
    pub fn leave(&mut self, slab: &Slab, bucket: u32, gone: usize) {
        self.entries -= gone as u64;
        let b = self.at(bucket);
        b.first += gone as u32;
        let is_last = b.first == b.end;
        if !is_last && b.first % PLACES != 0 {
            return;
        }
        let number = chunk_before(b.first);
        let chunk = slab.chunk(number);
        if is_last {
            *b = Bucket::EMPTY;
            *self.mark(bucket) &= !(1 << (bucket as usize % BITS));
        } else {
            b.first = first_of(chunk.next.get());
        }
        chunk.next.set(core::mem::replace(&mut self.free, number));
    }

    /// Removes the entry of a timer that has one.
    pub fn remove(&mut self, slab: &Slab, node: Records<'_>) {
        let spot = node.spot().replace(0);
        let bucket = slab.chunk(spot / PLACES).bucket.get();
        let first = slab.entry(self.at(bucket).first).get();
        if first.index() != node.index {
            slab.entry(spot).set(first);
            slab.records(first.index()).spot().set(spot);
        }
        self.leave(slab, bucket, 1);
    }

    /// Fetches what a sweep needs for the entries of the second chunk of a bucket, and the
    /// third chunk.
    #[inline]
    pub fn fetch_second(&mut self, slab: &Slab, bucket: u32) {
        let b = *self.at(bucket);
        let last = chunk_before(b.end);
        let number = chunk_before(b.first);
        if number != last {
            let second = slab.chunk(number).next.get();
            self.fetch(slab, bucket, b.entries(slab, first_of(second)));
            if second != last {
                let third: *const Chunk = slab.chunk(slab.chunk(second).next.get());
                let lines = size_of::<Chunk>().div_ceil(64);
                (0..lines).for_each(|line| prefetch(third.cast::<u8>().wrapping_add(64 * line)));
            }
        }
    }

    /// Fetches what a sweep needs for entries of a bucket.
    #[inline(never)]
    pub fn fetch(&self, slab: &Slab, bucket: u32, entries: &[Cell<Entry>]) {
        let is_lowest = self.levels.is_lowest(bucket);
        for entry in entries {
            let node = slab.records(entry.get().index());
            node.prefetch_spot();
            if is_lowest {
                node.prefetch();
            }
        }
    }

    /// The tick of a timer's entry, if it has one.
    #[inline]
    pub fn tick(&self, slab: &Slab, node: Records<'_>, hand: u64) -> Option<u64> {
        match node.spot().get() {
            0 => None,
            spot => Some(slab.entry(spot).get().tick(hand)),
        }
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

    /// The earliest entry of a bucket that is not empty: its node and tick. If that is not known
    /// after `most` entries, the first one is the error.
    pub fn earliest(
        &mut self,
        slab: &Slab,
        bucket: u32,
        hand: u64,
        most: usize,
    ) -> Result<(u32, u64), (u32, u64)> {
        let b = self.at(bucket);
        let mut spot = b.first;
        let first = slab.entry(spot).get();
        let mut earliest = (first.index(), first.tick(hand));
        for _ in 0..most {
            let entry = slab.entry(spot).get();
            let tick = entry.tick(hand);
            if tick < earliest.1 {
                earliest = (entry.index(), tick);
            }
            if tick <= b.least {
                return Ok(earliest);
            }
            spot += 1;
            if spot == b.end {
                b.least = earliest.1;
                return Ok(earliest);
            }
            if spot % PLACES == 0 {
                spot = first_of(slab.chunk(chunk_before(spot)).next.get());
            }
        }
        Err((first.index(), first.tick(hand)))
    }
}
