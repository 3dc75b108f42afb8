//! The driver's half of the wheel: one thread at a time moves the hand.
//!
//! A sweep announces its goal, then goes from promised tick to promised tick,
//! in order, never through empty ones. At each tick it *enters* one slot on
//! every level that the hand has moved on, from the top down: an entry of a
//! later tick is placed again, nearer to the hand, without a look at its node
//! (the cascade); an entry of this tick is a visit.
//!
//! # Leaps
//!
//! An entry keeps only some bits of its tick. While the hand goes less than
//! [`NEAR_LEAP`] ticks, the others follow from where it came from. When it goes
//! further (a clock in nanoseconds, a long sleep), an entry that was there
//! before and one that is pushed meanwhile, from where the hand goes, cannot be
//! told apart; then the link of the node says which tick is meant. An entry that
//! it does not know is dead, or not published yet: one that is after the goal is
//! kept, of the others the thread finds that the hand has passed. That is slower,
//! for the nodes are touched, and therefore the exception. The state word sets the
//! limit of a leap in either case.

mod tidy;

use crate::bucket::{promise_tick, Chunk, Entry, NEAR_LEAP};
use crate::geometry::At;
use crate::memory::Memory;
use crate::shard::ShardRef;
use crate::slab::{period_slack, shared_tick, Node, AUTO, BEHIND, BURST, DELAY};
use crate::state::{self, ARMED, MAX_TICK, NEVER, OWED, PENDING, RUNNING, WAITED, ZOMBIE};
use crate::sync::{fence, planted, prefetch, Ordering};
use crate::wheel::{left_of, promised, Caller, Due, Error, Handle, Park, Wheel, TENTATIVE};

/// How many entries of one bucket are read to learn its earliest tick.
const PEEK: usize = if cfg!(checked) { 4 } else { 64 };
const BURST_BEHIND: u16 = BURST | BEHIND;
/// How many visits ahead a node is fetched into the cache.
pub(crate) const AHEAD: usize = 8;
/// How many entries are taken before the sink is asked whether to go on.
const PATIENCE: u64 = 256;
/// How many entries are looked at before a sleep.
const SETTLE: usize = if cfg!(checked) { 4 } else { 512 };
/// Of so many nodes each is asked for its deadline, where the entries do not say.
const FEW: u32 = 4096;
/// `current` never lags further behind the target, so that the state word's
/// deadline stays exact.
pub(crate) const LAG: u64 = state::NEAR / 2;
/// The hand goes at most this far at once: what is armed from there is still
/// decoded right from where it came from.
const LEAP: u64 = state::NEAR - 1;

/// A timer that has fired, or was handed back by a drain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Fired {
    pub handle: Handle,
    pub func: usize,
    pub cookie: u64,
    pub tick: u64,
    pub due_ns: u64,
    pub missed: u64,
    /// AUTO, BURST, DELAY, KEYED.
    pub kind: u16,
}

/// Where a sweep hands over what has fired.
pub(crate) trait Sink {
    /// Takes one; false if the sweep is to stop after it. One with a function
    /// is in RUNNING, until [`Wheel::finish`] is called for it, by whoever.
    fn fire(&mut self, fired: &Fired) -> bool;

    /// Asked now and then while nothing fires; true if the sweep is to stop.
    fn is_enough(&mut self) -> bool {
        false
    }
}

impl<F: FnMut(&Fired) -> bool> Sink for F {
    fn fire(&mut self, fired: &Fired) -> bool {
        self(fired)
    }
}

/// The driver's lock, held.
pub(crate) struct Drive<'a, M: Memory> {
    wheel: &'a Wheel<M>,
}

impl<M: Memory> Drop for Drive<'_, M> {
    fn drop(&mut self) {
        // Relaxed: this thread's own word while it is odd. Release: pairs with
        // the Acquires in `drive` and `undriven`.
        let held = self.wheel.hot.driving.load(Ordering::Relaxed);
        self.wheel
            .hot
            .driving
            .store(held.wrapping_add(1), Ordering::Release);
    }
}

impl<M: Memory> Wheel<M> {
    /// Whether an advance to `target` would find nothing to do. Never while a thread
    /// drives, which may be on its way to what is due: `next_visit` says nothing then.
    #[inline]
    pub fn nothing_due(&self, target: u64) -> bool {
        self.undriven(|| {
            // Acquire: pairs with P4. An arm that happened before this call has
            // lowered it. Relaxed: `current` only bounds the lag.
            self.hot.next_visit.load(Ordering::Acquire) > target
                && target.wrapping_sub(self.current.load(Ordering::Relaxed)) as i64 <= LAG as i64
        })
        .unwrap_or(false)
    }

