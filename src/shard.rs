//! A shard: one thread's private set of levels. Only its owner pushes into
//! it, only the driver takes out; so a push needs no read-modify-write.
//!
//! In memory: the header, one bit for each bucket, the producer's ends, the
//! driver's ends. What the owner writes and what the driver writes are kept
//! on different cache lines.

use crate::bucket::{Back, Chunk, Entry, Front};
use crate::count::Count;
use crate::geometry::{At, Geometry};
use crate::memory::Memory;
use crate::slab::FreeList;
use crate::sync::{fence, init, AtomicPtr, AtomicU32, AtomicU64, Ordering};
use std::mem::size_of;

/// Chunks mapped at a time.
const REGION: usize = if cfg!(any(checked, miri)) { 5 } else { 256 };
const REGION_BYTES: usize = REGION * size_of::<Chunk>();

/// The words that only the owner writes.
#[repr(C, align(64))]
pub(crate) struct Shard {
    pub next: AtomicPtr<Shard>,
    /// 1 while a thread owns it.
    pub owned: AtomicU32,
    pub free: FreeList,
    /// Empty chunks, and how many.
    spare: AtomicPtr<Chunk>,
    spares: AtomicU32,
    /// Regions of chunks, through `next` of the first chunk of each.
    regions: AtomicPtr<Chunk>,
    pub count: Count,
    /// Chunks the driver gives back; the owner takes all at once.
    returned: Returned,
}

#[repr(C, align(64))]
struct Returned(AtomicPtr<Chunk>);

const fn words(g: &Geometry) -> usize {
    (1usize << g.slot_bits).div_ceil(64)
}

pub(crate) const fn bytes(g: &Geometry) -> usize {
    size_of::<Shard>()
        + g.levels as usize * words(g) * size_of::<AtomicU64>()
        + g.buckets() * (size_of::<Back>() + size_of::<Front>())
}

impl Shard {
    /// Makes an empty, owned shard of zeroed memory.
    ///
    /// # Safety
    /// `at` has `bytes(g)` zeroed bytes that nobody else sees, aligned to 64.
    pub unsafe fn make(at: *mut u8, g: &Geometry) -> *mut Shard {
        let shard = at.cast::<Shard>();
        // SAFETY: the caller's memory, laid out as the accessors below read it.
        unsafe {
            shard.write(Shard {
                next: AtomicPtr::new(std::ptr::null_mut()),
                owned: AtomicU32::new(1),
                free: FreeList::new(),
                spare: AtomicPtr::new(std::ptr::null_mut()),
                spares: AtomicU32::new(0),
                regions: AtomicPtr::new(std::ptr::null_mut()),
                count: Count::default(),
                returned: Returned(AtomicPtr::new(std::ptr::null_mut())),
            });
            init(Shard::bits(shard), g.levels as usize * words(g));
            init(Shard::backs(shard, g), g.buckets());
            init(Shard::fronts(shard, g), g.buckets());
        }
        shard
    }

    // SAFETY (all three): the layout of `bytes`; the alignment of each part
    // divides the size of what comes before it.
    unsafe fn bits(shard: *mut Shard) -> *mut AtomicU64 {
        // SAFETY: see above.
        unsafe { shard.add(1) }.cast()
    }
    unsafe fn backs(shard: *mut Shard, g: &Geometry) -> *mut Back {
        // SAFETY: see above.
        unsafe { Shard::bits(shard).add(g.levels as usize * words(g)) }.cast()
    }
    unsafe fn fronts(shard: *mut Shard, g: &Geometry) -> *mut Front {
        // SAFETY: see above.
        unsafe { Shard::backs(shard, g).add(g.buckets()) }.cast()
    }
}

/// A shard of a living wheel, with the wheel's geometry: what makes it safe to
/// look into the memory behind the header.
#[derive(Clone, Copy)]
pub(crate) struct ShardRef<'a> {
    at: *mut Shard,
    geometry: &'a Geometry,
}

impl std::ops::Deref for ShardRef<'_> {
    type Target = Shard;
    fn deref(&self) -> &Shard {
        // SAFETY: by `new`.
        unsafe { &*self.at }
    }
}

impl<'a> ShardRef<'a> {
    /// # Safety
    /// `at` was made with `geometry` and stays mapped for `'a`.
    #[inline]
    pub unsafe fn new(at: *mut Shard, geometry: &'a Geometry) -> Self {
        ShardRef { at, geometry }
    }

    pub fn as_ptr(&self) -> *mut Shard {
        self.at
    }

    #[inline]
    fn index(&self, at: At) -> usize {
        debug_assert!(at.level < self.geometry.levels && at.slot < 1 << self.geometry.slot_bits);
        ((at.level as usize) << self.geometry.slot_bits) + at.slot as usize
    }

    #[inline]
    pub fn back(&self, at: At) -> &Back {
        // SAFETY: `index` is below `buckets()`.
        unsafe { &*Shard::backs(self.at, self.geometry).add(self.index(at)) }
    }

    #[inline]
    pub fn front(&self, at: At) -> &Front {
        // SAFETY: `index` is below `buckets()`.
        unsafe { &*Shard::fronts(self.at, self.geometry).add(self.index(at)) }
    }

    #[inline]
    fn word(&self, level: u32, word: u32) -> &AtomicU64 {
        let i = level as usize * words(self.geometry) + word as usize;
        // SAFETY: below levels * words.
        unsafe { &*Shard::bits(self.at).add(i) }
    }

    /// Makes sure that `want` pushes will find chunks. Owner only.
    #[inline]
    pub fn reserve<M: Memory>(&self, memory: &M, want: u32) -> bool {
        // Relaxed: the owner's own word.
        self.spares.load(Ordering::Relaxed) >= want || self.refill(memory, want)
    }

