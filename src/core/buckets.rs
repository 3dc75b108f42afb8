//! The buckets of the wheel: plain data of the driver, which no other thread reads. A timer has
//! at most one entry in all of them.
//!
//! A bucket is a chain of chunks, all full but the last one. An entry is put at the end. One that
//! is removed gets the last one in its place. The *spot* of a timer, in the slab, says where its
//! entry is. Chunks lie in the slab as well: enough for the entries of all timers that exist,
//! so that nothing here can fail.
//!
//! A sweep *opens* a bucket: its chunks become a list, from the first one on, of which entries are
//! taken first in, first out. So timers that a thread arms one after the other for the same tick
//! mostly fire in that order. One list is open at a time; an entry that is removed from it gets the
//! first one in its place.
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
    /// Of the last chunk of a bucket: no entry of the bucket is for a tick before this one.
    least: u64,
    entries: [Entry; ENTRIES],
}

const _: () = assert!(size_of::<Chunk>() == CHUNK_BYTES);
/// A spot has the number of a chunk, and a place there.
const PLACE_BITS: u32 = 5;
const PLACES: u32 = 1 << PLACE_BITS;
const _: () = assert!(ENTRIES < PLACES as usize);

/// The last chunk of a bucket, and how many of its places are free: not all of them. All zero
/// is an empty bucket: no chunk, and no room.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Bucket(u32);

impl Bucket {
    fn new(chunk: u32, room: u32) -> Self {
        Bucket(chunk << PLACE_BITS | room)
    }

    #[inline(always)]
    fn is_empty(self) -> bool {
        self.0 == 0
    }

    #[inline(always)]
    fn chunk(self) -> u32 {
        self.0 >> PLACE_BITS
    }

    #[inline(always)]
    fn room(self) -> u32 {
        self.0 % PLACES
    }

    #[inline(always)]
    fn filled(self) -> usize {
        ENTRIES - self.room() as usize
    }
}

/// In place of the bucket, of a chunk of the open list.
const OPEN: u32 = u32::MAX;

/// The list of a bucket that is being emptied.
struct Open {
    /// The first chunk, or 0, and the first entry there. The chunks that follow are linked by
    /// `before`.
    chunk: u32,
    from: u32,
    /// Entries of the last chunk. The others are full.
    filled: u32,
    /// Of the lowest level: most entries are visits.
    is_lowest: bool,
}

impl Open {
    /// Entries of a chunk of the list.
    #[inline(always)]
    fn end(&self, chunk: &Chunk) -> usize {
        match chunk.before {
            0 => self.filled as usize,
            _ => ENTRIES,
        }
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
    open: Open,
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
            open: Open {
                chunk: 0,
                from: 0,
                filled: 0,
                is_lowest: false,
            },
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
        let (number, place) = (b.chunk(), b.filled());
        // One place of room less.
        b.0 -= 1;
        let chunk = Self::chunk(slab, number);
        chunk.least = chunk.least.min(tick);
        // SAFETY: there was room.
        unsafe { *chunk.entries.as_mut_ptr().add(place) = entry };
        slab.spot(entry.index())
            .set(number << PLACE_BITS | place as u32);
        self.entries += 1;
    }

