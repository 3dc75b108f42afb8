//! The slab: 64-byte timer nodes that never move and stay mapped until the
//! wheel is destroyed, so that any handle, however stale, can be looked at.
//!
//! A node is found through a directory of blocks. A freed node goes to the
//! [`FreeList`] of the shard whose thread freed it and is the first to be used
//! again there, while it is warm. A thread whose list is empty takes another
//! list whole before it takes a fresh node, so that memory follows the number
//! of live timers even where one thread makes them and another frees them.
//!
//! # The free list
//!
//! Only the owner pushes and pops; anybody may take the whole list. A pop reads
//! `head -> i`, `i.next -> j` and exchanges `i` for `j`. In between the list can
//! only be taken, which makes it empty, and only the owner, who is busy
//! popping, could put `i` back: the exchange cannot succeed on a wrong `j` (no
//! ABA), and no tag is needed.

use crate::memory::Memory;
use crate::sync::{
    init, planted, AtomicPtr, AtomicU16, AtomicU32, AtomicU64, AtomicUsize, Fresh, Ordering,
};

/// Bits of a node's index: 67 million timers.
pub(crate) const INDEX_BITS: u32 = 26;
const BLOCK_BITS: u32 = if cfg!(checked) {
    1
} else if cfg!(miri) {
    4
} else {
    15
};
const BLOCK: usize = 1 << BLOCK_BITS;
const BLOCKS: usize = if cfg!(loom) {
    2
} else if cfg!(shuttle) {
    8
} else if cfg!(miri) {
    64
} else {
    1 << (INDEX_BITS - BLOCK_BITS)
};
/// The most nodes that a slab can hold.
pub(crate) const MOST: u32 = (BLOCK * BLOCKS) as u32;
const BLOCK_BYTES: usize = BLOCK * std::mem::size_of::<Node>();
const DIRECTORY_BYTES: usize = BLOCKS * std::mem::size_of::<AtomicPtr<Node>>();

/// The node frees itself when it has fired for the last time.
pub(crate) const AUTO: u16 = 1;
/// Missed periods are made up for, one by one.
pub(crate) const BURST: u16 = 2;
/// The next period begins when this one is fired.
pub(crate) const DELAY: u16 = 4;
/// A key names it, no handle does; its cookie is the hash of the key, and a
/// table has the caller's. Frees itself too.
pub(crate) const KEYED: u16 = 8;
/// Periods came due while the callback was running. `due_ns` is that of the first
/// that was left out; with BURST, of the next to be made up for. A hint, too.
pub(crate) const BEHIND: u16 = 16;
/// From here on up: the slack of a period, as a power of two of ticks.
const SLACK_SHIFT: u32 = 8;

/// The slack of a period in a node's kind: up to so many ticks, at most 2^47.
pub(crate) fn slack(ticks: u64) -> u16 {
    ((ticks.min((1 << 47) - 1) + 1).ilog2() as u16) << SLACK_SHIFT
}

/// The tick from `tick` to `ticks` later that most others come to as well: the
/// multiple of the greatest power of two.
#[inline]
pub(crate) fn shared_tick(tick: u64, ticks: u64) -> u64 {
    let latest = tick.saturating_add(ticks);
    let differ = tick.wrapping_sub(1) ^ latest;
    latest & (u64::MAX << differ.checked_ilog2().unwrap_or(0))
}

/// The slack of a period of that kind, in ticks.
#[inline]
pub(crate) fn period_slack(kind: u16) -> u64 {
    (1 << (kind >> SLACK_SHIFT)) - 1
}

/// One timer. All zero is a node that has never been used.
#[repr(C, align(64))]
pub(crate) struct Node {
    /// The truth; see [`crate::state`].
    pub state: AtomicU64,
    /// The promise: 1 + the tick of the earliest entry known to be live, or 0.
    pub link: AtomicU64,
    /// How often the node was set up or freed: odd while it is somebody's
    /// timer, even while it is free.
    pub generation: AtomicU64,
    // The words below are written while one thread owns the node (before its
    // handle is out) and published by the exchange of `state`.
    pub func: AtomicUsize,
    pub cookie: AtomicU64,
    /// Nanoseconds, 0 for a timer that fires once.
    pub period: AtomicU64,
    /// The deadline in nanoseconds, as last asked for. Only a hint: the tick in
    /// `state` decides, and this counts if it is not after that.
    pub due_ns: AtomicU64,
    /// AUTO, BURST, DELAY, KEYED, BEHIND, and the slack of a period.
    pub kind: AtomicU16,
    /// How often it was moved without a push, below 2^16. Not the owner's alone:
    /// an arm may count when the node is free already, or is another timer's. A
    /// statistic, which the model checker need not know, as in [`crate::count`].
    moves: std::sync::atomic::AtomicU16,
    /// The next free node's index + 1.
    next_free: AtomicU32,
}

