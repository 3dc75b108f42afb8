//! Inboxes: the notes by which threads ask the driver to look at a timer.
//!
//! Each thread has an inbox in each wheel, at the index of its number. A note is the index of
//! a node, at a *place*. The thread alone appends notes, the driver alone takes them, in
//! order. An inbox is a chain of chunks, whose places are counted from the first chunk on, and
//! are not used again. The first place of a chunk is its header. `tail` is the place behind the
//! last note, `head` the one behind the last note that the driver has taken. A fresh inbox is all
//! zeros.
//!
//! The driver gives a chunk back when it goes to the next one: to the inbox as its spare chunk, or
//! to the wheel.
//!
//! # Why an append after the first one does not fail
//!
//! An arm makes sure of a spare chunk before its first append, and can still fail there. Each
//! further append needs that the driver has taken the note before (`arm.rs`). If the chunk of
//! that note is full, and the inbox has no spare chunk, then the arm has taken the spare
//! chunk for that very chunk. The driver has come to it from the chunk before, and has made
//! that one the spare chunk.
//!
//! # Why an arm lacks no memory
//!
//! A thread has room for two notes about each timer that the driver has yet to take: one that the
//! link names, and one that lost the race for the link, because another thread or the driver changed
//! the link between arm.read and arm.publish. It writes more only if it loses that race again before
//! the driver takes its notes. The thread also has a chunk that is not full, one that the driver
//! is at, a spare one, and one that it has just taken. Before a further thread or a further
//! node comes into use, these chunks are mapped for each thread that uses the wheel. So without such
//! a series of lost races only the first arm of a thread may lack memory, and a further timer. The
//! owner of an owned wheel writes no notes. A message may lack memory.
//!
//! # Dirty bits
//!
//! A bit for each inbox, in words, and a bit for each eight words in `top`, say in which
//! inboxes there are notes.
//!
//! ```text
//!   arming thread                          driver
//!   note.append  place, tail               take.dirty  top := 0             (RMW)
//!   arm.exchange state := armed  (RMW)                 word := 0            (RMW)
//!   --- fence ---                          --- fence ---
//!   note.dirty   word: bit set? or set it  take.tail   read tail
//!                top: bit set? or set it               read the places
//!                                          take.head   head := past them
//!                                          --- fence ---
//!                                          look.read   read state and link
//! ```
//! A thread that finds its bit set need not set it: the driver has not taken that word yet, or
//! the fences make the driver see the tail. Setting a bit is a read-modify-write, too, so the
//! same holds between word and top.
//!
//! A bit of top may be that of another thread, which has not come to its fence. So the thread
//! that finds it set has a fence before it reads the alarm (`Alarm::is_early`). Either the
//! driver sees that bit when it goes to sleep, or the thread sees the alarm.
//!
//! # Chunks
//!
//! The chunks are shared by all inboxes of a wheel. A chunk belongs to one inbox, or is free. Free
//! chunks form a stack (`slab.rs`). Chunks stay mapped until the wheel is destroyed, so that their
//! links stay readable.

use super::record::Place;
use super::slab::{FreeList, Stack, NUMBER};
use super::stats::Count;
use super::{Error, Thread, BATCH, NOTES, NOTE_BLOCKS, NOTE_CHUNK_BITS, THREADS};
use crate::sync::{fence, fence_after_rmw, init, AtomicPtr, AtomicU32, AtomicU64, Fresh, Ordering};
use crate::sys::maps::{map, unmap, Pages};
use core::cell::Cell;
use core::ops::Range;
// Not those of the model checkers.
use core::sync::atomic::AtomicU32 as Total;

#[derive(Default)]
#[repr(C, align(128))]
pub(crate) struct Inbox {
    /// The place behind the last note.
    tail: AtomicU64,
    /// The chunk of the next note, or of the last one if that chunk is full; 0 before the first
    /// arm that needs a note. The thread's alone.
    last: Cell<u32>,
    /// The first chunk of all. Written once, before the first note.
    first: AtomicU32,
    /// A chunk for the thread's next one, or 0.
    spare: AtomicU32,
    pub free: FreeList,
    pub count: Count,
    driver: End,
}

