//! A sweep: the hand goes from slot to slot, up to a goal.
//!
//! ```text
//!   sweep.begin     next_visit := never
//!   sweep.announce  gate := goal  (RMW), and a fence: from here on arms are for later ticks
//!   take.*, look.*  the notes
//!   sweep.empty     the overdue bucket, then the slot of each tick on each level, from the top
//!                   level down: an entry of a later tick is placed again, nearer to the hand;
//!                   an entry of this tick is a visit
//!   sweep.end       next_visit: lowered to the tick of the next entry
//! ```
//! A call that stops in the middle leaves the rest to the next call, and `next_visit` at the
//! hand. The next call goes on with the same goal, and then sweeps to its own: so each call comes
//! nearer to the end of each part, whatever threads arm meanwhile.

use super::event::Sink;
use super::visit::Visits;
use super::words::{Driver, Settled};
use crate::core::entry::Entry;
use crate::core::inbox::Thread;
use crate::core::state::{NEVER, STEP};
use crate::core::wheel::Wheel;
use crate::sync::Ordering;
use core::cell::Cell;

/// Moves the hand to `target`, handing every timer due by then to `sink` in the order of
/// ticks, until that says stop; the next call resumes there. True if all is done.
pub(super) fn sweep<S: Sink>(
    wheel: &Wheel,
    d: &mut Driver,
    sink: S,
    target: u64,
    thread: Thread,
) -> bool {
    let shared = &wheel.shared;
    shared.count.sweeps.bump(1);
    let target = target.max(d.goal);
    let mut v = Visits::new(wheel, sink, target, thread);
    loop {
        let goes_on = d.is_interrupted();
        if !goes_on {
            // At or after the last goal.
            d.goal = target.min(d.hand + STEP);
            wheel.alarm.begin_to_look();
            wheel.gate.announce(d.goal, &wheel.ticks);
        }
        // A sweep that was interrupted has its notes.
        v.stop = (!goes_on || d.collects) && !wheel.collect(d, &mut || v.sink.is_enough());
        let mut next = d.hand;
        if !v.stop {
            next = sweep_to(d, &mut v);
        }
        // What has come since the goal was announced is still to be looked at.
        let mut is_last = !goes_on && d.goal >= target;
        if !v.stop {
            // Relaxed: read as a bound, which may be old.
            shared.hand.store(d.goal, Ordering::Relaxed);
            d.settled = match is_last {
                true => Settled::Enough,
                false => Settled::Unknown,
            };
            if is_last && v.sink.settles() {
                next = wheel.settle(d);
                // A callback has asked for a visit that this sweep has made since.
                is_last = wheel.alarm.next_visit() > d.goal;
            }
        }
        // Its fence is also that of the last visit.end.
        wheel.alarm.lower(next);
        v.stop |= !v.wake_waiters();
        v.stop = v.stop || !is_last && v.sink.is_enough();
        if v.stop || is_last {
            break;
        }
    }
    shared.count.entries.set(d.buckets.entries);
    !v.stop
}

/// Moves the hand to the goal. Returns a tick before which no entry wants a visit.
fn sweep_to<S: Sink>(d: &mut Driver, v: &mut Visits<'_, S>) -> u64 {
    let goal = d.goal;
    // The timers whose tick had passed when their notes were taken.
    if d.buckets.has_overdue() {
        empty(d, v, d.buckets.overdue());
    }
    empty_levels(d, v);
    while !v.stop {
        let first = d.buckets.first(d.hand);
        let entered = first.map_or(NEVER, |(_, entered)| entered);
        if entered > goal {
            d.hand = goal;
            return first.map_or(NEVER, |(bucket, _)| d.buckets.least(bucket).max(entered));
        }
        // On each level whose digit changes the hand enters a slot.
        d.levels_left = d.buckets.levels.level(entered, d.hand) + 1;
        d.hand = entered;
        empty_levels(d, v);
    }
    d.hand
}

/// Empties the slots of the tick of the hand that are left.
#[inline(always)]
fn empty_levels<S: Sink>(d: &mut Driver, v: &mut Visits<'_, S>) {
    while !v.stop && d.levels_left != 0 {
        let bucket = d.buckets.levels.bucket(d.hand, d.levels_left - 1);
        empty(d, v, bucket);
        // A call that stops may leave entries here.
        d.levels_left -= u32::from(!v.stop);
    }
}

/// Takes the entries out of a bucket, up to where the sweep stops.
fn empty<S: Sink>(d: &mut Driver, v: &mut Visits<'_, S>, bucket: u32) {
    let slab = &v.wheel.slab;
    v.begin_tick(d.hand);
    let mut entries = d.buckets.front(slab, bucket);
    d.buckets.fetch(slab, bucket, entries);
    while !v.stop && !entries.is_empty() {
        d.buckets.fetch_second(slab, bucket);
        let taken = match d.buckets.is_of_one_tick(bucket) {
            true => take_each::<S, true>(d, v, entries),
            false => take_each::<S, false>(d, v, entries),
        };
        d.buckets.leave(slab, bucket, taken);
        entries = d.buckets.front(slab, bucket);
        // An empty bucket does not stop a sweep, so that each call makes progress.
        v.stop = v.stop || !entries.is_empty() && v.sink.is_enough();
    }
}

/// Takes entries until the sweep stops. Returns the number that was taken. With `ONE_TICK`, no
/// entry is for a later tick; otherwise such an entry is placed again.
#[inline(always)]
fn take_each<S: Sink, const ONE_TICK: bool>(
    d: &mut Driver,
    v: &mut Visits<'_, S>,
    entries: &[Cell<Entry>],
) -> usize {
    let (slab, hand) = (&v.wheel.slab, d.hand);
    for (n, entry) in entries.iter().enumerate() {
        let entry = entry.get();
        let node = slab.records(entry.index());
        node.spot().set(0);
        let tick = if ONE_TICK { hand } else { entry.tick(hand) };
        if tick > hand {
            probe!(cascade, v.wheel, tick);
            d.buckets.place(slab, node, tick, hand);
        } else if !v.visit(d, node) {
            v.stop = true;
            return n + 1;
        }
    }
    entries.len()
}
