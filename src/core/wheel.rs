//! The wheel: the words that all threads share, the words of the driver, and the calling thread.
//! How a handle leads to a timer, and how its state changes; counts; requests to the driver.

use super::alarm::{Alarm, Kick};
use super::buckets::{Buckets, Levels};
use super::gate::Gate;
use super::inbox::{Inboxes, Pass};
use super::record::{Hot, Link};
use super::slab::{Nowhere, Slab, MOST};
use super::state::{index_of, Handle, StateWord, GEN_MASK, NEVER};
use super::stats::{Count, Driven, Tally};
use super::ticks::{Ticks, END_OF_TIME, LONGEST_TICK, SHORTEST_TICK};
use super::{Error, Thread};
use crate::sync::{fence, make_at, AtomicU32, AtomicU64, Guarded, Ordering};
use crate::sys::maps::PAGE;
use core::cell::Cell;
use core::mem::MaybeUninit;

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
    /// The number of the wheel. Not 0.
    pub id: u64,
    /// Callbacks run in other threads than the driver's.
    pub pooled: bool,
    /// The identity of the thread that owns the wheel; `None` for a shared one.
    pub owner: Option<u64>,
}

/// The calling thread, as the wheel needs it.
pub(crate) trait Caller {
    /// The wheel that was called. A caller that contains it returns a reference to its own field, so
    /// that a function needs one register for both.
    #[inline(always)]
    fn wheel<'a>(&'a self, called: &'a Wheel) -> &'a Wheel {
        called
    }
    /// The thread's number; it takes one if it has none.
    fn thread(&self) -> Result<Thread, Error>;
    /// The thread's number, or 0 if it has none.
    fn thread_at_hand(&self) -> Thread;
    /// The thread's number, or 0 if it has none; and whether the thread drives the wheel and is
    /// inside one of the caller's functions.
    #[inline(always)]
    fn thread_inside(&self) -> (Thread, bool) {
        (self.thread_at_hand(), false)
    }
    /// The identity of the thread, which no other thread has, not even one that has ended. The
    /// identity of a thread without a number owns no wheel.
    fn identity(&self) -> u64 {
        self.thread_at_hand().into()
    }
    /// More than each number that a thread of the process has had.
    fn threads(&self) -> Thread;
    /// On the caller's clock, the moment just after its time: a deadline that has
    /// passed is due at the first tick from there. That may be ahead of the hand,
    /// which lags while nothing is due.
    fn first_ns(&self) -> u64 {
        0
    }
    /// Step kick.now: wakes the driver, which is asleep. It looks again, however late it is.
    fn wake_driver(&self) -> Kick;
    /// Whether the driver is woken for a timer of the owner's, who calls this. A loop that the
    /// caller's function wakes is not asleep then.
    fn wakes_owner(&self) -> bool {
        true
    }
}

#[repr(C)]
pub(crate) struct Wheel {
    // The first page, which the kernel clears in a forked child.
    pub gate: Gate,
    pub(super) callback: Callback,
    /// Fills the page. An alignment would make the whole wheel a multiple of a page.
    rest: MaybeUninit<[u8; REST]>,
    // Written once, read by every call.
    pub ticks: Ticks,
    pub(super) salt: u32,
    pub(super) pooled: bool,
    /// Of live timers.
    pub(super) limit: u64,
    // Its first word is read by every call.
    pub inboxes: Inboxes,
    pub alarm: Alarm,
    pub shared: Shared,
    pub(super) driver: Guarded<Driver>,
    // Last: of its directory a small wheel touches the beginning alone.
    pub slab: Slab,
}

// The model checkers' threads have small stacks, and do not fork.
const REST: usize = if cfg!(checked) {
    0
} else {
    PAGE - size_of::<Gate>() - size_of::<Callback>()
};

/// The callback that the driver runs itself, and the threads that wait for its end.
#[repr(C, align(128))]
pub(crate) struct Callback {
    /// The timer whose callback the driver runs, or 0.
    pub running: AtomicU64,
    /// [`NO_WAITER`] and the number of threads that wait; or 0 in a forked child. So the
    /// driver finds both out with one load.
    pub waiters: AtomicU32,
}

/// No thread waits, and this is no child.
pub(super) const NO_WAITER: u32 = 1;

#[derive(Default)]
#[repr(C, align(128))]
pub(crate) struct Shared {
    /// Odd while a thread drives. A reader sees from it that no thread drove.
    pub driving: AtomicU32,
    /// 1 if a request for a visit could not be written as a note: the driver looks at every
    /// timer.
    pub(super) look_at_all: AtomicU32,
    /// All timers that are due by this tick have been visited.
    pub(super) hand: AtomicU64,
    /// The counts of threads without a number.
    pub(super) strays: Count,
    pub count: Driven,
}

