//! A shard: one thread's private set of levels. Only its owner pushes into
//! it, only the driver takes out.

use crate::bucket::{Bucket, Chunk};
use crate::geometry::Geometry;
use crate::memory::Memory;
use crate::sync::{fence, AtomicPtr, AtomicU32, AtomicU64, Ordering};

const STEP: usize = 64 * 1024;
const MAX_WORDS: usize = 1024;

pub(crate) struct Shard {
    pub next: AtomicPtr<Shard>,
    /// 1 while a thread owns it.
    pub owned: AtomicU32,
    /// Owner only: empty chunks.
    spare: AtomicPtr<Chunk>,
    spares: AtomicU32,
    /// Regions of chunks, through `next` of the first chunk of each.
    regions: AtomicPtr<Chunk>,
    /// Chunks the driver gives back; the owner takes all at once.
    returned: AtomicPtr<Chunk>,
    bits: [AtomicU64; MAX_WORDS],
}

pub(crate) const fn bytes(g: &Geometry) -> usize {
    std::mem::size_of::<Shard>() + g.buckets() * std::mem::size_of::<Bucket>()
}

impl Shard {
    pub fn bucket(&self, g: &Geometry, level: u32, slot: u32) -> &Bucket {
        let i = ((level as usize) << g.slot_bits) + slot as usize;
        debug_assert!(i < g.buckets());
        // SAFETY: a shard is mapped with `bytes(g)`: its buckets follow it.
        unsafe { &*std::ptr::from_ref(self).add(1).cast::<Bucket>().add(i) }
    }

    fn word(&self, g: &Geometry, level: u32, slot: u32) -> &AtomicU64 {
        let words = (1usize << g.slot_bits).div_ceil(64);
        &self.bits[level as usize * words + (slot as usize >> 6)]
    }

    /// Makes sure that `want` pushes will find chunks. Owner only.
    pub fn reserve(&self, memory: &dyn Memory, want: u32) -> bool {
        while self.spares.load(Ordering::Relaxed) < want {
            // Acquire: pairs with the Release in `give_back`.
            let mut list = self.returned.swap(std::ptr::null_mut(), Ordering::Acquire);
            if list.is_null() {
                let region = memory.map(STEP).cast::<Chunk>();
                if region.is_null() {
                    return false;
                }
                // SAFETY: STEP zeroed bytes are that many empty chunks.
                unsafe { &*region }
                    .next
                    .store(self.regions.load(Ordering::Relaxed), Ordering::Relaxed);
                self.regions.store(region, Ordering::Relaxed);
                for i in 1..STEP / std::mem::size_of::<Chunk>() {
                    // SAFETY: within the region.
                    self.put_spare(unsafe { region.add(i) });
                }
            }
            while !list.is_null() {
                // SAFETY: a returned chunk belongs to this shard alone.
                let next = unsafe { &*list }.next.load(Ordering::Relaxed);
                self.put_spare(list);
                list = next;
            }
        }
        true
    }

    fn put_spare(&self, chunk: *mut Chunk) {
        // SAFETY: an empty chunk of this shard, in nobody else's hands.
        unsafe { &*chunk }
            .next
            .store(self.spare.load(Ordering::Relaxed), Ordering::Relaxed);
        self.spare.store(chunk, Ordering::Relaxed);
        self.spares
            .store(self.spares.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
    }

    fn take_spare(&self) -> *mut Chunk {
        let chunk = self.spare.load(Ordering::Relaxed);
        if !chunk.is_null() {
            // SAFETY: a spare chunk of this shard.
            self.spare.store(
                unsafe { &*chunk }.next.load(Ordering::Relaxed),
                Ordering::Relaxed,
            );
            self.spares
                .store(self.spares.load(Ordering::Relaxed) - 1, Ordering::Relaxed);
        }
        chunk
    }

    /// Pushes an entry. Owner only. False without a chunk.
    pub fn push(&self, g: &Geometry, memory: &dyn Memory, at: (u32, u32), entry: u64) -> bool {
        let bucket = self.bucket(g, at.0, at.1);
        let mut chunk = std::ptr::null_mut();
        if bucket.wants_chunk() {
            if !self.reserve(memory, 1) {
                return false;
            }
            chunk = self.take_spare();
        }
        bucket.push(entry, chunk);
        true
    }

    /// Marks a bucket occupied after a push and a full fence.
    pub fn mark(&self, g: &Geometry, at: (u32, u32)) {
        let word = self.word(g, at.0, at.1);
        let bit = 1 << (at.1 & 63);
        // Relaxed: the caller's fence orders the push before this load; if it
        // sees the bit, the driver's clearing comes later and its drain sees
        // the push.
        if word.load(Ordering::Relaxed) & bit == 0 {
            word.fetch_or(bit, Ordering::Release);
        }
    }

    /// Clears a bucket's bit before it is drained. Driver only.
    pub fn unmark(&self, g: &Geometry, at: (u32, u32)) {
        self.word(g, at.0, at.1)
            .fetch_and(!(1 << (at.1 & 63)), Ordering::AcqRel);
        // Pairs with the fence before `mark`.
        fence(Ordering::SeqCst);
    }

    /// The first occupied slot of `level` after `digit`, all the way round.
    pub fn next_slot(&self, g: &Geometry, level: u32, digit: u32) -> Option<u32> {
        let slots = 1u32 << g.slot_bits;
        let words = slots.div_ceil(64);
        let first = (digit + 1) % slots;
        for n in 0..=words {
            let w = (first / 64 + n) % words;
            let mut bits = self.word(g, level, w * 64).load(Ordering::Acquire);
            if n == 0 {
                bits &= u64::MAX << (first % 64);
            }
            if bits != 0 {
                return Some(w * 64 + bits.trailing_zeros());
            }
        }
        None
    }

    /// Takes back a chunk that a drain has emptied. Driver only.
    pub fn give_back(&self, chunk: *mut Chunk) {
        let mut top = self.returned.load(Ordering::Relaxed);
        loop {
            // SAFETY: the driver holds the chunk.
            unsafe { &*chunk }.next.store(top, Ordering::Relaxed);
            // Release: pairs with the Acquire in `reserve`. No ABA: the owner
            // only ever takes the whole list.
            match self.returned.compare_exchange_weak(
                top,
                chunk,
                Ordering::Release,
                Ordering::Relaxed,
            ) {
                Ok(_) => return,
                Err(seen) => top = seen,
            }
        }
    }

    /// # Safety
    /// Nobody uses the shard or its chunks any more.
    pub unsafe fn unmap(&self, memory: &dyn Memory) {
        let mut region = self.regions.load(Ordering::Relaxed);
        while !region.is_null() {
            // SAFETY: a region mapped in `reserve`.
            let next = unsafe { &*region }.next.load(Ordering::Relaxed);
            // SAFETY: as above, and unused by the caller's promise.
            unsafe { memory.unmap(region.cast(), STEP) };
            region = next;
        }
    }
}
