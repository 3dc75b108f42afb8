//! Before a sleep: when to wake, and race 3.
//!
//! # Race 3: an arm against sleep
//!
//! ```text
//!   with a push                          driver
//!   arm.mark   set the bits              sleep.begin    next_visit := never
//!   --- fence ---                        drive.suspend  alarm, floor := never
//!   arm.wake   lower next_visit          --- fence ---
//!              --- fence ---             sleep.scan     read bits and states;
//!              alarm later? kick                        lower next_visit
//!                                        sleep.set      alarm, floor := next_visit
//!   relying on a promise                                set the system's timer
//!   arm.exchange  state      (RMW)       --- fence ---
//!   --- fence ---                        sleep.look     next_visit lowered?
//!   arm.rely   floor <= promise?                        then set it again
//! ```
//! With a push: either sleep.scan sees the mark, or arm.wake finds `never` and
//! lowers it. Either sleep.set sees the lowered value, or arm.wake sees an alarm that is
//! too late and kicks: it sets the system's timer to *now*. The driver may set that
//! timer afterwards, which undoes the kick. Then sleep.look sees the value that was
//! lowered before. If the driver was already kicked, a thread need not kick it again
//! (`core/kick.rs`).
//!
//! Relying: the driver does not wake for a timer that rests, although another
//! thread may rely on its promise. Either sleep.scan sees that the timer is armed,
//! or arm.rely finds a floor after the promise, and the thread pushes.
//!
//! Each thread compares with the alarm, not with `next_visit`, because a thread
//! that has lowered `next_visit` may be stopped before it kicks.
//!
//! The fence of drive.suspend orders all cases except the last. There, a fence stands
//! between `next_visit` and the kick, and another between the system's timer and
//! sleep.look. So the wheel needs only that the settings of the system's timer have an
//! order. If the timer has a lock, as the kernel's has, these two fences change nothing.
//! The fence of arm.wake is also one between arm.mark and arm.check, see `buckets.rs`.

use super::{Drive, Fired, Sink, Sweep};
use crate::core::entry::Entry;
use crate::core::memory::Memory;
use crate::core::node::Link;
use crate::core::state::{StateWord, LEAP, NEVER};
use crate::core::tunables::SETTLE;
use crate::sync::{fence, Ordering};

/// A sink for a sweep that fires nothing.
struct Quiet;

impl Sink for Quiet {
    fn fire(&mut self, _: &Fired) -> bool {
        true
    }
    fn wake(&self) {}
}

impl<M: Memory> Drive<'_, M> {
    /// Finds the time at which the driver must wake, and calls `set` with that time
    /// in nanoseconds, or 0 for at once; again if an earlier deadline comes meanwhile.
    /// From now on an arm for an earlier time wakes the driver, until it sweeps again.
    ///
    /// The driver reads the nodes of the next entries, so that it does not wake for
    /// timers that were cancelled or moved. It wakes at least every 2^35 ticks, so
    /// that the hand stays near to the clock: with ticks of 1 ns every 34 s, with
    /// ticks of 1 ms every 1.1 years.
    pub fn sleep(&mut self, mut set: impl FnMut(u64)) {
        let wheel = self.wheel;
        let shared = &wheel.shared;
        // sleep.begin. AcqRel: pairs with arm.wake.
        let before = shared.next_visit.swap(NEVER, Ordering::AcqRel);
        let mut state = self.state();
        let mut sweep = Sweep::new(wheel, &mut state, Quiet, 0);
        // After a clean-up while the clock stood still: arms rely on promises again
        // when the hand moves.
        let stays = sweep.d.suspended;
        shared.kick.begin();
        // Relaxed: drive.suspend has the fence.
        shared.alarm.store(NEVER, Ordering::Relaxed);
        sweep.suspend();
        let next = sweep.wanted();
        sweep.d.suspended = stays;
        let most = sweep.d.goal.saturating_add(if stays { 1 } else { LEAP });
        // No visit is wanted before the tick that was known already.
        let next = if next == 0 { 0 } else { next.max(before) };
        shared.next_visit.fetch_min(next, Ordering::AcqRel);
        loop {
            // sleep.set. Acquire: pairs with arm.wake.
            let next = shared.next_visit.load(Ordering::Acquire);
            let tick = next.min(most);
            // Relaxed, both: a thread that sees it late makes a spare kick, or a spare push.
            shared.alarm.store(tick, Ordering::Relaxed);
            let floor = if stays { NEVER } else { tick };
            shared.floor.store(floor, Ordering::Relaxed);
            // At once if the hand is there: the clock may have stepped back behind the hand.
            set(match tick <= wheel.gate.hand() {
                true => 0,
                false => wheel.ticks.ns(tick),
            });
            shared.kick.was_set();
            fence(Ordering::SeqCst);
            // sleep.look
            if shared.next_visit.load(Ordering::Acquire) >= next {
                return;
            }
            shared.kick.begin();
        }
    }
}

impl<M: Memory, S: Sink> Sweep<'_, M, S> {
    /// Step sleep.scan: the first tick at which a visit is wanted. Never later than
    /// the truth, and as exact as a bounded amount of work allows.
    fn wanted(&mut self) -> u64 {
        let wheel = self.wheel;
        let urgent = wheel.buckets.urgent();
        if self.is_cleaning_due() || self.d.tick.is_open() || !wheel.buckets.is_empty(urgent) {
            return 0;
        }
        if self.is_rescuing() {
            // At once; or, if the last sweep has found nothing to do, at the next tick, which
            // it has said.
            return self.d.hand;
        }
        let mut budget = SETTLE;
        let hand = self.d.hand;
        wheel.first_wanted(hand, NEVER, &mut budget, |entry| self.wanted_by(entry))
    }

    /// The deadline of the node of an entry. If the timer has moved to a later
    /// deadline, it gets a promise for that.
    fn wanted_by(&mut self, entry: Entry) -> u64 {
        let wheel = self.wheel;
        let hand = self.d.hand;
        let (k, index) = (entry.tick(hand), entry.index());
        let hot = wheel.slab.hot(index);
        // Acquire: pairs with arm.exchange.
        let state = StateWord(hot.state.load(Ordering::Acquire));
        let due = state.due(hand);
        let unit_bits = wheel.ticks.unit_bits;
        // Acquire: pairs with arm.publish.
        let link = Link(hot.link.load(Ordering::Acquire));
        if due <= k || due == NEVER || !link.is_about(k, unit_bits) || k <= hand {
            return due;
        }
        let tick = crate::core::entry::promise_tick(due, hand);
        if Link::new(tick, unit_bits, 0).is_about(k, unit_bits) || !self.promise(index, tick, hand)
        {
            return k.min(due);
        }
        let moved = Link::new(tick, unit_bits, link.high());
        // AcqRel: pairs with arm.read. If it fails, another thread has made a promise
        // that is as good.
        _ = hot
            .link
            .compare_exchange(link.0, moved.0, Ordering::AcqRel, Ordering::Relaxed);
        tick
    }
}
