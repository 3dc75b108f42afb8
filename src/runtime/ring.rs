//! A bounded queue of fired timers, from the driver to the threads that run
//! callbacks: Dmitry Vyukov's, with one producer.
//!
//! Each slot has a *turn*. In the lap that begins at position `r` the turn is `2 r`
//! while the slot may be filled, and `2 r + 1` while it may be emptied. Then it is
//! `2 (r + size)`. Zeroed memory is a queue in its first lap, and a queue may have a
//! single slot. A consumer may be stopped after it has taken a position and before
//! it gives the slot back. It holds up no thread until the producer comes to that
//! slot again, which finds the queue full.
//!
//! A timer can be taken out of the middle. The thread that exchanges its handle in
//! the slot for zero has it: the consumer of the slot, or a thread that cancels the
//! timer. The slot stays in its place, and consumers pass over it.

use crate::core::driver::Fired;
use crate::core::memory::{Memory, Pages};
use crate::core::state::Handle;
use crate::sync::{init, AtomicPtr, AtomicU64, Fresh, Ordering};

/// A fired timer in seven words, and the turn of the slot.
#[repr(C, align(64))]
struct Slot {
    turn: AtomicU64,
    words: [AtomicU64; 7],
}

impl Fresh for Slot {
    #[cfg(checked)]
    fn fresh() -> Self {
        Slot {
            turn: AtomicU64::new(0),
            words: std::array::from_fn(|_| AtomicU64::new(0)),
        }
    }
}

pub(crate) struct Ring {
    slots: AtomicPtr<Slot>,
    /// The number of slots, a power of two, less one.
    mask: u64,
    /// The number of slots that `revoke` has emptied and nobody has given back.
    holes: AtomicU64,
    /// Written by the producer.
    tail: AtomicU64,
    head: Apart,
}

#[repr(align(64))]
struct Apart(AtomicU64);

impl Ring {
    /// A queue for `size` timers, a power of two; `None` without memory.
    pub fn new(memory: &impl Memory, size: u32) -> Option<Self> {
        debug_assert!(size.is_power_of_two());
        let ring = Ring {
            slots: AtomicPtr::new(std::ptr::null_mut()),
            mask: u64::from(size) - 1,
            holes: AtomicU64::new(0),
            tail: AtomicU64::new(0),
            head: Apart(AtomicU64::new(0)),
        };
        let slots = memory.map(ring.bytes(), Pages::Small).cast::<Slot>();
        if slots.is_null() {
            return None;
        }
        // SAFETY: zeroed, and seen by nobody else.
        unsafe { init(slots, size as usize) };
        // Relaxed: before the ring is shared.
        ring.slots.store(slots, Ordering::Relaxed);
        Some(ring)
    }

    fn bytes(&self) -> usize {
        (self.mask as usize + 1) * size_of::<Slot>()
    }

    /// The slot of a position, and the turn in which it may be filled.
    fn slot(&self, position: u64) -> (&Slot, u64) {
        let number = position & self.mask;
        // Relaxed: written once, by `new`.
        let slots = self.slots.load(Ordering::Relaxed);
        // SAFETY: `number` is below the number of slots.
        let slot = unsafe { &*slots.add(number as usize) };
        (slot, 2 * (position - number))
    }

    /// Whether there is room. It stays true until the producer pushes. Producer only.
    pub fn has_room(&self) -> bool {
        // Relaxed: the producer's own word.
        let (slot, filling) = self.slot(self.tail.load(Ordering::Relaxed));
        // Acquire: pairs with the Release in `pop`.
        slot.turn.load(Ordering::Acquire) == filling
    }

    /// Puts one in; false if the queue is full. One thread at a time.
    pub fn push(&self, fired: &Fired) -> bool {
        // Relaxed: the producer's own word.
        let tail = self.tail.load(Ordering::Relaxed);
        let (slot, filling) = self.slot(tail);
        // Acquire: pairs with the Release in `pop`.
        if slot.turn.load(Ordering::Acquire) != filling {
            return false;
        }
        let words = [
            fired.handle,
            fired.func as u64,
            fired.cookie,
            fired.deadline_ns,
            fired.missed,
            fired.kind.into(),
        ];
        // Relaxed: published by the turn, and the handle by itself as well.
        for (to, word) in slot.words.iter().zip(words).skip(1) {
            to.store(word, Ordering::Relaxed);
        }
        // Release: pairs with the exchange in `revoke`.
        slot.words[0].store(fired.handle, Ordering::Release);
        // Release, both: the words; pair with the Acquires in `pop` and `len`.
        slot.turn.store(filling + 1, Ordering::Release);
        self.tail.store(tail + 1, Ordering::Release);
        true
    }

