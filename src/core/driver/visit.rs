//! A visit: an entry leads the driver to a node, whose state word alone decides.
//!
//! ```text
//!   visit.read    read state; a timer due later keeps its promise
//!   visit.run     running := handle, if the driver runs the callback itself
//!   visit.claim   state := fired, or armed for the next period   (RMW)
//!   visit.end     the callback is over
//! ```
//! visit.read is a plain load. The fence behind the announcement stands before
//! it, so an arm whose exchange it misses sees the announcement (race 1).
//!
//! # Race 6: due again, against the end of a callback in another thread
//!
//! ```text
//!   driver                                 worker
//!   sweep.announce  gate := goal  (RMW)    the callback ends
//!   --- fence ---                          finish  state: not RUNNING (RMW)
//!   visit.read      state: RUNNING, due    --- fence ---
//!                                          finish  read gate: due?
//! ```
//! Either the driver finds the timer without RUNNING and fires it, or the worker
//! sees that it is due and makes an urgent entry.

use super::{Fired, Sink, Sweep};
use crate::core::entry::{promise_tick, Entry};
use crate::core::memory::Memory;
use crate::core::node::{self, decode_period, last_tick, shared_tick, Hot, Link, BURST, DELAY};
use crate::core::state::{high_of, Found, StateWord, LEAP, NEVER};
use crate::core::ticks::END_OF_TIME;
use crate::core::wheel::Wheel;
use crate::sync::{fence_after_rmw, Ordering};

/// A timer that is due while its callback runs is visited again after this number
/// of ticks, so that its deadline stays readable.
pub(super) const BUSY_AGAIN: u64 = LEAP / 2;

/// A number of periods as an event shows it.
pub(super) fn shown(missed: u64) -> u32 {
    u32::try_from(missed).unwrap_or(u32::MAX)
}

/// The rare record of a timer.
#[derive(Clone, Copy, Default)]
pub(super) struct Extra {
    period: u64,
    pub kind: u16,
    /// How long before its tick the timer is due, and periods left out: 0 after a move.
    pub early: u64,
    pub left_out: u64,
    /// The words of the last two, as they were read.
    words: (u64, u64),
}

/// The next deadline of a periodic timer.
#[derive(Clone, Copy)]
struct Next {
    /// The state word, and how long before its tick the deadline is.
    word: StateWord,
    early: u64,
    missed: u64,
}

impl<M: Memory> Wheel<M> {
    /// The rare record of a timer; zeros if it has none.
    #[inline(never)]
    pub(super) fn extra(&self, index: u32, state: StateWord, generation: u32) -> Extra {
        if !state.is_rare() {
            return Extra::default();
        }
        let rare = self.slab.rare(index);
        // Relaxed, all: published by the exchange of the state word, or the driver's.
        let early = rare.early.load(Ordering::Relaxed);
        let left_out = rare.left_out.load(Ordering::Relaxed);
        let words = (early, left_out);
        let value = |word| node::value_in(word, generation).unwrap_or(0);
        let (early, left_out) = match state.is_exact() {
            true => (value(early), value(left_out)),
            false => (0, 0),
        };
        let period = decode_period(value(rare.period.load(Ordering::Relaxed)));
        Extra {
            period,
            kind: rare.kind.read(generation),
            // One whose period was taken away has the time of its tick, like any other.
            early: if period == 0 { 0 } else { early },
            left_out,
            words,
        }
    }

    /// Marks a word as due at the exact time `ns`, and says how long that is before its tick.
    /// The time of the tick counts if that is too long for the rare record. The mark stays:
    /// the periods that were left out count in any case.
    pub(in crate::core) fn exactly(&self, word: StateWord, ns: u64, hand: u64) -> (StateWord, u64) {
        let early = self.ticks.ns(word.deadline(hand)).saturating_sub(ns);
        let kept = if early <= node::VALUE { early } else { 0 };
        (word.exactly(), kept)
    }

    /// Writes what the next deadline needs, behind the exchange of the state word. The
    /// node may have another life by now.
    fn write_next(&self, index: u32, generation: u32, seen: &Extra, early: u64, left_out: u64) {
        let rare = self.slab.rare(index);
        node::replace(&rare.early, seen.words.0, early, generation);
        node::replace(&rare.left_out, seen.words.1, left_out, generation);
    }
}

