//! The wheel: the words that all threads share, and how a thread gets a shard.

use super::buckets::Buckets;
use super::driver::words::{Driver, Held, Quiet};
use super::error::Error;
use super::gate::Gate;
use super::kick::Kick;
use super::levels::Levels;
use super::memory::{Memory, PAGE};
use super::node::{Hot, Link};
use super::place::make_at;
use super::shard::Producer;
pub(crate) use super::shard::Shard;
use super::slab::{Slab, MOST};
use super::state::{index_of, Handle, StateWord, GEN_MASK, NEVER};
use super::stats::{Count, Driven, Tally};
use super::ticks::{Ticks, END_OF_TIME, LONGEST_TICK};
use crate::sync::{fence, AtomicPtr, AtomicU32, AtomicU64, Guarded, Ordering};
use std::mem::MaybeUninit;

/// A shape, a limit and a start.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Config {
    pub levels: u32,
    pub slot_bits: u32,
    pub limit: u32,
    pub tick_ns: u64,
    /// Where the hand starts, in nanoseconds.
    pub start_ns: u64,
    /// Makes the handles of different wheels differ.
    pub salt: u64,
    /// The number that a thread finds its shard by. Not 0.
    pub id: u64,
    /// Callbacks run in other threads than the driver's.
    pub pooled: bool,
}

/// The calling thread, as the wheel needs it.
pub(crate) trait Caller {
    /// The calling thread's shard; it takes one if it has none.
    fn token(&self) -> Result<Token, Error>;
    /// The same, if it is at hand. `None` in a forked child.
    fn token_at_hand(&self) -> Option<Token>;
    /// On the caller's clock, the moment just after its time: a deadline that has
    /// passed is due at the first tick from there. That may be ahead of the hand,
    /// which lags while nothing is due.
    fn first_ns(&self) -> u64 {
        0
    }
    /// Wakes the driver, which is asleep: it looks again, however late it is. False if
    /// the system refuses.
    fn wake_driver(&self) -> bool;
}

/// The right to push into one shard, held by one thread at a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Token(pub(crate) *mut Shard);

#[repr(C)]
pub(crate) struct Wheel<M: Memory> {
    // The first page, which the kernel clears in a forked child.
    pub gate: Gate,
    pub(super) callback: Callback,
    pub(super) quiet: Quiet,
    /// Fills the page. An alignment would make the whole wheel a multiple of a page.
    rest: MaybeUninit<[u8; REST]>,
    // Written once, read by every call.
    pub ticks: Ticks,
    pub(super) salt: u32,
    pub(super) pooled: bool,
    /// Of live timers.
    pub(super) limit: u64,
    pub(super) buckets: Buckets,
    pub(super) levels: Levels,
    pub(super) memory: M,
    pub shared: Shared,
    pub(super) driver: Guarded<Driver>,
    // Last: of its directory a small wheel touches the beginning alone.
    pub slab: Slab,
}

// The model checkers' threads have small stacks, and do not fork.
const REST: usize = if cfg!(checked) {
    0
} else {
    PAGE - size_of::<Gate>() - size_of::<Callback>() - size_of::<Quiet>()
};

/// The callback that the driver runs itself, and the threads that wait for its end.
#[repr(C, align(128))]
pub(crate) struct Callback {
    /// The timer whose callback the driver runs, or 0.
    pub running: AtomicU64,
    /// [`NOBODY`] and the number of threads that wait; or 0 in a forked child. So the
    /// driver finds both out with one load.
    pub waiters: AtomicU32,
}

/// No thread waits, and this is no child.
pub(super) const NOBODY: u32 = 1;

/// A timer may be without a promise.
pub(super) const WANTED: u32 = 1;
/// An entry that a link may name was dropped, too.
pub(crate) const DROPPED: u32 = 2;

#[derive(Default)]
#[repr(C, align(128))]
pub(crate) struct Shared {
    /// No entry wants a visit before this tick.
    pub next_visit: AtomicU64,
    /// 0 while the driver is awake; the tick until which it sleeps; NEVER while it
    /// searches for that tick.
    pub alarm: AtomicU64,
    /// No thread may rely on a promise before this tick: the alarm, or NEVER while no
    /// promise counts.
    pub floor: AtomicU64,
    pub kick: Kick,
    /// Odd while a thread drives. A reader sees from it that no thread drove.
    pub driving: AtomicU32,
    /// Not 0 if there was no memory for a promise: the driver goes through all nodes until
    /// all promises hold again.
    pub rescue: AtomicU32,
    /// 1 if the last sweep has stopped before its goal.
    pub stopped: AtomicU32,
    /// The tick that the driver has reached.
    pub hand: AtomicU64,
    /// Requests for a clean-up of dead entries since the last one finished.
    pub clean: AtomicU32,
    shards: AtomicPtr<Shard>,
    shard_count: AtomicU32,
    /// The counts of threads without a shard.
    pub strays: Count,
    /// Timers that are due while their callbacks run.
    pub(super) held: Held,
    pub count: Driven,
}

