//! A shard: one thread's own queues, free nodes and counts. Only its owner pushes
//! into it and only the driver takes from it, so a push needs no read-modify-write.
//!
//! In memory: the header, the producer's ends of all buckets, the driver's ends.
//! The wheel knows which buckets have entries (`buckets.rs`).

use super::entry::Entry;
use super::memory::{Memory, Pages};
use super::queue::{extend, prefetch_chunk, push, Chunk, Front, Position};
use super::slab::FreeList;
use super::stats::Count;
use super::tunables::{CLEAN_OFTEN, FIRST_REGION, LARGEST_REGION, MASK_BITS};
use crate::sync::{init, AtomicPtr, AtomicU32, Fresh, Ordering};
use std::cell::Cell;
use std::marker::PhantomData;
use std::ptr::null_mut;

#[repr(C, align(128))]
pub(crate) struct Shard {
    buckets: u32,
    /// Its bit in the masks of the buckets.
    pub mask_bit: u64,
    /// 1 while a thread owns it.
    pub owned: AtomicU32,
    /// The node for which the owner is about to publish a promise, or 0.
    pub publishing: AtomicU32,
    pub free: FreeList,
    // The owner's alone.
    spare: Cell<*mut Chunk>,
    region: Cell<Region>,
    pub count: Count,
    /// The number of pushes at which the owner checks whether most entries are dead.
    pub ask_at: Cell<u64>,
    /// The next shard of the wheel, and of the mask bit.
    pub next: AtomicPtr<Shard>,
    pub next_of_bit: AtomicPtr<Shard>,
    /// The regions, each linked through its first chunk.
    regions: AtomicPtr<Chunk>,
    returned: Returned,
}

/// Chunks that the driver has given back; the owner takes all at once.
#[repr(C, align(128))]
struct Returned(AtomicPtr<Chunk>);

/// Chunks of the last region that were never used.
#[derive(Clone, Copy)]
struct Region {
    next: *mut Chunk,
    left: usize,
    bytes: usize,
}

impl Fresh for Cell<Position> {}

impl Shard {
    /// An empty, owned shard; null without memory.
    pub fn make<M: Memory>(memory: &M, id: u32, buckets: u32) -> *mut Shard {
        let at = memory
            .map(Self::bytes(buckets), Pages::Small)
            .cast::<Shard>();
        if at.is_null() {
            return at;
        }
        // SAFETY: mapped for it, and seen by nobody else.
        unsafe {
            at.write(Shard {
                buckets,
                mask_bit: 1 << (id % MASK_BITS),
                owned: AtomicU32::new(1),
                publishing: AtomicU32::new(0),
                free: FreeList::default(),
                spare: Cell::new(null_mut()),
                region: Cell::new(Region {
                    next: null_mut(),
                    left: 0,
                    bytes: FIRST_REGION / 2,
                }),
                count: Count::default(),
                ask_at: Cell::new(CLEAN_OFTEN),
                next: AtomicPtr::new(null_mut()),
                next_of_bit: AtomicPtr::new(null_mut()),
                regions: AtomicPtr::new(null_mut()),
                returned: Returned(AtomicPtr::new(null_mut())),
            });
            let backs = Self::backs(at);
            init(backs, buckets as usize);
            init(
                backs.add(buckets as usize).cast::<Front>(),
                buckets as usize,
            );
        }
        at
    }

    /// Puts a shard that no other thread knows at the end of the list that begins at `link`.
    pub fn append(mut link: &AtomicPtr<Shard>, shard: *mut Shard) {
        // AcqRel: publishes the shard. Acquire: the one that is there.
        while let Err(there) =
            link.compare_exchange(null_mut(), shard, Ordering::AcqRel, Ordering::Acquire)
        {
            // SAFETY: shards live as long as the wheel.
            link = unsafe { &(*there).next };
        }
    }

    fn bytes(buckets: u32) -> usize {
        size_of::<Shard>() + buckets as usize * (size_of::<Position>() + size_of::<Front>())
    }

