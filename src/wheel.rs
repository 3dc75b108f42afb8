//! The wheel: arming, cancelling, freeing, from any thread. The driver's half
//! is in [`crate::sweep`].
//!
//! A bucket does not hold timers, it holds *entries*: promises that somebody
//! will look at a node at a tick. The truth is the node's state word, so an
//! entry may be stale, doubled or early and nothing breaks.
//!
//! # Invariant
//!
//! ARMED(D) implies a live entry that will be met at a tick <= D, or a thread
//! inside [`Wheel::promise`] that is about to push one.
//!
//! # Race 1: arm against visit
//!
//! ```text
//!   arming thread                      driver, visit of entry k
//!   A1  state := ARMED(D)   (RMW)      V1  link: k -> none   (RMW)
//!   A2  read link                      V2  read state        (RMW)
//! ```
//! Lost if A2 sees k and V2 does not see ARMED(D). Both A1 and V2 modify
//! `state`, so one is later in its modification order. A1 first: V2 reads D.
//! V2 first: A1 acquires what V2 released, V1 included, so A2 sees none and
//! pushes. No fence is needed; V2 being a read-modify-write is.
//!
//! # Race 2: push against the hand
//!
//! ```text
//!   arming thread                      driver
//!   P1  push entry                     H1  current := goal
//!   P2  link := k?          (RMW)      --- fence ---
//!   --- fence ---                      H2  scan, drain, read link
//!   P3  mark bit, read current
//!   P6  link: k? -> k       (RMW)
//! ```
//! The driver may miss the push, or meet the entry before P2 and drop it. Then
//! H2 came before P1 or P2, and the fences make P3 see the goal. If the goal is
//! not before the tick at which the hand enters the bucket, the thread takes its
//! promise back and makes it again, relative to the goal. This is why P3 comes
//! after P2, and why the goal is announced before the scan, not after it.
//!
//! Until P6 the promise is tentative: the driver takes it for one, but another
//! thread that arms the same timer does not trust it, for the one that made it
//! may be stopped before the driver can know. It makes the same promise good
//! itself; who comes to P6 first serves both.
//!
//! # Race 3: push against the choice of the next visit, and against sleep
//!
//! ```text
//!   arming thread                      driver
//!   P1  push entry, mark bit           N1  next_visit := never
//!   --- fence ---                      --- fence ---
//!   P4  read next_visit; lower it      N2  scan the bits; lower next_visit
//!       to k if that is earlier            to what was found
//!   --- fence ---                      N3  alarm := never
//!   P5  if the alarm is later          --- fence ---
//!       than k, set it to now          N4  read next_visit; set the alarm to it
//!                                      --- fence ---
//!                                      N5  read next_visit; again from N4 if
//!                                          it was lowered
//! ```
//! Either N2 sees the entry, or P4 sees `never` and lowers it. Either N4 sees
//! what P4 has lowered, or P5 sees an alarm that is later than k. If P5 sets the
//! alarm before N4 does, which would undo it, N5 sees what was lowered before.
//!
//! # Race 4: arm against drain
//!
//! ```text
//!   arming thread                      drain
//!   A1  state := ARMED      (RMW)      D1  closed := 1
//!   A3  read closed                    D2  read state (RMW), of every node
//! ```
//! A1 first: D2 finds the timer and hands it back. D2 first: A3 sees `closed`,
//! and the arm is undone and refused. A node that was never used before is
//! covered by the slab's counter, which both change by a read-modify-write.
//!
//! # Race 5: due again against the end of a callback in another thread
//!
//! ```text
//!   driver                             worker
//!   R1  link: k -> none     (RMW)      F1  the callback ends
//!   R2  state: owed         (RMW)      F2  state: not running  (RMW)
//! ```
//! R2 first: F2 sees it and promises a visit, which finds what is owed. F2 first: the exchange of R2
//! fails, and the driver finds a timer that does not run, and fires it.

use crate::bucket::{promise_tick, Entry, Front};
use crate::count::{Count, Driven, Tally};
use crate::geometry::{At, Geometry};
use crate::memory::Memory;
use crate::scale::Scale;
use crate::shard::{self, Shard, ShardRef};
use crate::slab::{period_slack, shared_tick, NoNode, Node, Slab, AUTO, BEHIND, BURST, INDEX_BITS};
use crate::state::{self, ARMED, MAX_TICK, NEVER, PENDING, RUNNING, SHUT, WAITED, ZOMBIE};
use crate::sync::{
    fence_after_rmw, init, planted, prefetch, AtomicPtr, AtomicU32, AtomicU64, Ordering,
};

pub(crate) const GENERATION_MASK: u64 = u64::MAX >> INDEX_BITS;

/// Why a call was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Error {
    /// No such timer, or not any more.
    Stale,
    /// The limit on live timers is reached.
    Limit,
    /// No memory; nothing has changed.
    Memory,
    /// Another thread drives.
    Busy,
    /// An argument is out of range.
    Invalid,
    /// The wheel or the timer is shut down.
    Shutdown,
}

/// A timer's name: index and generation, never 0.
pub(crate) type Handle = u64;

/// What a timer is, apart from when it is due.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Spec {
    pub func: usize,
    pub cookie: u64,
    pub period: u64,
    pub kind: u16,
}

/// A deadline: the tick decides, the nanoseconds are what was asked for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Due {
    pub tick: u64,
    pub ns: u64,
}

