//! The queue of a bucket: entries from one producer, the thread that owns the
//! shard, to one consumer, the driver.
//!
//! A queue is a chain of chunks. The producer's position is after the last entry,
//! the consumer's at the first. An entry is never 0, and the consumer writes zeros over
//! the entries that it takes. So a zero marks the place of the producer's next write,
//! and an emptied chunk is ready for use.
//!
//! The last chunk stays in its queue, so the two threads never contend for an end.

use super::entry::Entry;
use super::tunables::ENTRIES;
use crate::sync::{prefetch, AtomicPtr, AtomicU64, Fresh, Ordering};
use std::cell::Cell;

/// All zero is an empty chunk.
#[derive(Default)]
#[repr(C)]
#[cfg_attr(not(checked), repr(align(256)))]
#[cfg_attr(checked, repr(align(128)))]
pub(crate) struct Chunk {
    /// The chunk that follows, in a queue or in a list of empty chunks.
    pub next: AtomicPtr<Chunk>,
    pub entries: [AtomicU64; ENTRIES],
}

impl Fresh for Chunk {}

/// A position in a queue: null, an entry of a chunk, or the end of a chunk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(transparent)]
pub(crate) struct Position(*mut Chunk);

/// The bytes of a chunk as positions count them, and of an entry. A position is the
/// address of its entry. The end of a chunk, and null, are multiples of [`SPAN`]: one test
/// finds both. The model checkers' atomics are larger than words. There a position is
/// the address of its chunk, with the entry in the low bits.
const SPAN: usize = if cfg!(checked) { 128 } else { 256 };
const STEP: usize = if cfg!(checked) { 32 } else { 8 };
const _: () = assert!(cfg!(checked) || size_of::<Chunk>() == SPAN);

impl Default for Position {
    fn default() -> Self {
        Position(std::ptr::null_mut())
    }
}

#[inline]
pub(crate) fn prefetch_chunk(at: *const Chunk) {
    for line in 0..SPAN / 64 {
        prefetch(at.cast::<u8>().wrapping_add(64 * line));
    }
}

impl Position {
    #[inline(always)]
    fn first(chunk: *mut Chunk) -> Self {
        Position(chunk.wrapping_byte_add(SPAN - ENTRIES * STEP))
    }

    #[inline(always)]
    fn after(self) -> Self {
        Position(self.0.wrapping_byte_add(STEP))
    }

    #[inline(always)]
    pub fn is_end(self) -> bool {
        self.0.addr() % SPAN == 0
    }

    /// The chunk of an entry, or the one that ends here.
    #[inline(always)]
    fn chunk(self) -> *mut Chunk {
        let offset = (self.0.addr() - 1) % SPAN + 1;
        self.0.wrapping_byte_sub(offset)
    }

    /// Shows the entries from here to the end of the chunk, or to where the producer
    /// writes next: a look ahead.
    #[inline]
    pub fn ahead(mut self, mut see: impl FnMut(Entry)) {
        while !self.is_end() {
            // SAFETY: not at the end of a chunk of the queue. Relaxed: only to prefetch.
            let entry = unsafe { self.word() }.load(Ordering::Relaxed);
            if entry == 0 {
                return;
            }
            see(Entry(entry));
            self = self.after();
        }
    }

    /// Prefetches the line behind that of this position.
    #[inline(always)]
    pub fn prefetch_ahead(self) {
        prefetch(self.0.cast::<u8>().wrapping_add(64));
    }

    /// Prefetches the memory of a chunk, at its beginning.
    #[inline]
    pub fn prefetch(self) {
        prefetch_chunk(self.chunk());
    }

    /// The first position of the chunk behind this one.
    #[inline(always)]
    fn next_chunk(self) -> Option<Position> {
        // SAFETY: chunks stay mapped while the wheel lives. Acquire: pairs with `extend`.
        let next = unsafe { &*self.chunk() }.next.load(Ordering::Acquire);
        (!next.is_null()).then(|| Position::first(next))
    }

    /// The number of entries from here to a position in the same chunk, or its end.
    #[inline(always)]
    pub fn distance(self, to: Position) -> usize {
        (to.0.addr() - self.0.addr()) / STEP
    }

    /// # Safety
    /// Not at the end, and in a chunk that is mapped.
    #[inline(always)]
    unsafe fn word<'a>(self) -> &'a AtomicU64 {
        #[cfg(not(checked))]
        // SAFETY: the caller's promise.
        return unsafe { &*self.0.cast() };
        #[cfg(checked)]
        // SAFETY: as above.
        return unsafe {
            &(&(*self.chunk()).entries)[Position::first(self.chunk()).distance(self)]
        };
    }
}

/// The consumer's end of a queue. The producer writes it once, with the first
/// chunk. All zero is an empty queue.
#[derive(Default)]
#[repr(transparent)]
pub(crate) struct Front(AtomicPtr<Chunk>);

