//! Before a sleep: when to wake. Race 3 is drawn in `core/alarm.rs`.
//!
//! The driver does not wake for a timer that rests or is due later. So it reads the state of
//! the timer whose entry comes next, and drops or moves that entry; at most a few times.
//!
//! # Race 3b: an arm that relies on a tick, against the entry that is dropped
//!
//! ```text
//!   arming thread                        driver
//!   arm.exchange  state := D     (RMW)   settle.read   read state: rests, or due later
//!   --- fence ---                        settle.point  link: its tick -> 0 or a later one  (RMW)
//!   arm.check     link as it was?        --- fence ---
//!                                        settle.again  state as it was? the entry goes
//!                                                      else link := its tick   (RMW)
//! ```
//! Either the thread sees that the link has changed, and goes on with a note; or the driver
//! sees the new state, and the entry stays. If a note is in the link, no thread relies on the
//! entry.

use crate::core::alarm::Sleeper;
use crate::core::record::{Hot, Link};
use crate::core::slab::Records;
use crate::core::state::{StateWord, NEVER, STEP};
use crate::core::wheel::{Driver, Settled, Wheel};
use crate::core::{BATCH, SETTLE};
use crate::sync::{fence_after_rmw, Ordering};

impl Wheel {
    /// Finds the time at which the driver must wake, and calls `set` with that time
    /// in nanoseconds, or 0 for at once; again if an earlier deadline comes meanwhile. An arm for
    /// an earlier time than the last one that was set wakes the driver, until it sweeps again.
    ///
    /// While a timer is pending, the driver wakes at least every 2^35 ticks, so that the hand stays
    /// near to the clock: with ticks of 1 us every 9 hours, with ticks of 1 ms every 1.1 years. So
    /// does a timer of the system while nothing is pending. A loop may sleep without an end then,
    /// since each arm wakes it.
    ///
    /// False if the call was to stop before it had found the time.
    pub(super) fn sleep(
        &self,
        d: &Driver,
        sleeper: Sleeper,
        is_enough: &mut impl FnMut() -> bool,
        mut set: impl FnMut(u64),
    ) -> bool {
        if sleeper == Sleeper::System {
            // Nobody calls before the timer goes off, unless there is something to do.
            d.is_awaited.set(true);
        }
        // sleep.begin
        self.alarm.begin_to_sleep();
        // sleep.look
        self.collect(d, is_enough);
        let settled = self.settle_until(d, d.is_awaited.get(), is_enough);
        let next = settled.unwrap_or(d.hand.get());
        self.shared.count.entries.set(d.buckets.entries.get());
        self.set_next(next);
        let hand = self.gate.hand();
        let longest = d.goal.get().saturating_add(STEP);
        self.alarm.sleep(sleeper, longest, |tick| {
            // At once if the hand is there: the clock may have stepped back behind the hand.
            set(match tick <= hand {
                true => 0,
                false => self.ticks.ns(tick),
            });
        });
        settled.is_some() && !d.collects.get()
    }

    /// Settles until the time is found. `None` if the caller says before that it `is_enough`.
    #[inline(always)]
    pub(super) fn settle_until(
        &self,
        d: &Driver,
        exactly: bool,
        is_enough: &mut impl FnMut() -> bool,
    ) -> Option<u64> {
        loop {
            let settled = self.settle(d, exactly);
            if settled.is_some() || is_enough() {
                return settled;
            }
        }
    }

    /// The first tick at which a visit is wanted. Never later than the truth, and as exact as
    /// a bounded amount of work allows. The next call goes on with that work.
    ///
    /// A busy loop calls again before that tick, and by then more entries are stale. So only a call
    /// at the announced time does this work, or a second call at the same tick. Such a call settles
    /// `exactly`.
    ///
    /// `None` behind some buckets that were empty and still had a mark: they have lost it, and the
    /// next call goes on. Each move to an earlier tick may leave such a bucket.
    fn settle(&self, d: &Driver, exactly: bool) -> Option<u64> {
        let hand = d.hand.get();
        d.settled.set(Settled::Enough);
        if d.is_interrupted() {
            return Some(hand);
        }
        if !exactly {
            d.settled.set(Settled::Unknown);
        }
        let (mut left, mut empty) = (SETTLE, 0);
        while let Some(first) = d.buckets.first(hand) {
            let Some(node) = first.node else {
                empty += 1;
                if empty == BATCH {
                    return None;
                }
                continue;
            };
            if !exactly || self.stays(d, first.number, node) {
                return Some(d.buckets.least(first.number).max(first.entered));
            }
            if let Some(tick) = self.settle_bucket(d, first.number, &mut left) {
                return Some(tick.max(first.entered));
            }
        }
        Some(NEVER)
    }