impl Due {
    pub const NEVER: Due = Due {
        tick: NEVER,
        ns: u64::MAX,
    };
}

/// When an arm applies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum How {
    Always,
    /// If it is not armed or the new deadline is earlier.
    Earlier,
    /// If it is armed.
    Pending,
    /// As always, but up to so many ticks later, where others are due as well; a
    /// timer that is due in that time already is left alone.
    Within(u64),
}

/// What an operation needs of the thread that calls it.
pub(crate) trait Caller {
    /// The calling thread's shard.
    fn token(&self) -> Result<Token, Error>;
    /// Wakes the driver, which is asleep: it looks again, however late this is.
    fn wake_driver(&self);
}

/// Where a waiter sleeps until a state word changes.
pub(crate) trait Park {
    /// Returns, at the latest, soon after `word` is no longer `seen`.
    fn wait(&self, word: &AtomicU64, seen: u64);
    fn wake(&self, word: &AtomicU64);
}

/// A shape, a limit and a start.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Config {
    pub levels: u32,
    pub slot_bits: u32,
    pub limit: u32,
    pub tick_ns: u64,
    /// Where the hand starts, in ticks.
    pub start: u64,
    /// Makes the handles of different wheels differ.
    pub salt: u64,
}

/// What only the driver touches, under `driving`.
pub(crate) struct Driver {
    /// The tick last swept: where the scan for the next one begins.
    pub hand: AtomicU64,
    /// No live entry is due before this; what entries are told apart by.
    pub swept: AtomicU64,
    /// A sweep stopped inside a tick: it came from `from`, and is on `level`
    /// in `shard`.
    pub stopped: AtomicU32,
    pub from: AtomicU64,
    pub level: AtomicU32,
    pub shard: AtomicPtr<Shard>,
    /// A bucket of the own shard that is being drained.
    pub rest: Front,
    /// The least tick of each bucket of the own shard's top level.
    pub soonest: AtomicPtr<AtomicU64>,
    /// The next index that a drain looks at.
    pub drained: AtomicU32,
    /// Where a tidying goes on: the shard, the bucket there, and how many of its
    /// entries, 0 for all.
    pub tidy_shard: AtomicPtr<Shard>,
    pub tidy_bucket: AtomicU32,
    pub tidy_rest: AtomicU32,
    /// `tidy` as it began.
    pub tidy_asked: AtomicU32,
    /// The driver's own shard.
    pub own: AtomicPtr<Shard>,
    pub count: Driven,
}

/// A timing wheel in ticks; see the module's documentation.
#[repr(C)]
pub(crate) struct Wheel<M: Memory> {
    // Read by every arm, written by the driver once a sweep.
    /// Ticks up to here have been swept or are being swept. It may lag behind
    /// the clock while nothing is due.
    pub(crate) current: AtomicU64,
    pub(crate) closed: AtomicU32,
    pub(crate) geometry: Geometry,
    pub(crate) scale: Scale,
    base: u64,
    pub(crate) slab: Slab,
    pub(crate) shards: AtomicPtr<Shard>,
    pub(crate) memory: M,
    pub(crate) hot: Hot,
    pub(crate) driver: Driver,
}

/// What pushing threads and the driver both write.
#[repr(C, align(128))]
pub(crate) struct Hot {
    /// No entry wants a visit before this tick.
    pub next_visit: AtomicU64,
    /// Odd while a thread drives; so a reader can tell that nobody did.
    pub driving: AtomicU32,
    /// A promise could not be pushed for want of memory: the driver looks at
    /// every node until all promises are good again.
    pub rescue: AtomicU32,
    /// The tick that the driver sleeps until; 0 while it is awake.
    pub alarm: AtomicU64,
    /// How often it was asked, since there was no need, that the driver goes through
    /// the entries, as most are dead.
    pub tidy: AtomicU32,
    /// What threads have done that could get no shard.
    pub strays: Count,
}

/// The right to push into one shard, held by one thread at a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Token(pub(crate) *mut Shard);