/// The driver's end.
#[derive(Default)]
#[repr(C, align(128))]
struct End {
    /// The place behind the last note that was taken.
    head: AtomicU64,
    /// The chunk of the next note to take, or of the last one if that chunk is used up; 0
    /// before the first note. The driver's alone.
    first: Cell<u32>,
}

impl Fresh for Inbox {}

/// A pass over the inboxes that are dirty: where the driver goes on, also in its next call. It
/// comes to each inbox once, and takes the notes that are there then. So it ends, however many
/// notes threads append meanwhile.
#[derive(Default)]
pub(crate) struct Pass {
    /// The bits of `top` that are left.
    top: u64,
    /// The words that are left of the last one of these bits.
    words: Range<usize>,
    /// The bits that are left of the word before these.
    bits: u64,
    /// The inbox that the driver is at, and the place behind the last note to take.
    pub thread: Thread,
    pub end: u64,
}

/// On another cache line than what comes before.
#[repr(align(128))]
struct Apart(AtomicU64);

/// Places of a chunk.
const PLACES: u64 = NOTES as u64 + 1;
const BITS: usize = u64::BITS as usize;
const WORDS: usize = THREADS.div_ceil(BITS);
/// Words of a bit of `top`.
const OF_TOP: usize = 8;
const _: () = assert!(WORDS <= BITS * OF_TOP);
const BYTES: usize = THREADS * size_of::<Inbox>();

#[repr(C)]
pub(crate) struct Inboxes {
    /// Of all threads. A page that no thread uses takes no memory. Written once, read by every
    /// call.
    at: *mut Inbox,
    top: Apart,
    words: [AtomicU64; WORDS],
    /// The threads that have chunks, and the nodes that notes may be about. A model checker has no
    /// need to try their orders: of two threads that add to them, one sees both sums.
    users: Total,
    nodes: Total,
    chunks: Chunks,
}

impl Inboxes {
    /// # Safety
    /// `at` is zeroed, and the caller's alone to write.
    pub unsafe fn make(at: *mut Inboxes) -> Result<(), Error> {
        let inboxes = map(BYTES, Pages::Small).cast::<Inbox>();
        if inboxes.is_null() {
            return Err(Error::Memory);
        }
        // SAFETY: the caller's promise; mapped for that number.
        unsafe {
            init(inboxes, THREADS);
            (&raw mut (*at).at).write(inboxes);
            (&raw mut (*at).top).write(Apart(AtomicU64::new(0)));
            init((&raw mut (*at).words).cast::<AtomicU64>(), WORDS);
            (&raw mut (*at).users).write(Total::new(0));
            (&raw mut (*at).nodes).write(Total::new(0));
            Chunks::make(&raw mut (*at).chunks);
        }
        Ok(())
    }

    /// The inbox of a thread.
    #[inline(always)]
    pub fn of(&self, thread: Thread) -> &Inbox {
        debug_assert!((thread as usize) < THREADS);
        // SAFETY: there is one for each number.
        unsafe { &*self.at.add(thread as usize) }
    }

    /// Makes sure that an append succeeds, and those after it in the same arm. The thread's
    /// own call.
    #[inline]
    pub fn reserve(&self, thread: Thread) -> Result<(), Error> {
        let inbox = self.of(thread);
        match self.is_ready(thread) {
            true => Ok(()),
            false => self.refill(inbox),
        }
    }

    /// Whether `reserve` has nothing to do. False for the number 0.
    #[inline(always)]
    pub fn is_ready(&self, thread: Thread) -> bool {
        // Relaxed: only the thread takes it away.
        self.of(thread).spare.load(Ordering::Relaxed) != 0
    }

    #[cold]
    fn refill(&self, inbox: &Inbox) -> Result<(), Error> {
        let take = || {
            let chunk = self.chunks.take().ok_or(Error::Memory)?;
            // Relaxed: published by the tail.
            self.chunks.chunk(chunk).next.store(0, Ordering::Relaxed);
            Ok(chunk)
        };
        if inbox.last.get() == 0 {
            self.add(&self.users, 1)?;
            let first = take()?;
            inbox.last.set(first);
            // Relaxed: as above.
            inbox.first.store(first, Ordering::Relaxed);
        }
        let spare = take()?;
        // The driver may have given one back meanwhile. Relaxed, both: the thread's own chunk.
        let kept = inbox
            .spare
            .compare_exchange(0, spare, Ordering::Relaxed, Ordering::Relaxed);
        if kept.is_err() {
            self.chunks.give_back(spare);
        }
        Ok(())
    }

