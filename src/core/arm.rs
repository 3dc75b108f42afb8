//! Arming, from any thread: the protocol, and the general path. `lib.rs` has the invariant
//! of promises, which an arm upholds.
//!
//! # The steps
//!
//! ```text
//!   with a push                          relying on a promise
//!   arm.read      gate, state, link      arm.read      gate, state, link
//!   arm.push      the entry              arm.exchange  state := armed   (RMW)
//!   arm.exchange  state := armed (RMW)   --- fence ---
//!   --- fence ---                        arm.rely      floor <= promise?
//!   arm.mark      bucket, summary                      gate as it was?
//!   arm.wake      lower next_visit; alarm later? kick
//!   arm.check     hand before the entry?
//!   arm.publish   link := promise
//! ```
//! A promise is published by a plain store, once it is true. If a thread is stopped before
//! that, other threads push entries of their own. Race 3, with arm.wake, is drawn in
//! `driver/sleep.rs`.
//!
//! # Race 1: an arm that relies on a promise, against the visit
//!
//! ```text
//!   arming thread                        driver
//!   arm.exchange  state := D     (RMW)   sweep.announce  gate := goal  (RMW)
//!   --- fence ---                        --- fence ---
//!   arm.rely      read gate              visit.read      read state
//! ```
//! The timer would be lost if the thread did not see the goal and the driver did
//! not see D. The fences forbid that. If the gate has changed, the thread checks
//! again.
//!
//! # Race 2: a push against the hand
//!
//! ```text
//!   arming thread                        driver
//!   arm.push, arm.exchange               sweep.announce  gate := goal  (RMW)
//!   --- fence ---                        --- fence ---
//!   arm.mark      set the bits           sweep.scan      read the bits, drain
//!   arm.check     read gate              visit.read      read state
//! ```
//! If the driver misses the mark or the exchange, the thread sees the goal. If the
//! goal is at or after the tick at which the hand enters the bucket, the driver may
//! have passed over or dropped the entry. Then the thread checks again.
//!
//! # Race 4: an arm against a drain
//!
//! ```text
//!   arming thread                        driver
//!   arm.exchange  state := D     (RMW)   drain.close     gate := closed (RMW)
//!   --- fence ---                        --- fence ---
//!   arm.check, arm.rely   read gate      drain.read      read state
//! ```
//! Either the drain finds the timer and hands it back, or the thread sees that the
//! wheel is closed. The thread then disarms the timer, and the call is refused.
//!
//! # Once more
//!
//! If the hand has passed the entry, or the promise may be gone, the arm looks for another
//! promise, then makes one more entry where the deadline now belongs. If the hand passes
//! that entry as well, or if the timer is due, the entry goes to the urgent bucket
//! (`buckets.rs`), which the hand never passes. So an arm takes at most three pushes, and
//! one more each time the hand leaps or another thread changes the timer first.
//!
//! Nothing of this is published: a thread that frees the node may not see what the shard
//! is about to publish (`life.rs`).

mod near;

use super::entry::{promise_tick, Entry};
use super::error::Error;
use super::gate::View;
use super::levels::Place;
use super::memory::Memory;
use super::node::{self, last_tick, shared_tick, Hot, Link};
use super::shard::Producer;
use super::state::{high_of, Handle, StateWord, LEAP, NEVER};
use super::ticks::END_OF_TIME;
use super::wheel::{Caller, Wheel, DROPPED};
use crate::sync::{fence, fence_after_rmw, fence_between_loads, Ordering};

/// The condition and the range of an arm.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum How {
    Always,
    /// If the timer is not pending, or the new deadline is earlier.
    Earlier,
    /// If the timer is pending.
    Pending,
    /// Always, and at most this number of nanoseconds later, at a tick that other
    /// timers with slack share. A timer that is due in this range stays.
    Within(u64),
    /// Always, of a new periodic timer: with the slack of its kind, and exactly.
    Periodic(u16),
}

/// The reason why the driver will visit the timer.
#[derive(Clone, Copy, Debug)]
enum Basis {
    /// None is needed: the timer is never due.
    Nothing,
    /// A promise that may be gone.
    Unsure,
    Promise(Link),
    /// An entry for this tick, which was pushed there. Its promise is not checked yet.
    Entry(u64, Place),
}

#[derive(Clone, Copy)]
pub(super) struct Node<'a> {
    pub own: Producer<'a>,
    pub index: u32,
    pub hot: &'a Hot,
}

#[derive(Clone, Copy)]
struct Arm<'a> {
    /// None in a thread that has no shard.
    own: Option<Producer<'a>>,
    index: u32,
    hot: &'a Hot,
    /// The word that the exchange wrote, and its tick.
    word: StateWord,
    tick: u64,
    /// The hand that the word was made for.
    hand: u64,
}

