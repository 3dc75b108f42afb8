//! The records of a timer, and the link.
//!
//! # The link
//!
//! It is the second word of a timer, and says why the driver looks at the timer in time.
//!
//! ```text
//!  63        54 53                                            0
//! +-----------+------------------------------------------------+
//! | gen, high | value                                          |
//! +-----------+------------------------------------------------+
//! ```
//!
//! | value         | meaning                                | counts while              |
//! |---------------|----------------------------------------|---------------------------|
//! | 0             | nothing                                | never                     |
//! | below `FIRST_NOTE` | *tick k*: the driver has an entry for exactly k | the hand is before k |
//! | from `FIRST_NOTE`  | *note (t, p)*: place p of thread t's inbox | the driver has not taken it |
//!
//! Each thread can tell whether a reason still counts. So no thread has to take one back.
//! The driver alone writes ticks. A thread that arms writes a note: a place of its inbox.
//!
//! A tick of a microsecond or more fits: the clock's last tick is below 2^53.6. The 36 bits of
//! a place repeat, but a link does not name a place that was taken, except while its thread is
//! inside the arm that wrote it (`arm.rs`). That thread fills no other place meanwhile.
//!
//! Next to the value the link has the high part of the node's generation. It changes when a
//! node is freed and the low part wraps (`life.rs`).
//!
//! # The rare record
//!
//! Its words carry 16 bits of the generation as a tag, and the kind carries all of
//! them. A word with the tag of another life counts as absent. So the setup of a timer
//! clears no word.
//!
//! A thread that writes after the exchange of the state word may be late: the node may be
//! in another life by then. So such a write is an exchange from the value that the thread
//! read before. It does nothing if another life has written the word, unless that
//! life is a multiple of 65,536 lives later and has written the same value.
//!
//! A tag repeats after 65,536 lives. So a word with a tag counts only if this life has
//! written it: the period is written before the timer is marked RARE, the others before
//! it is marked EXACT. The kind is not written for a timer that becomes periodic later.

use super::state::{Handle, GEN_HIGH_BITS, HANDLE_GAP};
use crate::sync::{AtomicU64, AtomicUsize, Fresh, Ordering};
use core::cell::Cell;

const REASON_BITS: u32 = 64 - GEN_HIGH_BITS;
const REASON: u64 = (1 << REASON_BITS) - 1;
const PLACE_BITS: u32 = 36;
const PLACE: u64 = (1 << PLACE_BITS) - 1;
/// Bits of the number of a thread.
const THREAD_BITS: u32 = 15;
const _: () = assert!(super::THREADS <= 1 << THREAD_BITS);
/// The first value that is a note: no tick of a clock comes so far.
pub(super) const FIRST_NOTE: u64 = (1 << REASON_BITS) - (1 << (THREAD_BITS + PLACE_BITS));

/// A place of an inbox: the number of its thread, and how many places come before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    pub thread: u32,
    /// Of the whole number, the low 36 bits count.
    pub number: u64,
}

impl Place {
    /// Whether a driver that has taken `head` notes has left this one.
    #[inline(always)]
    pub fn is_left(self, head: u64) -> bool {
        // Half of the range of places lies on either side.
        (self.number.wrapping_sub(head) << (64 - PLACE_BITS)) as i64 >= 0
    }
}

/// A reason for a visit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reason {
    Nothing,
    Tick(u64),
    Note(Place),
}

/// A link as it was read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Link(pub u64);

impl Link {
    /// No reason, in a generation with this high part.
    pub fn none(high: u64) -> Self {
        Link(high << REASON_BITS)
    }

    #[inline(always)]
    pub fn high(self) -> u64 {
        self.0 >> REASON_BITS
    }

    /// 0 if the high part is that of a handle.
    #[inline(always)]
    pub fn differs_from(self, handle: Handle) -> u64 {
        (self.0 ^ handle) >> REASON_BITS
    }