impl Node {
    /// Writes down what was asked for: a hint. What was left out before were
    /// periods of another deadline.
    #[inline(always)]
    pub fn tell(&self, ns: u64) {
        // Relaxed, all: hints.
        self.due_ns.store(ns, Ordering::Relaxed);
        if self.kind.load(Ordering::Relaxed) & BEHIND != 0 {
            self.kind.fetch_and(!BEHIND, Ordering::Relaxed);
        }
    }

    /// Counts a move; true if that was the 2^16th. Two threads that count at the
    /// same moment may count one.
    #[inline(always)]
    pub fn count_move(&self) -> bool {
        let n = self.moves().wrapping_add(1);
        self.set_moves(n);
        if planted("moves_are_counted_in_the_link") {
            self.next_free.store(n.into(), Ordering::Relaxed);
        }
        n == 0
    }

    /// Relaxed, both: statistics.
    #[inline(always)]
    pub fn set_moves(&self, n: u16) {
        self.moves.store(n, Ordering::Relaxed);
    }

    #[inline(always)]
    pub fn moves(&self) -> u16 {
        self.moves.load(Ordering::Relaxed)
    }
}

impl Fresh for Node {
    #[cfg(checked)]
    fn fresh() -> Self {
        Node {
            state: AtomicU64::new(0),
            link: AtomicU64::new(0),
            generation: AtomicU64::new(0),
            func: AtomicUsize::new(0),
            cookie: AtomicU64::new(0),
            period: AtomicU64::new(0),
            due_ns: AtomicU64::new(0),
            kind: AtomicU16::new(0),
            moves: Default::default(),
            next_free: AtomicU32::new(0),
        }
    }
}

/// A stack of free nodes; see the module's documentation.
#[repr(transparent)]
pub(crate) struct FreeList {
    /// The first node's index + 1, or 0.
    head: AtomicU32,
}

impl FreeList {
    pub fn new() -> Self {
        FreeList {
            head: AtomicU32::new(0),
        }
    }
}

/// Why no node was to be had.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum NoNode {
    Limit,
    Memory,
}

pub(crate) struct Slab {
    directory: *mut AtomicPtr<Node>,
    limit: u32,
    bump: AtomicU32,
    /// Nodes freed by threads that have no shard.
    strays: FreeList,
}

// SAFETY: the directory is only read and written through atomics, and the
// blocks it names are shared nodes made of atomics.
unsafe impl Send for Slab {}
// SAFETY: as above.
unsafe impl Sync for Slab {}

impl Slab {
    /// A slab of at most `limit` nodes; `None` without memory.
    pub fn new<M: Memory>(memory: &M, limit: u32) -> Option<Self> {
        let directory = memory.map(DIRECTORY_BYTES).cast::<AtomicPtr<Node>>();
        if directory.is_null() {
            return None;
        }
        // SAFETY: DIRECTORY_BYTES zeroed bytes, seen by nobody else.
        unsafe { init(directory, BLOCKS) };
        Some(Slab {
            directory,
            limit: limit.min(MOST),
            bump: AtomicU32::new(0),
            strays: FreeList::new(),
        })
    }

    #[inline]
    fn block(&self, index: usize) -> &AtomicPtr<Node> {
        debug_assert!(index < BLOCKS);
        // SAFETY: the directory has BLOCKS pointers and every caller has
        // checked the index against MOST or the INDEX_BITS.
        unsafe { &*self.directory.add(index) }
    }

    /// The node at `index`, if it was ever mapped.
    #[inline]
    pub fn get(&self, index: u32) -> Option<&Node> {
        if index >= MOST {
            return None;
        }
        // Acquire: pairs with the Release in `grow`.
        let base = self
            .block((index >> BLOCK_BITS) as usize)
            .load(Ordering::Acquire);
        if base.is_null() {
            return None;
        }
        // SAFETY: a published block has BLOCK nodes and is unmapped only by
        // `unmap`.
        Some(unsafe { &*base.add(index as usize & (BLOCK - 1)) })
    }