    /// The producer's ends; behind them lie the driver's.
    fn backs(at: *mut Shard) -> *mut Cell<Position> {
        at.wrapping_add(1).cast()
    }

    /// The driver's end of a bucket.
    ///
    /// # Safety
    /// `at` is a shard that is mapped for `'a`.
    #[inline(always)]
    pub unsafe fn front<'a>(at: *mut Shard, bucket: u32) -> &'a Front {
        // SAFETY: the caller's promise, and the layout of `bytes`.
        unsafe {
            debug_assert!(bucket < (*at).buckets);
            let fronts = Self::backs(at).add((*at).buckets as usize).cast::<Front>();
            &*fronts.add(bucket as usize)
        }
    }

    /// Takes back a chunk that the driver has emptied. Driver only.
    fn give_back(&self, chunk: *mut Chunk) {
        let list = &self.returned.0;
        // Relaxed: only compared.
        let mut top = list.load(Ordering::Relaxed);
        loop {
            // SAFETY: the driver holds the chunk.
            unsafe { &*chunk }.next.store(top, Ordering::Relaxed);
            // Release: pairs with the Acquire in `take_chunk`. No ABA: the owner
            // only ever takes the whole list.
            match list.compare_exchange_weak(top, chunk, Ordering::Release, Ordering::Relaxed) {
                Ok(_) => return,
                Err(seen) => top = seen,
            }
        }
    }

    /// # Safety
    /// No thread uses the shard or its chunks any more.
    pub unsafe fn unmap<M: Memory>(at: *mut Shard, memory: &M) {
        // SAFETY: the caller's promise.
        let (mut region, buckets) =
            unsafe { ((*at).regions.load(Ordering::Acquire), (*at).buckets) };
        // SAFETY: the first chunk of a region that `new_chunk` has mapped.
        while let Some(first) = unsafe { region.as_ref() } {
            let next = first.next.load(Ordering::Relaxed);
            let bytes = first.entries[0].load(Ordering::Relaxed) as usize;
            // SAFETY: mapped with this size, and unused by the caller's promise.
            unsafe { memory.unmap(region.cast(), bytes) };
            region = next;
        }
        // SAFETY: mapped with this size by `make`.
        unsafe { memory.unmap(at.cast(), Self::bytes(buckets)) };
    }
}

/// The right to push into a shard. Only its owner has it; the owner of the driver's
/// shard is the thread that drives.
#[derive(Clone, Copy)]
pub(crate) struct Producer<'a> {
    at: *mut Shard,
    life: PhantomData<&'a Shard>,
}

impl std::ops::Deref for Producer<'_> {
    type Target = Shard;
    #[inline(always)]
    fn deref(&self) -> &Shard {
        // SAFETY: by `new`.
        unsafe { &*self.at }
    }
}

impl<'a> Producer<'a> {
    /// # Safety
    /// `at` is a shard that is mapped for `'a`, and the calling thread's.
    #[inline(always)]
    pub unsafe fn new(at: *mut Shard) -> Self {
        Producer {
            at,
            life: PhantomData,
        }
    }

    pub fn as_ptr(&self) -> *mut Shard {
        self.at
    }

    #[inline(always)]
    fn back(&self, bucket: u32) -> &Cell<Position> {
        debug_assert!(bucket < self.buckets);
        // SAFETY: a shard, and the layout of `bytes`.
        unsafe { &*Shard::backs(self.at).add(bucket as usize) }
    }

    /// Appends an entry to a bucket if there is room in its last chunk.
    #[inline(always)]
    pub fn push_if_room(&self, bucket: u32, entry: Entry) -> bool {
        // SAFETY: the producer, and the queue's own position.
        unsafe { push(self.back(bucket), entry) }
    }