impl<M: Memory> Wheel<M> {
    /// A wheel whose hand starts at `config.start_ns`; or nothing is left there.
    ///
    /// # Safety
    /// `at` is zeroed, and the caller's alone to write.
    pub unsafe fn make(at: *mut Self, memory: M, config: Config) -> Result<(), Error> {
        let Config {
            levels,
            slot_bits,
            tick_ns,
            ..
        } = config;
        if !(1..=8).contains(&levels)
            || !(1..=16).contains(&slot_bits)
            || levels * slot_bits > 48
            || config.start_ns >= END_OF_TIME
            || !(1..=LONGEST_TICK).contains(&tick_ns)
            || config.limit == 0
        {
            return Err(Error::Invalid);
        }
        let ticks = Ticks::new(tick_ns);
        let hand = ticks.at_or_before(config.start_ns);
        let levels = Levels::new(levels, slot_bits);
        let buckets = Buckets::new(&memory, &levels).ok_or(Error::Memory)?;
        let shared = Shared {
            next_visit: AtomicU64::new(NEVER),
            hand: AtomicU64::new(hand),
            ..Shared::default()
        };
        let callback = Callback {
            running: AtomicU64::new(0),
            waiters: AtomicU32::new(NOBODY),
        };
        // SAFETY: the caller's promise.
        unsafe {
            Slab::make(&raw mut (*at).slab, config.limit);
            make_at!(at => Wheel {
                gate: Gate::new(config.id, hand, &ticks),
                callback: callback,
                quiet: Quiet::default(),
                ticks: ticks,
                salt: config.salt as u32 & GEN_MASK,
                pooled: config.pooled,
                limit: config.limit.min(MOST).into(),
                buckets: buckets,
                levels: levels,
                memory: memory,
                shared: shared,
                driver: Guarded::new(Driver::new(hand)),
                ; rest, slab
            });
        }
        // SAFETY: just made. The driver's own shard is the first.
        let own = unsafe { &*at }.attach();
        // SAFETY: made, and seen by nobody else.
        own.map(|_| ())
            .inspect_err(|_| unsafe { std::ptr::drop_in_place(at) })
    }

    /// A shard for the calling thread: one that was given up, or a new one.
    pub fn attach(&self) -> Result<Token, Error> {
        let given_up = self.find_shard(|s| {
            // Relaxed: a look. Acquire: pairs with the Release in `detach`.
            s.owned.load(Ordering::Relaxed) == 0
                && s.owned
                    .compare_exchange(0, 1, Ordering::Acquire, Ordering::Relaxed)
                    .is_ok()
        });
        if let Some(shard) = given_up {
            return Ok(Token(shard));
        }
        // Relaxed: a number of its own.
        let id = self.shared.shard_count.fetch_add(1, Ordering::Relaxed);
        let fresh = Shard::make(&self.memory, id, self.buckets.count);
        if fresh.is_null() {
            return Err(Error::Memory);
        }
        self.buckets.adopt(id, fresh);
        Shard::append(&self.shared.shards, fresh);
        Ok(Token(fresh))
    }

    /// Gives a shard back; its entries stay in force.
    pub fn detach(&self, token: Token) {
        // SAFETY: a token is a shard of this wheel.
        // Release: hands the owner's words to the next one, in `attach`.
        unsafe { &*token.0 }.owned.store(0, Ordering::Release);
    }

