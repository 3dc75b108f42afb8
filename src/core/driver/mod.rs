//! The driver: one thread at a time moves the hand, and fires the timers that are due.
//!
//! # A sweep
//!
//! The hand goes from slot to slot, up to a goal.
//!
//! ```text
//!   sweep.begin     next_visit := never
//!   sweep.announce  gate := goal  (RMW), and a fence: from here on arms are for later ticks
//!   take.*, look.*  the notes: `core/inbox.rs`, `look.rs`
//!   sweep.empty     the overdue bucket, then the slot of each tick on each level, from the top
//!                   level down: the entries of a higher level go nearer to the hand, those of
//!                   this tick to the lowest level; there each entry is a visit; in an owned
//!                   wheel the entry of a timer that rests or is due later goes at once
//!   sweep.end       next_visit: lowered to the tick of the next entry
//! ```
//! A call that stops in the middle leaves the rest to the next call, and `next_visit` at the
//! hand. The next call goes on with the same goal, and then sweeps to its own: so each call comes
//! nearer to the end of each part, whatever threads arm meanwhile.
//!
//! # A drain
//!
//! The end of a wheel: every pending timer is handed back, once. Race 4 is drawn in `core/arm.rs`.
//!
//! A drain changes the word of each timer that it reaches. From then on the exchange of an
//! arm under way fails. If that exchange came first, the drain finds the timer armed.

mod look;
mod sleep;
mod visit;

use super::alarm::Sleeper;
use super::slab::Records;
use super::state::{high_of, StateWord, NEVER, STEP};
use super::ticks::END_OF_TIME;
use super::wheel::{Driver, Settled, Wheel};
use super::{Error, Thread};
use crate::sync::{fence, Opened, Ordering};
use visit::Visits;
pub(crate) use visit::{Fired, Sink, DRAINED, LISTED};

/// The right to drive.
pub(crate) struct Drive<'a> {
    wheel: &'a Wheel,
    /// The number of this thread, or 0.
    thread: Thread,
    /// The lock's word before it was taken: even.
    free: u32,
}

impl Wheel {
    /// The right to drive, for the calling thread, which has this number or 0. It is given back
    /// when it is dropped.
    pub fn drive(&self, thread: Thread) -> Result<Drive<'_>, Error> {
        let driving = &self.shared.driving;
        // Relaxed: the exchange decides.
        let seen = driving.load(Ordering::Relaxed);
        let free = seen & !1;
        if self.gate.is_owned() {
            // The owner alone drives.
            if seen != free {
                return Err(Error::Busy);
            }
            driving.store(free.wrapping_add(1), Ordering::Relaxed);
        } else {
            // Acquire: pairs with the Release in `Drive::give_back`.
            driving
                .compare_exchange(
                    free,
                    free.wrapping_add(1),
                    Ordering::Acquire,
                    Ordering::Relaxed,
                )
                .map_err(|_| Error::Busy)?;
        }
        // Before all writes of the driver: pairs with the fence of a reader that
        // checks `driving` afterwards.
        fence(Ordering::Release);
        Ok(Drive {
            wheel: self,
            thread,
            free,
        })
    }
}

impl<'a> Drive<'a> {
    /// The driver's own words.
    fn words(&self) -> Opened<'a, Driver> {
        // SAFETY: the lock is held, and this is its only holder.
        unsafe { self.wheel.driver.open() }
    }

    /// Gives the lock back, with an even word.
    #[inline(always)]
    fn give_back(&mut self, word: u32) {
        // Release: pairs with the Acquires in `drive` and of the readers.
        self.wheel.shared.driving.store(word, Ordering::Release);
    }

    /// Gives the lock back after nothing has changed. So it does not disturb a thread
    /// that reads meanwhile.
    #[inline]
    pub fn leave(self) {
        let free = self.free;
        core::mem::ManuallyDrop::new(self).give_back(free);
    }

    /// Whether an advance to `now_ns` would find nothing to do.
    #[inline]
    pub fn nothing_due(&self, now_ns: u64) -> bool {
        let wheel = self.wheel;
        // Relaxed: the hand moves under the lock.
        let hand = wheel.shared.hand.load(Ordering::Relaxed);
        // A hand that is half a step behind moves, so that what it announces is that far ahead.
        let next = wheel.alarm.next_visit().min(hand + STEP / 2);
        let d = self.words();
        let is_nothing = now_ns < wheel.ticks.ns_or_end(next)
            && !wheel.inboxes.are_dirty()
            && wheel.is_settled(&d);
        if is_nothing {
            d.asked_ns.set(now_ns);
        }
        is_nothing
    }

    /// When the driver has something to do next, in nanoseconds; [`NEVER`] if nothing is armed
    /// that is ever due. For a caller whom nobody wakes: an arm may have come since.
    pub fn next_ns(&self) -> u64 {
        let wheel = self.wheel;
        // Relaxed: the hand moves under the lock.
        let hand = wheel.shared.hand.load(Ordering::Relaxed);
        match wheel.alarm.next_visit() {
            NEVER => NEVER,
            next => wheel.ticks.ns(next.max(hand).min(hand + STEP)),
        }
    }

    /// Moves the hand to `now_ns`, handing every timer due by then to `sink` in
    /// the order of ticks, until that says stop; the next call resumes there.
    /// True if all is done.
    pub fn advance(&mut self, now_ns: u64, sink: impl Sink) -> bool {
        let (wheel, thread) = (self.wheel, self.thread);
        let now_ns = now_ns.min(END_OF_TIME - 1);
        let target = wheel.ticks.at_or_before(now_ns);
        let d = self.words();
        let next = wheel.alarm.next_visit().min(d.goal.get() + STEP);
        let before_ns = d.asked_ns.replace(now_ns);
        d.is_awaited
            .set(target >= next || target == wheel.ticks.at_or_before(before_ns));
        sweep(wheel, &d, sink, target, thread)
    }

    /// Finds the time at which the driver must wake; see `sleep.rs`. True if all is done: false if
    /// it was to stop before.
    pub fn sleep(
        &mut self,
        sleeper: Sleeper,
        mut is_enough: impl FnMut() -> bool,
        set: impl FnMut(u64),
    ) -> bool {
        let d = self.words();
        self.wheel.sleep(&d, sleeper, &mut is_enough, set)
    }

    /// Hands back every pending timer.
    pub fn drain(&mut self, take: impl FnMut(&Fired) -> bool) -> bool {
        let thread = self.thread;
        self.wheel.drain(&self.words(), thread, take)
    }
}

