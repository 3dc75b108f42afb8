//! Which buckets have entries, and in which shards. The *summary* has one bit for
//! each bucket, over all shards. Each bucket has a mask with one bit for each shard.
//!
//! So the cost of a scan does not grow with the number of threads.
//!
//! # Setting and clearing marks
//!
//! ```text
//!   arming thread                     driver
//!   arm.push      push the entry      bucket.take   clear the summary bit (RMW)
//!   --- fence ---                                   take the mask         (RMW)
//!   arm.mark      set the mask bit                  --- fence ---
//!                   (RMW)                           drain the queues
//!                 set the summary bit
//! ```
//! If the thread sets its mask bit before the driver takes the mask, the driver sees the
//! bit, and the entry. If it sets the bit afterwards, it has acquired the clearing of
//! the summary bit, and sets that bit again.
//!
//! A thread that finds both bits set sets none: the driver has not taken the mask yet,
//! and the fences make the driver see the entry. It also checks the summary, because
//! more than 64 shards share bits, and the thread that has set a shared bit may be
//! stopped before it sets the summary bit.
//!
//! # The driver's own entries
//!
//! Entries that the driver places again lie in its own shard, into which no other
//! thread pushes. Their buckets are marked in the driver's own summary, by plain
//! stores. A thread that reads it checks afterwards that no thread drove (`query.rs`).
//!
//! # The urgent bucket
//!
//! One bucket belongs to no tick. Each step of a sweep empties it before the hand moves.
//! An entry goes there if the hand has already passed its tick.

use super::levels::Levels;
use super::memory::{Memory, Pages};
use super::shard::Shard;
use super::tunables::{MASK_BITS, WORD};
use crate::sync::{fence_after_rmw, fence_between_loads, init, AtomicPtr, AtomicU64, Ordering};

/// The mask bit of the driver's own shard, which is the first.
const OWN: u64 = 1;

/// The shards of some mask bits.
#[derive(Clone, Copy)]
pub(crate) struct Shards {
    bits: u64,
    /// The one to continue at, of a bit that is gone, or null.
    next: *mut Shard,
}

impl Shards {
    pub fn of(bits: u64) -> Shards {
        let next = std::ptr::null_mut();
        Shards { bits, next }
    }
}

#[derive(Clone, Copy)]
pub(crate) struct Buckets {
    summary: *mut AtomicU64,
    /// The summary of the driver's own shard.
    own: *mut AtomicU64,
    masks: *mut AtomicU64,
    /// The shards of each mask bit.
    owners: *mut AtomicPtr<Shard>,
    /// Of the levels, and the urgent one.
    pub count: u32,
}

impl Buckets {
    /// `None` without memory.
    pub fn new<M: Memory>(memory: &M, levels: &Levels) -> Option<Self> {
        let count = levels.buckets + WORD;
        let at = memory.map(Self::bytes(count), Pages::Small);
        if at.is_null() {
            return None;
        }
        let words = (count / WORD) as usize;
        let summary = at.cast::<AtomicU64>();
        // SAFETY: within the bytes of `bytes`, which count the same parts.
        let buckets = unsafe {
            let own = summary.add(words);
            let owners = own.add(words).cast::<AtomicPtr<Shard>>();
            let masks = owners.add(MASK_BITS as usize).cast::<AtomicU64>();
            init(summary, 2 * words);
            init(owners, MASK_BITS as usize);
            init(masks, count as usize);
            Buckets {
                summary,
                own,
                masks,
                owners,
                count,
            }
        };
        Some(buckets)
    }

    fn bytes(count: u32) -> usize {
        let words = (count / WORD) as usize;
        let count = count as usize;
        2 * words * size_of::<AtomicU64>()
            + MASK_BITS as usize * size_of::<AtomicPtr<Shard>>()
            + count * size_of::<AtomicU64>()
    }

    /// # Safety
    /// No thread uses the buckets any more; `memory` is their source.
    pub unsafe fn unmap<M: Memory>(&self, memory: &M) {
        // SAFETY: mapped by `new`.
        unsafe { memory.unmap(self.summary.cast(), Self::bytes(self.count)) };
    }

    #[inline(always)]
    pub fn urgent(&self) -> u32 {
        self.count - WORD
    }

    #[inline(always)]
    fn summary(&self, bucket: u32) -> &AtomicU64 {
        debug_assert!(bucket < self.count);
        // SAFETY: one word for each WORD buckets.
        unsafe { &*self.summary.add((bucket / WORD) as usize) }
    }

    #[inline(always)]
    fn own(&self, bucket: u32) -> &AtomicU64 {
        debug_assert!(bucket < self.count);
        // SAFETY: as above.
        unsafe { &*self.own.add((bucket / WORD) as usize) }
    }

    #[inline(always)]
    fn mask(&self, bucket: u32) -> &AtomicU64 {
        debug_assert!(bucket < self.count);
        // SAFETY: one mask for each bucket.
        unsafe { &*self.masks.add(bucket as usize) }
    }

    fn owner(&self, bit: u32) -> &AtomicPtr<Shard> {
        // SAFETY: one word for each bit.
        unsafe { &*self.owners.add((bit % MASK_BITS) as usize) }
    }

