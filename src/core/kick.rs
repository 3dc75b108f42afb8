//! The kick: an arm for an earlier time than the alarm sets the alarm to *now*. In a
//! burst of such arms the first one does. The others find the driver kicked and leave the
//! alarm alone. So a burst makes one system call.
//!
//! ```text
//!   arming thread                        driver
//!   arm.wake   lower next_visit          sleep.begin  kick: spare         (RMW)
//!              --- fence ---                          --- fence ---
//!   kick.look  spare? be done            sleep.scan   read bits and states
//!   kick.now   alarm := now              sleep.set    alarm := next_visit
//!   kick.mark  kick: spare         (RMW)              kick: not spare
//!                                                     --- fence ---
//!                                        sleep.look   next_visit lowered?
//! ```
//! A kick is *spare* (not needed) after kick.mark, because the driver wakes, and after
//! sleep.begin, because the driver looks again. kick.mark fails if the driver has begun to
//! set the alarm since kick.look. A thread that finds a kick spare has lowered
//! `next_visit`, or found it lower, before. The driver sees that after its next fence. A
//! thread that is stopped before kick.mark holds up no other: they kick as well.

use crate::sync::{AtomicU64, Ordering};

const SPARE: u64 = 1;
/// The rest of the word counts how often the alarm was set, so that a mark for an
/// earlier one fails.
const ONCE: u64 = 2;

#[derive(Default)]
pub(crate) struct Kick(AtomicU64);

impl Kick {
    /// Sets the alarm to now by `set_now`, unless the driver wakes or looks in any case;
    /// true if it did.
    pub fn once(&self, set_now: impl FnOnce() -> bool) -> bool {
        // kick.look. Acquire: pairs with `was_set`, so `set_now` comes after that.
        let seen = self.0.load(Ordering::Acquire);
        let kicked = seen & SPARE == 0 && set_now();
        if kicked {
            // kick.mark. Release: pairs with `begin`, so `set_now` comes before that.
            _ = self
                .0
                .compare_exchange(seen, seen | SPARE, Ordering::Release, Ordering::Relaxed);
        }
        kicked
    }

    /// The driver is about to set the alarm. Followed by a fence. Driver only.
    pub fn begin(&self) {
        // Relaxed: what a mark changes meanwhile is overwritten. Acquire: pairs with
        // kick.mark.
        let next = self.0.load(Ordering::Relaxed) + ONCE;
        self.0.swap(next | SPARE, Ordering::AcqRel);
    }

    /// The driver has set the alarm. Driver only.
    pub fn was_set(&self) {
        // Relaxed: nobody marks it while it is being set. Release: pairs with kick.look.
        let seen = self.0.load(Ordering::Relaxed);
        self.0.store(seen & !SPARE, Ordering::Release);
    }
}
