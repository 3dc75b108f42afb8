//! Cancelling, from any thread, and waiting for callbacks.
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

use super::error::{answer, Answer, Error};
use super::inbox::{number_of, Thread};
use super::link::Link;
use super::state::{index_of, is_well_formed, Handle, StateWord};
use super::wheel::{Caller, Wheel, NOBODY};
use crate::sync::{fence, fence_after_rmw, AtomicU64, Ordering};

impl Wheel {
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
        // Release: as in `arm_owned`.
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
        if self.callback.waiters.load(Ordering::Relaxed) != NOBODY {
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
