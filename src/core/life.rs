//! The life of a timer: set up in a free node, cancelled, freed into its next generation; and
//! waiting for its callback. From any thread.
//!
//! # Race 5: waiting for a callback
//!
//! ```text
//!   driver                                waiting thread
//!   visit.run     running := handle       cancel.exchange  state (RMW), or a
//!   visit.claim   state := fired (RMW)                     fence if it rested
//!                 the callback            wait.enter       waiters + 1  (RMW)
//!   visit.end     running := 0            wait.look        read running
//!                 --- fence ---
//!                 waiters? wake them
//! ```
//! If the driver's exchange comes first, the waiting thread acquires it and sees
//! `running`, or a later value. If the cancel comes first, the driver does not run
//! the callback. `running` holds the whole handle, so a thread does not wait for
//! the next timer in the same node. The fence of `visit.end` is the exchange of the
//! next visit, or the one at the end of the sweep.
//!
//! Where workers or an executor run callbacks, RUNNING in the state word stands
//! for `running`, and [`Wheel::finish`] for `visit.end`.
//!
//! # Generations that wrap
//!
//! The low part of a generation changes with the state word. The high part lies in the link,
//! and changes when the low part wraps. Every other write of a link is an exchange from a
//! value that was read before, with the same high part. So a late one fails after the change,
//! and does not write an old high part over a new one.

use super::arm::{How, Node};
use super::gate::View;
use super::record::{self, Hot, Link};
use super::slab::FreeList;
use super::state::{
    handle_of, high_of, high_part, index_of, is_well_formed, Handle, StateWord, GEN_MASK,
};
use super::ticks::{encode_period, AUTO, KEYED};
use super::wheel::{Caller, Wheel, NO_WAITER};
use super::{answer, number_of, Answer, Error, Thread, RUN, TRIES};
use crate::sync::{fence, fence_after_rmw, AtomicU64, Ordering};

/// The generation of a node's first life. The generations of two nodes whose indices are
/// close, or differ in one bit, are far apart. So a handle with one wrong bit is stale.
pub(crate) fn first_generation(salt: u32, index: u32) -> u32 {
    // The golden ratio, as for the salt of a wheel.
    salt.wrapping_add(index.wrapping_mul(0x278d_de6d)) & GEN_MASK
}

/// A timer to be made, apart from its deadline.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Spec {
    /// The callback as a number, or 0 for an event.
    pub func: usize,
    pub cookie: u64,
    /// Nanoseconds, or 0 for a timer that fires once.
    pub period: u64,
    /// AUTO, BURST, DELAY, KEYED, and the slack of a period.
    pub kind: u16,
    /// Periods that were skipped before the first one.
    pub left_out: u64,
}

impl Wheel {
    /// A new timer, armed for `due` if there is one. Lock-free; linearizes at the
    /// exchange of the state word.
    pub fn setup(
        &self,
        caller: &impl Caller,
        spec: Spec,
        due: Option<u64>,
    ) -> Result<Handle, Error> {
        if let View::Closed = self.gate.view() {
            return Err(Error::Shutdown);
        }
        let thread = caller.thread()?;
        if !self.is_plainly_mine(caller) {
            // The arms that follow lack no memory. So a sender frees no node of a message.
            self.inboxes.reserve(thread)?;
        }
        let index = self.alloc(caller, thread)?;
        let hot = self.slab.hot(index);
        self.count(thread, |c| &c.setups, 1);
        let generation = self.generation(index, hot);
        let handle = handle_of(index, generation);
        let fire = self.slab.fire(index);
        // Release: a thread that reads one of the values below also finds the life before
        // over. Pairs with the fence in `next_pending`.
        fence(Ordering::Release);
        // Relaxed, both: the node is this thread's until its handle is out.
        fire.func.store(spec.func, Ordering::Relaxed);
        fire.cookie.store(spec.cookie, Ordering::Relaxed);
        let kind = spec.kind & !AUTO;
        let is_auto = spec.kind & (AUTO | KEYED) != 0;
        let is_rare = spec.period != 0 || kind != 0;
        if is_rare {
            let rare = self.slab.rare(index);
            record::write(&rare.period, encode_period(spec.period), generation);
            rare.kind.write(kind, generation);
            record::write(&rare.left_out, spec.left_out.min(record::VALUE), generation);
        }
        let resting = StateWord::free(generation).resting(is_auto, is_rare);
        // Release: publishes the node to threads that read the word. A store will do: the
        // exchanges of earlier lives fail.
        hot.state.store(resting.0, Ordering::Release);
        let Some(due) = due else {
            return Ok(handle);
        };
        let node = Node { thread, index, hot };
        let how = match spec.period {
            0 => How::Always,
            _ => How::Periodic(spec.kind),
        };
        match self.arm_node(caller, node, resting, handle, (due, how)) {
            Ok(_) => Ok(handle),
            Err(e) => {
                // Unless the drain has handed it back already.
                _ = self.end(caller, handle, StateWord::freed);
                Err(e)
            }
        }
    }

