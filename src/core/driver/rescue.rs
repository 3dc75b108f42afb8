//! Promises that found no memory. A cascade that finds none drops the entry, and
//! an arm that has lost its entry to the hand may find none for another. Then the
//! driver looks at every node, tick by tick of what is due, until all promises
//! are good again.
//!
//! To make them good, before another goal is announced and while promises are
//! suspended (`clean.rs`): no link is left that may speak of a dropped entry, and
//! each armed timer gets an entry of its own. A thread that is about to publish
//! may still speak of one; while there is such a thread, the driver goes on
//! looking at every node.

use super::{Sink, Sweep};
use crate::core::memory::Memory;
use crate::core::node::Link;
use crate::core::state::{Found, StateWord, NEVER};
use crate::sync::{fence, Ordering};

impl<M: Memory, S: Sink> Sweep<'_, M, S> {
    pub(super) fn is_rescuing(&self) -> bool {
        // Acquire: pairs with the Release of the request.
        self.wheel.shared.rescue.load(Ordering::Acquire) != 0
    }

    /// The first tick at which a timer is due that can fire, not before the
    /// hand.
    #[cold]
    pub(super) fn earliest_node(&self) -> u64 {
        let hand = self.d.hand;
        let mut first = NEVER;
        for index in self.wheel.slab.indices() {
            let Some(hot) = self.wheel.slab.hot(index) else {
                continue;
            };
            let state = StateWord(hot.state.load(Ordering::Acquire));
            match state.found(hand) {
                Found::Due(_) => return hand,
                Found::Later(due) => first = first.min(due),
                Found::Resting | Found::Busy(_) => {}
            }
        }
        first
    }

    /// Fires everything that is due at a tick.
    #[cold]
    pub(super) fn look_at_all(&mut self, tick: u64) {
        for index in self.wheel.slab.indices() {
            let Some(hot) = self.wheel.slab.hot(index) else {
                continue;
            };
            let state = StateWord(hot.state.load(Ordering::Acquire));
            if let Found::Due(_) = state.found(tick) {
                self.visit(index, tick);
                if self.stop {
                    // The rest is found again.
                    return;
                }
            }
        }
    }

    /// Makes all promises good, if some are not.
    pub(super) fn promise_all(&mut self) {
        let wheel = self.wheel;
        // AcqRel: what fails from here on sets it again.
        if !self.is_rescuing() || wheel.shared.rescue.swap(0, Ordering::AcqRel) == 0 {
            return;
        }
        for index in wheel.slab.indices() {
            let Some(hot) = wheel.slab.hot(index) else {
                continue;
            };
            // The promise of a tick before all ticks is none. By exchange, for
            // the sake of the high part.
            _ = hot
                .link
                .fetch_update(Ordering::AcqRel, Ordering::Acquire, |link| {
                    Some(Link::new(0, 0, Link(link).high()).0)
                });
        }
        fence(Ordering::SeqCst);
        // Acquire: pairs with the Release behind arm.publish.
        if wheel
            .find_shard(|s| s.publishing.load(Ordering::Acquire) != 0)
            .is_some()
        {
            wheel.shared.rescue.store(1, Ordering::Release);
        }
        let hand = self.d.hand;
        for index in wheel.slab.indices() {
            let Some(hot) = wheel.slab.hot(index) else {
                continue;
            };
            let state = StateWord(hot.state.load(Ordering::Acquire));
            if state.is_armed() {
                match state.deadline(hand) {
                    NEVER => {}
                    due => self.keep_promise(index, hot, due, hand),
                }
            }
        }
    }
}
