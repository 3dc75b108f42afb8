//! Questions about timers. No answer takes a lock or changes anything.

use super::driver::{Fired, LISTED};
use super::record::Link;
use super::state::{high_of, Handle, StateWord, STEP};
use super::ticks::END_OF_TIME;
use super::wheel::Wheel;
use super::Error;
use crate::sync::{fence, Ordering};

impl Wheel {
    /// When the next timer fires, in nanoseconds; `None` if none is pending. Never late. Early
    /// after a cancel or a move to later, until the wheel is driven. Wait-free.
    ///
    /// While no thread drives, that is the tick before which the driver has nothing to do.
    /// `driving` tells this, like a sequence lock. Otherwise the answer is the tick by which
    /// all timers have been visited.
    pub fn next_expiry(&self) -> Option<u64> {
        let driving = &self.shared.driving;
        // Acquire: pairs with the Release in `Drive::give_back`.
        let before = driving.load(Ordering::Acquire);
        let next = self.alarm.next_visit();
        // Relaxed: an old value is an earlier tick.
        let hand = self.shared.hand.load(Ordering::Relaxed);
        // A sequence lock: the reads above come before this load.
        fence(Ordering::Acquire);
        let is_known = before & 1 == 0 && driving.load(Ordering::Relaxed) == before;
        let tick = if is_known { next.max(hand) } else { hand };
        // A tick whose time is out of range is not reached.
        Some(self.ticks.ns(tick)).filter(|ns| *ns < END_OF_TIME)
    }

    /// The next pending timer at or after an index, and the index after it. A timer
    /// keeps its index, so a walk shows it once. Lock-free.
    pub fn next_pending(&self, from: u32) -> Option<(u32, Fired)> {
        for index in self.slab.indices(from) {
            let node = self.slab.records(index);
            let hot = node.hot();
            let word = || Ok(StateWord(hot.state.load(Ordering::Acquire)));
            let Ok(Some((state, deadline_ns))) = self.pending_word(word) else {
                continue;
            };
            // Relaxed loads: checked below.
            let mut pending = Fired::of::<false>(node, state, deadline_ns);
            let high = high_of(pending.handle);
            let generation = state.generation(high);
            pending.flags = LISTED;
            if state.is_rare() {
                pending.kind |= self.slab.rare(index).kind.read(generation);
            }
            // Acquire: pairs with the fences in `setup` and in `Slab::link`.
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

    /// The word that `read` returns, and its deadline, if the timer is pending. Wait-free:
    /// it reads again only if the hand has moved so far meanwhile that the word may be
    /// misread, and the clock's range has a limited number of such steps.
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
            let due = self.ticks.ns(state.deadline(self.gate.hand()));
            if self.gate.hand().saturating_sub(before) <= STEP {
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
