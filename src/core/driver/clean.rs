//! Dead entries. When a timer moves to an earlier deadline, its old entry stays in
//! its bucket until its tick. So memory would follow the number of such moves, not
//! the number of timers. A thread checks from time to time whether most entries are
//! dead, and then requests a clean-up. The driver goes through the buckets, at most
//! a fixed number of entries in a sweep. It moves the entries that are needed to
//! its own shard and drops the others.
//!
//! # Which entries are needed
//!
//! - One that a thread is about to publish. Before a thread pushes, its shard names
//!   the node in `publishing`. For an entry in the driver's own shard, which may
//!   come from any thread, the driver reads `publishing` of all shards.
//! - One that the link of its node names.
//! - One of an armed timer whose deadline no other promise covers: another thread
//!   may have relied on it before the link was overwritten.
//!
//! # Relying on a promise meanwhile
//!
//! ```text
//!   arming thread                       driver
//!   arm.read      link                  drive.suspend   alarm := never
//!   arm.exchange  state       (RMW)     --- fence ---
//!   --- fence ---                       clean.read      read link and state;
//!   arm.rely      alarm <= promise?                     drop the entry
//!                 gate as it was?       sweep.announce  gate := goal   (RMW)
//!                                                       alarm := 0
//! ```
//! A thread may have read a link that was overwritten since. If its exchange comes
//! before the driver's fence, clean.read finds the timer armed. Otherwise arm.rely
//! finds the alarm at never, and the thread pushes; or arm.rely comes after the
//! clean-up, acquires `alarm := 0` and finds another gate. For that arm.rely reads
//! the alarm before the gate, and the driver cleans up only before it announces
//! another goal.

use super::{Sink, Sweep};
use crate::core::entry::Entry;
use crate::core::memory::Memory;
use crate::core::node::Link;
use crate::core::shard::{Producer, Shard};
use crate::core::state::{StateWord, NEVER};
use crate::core::tunables::{CLEAN_OFTEN, CLEAN_PIECE};
use crate::core::wheel::{Caller, Wheel};
use crate::sync::Ordering;

/// The position of a clean-up.
#[derive(Default)]
pub(super) struct Cleaning {
    /// The number of the shard, or one before it; those before are done.
    shard: u32,
    bucket: u32,
    /// The number of entries of that bucket that are left; 0 for all.
    rest: usize,
    /// The number of requests when the clean-up began; 0 if none is under way.
    asked: u32,
}

impl<M: Memory> Wheel<M> {
    /// Every `CLEAN_OFTEN` pushes of a thread: requests a clean-up if it is worth it.
    #[inline(always)]
    pub(in crate::core) fn consider_cleaning(&self, caller: &impl Caller, own: Producer<'_>) {
        if own.count.pushes.get() % CLEAN_OFTEN == 0 {
            self.ask_to_clean(caller);
        }
    }

    #[cold]
    #[inline(never)]
    fn ask_to_clean(&self, caller: &impl Caller) {
        if self.is_worth_cleaning() {
            // Release: pairs with the Acquires in `clean_up` and `end_cleaning`.
            self.shared.clean.fetch_add(1, Ordering::Release);
            self.call_driver(caller);
        }
    }

    /// A clean-up leaves at most one entry for each node, and a few more.
    fn is_worth_cleaning(&self) -> bool {
        self.entries() > 2 * self.slab.indices().len() as u64 + CLEAN_OFTEN
    }
}