impl<M: Memory> Wheel<M> {
    /// Step arm.mark. Follows a fence.
    #[inline(always)]
    fn mark(&self, own: Producer<'_>, bucket: u32) {
        if !self.buckets.is_marked(bucket, &own) {
            self.buckets.mark(bucket, &own);
        }
    }

    /// Arms a timer: true if it was pending. `ns` is a point in time; one after the
    /// end of time is never. Lock-free; linearizes at the exchange of the state word.
    pub fn arm(
        &self,
        caller: &impl Caller,
        handle: Handle,
        ns: u64,
        how: How,
    ) -> Result<bool, Error> {
        let (index, hot, state) = self.live_node(handle)?;
        let node = Node {
            own: self.producer(caller.token()?),
            index,
            hot,
        };
        self.arm_node(caller, node, state, handle, (ns, how))
    }

    #[inline(always)]
    pub(super) fn arm_node(
        &self,
        caller: &impl Caller,
        node: Node<'_>,
        mut state: StateWord,
        handle: Handle,
        (ns, how): (u64, How),
    ) -> Result<bool, Error> {
        let count = &node.own.count;
        // Release: pairs with free.look.
        let publishes_no_more = || node.own.publishing.store(0, Ordering::Release);
        loop {
            let hand = self.open_hand()?;
            if state.is_shut() {
                return Err(Error::Shutdown);
            }
            let (first, last) = self.wish(ns, caller.first_ns(), how, hand);
            if Self::is_left_alone(state, how, (first, last), hand) {
                if self.stay(caller, node, state, hand).is_err() {
                    state = self.state_again(handle)?;
                    continue;
                }
                if let How::Within(_) = how {
                    count.arm(true);
                }
                return Ok(state.is_armed());
            }
            let tick = shared_tick(first, last);
            let basis = self
                .basis(node, tick, hand)
                .inspect_err(|_| publishes_no_more())?;
            let mut word = state.armed(tick, hand);
            if tick != NEVER && matches!(how, How::Periodic(_)) {
                let early;
                (word, early) = self.exactly(word, ns, hand);
                let early = node::tagged(early, state.generation(high_of(handle)));
                // An exchange: the model checker knows no order between a store and the
                // driver's late exchange. Relaxed: published by the exchange below.
                let rare = self.slab.rare(node.index);
                rare.early.swap(early, Ordering::Relaxed);
            }
            // arm.exchange
            match self.exchange(node.hot, state, word) {
                Err(_) => {
                    publishes_no_more();
                    state = self.state_again(handle)?;
                }
                Ok(_) => {
                    fence_after_rmw();
                    let was = state.is_armed();
                    probe!(start, self, handle, ns, was);
                    count.arm(was);
                    let Node { own, index, hot } = node;
                    let arm = Arm {
                        own: Some(own),
                        index,
                        hot,
                        word,
                        tick,
                        hand,
                    };
                    self.uphold(caller, own, arm, basis);
                    publishes_no_more();
                    return self.unless_closed(arm, was);
                }
            }
        }
    }

    /// The hand, if the gate is open. Calls off a leap that is under way.
    fn open_hand(&self) -> Result<u64, Error> {
        loop {
            match self.gate.view() {
                View::Open(hand) => return Ok(hand),
                View::Leaping(from) => self.gate.call_off_leap(from),
                View::Closed => return Err(Error::Shutdown),
            }
        }
    }

    /// The ticks that the caller allows.
    #[inline(always)]
    fn wish(&self, ns: u64, first_ns: u64, how: How, hand: u64) -> (u64, u64) {
        if ns >= END_OF_TIME {
            return (NEVER, NEVER);
        }
        // A deadline that has passed is the next tick, so that a timer which arms
        // itself in its callback does not fire for ever at one time.
        let asked = self.ticks.at_or_after(ns.max(first_ns)).max(hand + 1);
        let latest = match how {
            How::Within(slack) => {
                let end = ns.saturating_add(slack).min(END_OF_TIME - 1);
                self.ticks.at_or_before(end).max(asked)
            }
            // Counted from the time that was asked for, even if that has passed.
            How::Periodic(kind) => last_tick(self.ticks.at_or_after(ns), kind).max(asked),
            _ => asked,
        };
        (asked, latest)
    }

    /// Whether an arm leaves the timer as it is.
    #[inline(always)]
    fn is_left_alone(state: StateWord, how: How, (first, last): (u64, u64), hand: u64) -> bool {
        match how {
            How::Always | How::Periodic(_) => false,
            How::Pending => !state.is_armed(),
            How::Earlier => state.is_armed() && state.deadline(hand) <= first,
            How::Within(_) => state.is_armed() && (first..=last).contains(&state.deadline(hand)),
        }
    }