    /// A node that was free.
    fn alloc(&self, caller: &impl Caller, thread: Thread) -> Result<u32, Error> {
        let (slab, own) = (&self.slab, &self.inboxes.of(thread).free);
        let steal = |t| slab.steal(&self.inboxes.of(t).free, own);
        let mut tries = TRIES;
        loop {
            if let Some(index) = slab.take(own) {
                return Ok(index);
            }
            match self.take_run_with_room(own) {
                // Other threads have free nodes at hand. A node that one thread is taking from
                // another is in neither list, and that thread may be stopped. So the search
                // has a bound.
                Err(Error::Limit) if tries != 0 && self.live(caller.threads()) < self.limit => {
                    tries -= 1;
                    if let Some(index) = (1..caller.threads()).find_map(steal) {
                        return Ok(index);
                    }
                }
                result => return result,
            }
        }
    }

    /// Takes fresh nodes. A shared wheel has room for notes about them.
    #[inline(never)]
    fn take_run_with_room(&self, own: &FreeList) -> Result<u32, Error> {
        if self.gate.is_owned() {
            return self.slab.take_run(own);
        }
        self.inboxes.add_nodes(RUN)?;
        let taken = self.slab.take_run(own);
        taken.inspect_err(|_| self.inboxes.subtract_nodes(RUN))
    }

    /// The generation of a node that is this thread's.
    fn generation(&self, index: u32, hot: &Hot) -> u32 {
        // Relaxed, both: the free list has handed over the words of the thread that
        // freed the node.
        let state = StateWord(hot.state.load(Ordering::Relaxed));
        if state == StateWord(0) && hot.link.load(Ordering::Relaxed) == 0 {
            // Never used.
            let first = first_generation(self.salt, index);
            let link = Link::none(high_part(first));
            hot.link.store(link.0, Ordering::Relaxed);
            return first;
        }
        state.generation(Link(hot.link.load(Ordering::Relaxed)).high())
    }

    /// Changes the state by `step`, which disarms: true if the timer was pending, and the
    /// state that it has now.
    #[inline]
    pub(super) fn end(
        &self,
        caller: &impl Caller,
        handle: Handle,
        step: impl Fn(StateWord) -> StateWord,
    ) -> Result<(bool, StateWord), Error> {
        let (index, hot, mut state) = self.live_node(handle)?;
        loop {
            let next = step(state);
            if next == state {
                return Ok((false, state));
            }
            // cancel.exchange
            // A sender exchanges the state of its message.
            match self.change_if(self.is_plainly_mine(caller), hot, state, next) {
                Ok(_) => {
                    probe!(cancel, self, handle, state.is_armed());
                    let thread = caller.thread().unwrap_or(0);
                    self.count(thread, |c| &c.cancels, state.is_armed().into());
                    self.give_back(thread, index, next);
                    return Ok((state.is_armed(), next));
                }
                Err(_) => state = self.state_again(handle)?,
            }
        }
    }

    /// Gives a node back if it is free: to the list of the thread, or to the stack if the thread
    /// has no number.
    pub(super) fn give_back(&self, thread: Thread, index: u32, state: StateWord) {
        if !state.is_free() {
            return;
        }
        self.count(thread, |c| &c.frees, 1);
        if state.has_wrapped() && !self.next_high_part(index) {
            // Never used again: 80 bytes for each 2^28 lives.
            return self.slab.retire();
        }
        let own = (thread != 0).then(|| &self.inboxes.of(thread).free);
        self.slab.push(own, index);
    }