impl<M: Memory, S: Sink> Sweep<'_, M, S> {
    /// Looks at a timer that was promised a visit at the tick that is being swept. The
    /// short way is for a plain one with a callback, whose word is like `due`. The
    /// compiler makes a separate claim for it. False if the sweep is to stop.
    #[inline(always)]
    pub(super) fn visit(&mut self, index: u32, tick: u64, due: StateWord) -> bool {
        let (hot, fire) = self.wheel.slab.hot_and_fire(index);
        // visit.read. Acquire: pairs with the exchange of whoever armed it.
        let state = StateWord(hot.state.load(Ordering::Acquire));
        if state.is_like(due) {
            let wheel = self.wheel;
            let mut fired = wheel.fired::<true>(index, hot, fire, state, self.now_ns);
            if fired.func != 0 {
                if let Ok(goes_on) = self.claim::<true>(index, hot, state, &mut fired, tick, tick) {
                    return goes_on;
                }
            }
        } else if !state.is_armed() {
            return true;
        }
        self.visit_slowly(index, hot, tick)
    }

    #[inline(never)]
    pub(super) fn visit_slowly(&mut self, index: u32, hot: &Hot, tick: u64) -> bool {
        loop {
            // visit.read, again: as above.
            let state = StateWord(hot.state.load(Ordering::Acquire));
            let seen = match state.found(tick) {
                Found::Resting => return true,
                Found::Later(due) => {
                    self.keep_promise(index, hot, due, tick);
                    return true;
                }
                Found::Due(due) => {
                    let (wheel, fire) = (self.wheel, self.wheel.slab.fire(index));
                    let due_ns = wheel.ticks.ns(due);
                    let mut fired = wheel.fired::<false>(index, hot, fire, state, due_ns);
                    self.claim::<false>(index, hot, state, &mut fired, due, tick)
                }
                Found::Busy(due) => self.pass_over(index, hot, state, due, tick).map(|()| true),
            };
            if let Ok(goes_on) = seen {
                return goes_on;
            }
        }
    }

    /// Makes an entry for a timer that is due later, unless another is early
    /// enough. False without memory.
    #[inline]
    pub(super) fn keep_promise(&mut self, index: u32, hot: &Hot, due: u64, hand: u64) -> bool {
        let unit_bits = self.wheel.ticks.unit_bits;
        // Acquire: pairs with arm.publish.
        let link = Link(hot.link.load(Ordering::Acquire));
        if due == NEVER || link.promises(hand, due, unit_bits) {
            return true;
        }
        // A deadline that has passed is due at the next tick.
        let tick = promise_tick(due.max(hand + 1), hand);
        if !self.promise(index, tick, hand) {
            return false;
        }
        // By exchange: the node may go to another life meanwhile. Release: the entry; pairs
        // with arm.read.
        _ = hot
            .link
            .fetch_update(Ordering::AcqRel, Ordering::Acquire, |link| {
                let link = Link(link);
                let next = Link::new(tick, unit_bits, link.high());
                (!link.promises(hand, tick, unit_bits)).then_some(next.0)
            });
        true
    }

    /// Fires a timer that is due; another word if that is to be looked at. PLAIN says
    /// that the word is plain and that the driver runs its callback.
    #[inline(always)]
    fn claim<const PLAIN: bool>(
        &mut self,
        index: u32,
        hot: &Hot,
        state: StateWord,
        fired: &mut Fired,
        due: u64,
        tick: u64,
    ) -> Result<bool, StateWord> {
        let wheel = self.wheel;
        let is_auto = !PLAIN && state.is_auto();
        let called = PLAIN || fired.func != 0;
        let elsewhere = !PLAIN && called && wheel.pooled;
        let mut again = None;
        let generation = state.generation(high_of(fired.handle));
        if !PLAIN && state.is_rare() {
            let extra = wheel.extra(index, state, generation);
            fired.deadline_ns -= extra.early;
            fired.kind |= extra.kind;
            fired.missed = shown(extra.left_out);
            if extra.period != 0 {
                // With BURST, missed periods fire one by one, from tick to tick. Otherwise
                // they are left out, up to the clock's time.
                let until = match extra.kind & BURST {
                    0 => self.target.max(due),
                    _ => due,
                };
                let next = self.next_period(state, fired.deadline_ns, until, &extra);
                again = Some((next, extra));
            }
        }
        let mut next = match again {
            Some((next, _)) => next.word,
            // An event of one that frees itself.
            None if is_auto && !called => state.freed(),
            None => state.fired(),
        };
        if elsewhere {
            next = next.running();
        }
        let callback = &wheel.callback;
        let runs_here = called && !elsewhere;
        if runs_here {
            // visit.run. Relaxed: published by the exchange.
            callback.running.store(fired.handle, Ordering::Relaxed);
        }
        // visit.claim
        if let Err(seen) = wheel.exchange(hot, state, next) {
            if runs_here {
                // Release: as visit.end.
                callback.running.store(0, Ordering::Release);
            }
            return Err(seen);
        }
        // Between visit.end of the callback before this one and the look for waiters.
        fence_after_rmw();
        let count = &wheel.shared.count;
        count.fired.bump(1);
        if let Some((next, extra)) = again {
            wheel.write_next(index, generation, &extra, next.early, 0);
            let missed = extra.left_out + next.missed;
            fired.missed = shown(missed);
            if next.word.deadline(tick) > tick {
                self.keep_promise(index, hot, next.word.deadline(tick), tick);
            }
            count.periods.bump(1);
            count.missed.bump(missed);
        } else if !called {
            wheel.give_back(Some(self.own), index, next);
        }
        probe!(
            expire_entry,
            wheel,
            fired.handle,
            fired.deadline_ns,
            fired.func
        );
        let goes_on = self.wake_waiters()
            && if PLAIN {
                self.sink.call(fired)
            } else {
                self.sink.fire(fired)
            };
        if runs_here {
            // visit.end. Release: what the callback did. The fence is that of
            // the next claim, or at the end of the sweep.
            callback.running.store(0, Ordering::Release);
            if is_auto && again.is_none() {
                wheel.free_fired(self.own, fired.handle);
            }
        }
        if !elsewhere {
            probe!(expire_exit, wheel, fired.handle);
        }
        match again {
            Some((next, _)) if next.word.deadline(tick) <= tick => {
                self.look_again(index, next.word, tick, goes_on)
            }
            _ => Ok(goes_on),
        }
    }

    /// After a period of a burst that is behind: the next one is due in the same visit, too.
    /// If the sweep is to stop, the next sweep goes on with it.
    #[cold]
    #[inline(never)]
    fn look_again(
        &mut self,
        index: u32,
        word: StateWord,
        tick: u64,
        goes_on: bool,
    ) -> Result<bool, StateWord> {
        if goes_on {
            return Err(word);
        }
        let urgent = self.wheel.buckets.urgent();
        self.promise_in(urgent, Entry::new(index, tick, tick));
        Ok(false)
    }

    /// A timer that is due while its callback still runs in another thread.
    #[cold]
    fn pass_over(
        &mut self,
        index: u32,
        hot: &Hot,
        state: StateWord,
        due: u64,
        tick: u64,
    ) -> Result<(), StateWord> {
        let wheel = self.wheel;
        let generation = state.generation(Link(hot.link.load(Ordering::Relaxed)).high());
        let extra = wheel.extra(index, state, generation);
        let is_far = tick - due > BUSY_AGAIN;
        if extra.period != 0 && (extra.kind & BURST == 0 || is_far) {
            // This period is left out, and counted; with BURST, only if the callback runs
            // for so long that the deadline would no longer read right.
            let deadline_ns = wheel.ticks.ns(due) - extra.early;
            let until = self.target.max(due);
            let next = self.next_period(state, deadline_ns, until, &extra);
            wheel.exchange(hot, state, next.word)?;
            let left_out = (extra.left_out + next.missed + 1).min(node::VALUE);
            wheel.write_next(index, generation, &extra, next.early, left_out);
            self.keep_promise(index, hot, next.word.deadline(tick), tick);
            return Ok(());
        }
        // The end of the callback makes the visit: race 6. After so long a time the deadline
        // moves.
        if is_far {
            wheel.exchange(hot, state, state.armed(tick, tick))?;
        }
        self.promise(index, tick + BUSY_AGAIN, tick);
        wheel.shared.held.add(tick + BUSY_AGAIN, tick);
        self.consider_cleaning();
        Ok(())
    }

    /// The next deadline, as seen from the hand: this one plus the period, after the
    /// tick `until`.
    fn next_period(&self, state: StateWord, deadline_ns: u64, until: u64, extra: &Extra) -> Next {
        let (ticks, hand) = (&self.wheel.ticks, self.d.hand);
        let now = ticks.ns(until);
        let mut ns = deadline_ns.saturating_add(extra.period);
        let mut missed = 0;
        if ns <= now {
            missed = (now - ns) / extra.period + 1;
            ns = if extra.kind & DELAY != 0 {
                // From the exact time: the tick may have begun earlier.
                now.max(self.sink.now_ns()).saturating_add(extra.period)
            } else {
                ns.saturating_add(missed.saturating_mul(extra.period))
            };
        }
        let (mut word, mut early) = (state.armed(NEVER, hand), 0);
        if ns < END_OF_TIME {
            let tick = ticks.at_or_after(ns);
            word = state.armed(shared_tick(tick, last_tick(tick, extra.kind)), hand);
            (word, early) = self.wheel.exactly(word, ns, hand);
        }
        Next {
            word,
            early,
            missed,
        }
    }
}
