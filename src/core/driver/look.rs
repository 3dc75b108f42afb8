//! The driver takes the notes out of the inboxes, looks at their timers, and sees to it that the one
//! entry of each is early enough. `core/inbox.rs` has the steps of taking.
//!
//! A collection makes entries and fires nothing. A sweep to a goal begins only when the notes have
//! been taken that were there when the goal was announced. So timers fire in the order of their
//! ticks.
//!
//! A call with a bound may stop in the middle. The next call goes on there, with the same goal: so
//! a collection ends after a number of calls, also if threads append notes faster than one call
//! takes them. Arms that begin later are for ticks after the goal.
//!
//! # A look
//!
//! ```text
//!   look.read    read state
//!                no entry, or a later one? place or move it
//!   look.point   link := its tick   (RMW), unless a note is there that is not taken yet
//! ```
//! A plain timer that rests gets an entry, too, if its last deadline lies ahead: most timers are
//! armed, cancelled, and armed again for a time as far ahead. Such an arm can rely on the tick.
//!
//! A timer that a callback arms gets its entry by the same steps, at once.
//!
//! After look.point the link names no tick for which there is no entry, except ticks that the
//! hand has passed: those do not count. Another thread may have written the link meanwhile: a
//! note, or another high part. Then look.point reads it again.

use crate::core::inbox::Pass;
use crate::core::record::{Hot, Link, Place, Reason};
use crate::core::slab::Records;
use crate::core::state::{StateWord, NEVER};
use crate::core::wheel::{Caller, Driver, Settled, Wheel};
use crate::core::{Answer, BATCH};
use crate::sync::{fence, Ordering};

/// No note has this place: no thread has the number 0.
const NO_PLACE: Place = Place {
    thread: 0,
    number: 0,
};

impl Wheel {
    /// Takes all notes that are there now, or goes on with that where the last call has stopped,
    /// until `is_enough`, which is asked after each batch. False if some are left. Follows a
    /// fence.
    #[inline]
    pub(super) fn collect(&self, d: &Driver, is_enough: &mut impl FnMut() -> bool) -> bool {
        // Relaxed: exchanged below. A request without a note is rare.
        let is_requested = self.shared.look_at_all.load(Ordering::Relaxed) != 0;
        if !d.collects.get() && !is_requested && !self.inboxes.are_dirty() {
            return true;
        }
        self.collect_rest(d, is_enough)
    }

    fn collect_rest(&self, d: &Driver, is_enough: &mut impl FnMut() -> bool) -> bool {
        let mut pass = d.pass.take();
        if !d.collects.replace(true) {
            self.inboxes.begin(&mut pass);
            // Acquire: pairs with the Release in `request_look_at_all`.
            let looks = self.shared.look_at_all.swap(0, Ordering::AcqRel) != 0;
            d.looks_at_all.set(looks);
        }
        while pass.thread != 0 || self.inboxes.go_to_next(&mut pass) {
            if !self.take_notes(d, &pass, is_enough) {
                d.pass.set(pass);
                return false;
            }
            pass.thread = 0;
        }
        if d.looks_at_all.get() && !self.look_at_rest(d, is_enough) {
            return false;
        }
        d.collects.set(false);
        true
    }

    /// Takes the notes of the inbox at which the pass is. False if some may be left.
    fn take_notes(&self, d: &Driver, pass: &Pass, is_enough: &mut impl FnMut() -> bool) -> bool {
        let (thread, end) = (pass.thread, pass.end);
        let mut batch = [0; BATCH];
        loop {
            let (first, n) = self.inboxes.take(thread, end, &mut batch);
            if n == 0 {
                return true;
            }
            for index in &batch[..n] {
                self.slab.records(*index).prefetch();
            }
            for (index, number) in batch[..n].iter().zip(first..) {
                self.look(d, *index, Place { thread, number });
            }
            // Between look.point and the reads of the states: race 1b in `core/arm.rs`.
            fence(Ordering::SeqCst);
            if is_enough() {
                return false;
            }
        }
    }

    /// Looks at every timer: a thread has requested a look without a note.
    #[cold]
    fn look_at_rest(&self, d: &Driver, is_enough: &mut impl FnMut() -> bool) -> bool {
        for index in self.slab.indices(d.looked_at.get()) {
            self.look(d, index, NO_PLACE);
            d.looked_at.set(index + 1);
            if index as usize % BATCH == 0 && is_enough() {
                return false;
            }
        }
        d.looked_at.set(0);
        d.looks_at_all.set(false);
        fence(Ordering::SeqCst);
        true
    }

    /// Looks at a timer whose note at `place` was taken. It fires nothing: the timers of other
    /// notes may be due before.
    #[inline(always)]
    fn look(&self, d: &Driver, index: u32, place: Place) {
        let node = self.slab.records(index);
        let hot = node.hot();
        // look.read. Acquire: pairs with arm.exchange.
        let state = StateWord(hot.state.load(Ordering::Acquire));
        let placed = node.entry().tick.get();
        let mut due = state.due(d.hand.get());
        if due == NEVER && placed == 0 {
            due = state.was_due(d.hand.get());
        }
        let tick = match due {
            NEVER => placed,
            due => self.place_by(d, node, due),
        };
        // look.point. Mostly the link names this note. Acquire: pairs with arm.publish.
        let link = Link(hot.link.load(Ordering::Acquire));
        if link != link.with(Reason::Note(place)) || !self.exchange_link(hot, link, tick) {
            self.point(hot, tick);
        }
    }

