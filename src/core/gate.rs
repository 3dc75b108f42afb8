//! The gate: one word that every arm compares its deadline with.
//!
//! The word is the complement of the hand, which is the last goal that a driver has announced.
//! So `tick + word` is the number of ticks between the hand and `tick`. One comparison with a
//! limit then says whether the deadline is in the future and not far. Two values are not a
//! hand; both make that sum larger than every limit:
//!
//! | value    | meaning                                                       |
//! |----------|---------------------------------------------------------------|
//! | `WIPED`  | this process is a forked child: the kernel has cleared the page |
//! | `CLOSED` | the wheel is drained                                          |
//!
//! The gate also has the number of the wheel, which is 0 in a child, and its owner (`owner.rs`).

use super::error::Error;
use super::ticks::Ticks;
use crate::sync::{fence_after_rmw, AtomicU64, Ordering};
use core::cell::UnsafeCell;

const WIPED: u64 = 0;
const CLOSED: u64 = 1;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum View {
    /// With the hand.
    Open(u64),
    /// No timer can be armed any more.
    Closed,
}

/// Who owns the wheel: the complement of the identity of a thread; or one of two values that no
/// identity has as its complement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Owner(u64);

/// Any thread may use the timers. Also in a forked child, where the page is cleared.
pub(crate) const SHARED: Owner = Owner(0);
/// The wheel had an owner.
pub(crate) const NOBODY: Owner = Owner(1);

impl Owner {
    /// Whether the thread with this identity owns the wheel.
    #[inline(always)]
    pub fn is(self, identity: u64) -> bool {
        self.0 == !identity
    }

    pub fn identity(self) -> u64 {
        !self.0
    }
}

#[repr(C, align(128))]
pub(crate) struct Gate {
    word: AtomicU64,
    /// An [`Owner`].
    owner: AtomicU64,
    /// The limit of the shortest way to arm, in ticks ahead of the hand.
    near: AtomicU64,
    /// The hand, also of a closed wheel.
    hand: AtomicU64,
    /// Changes only by a fork.
    id: UnsafeCell<u64>,
}

/// The word as it was read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Seen(u64);

impl Seen {
    /// Ticks between the hand and `tick`, both excluded. Beyond every limit if
    /// `tick` is not after the hand, or the gate is not open.
    #[inline(always)]
    pub fn beyond(self, tick: u64) -> u64 {
        tick.wrapping_add(self.0)
    }
}

impl Gate {
    /// `owner` is the identity of the thread that is to own the wheel, if one is.
    pub fn new(id: u64, hand: u64, ticks: &Ticks, owner: Option<u64>) -> Gate {
        Gate {
            word: AtomicU64::new(!hand),
            owner: AtomicU64::new(owner.map_or(SHARED.0, |identity| !identity)),
            near: AtomicU64::new(ticks.near(hand)),
            hand: AtomicU64::new(hand),
            id: UnsafeCell::new(id),
        }
    }

    /// Acquire: pairs with `announce`.
    #[inline(always)]
    pub fn seen(&self) -> Seen {
        Seen(self.word.load(Ordering::Acquire))
    }

    /// The limit of the shortest way. Relaxed: an old limit is right for as
    /// long as the exchange that follows it may take.
    #[inline(always)]
    pub fn near(&self) -> u64 {
        self.near.load(Ordering::Relaxed)
    }

    /// The number of the wheel; 0 in a forked child.
    #[inline(always)]
    pub fn id(&self) -> u64 {
        // SAFETY: only the kernel writes it, when it clears the page of a child.
        unsafe { *self.id.get() }
    }

    /// Relaxed: a thread that owns the wheel has written it itself.
    #[inline(always)]
    pub fn owner(&self) -> Owner {
        Owner(self.owner.load(Ordering::Relaxed))
    }

    #[inline(always)]
    pub fn is_owned(&self) -> bool {
        self.owner() != SHARED
    }

    /// Whether the owner stores the states: the wheel has one, and no drain has begun.
    #[inline(always)]
    pub fn is_plain(&self) -> bool {
        // Relaxed: the driver closes it, which is the owner.
        self.is_owned() && self.word.load(Ordering::Relaxed) > CLOSED
    }

    /// The owner gives the wheel up. Release: all that it wrote; pairs with `pass_to`.
    pub fn give_up(&self) {
        self.owner.store(NOBODY.0, Ordering::Release);
    }

    /// A thread takes the wheel from an owner that does not use it any more.
    pub fn pass_to(&self, from: Owner, identity: u64) -> Result<(), Error> {
        // Acquire: pairs with `give_up`.
        self.owner
            .compare_exchange(from.0, !identity, Ordering::Acquire, Ordering::Relaxed)
            .map(|_| ())
            .map_err(|_| Error::Busy)
    }

    pub fn is_closed(&self) -> bool {
        // Acquire: pairs with `close`.
        self.word.load(Ordering::Acquire) == CLOSED
    }

    #[inline]
    pub fn view(&self) -> View {
        // Acquire: pairs with `announce`.
        match self.word.load(Ordering::Acquire) {
            WIPED | CLOSED => View::Closed,
            word => View::Open(!word),
        }
    }

    /// The hand, also of a closed wheel; 0 in a forked child.
    #[inline]
    pub fn hand(&self) -> u64 {
        match self.view() {
            View::Open(hand) => hand,
            // Relaxed: written before the word.
            View::Closed => self.hand.load(Ordering::Relaxed),
        }
    }

    /// Disables the shortest way to arm, if the hand is beyond its limit. Driver only.
    fn limit_near(&self, hand: u64, ticks: &Ticks) {
        if ticks.is_beyond_near(hand) {
            // Relaxed: before the word.
            self.near.store(0, Ordering::Relaxed);
        }
    }

    /// Step `sweep.announce`: for arms the hand is at `goal` from now on. Followed by
    /// a fence. Driver only.
    pub fn announce(&self, goal: u64, ticks: &Ticks) {
        self.limit_near(goal, ticks);
        // Relaxed: written by the driver alone, before the word.
        self.hand.store(goal, Ordering::Relaxed);
        // A read-modify-write is the cheapest fence. Release: pairs with `seen` and
        // `view`. A gate that is wiped or closed stays so. There an arm fails, and the end of
        // a callback leaves its timer to the drain: nothing needs the fence.
        if self.word.load(Ordering::Relaxed) > CLOSED {
            self.word.swap(!goal, Ordering::AcqRel);
        }
        fence_after_rmw();
    }

    /// The same where no thread relies on the gate for a tick: in an owned wheel. Without a fence,
    /// since the hand goes less than a step.
    #[inline(always)]
    pub fn announce_to_senders(&self, goal: u64, ticks: &Ticks) {
        self.limit_near(goal, ticks);
        // Relaxed, both: the driver's own words.
        self.hand.store(goal, Ordering::Relaxed);
        if self.word.load(Ordering::Relaxed) > CLOSED {
            // Release: pairs with `seen` and `view`.
            self.word.store(!goal, Ordering::Release);
        }
    }

    /// Step `drain.close`. Followed by a fence. Driver only.
    pub fn close(&self) {
        // Relaxed: the driver's own word unless it is wiped.
        if self.word.load(Ordering::Relaxed) != WIPED {
            self.word.swap(CLOSED, Ordering::AcqRel);
        }
        fence_after_rmw();
    }
}