    /// This link with a tick, or 0 for no reason: what the driver writes.
    #[inline(always)]
    pub fn with_tick(self, tick: u64) -> Self {
        Link(self.0 & !REASON | tick)
    }

    /// This link with another high part.
    pub fn with_high(self, high: u64) -> Self {
        Link(self.0 & REASON | high << REASON_BITS)
    }

    /// Another reason with the same high part.
    #[inline]
    pub fn with(self, reason: Reason) -> Self {
        self.with_tick(match reason {
            Reason::Nothing => 0,
            Reason::Tick(tick) => tick,
            Reason::Note(place) => {
                FIRST_NOTE + (u64::from(place.thread) << PLACE_BITS | place.number & PLACE)
            }
        })
    }

    #[inline]
    pub fn reason(self) -> Reason {
        match self.0 & REASON {
            0 => Reason::Nothing,
            FIRST_NOTE.. => Reason::Note(self.place()),
            tick => Reason::Tick(tick),
        }
    }

    /// Whether the reason is a note, and the high part is that of the handle.
    #[inline(always)]
    pub fn is_near_note(self, handle: Handle) -> bool {
        let note = (self.0 ^ (handle & !REASON)).wrapping_sub(FIRST_NOTE);
        note >> (THREAD_BITS + PLACE_BITS) == 0
    }

    #[inline(always)]
    pub fn is_note(self) -> bool {
        self.0 & REASON >= FIRST_NOTE
    }

    /// The place of a note.
    #[inline(always)]
    pub fn place(self) -> Place {
        let note = (self.0 & REASON) - FIRST_NOTE;
        Place {
            thread: (note >> PLACE_BITS) as u32,
            number: note & PLACE,
        }
    }

    /// The tick. The result is no tick near the hand if the reason is a note, or if the high
    /// part is not that of the handle.
    #[inline(always)]
    pub fn near_tick(self, handle: Handle) -> u64 {
        const { assert!(HANDLE_GAP & !REASON == 0) };
        self.0 ^ (handle & !REASON)
    }
}

/// The words that every call on a timer reads and writes.
#[derive(Default)]
#[repr(C, align(16))]
pub(crate) struct Hot {
    pub state: AtomicU64,
    pub link: AtomicU64,
}

impl Hot {
    /// Writes a tick, or 0 for no reason, into the link of a timer in an owned wheel. The owner's
    /// own call.
    #[inline(always)]
    pub fn set_tick(&self, tick: u64) {
        // Relaxed: the owner's word. Release: for threads that read the high part.
        let link = Link(self.link.load(Ordering::Relaxed));
        self.link.store(link.with_tick(tick).0, Ordering::Release);
    }
}

/// Written while one thread owns the node, and published by the exchange of the state
/// word.
#[derive(Default)]
#[repr(C)]
pub(crate) struct Fire {
    pub func: AtomicUsize,
    /// The caller's cookie; in a free node the next free one.
    pub cookie: AtomicU64,
}

/// Where the driver comes to the timer, in a list of a bucket (`buckets.rs`). The driver's
/// alone. It stays where it is when the timer is freed. All zero is no entry.
#[derive(Default)]
#[repr(C)]
pub(crate) struct Entry {
    /// The tick of the visit, or 0: no clock has that tick.
    pub tick: Cell<u64>,
    /// The neighbours in the list: each a node, or the list itself.
    pub next: Cell<u32>,
    pub prev: Cell<u32>,
}

/// The words of periodic and keyed timers.
#[derive(Default)]
#[repr(C, align(32))]
pub(crate) struct Rare {
    /// See [`encode_period`](super::ticks::encode_period).
    pub period: AtomicU64,
    /// BURST, DELAY, KEYED, and the slack of a period.
    pub kind: Kind,
    /// How long before its tick the exact deadline is. The driver's, once the
    /// timer exists.
    pub early: AtomicU64,
    /// Periods skipped since the last firing. The driver's.
    pub left_out: AtomicU64,
}

impl Fresh for Hot {}
impl Fresh for Entry {}
impl Fresh for Fire {}
impl Fresh for Rare {}

