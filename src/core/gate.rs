//! The gate: one word that every arm compares its deadline with.
//!
//! The word is the complement of the hand. So `tick + word` is the number of ticks
//! between the hand and `tick`. One comparison with a limit then says whether the
//! deadline is in the future and not far. Some values are not a hand; each makes
//! that sum larger than every limit:
//!
//! | value    | meaning                                                       |
//! |----------|---------------------------------------------------------------|
//! | `WIPED`  | this process is a forked child: the kernel has cleared the page |
//! | `CLOSED` | the wheel is drained                                          |
//! | 2 to 2^48 - 1 | the driver is about to leap (`driver/leap.rs`)           |
//!
//! The gate also has the wheel's id. A thread compares it with the id that it has at
//! hand. In a child they differ.

use super::ticks::Ticks;
use crate::sync::{fence_after_rmw, AtomicU64, Ordering};
use std::cell::UnsafeCell;

const WIPED: u64 = 0;
const CLOSED: u64 = 1;
/// The words of leaps, used in turn. So a thread that has seen one leap does not
/// call off a later one: no thread is stopped for as many leaps.
const FIRST_LEAP: u64 = 2;
const LAST_LEAP: u64 = (1 << 48) - 1;

/// A leap: which one, and the hand that it begins at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Leap {
    word: u64,
    from: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum View {
    /// With the hand.
    Open(u64),
    Leaping(Leap),
    /// No timer can be armed any more.
    Closed,
}

#[repr(C, align(128))]
pub(crate) struct Gate {
    word: AtomicU64,
    /// The limit of the shortest way to arm, in ticks ahead of the hand. It is for wheels
    /// where a unit of a promise is a tick, and 0 on others.
    near: AtomicU64,
    /// The last announced hand.
    hand: AtomicU64,
    /// The word of the last leap.
    leap: AtomicU64,
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

    /// The hand, if the gate is known to be open.
    #[inline(always)]
    pub fn hand(self) -> u64 {
        !self.0
    }
}

impl Gate {
    pub fn new(id: u64, hand: u64, ticks: &Ticks) -> Gate {
        let near = match ticks.unit_bits {
            0 => ticks.near(hand),
            _ => 0,
        };
        Gate {
            word: AtomicU64::new(!hand),
            near: AtomicU64::new(near),
            hand: AtomicU64::new(hand),
            leap: AtomicU64::new(LAST_LEAP),
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

    /// The wheel's id; 0 in a forked child.
    #[inline(always)]
    pub fn id(&self) -> u64 {
        // SAFETY: only the kernel writes it, when it clears the page of a child.
        unsafe { *self.id.get() }
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
            // Relaxed: written before the word. After the next write this leap can
            // no longer be called off.
            word @ FIRST_LEAP..=LAST_LEAP => View::Leaping(Leap {
                word,
                from: self.hand.load(Ordering::Relaxed),
            }),
            word => View::Open(!word),
        }
    }

    /// The hand, also of a closed wheel; 0 in a forked child.
    #[inline]
    pub fn hand(&self) -> u64 {
        match self.view() {
            View::Open(hand) => hand,
            View::Leaping(leap) => leap.from,
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

    /// Step `leap.suspend`: no arm passes until `finish_leap`, or until an arm has
    /// called the leap off. Followed by a fence. Driver only.
    pub fn begin_leap(&self) {
        // Relaxed, all: the driver's own words unless they are wiped.
        let last = self.leap.load(Ordering::Relaxed);
        let leap = if last == LAST_LEAP {
            FIRST_LEAP
        } else {
            last + 1
        };
        if self.word.load(Ordering::Relaxed) > CLOSED {
            self.leap.store(leap, Ordering::Relaxed);
            self.word.swap(leap, Ordering::AcqRel);
        }
        fence_after_rmw();
    }

    /// Step `leap.land`: false if the leap was called off. A closed gate stays so, and no
    /// arm can call a leap off there. Driver only.
    pub fn finish_leap(&self, goal: u64, ticks: &Ticks) -> bool {
        self.limit_near(goal, ticks);
        // Relaxed, all: the driver's own words. If they are wiped, the exchange fails.
        let leap = self.leap.load(Ordering::Relaxed);
        let landed = leap != WIPED
            && (self.word.load(Ordering::Relaxed) == CLOSED
                || self
                    .word
                    .compare_exchange(leap, !goal, Ordering::AcqRel, Ordering::Relaxed)
                    .is_ok());
        if landed {
            // Relaxed: read only if the word is no hand.
            self.hand.store(goal, Ordering::Relaxed);
        }
        fence_after_rmw();
        landed
    }

    /// Step `arm.call_off`: a thread that must arm does not wait for a driver
    /// that may be stopped in the middle of a leap.
    pub fn call_off_leap(&self, leap: Leap) {
        // AcqRel: as an announcement of the old hand.
        _ = self
            .word
            .compare_exchange(leap.word, !leap.from, Ordering::AcqRel, Ordering::Relaxed);
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

#[cfg(all(test, not(checked)))]
mod tests {
    use super::*;

    #[test]
    fn a_thread_that_has_seen_a_leap_calls_off_no_later_one() {
        let ticks = Ticks::new(1);
        let hand = ticks.at_or_before(0);
        let gate = Gate::new(1, hand, &ticks);
        gate.begin_leap();
        let View::Leaping(first) = gate.view() else {
            panic!("no leap");
        };
        for _ in 0..1 << 17 {
            assert!(gate.finish_leap(hand, &ticks));
            gate.begin_leap();
            gate.call_off_leap(first);
        }
        assert!(gate.finish_leap(hand, &ticks));
    }
}
