//! The records of a timer.
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

use super::link::Link;
use crate::sync::{AtomicU64, AtomicUsize, Fresh, Ordering};
use core::cell::Cell;

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
    /// See [`encode_period`](super::period::encode_period).
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
