//! The short ways to arm, with the steps of `arm.rs`, for a plain timer with a near deadline
//! that no other thread changes meanwhile. Any other arm takes the general path.
//!
//! With fewer instructions, more calls overlap their cache misses. Each exit is a tail
//! call, so that it costs the short way no register.

use super::{Arm, How, Node};
use crate::core::error::{answer, Answer};
use crate::core::inbox::{number_of, Thread};
use crate::core::link::{Link, Place};
use crate::core::record::Hot;
use crate::core::state::{index_of, is_well_formed, Handle, StateWord};
use crate::core::ticks::EXACT_BELOW;
use crate::core::wheel::{Caller, Wheel};
use crate::sync::{fence_after_rmw, Ordering};

impl Wheel {
    /// Arms a timer for a point in time, not before [`Caller::first_ns`]. Lock-free;
    /// linearizes at the exchange.
    #[inline(always)]
    #[must_use]
    pub fn arm_at(&self, caller: &impl Caller, handle: Handle, ns: u64) -> Answer {
        match self.gate.is_owned() {
            true => self.arm_owned(caller, handle, ns),
            false => self.arm_shared(caller, handle, ns),
        }
    }

    /// The short way to arm in a shared wheel, of a timer whose entry is early enough.
    #[inline(never)]
    fn arm_shared(&self, caller: &impl Caller, handle: Handle, ns: u64) -> Answer {
        let wheel = caller.wheel(self);
        // arm.read
        let gate = wheel.gate.seen();
        let tick = wheel.ticks.at_or_after_exactly(ns);
        let beyond = gate.beyond(tick);
        if ns >= EXACT_BELOW || beyond >= wheel.ticks.near || !is_well_formed(handle) {
            return wheel.arm_slowly(handle, ns, caller);
        }
        let hot = wheel.slab.hot(index_of(handle));
        // Acquire: pairs with the Release of the thread that changed it last.
        let state = StateWord(hot.state.load(Ordering::Acquire));
        if state.differs_from(handle) != 0 {
            return wheel.arm_slowly(handle, ns, caller);
        }
        // Acquire: pairs with the exchanges of the link.
        let link = Link(hot.link.load(Ordering::Acquire));
        if gate.beyond(link.near_tick(handle)) > beyond {
            return wheel.arm_by_note::<false>(handle, tick, hot, state, caller);
        }
        // A thread without a number has no chunk. A thread that arms only inside of callbacks has
        // none either.
        let thread = caller.thread_at_hand();
        if !wheel.inboxes.is_ready(thread) {
            return wheel.arm_by_note::<true>(handle, tick, hot, state, caller);
        }
        let Some(was) = wheel.exchange_armed(hot, state, (handle, tick, ns), thread) else {
            return wheel.arm_slowly(handle, ns, caller);
        };
        // arm.check. Acquire: as above.
        if hot.link.load(Ordering::Acquire) != link.0 || wheel.gate.seen() != gate {
            return wheel.arm_unchecked(handle, tick, was, caller);
        }
        was.into()
    }

    /// The short way of the owner to arm a timer.
    #[inline(never)]
    fn arm_owned(&self, caller: &impl Caller, handle: Handle, ns: u64) -> Answer {
        let wheel = caller.wheel(self);
        let tick = wheel.ticks.at_or_after_exactly(ns);
        let beyond = wheel.gate.seen().beyond(tick);
        let identity = caller.identity();
        if !wheel.gate.owner().is(identity)
            || ns >= EXACT_BELOW
            || beyond >= wheel.ticks.near
            || !is_well_formed(handle)
        {
            return wheel.arm_slowly(handle, ns, caller);
        }
        let node = wheel.slab.named(index_of(handle));
        let hot = node.hot();
        // Relaxed, both: the owner's words.
        let state = StateWord(hot.state.load(Ordering::Relaxed));
        if state.differs_from(handle) != 0 {
            return wheel.arm_slowly_at(handle, tick, caller);
        }
        let link = Link(hot.link.load(Ordering::Relaxed));
        let when = (handle, tick, ns);
        let thread = number_of(identity);
        // The distance from the tick to the entry's tick. The sum is the entry's distance from the hand.
        let later = link.near_tick(handle).wrapping_sub(tick);
        if later.wrapping_add(beyond) <= beyond {
            return wheel.store_armed(hot, state, when, thread).into();
        }
        if link.differs_from(handle) != 0 {
            return wheel.arm_slowly_at(handle, tick, caller);
        }
        let was = wheel.store_armed(hot, state, when, thread);
        wheel.place_owned(caller, node, tick, was)
    }

    /// Step arm.exchange of the owner: whether the timer was pending.
    #[inline(always)]
    fn store_armed(
        &self,
        hot: &Hot,
        state: StateWord,
        (handle, tick, ns): (Handle, u64, u64),
        thread: Thread,
    ) -> bool {
        // Release: for threads that ask about the timer.
        hot.state
            .store(StateWord::plain_armed(handle, tick).0, Ordering::Release);
        self.count_arm(state, (handle, ns), thread)
    }

    /// Counts an arm: whether the timer was pending, by the word before.
    #[inline(always)]
    fn count_arm(&self, before: StateWord, (_handle, _ns): (Handle, u64), thread: Thread) -> bool {
        let was = before.is_armed();
        probe!(start, self, _handle, _ns, was);
        self.inboxes.of(thread).count.arm(was);
        was
    }