impl Drop for Drive<'_> {
    fn drop(&mut self) {
        // Another word: readers look again.
        self.give_back(self.free.wrapping_add(2));
    }
}

/// Moves the hand to `target`, handing every timer due by then to `sink` in the order of
/// ticks, until that says stop; the next call resumes there. True if all is done.
fn sweep<S: Sink>(wheel: &Wheel, d: &Driver, sink: S, target: u64, thread: Thread) -> bool {
    let shared = &wheel.shared;
    shared.count.sweeps.bump(1);
    let target = target.max(d.goal.get());
    let mut v = Visits::new(wheel, sink, target, thread);
    loop {
        let goes_on = d.is_interrupted();
        if !goes_on {
            // At or after the last goal.
            d.goal.set(target.min(d.hand.get() + STEP));
            announce_goal(wheel, d);
        }
        // A sweep that was interrupted has its notes.
        v.stop = (!goes_on || d.collects.get()) && !wheel.collect(d, &mut || v.sink.is_enough());
        if !v.stop {
            sweep_to(d, &mut v);
        }
        let mut next = d.hand.get();
        // The sweep has not looked at the notes that came after the goal was announced.
        let mut is_last = !goes_on && d.goal.get() >= target;
        if !v.stop {
            // Relaxed: read as a bound, which may be old.
            shared.hand.store(d.goal.get(), Ordering::Relaxed);
            let settles = is_last && v.sink.settles();
            let exactly = settles && d.is_awaited.get();
            let settled = wheel.settle_until(d, exactly, &mut || v.sink.is_enough());
            if settles {
                // A callback has asked for a visit that this sweep has made since.
                is_last = wheel.alarm.next_visit() > d.goal.get();
            } else if is_last {
                d.settled.set(Settled::Enough);
            }
            match settled {
                Some(tick) if is_last || !v.sink.is_enough() => next = tick,
                // Without a time, or if the caller waits no longer, the next call is to come at once.
                _ => v.stop = true,
            }
        }
        // Its fence is also that of the last visit.end.
        wheel.set_next(next);
        v.stop |= !v.wake_waiters();
        if v.stop || is_last {
            break;
        }
    }
    shared.count.entries.set(d.buckets.entries.get());
    !v.stop
}

/// Steps sweep.begin and sweep.announce.
#[inline(always)]
fn announce_goal(wheel: &Wheel, d: &Driver) {
    let goal = d.goal.get();
    if wheel.gate.is_owned() {
        wheel.alarm.begin_to_look_owned();
        if goal - d.hand.get() < STEP / 2 {
            return wheel.gate.announce_to_senders(goal);
        }
    } else {
        wheel.alarm.begin_to_look();
    }
    wheel.gate.announce(goal);
}

/// Moves the hand to the goal, or up to where the sweep stops.
fn sweep_to<S: Sink>(d: &Driver, v: &mut Visits<'_, S>) {
    let goal = d.goal.get();
    // The timers whose tick had passed when their notes were taken.
    if d.buckets.has_overdue() {
        visit_all(d, v, d.buckets.overdue());
    }
    empty_levels(d, v);
    while !v.stop && d.hand.get() != goal {
        let first = d.buckets.first_marked(d.hand.get());
        let entered = first.map_or(NEVER, |(_, entered)| entered);
        if entered > goal {
            d.hand.set(goal);
            return;
        }
        // On each level whose digit changes the hand enters a slot.
        let level = d.buckets.levels.level(entered, d.hand.get());
        d.levels_left.set(level + 1);
        d.hand.set(entered);
        empty_levels(d, v);
        // A slot may be empty, and there may be many.
        if !v.stop {
            v.stops_behind_one();
        }
    }
}

