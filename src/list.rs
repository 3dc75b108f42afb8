//! A walk over the pending timers, while other threads use them.

use crate::memory::Memory;
use crate::state::{self, ARMED, ZOMBIE};
use crate::sweep::Fired;
use crate::sync::Ordering;
use crate::wheel::Wheel;

impl<M: Memory> Wheel<M> {
    /// Shows the pending timers from `index` on until `see` has enough. Returns
    /// the index at which the walk goes on.
    ///
    /// A timer that is pending during the whole walk is shown once, as a timer
    /// never changes its index. Lock-free: one pass, no loop on any word.
    pub fn list(&self, index: u32, mut see: impl FnMut(&Fired) -> bool) -> u32 {
        let end = self.slab.high_water();
        for index in index..end {
            let Some(fired) = self.pending_at(index) else {
                continue;
            };
            if !see(&fired) {
                return index + 1;
            }
        }
        end.max(index)
    }

    /// The timer at an index, if it is pending.
    fn pending_at(&self, index: u32) -> Option<Fired> {
        let node = self.slab.get(index)?;
        // Acquire: pairs with the Release in `setup`, for the words below.
        let g = node.generation.load(Ordering::Acquire);
        let is_pending = |s| g & 1 != 0 && state::same_gen(s, g) && s & (ARMED | ZOMBIE) == ARMED;
        // Relaxed: the read below decides.
        if !is_pending(node.state.load(Ordering::Relaxed)) {
            return None;
        }
        // Relaxed, both: see below.
        let cookie = node.cookie.load(Ordering::Relaxed);
        let kind = node.kind.load(Ordering::Relaxed);
        // A read-modify-write, and AcqRel: the exchange that gives the node to its
        // next generation comes after it, so the words above are not the next one's.
        let s = node.state.fetch_or(0, Ordering::AcqRel);
        if !is_pending(s) {
            return None;
        }
        // Relaxed: the hand is a base for the tick, and any recent one will do.
        let tick = state::decode(s, self.current.load(Ordering::Relaxed));
        let (due, _) = self.exact(node, tick);
        Some(Fired {
            handle: self.handle(index, g),
            func: 0,
            cookie,
            tick,
            due_ns: due.ns,
            missed: 0,
            kind,
        })
    }
}