    /// Adds a shard that no other thread knows yet.
    pub fn adopt(&self, id: u32, shard: *mut Shard) {
        // SAFETY: no other thread knows it yet.
        let next = unsafe { &(*shard).next_of_bit };
        // The latest is the first. Release: pairs with `are_all`.
        let owner = self.owner(id);
        _ = owner.fetch_update(Ordering::AcqRel, Ordering::Acquire, |first| {
            next.store(first, Ordering::Relaxed);
            Some(shard)
        });
    }

    /// Whether `f` holds for all `shards`. If not, they continue at the one for which it
    /// does not.
    #[inline(always)]
    pub fn are_all(&self, shards: &mut Shards, mut f: impl FnMut(*mut Shard) -> bool) -> bool {
        loop {
            while !shards.next.is_null() {
                if !f(shards.next) {
                    return false;
                }
                // SAFETY: shards live as long as the wheel. Relaxed: published with the shard.
                shards.next = unsafe { &*shards.next }.next_of_bit.load(Ordering::Relaxed);
            }
            if shards.bits == 0 {
                return true;
            }
            let bit = shards.bits.trailing_zeros();
            shards.bits &= shards.bits - 1;
            // Acquire: pairs with `adopt`.
            shards.next = self.owner(bit).load(Ordering::Acquire);
        }
    }

    /// Whether a shard is marked in a bucket, and the bucket in the summary.
    /// Relaxed: follows the fence behind the push.
    #[inline(always)]
    pub fn is_marked(&self, bucket: u32, shard: &Shard) -> bool {
        if self.mask(bucket).load(Ordering::Relaxed) & shard.mask_bit == 0 {
            return false;
        }
        // The bit may be one that another shard shares, and has just set.
        fence_between_loads();
        self.summary(bucket).load(Ordering::Relaxed) >> (bucket % WORD) & 1 != 0
    }

    /// Step `arm.mark`, for a shard that is not marked. Followed by a fence.
    #[inline(never)]
    pub fn mark(&self, bucket: u32, shard: &Shard) {
        // AcqRel, both: pairs with `take`.
        self.mask(bucket).fetch_or(shard.mask_bit, Ordering::AcqRel);
        let summary = self.summary(bucket);
        let bit = 1 << (bucket % WORD);
        // Relaxed: behind a read-modify-write that acquires.
        if summary.load(Ordering::Relaxed) & bit == 0 {
            summary.fetch_or(bit, Ordering::AcqRel);
        }
        fence_after_rmw();
    }

    /// Marks a bucket of the driver's own shard. Driver only.
    #[inline(always)]
    pub fn mark_own(&self, bucket: u32) {
        let own = self.own(bucket);
        // Relaxed, both: the driver's alone to write.
        let marks = own.load(Ordering::Relaxed) | 1 << (bucket % WORD);
        own.store(marks, Ordering::Relaxed);
    }

    /// Step `bucket.take`: clears the marks of a bucket and returns its marked shards.
    /// Driver only.
    #[inline]
    pub fn take(&self, bucket: u32) -> Option<Shards> {
        let (summary, own) = (self.summary(bucket), self.own(bucket));
        let bit = 1 << (bucket % WORD);
        // Relaxed, both: as in `mark_own`.
        let marks = own.load(Ordering::Relaxed);
        let mut shards = marks >> (bucket % WORD) & OWN;
        if shards != 0 {
            own.store(marks & !bit, Ordering::Relaxed);
        }
        // Acquire: pairs with `mark`.
        let is_marked = summary.load(Ordering::Acquire) & bit != 0;
        if is_marked {
            // AcqRel, both: pairs with `mark`.
            summary.fetch_and(!bit, Ordering::AcqRel);
            shards |= self.mask(bucket).swap(0, Ordering::AcqRel);
            fence_after_rmw();
        }
        (is_marked || shards != 0).then(|| Shards::of(shards))
    }

    /// Whether a bucket is not marked. Driver only.
    pub fn is_empty(&self, bucket: u32) -> bool {
        self.word(bucket) >> (bucket % WORD) & 1 == 0
    }

    /// The marked shards of a bucket; the marks stay.
    #[inline]
    pub fn look(&self, bucket: u32) -> Shards {
        // Relaxed: the driver's own, or checked afterwards.
        let own = self.own(bucket).load(Ordering::Relaxed) >> (bucket % WORD) & OWN;
        // Acquire: pairs with `mark`.
        Shards::of(self.mask(bucket).load(Ordering::Acquire) | own)
    }

    /// Which buckets are marked, in the word of a bucket.
    #[inline(always)]
    pub fn word(&self, bucket: u32) -> u64 {
        // Acquire: pairs with `mark`. Relaxed: the driver's own, or checked afterwards.
        self.summary(bucket).load(Ordering::Acquire) | self.own(bucket).load(Ordering::Relaxed)
    }

    /// The distance from slot `from` of a level to its first marked slot, all the way round.
    #[inline]
    pub fn next_slot(&self, base: u32, slots: u32, from: u32) -> Option<u32> {
        let first = self.word(base + from) >> (from % WORD);
        if first != 0 {
            return Some(first.trailing_zeros());
        }
        // Levels of fewer slots have a word of their own, too.
        let mut at = from;
        loop {
            at = (at | (WORD - 1)).wrapping_add(1) & (slots - 1);
            let bits = self.word(base + at);
            if bits != 0 {
                return Some((at + bits.trailing_zeros()).wrapping_sub(from) & (slots - 1));
            }
            if at ^ from < WORD {
                return None;
            }
        }
    }
}