    /// Makes room for notes about further nodes.
    pub fn add_nodes(&self, number: u32) -> Result<(), Error> {
        self.add(&self.nodes, number)
    }

    /// Takes an `add_nodes` back: the nodes were not made.
    pub fn subtract_nodes(&self, number: u32) {
        self.nodes.fetch_sub(number, Ordering::Relaxed);
    }

    #[cold]
    fn add(&self, total: &Total, number: u32) -> Result<(), Error> {
        total.fetch_add(number, Ordering::Relaxed);
        fence(Ordering::SeqCst);
        // Relaxed, both: the fence orders them.
        let nodes = u64::from(self.nodes.load(Ordering::Relaxed));
        let each = 2 * nodes / NOTES as u64 + 4;
        let provided = self
            .chunks
            .provide(each * u64::from(self.users.load(Ordering::Relaxed)));
        provided.inspect_err(|_| _ = total.fetch_sub(number, Ordering::Relaxed))
    }

    /// Step note.append. The thread's own call, after `reserve`.
    #[inline]
    pub fn append(&self, thread: Thread, index: u32) -> Place {
        let inbox = self.of(thread);
        inbox.count.notes.bump(1);
        // Relaxed: the thread's own word.
        let mut number = inbox.tail.load(Ordering::Relaxed);
        if number % PLACES == 0 {
            if number != 0 {
                self.extend(inbox);
            }
            number += 1;
        }
        // Relaxed: published by the tail.
        self.chunks
            .chunk(inbox.last.get())
            .note(number % PLACES)
            .store(index, Ordering::Relaxed);
        // Release: the note and its chunk; pairs with take.tail.
        inbox.tail.store(number + 1, Ordering::Release);
        Place { thread, number }
    }

    #[cold]
    fn extend(&self, inbox: &Inbox) {
        // Acquire: the driver is done with it; pairs with the Release in `go_on`.
        let chunk = inbox.spare.swap(0, Ordering::Acquire);
        debug_assert_ne!(chunk, 0);
        // Relaxed, both: published by the tail.
        self.chunks.chunk(chunk).next.store(0, Ordering::Relaxed);
        let last = self.chunks.chunk(inbox.last.replace(chunk));
        last.next.store(chunk, Ordering::Relaxed);
    }

    /// Step note.dirty. Follows a fence.
    #[inline]
    pub fn mark(&self, thread: Thread) {
        let (word, bit) = (thread as usize / BITS, 1 << (thread as usize % BITS));
        self.set(&self.words[word], bit);
        self.set(&self.top.0, 1 << (word / OF_TOP));
    }

    #[cfg(all(test, loom))]
    pub fn mark_top(&self) {
        self.set(&self.top.0, 1);
    }

    #[inline(always)]
    fn set(&self, word: &AtomicU64, bit: u64) {
        // Acquire: what the driver did before it cleared the bit, if another thread has set it
        // again.
        if word.load(Ordering::Acquire) & bit == 0 {
            // AcqRel: pairs with the swaps in `begin` and `go_to_next`.
            word.fetch_or(bit, Ordering::AcqRel);
            fence_after_rmw();
        }
    }

    /// Whether the driver has yet to take the note at a place.
    #[inline]
    pub fn holds(&self, place: Place) -> bool {
        // Acquire: what the driver did before; pairs with take.head.
        place.is_left(self.of(place.thread).driver.head.load(Ordering::Acquire))
    }

    /// Whether there may be notes. Acquire: pairs with the Release of note.dirty.
    #[inline(always)]
    pub fn are_dirty(&self) -> bool {
        self.top.0.load(Ordering::Acquire) != 0
    }

