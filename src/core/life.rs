//! The life of a timer: set up in a free node, freed into its next generation.
//!
//! # Generations that wrap
//!
//! The low part of a generation changes with the state word. The high part lies
//! in the link, which threads write with plain stores when they publish a
//! promise. So it must not change while a thread is about to publish for the
//! node: that thread would write the old part over the new one.
//!
//! ```text
//!   arming thread                        thread that frees, low part wraps
//!   arm.announce  publishing := node
//!   arm.exchange  state := armed (RMW)   free.exchange  state := free (RMW)
//!   arm.publish   link := promise        free.look      read publishing, of all
//!                 publishing := 0        free.high      link := next high part
//! ```
//! If the arming thread's exchange succeeds, it comes before the one that frees,
//! which acquires it. So `free.look` sees the node's number, or the 0 or the number of
//! another node that follows the publishing. If it sees the number, the node is not used
//! again. This happens only if a thread is stopped between two instructions at one reuse in
//! 2^18.

use super::arm::{How, Node};
use super::driver::{Fired, LISTED};
use super::error::Error;
use super::gate::View;
use super::memory::Memory;
use super::node::{self, encode_period, Hot, Link, AUTO, KEYED};
use super::shard::{Producer, Shard};
use super::state::{handle_of, high_of, high_part, Handle, StateWord, GEN_MASK, LEAP};
use super::tunables::TRIES;
use super::wheel::{Caller, Wheel};
use crate::sync::{fence, Ordering};

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

/// The generation of a node's first life. The generations of two nodes whose indices are
/// close, or differ in one bit, are far apart. So a handle with one wrong bit is stale.
pub(crate) fn first_generation(salt: u32, index: u32) -> u32 {
    // The golden ratio, as for the salt of a wheel.
    salt.wrapping_add(index.wrapping_mul(0x278d_de6d)) & GEN_MASK
}

