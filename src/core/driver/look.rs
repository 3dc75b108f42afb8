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
//! After look.point the link names no tick for which there is no entry, except ticks that the
//! hand has passed: those do not count. Another thread may have written the link meanwhile: a
//! note, or another high part. Then look.point reads it again.

use super::words::Driver;
use crate::core::link::{Link, Place, Reason};
use crate::core::record::Hot;
use crate::core::slab::Records;
use crate::core::state::{StateWord, NEVER};
use crate::core::wheel::Wheel;
use crate::sync::Ordering;

impl Wheel {
    /// Looks at a timer whose note at `place` was taken. It fires nothing: the timers of other
    /// notes may be due before.
    #[inline(always)]
    pub(super) fn look(&self, d: &mut Driver, index: u32, place: Place) {
        let node = self.slab.records(index);
        let hot = node.hot();
        // look.read. Acquire: pairs with arm.exchange.
        let state = StateWord(hot.state.load(Ordering::Acquire));
        let (mut due, mut placed) = (state.due(d.hand), None);
        if due == NEVER {
            placed = d.buckets.tick(&self.slab, node, d.hand);
            if placed.is_none() {
                due = state.was_due(d.hand);
            }
        }
        let reason = match due {
            NEVER => placed.map_or(Reason::Nothing, Reason::Tick),
            due => self.place_by(d, node, due),
        };
        // look.point. Mostly the link names this note. Acquire: pairs with arm.publish.
        let link = Link(hot.link.load(Ordering::Acquire));
        if link != link.with(Reason::Note(place)) || !Self::exchange_link(hot, link, reason) {
            self.point(hot, reason);
        }
    }

    #[inline(always)]
    fn exchange_link(hot: &Hot, link: Link, reason: Reason) -> bool {
        let next = link.with(reason);
        // AcqRel: the entry; pairs with arm.read.
        hot.link
            .compare_exchange(link.0, next.0, Ordering::AcqRel, Ordering::Acquire)
            .is_ok()
    }

    /// Makes an entry for a timer that is due at a tick, unless it has one that is early
    /// enough. Returns the reason for a visit.
    #[inline(always)]
    pub(super) fn place_by(&self, d: &mut Driver, node: Records<'_>, due: u64) -> Reason {
        let (slab, hand) = (&self.slab, d.hand);
        if let Some(tick) = d.buckets.tick(slab, node, hand) {
            if tick <= due || tick <= hand {
                return Reason::Tick(tick);
            }
            d.buckets.remove(slab, node);
        }
        if due <= hand {
            d.buckets.place_overdue(slab, node, hand);
            return Reason::Nothing;
        }
        Reason::Tick(d.buckets.place(slab, node, due, hand))
    }

    /// Step look.point.
    #[cold]
    pub(super) fn point(&self, hot: &Hot, reason: Reason) {
        loop {
            // Acquire: pairs with arm.publish.
            let link = Link(hot.link.load(Ordering::Acquire));
            match link.reason() {
                Reason::Note(place) if self.inboxes.holds(place) => return,
                seen if seen == reason => return,
                _ if Self::exchange_link(hot, link, reason) => return,
                _ => {}
            }
        }
    }

    /// Makes the entry of a timer that has none, and is due after the hand.
    #[inline]
    pub(super) fn place_after_visit(&self, d: &mut Driver, node: Records<'_>, due: u64) {
        let tick = d.buckets.place(&self.slab, node, due, d.hand);
        self.point(node.hot(), Reason::Tick(tick));
    }
}