const TAG_BITS: u32 = 16;
pub(crate) const VALUE: u64 = u64::MAX >> TAG_BITS;

/// A word of the rare record: a value of 48 bits in a life.
#[inline]
pub(crate) fn tagged(value: u64, generation: u32) -> u64 {
    u64::from(generation) << (64 - TAG_BITS) | (value & VALUE)
}

/// The value that a word has in a life, if it has one.
#[inline]
pub(crate) fn value_in(word: u64, generation: u32) -> Option<u64> {
    (word >> (64 - TAG_BITS) == u64::from(generation) & 0xffff).then_some(word & VALUE)
}

#[inline]
pub(crate) fn write(word: &AtomicU64, value: u64, generation: u32) {
    // Relaxed: published by the exchange of the state word.
    word.store(tagged(value, generation), Ordering::Relaxed);
}

/// Writes a tagged word that a thread has read, unless another life has written it since.
#[inline]
pub(crate) fn replace(word: &AtomicU64, seen: u64, value: u64, generation: u32) {
    let value = tagged(value, generation);
    if seen != value {
        // Relaxed, both: the driver alone reads it.
        _ = word.compare_exchange(seen, value, Ordering::Relaxed, Ordering::Relaxed);
    }
}

/// The kind of a timer, with the whole generation: no other life has it.
#[derive(Default)]
#[repr(transparent)]
pub(crate) struct Kind(AtomicU64);

impl Kind {
    #[inline]
    fn word(kind: u16, generation: u32) -> u64 {
        u64::from(generation) << u16::BITS | u64::from(kind)
    }

    /// The kind that a timer was made with, or 0.
    #[inline]
    pub fn read(&self, generation: u32) -> u16 {
        // Relaxed: published by the exchange of the state word.
        let word = self.0.load(Ordering::Relaxed);
        let kind = word as u16;
        if word == Self::word(kind, generation) {
            kind
        } else {
            0
        }
    }

    #[inline]
    pub fn write(&self, kind: u16, generation: u32) {
        // Relaxed: as in `read`.
        self.0
            .store(Self::word(kind, generation), Ordering::Relaxed);
    }
}

#[cfg(all(test, not(checked)))]
mod tests {
    use super::*;

    #[test]
    fn a_link_keeps_its_reason_and_its_high_part() {
        let place = |thread, number| Reason::Note(Place { thread, number });
        let last = Reason::Tick(FIRST_NOTE - 1);
        for reason in [
            Reason::Nothing,
            Reason::Tick(1),
            last,
            place(0, 0),
            place((1 << THREAD_BITS) - 1, PLACE),
        ] {
            let link = Link::none(0x2ab).with(reason);
            assert_eq!((link.high(), link.reason()), (0x2ab, reason));
            assert_eq!(link.with_high(0x155).reason(), reason);
            assert_eq!(link.with_high(0x155).high(), 0x155);
        }
    }

    #[test]
    fn a_place_is_taken_when_the_head_is_past_it_also_over_the_wrap() {
        for first in [0, PLACE - 1, PLACE, u64::MAX >> 8] {
            let number = first + 1;
            for number in [number, number & PLACE] {
                let place = Place { thread: 1, number };
                assert!(place.is_left(first) && place.is_left(first + 1));
                assert!(!place.is_left(first + 2));
            }
        }
    }

    #[test]
    fn the_records_of_a_timer_have_sixteen_bytes_and_thirty_two() {
        assert_eq!(size_of::<Hot>(), 16);
        assert_eq!(size_of::<Entry>(), 16);
        assert_eq!(size_of::<Fire>(), 16);
        assert_eq!(size_of::<Rare>(), 32);
    }

    #[test]
    fn a_word_of_another_life_is_none() {
        let word = tagged(123, 0x1f_0001);
        assert_eq!(value_in(word, 0x1f_0001), Some(123));
        assert_eq!(value_in(word, 0x1f_0002), None);
    }
}
