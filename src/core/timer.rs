//! A timer by its handle: looked up, changed, ended, and given back.
//!
//! # Generations that wrap
//!
//! The low part of a generation changes with the state word. The high part lies in the link,
//! and changes when the low part wraps. Every other write of a link is an exchange from a
//! value that was read before, with the same high part. So a late one fails after the change,
//! and does not write an old high part over a new one.

use super::error::Error;
use super::inbox::Thread;
use super::link::Link;
use super::record::Hot;
use super::state::{high_part, index_of, Handle, StateWord, GEN_MASK};
use super::wheel::{Caller, Wheel};
use crate::sync::Ordering;

/// The generation of a node's first life. The generations of two nodes whose indices are
/// close, or differ in one bit, are far apart. So a handle with one wrong bit is stale.
pub(crate) fn first_generation(salt: u32, index: u32) -> u32 {
    // The golden ratio, as for the salt of a wheel.
    salt.wrapping_add(index.wrapping_mul(0x278d_de6d)) & GEN_MASK
}

impl Wheel {
    /// The node and the state word of a timer that exists.
    #[inline]
    pub(super) fn live_node(&self, handle: Handle) -> Result<(u32, &Hot, StateWord), Error> {
        if self.gate.id() == 0 {
            return Err(Error::Shutdown);
        }
        let index = index_of(handle);
        let hot = self.slab.hot(index);
        // Acquire: pairs with the Release of the thread that changed it last.
        let state = StateWord(hot.state.load(Ordering::Acquire));
        // Relaxed, and behind the word: the high part is that of the word's life or later.
        let link = Link(hot.link.load(Ordering::Relaxed));
        if link.differs_from(handle) != 0 || !state.is_of(handle) {
            return Err(Error::Stale);
        }
        Ok((index, hot, state))
    }

    /// The state word again, after another thread has changed it: of the same life, as far
    /// as the whole handle tells.
    #[cold]
    #[inline(never)]
    pub(super) fn state_again(&self, handle: Handle) -> Result<StateWord, Error> {
        Ok(self.live_node(handle)?.2)
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

    /// Gives a node back if it is free. A thread without a number has no list of its own.
    pub(super) fn give_back(&self, thread: Thread, index: u32, state: StateWord) {
        if !state.is_free() {
            return;
        }
        self.count(thread, |c| &c.frees, 1);
        if state.has_wrapped() && !self.next_high_part(index) {
            // Never used again: 64 bytes for each 2^28 lives.
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

    /// Whether the node is in a life with the high part of a handle.
    pub(super) fn has_high_part(&self, hot: &Hot, handle: Handle) -> bool {
        // Relaxed: the high part changes only when the word does.
        Link(hot.link.load(Ordering::Relaxed)).differs_from(handle) == 0
    }
}
