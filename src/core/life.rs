//! The life of a timer: set up in a free node, freed into its next generation.

use super::arm::{How, Node};
use super::error::Error;
use super::gate::View;
use super::inbox::Thread;
use super::link::Link;
use super::period::{encode_period, AUTO, KEYED};
use super::record::{self, Hot};
use super::slab::FreeList;
use super::state::{handle_of, high_of, high_part, Handle, StateWord};
use super::timer::first_generation;
use super::tunables::{RUN, TRIES};
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
}
