//! The three records of a timer.
//!
//! # The link
//!
//! ```text
//!  63        52 51                                            0
//! +-----------+-------------------------------------------------+
//! | gen, high | promise, in units of 2^unit_bits ticks          |
//! +-----------+-------------------------------------------------+
//! ```
//! The driver visits the node in the unit of ticks that begins at the promise. A promise
//! counts only while the hand is before that unit, so no thread revokes it. The 52 bits
//! name every unit of the clock's range. So a promise that was met stays met, even if a
//! thread publishes it years later.
//!
//! A unit is one tick if ticks are 4096 ns or longer, and 4 to 8 us if they are
//! shorter. In the second case a thread relies on a promise only if the whole unit
//! lies before the deadline.
//!
//! A promise is published by a plain store of the link. `life.rs` says why that does not
//! write an old generation over a new one.
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

use super::state::{Handle, GEN_HIGH_BITS};
use crate::sync::{AtomicU64, AtomicUsize, Fresh, Ordering};

const PROMISE_BITS: u32 = 64 - GEN_HIGH_BITS;
const PROMISE: u64 = (1 << PROMISE_BITS) - 1;

/// The number of low bits of a tick that a promise leaves out, by the length of a
/// tick: the rest fits into 52 bits.
pub(crate) const fn unit_bits(tick_ns: u64) -> u32 {
    (64 - tick_ns.ilog2()).saturating_sub(PROMISE_BITS)
}

/// The words that every call on a timer reads and writes.
#[derive(Default)]
#[repr(C, align(16))]
pub(crate) struct Hot {
    pub state: AtomicU64,
    pub link: AtomicU64,
}

/// Written while one thread owns the node, and published by the exchange of the state
/// word.
#[derive(Default)]
#[repr(C, align(16))]
pub(crate) struct Fire {
    pub func: AtomicUsize,
    /// The caller's cookie; in a free node the next free one.
    pub cookie: AtomicU64,
}

/// The words of periodic and keyed timers.
#[derive(Default)]
#[repr(C, align(32))]
pub(crate) struct Rare {
    /// See [`encode_period`].
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
impl Fresh for Fire {}
impl Fresh for Rare {}

/// A link as it was read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Link(pub u64);

impl Link {
    /// A promise for `tick`, of a generation with this high part.
    #[inline(always)]
    pub fn new(tick: u64, unit_bits: u32, high: u64) -> Self {
        Link(high << PROMISE_BITS | (tick >> unit_bits))
    }

    #[inline(always)]
    pub fn high(self) -> u64 {
        self.0 >> PROMISE_BITS
    }

    /// 0 if the high part is that of a handle.
    #[inline(always)]
    pub fn differs_from(self, handle: Handle) -> u64 {
        (self.0 ^ handle) >> PROMISE_BITS
    }

    /// The same with another high part.
    pub fn with_high(self, high: u64) -> Self {
        Link(self.0 & PROMISE | high << PROMISE_BITS)
    }

    #[inline(always)]
    pub fn promise(self, unit_bits: u32) -> u64 {
        self.0 << GEN_HIGH_BITS >> (GEN_HIGH_BITS - unit_bits)
    }

    /// The same where a unit is a tick. If the high part is not that of the handle, the
    /// result is a tick that is not near.
    #[inline(always)]
    pub fn near_promise(self, handle: Handle) -> u64 {
        self.0 ^ (handle & !PROMISE)
    }

    /// Whether the driver meets an entry after `hand` and at or before `tick`.
    #[inline]
    pub fn promises(self, hand: u64, tick: u64, unit_bits: u32) -> bool {
        let first = self.promise(unit_bits);
        hand < first && first | ((1 << unit_bits) - 1) <= tick
    }

