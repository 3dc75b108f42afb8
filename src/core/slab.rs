//! The slab: the records of all timers. They never move, and stay mapped until the
//! wheel is destroyed. So the node of any handle can be read, however stale the
//! handle is.
//!
//! A directory of blocks leads to a node. Its entries for blocks that are not mapped
//! lead to [`Nowhere`], whose nodes are free forever.
//!
//! A thread takes fresh nodes in *runs* of whole cache lines, so that threads do not share
//! lines.
//!
//! # Free nodes
//!
//! A thread has at most two runs of free nodes at hand, in a [`FreeList`]. All others are in a
//! stack of runs, which serves every thread. A node that a thread without a number frees is a
//! run of one node. A thread takes fresh nodes only if it has none at hand and finds the stack
//! empty. At that moment every free node is at some thread's hand. So memory follows the number
//! of live timers, whichever threads make and free them, and wherever a thread is stopped. (The
//! two runs are the magazines of J. Bonwick and J. Adams, *Magazines and Vmem*, 2001.)
//!
//! A node leads to the next one of its list or run. The first one of a run also leads to the
//! next run.
//!
//! Only its thread pushes to a list and pops from it. At the limit on live timers another thread
//! may take the whole list, or the whole run. A pop reads `head -> i` and `i.next -> j`, and
//! exchanges `i` for `j`. Meanwhile, only the thread itself puts nodes into the list, and it is
//! inside the pop. So the exchange cannot succeed with a wrong `j` (no ABA problem).
//!
//! # A stack from which every thread takes
//!
//! A [`Stack`] holds numbers: those of runs here, of chunks in `inbox.rs`. Its caller keeps the
//! link of each number: the one below it, or 0 (R. K. Treiber, *Systems
//! Programming: Coping with Parallelism*, 1986). A thread that reads `head -> a` and `a -> b`
//! may be stopped before it exchanges `a` for `b`. Meanwhile other threads can take both and put
//! `a` back. So the head counts its changes in the 38 bits next to the number: the exchange
//! succeeds with a wrong `b` only if the thread is stopped for exactly a multiple of 2^38
//! changes.
//!
//! A link must stay readable while the number is not in the stack: a thread may read it late.

use super::record::{Entry, Fire, Hot, Rare};
use super::state::INDEX_BITS;
use super::{Error, BLOCKS, BLOCK_BITS, CHECKED, RUN};
use crate::sync::{
    fence, init, make_at, opaque, prefetch, AtomicPtr, AtomicU32, AtomicU64, Ordering,
};
#[cfg(not(checked))]
use crate::sys::maps::zeros;
use crate::sys::maps::{map, unmap, Pages};
use core::cell::Cell;
use core::marker::PhantomData;

const NUMBER_BITS: u32 = 26;
/// The largest number in a stack. 0 stands for none.
pub(super) const NUMBER: u64 = (1 << NUMBER_BITS) - 1;

/// A stack of numbers.
#[derive(Default)]
pub(super) struct Stack(AtomicU64);

impl Stack {
    /// Takes a number; `None` if the stack is empty. Lock-free.
    pub fn take(&self, link: impl Fn(u32) -> u32) -> Option<u32> {
        // Acquire: the number's memory and its link; pairs with the Release in `put`.
        let mut head = self.0.load(Ordering::Acquire);
        while head & NUMBER != 0 {
            let number = (head & NUMBER) as u32;
            match self.exchange(head, link(number)) {
                Ok(_) => return Some(number),
                Err(seen) => head = seen,
            }
        }
        None
    }

    /// Puts a number that the caller owns into the stack. Lock-free.
    pub fn put(&self, number: u32, set_link: impl Fn(u32)) {
        // Relaxed: only compared; the exchange publishes.
        let mut head = self.0.load(Ordering::Relaxed);
        loop {
            set_link((head & NUMBER) as u32);
            match self.exchange(head, number) {
                Ok(_) => return,
                Err(seen) => head = seen,
            }
        }
    }

    fn exchange(&self, head: u64, number: u32) -> Result<u64, u64> {
        let next = (head & !NUMBER).wrapping_add(1 << NUMBER_BITS) | u64::from(number);
        // Release: the link; pairs with the Acquires of `take`.
        self.0
            .compare_exchange_weak(head, next, Ordering::AcqRel, Ordering::Acquire)
    }
}

