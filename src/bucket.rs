//! A bucket: a queue of 8-byte entries from one producer (the thread that
//! owns the shard) to one consumer (the driver).
//!
//! A push is plain stores and one release store. The chunks that the driver
//! has emptied go back to the shard they came from; the last chunk of a queue
//! stays, so that producer and driver never contend for the ends.

use crate::sync::{AtomicPtr, AtomicU32, AtomicU64, Ordering};

pub(crate) const CHUNK: usize = 30;

/// 256 bytes of entries. All zero is an empty chunk.
#[repr(C, align(64))]
pub(crate) struct Chunk {
    pub next: AtomicPtr<Chunk>,
    filled: AtomicU32,
    entries: [AtomicU64; CHUNK],
}

/// All zero is an empty bucket.
#[repr(C)]
pub(crate) struct Bucket {
    /// Producer only: where the next entry goes.
    tail: AtomicPtr<Chunk>,
    /// Set once by the producer, then the driver's.
    head: AtomicPtr<Chunk>,
    /// Driver only: entries taken from `head`.
    taken: AtomicU32,
}

impl Bucket {
    /// Whether the next push needs a chunk.
    pub fn wants_chunk(&self) -> bool {
        // Relaxed: the producer's own words.
        let tail = self.tail.load(Ordering::Relaxed);
        // SAFETY: a queue's last chunk stays mapped and in the queue.
        tail.is_null() || unsafe { &*tail }.filled.load(Ordering::Relaxed) as usize == CHUNK
    }

    /// Appends an entry; `chunk` is an empty one if `wants_chunk`, else null.
    pub fn push(&self, entry: u64, chunk: *mut Chunk) {
        let tail = self.tail.load(Ordering::Relaxed);
        if chunk.is_null() {
            // SAFETY: as in `wants_chunk`; without a chunk there is a tail.
            let t = unsafe { &*tail };
            let n = t.filled.load(Ordering::Relaxed);
            t.entries[n as usize].store(entry, Ordering::Relaxed);
            // Release: pairs with the Acquire in `pop`.
            t.filled.store(n + 1, Ordering::Release);
            return;
        }
        // SAFETY: the caller hands over an empty chunk that nobody else has.
        let c = unsafe { &*chunk };
        c.next.store(std::ptr::null_mut(), Ordering::Relaxed);
        c.entries[0].store(entry, Ordering::Relaxed);
        c.filled.store(1, Ordering::Relaxed);
        self.tail.store(chunk, Ordering::Relaxed);
        // Release: publishes the chunk; pairs with the Acquires in `pop`.
        if tail.is_null() {
            self.head.store(chunk, Ordering::Release);
        } else {
            // SAFETY: the old tail is still in the queue: the driver leaves a
            // chunk only after it has seen `next`.
            unsafe { &*tail }.next.store(chunk, Ordering::Release);
        }
    }

    /// Takes the oldest entry, and a chunk that became free or null.
    pub fn pop(&self) -> (Option<u64>, *mut Chunk) {
        // Acquire: pairs with the first push.
        let head = self.head.load(Ordering::Acquire);
        if head.is_null() {
            return (None, std::ptr::null_mut());
        }
        let taken = self.taken.load(Ordering::Relaxed) as usize;
        // SAFETY: the driver's head is mapped until the driver leaves it.
        let h = unsafe { &*head };
        if taken < CHUNK {
            // Acquire: pairs with the Release in `push`.
            if taken == h.filled.load(Ordering::Acquire) as usize {
                return (None, std::ptr::null_mut());
            }
            self.taken.store(taken as u32 + 1, Ordering::Relaxed);
            return (
                Some(h.entries[taken].load(Ordering::Relaxed)),
                std::ptr::null_mut(),
            );
        }
        // Acquire: pairs with the Release of the chunk that follows.
        let next = h.next.load(Ordering::Acquire);
        if next.is_null() {
            return (None, std::ptr::null_mut());
        }
        self.head.store(next, Ordering::Relaxed);
        self.taken.store(1, Ordering::Relaxed);
        // SAFETY: published by the Release just acquired, with one entry.
        (
            Some(unsafe { &*next }.entries[0].load(Ordering::Relaxed)),
            head,
        )
    }
}
