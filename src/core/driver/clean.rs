//! Dead entries. When a timer moves to an earlier deadline, its old entry stays in
//! its bucket until its tick. So memory would follow the number of such moves, not
//! the number of timers. From time to time a thread checks whether most entries are
//! dead, and if so requests a clean-up; so does the driver, for entries of its own. The
//! driver goes through the buckets, at most a fixed number of entries in a sweep. It
//! moves the entries that are needed to its own shard and drops the others.
//!
//! # Which entries are needed
//!
//! - An entry that a thread is about to publish. Before a thread pushes, its shard
//!   names the node in `publishing`. For an entry in the driver's own shard, which
//!   may come from any thread, the driver reads `publishing` of all shards.
//! - An entry that the link of its node names.
//! - An entry of an armed timer, at or before its deadline, if the link does not cover
//!   the deadline: another thread may have relied on the entry before the link was
//!   overwritten. An entry after the deadline ensures nothing.
//! - If the deadline has passed, the first entry: the timer waits for the end of its
//!   callback (`visit.rs`). From then on the link names that entry.
//!
//! A link that names an entry long before the deadline stays: the next moves to earlier
//! ticks need no push. With a link for the deadline, a timer that fires would need one
//! visit less, but far more moves would push.
//!
//! # Many entries in the unit of the link
//!
//! A timer may have any number of entries in the unit that its link names. It was armed
//! there again and again, and either the link does not cover the deadline, because a unit
//! is longer than a tick, or no thread may rely on a promise. If a clean-up leaves too
//! many entries, a *thorough* one follows. For an entry that the link names, it exchanges
//! the link for one that names no entry of that unit:
//!
//! - If the timer rests, for no promise. If a thread had relied on the old promise, its
//!   exchange would come before the driver's fence, and the timer would be armed.
//! - If it is armed, for a promise of the unit before, whose last tick gets an entry first.
//!   It covers each deadline that the old promise covered, and each in the old unit.
//! - If that unit has begun already, the link stays, and so do the entries. The hand
//!   reaches them within two units.
//!
//! The entry then counts as one that the link does not name. If the exchange fails, a
//! thread has published, and the entry is kept. The exchange may succeed after a thread has
//! published the old value once more. That thread has an entry of its own, at or before the
//! deadline that it has set. It is needed for as long as the timer is armed and the link
//! does not cover its deadline.
//!
//! # Relying on a promise meanwhile
//!
//! ```text
//!   arming thread                       driver
//!   arm.read      link                  drive.suspend   floor := never
//!   arm.exchange  state       (RMW)     --- fence ---
//!   --- fence ---                       clean.read      read link and state;
//!   arm.rely      floor <= promise?                     drop the entry
//!                 gate as it was?       sweep.announce  gate := goal   (RMW)
//!                                                       floor := 0
//! ```
//! A thread may have read a link that has been overwritten since. If its exchange
//! comes before the driver's fence, clean.read finds the timer armed. Otherwise
//! arm.rely finds the floor at never, and the thread pushes; or arm.rely comes
//! after the clean-up, acquires `floor := 0` and finds another gate. For that
//! arm.rely reads the floor before the gate, and the driver cleans up only before
//! it announces another goal.

use super::{Sink, Sweep};
use crate::core::entry::{promise_tick, Entry};
use crate::core::memory::Memory;
use crate::core::node::Link;
use crate::core::shard::{Producer, Shard};
use crate::core::state::{StateWord, NEVER};
use crate::core::tunables::{CLEAN_OFTEN, CLEAN_PIECE};
use crate::core::wheel::{Caller, Wheel};
use crate::sync::Ordering;

impl<M: Memory> Wheel<M> {
    /// Every `CLEAN_OFTEN` pushes of a thread: requests a clean-up if it is worth it.
    #[inline(always)]
    pub(in crate::core) fn consider_cleaning(&self, caller: &impl Caller, own: Producer<'_>) {
        if own.count.pushes.get() >= own.ask_at.get() {
            self.ask_to_clean(caller, own);
        }
    }