    /// Makes sure that the block of `index` is mapped.
    fn grow<M: Memory>(&self, memory: &M, index: u32) -> Result<(), NoNode> {
        let slot = self.block((index >> BLOCK_BITS) as usize);
        // Acquire: pairs with the Release below.
        if !slot.load(Ordering::Acquire).is_null() {
            return Ok(());
        }
        let fresh = memory.map(BLOCK_BYTES).cast::<Node>();
        if fresh.is_null() {
            return Err(NoNode::Memory);
        }
        // SAFETY: BLOCK_BYTES zeroed bytes, seen by nobody else yet.
        unsafe { init(fresh, BLOCK) };
        // AcqRel: publishes the zeroed block; pairs with `get`.
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
            unsafe { memory.unmap(fresh.cast(), BLOCK_BYTES) };
        }
        Ok(())
    }

    /// Takes the first node of a list. Owner of the list only.
    fn pop(&self, list: &FreeList) -> Option<u32> {
        // Acquire: pairs with the Release in `push`, for `next_free`.
        let mut head = list.head.load(Ordering::Acquire);
        while let Some(index) = head.checked_sub(1) {
            // Relaxed: the Acquire of `head` covers it.
            let next = self.get(index)?.next_free.load(Ordering::Relaxed);
            if planted("pop_does_not_compare") {
                list.head.store(next, Ordering::Release);
                return Some(index);
            }
            match list
                .head
                .compare_exchange_weak(head, next, Ordering::AcqRel, Ordering::Acquire)
            {
                Ok(_) => return Some(index),
                Err(seen) => head = seen,
            }
        }
        None
    }

    /// Puts a chain from `first` on to `last` on a list. Anybody may: what ABA
    /// forbids is only a second thread that pops.
    fn push(&self, list: &FreeList, first: u32, last: &Node) {
        // Relaxed: only compared; the exchange publishes.
        let mut head = list.head.load(Ordering::Relaxed);
        loop {
            last.next_free.store(head, Ordering::Relaxed);
            // Release: pairs with the Acquires in `pop` and `take_all`.
            match list.head.compare_exchange_weak(
                head,
                first + 1,
                Ordering::Release,
                Ordering::Relaxed,
            ) {
                Ok(_) => return,
                Err(seen) => head = seen,
            }
        }
    }

    /// Takes all of `from` into `into`, which is empty and the caller's own.
    fn steal(&self, from: &FreeList, into: &FreeList) -> bool {
        // Relaxed: a look that saves the exchange.
        if from.head.load(Ordering::Relaxed) == 0 {
            return false;
        }
        // Acquire: pairs with the Release in `push`. Release: hands it on.
        let chain = from.head.swap(0, Ordering::AcqRel);
        // Relaxed failure: cannot happen, the owner found its list empty and
        // nobody else pushes there.
        chain != 0
            && into
                .head
                .compare_exchange(0, chain, Ordering::AcqRel, Ordering::Relaxed)
                .is_ok()
    }

    /// Takes a node out for the owner of `own`; lock-free.
    pub fn alloc<'a, M: Memory>(
        &self,
        memory: &M,
        own: &FreeList,
        others: impl FnOnce() -> Option<&'a FreeList>,
    ) -> Result<u32, NoNode> {
        if let Some(index) = self.pop(own) {
            return Ok(index);
        }
        if self.steal(&self.strays, own) || others().is_some_and(|list| self.steal(list, own)) {
            if let Some(index) = self.pop(own) {
                return Ok(index);
            }
        }
        // Relaxed: only compared; the exchange decides.
        let mut index = self.bump.load(Ordering::Relaxed);
        loop {
            if index >= self.limit {
                return Err(NoNode::Limit);
            }
            // Reserve before committing: a failed map takes no index.
            self.grow(memory, index)?;
            // AcqRel: pairs with `high_water`.
            match self.bump.compare_exchange_weak(
                index,
                index + 1,
                Ordering::AcqRel,
                Ordering::Relaxed,
            ) {
                Ok(_) => return Ok(index),
                Err(seen) => index = seen,
            }
        }
    }

    /// Gives a node back, to the caller's own list if it has one; lock-free.
    /// The caller owns the node.
    pub fn free(&self, own: Option<&FreeList>, index: u32, node: &Node) {
        self.push(own.unwrap_or(&self.strays), index, node);
    }

    /// Whether a list has nodes to steal.
    pub fn has_free(&self, list: &FreeList) -> bool {
        // Relaxed: a look; `steal` decides.
        list.head.load(Ordering::Relaxed) != 0
    }

    /// How many indices were ever handed out. A read-modify-write, so that a
    /// thread which takes an index later sees what the caller did before.
    pub fn high_water(&self) -> u32 {
        // AcqRel: pairs with the exchange in `alloc`.
        self.bump.fetch_or(0, Ordering::AcqRel)
    }

    /// Bytes mapped.
    pub fn bytes(&self) -> u64 {
        // Relaxed: a figure for statistics.
        let blocks = (self.bump.load(Ordering::Relaxed) as usize).div_ceil(BLOCK);
        (blocks * BLOCK_BYTES) as u64
    }

    /// # Safety
    /// Nobody uses the slab any more; `memory` is what it was made from.
    pub unsafe fn unmap<M: Memory>(&mut self, memory: &M) {
        for i in 0..BLOCKS {
            let p = self.block(i).load(Ordering::Acquire);
            if !p.is_null() {
                // SAFETY: mapped by `grow`.
                unsafe { memory.unmap(p.cast(), BLOCK_BYTES) };
            }
        }
        // SAFETY: mapped by `new`.
        unsafe { memory.unmap(self.directory.cast(), DIRECTORY_BYTES) };
    }
}

