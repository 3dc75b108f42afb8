//! The short way to arm, with the steps of `arm.rs`, for a plain timer with a near deadline
//! that no other thread changes meanwhile. Any other arm takes the long way.
//!
//! With fewer instructions, more calls overlap their cache misses. Each exit is a tail
//! call, so that it costs the short way no register. A thread needs a shard only to
//! push or to count.

use super::{Arm, Basis, How};
use crate::core::entry::Entry;
use crate::core::error::{answer, Answer, Error};
use crate::core::gate::Seen;
use crate::core::memory::Memory;
use crate::core::node::{Hot, Link};
use crate::core::shard::Producer;
use crate::core::state::{high_of, index_of, is_well_formed, Handle, StateWord};
use crate::core::wheel::{Caller, Wheel};
use crate::sync::{fence_after_rmw, Ordering};

impl<M: Memory> Wheel<M> {
    /// Arms a timer for a point in time, not before [`Caller::first_ns`]. Lock-free;
    /// linearizes at the exchange.
    #[inline(always)]
    #[must_use]
    pub fn arm_at(&self, caller: &impl Caller, handle: Handle, ns: u64) -> Answer {
        self.arm_near::<false>(caller, handle, ns)
    }

    /// The same. `FINE` is for ticks that are shorter than a unit of a promise.
    #[inline(always)]
    fn arm_near<const FINE: bool>(&self, caller: &impl Caller, handle: Handle, ns: u64) -> Answer {
        // arm.read
        let gate = self.gate.seen();
        let tick = self.ticks.at_or_after_near(ns);
        let beyond = gate.beyond(tick);
        let near = match FINE {
            false => self.gate.near(),
            true => self.ticks.near(gate.hand()),
        };
        if beyond >= near || !is_well_formed(handle) {
            return match FINE {
                false => self.arm_fine(handle, ns, caller),
                true => self.arm_slowly(handle, ns, caller),
            };
        }
        let hot = self.slab.hot(index_of(handle));
        // Acquire: pairs with the Release of the thread that changed it last.
        let state = StateWord(hot.state.load(Ordering::Acquire));
        if state.differs_from(handle) != 0 {
            return self.arm_slowly_at(handle, tick, caller);
        }
        // Acquire: pairs with arm.publish.
        let link = Link(hot.link.load(Ordering::Acquire));
        let (promise, is_good);
        if FINE {
            let unit_bits = self.ticks.unit_bits;
            promise = link.promise(unit_bits);
            is_good = link.differs_from(handle) == 0 && link.promises(gate.hand(), tick, unit_bits);
        } else {
            promise = link.near_promise(handle);
            is_good = gate.beyond(promise) <= beyond;
        }
        if !is_good {
            return self.arm_with_push(handle, tick, hot, state, caller);
        }
        let word = StateWord::plain_armed(handle, tick);
        // arm.exchange
        let Ok(state) = self.exchange(hot, state, word) else {
            return self.arm_slowly_at(handle, tick, caller);
        };
        fence_after_rmw();
        probe!(start, self, handle, ns, state.is_armed());
        // arm.rely. The floor first: see `driver/clean.rs`. Acquire: pairs with
        // the Release that lets promises be relied upon again.
        if self.shared.floor.load(Ordering::Acquire) > promise || self.gate.seen() != gate {
            return self.arm_unrelied(handle, tick, state.is_armed(), caller);
        }
        let Some(token) = caller.token_at_hand() else {
            return self.count_without_shard(state.is_armed(), caller);
        };
        self.producer(token).count.arm(state.is_armed());
        state.is_armed().into()
    }

    /// The end of an arm in a thread whose shard is not at hand.
    #[cold]
    #[inline(never)]
    fn count_without_shard(&self, was: bool, caller: &impl Caller) -> Answer {
        self.count_arm(self.owned(caller), was);
        was.into()
    }