    /// Leaves a timer as it is; an error if another thread does not. The thread that wrote
    /// its word may be stopped before it makes sure of a visit. So this one does.
    #[inline(never)]
    fn stay(
        &self,
        caller: &impl Caller,
        node: Node<'_>,
        word: StateWord,
        hand: u64,
    ) -> Result<(), StateWord> {
        let Node { own, index, hot } = node;
        // Later the word may read wrong from the hand that was read: it had not changed by then.
        self.exchange(hot, word, word)?;
        fence_after_rmw();
        let tick = word.due(hand);
        // Acquire: pairs with arm.publish.
        let link = Link(hot.link.load(Ordering::Acquire));
        // If it is due and its callback runs, the end of that makes the visit: race 6.
        let basis = if tick == NEVER || tick <= hand && word.is_running() {
            Basis::Nothing
        } else if link.promises(hand, tick, self.ticks.unit_bits) {
            Basis::Promise(link)
        } else {
            Basis::Unsure
        };
        let arm = Arm {
            own: Some(own),
            index,
            hot,
            word,
            tick,
            hand,
        };
        self.uphold(caller, own, arm, basis);
        Ok(())
    }

    /// An existing promise, or a new entry: step arm.push.
    #[inline(always)]
    fn basis(&self, node: Node<'_>, tick: u64, hand: u64) -> Result<Basis, Error> {
        let Node { own, index, hot } = node;
        if tick == NEVER {
            return Ok(Basis::Nothing);
        }
        // Acquire: pairs with arm.publish.
        let link = Link(hot.link.load(Ordering::Acquire));
        if link.promises(hand, tick, self.ticks.unit_bits) {
            return Ok(Basis::Promise(link));
        }
        // Release: another timer's link that this thread has published, see `life.rs`.
        own.publishing.store(index, Ordering::Release);
        let tick = promise_tick(tick, hand);
        let place = self.levels.place(tick, hand);
        let entry = Entry::new(index, tick, hand);
        if !own.push(&self.memory, place.bucket, entry) {
            return Err(Error::Memory);
        }
        own.count.pushes.bump(1);
        Ok(Basis::Entry(tick, place))
    }

    /// Establishes the invariant, after the exchange and a fence.
    #[inline(always)]
    fn uphold(&self, caller: &impl Caller, own: Producer<'_>, arm: Arm<'_>, basis: Basis) {
        let upheld = match basis {
            Basis::Nothing => true,
            Basis::Unsure => false,
            Basis::Promise(link) => self.stands(link, arm.hand),
            Basis::Entry(tick, place) => {
                // arm.mark
                self.mark(own, place.bucket);
                self.wake_for(caller, own, tick);
                self.check_and_publish(arm, tick, place.entered)
            }
        };
        if !upheld {
            self.uphold_again(caller, arm);
        }
        self.consider_cleaning(caller, own);
    }

    /// Steps arm.check and arm.publish; false if the entry may be passed over.
    fn check_and_publish(&self, arm: Arm<'_>, tick: u64, entered: u64) -> bool {
        if !matches!(self.gate.view(), View::Open(hand) if hand < entered) {
            return false;
        }
        // Relaxed: the high part does not change while a thread publishes.
        let high = Link(arm.hot.link.load(Ordering::Relaxed)).high();
        let link = Link::new(tick, self.ticks.unit_bits, high);
        // Release: pairs with arm.read.
        arm.hot.link.store(link.0, Ordering::Release);
        true
    }

    /// Step arm.rely: whether a promise that was read while the hand was at `hand` stands.
    /// The floor first: see `driver/clean.rs`. Acquire: pairs with the Release that lets
    /// promises be relied upon again.
    fn stands(&self, link: Link, hand: u64) -> bool {
        let promise = link.promise(self.ticks.unit_bits);
        self.shared.floor.load(Ordering::Acquire) <= promise && self.gate.view() == View::Open(hand)
    }