    /// What `look` says, if nobody drives meanwhile. A seqlock: what it reads of the
    /// driver's words may be of any time, and is of no use then.
    #[inline]
    fn undriven<R>(&self, look: impl FnOnce() -> R) -> Option<R> {
        // Acquire: pairs with the Release in `Drive::drop`.
        let before = self.hot.driving.load(Ordering::Acquire);
        if before & 1 != 0 {
            return None;
        }
        let seen = look();
        // Pairs with the fence in `drive`: if `look` has seen anything that a driver
        // has written since, this sees that it drives.
        fence(Ordering::Acquire);
        (self.hot.driving.load(Ordering::Relaxed) == before).then_some(seen)
    }

    /// The tick of the next visit, never later than the truth: what was armed before
    /// this call is in it. As exact as a look at a bounded number of entries makes it
    /// where nobody drives; else how far the driver has come. Takes no lock, and
    /// changes nothing.
    pub fn next_expiry(&self) -> u64 {
        let look = || {
            // Acquire: pairs with P4; what is pushed from here on may be missed.
            let before = self.hot.next_visit.load(Ordering::Acquire);
            let mut sweep = Sweep::quiet(self);
            // A promise made here would spare an arm to lower `next_visit`.
            sweep.only_asks = true;
            sweep.look_ahead().max(before)
        };
        self.undriven(look).unwrap_or_else(|| self.come_to())
    }

    /// Goes to sleep, having settled: `set` sets the alarm to a tick, at most
    /// `longest` ahead, and is asked again until that is early enough. From now
    /// on an earlier deadline wakes the driver (race 3).
    pub fn doze(&self, longest: u64, mut set: impl FnMut(u64)) {
        let alarm = &self.hot.alarm;
        // N3. Relaxed and a fence: pairs with P4 and P5.
        alarm.store(NEVER, Ordering::Relaxed);
        if !planted("no_fences_before_sleep") {
            fence(Ordering::SeqCst);
        }
        loop {
            // N4. Acquire: pairs with P4.
            let next = self.hot.next_visit.load(Ordering::Acquire);
            let tick = next.min(self.current.load(Ordering::Relaxed) + longest);
            // Relaxed: seen late, it costs a spare wake-up.
            alarm.store(tick, Ordering::Relaxed);
            set(tick);
            // N5: a wake-up may have been overwritten by `set`; what it was for
            // has been written before it.
            if !planted("no_fences_before_sleep") {
                fence(Ordering::SeqCst);
            }
            let lowered = self.hot.next_visit.load(Ordering::Acquire) < next;
            if !lowered || planted("no_second_look_before_sleep") {
                return;
            }
        }
    }

    /// The driver is awake: nobody needs to wake it.
    pub fn awake(&self) {
        // Relaxed: seen late, it costs one spare wake-up.
        self.hot.alarm.store(0, Ordering::Relaxed);
    }

    /// The right to drive, for one thread at a time.
    pub fn drive(&self) -> Result<Drive<'_, M>, Error> {
        // Relaxed: the exchange decides. Acquire: pairs with the Release in
        // `Drive::drop`.
        let free = self.hot.driving.load(Ordering::Relaxed) & !1;
        self.hot
            .driving
            .compare_exchange(
                free,
                free.wrapping_add(1),
                Ordering::Acquire,
                Ordering::Relaxed,
            )
            .map_err(|_| Error::Busy)?;
        // Before all that the driver writes: pairs with the fence in `undriven`.
        fence(Ordering::Release);
        Ok(Drive { wheel: self })
    }

    /// How far the driver has come: the hand stays at the last tick that was
    /// promised, which may be long ago. Relaxed: an old one is earlier still.
    fn come_to(&self) -> u64 {
        let swept = self.driver.swept.load(Ordering::Relaxed);
        self.driver.hand.load(Ordering::Relaxed).max(swept)
    }
}