    /// The next high part; false if the node has had all of them.
    #[cold]
    fn next_high_part(&self, index: u32) -> bool {
        let next = |link: u64| (Link(link).high() + 1) & high_part(GEN_MASK);
        // AcqRel: as every exchange of a link. Other threads may write reasons meanwhile.
        self.slab
            .hot(index)
            .link
            .fetch_update(Ordering::AcqRel, Ordering::Acquire, |link| {
                Some(Link(link).with_high(next(link)).0)
            })
            .is_ok_and(|link| next(link) != high_part(first_generation(self.salt, index)))
    }

    /// Frees a timer: true if it was pending. If its callback runs on another
    /// thread, the end of the callback gives the node back. Lock-free; linearizes at
    /// the exchange of the state word.
    pub fn free(&self, caller: &impl Caller, handle: Handle) -> Result<bool, Error> {
        self.permit(caller)?;
        Ok(self.end(caller, handle, StateWord::freed)?.0)
    }

    /// Sets the period of a timer from its next firing on; 0 for none. Lock-free.
    pub fn set_period(&self, handle: Handle, period: u64) -> Result<(), Error> {
        let (index, hot, mut state) = self.live_node(handle)?;
        let word = &self.slab.rare(index).period;
        // The generation of the handle, which `live_node` has checked.
        let generation = state.generation(high_of(handle));
        let value = record::tagged(encode_period(period), generation);
        let mut seen = word.load(Ordering::Acquire);
        loop {
            // The handle may have become stale. Then either the word has the tag of
            // the present life, and the exchange fails, or no thread reads the word
            // before it has.
            state = self.state_again(handle)?;
            if state.is_shut() {
                return Err(Error::Shutdown);
            }
            match word.compare_exchange(seen, value, Ordering::AcqRel, Ordering::Acquire) {
                Ok(_) => break,
                Err(now) => seen = now,
            }
        }
        while !state.is_rare() {
            match self.change(hot, state, state.with_rare()) {
                Ok(_) => break,
                Err(_) => state = self.state_again(handle)?,
            }
        }
        Ok(())
    }

    /// Cancels a timer. This is the short way, for a plain armed timer, in a thread
    /// that has a number. All others take [`Wheel::cancel`]. Lock-free.
    #[inline(always)]
    #[must_use]
    pub fn cancel_plain(&self, caller: &impl Caller, handle: Handle) -> Answer {
        if self.gate.is_owned() {
            return self.cancel_owned(caller, handle);
        }
        let thread = caller.thread_at_hand();
        let hot = self.slab.hot(index_of(handle));
        // Acquire: pairs with the Release of the thread that changed it last.
        let state = StateWord(hot.state.load(Ordering::Acquire));
        if state.differs_from_armed(handle) != 0
            || !self.has_high_part(hot, handle)
            || !is_well_formed(handle)
            || thread == 0
            || self.gate.id() == 0
        {
            return self.cancel_slowly(handle, caller);
        }
        // cancel.exchange
        if self.exchange(hot, state, state.plain_cancelled()).is_err() {
            return self.cancel_slowly(handle, caller);
        }
        self.count(thread, |c| &c.cancels, 1);
        probe!(cancel, self, handle, 1);
        1
    }

    /// The shortest way to cancel, by the owner.
    #[inline(never)]
    fn cancel_owned(&self, caller: &impl Caller, handle: Handle) -> Answer {
        let wheel = caller.wheel(self);
        let identity = caller.identity();
        if !wheel.gate.owner().is(identity) {
            return Error::NotOwner as Answer;
        }
        let hot = wheel.slab.hot(index_of(handle));
        // Relaxed, both: the owner's words.
        let state = StateWord(hot.state.load(Ordering::Relaxed));
        let link = Link(hot.link.load(Ordering::Relaxed));
        if (state.differs_from_armed(handle) | link.differs_from(handle)) != 0
            || !is_well_formed(handle)
            || !wheel.gate.is_plain()
        {
            return wheel.cancel_slowly(handle, caller);
        }
        // Release: as in `store_armed`.
        hot.state
            .store(state.plain_cancelled().0, Ordering::Release);
        wheel.inboxes.of(number_of(identity)).count.cancels.bump(1);
        probe!(cancel, wheel, handle, 1);
        1
    }

    #[inline(never)]
    fn cancel_slowly(&self, handle: Handle, caller: &impl Caller) -> Answer {
        answer(self.cancel(caller, handle, false))
    }