    #[cold]
    fn refill<M: Memory>(&self, memory: &M, want: u32) -> bool {
        // Relaxed, all but one: the owner's own words.
        while self.spares.load(Ordering::Relaxed) < want {
            // Acquire: pairs with the Release in `give_back`.
            let mut list = self
                .returned
                .0
                .swap(std::ptr::null_mut(), Ordering::Acquire);
            if list.is_null() {
                let region = memory.map(REGION_BYTES).cast::<Chunk>();
                if region.is_null() {
                    return false;
                }
                // SAFETY: REGION_BYTES zeroed bytes, seen by nobody else.
                unsafe { init(region, REGION) };
                // SAFETY: as above. The first chunk only links the regions.
                unsafe { &*region }
                    .next
                    .store(self.regions.load(Ordering::Relaxed), Ordering::Relaxed);
                self.regions.store(region, Ordering::Relaxed);
                for i in 1..REGION {
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

    /// Keeps an empty chunk for later. Owner only.
    pub fn put_spare(&self, chunk: *mut Chunk) {
        // Relaxed, all: the owner's own words.
        // SAFETY: an empty chunk of this shard, in nobody else's hands.
        unsafe { &*chunk }
            .next
            .store(self.spare.load(Ordering::Relaxed), Ordering::Relaxed);
        self.spare.store(chunk, Ordering::Relaxed);
        self.spares
            .store(self.spares.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
    }

    fn take_spare(&self) -> *mut Chunk {
        // Relaxed, all: the owner's own words.
        let chunk = self.spare.load(Ordering::Relaxed);
        // SAFETY: `push` has reserved: there is a spare chunk of this shard.
        let next = unsafe { &*chunk }.next.load(Ordering::Relaxed);
        self.spare.store(next, Ordering::Relaxed);
        self.spares
            .store(self.spares.load(Ordering::Relaxed) - 1, Ordering::Relaxed);
        chunk
    }

    /// Pushes an entry. Owner only. False without memory.
    #[inline]
    pub fn push<M: Memory>(&self, memory: &M, at: At, entry: Entry) -> bool {
        let back = self.back(at);
        let mut chunk = std::ptr::null_mut();
        if back.wants_chunk() {
            if !self.reserve(memory, 1) {
                return false;
            }
            chunk = self.take_spare();
        }
        back.push(self.front(at), entry, chunk);
        true
    }

    /// Marks a bucket occupied, after a push and a full fence; true if it was
    /// not. Owner only.
    #[inline]
    pub fn mark(&self, at: At) -> bool {
        let word = self.word(at.level, at.slot >> 6);
        let bit = 1 << (at.slot & 63);
        // Relaxed: the caller's fence orders the push before this load; if it
        // sees the bit, the driver's clearing comes later and its drain sees
        // the push. Release: pairs with the Acquire in `next_slot`.
        word.load(Ordering::Relaxed) & bit == 0 && word.fetch_or(bit, Ordering::Release) & bit == 0
    }

    /// Whether a bucket is marked.
    #[inline]
    pub fn is_marked(&self, at: At) -> bool {
        // Acquire: pairs with the Release in `mark`.
        self.word(at.level, at.slot >> 6).load(Ordering::Acquire) & (1 << (at.slot & 63)) != 0
    }

    /// Clears a bucket's mark, before it is drained. Driver only.
    #[inline]
    pub fn unmark(&self, at: At) {
        self.word(at.level, at.slot >> 6)
            .fetch_and(!(1 << (at.slot & 63)), Ordering::AcqRel);
        // Pairs with the fence before `mark`.
        crate::sync::fence_after_rmw();
    }

    /// The first marked slot of `level` at `from` or after it, all the way
    /// round once.
    #[inline]
    pub fn next_slot(&self, level: u32, from: u32) -> Option<u32> {
        // A power of two, like the slots.
        let words = words(self.geometry) as u32;
        for n in 0..=words {
            let w = (from / 64 + n) & (words - 1);
            // Acquire: pairs with the Release in `mark`.
            let mut bits = self.word(level, w).load(Ordering::Acquire);
            if n == 0 {
                bits &= u64::MAX << (from % 64);
            }
            if bits != 0 {
                return Some(w * 64 + bits.trailing_zeros());
            }
        }
        None
    }

    /// Takes back a chunk that a drain has emptied. Driver only.
    pub fn give_back(&self, chunk: *mut Chunk) {
        let list = &self.returned.0;
        // Relaxed: only compared.
        let mut top = list.load(Ordering::Relaxed);
        loop {
            // SAFETY: the driver holds the chunk.
            unsafe { &*chunk }.next.store(top, Ordering::Relaxed);
            // Release: pairs with the Acquire in `refill`. No ABA: the owner
            // only ever takes the whole list.
            match list.compare_exchange_weak(top, chunk, Ordering::Release, Ordering::Relaxed) {
                Ok(_) => return,
                Err(seen) => top = seen,
            }
        }
    }

    /// # Safety
    /// Nobody uses the shard or its chunks any more.
    pub unsafe fn unmap<M: Memory>(self, memory: &M) {
        fence(Ordering::SeqCst);
        let mut region = self.regions.load(Ordering::Relaxed);
        while !region.is_null() {
            // SAFETY: a region mapped in `refill`.
            let next = unsafe { &*region }.next.load(Ordering::Relaxed);
            // SAFETY: as above, and unused by the caller's promise.
            unsafe { memory.unmap(region.cast(), REGION_BYTES) };
            region = next;
        }
        // SAFETY: mapped with this size by `Wheel::attach`.
        unsafe { memory.unmap(self.at.cast(), bytes(self.geometry)) };
    }
}
