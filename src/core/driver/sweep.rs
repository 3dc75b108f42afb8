//! A sweep: the hand goes from slot to slot, up to a goal.
//!
//! ```text
//!   sweep.begin     next_visit := never
//!   sweep.announce  gate := goal  (RMW), and a fence: from here on arms are for later ticks
//!   take.*, look.*  the notes
//!   sweep.empty     the overdue bucket, then the slot of each tick on each level, from the top
//!                   level down: the entries of a higher level go nearer to the hand, those of
//!                   this tick to the lowest level; there each entry is a visit; in an owned
//!                   wheel the entry of a timer that rests or is due later goes at once
//!   sweep.end       next_visit: lowered to the tick of the next entry
//! ```
//! A call that stops in the middle leaves the rest to the next call, and `next_visit` at the
//! hand. The next call goes on with the same goal, and then sweeps to its own: so each call comes
//! nearer to the end of each part, whatever threads arm meanwhile.

use super::event::Sink;
use super::visit::Visits;
use super::words::{Driver, Settled};
use crate::core::inbox::Thread;
use crate::core::slab::Records;
use crate::core::state::{StateWord, NEVER, STEP};
use crate::core::wheel::Wheel;
use crate::sync::Ordering;

/// Moves the hand to `target`, handing every timer due by then to `sink` in the order of
/// ticks, until that says stop; the next call resumes there. True if all is done.
pub(super) fn sweep<S: Sink>(
    wheel: &Wheel,
    d: &Driver,
    sink: S,
    target: u64,
    thread: Thread,
) -> bool {
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
        // What has come since the goal was announced is still to be looked at.
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
