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
//!
//! # Periods
//!
//! The driver writes the rare record behind its exchange of the state word. The node may have
//! another life by then (`core/record.rs`).

use crate::core::record::{self, Hot, Link};
use crate::core::slab::Records;
use crate::core::state::{high_of, Found, Handle, StateWord, NEVER, STEP};
use crate::core::ticks::{
    decode_period, last_tick_in, shared_tick, AUTO, BURST, DELAY, END_OF_TIME,
};
use crate::core::wheel::{Driver, Wheel, NO_WAITER};
use crate::core::{Thread, BATCH};
use crate::sync::{fence_after_rmw, Ordering};

/// A timer that has fired, or was handed back by a drain. Begins like the event of the C
/// interface (`capi/event.rs`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub(crate) struct Fired {
    pub handle: Handle,
    pub cookie: u64,
    /// The time of its tick; for a periodic timer the exact time.
    pub deadline_ns: u64,
    /// Periods that were skipped; `u32::MAX` stands for that number or more.
    pub missed: u32,
    /// [`DRAINED`], [`LISTED`]; 0 of a timer that has fired.
    pub flags: u32,
    pub func: usize,
    /// AUTO, BURST, DELAY, KEYED.
    pub kind: u16,
}

/// A drain has handed the timer back.
pub(crate) const DRAINED: u32 = 1 << 8;
/// The timer is pending.
pub(crate) const LISTED: u32 = 1 << 9;

impl Fired {
    /// The event of an armed timer, without the rare record.
    #[inline(always)]
    pub(in crate::core) fn of<const PLAIN: bool>(
        node: Records<'_>,
        state: StateWord,
        deadline_ns: u64,
    ) -> Fired {
        // Relaxed, all: published by the exchange that visit.read or drain.read
        // has acquired. If the node goes to another life meanwhile, the exchange
        // that ends this one fails.
        let high = Link(node.hot().link.load(Ordering::Relaxed)).high();
        let (index, fire) = (node.index, node.fire());
        Fired {
            handle: if PLAIN {
                state.plain_handle(index, high)
            } else {
                state.handle(index, high)
            },
            func: fire.func.load(Ordering::Relaxed),
            cookie: fire.cookie.load(Ordering::Relaxed),
            deadline_ns,
            missed: 0,
            flags: 0,
            kind: if !PLAIN && state.is_auto() { AUTO } else { 0 },
        }
    }
}

/// A number of periods as an event shows it.
fn shown(missed: u64) -> u32 {
    u32::try_from(missed).unwrap_or(u32::MAX)
}

/// The receiver of fired timers.
pub(crate) trait Sink {
    /// Takes one; false if the sweep is to stop after it. In a pooled wheel one
    /// with a callback is RUNNING until `Wheel::finish` is called for it.
    fn fire(&mut self, fired: &Fired) -> bool;

    /// Takes a plain timer whose callback the driver runs; false if the sweep is to stop.
    #[inline(always)]
    fn call(&mut self, fired: &Fired) -> bool {
        self.fire(fired)
    }

    /// The clock's time, which may be later than its tick; 0 if it is not known.
    fn now_ns(&self) -> u64 {
        0
    }

    /// Called now and then while no timer fires; true if the sweep is to stop.
    fn is_enough(&mut self) -> bool {
        false
    }

    /// Whether nobody sleeps until the alarm. Then the sweep itself finds the next visit.
    fn settles(&self) -> bool {
        false
    }

    /// Wakes the threads that wait for the end of a callback.
    fn wake(&self);
}

