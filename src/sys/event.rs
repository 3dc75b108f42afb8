//! Sleeping until something is there.

use super::futex::{wait, wake};
use crate::sync::{fence, AtomicU32, Ordering};

/// Something that threads wait for, which costs one load where nobody does: an
/// eventcount.
#[derive(Default)]
pub(crate) struct Event {
    epoch: AtomicU32,
    waiters: AtomicU32,
}

impl Event {
    /// Sleeps until `is_there`.
    ///
    /// ```text
    ///   waiting thread                 notifying thread
    ///   E1  waiters + 1   (RMW)        N1  makes it so
    ///   E2  read epoch                 --- fence ---
    ///   --- fence ---                  N2  read waiters; if any,
    ///   E3  is it there?                   epoch + 1, wake
    ///   E4  wait while epoch is the one read
    /// ```
    /// Either E3 sees N1, or N2 sees E1; then the epoch changes after E2, or E2
    /// has acquired N1.
    pub fn wait(&self, mut is_there: impl FnMut() -> bool) {
        while !is_there() {
            // AcqRel, Acquire and a fence: as drawn.
            self.waiters.fetch_add(1, Ordering::AcqRel);
            let epoch = self.epoch.load(Ordering::Acquire);
            fence(Ordering::SeqCst);
            let there = is_there();
            if !there {
                // SAFETY: `self` is borrowed.
                unsafe { wait(std::ptr::from_ref(&self.epoch).cast(), epoch) };
            }
            self.waiters.fetch_sub(1, Ordering::AcqRel);
            if there {
                return;
            }
        }
    }

    /// Wakes up to `most`, after what they wait for was made so.
    pub fn notify(&self, most: i32) {
        fence(Ordering::SeqCst);
        self.notify_fenced(most);
    }

    /// The same for a caller that has had a fence since it made it so.
    pub fn notify_fenced(&self, most: i32) {
        // Relaxed: fenced.
        if self.waiters.load(Ordering::Relaxed) != 0 {
            // AcqRel: N1; pairs with E2.
            self.epoch.fetch_add(1, Ordering::AcqRel);
            wake(std::ptr::from_ref(&self.epoch).cast(), most);
        }
    }
}