    #[inline(always)]
    fn exchange_link(&self, hot: &Hot, link: Link, tick: u64) -> bool {
        if self.gate.is_plain() {
            hot.set_tick(tick);
            return true;
        }
        let next = link.with_tick(tick);
        // AcqRel: the entry; pairs with arm.read.
        hot.link
            .compare_exchange(link.0, next.0, Ordering::AcqRel, Ordering::Acquire)
            .is_ok()
    }

    /// Makes an entry for a timer that is due at a tick, unless it has one that is early
    /// enough. Returns the tick of the entry, or 0 if that is overdue.
    #[inline(never)]
    fn place_by(&self, d: &Driver, node: Records<'_>, due: u64) -> u64 {
        let hand = d.hand.get();
        let tick = node.entry().tick.get();
        if tick != 0 {
            if tick <= due || tick <= hand {
                return tick;
            }
            d.buckets.remove(&self.slab, node);
        }
        if due <= hand {
            d.buckets.place_overdue(&self.slab, node, hand);
            return 0;
        }
        d.buckets.place(&self.slab, node, due, hand);
        due
    }

    /// Sees to an entry at or before `tick`, which is after the hand, for a timer that the owner has
    /// armed. Returns whether it was armed before. Each rare way out is a tail call, so that it
    /// costs the others no register.
    #[inline(never)]
    pub(in crate::core) fn place_owned(
        &self,
        caller: &impl Caller,
        node: Records<'_>,
        tick: u64,
        was: bool,
    ) -> Answer {
        let wheel = caller.wheel(self);
        // SAFETY: the owner alone drives. It is in no call that drives, or inside a callback.
        let d = unsafe { wheel.driver.open_within(wheel.is_driven()) };
        let mut placed = node.entry().tick.get();
        if placed == 0 || placed > tick {
            if placed != 0 {
                if d.buckets.is_torn() {
                    return wheel.place_owned_mended(caller, node, tick, was);
                }
                d.buckets.unlink(&wheel.slab, node);
            }
            d.buckets.place_used(&wheel.slab, node, tick, d.hand.get());
            placed = tick;
        }
        // Relaxed: the owner relies on the entry, whatever the link says.
        let link = Link(node.hot().link.load(Ordering::Relaxed));
        if !link.is_note() || !wheel.inboxes.holds(link.place()) {
            node.hot().set_tick(placed);
        }
        if wheel.alarm.lower_own(tick) {
            // If it is cancelled or moved, the next drive looks for another one.
            d.settled.set(Settled::Timer(node.index, tick));
        }
        if wheel.alarm.is_later_than(tick) {
            return wheel.kick_owner(caller, was);
        }
        was.into()
    }

    #[cold]
    #[inline(never)]
    fn place_owned_mended(
        &self,
        caller: &impl Caller,
        node: Records<'_>,
        tick: u64,
        was: bool,
    ) -> Answer {
        // SAFETY: as above.
        let d = unsafe { self.driver.open_within(self.is_driven()) };
        d.buckets.mend(&self.slab);
        self.place_owned(caller, node, tick, was)
    }

    /// Makes sure of an entry at or before `tick`, for a timer that this thread has armed inside of
    /// a callback while it drives. The tick is after the goal. Follows the exchange of the state.
    ///
    /// Another thread may rely on the tick that the link had before (race 1b). The next visit to
    /// the timer comes behind the fence of another goal. A sleep drops the entry behind a fence, too.
    #[inline(never)]
    pub(in crate::core) fn place_inside(&self, index: u32, tick: u64) {
        // SAFETY: the calling thread drives. It is inside of a callback, where all is cells.
        let d = unsafe { self.driver.open_within(true) };
        let node = self.slab.records(index);
        let placed = self.place_by(&d, node, tick);
        self.point_at_once(node.hot(), placed);
    }

    /// The sleep ends too late for a timer of the owner's.
    #[cold]
    #[inline(never)]
    fn kick_owner(&self, caller: &impl Caller, was: bool) -> Answer {
        if caller.wakes_owner() && self.alarm.kick_once(|| caller.wake_driver()) {
            self.count(caller.thread_at_hand(), |c| &c.kicks, 1);
        }
        was.into()
    }

    /// Step look.point.
    #[cold]
    fn point(&self, hot: &Hot, tick: u64) {
        loop {
            // Acquire: pairs with arm.publish.
            let link = Link(hot.link.load(Ordering::Acquire));
            match link.reason() {
                Reason::Note(place) if self.inboxes.holds(place) => return,
                _ if link == link.with_tick(tick) => return,
                _ if self.exchange_link(hot, link, tick) => return,
                _ => {}
            }
        }
    }

    /// Makes the entry of a timer that has none, and is due after the hand, or never.
    #[inline(never)]
    pub(super) fn place_later(&self, d: &Driver, node: Records<'_>, due: u64) {
        if due != NEVER {
            d.buckets.place(&self.slab, node, due, d.hand.get());
            self.point_at_once(node.hot(), due);
        }
    }

    /// Step look.point of a timer whose link mostly names a tick, for example that of the visit.
    #[inline(always)]
    fn point_at_once(&self, hot: &Hot, tick: u64) {
        // Relaxed: the exchange decides.
        let link = Link(hot.link.load(Ordering::Relaxed));
        if link.is_note() || !self.exchange_link(hot, link, tick) {
            self.point(hot, tick);
        }
    }
}