    #[cold]
    #[inline(never)]
    fn ask_to_clean(&self, caller: &impl Caller, own: Producer<'_>) {
        own.ask_at.set(own.count.pushes.get() + CLEAN_OFTEN);
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
    /// Every `CLEAN_OFTEN` entries that the driver has made: the same for those, which no
    /// thread counts.
    pub(super) fn consider_cleaning(&self) {
        let placed = self.wheel.shared.count.placed.get();
        if placed >= self.own.ask_at.get() {
            self.own.ask_at.set(placed + CLEAN_OFTEN);
            if self.wheel.is_worth_cleaning() {
                // Relaxed: the driver's own request.
                self.wheel.shared.clean.fetch_add(1, Ordering::Relaxed);
            }
        }
    }

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
            // The driver's shard is the first.
            self.d.cleaning.shard = self.own.as_ptr();
            self.d.cleaning.asked = asked;
        }
        let mut left = CLEAN_PIECE;
        let buckets = self.wheel.buckets.urgent();
        while !self.d.cleaning.shard.is_null() {
            let shard = self.d.cleaning.shard;
            while self.d.cleaning.bucket < buckets {
                if !self.clean_bucket(shard, &mut left) {
                    return;
                }
                self.d.cleaning.bucket += 1;
            }
            self.d.cleaning.bucket = 0;
            // SAFETY: shards live as long as the wheel. Acquire: pairs with `Shard::append`.
            self.d.cleaning.shard = unsafe { &*shard }.next.load(Ordering::Acquire);
        }
        self.end_cleaning();
    }

    /// A further clean-up follows if it is worth it: a thorough one after one that was
    /// not. Besides, a clean-up does not see the entries that were pushed behind it, and
    /// their threads may have made their last request.
    fn end_cleaning(&mut self) {
        let began = std::mem::take(&mut self.d.cleaning.asked);
        let was_thorough = std::mem::take(&mut self.d.cleaning.thorough);
        let clean = &self.wheel.shared.clean;
        // Acquire: as in `clean_up`, for the counts.
        let asked = clean.load(Ordering::Acquire);
        if !self.wheel.is_worth_cleaning() || was_thorough && asked == began {
            // Relaxed, both: a new request makes this fail, and stays.
            _ = clean.compare_exchange(asked, 0, Ordering::Relaxed, Ordering::Relaxed);
        } else {
            self.d.cleaning.thorough = true;
        }
    }

    /// Continues in a bucket of a shard; false if the piece ends first.
    fn clean_bucket(&mut self, shard: *mut Shard, left: &mut usize) -> bool {
        let bucket = self.d.cleaning.bucket;
        // SAFETY: shards live as long as the wheel.
        let front = unsafe { Shard::front(shard, bucket) };
        let mut rest = std::mem::take(&mut self.d.cleaning.rest);
        if front.is_empty() {
            return true;
        }
        if rest == 0 && shard == self.own.as_ptr() {
            // The entries that are there now, without those that go back to this bucket. The
            // count is not limited to a piece.
            front.peek(usize::MAX, |_| rest += 1);
        } else if rest == 0 {
            rest = usize::MAX;
        }
        let most = rest.min(*left);
        let mut taken = 0;
        let slab = &self.wheel.slab;
        let fetch = |entry: Entry| slab.prefetch_hot(entry.index());
        front.first().ahead(fetch);
        while taken < most {
            // SAFETY: this thread drives, and the queue has an entry.
            unsafe { front.look_ahead(fetch) };
            while taken < most {
                // SAFETY: as above.
                let Some(entry) = (unsafe { front.take() }) else {
                    break;
                };
                taken += 1;
                let k = entry.tick(self.d.hand);
                if k > self.d.hand && self.is_needed(entry, k, shard) {
                    self.place(entry, k, self.d.hand);
                }
            }
            // SAFETY: as above.
            if !unsafe { self.own.go_on(shard, bucket) } {
                break;
            }
        }
        *left -= taken;
        // Entries that a clean-up puts back do not bring the next request nearer.
        let ask_at = &self.own.ask_at;
        ask_at.set(ask_at.get() + taken as u64);
        self.wheel.shared.count.taken.bump(taken as u64);
        if *left == 0 && taken < rest {
            self.d.cleaning.rest = rest - taken;
            return false;
        }
        true
    }

    /// Step clean.read.
    fn is_needed(&mut self, entry: Entry, k: u64, shard: *mut Shard) -> bool {
        let (wheel, hand) = (self.wheel, self.d.hand);
        let unit_bits = wheel.ticks.unit_bits;
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
        let mut link = Link(hot.link.load(Ordering::Acquire));
        let named = link.is_about(k, unit_bits);
        if published || named && !self.d.cleaning.thorough {
            return true;
        }
        // Acquire: pairs with arm.exchange.
        let state = StateWord(hot.state.load(Ordering::Acquire));
        let due = state.due(hand);
        if named {
            let Some(other) = self.other_promise(index, link, due != NEVER) else {
                return true;
            };
            // AcqRel: the entry; pairs with arm.read. If it fails, a thread has published.
            let changed =
                hot.link
                    .compare_exchange(link.0, other.0, Ordering::AcqRel, Ordering::Relaxed);
            if changed.is_err() {
                return true;
            }
            link = other;
        }
        // One that has passed waits for the end of its callback.
        let by = if due <= hand { k } else { due };
        // Mostly the link is enough: so this is the branch that the processor predicts.
        if due == NEVER || link.promises(hand, by, unit_bits) || k > by {
            return false;
        }
        if due <= hand {
            // The link names it, so the others are dropped. AcqRel: as above.
            let this = Link::new(k, unit_bits, link.high());
            _ = hot
                .link
                .compare_exchange(link.0, this.0, Ordering::AcqRel, Ordering::Relaxed);
        }
        true
    }

    /// The new link of a node that has many entries in the unit of its link; `None` if the
    /// link must stay.
    fn other_promise(&mut self, index: u32, link: Link, is_armed: bool) -> Option<Link> {
        let (unit_bits, hand) = (self.wheel.ticks.unit_bits, self.d.hand);
        if !is_armed {
            // Tick 0 has passed.
            return Some(Link::new(0, unit_bits, link.high()));
        }
        let first = link.promise(unit_bits);
        if first.saturating_sub(1 << unit_bits) <= hand {
            return None;
        }
        let tick = promise_tick(first - 1, hand);
        let other = Link::new(tick, unit_bits, link.high());
        self.promise(index, tick, hand).then_some(other)
    }
}