impl<M: Memory> Drive<'_, M> {
    /// Moves the hand to `target`, handing every timer due by then to `sink`
    /// in the order of ticks, until that says stop; the next call resumes
    /// there. True if all is done.
    pub fn advance(&mut self, target: u64, sink: impl Sink) -> bool {
        let mut sweep = Sweep::new(self.wheel, sink);
        sweep.run(target.min(MAX_TICK));
        !sweep.stop
    }

    /// Before a sleep: makes `next_visit` exact, as far as a bounded amount of
    /// work can. Never later than the truth. The lock is held until the alarm is
    /// set: `next_visit` is too late while another settles.
    pub fn settle(&mut self) {
        let w = self.wheel;
        // N1: race 3. What was there holds for all that was announced by now.
        let before = w.hot.next_visit.swap(NEVER, Ordering::AcqRel);
        fence(Ordering::SeqCst);
        let next = Sweep::quiet(w).look_ahead();
        // AcqRel: pairs with P4.
        w.hot
            .next_visit
            .fetch_min(next.max(before), Ordering::AcqRel);
    }

    /// Hands back every armed timer, until `take` says stop; the next call
    /// resumes there. From the first call on the wheel refuses arms. True if
    /// all is done.
    pub fn drain(&mut self, mut take: impl FnMut(&Fired) -> bool) -> bool {
        let w = self.wheel;
        // D1. Release: pairs with A3.
        if !planted("wheel_is_closed_after_the_drain") {
            w.closed.store(1, Ordering::Release);
        }
        let most = w.slab.high_water();
        // Relaxed: the driver's own word.
        let mut index = w.driver.drained.load(Ordering::Relaxed);
        let mut room = true;
        while room && index < most {
            if let Some(node) = w.slab.get(index) {
                room = drain_node(w, index, node, &mut take);
            }
            index += 1;
        }
        if planted("wheel_is_closed_after_the_drain") {
            w.closed.store(1, Ordering::Release);
        }
        let done = index >= most;
        // A later call looks at all again: an arm may have been under way.
        w.driver
            .drained
            .store(if done && room { 0 } else { index }, Ordering::Relaxed);
        room && done
    }
}

fn drain_node<M: Memory>(
    w: &Wheel<M>,
    index: u32,
    node: &Node,
    take: &mut impl FnMut(&Fired) -> bool,
) -> bool {
    // D2: a read-modify-write, see race 4.
    let mut s = if planted("drain_only_loads") {
        node.state.load(Ordering::Acquire)
    } else {
        node.state.fetch_or(0, Ordering::AcqRel)
    };
    while s & ARMED != 0 {
        // Acquire: pairs with `setup`.
        let g = node.generation.load(Ordering::Acquire);
        let fired = w.describe(
            index,
            node,
            g,
            state::decode(s, w.current.load(Ordering::Relaxed)),
        );
        let auto = fired.kind & AUTO != 0;
        let next = match (auto, s & RUNNING != 0) {
            (true, false) => state::resting(g + 1),
            (true, true) => (s & !PENDING) | ZOMBIE,
            _ => s & !PENDING,
        };
        match node
            .state
            .compare_exchange(s, next, Ordering::AcqRel, Ordering::Acquire)
        {
            Ok(_) => {
                w.driver.count.drained.bump(1);
                if auto && s & RUNNING == 0 {
                    w.release(Some(w.own()), index, node, g);
                }
                return take(&fired);
            }
            Err(seen) => s = seen,
        }
    }
    true
}

impl<M: Memory> Wheel<M> {
    /// What is known of a timer, before the exchange that decides its fate: if
    /// the node is reused meanwhile, the exchange fails.
    fn describe(&self, index: u32, node: &Node, g: u64, tick: u64) -> Fired {
        let (due, missed) = self.exact(node, tick);
        // Relaxed: published by the exchange of `state` that was acquired.
        Fired {
            handle: self.handle(index, g),
            func: node.func.load(Ordering::Relaxed),
            cookie: node.cookie.load(Ordering::Relaxed),
            tick,
            due_ns: due.ns,
            missed,
            kind: node.kind.load(Ordering::Relaxed),
        }
    }

    /// The end of the callback of a timer that was handed to a [`Sink`], in
    /// whatever thread.
    pub fn finish(&self, caller: &impl Caller, handle: Handle, park: &impl Park) {
        probe!(expire_exit, self, handle);
        let index = Self::index_of(handle);
        let Some(node) = self.slab.get(index) else {
            return;
        };
        // Relaxed: in RUNNING the node cannot go to another generation.
        let g = node.generation.load(Ordering::Relaxed);
        let auto = node.kind.load(Ordering::Relaxed) & AUTO != 0;
        let mut s = node.state.load(Ordering::Acquire);
        let gone = loop {
            let gone = s & ZOMBIE != 0 || (auto && s & ARMED == 0);
            let next = if gone {
                state::resting(g + 1)
            } else {
                s & !(RUNNING | WAITED)
            };
            // Release: what the callback did; pairs with `cancel_sync`.
            match node
                .state
                .compare_exchange(s, next, Ordering::AcqRel, Ordering::Acquire)
            {
                Ok(_) => break gone,
                Err(seen) => s = seen,
            }
        };
        if gone {
            self.release(self.owned(caller), index, node, g);
        } else if s & OWED != 0 {
            // Due meanwhile, and no visit is promised: race 5.
            let hand = self.current.load(Ordering::Acquire);
            self.promise_late(None, caller, index, node, state::decode(s, hand));
        }
        if s & WAITED != 0 && !planted("waiter_is_not_woken") {
            park.wake(&node.state);
        }
    }
}

