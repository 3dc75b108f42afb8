//! A bucket: a queue of entries from one producer (the thread that owns the
//! shard) to one consumer (the driver).
//!
//! An entry is a promise that somebody will look at a node at a tick: 26 bits
//! of index, the low 29 bits of the tick, and one that says whether these count
//! ticks or, for a promise far away, units of 2^24 ticks. That is seven bytes. A
//! push is plain stores and one release store. The last chunk of a queue stays in it, so
//! that producer and driver never contend for the ends; what the driver has
//! emptied goes back to the shard it came from.

use crate::slab::INDEX_BITS;
use crate::sync::{AtomicPtr, AtomicU16, AtomicU32, AtomicU8, Fresh, Ordering};

/// Bits of a tick that an entry keeps.
const TICK_BITS: u32 = 55 - INDEX_BITS;
/// The bit of an entry that says that it is far away.
const FAR_SHIFT: u32 = 55;
/// Ticks that a promise far away is a multiple of, as a power of two.
const UNIT_BITS: u32 = 24;
/// A promise is made for the deadline's own tick if that is not further from
/// the hand than this; else for a unit before it, where it is made again.
pub(crate) const HORIZON: u64 = 1 << (TICK_BITS - 2);
/// A promise is never further from the hand than this.
const FARTHEST: u64 = HORIZON << UNIT_BITS;
/// How far the hand may go while entries are told apart by where it came from:
/// together with [`HORIZON`], half of their range.
pub(crate) const NEAR_LEAP: u64 = HORIZON - 1;
/// Entries of a chunk.
pub(crate) const CHUNK: usize = if cfg!(checked) { 2 } else { 34 };

/// A promise: who is to be looked at, and when.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Entry(u64);

/// The tick at or before `tick` that can be promised from the hand at `hand`,
/// which is before it.
#[inline]
pub(crate) fn promise_tick(tick: u64, hand: u64) -> u64 {
    if tick - hand <= HORIZON {
        return tick;
    }
    tick.min(hand + FARTHEST) & (u64::MAX << UNIT_BITS)
}

impl Entry {
    /// For a tick that can be promised from the hand at `hand`, or from where
    /// it goes.
    #[inline]
    pub fn new(index: u32, tick: u64, hand: u64) -> Self {
        let far = tick - hand > HORIZON && tick & ((1 << UNIT_BITS) - 1) == 0;
        let tick = if far { tick >> UNIT_BITS } else { tick };
        let tick = tick & ((1 << TICK_BITS) - 1);
        Entry(u64::from(far) << FAR_SHIFT | tick << INDEX_BITS | u64::from(index))
    }

    #[inline]
    fn unit_bits(self) -> u32 {
        (self.0 >> FAR_SHIFT) as u32 * UNIT_BITS
    }

    #[inline]
    pub fn index(self) -> u32 {
        self.0 as u32 & ((1 << INDEX_BITS) - 1)
    }

    /// The full tick, which lies within half the entry's range of `near`.
    #[inline]
    pub fn tick(self, near: u64) -> u64 {
        let unit = self.unit_bits();
        let near = near >> unit;
        let ahead = ((self.0 >> INDEX_BITS).wrapping_sub(near) << (64 - TICK_BITS)) as i64;
        near.wrapping_add_signed(ahead >> (64 - TICK_BITS)) << unit
    }

    /// Whether it may be an entry for `tick`.
    pub fn stands_for(self, tick: u64) -> bool {
        let unit = self.unit_bits();
        ((self.0 >> INDEX_BITS) ^ (tick >> unit)) << (64 - TICK_BITS) == 0
            && tick >> unit << unit == tick
    }
}

/// 256 bytes of entries. All zero is an empty chunk.
#[repr(C, align(64))]
pub(crate) struct Chunk {
    pub next: AtomicPtr<Chunk>,
    filled: AtomicU32,
    low: [AtomicU32; CHUNK],
    mid: [AtomicU16; CHUNK],
    high: [AtomicU8; CHUNK],
}

#[cfg(not(checked))]
const _: () = assert!(std::mem::size_of::<Chunk>() == 256);

impl Fresh for Chunk {
    #[cfg(checked)]
    fn fresh() -> Self {
        Chunk {
            next: AtomicPtr::new(std::ptr::null_mut()),
            filled: AtomicU32::new(0),
            low: std::array::from_fn(|_| AtomicU32::new(0)),
            mid: std::array::from_fn(|_| AtomicU16::new(0)),
            high: std::array::from_fn(|_| AtomicU8::new(0)),
        }
    }
}

