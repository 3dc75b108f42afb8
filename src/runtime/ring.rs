//! A bounded queue of fired timers, from the driver to the threads that run
//! callbacks, with turns as in Dmitry Vyukov's bounded queue.
//!
//! Each slot has a *turn*. In the lap that begins at position `r` the turn is `2 r`
//! while the slot may be filled, and `2 r + 1` while it is filled. Zeroed memory is a
//! queue in its first lap, and a queue may have a single slot.
//!
//! A thread takes a timer out by one exchange, which sets the turn to the
//! `2 (r + size)` of the next lap. A consumer takes the oldest timer, and copies its
//! words first. A thread that cancels a timer takes that timer, wherever it is. No turn
//! repeats, so an exchange that succeeds has taken the words that were copied.
//!
//! The *head* follows: a thread that finds the slot at the head empty moves the head
//! on. So a thread that is stopped anywhere blocks no other.
//!
//! # Places in the middle
//!
//! The slot at the tail may be filled while others are empty, because timers were taken out
//! of the middle. Then the driver skips positions: it fills the next empty slot, at the
//! next position of that slot. A position before the tail whose slot is empty was skipped.
//! A thread that finds the head there ends the turn, and moves the head on. If the driver
//! has filled the slot at a later position meanwhile, the exchange of the turn fails.

use crate::core::driver::Fired;
use crate::core::state::Handle;
use crate::sync::{init, AtomicU64, Fresh, Ordering};
use crate::sys::maps::{map, unmap, Pages};
use core::ptr::NonNull;

/// A fired timer in six words, and the turn of the slot.
#[derive(Default)]
#[repr(C, align(64))]
struct Slot {
    turn: AtomicU64,
    words: [AtomicU64; 6],
}

impl Slot {
    /// The turn. Acquire: pairs with the Releases in `push` and in `end_turn`.
    fn turn(&self) -> u64 {
        self.turn.load(Ordering::Acquire)
    }
}

/// Whether a slot is filled, whatever the lap.
fn is_filled(turn: u64) -> bool {
    turn % 2 == 1
}

/// The number of slots that the driver looks at for an empty one.
const LOOKS: u64 = 1024;

impl Fresh for Slot {}

pub(crate) struct Ring {
    /// Mapped. Their number is a power of two.
    slots: NonNull<[Slot]>,
    /// Written by the producer.
    tail: AtomicU64,
    /// Head and number of timers taken out when the producer last found no empty slot. The
    /// producer's own.
    looked: [AtomicU64; 2],
    /// The producer has skipped no position from here on. The producer's own.
    skipped: AtomicU64,
    /// All slots before it were emptied.
    head: Apart,
    /// The number of timers that were taken out of the middle.
    revoked: AtomicU64,
}

// SAFETY: the slots are atomic, and belong to the queue.
unsafe impl Send for Ring {}
// SAFETY: as above.
unsafe impl Sync for Ring {}

#[repr(align(64))]
struct Apart(AtomicU64);

impl Ring {
    /// A queue for `size` timers, a power of two; `None` without memory.
    pub fn new(size: u32) -> Option<Self> {
        debug_assert!(size.is_power_of_two());
        let size = size as usize;
        let at = NonNull::new(map(size * size_of::<Slot>(), Pages::Small))?.cast();
        // SAFETY: zeroed, and seen by nobody else.
        unsafe { init(at.as_ptr(), size) };
        Some(Ring {
            slots: NonNull::slice_from_raw_parts(at, size),
            tail: AtomicU64::new(0),
            looked: [AtomicU64::new(0), AtomicU64::new(0)],
            skipped: AtomicU64::new(0),
            head: Apart(AtomicU64::new(0)),
            revoked: AtomicU64::new(0),
        })
    }

    fn slots(&self) -> &[Slot] {
        // SAFETY: mapped until the drop.
        unsafe { self.slots.as_ref() }
    }

    /// The slot of a position, and the turn in which it may be filled.
    fn slot(&self, position: u64) -> (&Slot, u64) {
        let number = position & (self.slots().len() as u64 - 1);
        (&self.slots()[number as usize], 2 * (position - number))
    }

    /// The position to fill next, if there is room. Producer only.
    fn room(&self) -> Option<u64> {
        // Relaxed: the producer's own word.
        let tail = self.tail.load(Ordering::Relaxed);
        let is_empty = |position: u64| !is_filled(self.slot(position).0.turn());
        if is_empty(tail) {
            return Some(tail);
        }
        // Acquire: what was taken out; pairs with `revoke`.
        let revoked = self.revoked.load(Ordering::Acquire);
        let (Ok(head) | Err(head)) = self.front();
        // Relaxed, here and below: the producer's own words.
        let looked = [0, 1].map(|n| self.looked[n].load(Ordering::Relaxed));
        let skipped = self.skipped.load(Ordering::Relaxed);
        // If no position behind the head was skipped, a slot gets empty at the tail first.
        if revoked == looked[1] && (head == looked[0] || head >= skipped) {
            return None;
        }
        let looks = LOOKS.min(self.slots().len() as u64);
        let found = (tail..tail + looks).find(|position| is_empty(*position));
        match found {
            Some(position) => self.skipped.store(position, Ordering::Relaxed),
            None => {
                self.looked[0].store(head, Ordering::Relaxed);
                self.looked[1].store(revoked, Ordering::Relaxed);
            }
        }
        found
    }