/// A timer that is due while its callback runs is visited again after this number
/// of ticks, so that its deadline stays readable.
const BUSY_AGAIN: u64 = STEP / 2;

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
    /// The entries that were taken out of buckets.
    taken: usize,
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
            taken: 0,
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

    /// Whether the sweep stops behind an entry that was taken: the sink is asked now and then.
    #[inline(always)]
    pub fn stops_behind_one(&mut self) -> bool {
        self.taken += 1;
        if self.taken % BATCH != 0 {
            return false;
        }
        self.stop = self.sink.is_enough();
        self.stop
    }

    fn times(&self, d: &Driver) -> Times {
        Times {
            hand: d.hand.get(),
            target: self.target,
            now_ns: self.sink.now_ns(),
        }
    }

    /// Wakes the threads that wait for a finished callback: after the fence of visit.end.
    /// False if that callback has forked and this is the child, which fires no more.
    #[inline(always)]
    pub fn wake_waiters(&self) -> bool {
        // Relaxed: fenced, see above.
        self.wheel.callback.waiters.load(Ordering::Relaxed) == NO_WAITER || self.wake()
    }

    #[cold]
    #[inline(never)]
    fn wake(&self) -> bool {
        self.sink.wake();
        self.wheel.gate.id() != 0
    }

    /// Looks at a timer whose entry was taken. The short way is for a plain one with a callback,
    /// whose word is like `due`. False if the sweep is to stop.
    #[inline(always)]
    pub fn visit(&mut self, d: &Driver, node: Records<'_>) -> bool {
        // visit.read. Acquire: pairs with the exchange of whoever armed it.
        let state = StateWord(node.hot().state.load(Ordering::Acquire));
        if state.is_like(self.due) {
            let fired = Fired::of::<true>(node, state, self.now_ns);
            if fired.func != 0 {
                if let Ok(goes_on) = self.fire_plain(node, state, &fired) {
                    return goes_on;
                }
            }
        } else {
            match state.found(self.tick) {
                Found::Resting => return true,
                Found::Later(due) => {
                    self.wheel.place_later(d, node, due);
                    return true;
                }
                Found::Due(_) | Found::Busy(_) => {}
            }
        }
        self.visit_slowly(d, node)
    }

    #[inline(never)]
    fn visit_slowly(&mut self, d: &Driver, node: Records<'_>) -> bool {
        let tick = self.tick;
        loop {
            // visit.read, again: as above.
            let state = StateWord(node.hot().state.load(Ordering::Acquire));
            let seen = match state.found(tick) {
                Found::Resting => return true,
                Found::Later(due) => {
                    self.wheel.place_later(d, node, due);
                    return true;
                }
                Found::Due(due) => self.fire(d, node, state, due),
                Found::Busy(due) => self.pass_over(d, node, state, due).map(|()| true),
            };
            if let Ok(goes_on) = seen {
                return goes_on;
            }
        }
    }

    /// Steps visit.run and visit.claim: from here on the timer has fired. `runs` is its handle if
    /// this thread runs its callback, or 0. Another word if that is to be looked at.
    #[inline(always)]
    fn claim(
        &self,
        hot: &Hot,
        state: StateWord,
        next: StateWord,
        runs: Handle,
    ) -> Result<(), StateWord> {
        let wheel = self.wheel;
        if runs != 0 {
            // visit.run. Relaxed: published by the exchange.
            wheel.callback.running.store(runs, Ordering::Relaxed);
        }
        // visit.claim
        if let Err(seen) = wheel.change(hot, state, next) {
            if runs != 0 {
                self.end_callback();
            }
            return Err(seen);
        }
        // Between visit.end of the callback before this one and the look for waiters.
        fence_after_rmw();
        wheel.shared.count.fired.bump(1);
        Ok(())
    }

    /// Step visit.end. The fence is that of the next claim, or at the end of the sweep.
    #[inline(always)]
    fn end_callback(&self) {
        // Release: what the callback did.
        self.wheel.callback.running.store(0, Ordering::Release);
    }

    /// Fires a plain timer that is due, whose callback this thread runs; another word if that is
    /// to be looked at.
    #[inline(always)]
    fn fire_plain(
        &mut self,
        node: Records<'_>,
        state: StateWord,
        fired: &Fired,
    ) -> Result<bool, StateWord> {
        self.claim(node.hot(), state, state.fired(), fired.handle)?;
        probe!(
            expire_entry,
            self.wheel,
            fired.handle,
            fired.deadline_ns,
            fired.func
        );
        let goes_on = self.wake_waiters() && self.sink.call(fired);
        self.end_callback();
        probe!(expire_exit, self.wheel, fired.handle);
        Ok(goes_on)
    }

    /// Fires any timer that is due; another word if that is to be looked at.
    fn fire(
        &mut self,
        d: &Driver,
        node: Records<'_>,
        state: StateWord,
        due: u64,
    ) -> Result<bool, StateWord> {
        let (wheel, tick) = (self.wheel, self.tick);
        let mut fired = Fired::of::<false>(node, state, wheel.ticks.ns(due));
        let again = wheel.again(node.index, state, &mut fired, due, &self.times(d));
        let called = fired.func != 0;
        let elsewhere = called && wheel.pooled;
        let mut next = match again {
            Some((next, _)) => next.word,
            // An event of one that frees itself.
            None if state.is_auto() && !called => state.freed(),
            None => state.fired(),
        };
        if elsewhere {
            next = next.running();
        }
        let runs = if called && !elsewhere {
            fired.handle
        } else {
            0
        };
        self.claim(node.hot(), state, next, runs)?;
        match &again {
            Some((next, extra)) => wheel.go_on(d, node, &mut fired, next, extra),
            None if !called => wheel.give_back(self.thread, node.index, next),
            None => {}
        }
        probe!(
            expire_entry,
            wheel,
            fired.handle,
            fired.deadline_ns,
            fired.func
        );
        let goes_on = self.wake_waiters() && self.sink.fire(&fired);
        if runs != 0 {
            self.end_callback();
            if state.is_auto() && again.is_none() {
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

    /// After a period of a burst that is behind. The next period is due in the same visit, too. If
    /// the sweep is to stop, the next sweep goes on with it. If the callback has moved the timer,
    /// the timer has an entry, and nothing is left to do.
    #[cold]
    #[inline(never)]
    fn look_again(
        &mut self,
        d: &Driver,
        node: Records<'_>,
        word: StateWord,
        goes_on: bool,
    ) -> Result<bool, StateWord> {
        if node.entry().tick.get() != 0 {
            return Ok(goes_on);
        }
        if goes_on {
            return Err(word);
        }
        d.buckets
            .place_overdue(&self.wheel.slab, node, d.hand.get());
        Ok(false)
    }

    /// A timer that is due while its callback still runs in another thread.
    #[cold]
    fn pass_over(
        &mut self,
        d: &Driver,
        node: Records<'_>,
        state: StateWord,
        due: u64,
    ) -> Result<(), StateWord> {
        let (wheel, tick) = (self.wheel, self.tick);
        let (index, hot) = (node.index, node.hot());
        let high = Link(hot.link.load(Ordering::Relaxed)).high();
        let extra = wheel.extra(index, state, high);
        let is_far = tick - due > BUSY_AGAIN;
        // A time to which the caller has moved the timer has no mark: it is no period, and fires.
        let is_period = extra.period != 0 && state.is_exact();
        if is_period && (extra.kind & BURST == 0 || is_far) {
            // This period is left out, and counted; with BURST, only if the callback runs
            // for so long that the deadline would no longer read right.
            let deadline_ns = wheel.ticks.ns(due) - extra.early;
            let until = self.target.max(due);
            let next = wheel.next_period(state, deadline_ns, until, &extra, &self.times(d));
            wheel.change(hot, state, next.word)?;
            let left_out = (extra.left_out + next.missed + 1).min(record::VALUE);
            wheel.write_next(index, &extra, next.early, left_out);
            // `until` is at or after this tick.
            wheel.place_later(d, node, next.word.deadline(tick));
            return Ok(());
        }
        // The end of the callback makes the visit: race 6. After so long a time the deadline
        // moves.
        if is_far {
            wheel.change(hot, state, state.armed(tick, tick))?;
        }
        wheel.place_later(d, node, tick + BUSY_AGAIN);
        Ok(())
    }
}

// Periods.

/// The rare record of a timer.
#[derive(Clone, Copy, Default)]
pub(super) struct Extra {
    generation: u32,
    period: u64,
    kind: u16,
    /// How long before its tick the timer is due, and periods left out: 0 after a move.
    early: u64,
    left_out: u64,
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
struct Times {
    hand: u64,
    /// Where the caller wants the hand.
    target: u64,
    /// The clock's time; 0 if it is not known.
    now_ns: u64,
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
    fn write_next(&self, index: u32, seen: &Extra, early: u64, left_out: u64) {
        let rare = self.slab.rare(index);
        record::replace(&rare.early, seen.words.0, early, seen.generation);
        record::replace(&rare.left_out, seen.words.1, left_out, seen.generation);
    }

    /// The next deadline of a periodic timer that is due, and the rare record. Adds to `fired` what
    /// the rare record says.
    fn again(
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
    fn go_on(&self, d: &Driver, node: Records<'_>, fired: &mut Fired, next: &Next, extra: &Extra) {
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
    fn next_period(
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