impl<M: Memory> Wheel<M> {
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
        let own = self.producer(caller.token()?);
        let index = self.alloc(own)?;
        let hot = self.slab.hot(index);
        own.count.setups.bump(1);
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
            node::write(&rare.period, encode_period(spec.period), generation);
            rare.kind.write(kind, generation);
            node::write(&rare.left_out, spec.left_out.min(node::VALUE), generation);
        }
        let resting = StateWord::free(generation).resting(is_auto, is_rare);
        // Release: publishes the node to threads that read the word. A store will do: the
        // exchanges of earlier lives fail.
        hot.state.store(resting.0, Ordering::Release);
        let Some(due) = due else {
            return Ok(handle);
        };
        let node = Node { own, index, hot };
        let how = match spec.period {
            0 => How::Always,
            _ => How::Periodic(spec.kind),
        };
        match self.arm_node(caller, node, resting, handle, (due, how)) {
            Ok(_) => Ok(handle),
            Err(e) => {
                // Unless the drain has handed it back already.
                _ = self.free(caller, handle);
                Err(e)
            }
        }
    }

    /// A node that was free.
    fn alloc(&self, own: Producer<'_>) -> Result<u32, Error> {
        let (slab, free) = (&self.slab, &own.free);
        let steal = |s: &Shard| slab.steal(Some(&s.free), free);
        let mut tries = TRIES;
        loop {
            if let Some(index) = slab.pop(free) {
                return Ok(index);
            }
            // Another thread may take the list again, and this one take it back. While a
            // thread takes another thread's list, neither has it, and that thread may be
            // stopped. So the search has a bound.
            if tries != 0 && (slab.steal(None, free) || self.find_shard(steal).is_some()) {
                tries -= 1;
                continue;
            }
            match slab.take_run(&self.memory, free) {
                Err(Error::Limit) if tries != 0 && self.live() < self.limit => tries -= 1,
                result => return result,
            }
        }
    }

    /// The generation of a node that is this thread's.
    fn generation(&self, index: u32, hot: &Hot) -> u32 {
        // Relaxed, both: the free list has handed over the words of the thread that
        // freed the node.
        let state = StateWord(hot.state.load(Ordering::Relaxed));
        if state == StateWord(0) && hot.link.load(Ordering::Relaxed) == 0 {
            // Never used.
            let first = first_generation(self.salt, index);
            let link = Link::new(0, 0, high_part(first));
            hot.link.store(link.0, Ordering::Relaxed);
            return first;
        }
        state.generation(Link(hot.link.load(Ordering::Relaxed)).high())
    }

    /// Frees a timer: true if it was pending. If its callback runs on another
    /// thread, the end of the callback gives the node back. Lock-free; linearizes at
    /// the exchange of the state word.
    pub fn free(&self, caller: &impl Caller, handle: Handle) -> Result<bool, Error> {
        Ok(self.end(caller, handle, StateWord::freed)?.0)
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
            match self.exchange(hot, state, next) {
                Ok(_) => {
                    probe!(cancel, self, handle, state.is_armed());
                    let own = self.owned(caller);
                    self.count(own, |c| &c.cancels, state.is_armed().into());
                    self.give_back(own, index, next);
                    return Ok((state.is_armed(), next));
                }
                Err(_) => state = self.state_again(handle)?,
            }
        }
    }

    /// Exchanges a state word; returns the word that was there. AcqRel: a thread that sees
    /// the new word also sees what this thread did before.
    #[inline]
    pub(super) fn exchange(
        &self,
        hot: &Hot,
        old: StateWord,
        new: StateWord,
    ) -> Result<StateWord, StateWord> {
        hot.state
            .compare_exchange(old.0, new.0, Ordering::AcqRel, Ordering::Acquire)
            .map(StateWord)
            .map_err(StateWord)
    }

    /// Gives a node back if it is free.
    pub(super) fn give_back(&self, own: Option<Producer<'_>>, index: u32, state: StateWord) {
        if !state.is_free() {
            return;
        }
        self.count(own, |c| &c.frees, 1);
        if state.has_wrapped() && !self.next_high_part(index) {
            // Never used again: 64 bytes for each 2^30 lives.
            return self.slab.retire();
        }
        self.slab.push(own.as_ref().map(|s| &s.free), index);
    }

    /// Steps free.look and free.high; false if the node must not be used again.
    #[cold]
    fn next_high_part(&self, index: u32) -> bool {
        let hot = self.slab.hot(index);
        // Acquire: pairs with the Release of `arm.publish`.
        let publishes = |s: &Shard| s.publishing.load(Ordering::Acquire) == index;
        if self.find_shard(publishes).is_some() {
            return false;
        }
        let next = |link: u64| (Link(link).high() + 1) & high_part(GEN_MASK);
        // The driver may publish for an entry of the earlier life, by a
        // read-modify-write. So this is one, too.
        hot.link
            .fetch_update(Ordering::AcqRel, Ordering::Acquire, |link| {
                Some(Link(link).with_high(next(link)).0)
            })
            .is_ok_and(|link| next(link) != high_part(first_generation(self.salt, index)))
    }

    /// Sets the period of a timer from its next firing on; 0 for none. Lock-free.
    pub fn set_period(&self, handle: Handle, period: u64) -> Result<(), Error> {
        let (index, hot, mut state) = self.live_node(handle)?;
        let word = &self.slab.rare(index).period;
        // The generation of the handle, which `live_node` has checked.
        let generation = state.generation(high_of(handle));
        let value = node::tagged(encode_period(period), generation);
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
            match self.exchange(hot, state, state.with_rare()) {
                Ok(_) => break,
                Err(_) => state = self.state_again(handle)?,
            }
        }
        Ok(())
    }

    /// The next pending timer at or after an index, and the index after it. A timer
    /// keeps its index, so a walk shows it once. Lock-free.
    pub fn next_pending(&self, from: u32) -> Option<(u32, Fired)> {
        let indices = self.slab.indices();
        for index in from.max(indices.start)..indices.end {
            let hot = self.slab.hot(index);
            let word = || Ok(StateWord(hot.state.load(Ordering::Acquire)));
            let Ok(Some((state, deadline_ns))) = self.pending_word(word) else {
                continue;
            };
            // Relaxed loads: checked below.
            let fire = self.slab.fire(index);
            let mut pending = self.fired::<false>(index, hot, fire, state, deadline_ns);
            let high = high_of(pending.handle);
            let generation = state.generation(high);
            pending.flags = LISTED;
            if state.is_rare() {
                pending.kind |= self.slab.rare(index).kind.read(generation);
            }
            // Acquire: pairs with the fences in `setup` and in `Slab::push`.
            fence(Ordering::Acquire);
            // The node has another life by now: the reads may be of either.
            let now = StateWord(hot.state.load(Ordering::Relaxed));
            let same = Link(hot.link.load(Ordering::Relaxed)).high() == high;
            if same && now.generation(high) == generation {
                return Some((index + 1, pending));
            }
        }
        None
    }

    /// The deadline of a pending timer, in nanoseconds: the time of its tick. The
    /// hand was near its present tick when the word was read.
    pub(super) fn due_ns(&self, state: StateWord) -> u64 {
        self.ticks.ns(state.deadline(self.gate.hand()))
    }

    /// The word that `read` returns, and its deadline, if the timer is pending. Wait-free:
    /// it reads again only if the hand has moved so far meanwhile that the word may be
    /// misread, and the clock's range has a limited number of leaps.
    fn pending_word(
        &self,
        read: impl Fn() -> Result<StateWord, Error>,
    ) -> Result<Option<(StateWord, u64)>, Error> {
        loop {
            let before = self.gate.hand();
            let state = read()?;
            if !state.is_armed() {
                return Ok(None);
            }
            let due = self.due_ns(state);
            if self.gate.hand().saturating_sub(before) <= LEAP {
                return Ok(Some((state, due)));
            }
        }
    }

    /// Whether a timer is pending. Wait-free.
    pub fn is_pending(&self, handle: Handle) -> Result<bool, Error> {
        self.live_node(handle).map(|(_, _, state)| state.is_armed())
    }

    /// The deadline of a timer, if it is pending. Wait-free.
    pub fn due(&self, handle: Handle) -> Result<Option<u64>, Error> {
        let pending = self.pending_word(|| Ok(self.live_node(handle)?.2))?;
        Ok(pending.map(|(_, due)| due))
    }
}