impl Chunk {
    // Relaxed throughout: `filled` publishes the entries below it.
    #[inline]
    fn put(&self, at: usize, entry: Entry) {
        self.low[at].store(entry.0 as u32, Ordering::Relaxed);
        self.mid[at].store((entry.0 >> 32) as u16, Ordering::Relaxed);
        self.high[at].store((entry.0 >> 48) as u8, Ordering::Relaxed);
    }

    #[inline]
    fn take(&self, at: usize) -> Entry {
        let low = u64::from(self.low[at].load(Ordering::Relaxed));
        let mid = u64::from(self.mid[at].load(Ordering::Relaxed));
        let high = u64::from(self.high[at].load(Ordering::Relaxed));
        Entry(low | mid << 32 | high << 48)
    }
}

/// The producer's end. All zero is an empty bucket.
#[repr(transparent)]
pub(crate) struct Back {
    /// The last chunk, or null before the first push.
    tail: AtomicPtr<Chunk>,
}

/// The driver's end. All zero is an empty bucket.
#[repr(C)]
pub(crate) struct Front {
    /// The first chunk: set once by the producer, then the driver's.
    head: AtomicPtr<Chunk>,
    /// Entries taken from it. Driver only.
    taken: AtomicU32,
}

impl Fresh for Back {
    #[cfg(checked)]
    fn fresh() -> Self {
        Back {
            tail: AtomicPtr::new(std::ptr::null_mut()),
        }
    }
}

impl Fresh for Front {
    #[cfg(checked)]
    fn fresh() -> Self {
        Front::empty()
    }
}

impl Back {
    /// Whether the next push needs a chunk. Producer only.
    #[inline]
    pub fn wants_chunk(&self) -> bool {
        // Relaxed: the producer's own words.
        let tail = self.tail.load(Ordering::Relaxed);
        // SAFETY: a queue's last chunk stays mapped and in the queue.
        tail.is_null() || unsafe { &*tail }.filled.load(Ordering::Relaxed) as usize == CHUNK
    }

    /// Appends an entry; `chunk` is one that nobody else has if
    /// `wants_chunk`, else null. Producer only.
    #[inline]
    pub fn push(&self, front: &Front, entry: Entry, chunk: *mut Chunk) {
        // Relaxed: the producer's own word.
        let tail = self.tail.load(Ordering::Relaxed);
        if chunk.is_null() {
            // SAFETY: as in `wants_chunk`; without a chunk there is a tail.
            let t = unsafe { &*tail };
            // Relaxed: only the producer writes it.
            let n = t.filled.load(Ordering::Relaxed);
            t.put(n as usize, entry);
            // Release: pairs with the Acquire in `pop`.
            t.filled.store(n + 1, Ordering::Release);
            return;
        }
        // SAFETY: the caller hands over a chunk that nobody else has.
        let c = unsafe { &*chunk };
        // Relaxed, all: published by the Release below.
        c.next.store(std::ptr::null_mut(), Ordering::Relaxed);
        c.put(0, entry);
        c.filled.store(1, Ordering::Relaxed);
        self.tail.store(chunk, Ordering::Relaxed);
        // Release: publishes the chunk; pairs with the Acquires in `pop`.
        if tail.is_null() {
            front.head.store(chunk, Ordering::Release);
        } else {
            // SAFETY: the old tail is still in the queue: the driver leaves a
            // chunk only after it has seen `next`.
            unsafe { &*tail }.next.store(chunk, Ordering::Release);
        }
    }
}

impl Front {
    pub fn empty() -> Self {
        Front {
            head: AtomicPtr::new(std::ptr::null_mut()),
            taken: AtomicU32::new(0),
        }
    }

    pub fn is_detached_empty(&self) -> bool {
        // Relaxed: asked by the driver of a queue that has no producer.
        self.head.load(Ordering::Relaxed).is_null()
    }

    /// Takes the oldest entry, and a chunk that became free or null. Driver
    /// only.
    #[inline]
    pub fn pop(&self) -> (Option<Entry>, *mut Chunk) {
        // Acquire: pairs with the first push.
        let head = self.head.load(Ordering::Acquire);
        if head.is_null() {
            return (None, std::ptr::null_mut());
        }
        // Relaxed: the driver's own word.
        let taken = self.taken.load(Ordering::Relaxed) as usize;
        // SAFETY: the driver's head is mapped until the driver leaves it.
        let h = unsafe { &*head };
        if taken < CHUNK {
            // Acquire: pairs with the Release in `push`.
            if taken == h.filled.load(Ordering::Acquire) as usize {
                return (None, std::ptr::null_mut());
            }
            self.taken.store(taken as u32 + 1, Ordering::Relaxed);
            return (Some(h.take(taken)), std::ptr::null_mut());
        }
        // Acquire: pairs with the Release of the chunk that follows.
        let next = h.next.load(Ordering::Acquire);
        if next.is_null() {
            return (None, std::ptr::null_mut());
        }
        // Relaxed: the driver's own words by now.
        self.head.store(next, Ordering::Relaxed);
        self.taken.store(1, Ordering::Relaxed);
        // SAFETY: published, with one entry, by the Release just acquired.
        (Some(unsafe { &*next }.take(0)), head)
    }