    /// Step take.dirty: begins a pass. Driver only.
    pub fn begin(&self, pass: &mut Pass) {
        if self.are_dirty() {
            // Acquire: pairs with the Release of note.dirty.
            pass.top = self.top.0.swap(0, Ordering::AcqRel);
            fence_after_rmw();
        }
    }

    /// Steps take.dirty and take.tail: the pass comes to its next inbox. False at its end. Driver
    /// only.
    pub fn go_to_next(&self, pass: &mut Pass) -> bool {
        while pass.bits == 0 {
            let Some(word) = pass.words.next() else {
                if pass.top == 0 {
                    return false;
                }
                let first = pass.top.trailing_zeros() as usize * OF_TOP;
                pass.words = first..WORDS.min(first + OF_TOP);
                pass.top &= pass.top - 1;
                continue;
            };
            // Acquire: pairs with the Release of note.dirty. A word of zeros needs no exchange: a
            // thread that sets a bit of it later sets that of the top, too.
            if self.words[word].load(Ordering::Acquire) != 0 {
                pass.bits = self.words[word].swap(0, Ordering::AcqRel);
                fence_after_rmw();
            }
        }
        let word = pass.words.start - 1;
        pass.thread = (word * BITS) as Thread + pass.bits.trailing_zeros();
        pass.bits &= pass.bits - 1;
        // take.tail. Acquire: pairs with note.append.
        pass.end = self.of(pass.thread).tail.load(Ordering::Acquire);
        true
    }

    /// Step take.head: takes notes, at most those before place `end`, and at most a batch.
    /// Returns the place of the first one, and how many they are. Driver only.
    pub fn take(&self, thread: Thread, end: u64, batch: &mut [u32; BATCH]) -> (u64, usize) {
        let inbox = self.of(thread);
        let own = &inbox.driver;
        // Relaxed: the driver's own word.
        let mut head = own.head.load(Ordering::Relaxed);
        if head == end {
            return (head, 0);
        }
        if head % PLACES == 0 {
            self.go_on(inbox);
            head += 1;
        }
        let at = head % PLACES;
        let n = (PLACES - at).min(end - head).min(BATCH as u64);
        let chunk = self.chunks.chunk(own.first.get());
        for (to, note) in batch.iter_mut().zip(chunk.notes(at, n)) {
            // Relaxed: the Acquire of the tail covers it.
            *to = note.load(Ordering::Relaxed);
        }
        // Release: the notes were read, and the spare chunk; pairs with `holds`.
        own.head.store(head + n, Ordering::Release);
        fence(Ordering::SeqCst);
        (head, n as usize)
    }

    /// Goes to the next chunk, and gives the one before back.
    #[cold]
    fn go_on(&self, inbox: &Inbox) {
        // Relaxed, both: the Acquire of the tail covers them.
        let before = inbox.driver.first.get();
        if before == 0 {
            inbox.driver.first.set(inbox.first.load(Ordering::Relaxed));
            return;
        }
        let next = self.chunks.chunk(before).next.load(Ordering::Relaxed);
        inbox.driver.first.set(next);
        // Release: the chunk was read; pairs with the Acquire in `extend`.
        if inbox
            .spare
            .compare_exchange(0, before, Ordering::Release, Ordering::Relaxed)
            .is_err()
        {
            self.chunks.give_back(before);
        }
    }

    /// Bytes of chunks that were used so far.
    pub fn bytes(&self) -> u64 {
        self.chunks.bytes()
    }

    /// # Safety
    /// No thread uses the inboxes any more.
    pub unsafe fn unmap(&mut self) {
        // SAFETY: the caller's promise; mapped by `make`.
        unsafe {
            self.chunks.unmap();
            unmap(self.at.cast(), BYTES);
        }
    }
}

/// Chunks that are mapped at once, and their bytes.
const BLOCK_CHUNKS: usize = 1 << NOTE_CHUNK_BITS;
const _: () = assert!(NOTE_BLOCKS * BLOCK_CHUNKS - 1 <= NUMBER as usize);
const BLOCK_BYTES: usize = BLOCK_CHUNKS * size_of::<Chunk>();