    /// Whether there is room. It stays true until the producer pushes. Producer only.
    #[cfg(loom)]
    pub fn has_room(&self) -> bool {
        self.room().is_some()
    }

    /// Puts one in; false if the queue is full. One thread at a time.
    pub fn push(&self, fired: &Fired) -> bool {
        let Some(position) = self.room() else {
            return false;
        };
        let (slot, filling) = self.slot(position);
        let words = [
            fired.handle,
            fired.func as u64,
            fired.cookie,
            fired.deadline_ns,
            fired.missed.into(),
            fired.kind.into(),
        ];
        // Relaxed: published by the turn.
        for (to, word) in slot.words.iter().zip(words) {
            to.store(word, Ordering::Relaxed);
        }
        // Release, both: the words; pairs with the Acquires in `front` and in `revoke`.
        slot.turn.store(filling + 1, Ordering::Release);
        self.tail.store(position + 1, Ordering::Release);
        true
    }

    /// Moves the head to the oldest slot that was not emptied, and returns its position:
    /// `Ok` if that slot is filled, `Err` if it is not.
    fn front(&self) -> Result<u64, u64> {
        // Relaxed, here and below: an old head is moved on by the turns.
        let mut head = self.head.0.load(Ordering::Relaxed);
        loop {
            let (slot, filling) = self.slot(head);
            let turn = slot.turn();
            if turn == filling + 1 {
                return Ok(head);
            }
            if turn <= filling {
                // Acquire: pairs with the Release in `push`.
                if head >= self.tail.load(Ordering::Acquire) {
                    return Err(head);
                }
                // It was skipped, or is filled by now.
                self.end_turn(slot, turn, filling);
                continue;
            }
            head = self
                .head
                .0
                .compare_exchange(head, head + 1, Ordering::Relaxed, Ordering::Relaxed)
                .map_or_else(|seen| seen, |head| head + 1);
        }
    }

    /// Empties a slot that was filled in this turn; false if another thread has.
    fn empty(&self, slot: &Slot, filling: u64) -> bool {
        self.end_turn(slot, filling + 1, filling)
    }

    /// Moves a slot from a turn to the lap after another one; false if it has another turn.
    fn end_turn(&self, slot: &Slot, turn: u64, filling: u64) -> bool {
        let next = filling + 2 * self.slots().len() as u64;
        // Release: the words were read; pairs with the Acquire in `room`. Relaxed otherwise:
        // the turn was acquired before.
        slot.turn
            .compare_exchange(turn, next, Ordering::Release, Ordering::Relaxed)
            .is_ok()
    }

    /// Takes the oldest, and misses none whose push this thread has seen. Any thread.
    pub fn pop(&self) -> Option<Fired> {
        loop {
            let (slot, filling) = self.slot(self.front().ok()?);
            // Relaxed: acquired by the turn, and of this turn if the exchange succeeds.
            let word = |i: usize| slot.words[i].load(Ordering::Relaxed);
            let fired = Fired {
                handle: word(0),
                func: word(1) as usize,
                cookie: word(2),
                deadline_ns: word(3),
                missed: word(4) as u32,
                flags: 0,
                kind: word(5) as u16,
            };
            if self.empty(slot, filling) {
                return Some(fired);
            }
        }
    }

    /// Takes a timer out, wherever it is: true if it was there, and then no other
    /// thread gets it. Looks from position `from` on, and moves that to the end.
    /// Any thread; linearizes at the exchange of the turn.
    pub fn revoke(&self, handle: Handle, from: &mut u64) -> bool {
        // Acquire: pairs with the Release in `push`.
        let tail = self.tail.load(Ordering::Acquire);
        let (Ok(head) | Err(head)) = self.front();
        let begin = head.max(*from);
        *from = tail.max(*from);
        let revoked = self.last_slots(begin, tail).any(|slot| {
            let turn = slot.turn();
            // Relaxed: acquired by the turn, and of this turn if the exchange succeeds.
            is_filled(turn)
                && slot.words[0].load(Ordering::Relaxed) == handle
                && self.empty(slot, turn - 1)
        });
        if revoked {
            // Release: pairs with the Acquire in `room`.
            self.revoked.fetch_add(1, Ordering::Release);
        }
        revoked
    }

    /// The slots of a range of positions, each of them once. A slot may be filled at an
    /// earlier position, if the later one was skipped.
    fn last_slots(&self, begin: u64, end: u64) -> impl Iterator<Item = &Slot> {
        let size = self.slots().len() as u64;
        let begin = begin.max(end.saturating_sub(size));
        (begin..end).map(|position| self.slot(position).0)
    }

    /// The number of timers that wait; exact while no thread pushes or takes out.
    pub fn waiting(&self) -> usize {
        // Relaxed, both: a count, and no slot before an old head is filled.
        let tail = self.tail.load(Ordering::Relaxed);
        let head = self.head.0.load(Ordering::Relaxed);
        self.last_slots(head, tail)
            .filter(|slot| is_filled(slot.turn()))
            .count()
    }
}

impl Drop for Ring {
    fn drop(&mut self) {
        let bytes = size_of_val(self.slots());
        // SAFETY: mapped with this size by `new`.
        unsafe { unmap(self.slots.as_ptr().cast(), bytes) };
    }
}