const BLOCK: usize = 1 << BLOCK_BITS;
/// The end of the indices that are used of the first block, which has small pages. A wheel with
/// more timers has the others in blocks with huge pages.
const SMALL: u32 = if BLOCK_BITS > 15 {
    1 << 15
} else {
    1 << BLOCK_BITS
};
/// The first index that is used: 0 is no node.
const FIRST: u32 = RUN;
/// The number of nodes that a slab has room for.
const ROOM: u32 = (BLOCK * (BLOCKS - 1)) as u32 + SMALL - FIRST;
const _: () = assert!(BLOCK * BLOCKS - 1 <= NUMBER as usize);
/// The maximum number of live timers. It does not depend on how the blocks are laid out.
pub(crate) const MOST: u32 = if ROOM > 67_000_000 { 67_000_000 } else { ROOM };

/// Where the arrays of a block lie.
const ENTRY_AT: usize = BLOCK * size_of::<Hot>();
const FIRE_AT: usize = ENTRY_AT + BLOCK * size_of::<Entry>();
const RARE_AT: usize = FIRE_AT + BLOCK * size_of::<Fire>();
/// A block is a multiple of a huge page.
const PAGES: usize = if CHECKED { 256 } else { 2 << 20 };
const BLOCK_BYTES: usize = (RARE_AT + BLOCK * size_of::<Rare>()).next_multiple_of(PAGES);

/// The hot records of every block that is not mapped. Never written: zeros that can only be
/// read, and take no memory. The model checkers' atomics are more than bytes, so there each
/// slab has its records.
pub(crate) struct Nowhere(
    #[cfg(checked)] Box<[Hot; BLOCK]>,
    #[cfg(not(checked))] *const Hot,
);

impl Nowhere {
    #[cfg(checked)]
    pub fn get() -> Option<Self> {
        Some(Nowhere(Box::default()))
    }

    /// `None` without memory.
    #[cfg(not(checked))]
    pub fn get() -> Option<Self> {
        let at = zeros(BLOCK * size_of::<Hot>());
        // All bytes zero is the default (`Fresh`).
        (!at.is_null()).then_some(Nowhere(at.cast()))
    }

    fn at(&self) -> *const Hot {
        #[cfg(checked)]
        return self.0.as_ptr();
        #[cfg(not(checked))]
        self.0
    }
}

/// The records of a node that exists, found once for all of them.
#[derive(Clone, Copy)]
pub(super) struct Records<'s> {
    pub index: u32,
    /// The hot record. The others of the block lie at fixed distances.
    at: *const u8,
    slab: PhantomData<&'s Slab>,
}

impl<'s> Records<'s> {
    #[inline(always)]
    pub fn hot(self) -> &'s Hot {
        // SAFETY: a published block has BLOCK records of each kind, and is unmapped only by
        // `unmap`.
        unsafe { &*self.at.cast() }
    }

    /// The record of this node in an array of the block, which begins `array` bytes behind its start.
    #[inline(always)]
    fn in_array<T>(self, array: usize) -> *const T {
        let nth = self.index as usize % BLOCK;
        let further = nth.wrapping_mul(size_of::<T>().wrapping_sub(size_of::<Hot>()));
        self.at.wrapping_add(array).wrapping_add(further).cast()
    }

    /// The driver's alone.
    #[inline(always)]
    pub fn entry(self) -> &'s Entry {
        // SAFETY: as above.
        unsafe { &*self.in_array(ENTRY_AT) }
    }

    #[inline(always)]
    pub fn fire(self) -> &'s Fire {
        // SAFETY: as above.
        unsafe { &*self.in_array(FIRE_AT) }
    }

    #[inline(always)]
    pub fn prefetch_entry(self) {
        prefetch(self.in_array::<Entry>(ENTRY_AT));
    }

    /// Fetches what a look needs.
    #[inline(always)]
    pub fn prefetch(self) {
        prefetch(self.at);
        self.prefetch_entry();
    }

    /// Fetches what a visit needs.
    #[inline(always)]
    pub fn prefetch_all(self) {
        self.prefetch();
        prefetch(self.in_array::<Fire>(FIRE_AT));
    }
}

/// The free nodes that a thread has at hand.
#[derive(Default)]
pub(crate) struct FreeList {
    /// The first node of a list that the thread pushes to and pops from, or 0.
    head: AtomicU32,
    /// The first node of a run, or 0.
    run: AtomicU32,
    /// The list has at most this number of nodes, and this is at most a run. The thread's alone.
    count: Cell<u32>,
}