/// The driver's own words, which the right to drive opens: what one call leaves to the next. All of
/// them are cells: while the driver runs a callback, it has no exclusive reference to any of them.
pub(super) struct Driver {
    /// The last tick that was swept, or the tick of the sweep.
    pub hand: Cell<u64>,
    /// The goal of the present sweep, as it was announced.
    pub goal: Cell<u64>,
    /// The time of the last call.
    pub asked_ns: Cell<u64>,
    /// The last call came at the time that the call before had announced, or at the same tick.
    pub is_awaited: Cell<bool>,
    /// The levels below this one still have a slot to empty, at the tick of the hand. 0 unless
    /// a sweep has stopped there.
    pub levels_left: Cell<u32>,
    /// A collection has begun, and not ended; with a look at every timer.
    pub collects: Cell<bool>,
    pub looks_at_all: Cell<bool>,
    /// The inbox at which it goes on, and the index at which that look goes on.
    pub pass: Cell<Pass>,
    pub looked_at: Cell<u32>,
    /// The index at which a drain goes on, or 0.
    pub drained: Cell<u32>,
    /// The result of the last settling.
    pub settled: Cell<Settled>,
    pub buckets: Buckets,
}

/// The entry that determines the next visit, as far as the driver knows it.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Settled {
    /// Nothing. Another settling may find a later visit.
    Unknown,
    /// Nothing that another settling could find.
    Enough,
    /// The timer of the entry at this tick: it was pending, and due by then.
    Timer(u32, u64),
}

impl Driver {
    pub fn new(hand: u64, buckets: Buckets) -> Self {
        Driver {
            hand: Cell::new(hand),
            goal: Cell::new(hand),
            asked_ns: Cell::new(0),
            is_awaited: Cell::new(false),
            levels_left: Cell::new(0),
            collects: Cell::new(false),
            looks_at_all: Cell::new(false),
            pass: Cell::default(),
            looked_at: Cell::new(0),
            drained: Cell::new(0),
            settled: Cell::new(Settled::Enough),
            buckets,
        }
    }

    /// Whether a call has stopped before its goal, or a timer is due.
    pub fn is_interrupted(&self) -> bool {
        self.collects.get()
            || self.hand.get() != self.goal.get()
            || self.levels_left.get() != 0
            || self.buckets.has_overdue()
    }
}

impl Wheel {
    /// A wheel whose hand starts at `config.start_ns`; or nothing is left there.
    ///
    /// # Safety
    /// `at` is zeroed, and the caller's alone to write.
    pub unsafe fn make(at: *mut Self, config: Config) -> Result<(), Error> {
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
            || !(SHORTEST_TICK..=LONGEST_TICK).contains(&tick_ns)
            || config.limit == 0
        {
            return Err(Error::Invalid);
        }
        let ticks = Ticks::new(tick_ns);
        let hand = ticks.at_or_before(config.start_ns);
        let nowhere = Nowhere::get().ok_or(Error::Memory)?;
        let buckets = Buckets::new(Levels::new(levels, slot_bits))?;
        let shared = Shared {
            hand: AtomicU64::new(hand),
            ..Shared::default()
        };
        let callback = Callback {
            running: AtomicU64::new(0),
            waiters: AtomicU32::new(NO_WAITER),
        };
        // SAFETY: the caller's promise.
        unsafe {
            Inboxes::make(&raw mut (*at).inboxes).inspect_err(|_| buckets.unmap())?;
            Slab::make(&raw mut (*at).slab, nowhere, config.limit);
            make_at!(at => Wheel {
                gate: Gate::new(config.id, hand, config.owner),
                callback: callback,
                ticks: ticks,
                salt: config.salt as u32 & GEN_MASK,
                pooled: config.pooled,
                limit: config.limit.min(MOST).into(),
                alarm: Alarm::new(),
                shared: shared,
                driver: Guarded::new(Driver::new(hand, buckets)),
                ; rest, inboxes, slab
            });
        }
        Ok(())
    }

    #[inline]
    pub fn prefetch(&self, handle: Handle) {
        self.slab.prefetch(index_of(handle), self.gate.is_owned());
    }

    // Counts.

    /// Counts, for a thread that may have no number.
    #[inline]
    pub(super) fn count(&self, thread: Thread, which: impl Fn(&Count) -> &Tally, by: u64) {
        match thread {
            0 => which(&self.shared.strays).add(by),
            _ => which(&self.inboxes.of(thread).count).bump(by),
        }
    }