impl<M: Memory> Wheel<M> {
    /// A wheel whose hand starts at `config.start`.
    pub fn new(memory: M, config: Config) -> Result<Self, Error> {
        let Config {
            levels, slot_bits, ..
        } = config;
        if !(1..=8).contains(&levels)
            || !(1..=16).contains(&slot_bits)
            || levels * slot_bits > 48
            || config.start > MAX_TICK / 2
            || config.tick_ns == 0
            || config.limit == 0
        {
            return Err(Error::Invalid);
        }
        let slab = Slab::new(&memory, config.limit).ok_or(Error::Memory)?;
        let wheel = Wheel {
            current: AtomicU64::new(config.start),
            closed: AtomicU32::new(0),
            geometry: Geometry { levels, slot_bits },
            scale: Scale::new(config.tick_ns),
            // Even, so that handles stay odd-generationed.
            base: config.salt & GENERATION_MASK & !1,
            slab,
            shards: AtomicPtr::new(std::ptr::null_mut()),
            memory,
            hot: Hot {
                next_visit: AtomicU64::new(NEVER),
                driving: AtomicU32::new(0),
                rescue: AtomicU32::new(0),
                alarm: AtomicU64::new(0),
                tidy: AtomicU32::new(0),
                strays: Count::default(),
            },
            driver: Driver {
                hand: AtomicU64::new(config.start),
                swept: AtomicU64::new(config.start),
                stopped: AtomicU32::new(0),
                from: AtomicU64::new(0),
                level: AtomicU32::new(0),
                shard: AtomicPtr::new(std::ptr::null_mut()),
                rest: Front::empty(),
                soonest: AtomicPtr::new(std::ptr::null_mut()),
                drained: AtomicU32::new(0),
                tidy_shard: AtomicPtr::new(std::ptr::null_mut()),
                tidy_bucket: AtomicU32::new(0),
                tidy_rest: AtomicU32::new(0),
                tidy_asked: AtomicU32::new(0),
                own: AtomicPtr::new(std::ptr::null_mut()),
                count: Driven::default(),
            },
        };
        let soonest = wheel.memory.map(wheel.soonest_bytes()).cast::<AtomicU64>();
        if soonest.is_null() {
            return Err(Error::Memory);
        }
        // Relaxed, both: written once, before the wheel is shared.
        wheel.driver.soonest.store(soonest, Ordering::Relaxed);
        let slots = 1 << slot_bits;
        // SAFETY: mapped for one word for each slot.
        unsafe { init(soonest, slots) };
        for slot in 0..slots {
            wheel.soonest(slot as u32).store(NEVER, Ordering::Relaxed);
        }
        let own = wheel.attach()?;
        wheel.driver.own.store(own.0, Ordering::Relaxed);
        Ok(wheel)
    }

    fn soonest_bytes(&self) -> usize {
        size_of::<AtomicU64>() << self.geometry.slot_bits
    }

    /// The least tick of a bucket of the own shard's top level. Driver only.
    pub(crate) fn soonest(&self, slot: u32) -> &AtomicU64 {
        debug_assert!(slot < 1 << self.geometry.slot_bits);
        // Relaxed: written once, by `new`.
        let at = self.driver.soonest.load(Ordering::Relaxed);
        // SAFETY: there is a word for each slot.
        unsafe { &*at.add(slot as usize) }
    }

    /// A shard for the calling thread: an orphan's, or a new one.
    pub fn attach(&self) -> Result<Token, Error> {
        let orphan = self.find_shard(|s| {
            // Acquire: pairs with the Release in `detach`.
            s.owned.load(Ordering::Relaxed) == 0
                && s.owned
                    .compare_exchange(0, 1, Ordering::Acquire, Ordering::Relaxed)
                    .is_ok()
        });
        if let Some(s) = orphan {
            return Ok(Token(s.as_ptr()));
        }
        let at = self.memory.map(shard::bytes(&self.geometry));
        if at.is_null() {
            return Err(Error::Memory);
        }
        // SAFETY: just mapped with the size that the geometry asks for.
        let fresh = unsafe { Shard::make(at, &self.geometry) };
        // Relaxed: only compared.
        let mut head = self.shards.load(Ordering::Relaxed);
        loop {
            // SAFETY: not yet shared.
            unsafe { &*fresh }.next.store(head, Ordering::Relaxed);
            // Release: publishes the shard; pairs with the Acquires of the
            // walks. A chain of read-modify-writes, so the older ones too.
            match self
                .shards
                .compare_exchange(head, fresh, Ordering::AcqRel, Ordering::Relaxed)
            {
                Ok(_) => return Ok(Token(fresh)),
                Err(seen) => head = seen,
            }
        }
    }

    /// Gives a shard back; its entries stay in force.
    pub fn detach(&self, token: Token) {
        // Release: hands the owner's words to the next one, in `attach`.
        self.shard(token).owned.store(0, Ordering::Release);
    }

