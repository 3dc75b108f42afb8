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
//! to the wheel (`chunks.rs`).
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
//! Of a thread's notes that the driver has yet to take, at most two are about one timer: the one
//! that the link names, and one that another thread's note has kept out of the link. So the notes
//! of a thread fill at most a number of chunks that follows from the number of nodes. The thread
//! also has a chunk that is not full, one that the driver is at, a spare one, and one that it has
//! just taken. Before a further thread or a further node comes into use, that number of chunks is
//! mapped for each thread that uses the wheel. So only the first arm of a thread may lack memory, and
//! a further timer. The owner of an owned wheel writes no notes. A message may lack memory.
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

use super::chunks::Chunks;
use super::error::Error;
use super::link::Place;
use super::slab::FreeList;
use super::stats::Count;
use super::tunables::{BATCH, NOTES, THREADS};
use crate::sync::{fence, fence_after_rmw, init, AtomicU32, AtomicU64, Fresh, Ordering};
use crate::sys::maps::{map, unmap, Pages};
use core::cell::Cell;
use core::ops::Range;
// Not those of the model checkers.
use core::sync::atomic::AtomicU32 as Total;

/// The number of a thread, as long as it uses timers: 0 is none.
pub(crate) type Thread = u32;

/// Bits of the number in the identity of a thread (`owner.rs`).
pub(crate) const NUMBER_BITS: u32 = 16;
const _: () = assert!(THREADS <= 1 << NUMBER_BITS);

/// The number in an identity.
#[inline(always)]
pub(crate) fn number_of(identity: u64) -> Thread {
    identity as u16 as Thread
}

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
            // AcqRel: pairs with the swap in `take_dirty`.
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
            // Acquire: pairs with the Release of note.dirty. Without the exchange: the thread that
            // sets a bit of this word later sets that of the top as well.
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
