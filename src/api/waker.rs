//! Waking a future from the thread that drives or drains the wheel.
//!
//! A timer of a [`Sleep`](crate::Sleep) has the place of a waker as its cookie. A timer of a
//! [`DelayQueue`](crate::DelayQueue) has a [`Note`], with a mark in the lowest bit. A pending
//! timer owns what its cookie points to. Whoever ends it takes that over.

use atomic_waker::AtomicWaker;
use std::panic::{catch_unwind, AssertUnwindSafe};
use std::ptr::{null_mut, with_exposed_provenance, with_exposed_provenance_mut};
use std::sync::atomic::{AtomicPtr, Ordering};
use std::sync::Arc;

const NOTE: u64 = 1;

/// Tells a queue that one of its timers has ended.
pub(super) struct Note {
    to: Arc<Ended>,
    /// The item, and which of its times.
    pub key: u64,
    pub turn: u64,
    next: *mut Note,
}

/// The notes of timers that have ended, and the waker of the task that takes them.
///
/// Any thread adds one, by compare-exchange on `last`. The owner of the queue takes all at
/// once. So a note is never taken out of the middle, and `last` cannot be mistaken for an
/// earlier one.
pub(super) struct Ended {
    last: AtomicPtr<Note>,
    pub waker: AtomicWaker,
}

/// In place of the last note: the queue is gone, and takes none.
fn gone() -> *mut Note {
    std::ptr::without_provenance_mut(1)
}

// SAFETY: whoever adds the notes gives them away; they hold numbers, and an `Arc` of this.
unsafe impl Send for Ended {}
// SAFETY: as above.
unsafe impl Sync for Ended {}

impl Ended {
    pub fn new() -> Arc<Ended> {
        Arc::new(Ended {
            last: AtomicPtr::new(null_mut()),
            waker: AtomicWaker::new(),
        })
    }

    /// The cookie of a timer that adds a note when it ends.
    pub fn note(self: &Arc<Ended>, key: u64, turn: u64) -> u64 {
        let note = Box::new(Note {
            to: self.clone(),
            key,
            turn,
            next: null_mut(),
        });
        Box::into_raw(note).expose_provenance() as u64 | NOTE
    }

    /// Adds a note, and wakes the task.
    fn add(note: Box<Note>) {
        let to = note.to.clone();
        let note = Box::into_raw(note);
        // Relaxed: nobody reads through it here.
        let mut last = to.last.load(Ordering::Relaxed);
        loop {
            if last == gone() {
                // SAFETY: from a box, and not added.
                return drop(unsafe { Box::from_raw(note) });
            }
            // SAFETY: nobody else has the note yet.
            unsafe { (*note).next = last };
            // Release: pairs with the swap in `take`, which reads the note.
            let added =
                to.last
                    .compare_exchange_weak(last, note, Ordering::Release, Ordering::Relaxed);
            match added {
                Ok(_) => break,
                Err(other) => last = other,
            }
        }
        to.waker.wake();
    }

    /// Whether `take` would find a note.
    pub fn has_any(&self) -> bool {
        // Relaxed: if it finds none, the waker that is registered before is woken for the next.
        !self.last.load(Ordering::Relaxed).is_null()
    }

    /// Takes all notes, the first first.
    pub fn take(&self) -> Vec<Note> {
        self.take_for(null_mut())
    }

    /// Ends it: takes all notes, and lets no other come.
    pub fn close(&self) {
        self.take_for(gone());
    }

    fn take_for(&self, then: *mut Note) -> Vec<Note> {
        // Acquire: pairs with the exchange in `add`.
        let mut last = self.last.swap(then, Ordering::Acquire);
        let mut notes = Vec::new();
        while !last.is_null() && last != gone() {
            // SAFETY: from a box in `note`, added once, and taken by this swap alone.
            let note = unsafe { Box::from_raw(last) };
            last = note.next;
            notes.push(*note);
        }
        notes.reverse();
        notes
    }
}

/// Frees the note of a timer that will not end.
///
/// # Safety
/// `cookie` is from [`Ended::note`], and its timer was pending or never armed. The caller
/// has taken it back.
pub(super) unsafe fn forget(cookie: u64) {
    // SAFETY: from a box, which the timer owned.
    drop(unsafe { note_of(cookie) });
}

/// # Safety
/// As [`forget`].
unsafe fn note_of(cookie: u64) -> Box<Note> {
    let address = (cookie & !NOTE) as usize;
    // SAFETY: from `Box::into_raw` in `note`, and the caller owns it.
    unsafe { Box::from_raw(with_exposed_provenance_mut(address)) }
}

/// Wakes the future of a timer that has fired or was drained.
///
/// # Safety
/// `cookie` is that of a timer whose function is PROMPT and which was pending. The
/// caller has ended it.
pub(super) unsafe fn end(cookie: u64) {
    // A panic must not leave a sweep half done. The panic hook has reported it.
    let ended = catch_unwind(AssertUnwindSafe(|| match cookie & NOTE {
        0 => {
            // SAFETY: from an `Arc` in `Sleep::arm`, and the timer owned this count.
            let place =
                unsafe { Arc::from_raw(with_exposed_provenance::<AtomicWaker>(cookie as usize)) };
            place.wake();
        }
        // SAFETY: as the caller promises.
        _ => Ended::add(unsafe { note_of(cookie) }),
    }));
    if let Err(panic) = ended {
        std::mem::forget(panic);
    }
}