/// V1: takes a node's promise for tick `k`, sure or not, if it is that.
#[inline]
fn take_back(node: &Node, k: u64) -> bool {
    // Acquire: P2. Release: see race 1.
    let take = |link| {
        node.link
            .compare_exchange(link, 0, Ordering::AcqRel, Ordering::Acquire)
    };
    let mut taken = take(k + 1);
    if taken == Err((k + 1) | TENTATIVE) {
        taken = take((k + 1) | TENTATIVE);
        if taken == Err(k + 1) {
            // Made sure meanwhile.
            taken = take(k + 1);
        }
    }
    taken.is_ok()
}

/// One call of `advance`. The words of `wheel.driver` are Relaxed throughout:
/// they are the driver's, and the driver lock hands them on.
struct Sweep<'a, M: Memory, S> {
    wheel: &'a Wheel<M>,
    own: ShardRef<'a>,
    sink: S,
    /// Where the caller wants the hand.
    target: u64,
    /// Where this leap takes it.
    goal: u64,
    /// Further than the entries can be told apart by themselves.
    far: bool,
    /// Changes nothing, neither entries nor promises.
    only_asks: bool,
    stop: bool,
}

impl<'a, M: Memory> Sweep<'a, M, fn(&Fired) -> bool> {
    /// One that fires nothing.
    fn quiet(wheel: &'a Wheel<M>) -> Self {
        Sweep::new(wheel, |_| true)
    }
}

impl<'a, M: Memory, S> Sweep<'a, M, S> {
    fn new(wheel: &'a Wheel<M>, sink: S) -> Self {
        Sweep {
            wheel,
            own: wheel.own(),
            sink,
            target: 0,
            goal: 0,
            far: false,
            only_asks: false,
            stop: false,
        }
    }
}