    /// Prefetches where the entries after the next ones go: the exchange behind a push
    /// would wait for that line.
    #[inline(always)]
    pub fn prefetch_back(&self, bucket: u32) {
        self.back(bucket).get().prefetch_ahead();
    }

    /// Appends an entry to a bucket; false without memory.
    #[inline]
    pub fn push<M: Memory>(self, memory: &M, bucket: u32, entry: Entry) -> bool {
        self.push_if_room(bucket, entry)
            || self.make_room(memory, bucket) && self.push_if_room(bucket, entry)
    }

    /// Appends an empty chunk to a bucket that has no room; false without memory.
    #[inline(never)]
    pub fn make_room<M: Memory>(self, memory: &M, bucket: u32) -> bool {
        let back = self.back(bucket);
        debug_assert!(back.get().is_end());
        let chunk = self.take_chunk(memory);
        if chunk.is_null() {
            return false;
        }
        // SAFETY: the producer; the queue's own ends; a chunk of nobody else's.
        unsafe { extend(back, Shard::front(self.at, bucket), chunk) };
        true
    }

    fn take_chunk<M: Memory>(&self, memory: &M) -> *mut Chunk {
        let mut chunk = self.spare.get();
        let returned = &self.returned.0;
        // Relaxed: spares the exchange if there are none.
        if chunk.is_null() && !returned.load(Ordering::Relaxed).is_null() {
            // Acquire: pairs with the Release in `give_back`.
            chunk = returned.swap(null_mut(), Ordering::Acquire);
        }
        if chunk.is_null() {
            return self.new_chunk(memory);
        }
        // SAFETY: an empty chunk that belongs to this shard alone.
        let rest = unsafe { &*chunk }.next.load(Ordering::Relaxed);
        self.spare.set(rest);
        if !rest.is_null() {
            // It is taken next.
            prefetch_chunk(rest);
        }
        chunk
    }

    /// As [`Front::go_on`]; the chunk goes back to its shard, or to a driver that has none.
    ///
    /// # Safety
    /// The caller drives, and `self` is the driver's. `from` lives as long, and the
    /// bucket has had an entry.
    #[inline]
    pub unsafe fn go_on(&self, from: *mut Shard, bucket: u32) -> bool {
        let free = |chunk: *mut Chunk| {
            if from == self.at || self.spare.get().is_null() {
                let next = self.spare.get();
                // SAFETY: an empty chunk in nobody else's hands.
                unsafe { &*chunk }.next.store(next, Ordering::Relaxed);
                self.spare.set(chunk);
            } else {
                // SAFETY: the caller's promise.
                unsafe { &*from }.give_back(chunk);
            }
        };
        // SAFETY: the driver is the consumer of all queues.
        unsafe { Shard::front(from, bucket).go_on(free) }
    }

    #[cold]
    fn new_chunk<M: Memory>(&self, memory: &M) -> *mut Chunk {
        let mut region = self.region.get();
        if region.left == 0 {
            let bytes = (2 * region.bytes).min(LARGEST_REGION);
            let pages = match bytes == LARGEST_REGION {
                true => Pages::Huge,
                false => Pages::Small,
            };
            let first = memory.map(bytes, pages).cast::<Chunk>();
            if first.is_null() {
                return first;
            }
            // The first chunk holds no entries: it has the size of the region and the link
            // to the one before.
            let left = bytes / size_of::<Chunk>() - 1;
            let before = self.regions.load(Ordering::Relaxed);
            // SAFETY: mapped for this number of chunks; no other thread knows it.
            unsafe {
                init(first, left + 1);
                (*first).next.store(before, Ordering::Relaxed);
                (*first).entries[0].store(bytes as u64, Ordering::Relaxed);
            }
            // Release: pairs with `unmap`.
            self.regions.store(first, Ordering::Release);
            let next = first.wrapping_add(1);
            region = Region { next, left, bytes };
        }
        let chunk = region.next;
        region.left -= 1;
        region.next = chunk.wrapping_add(1);
        self.region.set(region);
        chunk
    }
}
