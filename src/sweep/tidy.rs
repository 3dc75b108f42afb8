//! Dead entries. An entry that an earlier one has superseded stays in its bucket
//! until its tick, and so memory would follow how often timers are moved to
//! earlier deadlines, not how many there are. A thread that has pushed for a while
//! looks whether most entries are dead, and then asks the driver to go through the
//! buckets, a bounded number of entries at each sweep: those that are promises
//! still go to the driver's own shard, the others are dropped, and their chunks
//! are used again.
//!
//! # The last entry of a queue is left alone
//!
//! One that is not published yet (P1 without P2) looks like a dead one. But its
//! thread publishes it before it pushes another anywhere, so it is the last in its
//! queue: an entry behind which there is another is published, or never will be.

use super::{Sink, Sweep, AHEAD};
use crate::geometry::At;
use crate::memory::Memory;
use crate::shard::ShardRef;
use crate::sync::{planted, Ordering};
use crate::wheel::{Caller, Wheel, TENTATIVE};

/// How often a thread looks, in pushes.
const OFTEN: u64 = if cfg!(checked) { 2 } else { 8192 };
/// How many entries a sweep goes through.
const PIECE: usize = if cfg!(checked) { 4 } else { 4096 };

impl<M: Memory> Wheel<M> {
    /// Asks for a tidying if it is worth while, after so many `pushes` of the
    /// calling thread.
    #[inline]
    pub(crate) fn consider_tidying(&self, caller: &impl Caller, pushes: u64) {
        if pushes % OFTEN == 0 {
            self.ask_to_tidy(caller);
        }
    }

    #[cold]
    fn ask_to_tidy(&self, caller: &impl Caller) {
        if self.is_untidy() {
            // Release: pairs with the Acquires in `tidy` and `end_tidying`.
            self.hot.tidy.fetch_add(1, Ordering::Release);
            self.call_driver(caller);
        }
    }

    fn is_untidy(&self) -> bool {
        self.entries() > 2 * self.promises() + OFTEN
    }
}

impl<M: Memory, S: Sink> Sweep<'_, M, S> {
    /// A piece of the work, if it was asked for; before the hand moves.
    pub(super) fn tidy(&self) {
        let w = self.wheel;
        let d = &w.driver;
        // Acquire: pairs with the Release in `ask_to_tidy`.
        let asked = w.hot.tidy.load(Ordering::Acquire);
        if asked == 0 || d.stopped.load(Ordering::Relaxed) != 0 {
            return;
        }
        let mut left = PIECE;
        let mut resume = d.tidy_shard.load(Ordering::Relaxed);
        if resume.is_null() {
            d.tidy_asked.store(asked, Ordering::Relaxed);
        }
        let interrupted = w.find_shard(|s| {
            if resume.is_null() {
                d.tidy_bucket.store(0, Ordering::Relaxed);
                d.tidy_rest.store(0, Ordering::Relaxed);
            } else if resume == s.as_ptr() {
                resume = std::ptr::null_mut();
            } else {
                return false;
            }
            !self.tidy_shard(s, &mut left)
        });
        let at = interrupted.map_or(std::ptr::null_mut(), |s| s.as_ptr());
        d.tidy_shard.store(at, Ordering::Relaxed);
        if at.is_null() {
            self.end_tidying();
        }
    }

    /// What was pushed meanwhile, where the tidying had been already, is not gone
    /// through. Its thread has asked as well; perhaps nobody asks again.
    fn end_tidying(&self) {
        let w = self.wheel;
        // Acquire: pairs with the Release in `ask_to_tidy`, for the counts.
        let asked = w.hot.tidy.load(Ordering::Acquire);
        let begin = w.driver.tidy_asked.load(Ordering::Relaxed);
        if asked == begin || !w.is_untidy() || planted("asked_meanwhile_is_forgotten") {
            // Relaxed, both: what was asked just now stays.
            _ = w
                .hot
                .tidy
                .compare_exchange(asked, 0, Ordering::Relaxed, Ordering::Relaxed);
        }
    }

    /// Goes on in a shard; false if the piece ends before the shard does.
    fn tidy_shard(&self, s: ShardRef<'_>, left: &mut usize) -> bool {
        let d = &self.wheel.driver;
        let g = &self.wheel.geometry;
        let buckets = g.buckets() as u32;
        let mut bucket = d.tidy_bucket.load(Ordering::Relaxed);
        while bucket < buckets {
            let at = At {
                level: bucket >> g.slot_bits,
                slot: bucket & ((1 << g.slot_bits) - 1),
            };
            if s.is_marked(at) && !self.tidy_bucket(s, at, left) {
                d.tidy_bucket.store(bucket, Ordering::Relaxed);
                return false;
            }
            bucket += 1;
        }
        true
    }

    fn tidy_bucket(&self, s: ShardRef<'_>, at: At, left: &mut usize) -> bool {
        let d = &self.wheel.driver;
        let front = s.front(at);
        // All but the last of those that are there now. What goes back to the
        // own shard, perhaps to this bucket, is not counted again.
        let last = usize::from(!planted("last_entry_is_not_left_alone"));
        let mut rest = front.len().saturating_sub(last);
        let before = d.tidy_rest.swap(0, Ordering::Relaxed) as usize;
        if before != 0 {
            rest = rest.min(before);
        }
        while rest != 0 {
            if *left == 0 {
                d.tidy_rest.store(rest as u32, Ordering::Relaxed);
                return false;
            }
            *left -= 1;
            rest -= 1;
            self.prefetch(front.ahead(AHEAD));
            let (entry, used) = front.pop();
            self.keep_chunk(s, used);
            let Some(e) = entry else { break };
            d.count.taken.bump(1);
            let k = e.tick(d.swept.load(Ordering::Relaxed));
            let Some(node) = self.wheel.slab.get(e.index()) else {
                continue;
            };
            // Acquire: pairs with P2.
            if node.link.load(Ordering::Acquire) & !TENTATIVE == k + 1 {
                // Relaxed: the driver's own word.
                let hand = self.wheel.current.load(Ordering::Relaxed);
                self.place(e.index(), k, hand);
            }
        }
        true
    }
}