    /// The same where a push is needed. What does not fit into registers is read
    /// again.
    #[inline(never)]
    fn arm_with_push(
        &self,
        handle: Handle,
        tick: u64,
        hot: &Hot,
        state: StateWord,
        caller: &impl Caller,
    ) -> Answer {
        let gate = self.gate.seen();
        let Some(token) = caller.token_at_hand() else {
            return self.arm_slowly_at(handle, tick, caller);
        };
        // Relaxed: see `Wheel::live_node`.
        let link = Link(hot.link.load(Ordering::Relaxed));
        let near = self.ticks.near(gate.hand());
        if gate.beyond(tick) >= near || link.differs_from(handle) != 0 {
            return self.arm_slowly_at(handle, tick, caller);
        }
        let own = self.producer(token);
        let index = index_of(handle);
        let bucket = self.levels.place(tick, gate.hand()).bucket;
        // Release: another timer's link that this thread has published, see `life.rs`.
        own.publishing.store(index, Ordering::Release);
        // arm.push
        if !own.push_if_room(bucket, Entry::near(index, tick)) {
            return self.arm_with_chunk(handle, tick, bucket, state, caller);
        }
        own.prefetch_back(bucket);
        own.count.pushes.bump(1);
        let word = StateWord::plain_armed(handle, tick);
        // arm.exchange
        let Ok(state) = self.exchange(hot, state, word) else {
            own.publishing.store(0, Ordering::Release);
            return self.arm_slowly_at(handle, tick, caller);
        };
        fence_after_rmw();
        probe!(start, self, handle, self.ticks.ns(tick), state.is_armed());
        // arm.mark, arm.wake and arm.check, if there is nothing to do.
        if !self.buckets.is_marked(bucket, &own) || !self.wakes_by(tick) || self.gate.seen() != gate
        {
            return self.arm_pushed(handle, tick, gate, state.is_armed(), caller);
        }
        own.count.arm(state.is_armed());
        self.publish(own, hot, handle, tick);
        self.consider_cleaning(caller, own);
        state.is_armed().into()
    }

    /// The same after the bucket has got room.
    #[cold]
    #[inline(never)]
    fn arm_with_chunk(
        &self,
        handle: Handle,
        tick: u64,
        bucket: u32,
        state: StateWord,
        caller: &impl Caller,
    ) -> Answer {
        let Some(own) = self.owned(caller) else {
            return Error::Memory as Answer;
        };
        // Release: pairs with free.look. It is set again before the push.
        own.publishing.store(0, Ordering::Release);
        if !own.make_room(&self.memory, bucket) {
            return Error::Memory as Answer;
        }
        // If the hand has moved meanwhile, that is another bucket, or the timer is due.
        let hot = self.slab.hot(index_of(handle));
        self.arm_with_push(handle, tick, hot, state, caller)
    }

    /// The rest of an arm whose entry was pushed while the gate was as `gate`.
    #[inline(never)]
    fn arm_pushed(
        &self,
        handle: Handle,
        tick: u64,
        gate: Seen,
        was: bool,
        caller: &impl Caller,
    ) -> Answer {
        let basis = Basis::Entry(tick, self.levels.place(tick, gate.hand()));
        self.finish_arm(handle, tick, gate.hand(), (basis, was), caller)
    }

    /// The rest of an arm whose promise may be gone. The hand that the word was made for is
    /// no longer known. It was less than a leap before the tick: so the word reads right until
    /// the hand is more than a leap behind the tick.
    #[cold]
    #[inline(never)]
    fn arm_unrelied(&self, handle: Handle, tick: u64, was: bool, caller: &impl Caller) -> Answer {
        self.finish_arm(handle, tick, tick, (Basis::Unsure, was), caller)
    }

    /// The rest of an arm after the exchange.
    #[inline(always)]
    fn finish_arm(
        &self,
        handle: Handle,
        tick: u64,
        hand: u64,
        (basis, was): (Basis, bool),
        caller: &impl Caller,
    ) -> Answer {
        let own = self.owned(caller);
        self.count_arm(own, was);
        let index = index_of(handle);
        let arm = Arm {
            own,
            index,
            hot: self.slab.hot(index),
            word: StateWord::plain_armed(handle, tick),
            tick,
            hand,
        };
        match own {
            Some(own) => {
                self.uphold(caller, own, arm, basis);
                // Release: pairs with free.look.
                own.publishing.store(0, Ordering::Release);
            }
            None => self.uphold_again(caller, arm),
        }
        answer(self.unless_closed(arm, was))
    }

    /// Step arm.publish, for a timer whose exchange has succeeded: so its high part is
    /// that of the handle.
    #[inline(always)]
    fn publish(&self, own: Producer<'_>, hot: &Hot, handle: Handle, tick: u64) {
        let promise = Link::new(tick, self.ticks.unit_bits, high_of(handle));
        // Release: all that the promise says; pairs with arm.read.
        hot.link.store(promise.0, Ordering::Release);
        // Release: pairs with free.look.
        own.publishing.store(0, Ordering::Release);
    }

    /// An arm that the shortest way does not handle.
    #[inline(never)]
    fn arm_fine(&self, handle: Handle, ns: u64, caller: &impl Caller) -> Answer {
        self.arm_near::<true>(caller, handle, ns)
    }

    #[inline(never)]
    fn arm_slowly(&self, handle: Handle, ns: u64, caller: &impl Caller) -> Answer {
        answer(self.arm(caller, handle, ns, How::Always))
    }

    /// The same for a tick, as good as the time that was rounded up to it.
    #[inline(never)]
    fn arm_slowly_at(&self, handle: Handle, tick: u64, caller: &impl Caller) -> Answer {
        self.arm_slowly(handle, self.ticks.ns(tick), caller)
    }
}