impl FreeList {
    /// Takes a whole list, or a run: its first node.
    fn take_all(head: &AtomicU32) -> Option<u32> {
        // Relaxed: spares the exchange if there is none. Acquire: pairs with the Releases of
        // the thread whose list it is.
        let first = match head.load(Ordering::Relaxed) {
            0 => 0,
            _ => head.swap(0, Ordering::Acquire),
        };
        (first != 0).then_some(first)
    }
}

#[repr(C, align(128))]
pub(crate) struct Slab {
    /// For each block, where the hot record of index 0 would lie if all hot records lay in
    /// one array.
    directory: [AtomicPtr<u8>; BLOCKS],
    nowhere: Nowhere,
    /// The number of nodes that may be handed out: those for the limit on live timers, and
    /// one for each node that is used up.
    limit: AtomicU32,
    /// The number of nodes that were handed out so far, and FIRST.
    bump: AtomicU32,
    /// Runs of free nodes.
    runs: Stack,
}

impl Slab {
    /// # Safety
    /// `at` is zeroed, and the caller's alone to write.
    pub unsafe fn make(at: *mut Slab, nowhere: Nowhere, limit: u32) {
        // SAFETY: the caller's promise.
        unsafe {
            init((&raw mut (*at).directory).cast::<AtomicPtr<u8>>(), BLOCKS);
            make_at!(at => Slab {
                nowhere: nowhere,
                limit: AtomicU32::new(limit.min(MOST)),
                bump: AtomicU32::new(FIRST),
                runs: Stack::default(),
                ; directory
            });
            for (block, entry) in (*at).directory.iter().enumerate() {
                // Relaxed: nobody else sees it yet.
                entry.store((*at).nowhere(block), Ordering::Relaxed);
            }
        }
    }

    /// Where the hot record of index 0 would lie, if those of a block lie at `at`.
    fn origin(at: *mut u8, block: usize) -> *mut u8 {
        at.wrapping_sub(block * ENTRY_AT)
    }

    /// The value in the directory for a block that is not mapped.
    fn nowhere(&self, block: usize) -> *mut u8 {
        Self::origin(self.nowhere.at().cast_mut().cast(), block)
    }

    #[inline(always)]
    fn place(&self, index: u32) -> *mut u8 {
        // Hidden, or the compiler computes the block from the handle a second time.
        let at = opaque((index % (1 << INDEX_BITS)) as usize * size_of::<Hot>());
        let block = at / ENTRY_AT;
        // The model checkers' slabs are smaller.
        if BLOCK * BLOCKS < 1 << INDEX_BITS && block >= BLOCKS {
            return self.nowhere(block).wrapping_add(at);
        }
        // SAFETY: there is a block for every index.
        let entry = unsafe { self.directory.get_unchecked(block) };
        // Acquire: pairs with the Release in `map_block`.
        entry.load(Ordering::Acquire).wrapping_add(at)
    }