impl Fresh for Front {}

/// Appends an entry if there is room in the last chunk: step `arm.push`.
///
/// # Safety
/// The caller is the producer, and `back` is the queue's.
#[inline(always)]
pub(crate) unsafe fn push(back: &Cell<Position>, entry: Entry) -> bool {
    let at = back.get();
    if at.is_end() {
        return false;
    }
    // SAFETY: the last chunk of a queue is mapped.
    // Release: pairs with the Acquire in `take`.
    unsafe { at.word() }.store(entry.0, Ordering::Release);
    back.set(at.after());
    true
}

/// Appends an empty chunk.
///
/// # Safety
/// As of `push`; `back` is at an end; `chunk` is empty and the caller's.
pub(crate) unsafe fn extend(back: &Cell<Position>, front: &Front, chunk: *mut Chunk) {
    // SAFETY: the caller's chunk. Relaxed: published below.
    unsafe { &*chunk }
        .next
        .store(std::ptr::null_mut(), Ordering::Relaxed);
    let first = Position::first(chunk);
    let at = back.get();
    if at.0.is_null() {
        // Release: pairs with the Acquire in `take`.
        front.0.store(first.0, Ordering::Release);
    } else {
        // SAFETY: the last chunk stays in the queue until it has a next one.
        // Release: pairs with the Acquire in `go_on`.
        unsafe { &*at.chunk() }.next.store(chunk, Ordering::Release);
    }
    back.set(first);
}

impl Front {
    /// Takes the next entry of the present chunk. `None` at its end, or where the
    /// producer writes next.
    ///
    /// # Safety
    /// The caller is the consumer.
    #[inline(always)]
    pub unsafe fn take(&self) -> Option<Entry> {
        let at = self.first();
        if at.is_end() {
            return None;
        }
        // SAFETY: not at the end of a chunk of the queue.
        let word = unsafe { at.word() };
        // Acquire: pairs with the Release in `push`.
        let entry = word.load(Ordering::Acquire);
        if entry == 0 {
            return None;
        }
        // Relaxed: handed on with the chunk.
        word.store(0, Ordering::Relaxed);
        // Relaxed: the consumer's own word from the first push on.
        self.0.store(at.after().0, Ordering::Relaxed);
        Some(Entry(entry))
    }

    /// Goes from the end of a chunk to the next one, and passes the chunk that became
    /// free to `free`. False if the present one is still in use.
    ///
    /// # Safety
    /// The caller is the consumer, and the queue has had an entry.
    #[inline]
    pub unsafe fn go_on(&self, free: impl FnOnce(*mut Chunk)) -> bool {
        // Relaxed: the consumer's own word.
        let at = Position(self.0.load(Ordering::Relaxed));
        if !at.is_end() {
            return false;
        }
        let Some(next) = at.next_chunk() else {
            return false;
        };
        // Relaxed: as in `take`.
        self.0.store(next.0, Ordering::Relaxed);
        free(at.chunk());
        true
    }

    /// The position of the next entry, or null.
    #[inline(always)]
    pub fn first(&self) -> Position {
        // Acquire: pairs with the first `extend`.
        Position(self.0.load(Ordering::Acquire))
    }

    /// The position of the first entry of the second chunk.
    ///
    /// # Safety
    /// The queue has had an entry.
    #[inline]
    pub unsafe fn second(&self) -> Option<Position> {
        if cfg!(checked) {
            return None;
        }
        self.first().next_chunk()
    }

    /// Shows the entries of the second chunk, and prefetches the third.
    ///
    /// # Safety
    /// The caller is the consumer, and the queue has had an entry.
    #[inline]
    pub unsafe fn look_ahead(&self, see: impl FnMut(Entry)) {
        // SAFETY: the caller's promise.
        if let Some(second) = unsafe { self.second() } {
            if let Some(third) = second.next_chunk() {
                third.prefetch();
            }
            second.ahead(see);
        }
    }

    #[inline]
    pub fn is_empty(&self) -> bool {
        self.peek(0, |_| ())
    }

    /// Shows at most `most` entries without taking them; false if there are more.
    /// Exact for the consumer. Another thread may see entries that the consumer has
    /// taken or moved, and must check that no consumer was at work.
    pub fn peek(&self, most: usize, mut see: impl FnMut(Entry)) -> bool {
        // Orderings as in `take` and `go_on`.
        let mut at = self.first();
        let mut left = most;
        if at.0.is_null() {
            return true;
        }
        loop {
            if at.is_end() {
                let Some(next) = at.next_chunk() else {
                    return true;
                };
                at = next;
                continue;
            }
            // SAFETY: chunks stay mapped while the wheel lives, and not at the end.
            let entry = unsafe { at.word() }.load(Ordering::Acquire);
            if entry == 0 {
                return true;
            }
            if left == 0 {
                return false;
            }
            left -= 1;
            see(Entry(entry));
            at = at.after();
        }
    }
}