    /// The sum of a count over all threads; exact while no thread counts. One function for all
    /// counts: the library is small, and nobody waits for a sum.
    #[inline(never)]
    pub fn total(&self, threads: Thread, which: fn(&Count) -> &Tally) -> u64 {
        let counts = (1..threads).map(|thread| which(&self.inboxes.of(thread).count).seen());
        counts.fold(which(&self.shared.strays).seen(), u64::wrapping_add)
    }

    /// Timers that exist; exact while no thread makes or frees one. Otherwise not more than
    /// there are: one that was freed before another was made does not count twice.
    pub fn live(&self, threads: Thread) -> u64 {
        let made = self.total(threads, |c| &c.setups);
        made.saturating_sub(self.total(threads, |c| &c.frees))
    }

    /// Arms of timers that were not pending.
    pub fn armed(&self, threads: Thread) -> u64 {
        let moves = self.total(threads, |c| &c.moves);
        self.total(threads, |c| &c.arms).saturating_sub(moves)
    }

    /// Timers that are pending; exact while no thread uses the wheel.
    pub fn pending(&self, threads: Thread) -> u64 {
        let d = &self.shared.count;
        let ended = self.total(threads, |c| &c.cancels) + d.drained.get() + d.fired.get();
        (self.armed(threads) + d.periods.get()).saturating_sub(ended)
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

    // Requests to the driver: it wakes by a tick, and looks at every timer.

    /// Step arm.wake: the driver looks by `tick`. Follows a fence.
    #[inline(always)]
    pub(super) fn wake_for(&self, caller: &impl Caller, thread: Thread, tick: u64) {
        let kicked = self.alarm.wake_by(tick, || {
            probe!(kick, self, tick);
            caller.wake_driver()
        });
        if kicked {
            self.count(thread, |c| &c.kicks, 1);
        }
    }

    /// Wakes the driver, after a call of this thread that wanted to.
    pub fn kick(&self, caller: &impl Caller) {
        if self.alarm.kick_once(|| caller.wake_driver()) {
            self.count(caller.thread_at_hand(), |c| &c.kicks, 1);
        }
    }

    /// Requests a look at every timer, by a thread that has no memory for a note.
    pub(super) fn request_look_at_all(&self, caller: &impl Caller) {
        // Release: pairs with the Acquire in `collect_rest`.
        self.shared.look_at_all.store(1, Ordering::Release);
        fence(Ordering::SeqCst);
        // One is due now.
        self.wake_for(caller, 0, 0);
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

    /// Exchanges a state word; returns the word that was there. AcqRel: a thread that sees
    /// the new word also sees what this thread did before.
    #[inline]
    pub(super) fn exchange(
        &self,
        hot: &Hot,
        old: StateWord,
        new: StateWord,
    ) -> Result<StateWord, StateWord> {
        hot.state
            .compare_exchange(old.0, new.0, Ordering::AcqRel, Ordering::Acquire)
            .map(StateWord)
            .map_err(StateWord)
    }

    /// Changes a state word, by a thread that may change any timer: as [`Wheel::exchange`]. The
    /// owner stores it.
    #[inline(always)]
    pub(super) fn change(
        &self,
        hot: &Hot,
        old: StateWord,
        new: StateWord,
    ) -> Result<StateWord, StateWord> {
        self.change_if(self.gate.is_plain(), hot, old, new)
    }

    /// Exchanges a state word, or stores it where no other thread may change it: `plainly`.
    #[inline(always)]
    pub(super) fn change_if(
        &self,
        plainly: bool,
        hot: &Hot,
        old: StateWord,
        new: StateWord,
    ) -> Result<StateWord, StateWord> {
        if plainly {
            // Release: for threads that ask about the timer.
            hot.state.store(new.0, Ordering::Release);
            return Ok(old);
        }
        self.exchange(hot, old, new)
    }

    /// Whether the node is in a life with the high part of a handle.
    pub(super) fn has_high_part(&self, hot: &Hot, handle: Handle) -> bool {
        // Relaxed: the high part changes only when the word does.
        Link(hot.link.load(Ordering::Relaxed)).differs_from(handle) == 0
    }
}

impl Drop for Wheel {
    fn drop(&mut self) {
        fence(Ordering::SeqCst);
        // SAFETY: `&mut self`: nobody uses it any more.
        unsafe {
            self.driver.open().buckets.unmap();
            self.inboxes.unmap();
            self.slab.unmap();
        }
    }
}
