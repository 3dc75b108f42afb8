//! The next deadline of a periodic timer, and the rare record.
//!
//! The driver writes the rare record behind its exchange of the state word. The node may have
//! another life by then (`core/record.rs`).

use super::event::{shown, Fired};
use super::words::Driver;
use crate::core::period::{decode_period, last_tick_in, shared_tick, BURST, DELAY};
use crate::core::record;
use crate::core::slab::Records;
use crate::core::state::{high_of, StateWord, NEVER};
use crate::core::ticks::END_OF_TIME;
use crate::core::wheel::Wheel;
use crate::sync::Ordering;

/// The rare record of a timer.
#[derive(Clone, Copy, Default)]
pub(super) struct Extra {
    generation: u32,
    pub period: u64,
    pub kind: u16,
    /// How long before its tick the timer is due, and periods left out: 0 after a move.
    pub early: u64,
    pub left_out: u64,
    /// The words of the last two, as they were read.
    words: (u64, u64),
}

impl Fired {
    /// Adds what the rare record says.
    #[inline(always)]
    pub(super) fn add(&mut self, extra: &Extra) {
        self.deadline_ns -= extra.early;
        self.kind |= extra.kind;
        self.missed = shown(extra.left_out);
    }
}

/// The times of a visit.
pub(super) struct Times {
    pub hand: u64,
    /// Where the caller wants the hand.
    pub target: u64,
    /// The clock's time; 0 if it is not known.
    pub now_ns: u64,
}

/// The next deadline of a periodic timer.
#[derive(Clone, Copy)]
pub(super) struct Next {
    /// The state word, and how long before its tick the deadline is.
    pub word: StateWord,
    pub early: u64,
    pub missed: u64,
}

impl Wheel {
    /// The rare record of a timer whose generation has the high part `high`; zeros if it has none.
    #[inline(never)]
    pub(super) fn extra(&self, index: u32, state: StateWord, high: u64) -> Extra {
        if !state.is_rare() {
            return Extra::default();
        }
        let generation = state.generation(high);
        let rare = self.slab.rare(index);
        // Relaxed, all: published by the exchange of the state word, or the driver's.
        let early = rare.early.load(Ordering::Relaxed);
        let left_out = rare.left_out.load(Ordering::Relaxed);
        let words = (early, left_out);
        let value = |word| record::value_in(word, generation).unwrap_or(0);
        let (early, left_out) = match state.is_exact() {
            true => (value(early), value(left_out)),
            false => (0, 0),
        };
        let period = decode_period(value(rare.period.load(Ordering::Relaxed)));
        Extra {
            generation,
            period,
            kind: rare.kind.read(generation),
            // One whose period was taken away has the time of its tick, like any other.
            early: if period == 0 { 0 } else { early },
            left_out,
            words,
        }
    }

    /// Writes what the next deadline needs, behind the exchange of the state word. The
    /// node may have another life by now.
    pub(super) fn write_next(&self, index: u32, seen: &Extra, early: u64, left_out: u64) {
        let rare = self.slab.rare(index);
        record::replace(&rare.early, seen.words.0, early, seen.generation);
        record::replace(&rare.left_out, seen.words.1, left_out, seen.generation);
    }

    /// The next deadline of a periodic timer that is due, and the rare record. Adds to `fired` what
    /// the rare record says.
    pub(super) fn again(
        &self,
        index: u32,
        state: StateWord,
        fired: &mut Fired,
        due: u64,
        times: &Times,
    ) -> Option<(Next, Extra)> {
        if !state.is_rare() {
            return None;
        }
        let extra = self.extra(index, state, high_of(fired.handle));
        fired.add(&extra);
        if extra.period == 0 {
            return None;
        }
        // With BURST, missed periods fire one by one, from tick to tick. Otherwise they are left
        // out, up to the clock's time.
        let until = match extra.kind & BURST {
            0 => times.target.max(due),
            _ => due,
        };
        let next = self.next_period(state, fired.deadline_ns, until, &extra, times);
        Some((next, extra))
    }

    /// Behind the claim of a periodic timer: what the next deadline needs.
    pub(super) fn go_on(
        &self,
        d: &Driver,
        node: Records<'_>,
        fired: &mut Fired,
        next: &Next,
        extra: &Extra,
    ) {
        self.write_next(node.index, extra, next.early, 0);
        let missed = extra.left_out + next.missed;
        fired.missed = shown(missed);
        let hand = d.hand.get();
        let due = next.word.deadline(hand);
        if due > hand {
            self.place_later(d, node, due);
        }
        self.shared.count.periods.bump(1);
        self.shared.count.missed.bump(missed);
    }

    /// The next deadline, as seen from the hand: this one plus the period, after the
    /// tick `until`.
    pub(super) fn next_period(
        &self,
        state: StateWord,
        deadline_ns: u64,
        until: u64,
        extra: &Extra,
        times: &Times,
    ) -> Next {
        let (ticks, hand) = (&self.ticks, times.hand);
        let now = ticks.ns(until);
        let mut ns = deadline_ns.saturating_add(extra.period);
        let mut missed = 0;
        if ns <= now {
            missed = (now - ns) / extra.period + 1;
            ns = if extra.kind & DELAY != 0 {
                // From the exact time: the tick may have begun earlier.
                now.max(times.now_ns).saturating_add(extra.period)
            } else {
                ns.saturating_add(missed.saturating_mul(extra.period))
            };
        }
        let (mut word, mut early) = (state.armed(NEVER, hand), 0);
        if ns < END_OF_TIME {
            let tick = ticks.at_or_after(ns);
            let last = last_tick_in(tick, extra.kind, extra.period, ticks.tick_ns);
            let last = ticks.last_reached(tick, last);
            word = state.armed(shared_tick(tick, last), hand);
            (word, early) = self.exactly(word, ns, hand);
        }
        Next {
            word,
            early,
            missed,
        }
    }
}