    #[inline]
    pub(crate) fn shard(&self, token: Token) -> ShardRef<'_> {
        // SAFETY: tokens are made by `attach` of this wheel, and shards live
        // as long as it.
        unsafe { ShardRef::new(token.0, &self.geometry) }
    }

    pub(crate) fn own(&self) -> ShardRef<'_> {
        // Relaxed: written once, by `new`.
        self.shard(Token(self.driver.own.load(Ordering::Relaxed)))
    }

    /// The first shard for which `f` holds.
    pub(crate) fn find_shard(
        &self,
        mut f: impl FnMut(ShardRef<'_>) -> bool,
    ) -> Option<ShardRef<'_>> {
        // Acquire: pairs with the Release in `attach`.
        let mut at = self.shards.load(Ordering::Acquire);
        while !at.is_null() {
            let s = self.shard(Token(at));
            if f(s) {
                return Some(s);
            }
            // Relaxed: written before the shard was published.
            at = s.next.load(Ordering::Relaxed);
        }
        None
    }

    /// The node of a handle, if its generation is the handle's; and that
    /// generation.
    #[inline]
    fn node(&self, handle: Handle) -> Result<(u32, &Node, u64), Error> {
        let index = handle as u32 & ((1 << INDEX_BITS) - 1);
        let g = (handle >> INDEX_BITS).wrapping_sub(self.base) & GENERATION_MASK;
        let node = self.slab.get(index).ok_or(Error::Stale)?;
        // Acquire: pairs with the Release in `setup`. Even ones are free.
        if node.generation.load(Ordering::Acquire) != g || g & 1 == 0 {
            return Err(Error::Stale);
        }
        Ok((index, node, g))
    }

    /// Asks for the node of a handle, of whatever generation.
    #[inline]
    pub fn prefetch(&self, handle: Handle) {
        if let Some(node) = self.slab.get(Self::index_of(handle)) {
            prefetch(node);
        }
    }

    pub(crate) fn handle(&self, index: u32, generation: u64) -> Handle {
        (generation.wrapping_add(self.base)) << INDEX_BITS | u64::from(index)
    }

    /// The slab index of a handle.
    pub fn index_of(handle: Handle) -> u32 {
        handle as u32 & ((1 << INDEX_BITS) - 1)
    }

    /// A new timer, armed if `due` says so. Lock-free; linearizes at the
    /// exchange of the state word.
    pub fn setup(
        &self,
        caller: &impl Caller,
        spec: Spec,
        due: Option<Due>,
    ) -> Result<Handle, Error> {
        let own = self.shard(caller.token()?);
        // Acquire: race 4.
        if self.closed.load(Ordering::Acquire) != 0 {
            return Err(Error::Shutdown);
        }
        // Reserve before committing.
        if due.is_some() && !own.reserve(&self.memory, 2) {
            return Err(Error::Memory);
        }
        let others = || {
            self.find_shard(|s| self.slab.has_free(&s.free))
                // SAFETY: shards live as long as the wheel.
                .map(|s| unsafe { &(*s.as_ptr()).free })
        };
        let index = self
            .slab
            .alloc(&self.memory, &own.free, others)
            .map_err(|e| match e {
                NoNode::Limit => Error::Limit,
                NoNode::Memory => Error::Memory,
            })?;
        let node = self.slab.get(index).ok_or(Error::Memory)?;
        own.count.setups.bump(1);
        // Relaxed, all: the node is ours alone until its handle is out; the
        // exchange of `state` publishes it to the driver.
        let g = node.generation.load(Ordering::Relaxed) + 1;
        node.func.store(spec.func, Ordering::Relaxed);
        node.cookie.store(spec.cookie, Ordering::Relaxed);
        node.period.store(spec.period, Ordering::Relaxed);
        node.kind.store(spec.kind, Ordering::Relaxed);
        node.set_moves(0);
        let mut word = state::resting(g);
        let mut tick = NEVER;
        if let Some(due) = due {
            // Acquire: pairs with H1.
            let hand = self.current.load(Ordering::Acquire);
            tick = clamp(due.tick, hand);
            if tick != NEVER {
                // Counted from what was asked for, however late that is.
                let asked = self.scale.tick_at_or_after(due.ns);
                tick = shared_tick(tick, left_of(period_slack(spec.kind), asked, tick));
            }
            node.due_ns.store(due.ns, Ordering::Relaxed);
            word = state::armed(word, state::encode(tick, hand));
            probe!(start, self, self.handle(index, g), due.ns, 0);
        }
        // Release: for stale readers in `node`, and the words above.
        node.generation.store(g, Ordering::Release);
        // AcqRel: A1 of races 1 and 4.
        node.state.swap(word, Ordering::AcqRel);
        own.count.armed[0].bump(u64::from(due.is_some()));
        if tick != NEVER {
            self.promise(own, caller, index, node, tick);
        }
        let handle = self.handle(index, g);
        // Acquire: A3 of race 4.
        if due.is_some() && self.closed.load(Ordering::Acquire) != 0 {
            // Refused, unless the drain has handed it back already.
            self.undo(node, g)
                .inspect_err(|_| _ = self.free(caller, handle))?;
        }
        Ok(handle)
    }

    /// The short way to `arm`, for the usual case: a plain timer, a deadline not
    /// far away, a promise that is early enough. If it is not that, nothing has
    /// changed and `long` is asked. `moved` is told to call `count_moves` if the
    /// node has counted all it can.
    ///
    /// The fewer instructions, the more calls overlap their cache misses: this
    /// is what a refresh of an idle timeout costs. Each way out is a call in
    /// tail position, so that none of them costs the short way a register.
    #[inline(always)]
    pub fn rearm<R>(
        &self,
        handle: Handle,
        due: Due,
        moved: impl FnOnce(bool) -> R,
        armed: impl FnOnce() -> R,
        raced: impl FnOnce(bool) -> R,
        long: impl FnOnce() -> R,
    ) -> R {
        let Ok((_, node, g)) = self.node(handle) else {
            return long();
        };
        // Orderings as in `arm`.
        let hand = self.current.load(Ordering::Acquire);
        let s = node.state.load(Ordering::Acquire);
        if due.tick.wrapping_sub(hand).wrapping_sub(1) >= state::NEAR - 1
            || self.closed.load(Ordering::Relaxed) != 0
            || !promised(node.link.load(Ordering::Acquire), due.tick)
            || !state::is_plain(s, g, SHUT | ZOMBIE)
            || node.kind.load(Ordering::Relaxed) & BEHIND != 0
        {
            return long();
        }
        let next = state::armed(s, state::encode_near(due.tick));
        node.due_ns.store(due.ns, Ordering::Relaxed);
        if node
            .state
            .compare_exchange(s, next, Ordering::AcqRel, Ordering::Relaxed)
            .is_err()
        {
            return long();
        }
        probe!(start, self, handle, due.ns, s & ARMED);
        // A2 and A3.
        if !promised(node.link.load(Ordering::Acquire), due.tick)
            || self.closed.load(Ordering::Acquire) != 0
        {
            return raced(s & ARMED != 0);
        }
        if s & ARMED == 0 {
            return armed();
        }
        moved(node.count_move())
    }

    /// Counts what a node has counted until it began again.
    pub fn count_moves(&self, caller: &impl Caller) {
        self.count(self.owned(caller), |c| &c.armed[1], 1 << 16);
    }

    /// Counts an arm, the end of a `rearm` whose timer rested.
    pub fn count_arm(&self, caller: &impl Caller) {
        self.count(self.owned(caller), |c| &c.armed[0], 1);
    }

    /// The rest of a `rearm` whose promise was visited meanwhile, or whose
    /// wheel was closed.
    #[cold]
    pub fn rearm_raced(
        &self,
        caller: &impl Caller,
        handle: Handle,
        tick: u64,
        was: bool,
    ) -> Result<bool, Error> {
        self.count(self.owned(caller), |c| &c.armed[usize::from(was)], 1);
        // Stale by now: then somebody has ended what was armed.
        let Ok((index, node, g)) = self.node(handle) else {
            return Ok(was);
        };
        if !promised(node.link.load(Ordering::Acquire), tick) {
            self.promise_late(None, caller, index, node, tick);
        }
        if self.closed.load(Ordering::Acquire) != 0 && !was {
            return self.undo(node, g);
        }
        Ok(was)
    }

    /// Arms or re-arms; true if it was armed. Lock-free; linearizes at the
    /// exchange of the state word. The caller's shard is asked for only if a
    /// promise must be pushed.
    #[inline]
    pub fn arm(
        &self,
        caller: &impl Caller,
        handle: Handle,
        due: Due,
        how: How,
    ) -> Result<bool, Error> {
        let (index, node, g) = self.node(handle)?;
        let own = self.owned(caller);
        // Acquire: pairs with H1.
        let hand = self.current.load(Ordering::Acquire);
        let mut tick = clamp(due.tick, hand);
        let earliest = tick;
        let mut slack = 0;
        if let How::Within(ticks) = how {
            if tick != NEVER {
                slack = left_of(ticks, due.tick, tick);
                tick = shared_tick(tick, slack).min(MAX_TICK);
            }
        }
        let bits = state::encode(tick, hand);
        // Reserve before committing. Acquire: pairs with P2.
        if tick != NEVER
            && !promised(node.link.load(Ordering::Acquire), tick)
            && !own.is_some_and(|own| own.reserve(&self.memory, 2))
        {
            return Err(Error::Memory);
        }
        // Acquire: pairs with the Release of whoever changed it last.
        let mut s = node.state.load(Ordering::Acquire);
        loop {
            if !state::same_gen(s, g) || s & ZOMBIE != 0 {
                return Err(Error::Stale);
            }
            // Relaxed: a refusal made early; A3 decides.
            if s & SHUT != 0 || self.closed.load(Ordering::Relaxed) != 0 {
                return Err(Error::Shutdown);
            }
            match how {
                How::Always => {}
                How::Within(_) => {
                    let now = state::decode(s, hand);
                    let in_range = now != NEVER && now >= earliest && now - earliest <= slack;
                    if s & ARMED != 0 && in_range {
                        node.tell(due.ns);
                        self.count(own, |c| &c.armed[1], 1);
                        return Ok(true);
                    }
                }
                How::Earlier => {
                    if s & ARMED != 0 && state::decode(s, hand) <= tick {
                        return Ok(true);
                    }
                }
                How::Pending => {
                    if s & ARMED == 0 {
                        return Ok(false);
                    }
                }
            }
            node.tell(due.ns);
            // AcqRel: A1 of races 1 and 4.
            match node.state.compare_exchange_weak(
                s,
                state::armed(s, bits),
                Ordering::AcqRel,
                Ordering::Acquire,
            ) {
                Ok(_) => break,
                Err(seen) => s = seen,
            }
        }
        probe!(start, self, handle, due.ns, s & ARMED);
        self.count(own, |c| &c.armed[(s & ARMED) as usize], 1);
        // A2. Acquire: pairs with P2 and V1.
        if tick != NEVER && !promised(node.link.load(Ordering::Acquire), tick) {
            if s & ARMED != 0 {
                self.count(own, |c| &c.repushes, 1);
            }
            self.promise_late(own, caller, index, node, tick);
        }
        // Acquire: A3 of race 4.
        if self.closed.load(Ordering::Acquire) != 0
            && s & ARMED == 0
            && !planted("closed_is_not_read_after_arming")
        {
            return self.undo(node, g);
        }
        Ok(s & ARMED != 0)
    }

    #[cold]
    fn undo(&self, node: &Node, g: u64) -> Result<bool, Error> {
        // AcqRel: against D2, one of us has it.
        let undone = node
            .state
            .fetch_update(Ordering::AcqRel, Ordering::Acquire, |s| {
                (state::same_gen(s, g) && s & ARMED != 0).then_some(s & !PENDING)
            });
        // Handed back by the drain meanwhile: then it was armed.
        undone.map_or(Ok(false), |_| Err(Error::Shutdown))
    }

    pub(crate) fn promise_late(
        &self,
        own: Option<ShardRef<'_>>,
        caller: &impl Caller,
        index: u32,
        node: &Node,
        tick: u64,
    ) {
        match own.map_or_else(|| caller.token().map(|t| self.shard(t)), Ok) {
            Ok(own) => self.promise(own, caller, index, node, tick),
            // The promise that was there went away after it was looked at, and
            // there is no memory for a first shard: the driver will look.
            Err(_) => self.call_rescue_awake(caller),
        }
    }

    /// `call_rescue` by a thread that does not drive, which may be asleep.
    #[cold]
    fn call_rescue_awake(&self, caller: &impl Caller) {
        self.call_rescue();
        self.call_driver(caller);
    }

    /// The driver has something to do, whatever the time.
    #[cold]
    pub(crate) fn call_driver(&self, caller: &impl Caller) {
        // AcqRel: pairs with `nothing_due`, and N4 of race 3.
        self.hot.next_visit.fetch_min(0, Ordering::AcqRel);
        fence_after_rmw();
        // Relaxed: fenced, as P5.
        if self.hot.alarm.load(Ordering::Relaxed) != 0 {
            caller.wake_driver();
        }
    }

    /// A promise cannot be kept in a bucket: from now on the driver looks at
    /// every node until it can.
    #[cold]
    pub(crate) fn call_rescue(&self) {
        // Release: pairs with the Acquire in the sweep.
        self.hot.rescue.store(1, Ordering::Release);
        self.hot.next_visit.fetch_min(0, Ordering::AcqRel);
    }

    /// Upholds the invariant for a node that has just been armed to `tick`.
    fn promise(&self, own: ShardRef<'_>, caller: &impl Caller, index: u32, node: &Node, tick: u64) {
        // Acquire: pairs with H1.
        let mut hand = self.current.load(Ordering::Acquire);
        loop {
            let mut k = promise_tick(tick.max(hand + 1), hand);
            // Acquire: pairs with P2 and P6 below.
            let link = node.link.load(Ordering::Acquire);
            if promised(link, k) {
                return;
            }
            // Another thread's, which is not sure yet and may be stopped: made
            // good here with an entry of our own. To replace it would have the
            // two of us replace each other for ever.
            let theirs = (link & !TENTATIVE).wrapping_sub(1);
            let same = link & TENTATIVE != 0
                && (hand + 1..=k).contains(&theirs)
                && promise_tick(theirs, hand) == theirs;
            if same {
                k = theirs;
            }
            let at = self.geometry.place(k, hand);
            // P1
            if !own.push(&self.memory, at, Entry::new(index, k, hand)) {
                return self.call_rescue_awake(caller);
            }
            own.count.pushes.bump(1);
            self.consider_tidying(caller, own.count.pushes.get());
            let tentative = (k + 1) | TENTATIVE;
            // P2. Release: the push; pairs with the visit's Acquire. A
            // read-modify-write in any case: `announce` builds on that.
            let published = node
                .link
                .compare_exchange(link, tentative, Ordering::AcqRel, Ordering::Acquire)
                .is_ok();
            own.count.links.bump(u64::from(published && link == 0));
            self.announce(own, caller, at, k);
            // P3. Acquire: pairs with H1.
            let seen = self.current.load(Ordering::Acquire);
            let good = seen < self.geometry.entry_tick(k, at.level)
                || planted("hand_is_not_read_after_the_push");
            hand = seen;
            if !published {
                // Somebody changed `link` first: our entry is a spare one.
                own.count.repeats.bump(1);
                continue;
            }
            // P6, or the hand has passed and the promise may be void: take it
            // back. Release: announced; pairs with A2.
            let now = if good { k + 1 } else { 0 };
            let ours = node
                .link
                .compare_exchange(tentative, now, Ordering::AcqRel, Ordering::Acquire)
                .is_ok();
            if good && ours {
                return;
            }
            own.count.repeats.bump(1);
            if ours {
                own.count.unlinks.bump(1);
            } else if node.state.fetch_or(0, Ordering::AcqRel) & ARMED == 0 {
                // A visit took it, or somebody promised earlier still. A
                // read-modify-write, as V2 is.
                return;
            }
        }
    }

    /// Makes a push visible to the driver: races 2 and 3.
    #[inline]
    fn announce(&self, own: ShardRef<'_>, caller: &impl Caller, at: At, k: u64) {
        // Pairs with the driver's fences. P2 was a read-modify-write.
        fence_after_rmw();
        if own.mark(at) {
            // `mark` was one, too.
            fence_after_rmw();
        }
        // P4. Relaxed: the fence orders it.
        if self.hot.next_visit.load(Ordering::Relaxed) > k && !planted("next_visit_is_not_lowered")
        {
            self.hot.next_visit.fetch_min(k, Ordering::AcqRel);
            // P5 reads after this.
            fence_after_rmw();
        }
        // P5. Relaxed: fenced; pairs with the fence in `doze`. Each thread goes
        // by the alarm, not by `next_visit`: another that has lowered that and
        // was stopped before it woke the driver is not counted on.
        if self.hot.alarm.load(Ordering::Relaxed) > k {
            probe!(kick, self, k);
            caller.wake_driver();
            own.count.kicks.bump(1);
        }
    }

    /// Gives a node to its next generation; the caller has exchanged its state
    /// to rest in generation `g + 1`.
    pub(crate) fn release(&self, own: Option<ShardRef<'_>>, index: u32, node: &Node, g: u64) {
        let moves = node.moves();
        // Release: pairs with `node`.
        node.generation.store(g + 1, Ordering::Release);
        self.count(own, |c| &c.frees, 1);
        self.count(own, |c| &c.armed[1], moves.into());
        // A node whose generations are used up is never used again: 64 bytes
        // for each 2^37 uses, and no stale handle is ever mistaken.
        if g + 2 < GENERATION_MASK {
            self.slab.free(own.as_ref().map(|s| &s.free), index, node);
        }
    }

    /// The short way to `cancel`, for an armed timer that is kept and does not
    /// run. `None`: nothing has changed, take the long way.
    #[inline(always)]
    pub fn disarm(&self, handle: Handle) -> Option<()> {
        let (_, node, g) = self.node(handle).ok()?;
        // Orderings as in `cancel`.
        let s = node.state.load(Ordering::Acquire);
        if !state::is_plain(s ^ ARMED, g, ARMED | ZOMBIE | RUNNING)
            || node.kind.load(Ordering::Relaxed) & AUTO != 0
        {
            return None;
        }
        node.state
            .compare_exchange(s, s & !PENDING, Ordering::AcqRel, Ordering::Relaxed)
            .ok()
            .map(|_| {
                probe!(cancel, self, handle, 1);
            })
    }

    /// Ends a pending timer: true if it was armed. `leave` is what remains set
    /// (SHUT or nothing); a timer that frees itself is freed. Linearizes at
    /// the exchange.
    #[inline]
    pub fn cancel(&self, caller: &impl Caller, handle: Handle, leave: u64) -> Result<bool, Error> {
        let (index, node, g) = self.node(handle)?;
        // Acquire: pairs with the Release of whoever changed it last.
        let mut s = node.state.load(Ordering::Acquire);
        loop {
            if !state::same_gen(s, g) || s & ZOMBIE != 0 {
                return Err(Error::Stale);
            }
            // Relaxed: published before the handle was.
            let auto = node.kind.load(Ordering::Relaxed) & AUTO != 0;
            let next = match (auto, s & RUNNING != 0) {
                (false, _) => (s & !PENDING) | leave,
                (true, true) => (s & !PENDING) | ZOMBIE,
                (true, false) => state::resting(g + 1),
            };
            if next == s {
                return Ok(false);
            }
            match node
                .state
                .compare_exchange_weak(s, next, Ordering::AcqRel, Ordering::Acquire)
            {
                Ok(_) => {
                    probe!(cancel, self, handle, s & ARMED);
                    if !state::same_gen(next, g) {
                        self.release(self.owned(caller), index, node, g);
                    }
                    return Ok(s & ARMED != 0);
                }
                Err(seen) => s = seen,
            }
        }
    }

    pub(crate) fn owned(&self, caller: &impl Caller) -> Option<ShardRef<'_>> {
        caller.token().ok().map(|t| self.shard(t))
    }

    /// Counts, for a thread that may have got no shard.
    fn count(&self, own: Option<ShardRef<'_>>, which: impl Fn(&Count) -> &Tally, by: u64) {
        match own {
            Some(own) => which(&own.count).bump(by),
            None => which(&self.hot.strays).add(by),
        }
    }

    /// A count of all threads together; exact when nobody counts.
    pub fn total(&self, which: impl Fn(&Count) -> &Tally) -> u64 {
        let mut sum = which(&self.hot.strays).get();
        self.find_shard(|s| {
            sum = sum.wrapping_add(which(&s.count).get());
            false
        });
        sum
    }

    /// As `cancel`, and waits until the callback is over. Not to be called
    /// from the timer's own callback. Blocking.
    pub fn cancel_sync(
        &self,
        caller: &impl Caller,
        handle: Handle,
        leave: u64,
        park: &impl Park,
    ) -> Result<bool, Error> {
        let (index, node, g) = self.node(handle)?;
        let mut was = false;
        // Freed already, or by somebody else while this waits for the callback.
        let mut waited = false;
        let mut stale = false;
        let mut s = node.state.load(Ordering::Acquire);
        loop {
            if !state::same_gen(s, g) {
                let known = waited && !stale;
                return if known { Ok(was) } else { Err(Error::Stale) };
            }
            stale |= s & ZOMBIE != 0 && !waited;
            let auto = node.kind.load(Ordering::Relaxed) & AUTO != 0;
            let over = s & RUNNING == 0;
            let next = match (over, auto) {
                (true, true) => state::resting(g + 1),
                (true, false) => (s & !PENDING) | leave,
                (false, true) => (s & !PENDING) | ZOMBIE | WAITED,
                (false, false) => (s & !PENDING) | leave | WAITED,
            };
            // AcqRel: the end of a callback is acquired by whoever waits.
            if let Err(seen) =
                node.state
                    .compare_exchange(s, next, Ordering::AcqRel, Ordering::Acquire)
            {
                s = seen;
                continue;
            }
            probe!(cancel, self, handle, s & ARMED);
            was |= s & ARMED != 0;
            if over {
                if auto {
                    self.release(self.owned(caller), index, node, g);
                }
                return Ok(was);
            }
            waited = true;
            park.wait(&node.state, next);
            s = node.state.load(Ordering::Acquire);
        }
    }

    /// Frees a timer, cancelling it: true if it was armed. If its callback
    /// runs, the node is given back when that is over.
    pub fn free(&self, caller: &impl Caller, handle: Handle) -> Result<bool, Error> {
        let (index, node, g) = self.node(handle)?;
        let mut s = node.state.load(Ordering::Acquire);
        loop {
            if !state::same_gen(s, g) || s & ZOMBIE != 0 {
                return Err(Error::Stale);
            }
            let next = if s & RUNNING != 0 {
                (s & !PENDING) | ZOMBIE
            } else {
                // The next generation's bits: every older exchange fails now,
                // and of two frees one.
                state::resting(g + 1)
            };
            match node
                .state
                .compare_exchange_weak(s, next, Ordering::AcqRel, Ordering::Acquire)
            {
                Ok(_) => {
                    probe!(cancel, self, handle, s & ARMED);
                    if s & RUNNING == 0 {
                        self.release(self.owned(caller), index, node, g);
                    }
                    return Ok(s & ARMED != 0);
                }
                Err(seen) => s = seen,
            }
        }
    }

    /// The deadline of a timer if it is armed.
    pub fn due(&self, handle: Handle) -> Result<Option<Due>, Error> {
        let (_, node, g) = self.node(handle)?;
        let s = node.state.load(Ordering::Acquire);
        if !state::same_gen(s, g) || s & ZOMBIE != 0 {
            return Err(Error::Stale);
        }
        if s & ARMED == 0 {
            return Ok(None);
        }
        let tick = state::decode(s, self.current.load(Ordering::Relaxed));
        Ok(Some(self.exact(node, tick).0))
    }

    /// The deadline in nanoseconds that belongs to a tick: what was asked for,
    /// unless another thread armed for later at the same moment; then the
    /// tick's own time. With the number of periods that were left out before it
    /// because the callback was still running: the driver does not write down
    /// the deadlines of those.
    #[inline]
    pub(crate) fn exact(&self, node: &Node, tick: u64) -> (Due, u64) {
        if tick == NEVER {
            return (Due::NEVER, 0);
        }
        let end = self.scale.ns(tick);
        // Relaxed, all: hints.
        let mut ns = node.due_ns.load(Ordering::Relaxed).min(end);
        let mut left_out = 0;
        if node.kind.load(Ordering::Relaxed) & (BEHIND | BURST) == BEHIND {
            let period = node.period.load(Ordering::Relaxed);
            left_out = (end - ns).checked_div(period).unwrap_or(0);
            ns += left_out * period;
        }
        (Due { tick, ns }, left_out)
    }

    /// Entries in buckets.
    pub fn entries(&self) -> u64 {
        let d = &self.driver.count;
        let taken = d.taken.get();
        (self.total(|c| &c.pushes) + d.placed.get()).saturating_sub(taken)
    }

    /// Timers that are pending, and how often those that exist were moved
    /// without a push. Looks at every node.
    pub fn survey(&self) -> (u64, u64) {
        let (mut pending, mut moves) = (0, 0);
        for node in (0..self.slab.high_water()).filter_map(|i| self.slab.get(i)) {
            // Relaxed, both: statistics.
            pending += node.state.load(Ordering::Relaxed) & ARMED;
            if node.generation.load(Ordering::Relaxed) & 1 != 0 {
                moves += u64::from(node.moves());
            }
        }
        (pending, moves)
    }

    /// Nodes that have a promise, that is, entries that are not dead.
    pub fn promises(&self) -> u64 {
        let unlinks = self.total(|c| &c.unlinks);
        self.total(|c| &c.links).saturating_sub(unlinks)
    }

    /// How many timers exist; exact when nobody is making or freeing any.
    pub fn live(&self) -> u64 {
        let freed = self.total(|c| &c.frees);
        self.total(|c| &c.setups).saturating_sub(freed)
    }
}

