//! The kick: an arm for an earlier time than the alarm sets the alarm to *now*. The
//! first one does. Those that follow find the driver kicked and leave the alarm alone. So
//! a burst of arms makes one system call, not one each.
//!
//! ```text
//!   arming thread                        driver
//!   arm.wake   lower next_visit          sleep.begin  kick := being set   (RMW)
//!              --- fence ---                          --- fence ---
//!   kick.look  not "set"? be done        sleep.scan   read bits and states
//!   kick.now   alarm := now              sleep.set    alarm := next_visit
//!   kick.mark  kick: set -> kicked (RMW)              kick := set
//!                                                     --- fence ---
//!                                        sleep.look   next_visit lowered?
//! ```
//! kick.mark fails if the driver has begun to set the alarm since kick.look. So a word
//! that says kicked says that the driver wakes, and one that says being set that it looks
//! once more. A thread that reads either has lowered `next_visit`, or found it lower,
//! before. The driver sees that behind its next fence.
//! A thread that is stopped before kick.mark holds up no other: they kick as well.

use crate::sync::{AtomicU64, Ordering};

const KICKED: u64 = 1;
const BEING_SET: u64 = 2;
/// The rest of the word counts how often the alarm was set, so that a mark for an
/// earlier one fails.
const ONCE: u64 = 4;

#[derive(Default)]
pub(crate) struct Kick(AtomicU64);

impl Kick {
    /// Sets the alarm to now by `set_now`, unless the driver wakes or looks in any case;
    /// true if it did.
    pub fn once(&self, set_now: impl FnOnce() -> bool) -> bool {
        // kick.look. Acquire: pairs with `was_set`, so `set_now` comes after that.
        let seen = self.0.load(Ordering::Acquire);
        let kicked = seen & (KICKED | BEING_SET) == 0 && set_now();
        if kicked {
            // kick.mark. Release: pairs with `begin`, so `set_now` comes before that.
            _ = self
                .0
                .compare_exchange(seen, seen | KICKED, Ordering::Release, Ordering::Relaxed);
        }
        kicked
    }

    /// The driver is about to set the alarm. Followed by a fence. Driver only.
    pub fn begin(&self) {
        // Relaxed: what a mark changes meanwhile is overwritten. Acquire: pairs with
        // kick.mark.
        let next = (self.0.load(Ordering::Relaxed) & !(KICKED | BEING_SET)) + ONCE;
        self.0.swap(next | BEING_SET, Ordering::AcqRel);
    }

    /// The driver has set the alarm. Driver only.
    pub fn was_set(&self) {
        // Relaxed: nobody marks it while it is being set. Release: pairs with kick.look.
        let seen = self.0.load(Ordering::Relaxed);
        self.0.store(seen & !BEING_SET, Ordering::Release);
    }
}
