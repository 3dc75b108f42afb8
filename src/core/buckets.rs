//! Which buckets have entries, and in which shards. The *summary* has one bit for
//! each bucket, over all shards. Each bucket has a mask with one bit for each shard.
//!
//! A scan reads the summary only, so its cost does not grow with the number of
//! threads. To empty a bucket the driver visits only the shards that are marked.
//!
//! # Who sets and who clears
//!
//! ```text
//!   arming thread                     driver
//!   arm.push      push the entry      bucket.take   clear the summary bit (RMW)
//!   --- fence ---                                   --- fence ---
//!                                                   take the mask    (RMW)
//!   arm.mark      set the mask bit                  --- fence ---
//!                 --- fence ---                     drain the queues
//!                 set the summary bit
//! ```
//! A thread does not set a bit that is set already. If it finds its mask bit set,
//! the driver has not taken the mask yet, and the fences make the driver see the
//! entry. The thread checks the summary in any case: more than 256 shards share
//! bits, and the thread that has set a shared bit may be stopped before it comes to
//! the summary.
//!
//! The driver reads each word of a mask before it takes it, and does not take an empty
//! one. So a fence stands between summary and mask on both sides. Either the driver sees
//! the mask bit, or the thread finds the summary bit cleared, and sets it again.
//!
//! # The urgent bucket
//!
//! One bucket belongs to no tick. Each sweep empties it before the hand moves. An
//! entry goes there if the hand has passed its tick already.

use super::levels::Levels;
use super::memory::{Memory, Pages};
use super::shard::Shard;
use super::tunables::{MASK_BITS, MASK_WORDS, WORD};
use crate::sync::{
    fence_after_rmw, fence_between_loads, init, AtomicPtr, AtomicU64, Fresh, Ordering,
};

/// Shards that have a mask bit of their own.
const BITS: u32 = MASK_BITS * MASK_WORDS as u32;

#[repr(C)]
pub(crate) struct Mask([AtomicU64; MASK_WORDS]);

impl Fresh for Mask {
    #[cfg(checked)]
    fn fresh() -> Self {
        Mask(std::array::from_fn(|_| AtomicU64::new(0)))
    }
}

/// The shards of a bucket, as the driver has taken them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Shards([u64; MASK_WORDS]);

impl Shards {
    /// Clears and returns the first bit.
    #[inline]
    pub fn next(&mut self) -> Option<u32> {
        for (n, word) in self.0.iter_mut().enumerate() {
            if *word != 0 {
                let bit = word.trailing_zeros();
                *word &= *word - 1;
                return Some(n as u32 * MASK_BITS + bit);
            }
        }
        None
    }
}

/// The summary and the masks, which all threads share.
#[derive(Clone, Copy)]
pub(crate) struct Buckets {
    summary: *mut AtomicU64,
    masks: *mut Mask,
    /// The shards of each mask bit.
    owners: *mut AtomicPtr<Shard>,
    /// Of the levels, and the urgent one.
    count: u32,
}