/// All zero is a fresh chunk.
#[derive(Default)]
#[repr(C)]
#[cfg_attr(not(checked), repr(align(256)))]
struct Chunk {
    /// The chunk that follows, in an inbox or in the stack of free chunks; or 0.
    next: AtomicU32,
    notes: Notes,
}

struct Notes([AtomicU32; NOTES]);

impl Default for Notes {
    fn default() -> Self {
        Notes(core::array::from_fn(|_| AtomicU32::default()))
    }
}

impl Fresh for Chunk {}
const _: () = assert!(cfg!(checked) || size_of::<Chunk>() == 256);

impl Chunk {
    /// The note at a place, which is not that of the header.
    #[inline(always)]
    fn note(&self, place: u64) -> &AtomicU32 {
        &self.notes.0[place as usize - 1]
    }

    /// The notes at `n` places, from a place on.
    #[inline(always)]
    fn notes(&self, place: u64, n: u64) -> &[AtomicU32] {
        &self.notes.0[place as usize - 1..][..n as usize]
    }
}

struct Chunks {
    blocks: [AtomicPtr<Chunk>; NOTE_BLOCKS],
    free: Stack,
    /// The next chunk that was never used.
    fresh: AtomicU32,
}

impl Chunks {
    /// # Safety
    /// `at` is zeroed, and the caller's alone to write.
    unsafe fn make(at: *mut Chunks) {
        // SAFETY: the caller's promise.
        unsafe {
            init(
                (&raw mut (*at).blocks).cast::<AtomicPtr<Chunk>>(),
                NOTE_BLOCKS,
            );
            (&raw mut (*at).free).write(Stack::default());
            // The number 0 is no chunk.
            (&raw mut (*at).fresh).write(AtomicU32::new(1));
        }
    }

    /// The chunk of a number that `take` has returned.
    #[inline(always)]
    fn chunk(&self, number: u32) -> &Chunk {
        let block = &self.blocks[number as usize / BLOCK_CHUNKS];
        // Acquire: pairs with the Release in `map_block`.
        let at = block.load(Ordering::Acquire);
        // SAFETY: the block of a chunk that was taken is mapped.
        unsafe { &*at.add(number as usize % BLOCK_CHUNKS) }
    }

    /// A chunk for the caller; `None` without memory. Lock-free.
    #[cold]
    fn take(&self) -> Option<u32> {
        // Relaxed: the Acquire of the stack covers it.
        let link = |number| self.chunk(number).next.load(Ordering::Relaxed);
        let free = || self.free.take(link);
        // Once each mapped chunk has been used, every chunk that is not in use is in the stack.
        free().or_else(|| self.take_fresh()).or_else(free)
    }

    /// Maps a number of chunks, as far as there is room for them; under loom, none.
    #[cold]
    fn provide(&self, number: u64) -> Result<(), Error> {
        if cfg!(loom) {
            return Ok(()); // Each execution would map all blocks anew.
        }
        let last = usize::try_from(number).map_or(NOTE_BLOCKS, |n| n / BLOCK_CHUNKS);
        let blocks = &self.blocks[..=last.min(NOTE_BLOCKS - 1)];
        // From the first to the last: no block is missing before one that is mapped.
        let is_missing = |block: &&AtomicPtr<Chunk>| block.load(Ordering::Acquire).is_null();
        let missing = blocks.iter().rev().take_while(is_missing).count();
        let mut mapped = blocks[blocks.len() - missing..].iter().map(Self::map_block);
        mapped.try_for_each(|made| made.ok_or(Error::Memory))
    }

    fn take_fresh(&self) -> Option<u32> {
        // Relaxed: only compared; the exchange decides.
        let mut number = self.fresh.load(Ordering::Relaxed);
        loop {
            // Reserve before committing: a failed map takes no number.
            let block = self.blocks.get(number as usize / BLOCK_CHUNKS)?;
            if block.load(Ordering::Acquire).is_null() {
                Self::map_block(block)?;
            }
            // Relaxed, both: the block is published by its own word.
            match self.fresh.compare_exchange_weak(
                number,
                number + 1,
                Ordering::Relaxed,
                Ordering::Relaxed,
            ) {
                Ok(_) => return Some(number),
                Err(seen) => number = seen,
            }
        }
    }

