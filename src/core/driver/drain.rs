//! The end of a wheel: every pending timer is handed back, once.
//!
//! A drain changes the word of each timer that it reaches. From then on the exchange of an
//! arm under way fails. If that exchange came first, the drain finds the timer armed.

use super::event::{Fired, DRAINED};
use super::words::Driver;
use crate::core::inbox::Thread;
use crate::core::slab::Records;
use crate::core::state::{high_of, StateWord};
use crate::core::wheel::Wheel;
use crate::sync::Ordering;

impl Wheel {
    /// Hands back every pending timer, until `take` returns false; the next call
    /// continues there. From the first call on the wheel refuses arms. True if all
    /// is done.
    pub(super) fn drain(
        &self,
        d: &Driver,
        thread: Thread,
        mut take: impl FnMut(&Fired) -> bool,
    ) -> bool {
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