impl Buckets {
    /// `None` without memory.
    pub fn new<M: Memory>(memory: &M, levels: &Levels) -> Option<Self> {
        let count = levels.buckets() + WORD;
        let at = memory.map(Self::bytes(count), Pages::Small);
        if at.is_null() {
            return None;
        }
        let words = (count / WORD) as usize;
        let summary = at.cast::<AtomicU64>();
        // SAFETY: within the bytes of `bytes`, which count the same parts.
        let buckets = unsafe {
            let owners = summary.add(words).cast::<AtomicPtr<Shard>>();
            let masks = owners.add(BITS as usize).cast::<Mask>();
            init(summary, words);
            init(owners, BITS as usize);
            init(masks, count as usize);
            Buckets {
                summary,
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
        words * size_of::<AtomicU64>()
            + BITS as usize * size_of::<AtomicPtr<Shard>>()
            + count * size_of::<Mask>()
    }

    /// # Safety
    /// Nobody uses the buckets any more; `memory` is what they were made from.
    pub unsafe fn unmap<M: Memory>(&self, memory: &M) {
        // SAFETY: mapped by `new`.
        unsafe { memory.unmap(self.summary.cast(), Self::bytes(self.count)) };
    }

    /// The urgent bucket.
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
    fn mask(&self, bucket: u32, word: usize) -> &AtomicU64 {
        debug_assert!(bucket < self.count);
        // SAFETY: one mask for each bucket.
        &unsafe { &*self.masks.add(bucket as usize) }.0[word]
    }

    fn owner(&self, bit: u32) -> &AtomicPtr<Shard> {
        // SAFETY: one word for each bit.
        unsafe { &*self.owners.add((bit % BITS) as usize) }
    }

    /// Adds a shard that no other thread knows yet.
    pub fn adopt(&self, shard: *mut Shard) {
        // SAFETY: no other thread knows it yet.
        let s = unsafe { &*shard };
        let owner = self.owner(s.id);
        // Relaxed: only compared.
        let mut first = owner.load(Ordering::Relaxed);
        loop {
            s.next_of_bit.store(first, Ordering::Relaxed);
            // Release: publishes the shard; pairs with the Acquire in `shards`.
            match owner.compare_exchange(first, shard, Ordering::AcqRel, Ordering::Relaxed) {
                Ok(_) => return,
                Err(seen) => first = seen,
            }
        }
    }

    /// The first shard of a mask bit; the others through `next_of_bit`.
    #[inline]
    pub fn first_shard(&self, bit: u32) -> *mut Shard {
        // Acquire: pairs with the Release in `adopt`.
        self.owner(bit).load(Ordering::Acquire)
    }

    /// Whether a shard is marked in a bucket, and the bucket in the summary.
    /// Relaxed: follows the fence behind the push.
    #[inline(always)]
    pub fn is_marked(&self, bucket: u32, shard: &Shard) -> bool {
        if self.mask(bucket, shard.mask_word).load(Ordering::Relaxed) & shard.mask_bit == 0 {
            return false;
        }
        // The bit may be one that another shard shares, and has just set.
        fence_between_loads();
        self.summary(bucket).load(Ordering::Relaxed) >> (bucket % WORD) & 1 != 0
    }

    /// Step `arm.mark`, for a shard that is not marked. Followed by a fence.
    #[inline(never)]
    pub fn mark(&self, bucket: u32, shard: &Shard) {
        let mask = self.mask(bucket, shard.mask_word);
        // Relaxed: the fence behind the push orders this load.
        if mask.load(Ordering::Relaxed) & shard.mask_bit == 0 {
            // AcqRel: pairs with `take`.
            mask.fetch_or(shard.mask_bit, Ordering::AcqRel);
        }
        // The summary is read after the mask was set.
        fence_after_rmw();
        let summary = self.summary(bucket);
        let bit = 1 << (bucket % WORD);
        if summary.load(Ordering::Relaxed) & bit == 0 {
            summary.fetch_or(bit, Ordering::AcqRel);
        }
        fence_after_rmw();
    }

    /// Step `bucket.take`: clears the marks of a bucket and returns its marked
    /// shards. Driver only.
    #[inline]
    pub fn take(&self, bucket: u32) -> Option<Shards> {
        let summary = self.summary(bucket);
        let bit = 1 << (bucket % WORD);
        // Acquire: pairs with `mark`.
        if summary.load(Ordering::Acquire) & bit == 0 {
            return None;
        }
        summary.fetch_and(!bit, Ordering::AcqRel);
        // The masks are read after the summary was cleared.
        fence_after_rmw();
        let mut shards = Shards::default();
        for (word, taken) in shards.0.iter_mut().enumerate() {
            let mask = self.mask(bucket, word);
            if mask.load(Ordering::Relaxed) != 0 {
                // AcqRel: pairs with `mark`.
                *taken = mask.swap(0, Ordering::AcqRel);
            }
        }
        fence_after_rmw();
        Some(shards)
    }

    /// Whether a bucket is not marked. Driver only.
    pub fn is_empty(&self, bucket: u32) -> bool {
        // Acquire: pairs with `mark`.
        self.summary(bucket).load(Ordering::Acquire) >> (bucket % WORD) & 1 == 0
    }

    /// The marked shards of a bucket; the marks stay.
    pub fn look(&self, bucket: u32) -> Shards {
        let mut shards = Shards::default();
        for (word, seen) in shards.0.iter_mut().enumerate() {
            // Acquire: pairs with `mark`.
            *seen = self.mask(bucket, word).load(Ordering::Acquire);
        }
        shards
    }

    /// Which buckets are marked, in the word of a bucket.
    #[inline(always)]
    pub fn word(&self, bucket: u32) -> u64 {
        // Acquire: pairs with `mark`.
        self.summary(bucket).load(Ordering::Acquire)
    }

    /// The first marked slot of a level, all the way round from slot `from`:
    /// its distance from there.
    #[inline]
    pub fn next_slot(&self, base: u32, slots: u32, from: u32) -> Option<u32> {
        let first = self.word(base + from) >> (from % WORD);
        if first != 0 {
            return Some(first.trailing_zeros());
        }
        // Levels of fewer slots have a word of their own, too.
        let words = slots.div_ceil(WORD);
        for n in 1..=words {
            let word = (from / WORD + n) % words;
            let bits = self.word(base + word * WORD);
            if bits != 0 {
                let slot = word * WORD + bits.trailing_zeros();
                let round = slot.wrapping_sub(from) & (slots - 1);
                return Some(round);
            }
        }
        None
    }
}