    fn map_block(block: &AtomicPtr<Chunk>) -> Option<()> {
        let fresh = map(BLOCK_BYTES, Pages::Small).cast::<Chunk>();
        if fresh.is_null() {
            return None;
        }
        // SAFETY: zeroed bytes, seen by nobody else yet.
        unsafe { init(fresh, BLOCK_CHUNKS) };
        let null = core::ptr::null_mut();
        // Release: publishes the block; pairs with the Acquires above.
        if block
            .compare_exchange(null, fresh, Ordering::AcqRel, Ordering::Acquire)
            .is_err()
        {
            // SAFETY: nobody has seen `fresh`.
            unsafe { unmap(fresh.cast(), BLOCK_BYTES) };
        }
        Some(())
    }

    /// Frees a chunk that the caller owns. Lock-free.
    fn give_back(&self, number: u32) {
        let link = &self.chunk(number).next;
        // Relaxed: published by the stack.
        self.free
            .put(number, |below| link.store(below, Ordering::Relaxed));
    }

    /// Bytes of the chunks that were used so far.
    fn bytes(&self) -> u64 {
        // Relaxed: a number.
        let chunks = self.fresh.load(Ordering::Relaxed) as usize - 1;
        (chunks * size_of::<Chunk>()) as u64
    }

    /// # Safety
    /// No thread uses the chunks any more.
    unsafe fn unmap(&mut self) {
        for block in &self.blocks {
            let at = block.load(Ordering::Acquire);
            if !at.is_null() {
                // SAFETY: mapped by `map_block`.
                unsafe { unmap(at.cast(), BLOCK_BYTES) };
            }
        }
    }
}

#[cfg(all(test, loom))]
mod model {
    use super::*;
    use loom::sync::Arc;
    use loom::thread;

    /// Three threads on the stack itself: a chunk is one thread's, with all of its notes, though
    /// it is taken, given back and taken again while another thread is about to take it.
    #[test]
    fn stack_of_chunks_take_against_take_and_give_back() {
        struct Stack(Chunks, [AtomicU32; 8]);
        // SAFETY: as in a wheel.
        unsafe impl Send for Stack {}
        // SAFETY: as above.
        unsafe impl Sync for Stack {}
        impl Stack {
            fn new() -> Stack {
                let mut place = core::mem::MaybeUninit::zeroed();
                // SAFETY: zeroed, and made before it is used.
                let chunks = unsafe {
                    Chunks::make(place.as_mut_ptr());
                    place.assume_init()
                };
                let stack = Stack(chunks, Default::default());
                let taken = [(); 3].map(|()| stack.0.take().unwrap());
                taken.iter().for_each(|chunk| stack.0.give_back(*chunk));
                stack
            }
            fn take(&self) -> u32 {
                let chunk = self.0.take().unwrap();
                let owners = self.1[chunk as usize].fetch_add(1, Ordering::Relaxed);
                assert_eq!(owners, 0, "of two threads");
                // Plain words, as far as the stack is concerned.
                self.0.chunk(chunk).note(1).store(chunk, Ordering::Relaxed);
                chunk
            }
            fn give_back(&self, chunk: u32) {
                let note = self.0.chunk(chunk).note(1).load(Ordering::Relaxed);
                assert_eq!(note, chunk);
                self.1[chunk as usize].fetch_sub(1, Ordering::Relaxed);
                self.0.give_back(chunk);
            }
        }
        impl Drop for Stack {
            fn drop(&mut self) {
                // SAFETY: nobody uses it any more.
                unsafe { self.0.unmap() };
            }
        }
        loom::model(|| {
            let stack = Arc::new(Stack::new());
            let other = stack.clone();
            let taker = thread::spawn(move || other.take());
            let mine = [stack.take(), stack.take()];
            stack.give_back(mine[0]);
            let again = stack.take();
            let theirs = taker.join().unwrap();
            stack.give_back(theirs);
            stack.give_back(again);
            stack.give_back(mine[1]);
            let mut all = [(); 3].map(|()| stack.take());
            all.sort_unstable();
            assert_eq!(all, [1, 2, 3], "lost or doubled");
        });
    }
}