impl<M: Memory, S: Sink> Sweep<'_, M, S> {
    fn run(&mut self, target: u64) {
        let w = self.wheel;
        let d = &w.driver;
        self.target = target;
        d.count.sweeps.bump(1);
        self.tidy();
        loop {
            let swept = d.swept.load(Ordering::Relaxed);
            // An interrupted sweep has announced its goal; finish that first.
            self.goal = target
                .min(swept + LEAP)
                .max(w.current.load(Ordering::Relaxed));
            self.far = self.goal - swept > NEAR_LEAP;
            // H1 and N1. Release: pairs with the Acquires of the arms.
            if !planted("goal_is_announced_after_the_scan") {
                w.current.store(self.goal, Ordering::Release);
            }
            w.hot.next_visit.store(NEVER, Ordering::Release);
            // Races 2 and 3.
            fence(Ordering::SeqCst);
            let next = self.sweep_to_goal();
            if planted("goal_is_announced_after_the_scan") {
                w.current.store(self.goal, Ordering::Release);
            }
            // AcqRel: pairs with P4.
            w.hot.next_visit.fetch_min(next, Ordering::AcqRel);
            if self.stop {
                return;
            }
            d.swept.store(self.goal, Ordering::Relaxed);
            if self.goal >= target {
                if w.hot.tidy.load(Ordering::Acquire) != 0 {
                    // The next sweep goes on.
                    w.hot.next_visit.fetch_min(0, Ordering::AcqRel);
                }
                return;
            }
        }
    }

    /// Visits everything due up to the goal; the tick of the next visit.
    fn sweep_to_goal(&mut self) -> u64 {
        let w = self.wheel;
        let d = &w.driver;
        if d.stopped.load(Ordering::Relaxed) != 0 {
            self.tick(
                d.from.load(Ordering::Relaxed),
                d.hand.load(Ordering::Relaxed),
            );
        }
        while !self.stop {
            let hand = d.hand.load(Ordering::Relaxed);
            let mut next = self.scan(hand, None);
            // Acquire: pairs with the Release of `call_rescue`.
            let rescue = w.hot.rescue.load(Ordering::Acquire) != 0;
            if rescue {
                let due = self.earliest_node();
                // From where deadlines are decoded.
                let here = w.come_to();
                if due <= here {
                    // Left over by a look that was interrupted.
                    self.look_at_all(here);
                    continue;
                }
                next = next.min(due);
            }
            if next > self.goal {
                if rescue {
                    self.promise_all();
                    if w.hot.rescue.load(Ordering::Acquire) != 0 {
                        // Still no memory: look again at every tick.
                        return self.goal + 1;
                    }
                    return self.scan(hand, None);
                }
                return next;
            }
            d.from.store(hand, Ordering::Relaxed);
            d.hand.store(next, Ordering::Relaxed);
            self.tick(hand, next);
            // A slot may be entered before where the last sweep came to, a
            // deadline is not decoded from there.
            if rescue && !self.stop && next == w.come_to() {
                self.look_at_all(next);
            }
        }
        d.hand.load(Ordering::Relaxed)
    }

    /// The first tick after `hand` at which a slot must be entered.
    ///
    /// The slots of a level below the top are entered when the hand comes to
    /// them: that happens once for each entry and level. On the top level,
    /// where that would be once a round, the entries say when; and before a
    /// sleep, with a budget, their timers.
    fn scan(&self, hand: u64, mut budget: Option<&mut usize>) -> u64 {
        let w = self.wheel;
        let g = &w.geometry;
        let slots = 1 << g.slot_bits;
        let mut first = NEVER;
        w.find_shard(|s| {
            for level in 0..g.levels {
                // The slot under the hand is the last of the round.
                let mut from = (g.digit(hand, level) + 1) & (slots - 1);
                let mut left = slots;
                while let Some(slot) = s.next_slot(level, from) {
                    let at = At { level, slot };
                    let step = (slot.wrapping_sub(from) & (slots - 1)) + 1;
                    let entered = g.next_entry(at, hand);
                    if step > left || entered >= first {
                        break;
                    }
                    left -= step;
                    let mut due = None;
                    if let Some(budget) = &mut budget {
                        due = self.earliest_wanted(s, at, budget);
                    }
                    if due.is_none() && level == g.top() {
                        due = self.earliest_entry(s, at);
                    }
                    first = first.min(due.map_or(entered, |k| k.max(entered)));
                    if left == 0 || planted("first_slot_hides_the_others") {
                        break;
                    }
                    from = (slot + 1) & (slots - 1);
                }
            }
            false
        });
        first
    }

    /// The least tick of the entries of a bucket of the top level, NEVER without
    /// any; `None` if they are too many to look at. Those are placed again in
    /// the own shard when their slot is entered next, where it is kept.
    fn earliest_entry(&self, s: ShardRef<'_>, at: At) -> Option<u64> {
        if s.as_ptr() == self.own.as_ptr() && !planted("full_buckets_are_entered_anew") {
            return Some(self.wheel.soonest(at.slot).load(Ordering::Relaxed));
        }
        let mut first = NEVER;
        s.front(at)
            .peek(PEEK, |e| {
                first = first.min(self.tick_of(e).unwrap_or(NEVER))
            })
            .then_some(first)
    }

    /// The tick of an entry; `None` if it is known to be dead.
    #[inline]
    fn tick_of(&self, e: Entry) -> Option<u64> {
        if self.far && !planted("leap_is_decoded_as_if_near") {
            return self.published_tick_of(e);
        }
        Some(e.tick(self.wheel.driver.swept.load(Ordering::Relaxed)))
    }

    #[cold]
    fn published_tick_of(&self, e: Entry) -> Option<u64> {
        let node = self.wheel.slab.get(e.index())?;
        // Acquire: pairs with P2.
        let link = node.link.load(Ordering::Acquire) & !TENTATIVE;
        if link != 0 && e.stands_for(link - 1) {
            return Some(link - 1);
        }
        // Dead; or not published yet. Then it reads right from the goal, or is
        // not after it, and its thread sees that at P3.
        let k = e.tick(self.goal);
        (k > self.goal).then_some(k)
    }

    /// Enters the slots of tick `t`, coming from `from`: cascades, then fires.
    fn tick(&mut self, from: u64, t: u64) {
        let w = self.wheel;
        let g = &w.geometry;
        let d = &w.driver;
        let resume = d.stopped.swap(0, Ordering::Relaxed) != 0;
        let mut resume_at = resume.then(|| d.shard.load(Ordering::Relaxed));
        let top = if resume {
            d.level.load(Ordering::Relaxed)
        } else {
            g.top()
        };
        for level in (0..=top).rev() {
            if !g.enters(from, t, level) {
                continue;
            }
            let at = At {
                level,
                slot: g.digit(t, level),
            };
            let stopped = w.find_shard(|s| {
                match resume_at {
                    Some(p) if p != s.as_ptr() => return false,
                    // Interrupted here: go on, marked or not.
                    Some(_) => resume_at = None,
                    None if !s.is_marked(at) => return false,
                    None => {}
                }
                self.empty(s, at, t);
                self.stop
            });
            if let Some(s) = stopped {
                d.level.store(level, Ordering::Relaxed);
                d.shard.store(s.as_ptr(), Ordering::Relaxed);
                d.stopped.store(1, Ordering::Relaxed);
                return;
            }
            resume_at = None;
        }
    }

    /// Takes every entry out of a bucket whose slot the hand has entered.
    fn empty(&mut self, s: ShardRef<'_>, at: At, t: u64) {
        let w = self.wheel;
        let d = &w.driver;
        if !planted("mark_is_cleared_after_the_drain") {
            s.unmark(at);
        }
        // On the top level an entry of a later round goes back to where it
        // came from. The own shard's bucket is therefore taken out first; the
        // others cannot grow, for it goes to the own shard.
        let own = s.as_ptr() == self.own.as_ptr();
        let front = if own {
            if d.rest.is_detached_empty() {
                s.front(at).detach(s.back(at), &d.rest);
                if at.level == w.geometry.top() {
                    w.soonest(at.slot).store(NEVER, Ordering::Relaxed);
                }
            } else {
                // Resumed: what has been placed there since is still there.
                self.own.mark(at);
            }
            &d.rest
        } else {
            s.front(at)
        };
        // Only on the lowest level are most entries visits.
        let visits = at.level == 0;
        if visits {
            (0..AHEAD).for_each(|n| self.prefetch(front.ahead(n)));
        }
        loop {
            if visits {
                self.prefetch(front.ahead(AHEAD));
            }
            let (entry, used) = front.pop();
            self.keep_chunk(s, used);
            let Some(e) = entry else { break };
            d.count.taken.bump(1);
            match self.tick_of(e) {
                Some(k) if k > t => {
                    probe!(cascade, w, k, at.level);
                    self.place(e.index(), k, t);
                }
                Some(k) => self.visit(e.index(), k, t),
                None => {}
            }
            if d.count.taken.get() % PATIENCE == 0 {
                self.stop |= self.sink.is_enough();
            }
            if self.stop {
                return;
            }
        }
        if own && !d.rest.is_detached_empty() {
            s.put_spare(d.rest.last_chunk());
        }
        if planted("mark_is_cleared_after_the_drain") {
            s.unmark(at);
        }
    }

    /// A chunk that a `pop` has emptied, if it is one, is for its shard again.
    #[inline]
    fn keep_chunk(&self, s: ShardRef<'_>, used: *mut Chunk) {
        if used.is_null() {
            return;
        }
        if s.as_ptr() == self.own.as_ptr() {
            s.put_spare(used);
        } else {
            s.give_back(used);
        }
    }

    #[inline]
    fn prefetch(&self, entry: Option<Entry>) {
        if let Some(node) = entry.and_then(|e| self.wheel.slab.get(e.index())) {
            prefetch(node);
        }
    }

    /// Places an entry relative to the hand at `t`, without a look at the node.
    fn place(&self, index: u32, k: u64, t: u64) -> bool {
        let w = self.wheel;
        let at = w.geometry.place(k, t);
        if !self.own.push(&w.memory, at, Entry::new(index, k, t)) {
            w.call_rescue();
            return false;
        }
        w.driver.count.placed.bump(1);
        // The driver reads its own marks: no fence.
        self.own.mark(at);
        if at.level == w.geometry.top() {
            let soonest = w.soonest(at.slot);
            soonest.store(soonest.load(Ordering::Relaxed).min(k), Ordering::Relaxed);
        }
        true
    }

    fn visit(&mut self, index: u32, k: u64, t: u64) {
        let Some(node) = self.wheel.slab.get(index) else {
            return;
        };
        // Failure: superseded, drop it.
        if take_back(node, k) || planted("superseded_entry_is_not_dropped") {
            self.own.count.unlinks.bump(1);
            self.look(index, node, t);
        }
    }

    /// Looks at a node without a promise: fires it, or promises again.
    fn look(&mut self, index: u32, node: &Node, t: u64) {
        let w = self.wheel;
        // Relaxed: the exchange below is V2; if there is none, `fetch_or` is.
        let mut s = node.state.load(Ordering::Acquire);
        loop {
            let due = state::decode(s, t);
            if s & ARMED == 0 || due > t {
                // V2: a read-modify-write, see race 1.
                let seen = if planted("visit_only_loads") {
                    node.state.load(Ordering::Acquire)
                } else {
                    node.state.fetch_or(0, Ordering::AcqRel)
                };
                if seen != s {
                    s = seen;
                    continue;
                }
                if s & ARMED != 0 && due != NEVER {
                    self.promise(index, node, due, t);
                }
                return;
            }
            // Acquire: pairs with `setup`; see `describe`.
            let g = node.generation.load(Ordering::Acquire);
            let mut fired = w.describe(index, node, g, due);
            let kind = fired.kind;
            let period = node.period.load(Ordering::Relaxed);
            // Its last callback still runs, in another thread.
            let busy = s & RUNNING != 0;
            let running = if fired.func != 0 { RUNNING } else { 0 };
            let mut again = Due::NEVER;
            let next = if busy && (period == 0 || kind & BURST != 0) {
                s | OWED
            } else if period != 0 {
                again = self.next_period(&mut fired, period, kind, t);
                state::armed(s, state::encode(again.tick, t)) | running
            } else if kind & AUTO != 0 && running == 0 {
                state::resting(g + 1)
            } else {
                (s & !PENDING) | running
            };
            // V2 and the decision in one.
            if let Err(seen) =
                node.state
                    .compare_exchange(s, next, Ordering::AcqRel, Ordering::Acquire)
            {
                s = seen;
                continue;
            }
            if next & OWED != 0 {
                // R2: the end of the callback promises again.
                if period != 0 {
                    node.kind.fetch_or(BEHIND, Ordering::Relaxed);
                }
                return;
            }
            if again.tick != NEVER {
                // Relaxed, all: hints, see `exact`.
                if busy {
                    node.kind.fetch_or(BEHIND, Ordering::Relaxed);
                } else {
                    node.due_ns.store(again.ns, Ordering::Relaxed);
                    if kind & BEHIND != 0 && again.ns > w.scale.ns(t) {
                        node.kind.fetch_and(!BEHIND, Ordering::Relaxed);
                    }
                }
                self.promise(index, node, again.tick, t);
            } else if !state::same_gen(next, g) {
                w.release(Some(self.own), index, node, g);
            }
            if busy {
                return;
            }
            let count = &w.driver.count;
            count.fired.bump(1);
            count.periods.bump(u64::from(period != 0));
            count.missed.bump(fired.missed);
            probe!(expire_entry, w, fired.handle, fired.due_ns, fired.func);
            self.stop = !self.sink.fire(&fired);
            if running == 0 {
                probe!(expire_exit, w, fired.handle);
            }
            return;
        }
    }

    /// The deadline after this one: counted from this one, not from now.
    fn next_period(&self, fired: &mut Fired, period: u64, kind: u16, t: u64) -> Due {
        let scale = &self.wheel.scale;
        let begin = if planted("period_drifts") {
            scale.ns(t)
        } else {
            fired.due_ns
        };
        let mut ns = begin.saturating_add(period);
        // A period below a tick cannot be made up for within this one.
        let now = scale.ns(match kind & (BURST | BEHIND) {
            BURST => t,
            // Held up by its own callback.
            BURST_BEHIND => scale.tick_at_or_after(fired.due_ns),
            _ => self.target,
        });
        if ns <= now {
            let missed = (now - ns) / period + 1;
            fired.missed += missed;
            ns = if kind & DELAY != 0 {
                now.saturating_add(period)
            } else {
                ns.saturating_add(missed.saturating_mul(period))
            };
        }
        if ns == u64::MAX {
            return Due::NEVER;
        }
        let due = scale.tick_at_or_after(ns).min(MAX_TICK);
        let tick = due.max(t + 1);
        let tick = shared_tick(tick, left_of(period_slack(kind), due, tick));
        Due { tick, ns }
    }

    /// The driver's promise: from where it sweeps, which nobody overtakes. The
    /// tick of the promise.
    fn promise(&self, index: u32, node: &Node, due: u64, t: u64) -> u64 {
        let k = promise_tick(due.max(t + 1), t);
        loop {
            // Acquire: pairs with P2.
            let link = node.link.load(Ordering::Acquire);
            if promised(link, k) || !self.place(index, k, t) {
                return k;
            }
            // Release: V1 of this very promise comes later in this thread or
            // is handed on by the driver lock; others read it as P2.
            if node
                .link
                .compare_exchange(link, k + 1, Ordering::AcqRel, Ordering::Acquire)
                .is_ok()
            {
                self.own.count.links.bump(u64::from(link == 0));
                return k;
            }
        }
    }

    /// Looks early at what the next visits are about, so that a wheel whose
    /// timers are all cancelled, or were all moved, does not wake for nothing.
    fn look_ahead(&mut self) -> u64 {
        let d = &self.wheel.driver;
        let hot = &self.wheel.hot;
        let wanted = hot.rescue.load(Ordering::Acquire) | hot.tidy.load(Ordering::Acquire);
        if wanted != 0 || d.stopped.load(Ordering::Relaxed) != 0 {
            // In the middle of a tick the nodes say more than the entries.
            let few = self.wheel.slab.high_water() <= FEW;
            return if self.only_asks && few {
                self.earliest_node()
            } else {
                0
            };
        }
        let mut budget = SETTLE;
        self.scan(d.hand.load(Ordering::Relaxed), Some(&mut budget))
    }

    /// The least tick for which a bucket's entries promise something that is
    /// wanted. Before a sleep a promise that nobody wants is taken back, one that
    /// was outlived is made again for the deadline. The entries stay: one whose promise is
    /// not published yet (P1 without P2) looks just like a dead one, and its
    /// thread will see to `next_visit` itself.
    ///
    /// `None` if they are too many to look at.
    fn earliest_wanted(&self, s: ShardRef<'_>, at: At, budget: &mut usize) -> Option<u64> {
        let w = self.wheel;
        let near = w.driver.swept.load(Ordering::Relaxed);
        let t = w.current.load(Ordering::Relaxed);
        let mut first = NEVER;
        let most = PEEK.min(*budget);
        let all = s.front(at).peek(most, |e| {
            *budget -= 1;
            let k = e.tick(near);
            let Some(node) = w.slab.get(e.index()) else {
                return;
            };
            // Acquire: pairs with P2.
            let link = node.link.load(Ordering::Acquire);
            let state = node.state.load(Ordering::Acquire);
            let due = state::decode(state, t);
            // V1 and V2, as in a visit.
            let outlived = link & !TENTATIVE == k + 1 && (state & ARMED == 0 || due != k);
            if !outlived || self.only_asks || !take_back(node, k) {
                // Promised for this very tick, or by another entry, or about
                // to be: the deadline counts in any case.
                if state & ARMED != 0 {
                    first = first.min(due);
                }
                return;
            }
            self.own.count.unlinks.bump(1);
            let state = node.state.fetch_or(0, Ordering::AcqRel);
            let due = state::decode(state, t);
            if state & ARMED != 0 && due != NEVER {
                let k = self.promise(e.index(), node, due, t);
                // The thread that has armed it may trust this and say nothing.
                // AcqRel: pairs with P4.
                w.hot.next_visit.fetch_min(k, Ordering::AcqRel);
                first = first.min(k);
            }
        });
        all.then_some(first)
    }

    // Without memory for promises: every node is looked at, in the order of
    // deadlines, until the promises fit again.

    fn each_node(&self, mut f: impl FnMut(u32, &Node)) {
        for index in 0..self.wheel.slab.high_water() {
            if let Some(node) = self.wheel.slab.get(index) {
                f(index, node);
            }
        }
    }

    fn earliest_node(&self) -> u64 {
        let near = self.wheel.come_to();
        let mut first = NEVER;
        self.each_node(|_, node| {
            let s = if self.only_asks {
                node.state.load(Ordering::Acquire)
            } else {
                node.state.fetch_or(0, Ordering::AcqRel)
            };
            if s & ARMED != 0 {
                first = first.min(state::decode(s, near));
            }
        });
        first
    }

    fn unlink(&self, node: &Node) {
        // AcqRel: as V1.
        let link = node.link.swap(0, Ordering::AcqRel);
        self.own.count.unlinks.bump(u64::from(link != 0));
    }

    fn look_at_all(&mut self, t: u64) {
        let w = self.wheel;
        for index in 0..w.slab.high_water() {
            let Some(node) = w.slab.get(index) else {
                continue;
            };
            let s = node.state.load(Ordering::Acquire);
            if s & ARMED != 0 && state::decode(s, t) <= t {
                self.unlink(node);
                self.look(index, node, t);
                if self.stop {
                    // The rest is found again: `rescue` is still set.
                    return;
                }
            }
        }
    }

    fn promise_all(&self) {
        let w = self.wheel;
        // AcqRel: what fails from here on sets it again.
        w.hot.rescue.swap(0, Ordering::AcqRel);
        let t = self.goal;
        self.each_node(|index, node| {
            // The entry behind a link may be one that could not be moved.
            self.unlink(node);
            let s = node.state.fetch_or(0, Ordering::AcqRel);
            if s & ARMED != 0 {
                let due = state::decode(s, t);
                if due != NEVER {
                    self.promise(index, node, due, t);
                }
            }
        });
    }
}