impl<M: Memory> Drop for Wheel<M> {
    fn drop(&mut self) {
        // Acquire: pairs with the Release in `attach`.
        let mut at = self.shards.load(Ordering::Acquire);
        while !at.is_null() {
            let s = self.shard(Token(at));
            let next = s.next.load(Ordering::Relaxed);
            // SAFETY: `&mut self`: nobody uses the shards any more.
            unsafe { s.unmap(&self.memory) };
            at = next;
        }
        let soonest = self.driver.soonest.load(Ordering::Relaxed);
        if !soonest.is_null() {
            // SAFETY: mapped with this size by `new`.
            unsafe { self.memory.unmap(soonest.cast(), self.soonest_bytes()) };
        }
        // SAFETY: as above; made from this memory.
        unsafe { self.slab.unmap(&self.memory) };
    }
}

/// A tick that can be waited for: after the hand. What is further away than the
/// greatest tick (292 years of nanoseconds) never comes.
#[inline]
fn clamp(tick: u64, hand: u64) -> u64 {
    if tick > MAX_TICK {
        NEVER
    } else {
        tick.max(hand + 1)
    }
}

/// What is left of a slack that begins at tick `due`, at `tick`, which is not before.
pub(crate) fn left_of(slack: u64, due: u64, tick: u64) -> u64 {
    slack.saturating_sub(tick.saturating_sub(due))
}

/// The bit of a link whose thread has not made sure yet that the driver will come
/// by: the driver goes by it, others do not.
pub(crate) const TENTATIVE: u64 = 1 << 63;

/// Whether a link stands for a visit at or before `tick`, and surely.
#[inline]
pub(crate) fn promised(link: u64, tick: u64) -> bool {
    // One comparison: no promise is 0, which becomes the greatest, and what is
    // tentative is greater than any tick.
    let trusted = if planted("tentative_promise_is_trusted") {
        link & !TENTATIVE
    } else {
        link
    };
    trusted.wrapping_sub(1) <= tick
}
