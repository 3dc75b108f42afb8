//! The slab: 64-byte timer nodes that never move and stay mapped until the
//! wheel is destroyed, so that any handle, however stale, can be looked at.
//!
//! A node is found through a directory of blocks. A fresh node is a bump of
//! one counter; a freed one goes to a Treiber stack whose head carries a tag
//! that every pop and push advances, so that a head read long ago never
//! compares equal (the ABA problem).

use crate::memory::Memory;
use crate::sync::{AtomicPtr, AtomicU32, AtomicU64, AtomicUsize, Ordering};

pub(crate) const INDEX_BITS: u32 = 28;
const BLOCK_BITS: u32 = 15;
const BLOCK: usize = 1 << BLOCK_BITS;
const BLOCKS: usize = 1 << (INDEX_BITS - BLOCK_BITS);
const BLOCK_BYTES: usize = BLOCK * std::mem::size_of::<Node>();
const DIRECTORY_BYTES: usize = BLOCKS * std::mem::size_of::<AtomicPtr<Node>>();

/// One timer. All zero is a valid node that has never been used.
#[repr(C, align(64))]
pub(crate) struct Node {
    /// The truth; see [`crate::state`].
    pub state: AtomicU64,
    /// The promise: 1 + the tick of the earliest entry known to be live, or 0.
    pub link: AtomicU64,
    /// The full generation, less the wheel's base.
    pub generation: AtomicU64,
    /// Written while the node is owned by one thread (before the handle is
    /// out, or by the driver), read by the driver after an acquire of `state`.
    pub func: AtomicUsize,
    pub cookie: AtomicU64,
    pub period: AtomicU64,
    /// The deadline in nanoseconds as last asked for; a hint beside the tick.
    pub due_ns: AtomicU64,
    pub kind: AtomicU32,
    /// The next free node's index + 1.
    next_free: AtomicU32,
}

/// Why no node was to be had.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum NoNode {
    Limit,
    Memory,
}

pub(crate) struct Slab<M: Memory> {
    memory: M,
    directory: *mut AtomicPtr<Node>,
    limit: u32,
    bump: AtomicU32,
    /// tag (high 32) | index + 1 (low 32)
    free: AtomicU64,
}

// SAFETY: the directory is only read and written through atomics, and the
// blocks it names are shared nodes made of atomics.
unsafe impl<M: Memory> Send for Slab<M> {}
// SAFETY: as above.
unsafe impl<M: Memory> Sync for Slab<M> {}

impl<M: Memory> Slab<M> {
    /// A slab of at most `limit` nodes; `None` without memory.
    pub fn new(memory: M, limit: u32) -> Option<Self> {
        let directory = memory.map(DIRECTORY_BYTES).cast::<AtomicPtr<Node>>();
        if directory.is_null() {
            return None;
        }
        Some(Slab {
            memory,
            directory,
            limit: limit.min((1 << INDEX_BITS) - 1),
            bump: AtomicU32::new(0),
            free: AtomicU64::new(0),
        })
    }

    fn block(&self, index: usize) -> &AtomicPtr<Node> {
        debug_assert!(index < BLOCKS);
        // SAFETY: the directory has BLOCKS zeroed (null) pointers; every
        // index has INDEX_BITS bits.
        unsafe { &*self.directory.add(index) }
    }

    /// The node at `index`, if it was ever mapped.
    pub fn get(&self, index: u32) -> Option<&Node> {
        if index >= 1 << INDEX_BITS {
            return None;
        }
        // Acquire: pairs with the Release in `grow`.
        let base = self
            .block((index >> BLOCK_BITS) as usize)
            .load(Ordering::Acquire);
        if base.is_null() {
            return None;
        }
        // SAFETY: a published block has BLOCK zeroed nodes and is unmapped
        // only by drop.
        Some(unsafe { &*base.add(index as usize & (BLOCK - 1)) })
    }

    /// Makes sure that the block of `index` is mapped.
    fn grow(&self, index: u32) -> Result<(), NoNode> {
        let slot = self.block((index >> BLOCK_BITS) as usize);
        // Acquire: pairs with the Release below.
        if !slot.load(Ordering::Acquire).is_null() {
            return Ok(());
        }
        let fresh = self.memory.map(BLOCK_BYTES).cast::<Node>();
        if fresh.is_null() {
            return Err(NoNode::Memory);
        }
        // Release: publishes the zeroed block; pairs with `get`.
        if slot
            .compare_exchange(
                std::ptr::null_mut(),
                fresh,
                Ordering::AcqRel,
                Ordering::Acquire,
            )
            .is_err()
        {
            // SAFETY: nobody has seen `fresh`.
            unsafe { self.memory.unmap(fresh.cast(), BLOCK_BYTES) };
        }
        Ok(())
    }

