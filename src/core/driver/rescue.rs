//! Promises without memory. A cascade without memory drops the entry. An arm whose
//! bucket the hand has passed may find no memory for a second entry. From then on,
//! at each tick at which a timer is due, the driver goes through all nodes, until
//! all promises hold again.
//!
//! The driver repairs promises before it announces another goal, while promises are
//! suspended (`clean.rs`). It clears each link that may name a dropped entry, and
//! gives each armed timer an entry of its own, an urgent one if the timer is due. A
//! thread that is about to publish may still name a dropped entry. While there is such
//! a thread, the driver continues to go through all nodes, and makes no entries: they
//! would be more with each sweep. If the memory ends again, the next sweep goes on with the
//! timers that have no promise yet.

use super::visit::BUSY_AGAIN;
use super::{Sink, Sweep};
use crate::core::entry::Entry;
use crate::core::memory::Memory;
use crate::core::node::{Hot, Link};
use crate::core::shard::Shard;
use crate::core::state::{Found, StateWord, NEVER};
use crate::core::wheel::DROPPED;
use crate::sync::Ordering;

/// The first tick, at or after the hand, at which a timer can fire, or at which its callback
/// has held it up for so long that its deadline must move.
fn wanted_at(hot: &Hot, hand: u64) -> u64 {
    match StateWord(hot.state.load(Ordering::Acquire)).found(hand) {
        Found::Resting => NEVER,
        Found::Later(due) => due,
        Found::Due(_) => hand,
        Found::Busy(due) => hand.max(due + BUSY_AGAIN + 1),
    }
}

impl<M: Memory, S: Sink> Sweep<'_, M, S> {
    pub(super) fn is_rescuing(&self) -> bool {
        // Acquire: pairs with the Release of the request.
        self.wheel.shared.rescue.load(Ordering::Acquire) != 0
    }

    /// The first tick, at or after the hand, at which a node wants a visit.
    #[cold]
    pub(super) fn earliest_node(&self) -> u64 {
        let wanted = |(_, hot): (u32, &Hot)| wanted_at(hot, self.d.hand);
        self.wheel.slab.used().map(wanted).min().unwrap_or(NEVER)
    }

    /// Fires everything that is due at a tick.
    #[cold]
    pub(super) fn look_at_all(&mut self, tick: u64) {
        for (index, hot) in self.wheel.slab.used() {
            if wanted_at(hot, tick) <= tick && !self.visit_slowly(index, hot, tick) {
                // The next call finds the rest.
                self.stop = true;
                return;
            }
        }
    }

    /// Repairs all promises, if one is broken.
    pub(super) fn promise_all(&mut self) {
        let wheel = self.wheel;
        if !self.is_rescuing() {
            return;
        }
        // Before the links are cleared: a thread that is seen later may have published
        // in between. The driver has taken each dropped entry, so it sees the number that
        // stood in `publishing` before the push, or the 0 behind arm.publish. Acquire:
        // pairs with the Release of that.
        let publishes = |s: &Shard| s.publishing.load(Ordering::Acquire) != 0;
        if wheel.find_shard(publishes).is_some() {
            return;
        }
        // AcqRel: a failure from here on sets it again.
        if wheel.shared.rescue.swap(0, Ordering::AcqRel) == DROPPED {
            for (_, hot) in wheel.slab.used() {
                // A promise of tick 0, which has passed, is none. An exchange, because
                // the high part may change.
                _ = hot
                    .link
                    .fetch_update(Ordering::AcqRel, Ordering::Acquire, |link| {
                        Some(Link::new(0, 0, Link(link).high()).0)
                    });
            }
        }
        // A thread that relies on a link of before has made its exchange before the fence
        // of drive.suspend, or finds promises suspended.
        let hand = self.d.hand;
        for (index, hot) in wheel.slab.used() {
            let state = StateWord(hot.state.load(Ordering::Acquire));
            let is_kept = match state.due(hand) {
                // An entry of the next tick would be late.
                due if due <= hand => {
                    self.promise_in(wheel.buckets.urgent(), Entry::new(index, hand, hand))
                }
                due => self.keep_promise(index, hot, due, hand),
            };
            if !is_kept {
                return;
            }
        }
    }
}
