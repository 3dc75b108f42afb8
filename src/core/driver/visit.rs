//! A visit: an entry leads the driver to a node, whose state word alone decides.
//!
//! ```text
//!   visit.read    read state; a timer due later gets its entry again
//!   visit.run     running := handle, if the driver runs the callback itself
//!   visit.claim   state := fired, or armed for the next period   (RMW)
//!   visit.end     the callback is over
//! ```
//! visit.read is a plain load. The fence behind the announcement stands before
//! it, so an arm whose exchange it misses sees the announcement (race 1).
//!
//! The entry is out of its bucket by then, and the link names a tick that the hand has reached.
//! So a timer that fires or rests needs no write of the link.
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
//! sees that it is due and requests a look.

use super::event::{shown, Fired, Sink};
use super::words::Driver;
use crate::core::inbox::Thread;
use crate::core::link::Link;
use crate::core::period::{decode_period, last_tick, shared_tick, BURST, DELAY};
use crate::core::record;
use crate::core::slab::Records;
use crate::core::state::{high_of, Found, StateWord, NEVER, STEP};
use crate::core::ticks::END_OF_TIME;
use crate::core::wheel::{Wheel, NOBODY};
use crate::sync::{fence_after_rmw, Ordering};

/// A timer that is due while its callback runs is visited again after this number
/// of ticks, so that its deadline stays readable.
pub(super) const BUSY_AGAIN: u64 = STEP / 2;

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

impl Fired {
    /// Adds what the rare record says.
    #[inline(always)]
    pub(super) fn add(&mut self, extra: &Extra) {
        self.deadline_ns -= extra.early;
        self.kind |= extra.kind;
        self.missed = shown(extra.left_out);
    }
}

/// The next deadline of a periodic timer.
#[derive(Clone, Copy)]
struct Next {
    /// The state word, and how long before its tick the deadline is.
    word: StateWord,
    early: u64,
    missed: u64,
}

impl Wheel {
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
        let value = |word| record::value_in(word, generation).unwrap_or(0);
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

    /// Writes what the next deadline needs, behind the exchange of the state word. The
    /// node may have another life by now.
    fn write_next(&self, index: u32, generation: u32, seen: &Extra, early: u64, left_out: u64) {
        let rare = self.slab.rare(index);
        record::replace(&rare.early, seen.words.0, early, generation);
        record::replace(&rare.left_out, seen.words.1, left_out, generation);
    }
}

/// The visits of one sweep.
pub(super) struct Visits<'a, S> {
    pub wheel: &'a Wheel,
    pub sink: S,
    /// Where the caller wants the hand.
    target: u64,
    /// The number of this thread, or 0.
    thread: Thread,
    /// The tick of the visits, when it begins, and the word of a plain timer that is due then.
    tick: u64,
    now_ns: u64,
    due: StateWord,
    /// The sweep ends here.
    pub stop: bool,
}

impl<'a, S: Sink> Visits<'a, S> {
    pub fn new(wheel: &'a Wheel, sink: S, target: u64, thread: Thread) -> Self {
        Visits {
            wheel,
            sink,
            target,
            thread,
            tick: 0,
            now_ns: 0,
            due: StateWord::NONE,
            stop: false,
        }
    }

    /// The next visits are at this tick.
    #[inline(always)]
    pub fn begin_tick(&mut self, tick: u64) {
        self.tick = tick;
        self.now_ns = self.wheel.ticks.ns_of_reached(tick);
        // In a pooled wheel no visit takes the short way.
        if !self.wheel.pooled {
            self.due = StateWord::plain_due(tick);
        }
    }

    /// Wakes the threads that wait for a finished callback: after the fence of visit.end.
    /// False if that callback has forked and this is the child, which fires no more.
    #[inline(always)]
    pub fn wake_waiters(&self) -> bool {
        // Relaxed: fenced, see above.
        self.wheel.callback.waiters.load(Ordering::Relaxed) == NOBODY || self.wake()
    }

    #[cold]
    #[inline(never)]
    fn wake(&self) -> bool {
        self.sink.wake();
        self.wheel.gate.id() != 0
    }

    /// Looks at a timer whose entry was taken. The short way is for a plain one with a callback,
    /// whose word is like `due`. The compiler makes a separate claim for it. False if the sweep
    /// is to stop.
    #[inline(always)]
    pub fn visit(&mut self, d: &mut Driver, node: Records<'_>) -> bool {
        // visit.read. Acquire: pairs with the exchange of whoever armed it.
        let state = StateWord(node.hot().state.load(Ordering::Acquire));
        if state.is_like(self.due) {
            let mut fired = Fired::of::<true>(node, state, self.now_ns);
            if fired.func != 0 {
                let claimed = self.claim::<true>(d, node, state, &mut fired, self.tick);
                if let Ok(goes_on) = claimed {
                    return goes_on;
                }
            }
        } else if !state.is_armed() {
            return true;
        }
        self.visit_slowly(d, node)
    }