impl<M: Memory, S: Sink> Sweep<'_, M, S> {
    /// A piece of a clean-up, if one was requested. Promises are suspended.
    #[cold]
    #[inline(never)]
    pub(super) fn clean_up(&mut self) {
        // Acquire: pairs with the Release in `ask_to_clean`.
        let asked = self.wheel.shared.clean.load(Ordering::Acquire);
        if asked == 0 {
            return;
        }
        if self.d.cleaning.asked == 0 {
            self.d.cleaning = Cleaning {
                asked,
                ..Cleaning::default()
            };
        }
        let mut left = CLEAN_PIECE;
        let buckets = self.wheel.buckets.urgent();
        while let Some(shard) = self.shard_to_clean() {
            while self.d.cleaning.bucket < buckets {
                if !self.clean_bucket(shard, &mut left) {
                    return;
                }
                self.d.cleaning.bucket += 1;
            }
            self.d.cleaning.bucket = 0;
            self.d.cleaning.shard += 1;
        }
        self.end_cleaning();
    }

    /// The shard with the next number. Some numbers have no shard: a thread found no memory
    /// for it, or has not shared it yet.
    fn shard_to_clean(&mut self) -> Option<*mut Shard> {
        let from = self.d.cleaning.shard;
        let mut next = None;
        self.wheel.find_shard(|s| {
            if s.id >= from && next.is_none_or(|n| s.id < n) {
                next = Some(s.id);
            }
            false
        });
        let next = next?;
        self.d.cleaning.shard = next;
        self.wheel.find_shard(|s| s.id == next)
    }

    /// A clean-up does not see the entries that were pushed behind it. Their threads
    /// may have made their last request, so a further clean-up follows if it is
    /// worth it.
    fn end_cleaning(&mut self) {
        let began = std::mem::take(&mut self.d.cleaning.asked);
        let clean = &self.wheel.shared.clean;
        // Acquire: as in `clean_up`, for the counts.
        let asked = clean.load(Ordering::Acquire);
        if asked == began || !self.wheel.is_worth_cleaning() {
            // Relaxed, both: a new request makes this fail, and stays.
            _ = clean.compare_exchange(asked, 0, Ordering::Relaxed, Ordering::Relaxed);
        }
    }

    /// Continues in a bucket of a shard; false if the piece ends first.
    fn clean_bucket(&mut self, shard: *mut Shard, left: &mut usize) -> bool {
        let bucket = self.d.cleaning.bucket;
        // SAFETY: shards live as long as the wheel.
        let front = unsafe { Shard::front(shard, bucket) };
        let mut rest = std::mem::take(&mut self.d.cleaning.rest);
        if rest == 0 {
            // The entries that are there now, without those that go back to this
            // bucket of the driver's shard.
            front.peek(usize::MAX, |_| rest += 1);
        }
        let most = rest.min(*left);
        let mut taken = 0;
        self.fetch_chunk(front);
        while taken < most {
            // SAFETY: this thread drives; as above.
            let Some(entry) = (unsafe { front.take() }) else {
                // SAFETY: as above.
                if unsafe { self.own.go_on(shard, bucket) } {
                    self.fetch_chunk(front);
                    continue;
                }
                break;
            };
            taken += 1;
            let k = entry.tick(self.d.hand);
            if k > self.d.hand && self.is_needed(entry, k, shard) {
                self.place(entry, k, self.d.hand);
            }
        }
        *left -= taken;
        self.wheel.shared.count.taken.bump(taken as u64);
        if *left == 0 && taken < rest {
            self.d.cleaning.rest = rest - taken;
            return false;
        }
        true
    }

    /// Step clean.read.
    fn is_needed(&self, entry: Entry, k: u64, shard: *mut Shard) -> bool {
        let wheel = self.wheel;
        let index = entry.index();
        let hot = wheel.slab.hot(index);
        // Acquire: pairs with the Release behind arm.publish.
        let publishes = |s: &Shard| s.publishing.load(Ordering::Acquire) == index;
        let published = if shard == self.own.as_ptr() {
            wheel.find_shard(publishes).is_some()
        } else {
            // SAFETY: shards live as long as the wheel.
            publishes(unsafe { &*shard })
        };
        // Acquire: pairs with arm.publish.
        let link = Link(hot.link.load(Ordering::Acquire));
        if published || link.is_about(k, wheel.ticks.unit_bits) {
            return true;
        }
        // Acquire: pairs with arm.exchange.
        let state = StateWord(hot.state.load(Ordering::Acquire));
        if !state.is_armed() {
            return false;
        }
        let due = state.deadline(self.d.hand);
        due != NEVER && !link.promises(self.d.hand, due, wheel.ticks.unit_bits)
    }
}