    /// The records of the node that a handle names. If its block is not mapped, there is a hot record
    /// alone, as of `hot`.
    #[inline(always)]
    pub(super) fn named(&self, index: u32) -> Records<'_> {
        Records {
            index,
            at: self.place(index),
            slab: PhantomData,
        }
    }

    /// The hot record at `index`. If its block is not mapped, this is a free record,
    /// which must not be written.
    #[inline(always)]
    pub fn hot(&self, index: u32) -> &Hot {
        // SAFETY: a published block has BLOCK records of each kind, and is
        // unmapped only by `unmap`. Nowhere has BLOCK hot records.
        unsafe { &*self.place(index).cast() }
    }

    /// The records of a node that exists.
    #[inline(always)]
    pub(super) fn records(&self, index: u32) -> Records<'_> {
        let index = index as usize;
        debug_assert!(index < BLOCK * BLOCKS);
        // SAFETY: there is a block for every node.
        let block = unsafe { self.directory.get_unchecked(index / BLOCK) };
        Records {
            index: index as u32,
            // Acquire: pairs with the Release in `map_block`.
            at: block
                .load(Ordering::Acquire)
                .wrapping_add(index * size_of::<Hot>()),
            slab: PhantomData,
        }
    }

    /// The entry of a node that exists. The driver's alone.
    #[inline(always)]
    pub(super) fn entry_of(&self, index: u32) -> &Entry {
        self.records(index).entry()
    }

    #[inline(always)]
    pub fn fire(&self, index: u32) -> &Fire {
        self.records(index).fire()
    }

    /// The rare record of a node that exists.
    #[inline]
    pub fn rare(&self, index: u32) -> &Rare {
        const { assert!(size_of::<Rare>() == 2 * size_of::<Hot>()) };
        let again = index as usize % BLOCK * size_of::<Hot>();
        // SAFETY: as above; there are Rare records at RARE_AT.
        unsafe { &*self.place(index).wrapping_add(RARE_AT + again).cast() }
    }

    #[inline(always)]
    pub fn prefetch(&self, index: u32, entry: bool) {
        let at = self.place(index);
        prefetch(at);
        if entry {
            prefetch(at.wrapping_add(ENTRY_AT));
        }
    }

    /// Makes sure that the block of `index` is mapped.
    fn map_block(&self, index: u32) -> Result<(), Error> {
        let block = (index >> BLOCK_BITS) as usize;
        let slot = &self.directory[block];
        let nowhere = self.nowhere(block);
        // Acquire: pairs with the Release below.
        if slot.load(Ordering::Acquire) != nowhere {
            return Ok(());
        }
        // Small pages first: a wheel with few timers takes little memory.
        let pages = if block == 0 {
            Pages::Small
        } else {
            Pages::Huge
        };
        let fresh = map(BLOCK_BYTES, pages);
        if fresh.is_null() {
            return Err(Error::Memory);
        }
        // SAFETY: zeroed bytes for all of it, seen by nobody else yet.
        unsafe {
            init(fresh.cast::<Hot>(), BLOCK);
            init(fresh.add(ENTRY_AT).cast::<Entry>(), BLOCK);
            init(fresh.add(FIRE_AT).cast::<Fire>(), BLOCK);
            init(fresh.add(RARE_AT).cast::<Rare>(), BLOCK);
        }
        let origin = Self::origin(fresh, block);
        // AcqRel: publishes the block; pairs with `place`.
        if slot
            .compare_exchange(nowhere, origin, Ordering::AcqRel, Ordering::Acquire)
            .is_err()
        {
            // SAFETY: nobody has seen `fresh`.
            unsafe { unmap(fresh, BLOCK_BYTES) };
        }
        Ok(())
    }

    /// A free node, if there is one at the caller's hand or in the stack. Lock-free.
    #[inline]
    pub fn take(&self, own: &FreeList) -> Option<u32> {
        self.pop(own).or_else(|| self.take_of_run(own))
    }

    #[inline(never)]
    fn take_of_run(&self, own: &FreeList) -> Option<u32> {
        let run = FreeList::take_all(&own.run);
        run.or_else(|| self.runs.take(|run| self.next_run(run)))
            .map(|run| self.begin_run(own, run))
    }

    /// Takes a node from the caller's own list.
    #[inline(always)]
    fn pop(&self, own: &FreeList) -> Option<u32> {
        // Acquire: pairs with the Release in `push`, for the link.
        let mut head = own.head.load(Ordering::Acquire);
        while head != 0 {
            match own.head.compare_exchange_weak(
                head,
                self.next(head),
                Ordering::AcqRel,
                Ordering::Acquire,
            ) {
                Ok(_) => {
                    own.count.set(own.count.get() - 1);
                    return Some(head);
                }
                Err(seen) => head = seen,
            }
        }
        None
    }

    /// Takes the first node of a run. The others become the caller's own list, which is empty.
    fn begin_run(&self, own: &FreeList, run: u32) -> u32 {
        // Release: the nodes and their block; pairs with the Acquire in `take_all`.
        own.head.store(self.next(run), Ordering::Release);
        own.count.set(RUN - 1);
        run
    }

    /// The node behind a free one.
    fn next(&self, index: u32) -> u32 {
        // Relaxed: the Acquire of whoever took the list covers it.
        self.fire(index).cookie.load(Ordering::Relaxed) as u32
    }

    /// The run behind another one in the stack.
    fn next_run(&self, run: u32) -> u32 {
        // Relaxed: the Acquire of the stack covers it.
        (self.fire(run).cookie.load(Ordering::Relaxed) >> u32::BITS) as u32
    }

    /// Writes what a free node leads to.
    #[inline(always)]
    fn link(node: &Fire, next: u32, next_run: u32) {
        // Release: a thread that takes the link for the cookie of the life before also
        // finds that over. Pairs with the fence in `next_pending`.
        fence(Ordering::Release);
        let link = u64::from(next_run) << u32::BITS | u64::from(next);
        // Relaxed: published with the list or the run.
        node.cookie.store(link, Ordering::Relaxed);
    }

    /// Frees a node that the caller owns. `own` is the caller's free list, if it has one.
    /// Lock-free.
    pub fn push(&self, own: Option<&FreeList>, index: u32) {
        let Some(own) = own else {
            return self.put_run(index, 0);
        };
        if own.count.get() == RUN {
            self.set_run_aside(own);
        }
        let node = self.fire(index);
        // Relaxed: only compared; the exchange publishes.
        let mut head = own.head.load(Ordering::Relaxed);
        loop {
            Self::link(node, head, 0);
            // Release: the node and its block; pairs with the Acquires in `pop` and `take_all`.
            match own
                .head
                .compare_exchange_weak(head, index, Ordering::Release, Ordering::Relaxed)
            {
                Ok(_) => break,
                Err(seen) => head = seen,
            }
        }
        own.count.set(own.count.get() + 1);
    }

    /// The list becomes the run at hand. The run that was at hand before goes to the stack.
    #[cold]
    fn set_run_aside(&self, own: &FreeList) {
        own.count.set(0);
        // Another thread may have taken the list.
        let Some(full) = FreeList::take_all(&own.head) else {
            return;
        };
        // Release: hands the nodes on; pairs with the Acquire in `take_all`.
        let run = own.run.swap(full, Ordering::AcqRel);
        if run != 0 {
            self.put_run(run, self.next(run));
        }
    }

    /// Puts a run into the stack. Its first node leads to the node `next`.
    fn put_run(&self, run: u32, next: u32) {
        let node = self.fire(run);
        self.runs.put(run, |below| Self::link(node, next, below));
    }

    /// Takes the list or the run that another thread has at hand. Returns its first node. The
    /// others become the caller's own list, which is empty.
    pub fn steal(&self, from: &FreeList, own: &FreeList) -> Option<u32> {
        FreeList::take_all(&from.head)
            .or_else(|| FreeList::take_all(&from.run))
            .map(|first| self.begin_run(own, first))
    }

    /// A node is never used again. Another one takes its place.
    #[cold]
    pub fn retire(&self) {
        // Relaxed: a number.
        self.limit.fetch_add(1, Ordering::Relaxed);
    }

    /// Takes a run of fresh nodes, whose state words are 0: one, and the others into the
    /// caller's own list.
    #[inline(never)]
    pub fn take_run(&self, free: &FreeList) -> Result<u32, Error> {
        // Relaxed: an old value is a lower one; the caller tries again.
        let end = FIRST + self.limit.load(Ordering::Relaxed).min(ROOM);
        // Relaxed: only compared; the exchange decides.
        let mut nth = self.bump.load(Ordering::Relaxed);
        let next = loop {
            if nth >= end {
                return Err(Error::Limit);
            }
            // A run ends where a line and a block do. Reserve before
            // committing: a failed map takes no index.
            let next = (nth / RUN * RUN + RUN).min(end);
            self.map_block(Self::nth(nth))?;
            // AcqRel: pairs with `indices`.
            match self
                .bump
                .compare_exchange_weak(nth, next, Ordering::AcqRel, Ordering::Relaxed)
            {
                Ok(_) => break next - nth,
                Err(seen) => nth = seen,
            }
        };
        let index = Self::nth(nth);
        for n in index + 1..index + next {
            // Relaxed: published with the list.
            self.fire(n - 1).cookie.store(n.into(), Ordering::Relaxed);
        }
        Ok(self.begin_run(free, index))
    }

    /// The index of the node that is handed out as the nth.
    fn nth(n: u32) -> u32 {
        match n < SMALL {
            true => n,
            false => n - SMALL + BLOCK as u32,
        }
    }

    /// The indices of the nodes that were handed out, from one on.
    pub fn indices(&self, from: u32) -> impl Iterator<Item = u32> {
        let block = BLOCK as u32;
        // Acquire: pairs with the exchange in `take_run`.
        let end = self.bump.load(Ordering::Acquire);
        let first = match from {
            0..SMALL => from.max(FIRST),
            _ if from < block => SMALL,
            _ => from - block + SMALL,
        };
        (first..end).map(Self::nth)
    }

    /// Bytes of the records that were handed out so far, without the rare ones.
    pub fn bytes(&self) -> u64 {
        let one = size_of::<Hot>() + size_of::<Entry>() + size_of::<Fire>();
        ((self.bump.load(Ordering::Relaxed) - FIRST) as usize * one) as u64
    }

    /// # Safety
    /// No thread uses the slab any more.
    pub unsafe fn unmap(&mut self) {
        for (block, entry) in self.directory.iter().enumerate() {
            let entry = entry.load(Ordering::Acquire);
            if entry != self.nowhere(block) {
                // SAFETY: mapped by `map_block`.
                unsafe { unmap(entry.wrapping_add(block * ENTRY_AT), BLOCK_BYTES) };
            }
        }
    }
}