#[cfg(all(test, not(checked)))]
mod tests {
    use super::*;
    use crate::tests::Heap;

    #[test]
    fn the_shared_tick_is_in_the_range_and_the_roundest() {
        for tick in 1..200u64 {
            for ticks in 0..200 {
                let best = (tick..=tick + ticks).max_by_key(|t| t.trailing_zeros());
                assert_eq!(Some(shared_tick(tick, ticks)), best, "{tick} {ticks}");
            }
        }
    }

    #[test]
    fn a_node_is_one_cache_line() {
        assert_eq!(std::mem::size_of::<Node>(), 64);
    }

    #[test]
    fn last_in_first_out_and_the_limit_is_an_error() {
        let mut slab = Slab::new(&Heap, 2).unwrap();
        let own = FreeList::new();
        let take = || slab.alloc(&Heap, &own, || None);
        let (a, b) = (take().unwrap(), take().unwrap());
        assert_eq!(take(), Err(NoNode::Limit));
        slab.free(Some(&own), a, slab.get(a).unwrap());
        slab.free(Some(&own), b, slab.get(b).unwrap());
        assert_eq!(take(), Ok(b));
        assert_eq!(take(), Ok(a));
        assert!(slab.get(u32::MAX).is_none());
        // SAFETY: the only user.
        unsafe { slab.unmap(&Heap) };
    }

    #[test]
    fn what_one_thread_frees_another_uses_before_fresh_nodes() {
        let mut slab = Slab::new(&Heap, 1000).unwrap();
        let (mine, theirs) = (FreeList::new(), FreeList::new());
        for _ in 0..100 {
            let i = slab.alloc(&Heap, &mine, || Some(&theirs)).unwrap();
            slab.free(Some(&theirs), i, slab.get(i).unwrap());
        }
        let i = slab.alloc(&Heap, &mine, || Some(&theirs)).unwrap();
        slab.free(None, i, slab.get(i).unwrap());
        assert_eq!(slab.alloc(&Heap, &mine, || None), Ok(i));
        assert_eq!(slab.high_water(), 1);
        // SAFETY: the only user.
        unsafe { slab.unmap(&Heap) };
    }

    /// While one thread maps a block another does, and is first.
    #[test]
    fn a_block_that_two_threads_map_is_one() {
        struct Second<'a> {
            slab: &'a Slab,
            its_own: FreeList,
            its_node: AtomicU32,
            given_back: AtomicU32,
        }
        impl Memory for Second<'_> {
            fn map(&self, bytes: usize) -> *mut u8 {
                let node = self.slab.alloc(&Heap, &self.its_own, || None);
                self.its_node.store(node.unwrap(), Ordering::Relaxed);
                Heap.map(bytes)
            }
            unsafe fn unmap(&self, at: *mut u8, bytes: usize) {
                self.given_back.fetch_add(1, Ordering::Relaxed);
                // SAFETY: as mapped.
                unsafe { Heap.unmap(at, bytes) };
            }
        }
        let mut slab = Slab::new(&Heap, 9).unwrap();
        let second = Second {
            slab: &slab,
            its_own: FreeList::new(),
            its_node: AtomicU32::new(u32::MAX),
            given_back: AtomicU32::new(0),
        };
        assert_eq!(slab.alloc(&second, &FreeList::new(), || None), Ok(1));
        assert_eq!(second.its_node.load(Ordering::Relaxed), 0);
        assert_eq!(second.given_back.load(Ordering::Relaxed), 1);
        assert!(slab.get(0).is_some() && slab.get(1).is_some());
        // SAFETY: the only user.
        unsafe { slab.unmap(&Heap) };
    }

    #[test]
    fn two_threads_never_hold_the_same_node() {
        let mut slab = Slab::new(&Heap, 64).unwrap();
        let lists = [FreeList::new(), FreeList::new()];
        std::thread::scope(|s| {
            for me in 0..2 {
                let (slab, lists) = (&slab, &lists);
                s.spawn(move || {
                    for _ in 0..if cfg!(miri) { 200 } else { 200_000 } {
                        let other = || Some(&lists[1 - me]);
                        let Ok(i) = slab.alloc(&Heap, &lists[me], other) else {
                            continue;
                        };
                        let n = slab.get(i).unwrap();
                        assert_eq!(n.kind.swap(1, Ordering::AcqRel), 0);
                        n.kind.store(0, Ordering::Release);
                        slab.free(Some(&lists[me]), i, n);
                    }
                });
            }
        });
        assert!(slab.high_water() <= 4);
        // SAFETY: the only user.
        unsafe { slab.unmap(&Heap) };
    }
}