    /// Makes sure of a visit where the first way to it may be gone: by another promise, by
    /// one more entry, or by an urgent one. No entry made here is published.
    #[cold]
    fn uphold_again(&self, caller: &impl Caller, mut arm: Arm<'_>) {
        let Arm { index, hot, .. } = arm;
        let mut tries = 0..1;
        loop {
            // A closed wheel leaves the timer to the drain.
            let Ok(hand) = self.open_hand() else {
                return;
            };
            // The hand has moved so far that the word no longer reads right. The
            // timer is due now.
            if hand.saturating_sub(arm.tick) > LEAP || hand.saturating_sub(arm.hand) > LEAP {
                let word = arm.word.armed(arm.tick.max(hand), hand);
                match self.exchange(hot, arm.word, word) {
                    Ok(_) => arm.word = word,
                    Err(seen) if seen.is_same_arm(arm.word) => {
                        arm.word = seen;
                        continue;
                    }
                    // Another thread, or the driver, has changed the deadline since.
                    Err(_) => return,
                }
                arm.tick = arm.tick.max(hand);
            }
            arm.hand = hand;
            let (bucket, tick, mut entered);
            if arm.tick > hand && tries.next().is_some() {
                // Acquire: pairs with arm.publish.
                let link = Link(hot.link.load(Ordering::Acquire));
                if link.promises(hand, arm.tick, self.ticks.unit_bits) && self.stands(link, hand) {
                    return;
                }
                tick = promise_tick(arm.tick, hand);
                Place { bucket, entered } = self.levels.place(tick, hand);
            } else {
                (bucket, tick, entered) = (self.buckets.urgent(), hand, NEVER);
            }
            let entry = Entry::new(index, tick, hand);
            match arm.own.filter(|own| own.push(&self.memory, bucket, entry)) {
                Some(own) => {
                    own.count.pushes.bump(1);
                    own.count.repeats.bump(1);
                    fence(Ordering::SeqCst);
                    self.mark(own, bucket);
                    self.wake_for(caller, own, tick);
                }
                None => {
                    // Until all promises hold again, the driver visits every node, and does
                    // not leap.
                    entered = NEVER;
                    // Release: pairs with the Acquire in the sweep.
                    self.shared.rescue.store(DROPPED, Ordering::Release);
                    self.call_driver(caller);
                }
            }
            if matches!(self.gate.view(), View::Open(now) if now < entered && now - hand <= LEAP) {
                return;
            }
        }
    }

    /// Whether the driver wakes by `tick`, without a call. Follows a fence.
    #[inline(always)]
    fn wakes_by(&self, tick: u64) -> bool {
        // Relaxed: the fence orders it.
        if self.shared.next_visit.load(Ordering::Relaxed) > tick {
            return false;
        }
        // Another thread that has lowered it may be stopped before it kicks. So
        // each thread compares with the alarm itself.
        fence_between_loads();
        // Relaxed: fenced; pairs with the fence in `Drive::sleep`.
        self.shared.alarm.load(Ordering::Relaxed) <= tick
    }

    /// Step arm.wake: the driver wakes by `tick`. Follows a fence.
    #[inline(always)]
    pub(super) fn wake_for(&self, caller: &impl Caller, own: Producer<'_>, tick: u64) {
        if self.wakes_by(tick) {
            return;
        }
        let shared = &self.shared;
        shared.next_visit.fetch_min(tick, Ordering::AcqRel);
        fence_after_rmw();
        // Relaxed: as in `wakes_by`.
        if shared.alarm.load(Ordering::Relaxed) > tick {
            self.kick(caller, own, tick);
        }
    }

    #[cold]
    #[inline(never)]
    fn kick(&self, caller: &impl Caller, own: Producer<'_>, _tick: u64) {
        let kicked = self.shared.kick.once(|| {
            probe!(kick, self, _tick);
            caller.wake_driver()
        });
        own.count.kicks.bump(kicked.into());
    }

    /// The result of an arm after its exchange; race 4.
    #[inline(always)]
    fn unless_closed(&self, arm: Arm<'_>, was: bool) -> Result<bool, Error> {
        if was || self.gate.view() != View::Closed {
            return Ok(was);
        }
        let mut word = arm.word;
        loop {
            // Either this thread has the timer, or the drain has.
            match self.exchange(arm.hot, word, word.fired()) {
                Ok(_) => {
                    self.count(arm.own, |c| &c.arms, u64::MAX);
                    return Err(Error::Shutdown);
                }
                Err(seen) if seen.is_same_arm(word) => word = seen,
                Err(_) => return Ok(false),
            }
        }
    }

    /// Wakes the driver, whatever its alarm.
    #[cold]
    pub(super) fn call_driver(&self, caller: &impl Caller) {
        // AcqRel: pairs with the driver's look before it sleeps.
        self.shared.next_visit.fetch_min(0, Ordering::AcqRel);
        fence_after_rmw();
        // Relaxed: fenced, as in `wake_for`.
        if self.shared.alarm.load(Ordering::Relaxed) != 0 {
            caller.wake_driver();
        }
    }

    /// Requests a visit to a timer that came due while its callback ran.
    pub(super) fn visit_soon(&self, caller: &impl Caller, index: u32, hot: &Hot, word: StateWord) {
        let hand = self.gate.hand();
        let arm = Arm {
            own: self.owned(caller),
            index,
            hot,
            word,
            tick: hand,
            hand,
        };
        self.uphold_again(caller, arm);
    }
}