/// Under the model checker a run is one node, which nobody else can take. So here is a
/// second one, by hand.
#[cfg(all(test, loom))]
mod model {
    use super::*;
    use loom::sync::Arc;
    use loom::thread;

    /// At the limit a thread takes a node that another one has at hand, of a block which
    /// that one has just mapped.
    #[test]
    fn fresh_block_against_the_limit() {
        loom::model(|| {
            let mut place = core::mem::MaybeUninit::zeroed();
            // SAFETY: zeroed, and made before it is used.
            let slab: Slab = unsafe {
                Slab::make(place.as_mut_ptr(), Nowhere::get().unwrap(), MOST);
                place.assume_init()
            };
            let mut world = Arc::new((slab, FreeList::default()));
            let theirs = world.clone();
            let owner = thread::spawn(move || {
                let (slab, list) = &*theirs;
                slab.map_block(FIRST).unwrap();
                slab.push(Some(list), FIRST);
            });
            let (slab, list) = &*world;
            if let Some(index) = slab.steal(list, &FreeList::default()) {
                let nowhere = slab.nowhere.at().wrapping_add(index as usize);
                assert_ne!(
                    slab.hot(index) as *const Hot,
                    nowhere,
                    "its block is not mapped"
                );
            }
            owner.join().unwrap();
            let (slab, _) = Arc::get_mut(&mut world).unwrap();
            // SAFETY: nobody else uses it any more.
            unsafe { slab.unmap() };
        });
    }
}

