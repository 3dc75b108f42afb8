//! The end of a wheel: every pending timer is handed back, once.

use super::{Drive, Fired};
use crate::core::memory::Memory;
use crate::core::node::Hot;
use crate::core::shard::Producer;
use crate::core::state::{high_of, StateWord};
use crate::core::wheel::{Token, Wheel};
use crate::sync::Ordering;

impl<M: Memory> Drive<'_, M> {
    /// Hands back every pending timer, until `take` returns false; the next call
    /// continues there. From the first call on the wheel refuses arms. True if all
    /// is done.
    pub fn drain(&mut self, mut take: impl FnMut(&Fired) -> bool) -> bool {
        let wheel = self.wheel;
        // drain.close, and the fence: race 4.
        wheel.gate.close();
        let own = wheel.producer(Token(self.state.own));
        let indices = wheel.slab.indices();
        let mut index = self.state.drained.max(indices.start);
        let mut room = true;
        while room && index < indices.end {
            room = wheel.drain_node(own, index, wheel.slab.hot(index), &mut take);
            index += 1;
        }
        let done = index >= indices.end;
        // A later call begins anew: an arm may have been under way.
        self.state.drained = if done && room { 0 } else { index };
        room && done
    }
}

impl<M: Memory> Wheel<M> {
    fn drain_node(
        &self,
        own: Producer<'_>,
        index: u32,
        hot: &Hot,
        take: &mut impl FnMut(&Fired) -> bool,
    ) -> bool {
        // drain.read. Acquire: pairs with arm.exchange.
        let mut state = StateWord(hot.state.load(Ordering::Acquire));
        while state.is_armed() {
            let mut fired = self.fired::<false>(
                index,
                (hot, self.slab.fire(index)),
                state,
                self.due_ns(state),
            );
            if state.is_rare() {
                let extra = self.extra(index, state, state.generation(high_of(fired.handle)));
                fired.kind |= extra.kind;
                fired.missed = extra.left_out;
                fired.deadline_ns -= extra.early;
            }
            let next = if state.is_auto() {
                state.freed()
            } else {
                state.fired()
            };
            match self.exchange(hot, state, next) {
                Ok(_) => {
                    self.shared.count.drained.bump(1);
                    self.give_back(Some(own), index, hot, next);
                    return take(&fired);
                }
                Err(seen) => state = seen,
            }
        }
        true
    }
}
