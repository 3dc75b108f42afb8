//! When the driver looks next, and how a thread wakes it earlier.
//!
//! `next_visit` is the tick before which the driver has nothing to do. An arm lowers it. The
//! driver alone raises it, by a swap before it looks at everything. `alarm` is the tick until
//! which the driver sleeps: 0 while it is awake, and *never* while it decides.
//!
//! # Race 3: an arm against sleep
//!
//! ```text
//!   arming thread                        driver
//!   note.dirty     set the bits          sleep.begin  next_visit := never   (RMW)
//!   --- fence ---                                     alarm := never
//!   arm.wake       lower next_visit                   --- fence ---
//!                  --- fence ---         sleep.look   take the notes, read the states;
//!                  alarm later? kick                  lower next_visit
//!                                        sleep.set    alarm := next_visit
//!                                                     set the system's timer
//!                                        --- fence ---
//!                                        sleep.again  next_visit lowered? then set again
//! ```
//! Either sleep.look takes the note, or arm.wake finds `never` and lowers it. Either
//! sleep.set sees the lowered value, or arm.wake sees an alarm that is too late and kicks: it
//! sets the system's timer to *now*. The driver may set that timer afterwards, which undoes the
//! kick. Then sleep.again sees the value that was lowered before.
//!
//! Each thread compares with the alarm, not with `next_visit`, because a thread that has lowered
//! `next_visit` may be stopped before it kicks. The wheel needs only that the settings of the
//! system's timer have an order. If the timer has a lock, as the kernel's has, the fence before
//! sleep.again changes nothing.
//!
//! # The kick
//!
//! In a burst of arms that are earlier and earlier, the first one sets the system's timer to
//! now. The others find the driver kicked. So a burst makes one system call.
//!
//! ```text
//!   arming thread                        driver
//!   arm.wake   lower next_visit          sleep.begin  kick: spare         (RMW)
//!              --- fence ---                          --- fence ---
//!   kick.look  spare? be done            sleep.look   take notes, read states
//!   kick.now   system's timer := now     sleep.set    system's timer := next_visit
//!   kick.mark  kick: spare         (RMW)              kick: not spare
//!                                                     --- fence ---
//!                                        sleep.again  next_visit lowered?
//! ```
//! A kick is *spare* (not needed) after kick.mark, because the driver wakes, and after
//! sleep.begin, because the driver looks again. kick.mark fails if the driver has begun to
//! set the timer since kick.look. A thread that finds a kick spare has lowered
//! `next_visit`, or found it lower, before. The driver sees that after its next fence. A
//! thread that is stopped before kick.mark blocks no other: they kick as well.
//!
//! The caller's function that wakes the driver may arm a timer itself. That arm must not call
//! the function again, or the two would call each other without an end. So the arm leaves the
//! kick to its own thread, which is in kick.now ([`Kick::Again`]). If kick.mark succeeds, the
//! driver has not begun to sleep since kick.look, and sees what the arm has lowered. Otherwise
//! the thread goes back to kick.look.

use super::state::NEVER;
use crate::sync::{fence, fence_after_rmw, fence_between_loads, AtomicU64, Ordering};

const SPARE: u64 = 1;
/// The rest of the word counts how often the system's timer was set, so that a mark for an
/// earlier setting fails.
const ONCE: u64 = 2;

/// The outcome of step kick.now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kick {
    /// The system refuses, or this thread is inside another kick.now, which sees to it.
    No,
    Yes,
    /// Yes, and meanwhile this thread has wanted to kick once more.
    Again,
}

/// The kind of sleeper that waits for the alarm.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Sleeper {
    /// A timer of the system. It goes off at least every 2^35 ticks, so that the hand stays near
    /// to the clock.
    System,
    /// A loop that the caller's function wakes. With nothing to wait for, it sleeps until that.
    Loop,
}

#[derive(Default)]
#[repr(C, align(128))]
pub(crate) struct Alarm {
    next_visit: AtomicU64,
    /// In an owned wheel the same of the owner, who writes it; otherwise never.
    own: AtomicU64,
    alarm: AtomicU64,
    kick: AtomicU64,
}

impl Alarm {
    pub fn new() -> Self {
        Alarm {
            next_visit: AtomicU64::new(NEVER),
            own: AtomicU64::new(NEVER),
            ..Alarm::default()
        }
    }

    /// The tick before which the driver has nothing to do. Acquire: pairs with `lower`.
    #[inline(always)]
    pub fn next_visit(&self) -> u64 {
        let next = self.next_visit.load(Ordering::Acquire);
        // Relaxed: other threads may read an old value while the owner arms.
        next.min(self.own.load(Ordering::Relaxed))
    }

    /// The owner has something to do at `tick`, and at the ticks before of which it has said so.
    /// True if this is the earliest.
    #[inline(always)]
    pub fn lower_own(&self, tick: u64) -> bool {
        // Relaxed, here and below: as in `next_visit`.
        let is_earliest = tick < self.own.load(Ordering::Relaxed);
        if is_earliest {
            self.own.store(tick, Ordering::Relaxed);
        }
        is_earliest
    }

    /// The owner has nothing to do before `tick`.
    #[inline(always)]
    pub fn set_own(&self, tick: u64) {
        self.own.store(tick, Ordering::Relaxed);
    }