    /// Arms a timer whose link has no tick that is early enough: with a note of its `OWN`, or
    /// first without one, if the link has a note to rely on. That this one was taken before the
    /// exchange is rare: the driver takes it out of the link.
    #[inline(never)]
    fn arm_by_note<const OWN: bool>(
        &self,
        handle: Handle,
        tick: u64,
        hot: &Hot,
        state: StateWord,
        caller: &impl Caller,
    ) -> Answer {
        let gate = self.gate.seen();
        // Acquire: pairs with the exchanges of the link.
        let link = Link(hot.link.load(Ordering::Acquire));
        if !OWN && !link.is_near_note(handle) {
            return self.arm_by_note::<true>(handle, tick, hot, state, caller);
        }
        let (thread, is_inside) = caller.thread_inside();
        if gate.beyond(tick) >= self.ticks.near || OWN && link.differs_from(handle) != 0 {
            return self.arm_slowly_at(handle, tick, caller);
        }
        if OWN && is_inside {
            return self.arm_inside(handle, tick, hot, state, caller);
        }
        if !self.inboxes.is_ready(thread) {
            return self.arm_slowly_at(handle, tick, caller);
        }
        let own = OWN.then(|| self.inboxes.append(thread, index_of(handle)));
        let when = (handle, tick, self.ticks.ns(tick));
        let Some(was) = self.exchange_armed(hot, state, when, thread) else {
            return match own {
                Some(place) => self.arm_in_vain(handle, tick, link, place, caller),
                None => self.arm_slowly_at(handle, tick, caller),
            };
        };
        if OWN {
            self.inboxes.mark(thread);
        }
        // arm.wake, if there is nothing to do, and arm.check. Acquire: as above.
        let place = own.unwrap_or_else(|| link.place());
        if !self.alarm.is_early(tick)
            || !OWN && hot.link.load(Ordering::Acquire) != link.0
            || !self.inboxes.holds(place)
        {
            return match OWN {
                true => self.arm_unpublished(handle, tick, link, place, was, caller),
                false => self.arm_unchecked(handle, tick, was, caller),
            };
        }
        if OWN {
            self.publish(hot, link, place);
        }
        if self.gate.seen() != gate {
            return self.arm_unchecked(handle, tick, was, caller);
        }
        was.into()
    }

    /// Arms a timer inside of a callback, on the thread that drives. The thread needs no chunk.
    #[inline(never)]
    fn arm_inside(
        &self,
        handle: Handle,
        tick: u64,
        hot: &Hot,
        state: StateWord,
        caller: &impl Caller,
    ) -> Answer {
        let thread = caller.thread_at_hand();
        if thread == 0 {
            return self.arm_slowly_at(handle, tick, caller);
        }
        let when = (handle, tick, self.ticks.ns(tick));
        let Some(was) = self.exchange_armed(hot, state, when, thread) else {
            return self.arm_slowly_at(handle, tick, caller);
        };
        self.place_inside(index_of(handle), tick);
        was.into()
    }

    /// Step arm.exchange, and the fence: whether the timer was pending; `None` if another thread
    /// has changed the state.
    #[inline(always)]
    fn exchange_armed(
        &self,
        hot: &Hot,
        state: StateWord,
        (handle, tick, ns): (Handle, u64, u64),
        thread: Thread,
    ) -> Option<bool> {
        let word = StateWord::plain_armed(handle, tick);
        let before = self.exchange(hot, state, word).ok()?;
        fence_after_rmw();
        Some(self.count_arm(before, (handle, ns), thread))
    }

    /// The rest of an arm whose exchange has failed behind its note.
    #[cold]
    #[inline(never)]
    fn arm_in_vain(
        &self,
        handle: Handle,
        tick: u64,
        link: Link,
        place: Place,
        caller: &impl Caller,
    ) -> Answer {
        self.publish_in_vain(self.slab.hot(index_of(handle)), link, Some(place));
        self.arm_slowly_at(handle, tick, caller)
    }

    /// The rest of an arm whose reason may be gone. The hand that the word was made for is
    /// no longer known. It was less than a step before the tick: so the word reads right until
    /// the hand is more than a step behind the tick.
    #[cold]
    #[inline(never)]
    fn arm_unchecked(&self, handle: Handle, tick: u64, was: bool, caller: &impl Caller) -> Answer {
        self.arm_again(handle, tick, (Link::none(0), None), was, caller)
    }

    /// The rest of an arm with a note that the link does not name yet, whose reason may be
    /// gone.
    #[cold]
    #[inline(never)]
    fn arm_unpublished(
        &self,
        handle: Handle,
        tick: u64,
        link: Link,
        place: Place,
        was: bool,
        caller: &impl Caller,
    ) -> Answer {
        self.arm_again(handle, tick, (link, Some(place)), was, caller)
    }

    #[inline(always)]
    fn arm_again(
        &self,
        handle: Handle,
        tick: u64,
        (link, note): (Link, Option<Place>),
        was: bool,
        caller: &impl Caller,
    ) -> Answer {
        let index = index_of(handle);
        let arm = Arm {
            node: Node {
                thread: caller.thread_at_hand(),
                index,
                hot: self.slab.hot(index),
            },
            word: StateWord::plain_armed(handle, tick),
            tick,
            hand: tick,
            link,
            note,
        };
        self.uphold_again(caller, arm);
        answer(self.unless_closed(arm, was))
    }

    /// An arm that the short ways do not handle.
    #[inline(never)]
    fn arm_slowly(&self, handle: Handle, ns: u64, caller: &impl Caller) -> Answer {
        answer(self.arm(caller, handle, ns, How::Always))
    }

    /// Arms for a tick. A tick is exact here, because the caller has rounded the time up already.
    #[inline(never)]
    fn arm_slowly_at(&self, handle: Handle, tick: u64, caller: &impl Caller) -> Answer {
        self.arm_slowly(handle, self.ticks.ns(tick), caller)
    }
}