    #[inline(never)]
    fn visit_slowly(&mut self, d: &mut Driver, node: Records<'_>) -> bool {
        let tick = self.tick;
        loop {
            // visit.read, again: as above.
            let state = StateWord(node.hot().state.load(Ordering::Acquire));
            let seen = match state.found(tick) {
                Found::Resting => return true,
                Found::Later(due) => {
                    if due != NEVER {
                        self.wheel.place_after_visit(d, node, due);
                    }
                    return true;
                }
                Found::Due(due) => {
                    let due_ns = self.wheel.ticks.ns(due);
                    let mut fired = Fired::of::<false>(node, state, due_ns);
                    self.claim::<false>(d, node, state, &mut fired, due)
                }
                Found::Busy(due) => self.pass_over(d, node, state, due).map(|()| true),
            };
            if let Ok(goes_on) = seen {
                return goes_on;
            }
        }
    }

    /// Fires a timer that is due; another word if that is to be looked at. PLAIN says
    /// that the word is plain and that the driver runs its callback.
    #[inline(always)]
    fn claim<const PLAIN: bool>(
        &mut self,
        d: &mut Driver,
        node: Records<'_>,
        state: StateWord,
        fired: &mut Fired,
        due: u64,
    ) -> Result<bool, StateWord> {
        let (wheel, tick) = (self.wheel, self.tick);
        let (index, hot) = (node.index, node.hot());
        let is_auto = !PLAIN && state.is_auto();
        let called = PLAIN || fired.func != 0;
        let elsewhere = !PLAIN && called && wheel.pooled;
        let mut again = None;
        let generation = state.generation(high_of(fired.handle));
        if !PLAIN && state.is_rare() {
            let extra = wheel.extra(index, state, generation);
            fired.add(&extra);
            if extra.period != 0 {
                // With BURST, missed periods fire one by one, from tick to tick. Otherwise
                // they are left out, up to the clock's time.
                let until = match extra.kind & BURST {
                    0 => self.target.max(due),
                    _ => due,
                };
                let next = self.next_period(state, fired.deadline_ns, until, &extra, d.hand);
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
            let due = next.word.deadline(tick);
            if due > tick && due != NEVER {
                wheel.place_after_visit(d, node, due);
            }
            count.periods.bump(1);
            count.missed.bump(missed);
        } else if !called {
            wheel.give_back(self.thread, index, next);
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
                wheel.free_fired(self.thread, fired.handle);
            }
        }
        if !elsewhere {
            probe!(expire_exit, wheel, fired.handle);
        }
        match again {
            Some((next, _)) if next.word.deadline(tick) <= tick => {
                self.look_again(d, node, next.word, goes_on)
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
        d: &mut Driver,
        node: Records<'_>,
        word: StateWord,
        goes_on: bool,
    ) -> Result<bool, StateWord> {
        if goes_on {
            return Err(word);
        }
        d.buckets.place_overdue(&self.wheel.slab, node, d.hand);
        Ok(false)
    }

    /// A timer that is due while its callback still runs in another thread.
    #[cold]
    fn pass_over(
        &mut self,
        d: &mut Driver,
        node: Records<'_>,
        state: StateWord,
        due: u64,
    ) -> Result<(), StateWord> {
        let (wheel, tick) = (self.wheel, self.tick);
        let (index, hot) = (node.index, node.hot());
        let generation = state.generation(Link(hot.link.load(Ordering::Relaxed)).high());
        let extra = wheel.extra(index, state, generation);
        let is_far = tick - due > BUSY_AGAIN;
        if extra.period != 0 && (extra.kind & BURST == 0 || is_far) {
            // This period is left out, and counted; with BURST, only if the callback runs
            // for so long that the deadline would no longer read right.
            let deadline_ns = wheel.ticks.ns(due) - extra.early;
            let until = self.target.max(due);
            let next = self.next_period(state, deadline_ns, until, &extra, d.hand);
            wheel.exchange(hot, state, next.word)?;
            let left_out = (extra.left_out + next.missed + 1).min(record::VALUE);
            wheel.write_next(index, generation, &extra, next.early, left_out);
            // `until` is at or after this tick.
            let due = next.word.deadline(tick);
            if due != NEVER {
                wheel.place_after_visit(d, node, due);
            }
            return Ok(());
        }
        // The end of the callback makes the visit: race 6. After so long a time the deadline
        // moves.
        if is_far {
            wheel.exchange(hot, state, state.armed(tick, tick))?;
        }
        wheel.place_after_visit(d, node, tick + BUSY_AGAIN);
        Ok(())
    }

    /// The next deadline, as seen from the hand: this one plus the period, after the
    /// tick `until`.
    fn next_period(
        &self,
        state: StateWord,
        deadline_ns: u64,
        until: u64,
        extra: &Extra,
        hand: u64,
    ) -> Next {
        let ticks = &self.wheel.ticks;
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