    #[inline(always)]
    pub(crate) fn producer(&self, token: Token) -> Producer<'_> {
        // SAFETY: tokens are made by `attach` of this wheel, whose shards live
        // as long as it, and are the calling thread's.
        unsafe { Producer::new(token.0) }
    }

    /// The driver's own shard, which is the first.
    pub(super) fn driver_own(&self) -> Producer<'_> {
        // Relaxed: the wheel was made with it.
        self.producer(Token(self.shared.shards.load(Ordering::Relaxed)))
    }

    /// The first shard for which `f` holds.
    pub(crate) fn find_shard(&self, mut f: impl FnMut(&Shard) -> bool) -> Option<*mut Shard> {
        // Acquire, both: pairs with `Shard::append`.
        let mut at = self.shared.shards.load(Ordering::Acquire);
        while !at.is_null() {
            // SAFETY: shards live as long as the wheel.
            let shard = unsafe { &*at };
            if f(shard) {
                return Some(at);
            }
            at = shard.next.load(Ordering::Acquire);
        }
        None
    }

    /// The node and the state word of a timer that exists.
    #[inline]
    pub(super) fn live_node(&self, handle: Handle) -> Result<(u32, &Hot, StateWord), Error> {
        if self.gate.id() == 0 {
            return Err(Error::Shutdown);
        }
        let index = index_of(handle);
        let hot = self.slab.hot(index);
        // Acquire: pairs with the Release of the thread that changed it last.
        let state = StateWord(hot.state.load(Ordering::Acquire));
        // Relaxed, and behind the word: the high part is that of the word's life or later.
        let link = Link(hot.link.load(Ordering::Relaxed));
        if link.differs_from(handle) != 0 || !state.is_of(handle) {
            return Err(Error::Stale);
        }
        Ok((index, hot, state))
    }

    /// The state word again, after another thread has changed it: of the same life, as far
    /// as the whole handle tells.
    #[cold]
    #[inline(never)]
    pub(super) fn state_again(&self, handle: Handle) -> Result<StateWord, Error> {
        Ok(self.live_node(handle)?.2)
    }

    #[inline]
    pub fn prefetch(&self, handle: Handle) {
        self.slab.prefetch_hot(index_of(handle));
    }

    /// Counts, for a thread that may have no shard.
    pub(super) fn count(
        &self,
        own: Option<Producer<'_>>,
        which: impl Fn(&Count) -> &Tally,
        by: u64,
    ) {
        match own {
            Some(own) => which(&own.count).bump(by),
            None => which(&self.shared.strays).add(by),
        }
    }

    pub(super) fn count_arm(&self, own: Option<Producer<'_>>, was: bool) {
        self.count(own, |c| &c.arms, 1);
        self.count(own, |c| &c.moves, was.into());
    }

    pub(super) fn owned(&self, caller: &impl Caller) -> Option<Producer<'_>> {
        caller.token().ok().map(|token| self.producer(token))
    }

    /// The sum of a count over all threads; exact while no thread counts.
    pub fn total(&self, which: impl Fn(&Count) -> &Tally) -> u64 {
        let mut sum = which(&self.shared.strays).seen();
        self.find_shard(|s| {
            sum = sum.wrapping_add(which(&s.count).seen());
            false
        });
        sum
    }

    /// Timers that exist; exact while no thread makes or frees one. Otherwise not more than
    /// there are: one that was freed before another was made does not count beside it.
    pub fn live(&self) -> u64 {
        let made = self.total(|c| &c.setups);
        made.saturating_sub(self.total(|c| &c.frees))
    }

    /// Arms of timers that were not pending.
    pub fn armed(&self) -> u64 {
        let moves = self.total(|c| &c.moves);
        self.total(|c| &c.arms).saturating_sub(moves)
    }

    /// Timers that are pending; exact while no thread uses the wheel.
    pub fn pending(&self) -> u64 {
        let d = &self.shared.count;
        let ended = self.total(|c| &c.cancels) + d.drained.get() + d.fired.get();
        (self.armed() + d.periods.get()).saturating_sub(ended)
    }

    /// Entries in buckets.
    pub fn entries(&self) -> u64 {
        let d = &self.shared.count;
        (self.total(|c| &c.pushes) + d.placed.get()).saturating_sub(d.taken.get())
    }

    /// The time that the hand has reached: the clock never shows less. 0 in a forked
    /// child.
    #[inline]
    pub fn hand_ns(&self) -> u64 {
        match self.ticks.ns(self.gate.hand()) {
            NEVER => 0,
            ns => ns,
        }
    }
}

impl<M: Memory> Drop for Wheel<M> {
    fn drop(&mut self) {
        fence(Ordering::SeqCst);
        // Acquire: pairs with `Shard::append`.
        let mut at = self.shared.shards.load(Ordering::Acquire);
        while !at.is_null() {
            // SAFETY: `&mut self`: nobody uses the shards any more.
            unsafe {
                let next = (*at).next.load(Ordering::Relaxed);
                Shard::unmap(at, &self.memory);
                at = next;
            }
        }
        // SAFETY: as above; made from this memory.
        unsafe {
            self.buckets.unmap(&self.memory);
            self.slab.unmap(&self.memory);
        }
    }
}