    /// Whether the sleeper sleeps beyond a tick of the owner's, who reads what it has set.
    #[inline(always)]
    pub fn is_later_than(&self, tick: u64) -> bool {
        self.alarm.load(Ordering::Relaxed) > tick
    }

    /// As [`Alarm::begin_to_look`], in an owned wheel: if senders have lowered nothing, their
    /// word stays.
    #[inline(always)]
    pub fn begin_to_look_owned(&self) {
        self.own.store(NEVER, Ordering::Relaxed);
        // Relaxed, both: what a sender lowers meanwhile stays for the next drive. One that sees an
        // old alarm makes a kick that is not needed.
        match self.next_visit.load(Ordering::Relaxed) {
            NEVER => self.alarm.store(0, Ordering::Relaxed),
            _ => {
                self.begin_to_look();
                // A sender that has found the old value early enough has set its dirty bit.
                fence_after_rmw();
            }
        }
    }

    /// The driver has something to do at `tick`. Ends with a fence.
    pub fn lower(&self, tick: u64) {
        // AcqRel: what there is to do; pairs with `next_visit`.
        self.next_visit.fetch_min(tick, Ordering::AcqRel);
        fence_after_rmw();
    }

    /// Whether the driver looks by `tick`, without a kick. Follows a fence.
    #[inline(always)]
    pub fn is_early(&self, tick: u64) -> bool {
        // Relaxed: the fence orders it.
        if self.next_visit.load(Ordering::Relaxed) > tick {
            return false;
        }
        // Another thread that has lowered it may be stopped before it kicks. So
        // each thread compares with the alarm itself. The fence also stands between
        // the alarm and a dirty bit that another thread has set: `inbox.rs`.
        fence_between_loads();
        // Relaxed: fenced; pairs with the fences of a sleep.
        self.alarm.load(Ordering::Relaxed) <= tick
    }

    /// Step arm.wake: the driver looks by `tick`. `kick` sets the system's timer to now. True if
    /// it did. Follows a fence.
    #[inline(always)]
    pub fn wake_by(&self, tick: u64, kick: impl FnMut() -> Kick) -> bool {
        !self.is_early(tick) && self.wake(tick, kick)
    }

    #[cold]
    fn wake(&self, tick: u64, kick: impl FnMut() -> Kick) -> bool {
        self.lower(tick);
        // Relaxed: as in `is_early`.
        self.alarm.load(Ordering::Relaxed) > tick && self.kick_once(kick)
    }

    /// Steps kick.look, kick.now and kick.mark.
    pub fn kick_once(&self, mut kick: impl FnMut() -> Kick) -> bool {
        let mut kicked = false;
        loop {
            // Acquire: pairs with `was_set`, so `kick` comes after that.
            let seen = self.kick.load(Ordering::Acquire);
            if seen & SPARE != 0 {
                return kicked;
            }
            let came = kick();
            if came == Kick::No {
                return kicked;
            }
            kicked = true;
            // Release: pairs with `begin_to_set`, so `kick` comes before that.
            let marked = self.kick.compare_exchange(
                seen,
                seen | SPARE,
                Ordering::Release,
                Ordering::Relaxed,
            );
            if marked.is_ok() || came == Kick::Yes {
                return kicked;
            }
        }
    }

    /// The driver is awake, and looks at everything from here on. Driver only. Followed by a
    /// fence.
    pub fn begin_to_look(&self) {
        // A read-modify-write: it continues what an arm has released. AcqRel: pairs with
        // `lower`.
        self.next_visit.swap(NEVER, Ordering::AcqRel);
        // Relaxed: a thread that sees the old value makes a kick that is not needed.
        self.alarm.store(0, Ordering::Relaxed);
    }

    /// Step sleep.begin. Driver only.
    pub fn begin_to_sleep(&self) {
        // AcqRel: pairs with `lower`.
        self.next_visit.swap(NEVER, Ordering::AcqRel);
        self.begin_to_set();
        // Relaxed: the fence orders it.
        self.alarm.store(NEVER, Ordering::Relaxed);
        fence(Ordering::SeqCst);
    }

    /// Steps sleep.set and sleep.again: sleeps until the next visit, at most until `longest`.
    /// `set` sets the sleeper's timer to a tick, which is what threads compare with; again if an
    /// earlier one comes meanwhile. Driver only.
    pub fn sleep(&self, sleeper: Sleeper, longest: u64, mut set: impl FnMut(u64)) {
        loop {
            let next = self.next_visit();
            let tick = match (sleeper, next) {
                (Sleeper::Loop, NEVER) => NEVER,
                _ => next.min(longest),
            };
            // Relaxed: a thread that sees it late makes a kick that is not needed.
            self.alarm.store(tick, Ordering::Relaxed);
            set(tick);
            self.was_set();
            fence(Ordering::SeqCst);
            // sleep.again
            if self.next_visit() >= next {
                return;
            }
            self.begin_to_set();
        }
    }

    fn begin_to_set(&self) {
        // Relaxed: what a mark changes meanwhile is overwritten. Acquire: pairs with
        // kick.mark.
        let next = self.kick.load(Ordering::Relaxed) + ONCE;
        self.kick.swap(next | SPARE, Ordering::AcqRel);
    }

    fn was_set(&self) {
        // Relaxed: nobody marks it while it is being set. Release: pairs with kick.look.
        let seen = self.kick.load(Ordering::Relaxed);
        self.kick.store(seen & !SPARE, Ordering::Release);
    }
}
