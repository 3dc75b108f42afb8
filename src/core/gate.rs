//! The gate: one word that every arm compares its deadline with.
//!
//! The word is the complement of the hand, which is the last goal that a driver has announced.
//! So `tick + word` is the number of ticks between the hand and `tick`. One comparison with a
//! limit then says whether the deadline is in the future and not far. The highest bit of a word
//! is set while the gate is *open*. Without it that sum is larger than every limit:
//!
//! | the bit  | the rest of the word | meaning                                       |
//! |----------|----------------------|-----------------------------------------------|
//! | 1        | of the hand          | timers can be armed                           |
//! | 0        | of the hand          | the wheel is drained                          |
//! | 0        | 0                    | this process is a forked child: the kernel has cleared the page |
//!
//! The gate also has the number of the wheel, which is 0 in a child, and its owner (`owner.rs`).

use super::Error;
use crate::sync::{fence_after_rmw, AtomicU64, Ordering};
use core::cell::UnsafeCell;

const OPEN: u64 = 1 << 63;
/// The word in a forked child.
const WIPED: u64 = 0;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum View {
    /// With the hand.
    Open(u64),
    /// No timer can be armed any more.
    Closed,
}

/// The owner of the wheel: the complement of the identity of a thread; or one of two values that no
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
    pub fn new(id: u64, hand: u64, owner: Option<u64>) -> Gate {
        Gate {
            word: AtomicU64::new(!hand),
            owner: AtomicU64::new(owner.map_or(SHARED.0, |identity| !identity)),
            id: UnsafeCell::new(id),
        }
    }

    /// Acquire: pairs with `announce`.
    #[inline(always)]
    pub fn seen(&self) -> Seen {
        Seen(self.word.load(Ordering::Acquire))
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
        self.is_owned() && self.word.load(Ordering::Relaxed) >= OPEN
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
        self.view() == View::Closed
    }

    #[inline]
    pub fn view(&self) -> View {
        // Acquire: pairs with `announce` and `close`.
        match self.word.load(Ordering::Acquire) {
            word @ OPEN.. => View::Open(!word),
            _ => View::Closed,
        }
    }

    /// The hand, also of a closed wheel; 0 in a forked child.
    #[inline]
    pub fn hand(&self) -> u64 {
        // Acquire: as above.
        match self.word.load(Ordering::Acquire) {
            WIPED => 0,
            word => !(word | OPEN),
        }
    }

    /// The word for a hand at `goal`, closed if the gate is closed; `None` in a forked child. Driver
    /// only.
    #[inline(always)]
    fn moved_to(&self, goal: u64) -> Option<u64> {
        // Relaxed: the driver's own word unless it is wiped.
        match self.word.load(Ordering::Relaxed) {
            WIPED => None,
            word => Some(!goal & (word | !OPEN)),
        }
    }

    /// Step `sweep.announce`: for arms the hand is at `goal` from now on. Followed by
    /// a fence. Driver only.
    pub fn announce(&self, goal: u64) {
        // A read-modify-write is the cheapest fence. Release: pairs with `seen` and
        // `view`. A gate that is wiped stays so: there an arm fails, and nothing needs the fence.
        if let Some(word) = self.moved_to(goal) {
            self.word.swap(word, Ordering::AcqRel);
        }
        fence_after_rmw();
    }

    /// As [`Gate::announce`] in an owned wheel, where no thread relies on a tick. Without a fence,
    /// since the hand goes less than a step.
    #[inline(always)]
    pub fn announce_to_senders(&self, goal: u64) {
        if let Some(word) = self.moved_to(goal) {
            // Release: pairs with `seen` and `view`.
            self.word.store(word, Ordering::Release);
        }
    }

    /// Step `drain.close`. Followed by a fence. Driver only.
    pub fn close(&self) {
        self.word.fetch_and(!OPEN, Ordering::AcqRel);
        fence_after_rmw();
    }
}