    /// The entry `n` places on, if it is in the same chunk. Driver only.
    #[inline]
    pub fn ahead(&self, n: usize) -> Option<Entry> {
        // Orderings as in `pop`.
        let head = self.head.load(Ordering::Acquire);
        if head.is_null() {
            return None;
        }
        let at = self.taken.load(Ordering::Relaxed) as usize + n;
        // SAFETY: as in `pop`.
        let h = unsafe { &*head };
        (at < h.filled.load(Ordering::Acquire) as usize).then(|| h.take(at))
    }

    /// How many entries there are. Driver only.
    pub fn len(&self) -> usize {
        // Orderings as in `pop`.
        let mut at = self.head.load(Ordering::Acquire);
        let mut n = 0;
        let taken = self.taken.load(Ordering::Relaxed) as usize;
        while !at.is_null() {
            // SAFETY: as in `peek`.
            let chunk = unsafe { &*at };
            n += chunk.filled.load(Ordering::Acquire) as usize;
            at = chunk.next.load(Ordering::Acquire);
        }
        n.saturating_sub(taken)
    }

    /// Shows every entry without taking it, at most `most` of them; false if
    /// there are more. Driver only.
    pub fn peek(&self, most: usize, mut see: impl FnMut(Entry)) -> bool {
        // Orderings as in `pop`.
        let mut at = self.head.load(Ordering::Acquire);
        let mut from = self.taken.load(Ordering::Relaxed) as usize;
        let mut left = most;
        while !at.is_null() {
            // SAFETY: a chunk of the queue, which only the driver shortens.
            let chunk = unsafe { &*at };
            let filled = chunk.filled.load(Ordering::Acquire) as usize;
            if filled - from > left {
                return false;
            }
            left -= filled - from;
            for i in from..filled {
                see(chunk.take(i));
            }
            from = 0;
            at = chunk.next.load(Ordering::Acquire);
        }
        true
    }

    /// Moves the whole queue into `to`, which is empty. The caller is producer
    /// and driver in one, which only holds for the driver's own shard.
    pub fn detach(&self, back: &Back, to: &Front) {
        // Relaxed, all: one thread at a time, under the driver lock.
        to.head
            .store(self.head.load(Ordering::Relaxed), Ordering::Relaxed);
        to.taken
            .store(self.taken.load(Ordering::Relaxed), Ordering::Relaxed);
        self.head.store(std::ptr::null_mut(), Ordering::Relaxed);
        self.taken.store(0, Ordering::Relaxed);
        back.tail.store(std::ptr::null_mut(), Ordering::Relaxed);
    }

    /// Takes the last chunk out of a detached queue that is used up.
    pub fn last_chunk(&self) -> *mut Chunk {
        // Relaxed: as in `detach`.
        let last = self.head.load(Ordering::Relaxed);
        self.head.store(std::ptr::null_mut(), Ordering::Relaxed);
        last
    }
}

#[cfg(all(test, not(checked)))]
mod tests {
    use super::*;

    #[test]
    fn an_entry_keeps_index_and_tick() {
        for hand in [0, 1 << 28, (1 << 29) - 1, 1 << 29, (1 << 62) + 12345] {
            for ahead in [1, 2, 1000, HORIZON, HORIZON + 1, 1 << 40, 1 << 50, 1 << 61] {
                let tick = promise_tick(hand + ahead, hand);
                assert!(hand < tick && tick <= hand + ahead);
                assert!(tick == hand + ahead || ahead > HORIZON);
                let e = Entry::new((1 << INDEX_BITS) - 1, tick, hand);
                assert_eq!(e.index(), (1 << INDEX_BITS) - 1);
                assert!(e.stands_for(tick) && !e.stands_for(tick + 1));
                // From where the hand was, and from where it goes.
                assert_eq!(e.tick(hand), tick);
                assert_eq!(e.tick(hand.saturating_sub(NEAR_LEAP)), tick);
                assert_eq!(e.tick(hand + (tick - hand).min(NEAR_LEAP)), tick);
            }
        }
    }
}