    /// Whether the first entry of a bucket stays, and no other entry there is earlier. Mostly, this
    /// is true.
    #[inline(always)]
    fn stays(&self, d: &Driver, number: u32, index: u32) -> bool {
        let node = self.slab.records(index);
        let tick = node.entry().tick.get();
        // Relaxed: with an old value the driver comes early, or looks at the whole bucket.
        let state = StateWord(node.hot().state.load(Ordering::Relaxed));
        let stays = tick == d.buckets.least(number) && state.due(d.hand.get()) <= tick;
        if stays {
            d.settled.set(Settled::Timer(index, tick));
        }
        stays
    }

    /// Drops the entries of the timers in a bucket that rest, and moves those of timers that are
    /// due later, while some are `left` to treat. The tick of the earliest of the other entries,
    /// or one before it; `None` if the bucket is empty then.
    #[inline(never)]
    fn settle_bucket(&self, d: &Driver, number: u32, left: &mut usize) -> Option<u64> {
        let least = d.buckets.least(number);
        let (mut earliest, mut stay) = (None, 0);
        for (node, tick) in d.buckets.entries_of(&self.slab, number) {
            let seen = Some((number, tick));
            let now = match *left {
                0 => seen,
                _ => self.settle_entry(d, node, number, tick),
            };
            match now == seen {
                true => stay += 1,
                false => *left -= 1,
            }
            let Some((_, tick)) = now.filter(|(there, _)| *there == number) else {
                continue;
            };
            if earliest.is_none_or(|(_, before)| tick < before) {
                earliest = Some((node.index, tick));
            }
            // None is earlier; or they are too many to know the earliest one.
            if tick == least || stay > SETTLE {
                break;
            }
        }
        let (index, tick) = earliest?;
        d.settled.set(match *left {
            0 => Settled::Unknown,
            _ => Settled::Timer(index, tick),
        });
        if stay > SETTLE {
            // It need not be the earliest. Once it is cancelled, the next call looks again.
            return Some(least);
        }
        d.buckets.set_least(number, tick);
        Some(tick)
    }

    /// Whether another settling would find what the last one has found, while no entry has
    /// changed.
    #[inline]
    pub(super) fn is_settled(&self, d: &Driver) -> bool {
        match d.settled.get() {
            Settled::Unknown => false,
            Settled::Enough => true,
            Settled::Timer(index, tick) => {
                // Relaxed: with an old value the driver comes early, or settles in vain.
                let state = self.slab.hot(index).state.load(Ordering::Relaxed);
                StateWord(state).due(d.hand.get()) <= tick
            }
        }
    }

    /// Drops the entry of a timer that rests, or moves it if the timer is due later. The bucket
    /// and the tick that the entry has then; `None` if it was dropped.
    fn settle_entry(
        &self,
        d: &Driver,
        node: Records<'_>,
        number: u32,
        tick: u64,
    ) -> Option<(u32, u64)> {
        let (hot, hand) = (node.hot(), d.hand.get());
        // settle.read. Acquire: pairs with arm.exchange.
        let state = StateWord(hot.state.load(Ordering::Acquire));
        let due = match state.due(hand) {
            NEVER => None,
            due => Some(due.max(hand + 1)),
        };
        if due.is_some_and(|due| due <= tick) {
            return Some((number, tick));
        }
        let next = due.unwrap_or(0);
        let was_there = self.replace(hot, tick, next);
        // settle.again. Acquire: as above.
        if hot.state.load(Ordering::Acquire) != state.0 {
            // A thread may have relied on the entry.
            if was_there {
                self.replace(hot, next, tick);
            }
            return Some((number, tick));
        }
        d.buckets.remove(&self.slab, node);
        due.map(|due| (d.buckets.place(&self.slab, node, due, hand), due))
    }

    /// Replaces a tick in a link, if it is there; 0 stands for no reason. Another thread may change
    /// the high part meanwhile. Followed by a fence.
    fn replace(&self, hot: &Hot, from: u64, to: u64) -> bool {
        if self.gate.is_plain() {
            hot.set_tick(to);
            return true;
        }
        // Acquire, both: pairs with arm.publish. Release: pairs with arm.read.
        let replaced = hot
            .link
            .fetch_update(Ordering::AcqRel, Ordering::Acquire, |link| {
                let link = Link(link);
                (link == link.with_tick(from)).then(|| link.with_tick(to).0)
            });
        fence_after_rmw();
        replaced.is_ok()
    }
}