    #[cold]
    fn extend(&mut self, slab: &Slab, bucket: u32) {
        let number = self.take_chunk(slab);
        let chunk = Self::chunk(slab, number);
        let last = std::mem::replace(self.at(bucket), Bucket::new(number, ENTRIES as u32));
        (chunk.before, chunk.bucket, chunk.least) = (last.chunk(), bucket, NEVER);
        if last.is_empty() {
            *self.mark(bucket) |= 1 << (bucket as usize % BITS);
        } else {
            chunk.least = Self::chunk(slab, last.chunk()).least;
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

    /// Opens a bucket. Nothing else is open.
    #[inline]
    pub fn open(&mut self, slab: &Slab, bucket: u32) {
        let b = *self.at(bucket);
        if b.is_empty() {
            return;
        }
        *self.at(bucket) = Bucket(0);
        *self.mark(bucket) &= !(1 << (bucket as usize % BITS));
        let (mut number, mut next) = (b.chunk(), 0);
        loop {
            let chunk = Self::chunk(slab, number);
            chunk.bucket = OPEN;
            let before = std::mem::replace(&mut chunk.before, next);
            if before == 0 {
                break;
            }
            (number, next) = (before, number);
        }
        self.open = Open {
            chunk: number,
            from: 0,
            filled: b.filled() as u32,
            is_lowest: self.levels.is_lowest(bucket),
        };
        self.fetch(slab, number);
        self.fetch_next(slab);
    }

    #[inline(always)]
    pub fn is_open(&self) -> bool {
        self.open.chunk != 0
    }

    /// Takes the next entry of the open list.
    #[inline]
    pub fn take(&mut self, slab: &Slab) -> Option<Entry> {
        if self.open.chunk == 0 {
            return None;
        }
        let entry = self.first_open(slab);
        slab.spot(entry.index()).set(0);
        self.leave_first(slab);
        Some(entry)
    }

    #[inline(always)]
    fn first_open(&self, slab: &Slab) -> Entry {
        // SAFETY: the first entry of the list, which is not empty.
        unsafe {
            *Self::chunk(slab, self.open.chunk)
                .entries
                .as_ptr()
                .add(self.open.from as usize)
        }
    }

    /// The first entry of the open list is gone.
    #[inline]
    fn leave_first(&mut self, slab: &Slab) {
        self.entries -= 1;
        self.open.from += 1;
        let chunk = Self::chunk(slab, self.open.chunk);
        if self.open.from as usize == self.open.end(chunk) {
            let next = std::mem::replace(&mut chunk.before, self.free);
            self.free = self.open.chunk;
            (self.open.chunk, self.open.from) = (next, 0);
            self.fetch_next(slab);
        }
    }

    /// Fetches what a sweep needs for the entries of the second chunk of the open list, and the
    /// third chunk.
    fn fetch_next(&self, slab: &Slab) {
        if self.open.chunk == 0 {
            return;
        }
        let second = Self::chunk(slab, self.open.chunk).before;
        if second != 0 {
            self.fetch(slab, second);
            let third = slab.chunk(Self::chunk(slab, second).before);
            (0..CHUNK_BYTES / 64).for_each(|line| prefetch(third.wrapping_add(64 * line)));
        }
    }

    /// Fetches what a sweep needs for the entries of a chunk of the open list.
    #[inline(never)]
    fn fetch(&self, slab: &Slab, number: u32) {
        let chunk = Self::chunk(slab, number);
        for entry in &chunk.entries[..self.open.end(chunk)] {
            slab.prefetch_spot(entry.index());
            if self.open.is_lowest {
                slab.prefetch_node(entry.index());
            }
        }
    }

    /// The last entry of a bucket that is not empty.
    #[inline(always)]
    fn last_entry(slab: &Slab, b: Bucket) -> Entry {
        // SAFETY: not all places of the last chunk are free.
        unsafe {
            *Self::chunk(slab, b.chunk())
                .entries
                .as_ptr()
                .add(b.filled() - 1)
        }
    }

    /// Removes the entry of a timer that has one.
    pub fn remove(&mut self, slab: &Slab, index: u32) {
        let spot = slab.spot(index).replace(0);
        let bucket = Self::chunk(slab, spot >> PLACE_BITS).bucket;
        let other = match bucket {
            OPEN => self.first_open(slab),
            _ => Self::last_entry(slab, *self.at(bucket)),
        };
        if other.index() != index {
            *Self::entry_at(slab, spot) = other;
            slab.spot(other.index()).set(spot);
        }
        match bucket {
            OPEN => self.leave_first(slab),
            _ => self.shorten(slab, bucket),
        }
    }

    #[inline(always)]
    #[allow(clippy::mut_from_ref)]
    fn entry_at(slab: &Slab, spot: u32) -> &mut Entry {
        &mut Self::chunk(slab, spot >> PLACE_BITS).entries[(spot % PLACES) as usize]
    }

    /// The last entry of a bucket is gone.
    #[inline]
    fn shorten(&mut self, slab: &Slab, bucket: u32) {
        self.entries -= 1;
        let b = self.at(bucket);
        // One place of room more.
        b.0 += 1;
        if b.room() == ENTRIES as u32 {
            self.give_back_last(slab, bucket);
        }
    }

    #[cold]
    fn give_back_last(&mut self, slab: &Slab, bucket: u32) {
        let number = self.at(bucket).chunk();
        let chunk = Self::chunk(slab, number);
        let (before, least) = (chunk.before, chunk.least);
        chunk.before = std::mem::replace(&mut self.free, number);
        *self.at(bucket) = Bucket::new(before, 0);
        if before == 0 {
            *self.mark(bucket) &= !(1 << (bucket as usize % BITS));
        } else {
            Self::chunk(slab, before).least = least;
        }
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
    pub fn least(&mut self, slab: &Slab, bucket: u32) -> u64 {
        Self::chunk(slab, self.at(bucket).chunk()).least
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
        let (b, least) = (*self.at(bucket), self.least(slab, bucket));
        let (mut first, mut seen) = ((0, NEVER), 0);
        let (mut number, mut filled) = (b.chunk(), b.filled());
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
        Self::chunk(slab, b.chunk()).least = first.1;
        Some(first)
    }
}
