//! The manual clock. It shows the latest time that an advance has set.
//!
//! Most advances of a game or a simulation find nothing due. Then they only set the clock,
//! and the exchange of the driver's lock would be most of their cost. So one thread, the
//! *keeper*, sets the clock without the lock if nothing is due (`core/driver/quiet.rs`).
//! Other threads take the lock. Each of the two ways has a word of its own, and the clock is
//! the later of both words. So neither way can put it back.
//!
//! The keeper is the first thread that advances over nothing. It is known by the address of
//! its thread-local memory. If it ends, a later thread may get that memory, and is the keeper
//! then: the system gives it to one thread at a time, and orders what they do.

use super::at_hand;
use crate::sync::{AtomicPtr, AtomicU32, AtomicU64, Ordering};
use std::ptr::null_mut;

pub(crate) struct Manual {
    /// Written by the keeper.
    kept: AtomicU64,
    /// Written under the driver's lock, if not by the keeper.
    raised: AtomicU64,
    /// 1 while `kept` is the clock.
    is_kept: AtomicU32,
    /// Written once, under the lock.
    keeper: AtomicPtr<()>,
}

impl Manual {
    /// Shows `start`. On a system's clock `start` stays, and is the first time of that clock.
    pub fn new(start: u64, is_manual: bool) -> Self {
        Manual {
            kept: AtomicU64::new(start),
            raised: AtomicU64::new(start),
            is_kept: AtomicU32::new(is_manual.into()),
            keeper: AtomicPtr::new(null_mut()),
        }
    }

    /// Acquire, both: pairs with the stores of an advance.
    #[inline(always)]
    pub fn now(&self) -> u64 {
        let kept = self.kept.load(Ordering::Acquire);
        kept.max(self.raised.load(Ordering::Acquire))
    }

    /// The same from one word, if that suffices; never on a system's clock.
    #[inline(always)]
    pub fn kept(&self) -> Option<u64> {
        // Acquire: the time that was set before it. Relaxed: only a delay starts at it.
        (self.is_kept.load(Ordering::Acquire) != 0).then(|| self.kept.load(Ordering::Relaxed))
    }

    /// Relaxed, both: of an advance beside this call either may come first.
    #[inline(always)]
    pub fn has_reached(&self, ns: u64) -> bool {
        ns <= self.kept.load(Ordering::Relaxed) || ns <= self.raised.load(Ordering::Relaxed)
    }

    /// Whether the caller is the keeper. Relaxed: if it is, its own earlier call has said so.
    #[inline(always)]
    pub fn is_keeper(&self) -> bool {
        self.keeper.load(Ordering::Relaxed) == at_hand::address()
    }

    /// Makes the caller the keeper, unless another thread is. Under the lock.
    pub fn appoint(&self) {
        // Relaxed, both: as above, and handed on by the lock.
        if self.keeper.load(Ordering::Relaxed).is_null() {
            self.keeper.store(at_hand::address(), Ordering::Relaxed);
        }
    }

    /// Sets the clock, unless it shows a later time. Keeper only.
    #[inline(always)]
    pub fn keep(&self, now: u64) {
        // Relaxed: the keeper's own word.
        if now > self.kept.load(Ordering::Relaxed) {
            // Release: pairs with `now`.
            self.kept.store(now, Ordering::Release);
        }
    }

    /// Sets the clock, unless it shows a later time, and returns what it shows. Under the lock.
    pub fn raise(&self, now: u64) -> u64 {
        let now = now.max(self.now());
        // A thread that has seen a time reads no earlier one from the word that `is_kept`
        // names: the time comes last where `is_kept` becomes 0, and first where it becomes 1.
        // Release, both: for this. Relaxed, both: the fence in `Wheel::drive` releases what
        // came before this call, which pairs with `now`.
        if self.is_keeper() {
            self.kept.store(now, Ordering::Relaxed);
            self.is_kept.store(1, Ordering::Release);
        } else {
            self.is_kept.store(0, Ordering::Relaxed);
            self.raised.store(now, Ordering::Release);
        }
        now
    }
}