    /// Takes the oldest. Any thread.
    pub fn pop(&self) -> Option<Fired> {
        loop {
            let (slot, filling) = self.claim(|_| true)?;
            let words = &slot.words;
            // AcqRel: either this thread has it, or `revoke` has.
            let handle = words[0].swap(0, Ordering::AcqRel);
            // Relaxed: acquired by the turn.
            let word = |i: usize| words[i].load(Ordering::Relaxed);
            let fired = Fired {
                handle,
                func: word(1) as usize,
                cookie: word(2),
                deadline_ns: word(3),
                missed: word(4),
                kind: word(5) as u16,
            };
            self.give_back(slot, filling);
            if handle != 0 {
                return Some(fired);
            }
            // Relaxed: a count.
            self.holes.fetch_sub(1, Ordering::Relaxed);
        }
    }

    /// Takes the position of the oldest slot, if that is filled and `wanted`; also
    /// returns the turn in which it was filled.
    fn claim(&self, wanted: impl Fn(&Slot) -> bool) -> Option<(&Slot, u64)> {
        // Relaxed: the exchange decides.
        let mut head = self.head.0.load(Ordering::Relaxed);
        loop {
            let (slot, filling) = self.slot(head);
            // Acquire: pairs with the Release in `push`.
            let turn = slot.turn.load(Ordering::Acquire);
            if turn <= filling {
                // Not filled, or its last consumer has not given it back yet.
                return None;
            }
            // Relaxed, both: the thread that has the position has the slot. The
            // turn hands its words on.
            let exchanged = match turn == filling + 1 {
                true if !wanted(slot) => return None,
                true => self.head.0.compare_exchange_weak(
                    head,
                    head + 1,
                    Ordering::Relaxed,
                    Ordering::Relaxed,
                ),
                // Another thread has taken it.
                false => Err(self.head.0.load(Ordering::Relaxed)),
            };
            match exchanged {
                Ok(_) => return Some((slot, filling)),
                Err(seen) => head = seen,
            }
        }
    }

    fn give_back(&self, slot: &Slot, filling: u64) {
        // Release: the slot may be filled again; pairs with `push`.
        let next = filling + 2 * (self.mask + 1);
        slot.turn.store(next, Ordering::Release);
    }

    /// Takes a timer out, wherever it is: true if it was there, and then nobody
    /// else gets it. Looks from position `from` on, and moves that to the end.
    /// Any thread; linearizes at the exchange of the handle.
    ///
    /// A slot may be filled anew between a look and the exchange, even with the
    /// same timer; then that is taken out.
    pub fn revoke(&self, handle: Handle, from: &mut u64) -> bool {
        // Acquire: pairs with the Release in `push`.
        let tail = self.tail.load(Ordering::Acquire);
        // Relaxed: the handle shows what was taken since.
        let head = self.head.0.load(Ordering::Relaxed);
        let mut found = false;
        for position in head.max(*from)..tail {
            let word = &self.slot(position).0.words[0];
            // Relaxed, then AcqRel: pairs with the store of the handle.
            found = word.load(Ordering::Relaxed) == handle
                && word
                    .compare_exchange(handle, 0, Ordering::AcqRel, Ordering::Relaxed)
                    .is_ok();
            if found {
                // Relaxed: a count.
                self.holes.fetch_add(1, Ordering::Relaxed);
                break;
            }
        }
        *from = tail.max(*from);
        // Empty slots at the front make room at once.
        // Relaxed: a filled slot without a handle stays so until it is taken.
        let revoked = |slot: &Slot| slot.words[0].load(Ordering::Relaxed) == 0;
        while let (true, Some((slot, filling))) = (found, self.claim(revoked)) {
            self.give_back(slot, filling);
            self.holes.fetch_sub(1, Ordering::Relaxed);
        }
        found
    }

    /// The number of timers that wait; exact while no thread pushes or takes out.
    pub fn waiting(&self) -> u64 {
        // Relaxed: a count.
        self.len()
            .saturating_sub(self.holes.load(Ordering::Relaxed))
    }

    /// The number of filled slots; exact while no thread pushes or pops.
    pub fn len(&self) -> u64 {
        // Acquire: pairs with the Release in `push`.
        let tail = self.tail.load(Ordering::Acquire);
        tail.saturating_sub(self.head.0.load(Ordering::Relaxed))
    }

    /// # Safety
    /// Nobody uses the queue any more; `memory` is what it was made from.
    pub unsafe fn unmap(&self, memory: &impl Memory) {
        let slots = self.slots.load(Ordering::Relaxed);
        // SAFETY: mapped with this size by `new`.
        unsafe { memory.unmap(slots.cast(), self.bytes()) };
    }
}
