//! The driver looks at a timer, and sees to it that its one entry is early enough.
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

use super::words::{Driver, Settled};
use crate::core::error::Answer;
use crate::core::link::{Link, Place, Reason};
use crate::core::record::Hot;
use crate::core::slab::Records;
use crate::core::state::{StateWord, NEVER};
use crate::core::wheel::{Caller, Wheel};
use crate::sync::Ordering;

impl Wheel {
    /// Looks at a timer whose note at `place` was taken. It fires nothing: the timers of other
    /// notes may be due before.
    #[inline(always)]
    pub(super) fn look(&self, d: &Driver, index: u32, place: Place) {
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
    #[inline(always)]
    fn place_at_once(&self, d: &Driver, node: Records<'_>, due: u64) -> u64 {
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

    /// The same, as a function of its own.
    #[inline(never)]
    fn place_by(&self, d: &Driver, node: Records<'_>, due: u64) -> u64 {
        self.place_at_once(d, node, due)
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
    pub(super) fn point(&self, hot: &Hot, tick: u64) {
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