    /// Whether the promise names the unit of `tick`.
    pub fn is_about(self, tick: u64, unit_bits: u32) -> bool {
        self.0 & PROMISE == tick >> unit_bits
    }
}

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

const COARSE: u64 = 1 << 47;
const COARSE_BITS: u32 = 16;

/// A period in 48 bits. Below 2^47 ns (39 hours) it is exact. Above that it is in
/// units of 2^16 ns, rounded up, so that a timer is never early. `ns` is below 2^63.
pub(crate) fn encode_period(ns: u64) -> u64 {
    if ns < COARSE {
        return ns;
    }
    ns.div_ceil(1 << COARSE_BITS).min(COARSE - 1) | COARSE
}

pub(crate) fn decode_period(value: u64) -> u64 {
    if value & COARSE == 0 {
        return value;
    }
    match value & !COARSE {
        // The largest value stands for the longest period, 292 years.
        most if most == COARSE - 1 => (1 << 63) - 1,
        units => units << COARSE_BITS,
    }
}

/// The node frees itself when it has fired for the last time.
pub(crate) const AUTO: u16 = 1;
/// Missed periods fire one by one.
pub(crate) const BURST: u16 = 2;
/// After a miss, the next period begins when this one fires.
pub(crate) const DELAY: u16 = 4;
/// The caller knows the timer by a key, not by its handle.
pub(crate) const KEYED: u16 = 8;
/// The bits from here on: the slack of a period, as a power of two of ticks.
const SLACK_SHIFT: u32 = 8;

/// The slack of a period in a timer's kind: up to `ticks`, at most 2^47.
pub(crate) fn slack(ticks: u64) -> u16 {
    ((ticks.min((1 << 47) - 1) + 1).ilog2() as u16) << SLACK_SHIFT
}

/// The tick from `first` to `last` that other timers with slack pick, too: the one
/// that is divisible by the largest power of two.
#[inline]
pub(crate) fn shared_tick(first: u64, last: u64) -> u64 {
    let differ = first.wrapping_sub(1) ^ last;
    last & (u64::MAX << differ.checked_ilog2().unwrap_or(0))
}

/// The last tick that the slack of `kind` allows for a period that is due at tick `due`.
#[inline]
pub(crate) fn last_tick(due: u64, kind: u16) -> u64 {
    due.saturating_add((1 << (kind >> SLACK_SHIFT)) - 1)
}

#[cfg(all(test, not(checked)))]
mod tests {
    use super::*;

    #[test]
    fn the_shared_tick_is_in_the_range_and_the_roundest() {
        for tick in 1..200u64 {
            for ticks in 0..200 {
                let best = (tick..=tick + ticks).max_by_key(|t| t.trailing_zeros());
                assert_eq!(
                    Some(shared_tick(tick, tick + ticks)),
                    best,
                    "{tick} {ticks}"
                );
            }
        }
    }

    #[test]
    fn a_timer_is_sixteen_bytes_hot() {
        assert_eq!(size_of::<Hot>(), 16);
        assert_eq!(size_of::<Fire>(), 16);
        assert_eq!(size_of::<Rare>(), 32);
    }

    #[test]
    fn a_promise_counts_only_if_its_whole_unit_does() {
        for unit_bits in [0, 4, 12] {
            let unit = 1u64 << unit_bits;
            let tick = (1u64 << (50 + unit_bits)) + 5 * unit + unit / 2;
            let first = tick >> unit_bits << unit_bits;
            let link = Link::new(tick, unit_bits, 0xabc);
            assert_eq!(link.high(), 0xabc);
            assert_eq!(link.with_high(0xdef).promise(unit_bits), first);
            assert_eq!(link.promise(unit_bits), first);
            assert!(link.promises(first - 1, first + unit - 1, unit_bits));
            assert!(!link.promises(first, u64::MAX, unit_bits));
            assert!(unit == 1 || !link.promises(first - 1, first + unit - 2, unit_bits));
        }
    }

    #[test]
    fn a_period_is_exact_below_39_hours_and_never_short() {
        for ns in [
            1,
            1000,
            COARSE - 1,
            COARSE,
            COARSE + 1,
            86_400_000_000_000,
            (1 << 63) - 1,
        ] {
            let kept = decode_period(encode_period(ns));
            assert!(kept >= ns && kept - ns < 1 << COARSE_BITS);
            assert!(kept == ns || ns >= COARSE);
            assert_eq!(encode_period(ns) & !VALUE, 0);
        }
    }

    #[test]
    fn a_word_of_another_life_is_none() {
        let word = tagged(123, 0x1f_0001);
        assert_eq!(value_in(word, 0x1f_0001), Some(123));
        assert_eq!(value_in(word, 0x1f_0002), None);
    }
}