#[cfg(all(test, not(checked)))]
mod tests {
    use super::*;

    fn slab(limit: u32) -> Slab {
        let mut place = core::mem::MaybeUninit::zeroed();
        // SAFETY: zeroed, and made before it is used.
        unsafe {
            Slab::make(place.as_mut_ptr(), Nowhere::get().unwrap(), limit);
            place.assume_init()
        }
    }

    fn alloc(slab: &Slab, own: &FreeList, other: &FreeList) -> Result<u32, Error> {
        let taken = slab.take(own).or_else(|| slab.steal(other, own));
        taken.map_or_else(|| slab.take_run(own), Ok)
    }

    #[test]
    fn last_in_first_out_and_the_limit_is_an_error() {
        let mut slab = slab(2);
        let free = FreeList::default();
        let alloc = || alloc(&slab, &free, &free);
        let a = alloc().unwrap();
        let b = alloc().unwrap();
        assert_eq!(alloc(), Err(Error::Limit));
        slab.push(Some(&free), a);
        slab.push(Some(&free), b);
        assert_eq!(alloc(), Ok(b));
        assert_eq!(alloc(), Ok(a));
        // SAFETY: nobody else uses it.
        unsafe { slab.unmap() };
    }

    #[test]
    fn at_the_limit_the_nodes_of_other_threads_are_found() {
        let mut slab = slab(3);
        let (own, other) = (FreeList::default(), FreeList::default());
        let a = alloc(&slab, &other, &other).unwrap();
        // The other thread has the whole run at hand.
        assert!(alloc(&slab, &own, &other).is_ok());
        assert!(alloc(&slab, &own, &other).is_ok());
        assert_eq!(alloc(&slab, &own, &other), Err(Error::Limit));
        slab.push(Some(&other), a);
        assert_eq!(alloc(&slab, &own, &other), Ok(a));
        // SAFETY: nobody else uses it.
        unsafe { slab.unmap() };
    }
}