    /// Cancels a timer: true if it was pending. With `shut` also shuts it down. A
    /// timer that frees itself is freed. Lock-free; linearizes at the exchange of the
    /// state word.
    pub fn cancel(&self, caller: &impl Caller, handle: Handle, shut: bool) -> Result<bool, Error> {
        self.permit(caller)?;
        let step = |state: StateWord| state.cancelled(shut);
        Ok(self.end(caller, handle, step)?.0)
    }

    /// Cancels a timer as `cancel` does, and blocks until its callback is over, even if
    /// the timer was freed meanwhile. The callback itself must not call this. `wait` gets
    /// a word and a value. It may return at any time, and does so soon after the word
    /// changes from that value. The handle must not be 0, which stands for no callback.
    pub fn cancel_sync(
        &self,
        caller: &impl Caller,
        handle: Handle,
        shut: bool,
        mut wait: impl FnMut(&AtomicU64, u64),
    ) -> Result<bool, Error> {
        debug_assert_ne!(handle, 0);
        self.permit(caller)?;
        let cancel = || self.end(caller, handle, |state| state.cancelled(shut));
        let hot = self.slab.hot(index_of(handle));
        let mut left = cancel();
        let mut was = left.map(|(was, _)| was);
        loop {
            // For a cancel that had nothing to exchange.
            fence(Ordering::SeqCst);
            let waited = self.wait_for_callback(handle, &mut wait);
            // A callback may have armed the timer again. If it had ended before this thread
            // looked for it, the state is not as the cancel has left it. By exchange: a load
            // could read what was there before.
            let is_as = |left| self.exchange(hot, left, left) == Ok(left);
            match left {
                Ok((_, state)) if waited || !is_as(state) => left = cancel(),
                Err(_) if waited => {}
                _ => return was,
            }
            if let Ok((true, _)) = left {
                was = Ok(true);
            }
        }
    }

    /// True if there was one.
    fn wait_for_callback(&self, handle: Handle, wait: &mut impl FnMut(&AtomicU64, u64)) -> bool {
        let callback = &self.callback;
        let hot = self.slab.hot(index_of(handle));
        let word = if self.pooled {
            &hot.state
        } else {
            &callback.running
        };
        let mut waited = false;
        loop {
            // Acquire: what the callback did; pairs with `finish` or visit.end.
            let seen = word.load(Ordering::Acquire);
            let runs = if self.pooled {
                StateWord(seen).runs_for(handle) && self.has_high_part(hot, handle)
            } else {
                seen == handle
            };
            if !runs {
                return waited;
            }
            waited = true;
            // wait.enter, wait.look: `wait` looks again.
            callback.waiters.fetch_add(1, Ordering::AcqRel);
            fence_after_rmw();
            wait(word, seen);
            callback.waiters.fetch_sub(1, Ordering::AcqRel);
        }
    }

    /// The end of a callback that the driver did not run itself, or that a pool has
    /// dropped. `wake` wakes the threads that wait for the end.
    pub fn finish(&self, caller: &impl Caller, handle: Handle, wake: impl FnOnce()) {
        probe!(expire_exit, self, handle);
        let index = index_of(handle);
        let hot = self.slab.hot(index);
        let mut state = StateWord(hot.state.load(Ordering::Acquire));
        let next = loop {
            let next = state.finished();
            // AcqRel: what the callback did; pairs with `wait_for_callback`.
            match self.exchange(hot, state, next) {
                Ok(_) => {
                    self.give_back(caller.thread().unwrap_or(0), index, next);
                    break next;
                }
                Err(seen) => state = seen,
            }
        };
        fence_after_rmw();
        if next.is_armed() {
            // Race 6, in `driver/visit.rs`: has it come due?
            let hand = self.gate.hand();
            if next.deadline(hand) <= hand {
                self.uphold_due(caller, index, next, hand);
            }
        }
        // Relaxed: the exchange was a fence.
        if self.callback.waiters.load(Ordering::Relaxed) != NO_WAITER {
            wake();
        }
    }

    /// Frees a timer that frees itself, after its callback. Driver only.
    pub(super) fn free_fired(&self, thread: Thread, handle: Handle) {
        let index = index_of(handle);
        let hot = self.slab.hot(index);
        let mut state = StateWord(hot.state.load(Ordering::Acquire));
        // Another call may have armed it again, or freed it.
        while state.is_of(handle) && !state.is_armed() && self.has_high_part(hot, handle) {
            let next = state.freed();
            match self.change(hot, state, next) {
                Ok(_) => return self.give_back(thread, index, next),
                Err(seen) => state = seen,
            }
        }
    }
}