/// Empties the slots of the tick of the hand that are left.
#[inline(always)]
fn empty_levels<S: Sink>(d: &Driver, v: &mut Visits<'_, S>) {
    while !v.stop && d.levels_left.get() != 0 {
        let level = d.levels_left.get() - 1;
        let bucket = d.buckets.levels.bucket(d.hand.get(), level);
        match level {
            0 => visit_all(d, v, bucket),
            _ => cascade(d, v, bucket),
        }
        // A call that stops may leave entries here.
        d.levels_left.set(d.levels_left.get() - u32::from(!v.stop));
    }
}

/// Places the entries of a bucket again, nearer to the hand, up to where the sweep stops. In an
/// owned wheel it first looks at the timers: many were cancelled or moved since.
fn cascade<S: Sink>(d: &Driver, v: &mut Visits<'_, S>, bucket: u32) {
    let (wheel, slab, hand) = (v.wheel, &v.wheel.slab, d.hand.get());
    let emptied = d.buckets.empty(slab, bucket);
    d.buckets.prefetch(slab, bucket);
    let settles = wheel.gate.is_plain();
    let fetch = |next: Records<'_>| match settles {
        true => next.prefetch(),
        false => next.prefetch_entry(),
    };
    while let Some((node, tick)) = emptied.take_first(slab, fetch) {
        probe!(cascade, wheel, tick);
        let tick = match settles {
            true => settled(node, tick, hand),
            false => tick,
        };
        if tick != NEVER {
            d.buckets.place(slab, node, tick, hand);
        }
        if v.stops_behind_one() {
            return;
        }
    }
}

/// Where the entry of a timer goes in an owned wheel: to the tick at which the timer is due, or
/// nowhere. No other thread relies on the entry.
fn settled(node: Records<'_>, tick: u64, hand: u64) -> u64 {
    let hot = node.hot();
    // Relaxed: the owner's word, or that of a message, which has a note.
    let state = StateWord(hot.state.load(Ordering::Relaxed));
    let due = state.due(hand).max(tick);
    if due != tick {
        hot.set_tick(if due == NEVER { 0 } else { due });
    }
    due
}

/// Visits the timers in a bucket, up to where the sweep stops. Their ticks are not after the hand.
fn visit_all<S: Sink>(d: &Driver, v: &mut Visits<'_, S>, bucket: u32) {
    let slab = &v.wheel.slab;
    v.begin_tick(d.hand.get());
    let emptied = d.buckets.empty(slab, bucket);
    if emptied.is_large() {
        // The memory of the next ones arrives while these are visited.
        if let Some((next, _)) = d.buckets.first_marked(d.hand.get()) {
            d.buckets.prefetch(slab, next);
        }
    }
    while let Some((node, _)) = emptied.take_first(slab, Records::prefetch_all) {
        if !v.visit(d, node) {
            v.stop = true;
            return;
        }
        if v.stops_behind_one() {
            return;
        }
    }
}

impl Wheel {
    /// Hands back every pending timer, until `take` returns false; the next call
    /// continues there. From the first call on the wheel refuses arms. True if all
    /// is done.
    fn drain(&self, d: &Driver, thread: Thread, mut take: impl FnMut(&Fired) -> bool) -> bool {
        // drain.close, and the fence: race 4.
        self.gate.close();
        let mut room = true;
        for index in self.slab.indices(d.drained.get()) {
            room = self.drain_node(thread, self.slab.records(index), &mut take);
            d.drained.set(index + 1);
            if !room {
                break;
            }
        }
        // A later call begins anew: an arm may have been under way.
        if room {
            d.drained.set(0);
        }
        room
    }

    fn drain_node(
        &self,
        thread: Thread,
        node: Records<'_>,
        take: &mut impl FnMut(&Fired) -> bool,
    ) -> bool {
        let hot = node.hot();
        // drain.read. Acquire: pairs with arm.exchange.
        let mut state = StateWord(hot.state.load(Ordering::Acquire));
        loop {
            let next = state.drained();
            if !state.is_live() || next == state {
                return true;
            }
            let fired = state.is_armed().then(|| self.drained(node, state));
            match self.exchange(hot, state, next) {
                Ok(_) => {
                    let Some(fired) = fired else {
                        return true;
                    };
                    self.shared.count.drained.bump(1);
                    self.give_back(thread, node.index, next);
                    return take(&fired);
                }
                Err(seen) => state = seen,
            }
        }
    }

    /// The event of an armed timer that is handed back.
    fn drained(&self, node: Records<'_>, state: StateWord) -> Fired {
        let due_ns = self.ticks.ns(state.deadline(self.gate.hand()));
        let mut fired = Fired::of::<false>(node, state, due_ns);
        fired.add(&self.extra(node.index, state, high_of(fired.handle)));
        fired.flags = DRAINED;
        fired
    }
}
