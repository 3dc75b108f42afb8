//! Dead entries. An entry that an earlier one has superseded stays in its bucket
//! until its tick, and so memory would follow how often timers are moved to
//! earlier deadlines, not how many there are. A thread that has pushed for a
//! while looks whether most entries are dead, and then asks for a clean-up. The
//! driver goes through the buckets, a bounded number of entries each sweep: it
//! places those that are needed in its own shard and drops the others.
//!
//! # Which entries are needed
//!
//! - One that a thread is about to publish. Each shard says for which node its
//!   owner is inside an arm, before it pushes: `publishing`. An entry in the
//!   driver's own shard may come from any thread, so all are asked before.
//! - One that the link of its node names.
//! - One of an armed timer whose deadline no other promise covers: another
//!   thread may have relied on it before the link was written over.
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
//! A thread may have read a link that has been written over since. If its
//! exchange comes before the fence of the driver, clean.read finds the timer
//! armed. Otherwise arm.rely finds the alarm never, and pushes; or, if it comes
//! after the clean-up, it acquires `alarm := 0` and finds another gate. For that
//! it reads the alarm first, and the driver cleans up only before it announces
//! another goal.

use super::{Sink, Sweep};
use crate::core::entry::Entry;
use crate::core::memory::Memory;
use crate::core::node::Link;
use crate::core::queue::Batch;
use crate::core::shard::Shard;
use crate::core::state::{StateWord, NEVER};
use crate::core::tunables::{CLEAN_OFTEN, CLEAN_PIECE, ENTRIES};
use crate::core::wheel::{Caller, Wheel};
use crate::sync::Ordering;

/// Where a clean-up goes on.
#[derive(Default)]
pub(super) struct Cleaning {
    /// The number of the shard; those before it are done.
    shard: u32,
    bucket: u32,
    /// The entries of that bucket that are still to be looked at; 0: all.
    rest: usize,
    /// The requests as the clean-up began.
    asked: u32,
    under_way: bool,
}

impl<M: Memory> Wheel<M> {
    /// Asks for a clean-up if it is worth while, after so many pushes of the
    /// calling thread.
    #[inline(always)]
    pub(in crate::core) fn consider_cleaning(&self, caller: &impl Caller, pushes: u64) {
        if pushes % CLEAN_OFTEN == 0 {
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

    /// A clean-up leaves at most one entry a node, and a few more.
    fn is_worth_cleaning(&self) -> bool {
        self.entries() > 2 * self.slab.indices().len() as u64 + CLEAN_OFTEN
    }
}

impl<M: Memory, S: Sink> Sweep<'_, M, S> {
    /// A piece of a clean-up, if one was asked for. Promises are suspended.
    pub(super) fn clean_up(&mut self) {
        // Acquire: pairs with the Release in `ask_to_clean`.
        let asked = self.wheel.shared.clean.load(Ordering::Acquire);
        if asked == 0 {
            return;
        }
        if !self.d.cleaning.under_way {
            self.d.cleaning = Cleaning {
                asked,
                under_way: true,
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

    fn shard_to_clean(&self) -> Option<*mut Shard> {
        let number = self.d.cleaning.shard;
        self.wheel.find_shard(|s| s.id == number)
    }

    /// What was pushed meanwhile, where the clean-up had been already, is not
    /// gone through. Its thread has asked as well; perhaps nobody asks again.
    fn end_cleaning(&mut self) {
        self.d.cleaning.under_way = false;
        let clean = &self.wheel.shared.clean;
        // Acquire: as in `clean_up`, for the counts.
        let asked = clean.load(Ordering::Acquire);
        if asked == self.d.cleaning.asked || !self.wheel.is_worth_cleaning() {
            // Relaxed, both: what was asked just now stays.
            _ = clean.compare_exchange(asked, 0, Ordering::Relaxed, Ordering::Relaxed);
        }
    }

    /// Goes on in a bucket of a shard; false if the piece ends before it does.
    fn clean_bucket(&mut self, shard: *mut Shard, left: &mut usize) -> bool {
        let bucket = self.d.cleaning.bucket;
        // SAFETY: shards live as long as the wheel.
        let front = unsafe { Shard::front(shard, bucket) };
        let mut rest = std::mem::take(&mut self.d.cleaning.rest);
        if rest == 0 {
            // Those that are there now. What goes back to the driver's shard,
            // perhaps to this bucket, is not gone through again.
            front.peek(usize::MAX, |_| rest += 1);
        }
        let own = self.own;
        let is_own = shard == own.as_ptr();
        let mut batch: Batch = [Entry(0); ENTRIES];
        while rest != 0 {
            if *left == 0 {
                self.d.cleaning.rest = rest;
                return false;
            }
            let free = |chunk| {
                if is_own {
                    own.put_chunk(chunk);
                } else {
                    // SAFETY: as above.
                    unsafe { &*shard }.give_back(chunk);
                }
            };
            // SAFETY: the driver is the consumer of all queues.
            let n = unsafe { front.take(&mut batch, free) };
            if n == 0 {
                break;
            }
            rest = rest.saturating_sub(n);
            *left = left.saturating_sub(n);
            self.wheel.shared.count.taken.bump(n as u64);
            for entry in &batch[..n] {
                let k = entry.tick(self.d.hand);
                if k > self.d.hand && self.is_needed(*entry, k, shard, is_own) {
                    self.place(entry.index(), k, self.d.hand);
                }
            }
        }
        true
    }

    /// Step clean.read.
    fn is_needed(&self, entry: Entry, k: u64, shard: *mut Shard, is_own: bool) -> bool {
        let wheel = self.wheel;
        let index = entry.index();
        let Some(hot) = wheel.slab.hot(index) else {
            return false;
        };
        // Acquire: pairs with the Release behind arm.publish.
        let publishes = |s: &Shard| s.publishing.load(Ordering::Acquire) == index;
        let published = if is_own {
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