    /// Takes a node out; lock-free.
    pub fn alloc(&self) -> Result<(u32, &Node), NoNode> {
        // Acquire: pairs with the Release in `free`, for `next_free`.
        let mut head = self.free.load(Ordering::Acquire);
        while head as u32 != 0 {
            let index = head as u32 - 1;
            let Some(node) = self.get(index) else {
                unreachable!("a freed node is mapped")
            };
            // Relaxed: if it is stale, the tag makes the exchange fail.
            let next = node.next_free.load(Ordering::Relaxed);
            match self.free.compare_exchange_weak(
                head,
                ((head >> 32) + 1) << 32 | u64::from(next),
                Ordering::AcqRel,
                Ordering::Acquire,
            ) {
                Ok(_) => return Ok((index, node)),
                Err(seen) => head = seen,
            }
        }
        // Relaxed: the counter orders nothing; the directory does.
        let mut index = self.bump.load(Ordering::Relaxed);
        loop {
            if index >= self.limit {
                return Err(NoNode::Limit);
            }
            // Reserve before committing: a failed map takes no index.
            self.grow(index)?;
            match self.bump.compare_exchange_weak(
                index,
                index + 1,
                Ordering::Relaxed,
                Ordering::Relaxed,
            ) {
                Ok(_) => break,
                Err(seen) => index = seen,
            }
        }
        match self.get(index) {
            Some(node) => Ok((index, node)),
            None => unreachable!("grow has mapped it"),
        }
    }

    /// Gives a node back; lock-free. The caller owns the node.
    pub fn free(&self, index: u32) {
        let Some(node) = self.get(index) else { return };
        // Relaxed: the exchange below publishes `next_free`.
        let mut head = self.free.load(Ordering::Relaxed);
        loop {
            node.next_free.store(head as u32, Ordering::Relaxed);
            // Release: pairs with the Acquire in `alloc`.
            match self.free.compare_exchange_weak(
                head,
                ((head >> 32) + 1) << 32 | u64::from(index + 1),
                Ordering::AcqRel,
                Ordering::Relaxed,
            ) {
                Ok(_) => return,
                Err(seen) => head = seen,
            }
        }
    }

    /// How many indices were ever handed out.
    pub fn high_water(&self) -> u32 {
        // Relaxed: a reading for walks over the slab, under the driver lock.
        self.bump.load(Ordering::Relaxed)
    }
}

impl<M: Memory> Drop for Slab<M> {
    fn drop(&mut self) {
        for i in 0..BLOCKS {
            let p = self.block(i).load(Ordering::Acquire);
            if !p.is_null() {
                // SAFETY: mapped by `grow`; `&mut self` means nobody looks.
                unsafe { self.memory.unmap(p.cast(), BLOCK_BYTES) };
            }
        }
        // SAFETY: mapped by `new`.
        unsafe { self.memory.unmap(self.directory.cast(), DIRECTORY_BYTES) };
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::memory::Mmap;

    #[test]
    fn a_node_is_one_cache_line() {
        assert_eq!(std::mem::size_of::<Node>(), 64);
    }

    #[test]
    fn last_in_first_out_and_the_limit_is_an_error() {
        let slab = Slab::new(Mmap, 2).unwrap();
        let (a, _) = slab.alloc().unwrap();
        let (b, _) = slab.alloc().unwrap();
        assert_eq!(slab.alloc().map(|n| n.0), Err(NoNode::Limit));
        slab.free(a);
        slab.free(b);
        assert_eq!(slab.alloc().unwrap().0, b);
        assert_eq!(slab.alloc().unwrap().0, a);
        assert!(slab.get(u32::MAX).is_none());
    }

    #[test]
    fn two_threads_never_hold_the_same_node() {
        let slab = Slab::new(Mmap, 64).unwrap();
        std::thread::scope(|s| {
            for _ in 0..2 {
                s.spawn(|| {
                    for _ in 0..200_000 {
                        let (i, n) = slab.alloc().unwrap();
                        assert_eq!(n.kind.swap(1, Ordering::AcqRel), 0);
                        n.kind.store(0, Ordering::Release);
                        slab.free(i);
                    }
                });
            }
        });
    }
}
