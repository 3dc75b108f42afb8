//! Sleeping until a condition holds.

use super::futex::{wait, wake};
use crate::sync::{fence, AtomicU32, Ordering};

/// An eventcount: threads wait on it for a condition. A notification costs one
/// load if no thread waits.
#[derive(Default)]
pub(crate) struct Event {
    epoch: AtomicU32,
    waiters: AtomicU32,
}

impl Event {
    /// Sleeps until `is_there`.
    ///
    /// ```text
    ///   waiting thread                     notifying thread
    ///   wait.enter  waiters + 1            notify.set    make it true
    ///   wait.epoch  read epoch             --- fence ---
    ///   --- fence ---                      notify.wake   read waiters; if any,
    ///   wait.look   is it true?                          epoch + 1, wake
    ///   wait.sleep  while epoch is the one read
    /// ```
    /// Either wait.look sees notify.set, or notify.wake sees wait.enter. Then the
    /// epoch changes after wait.epoch: if wait.epoch had read the change, the fence of
    /// notify.wake would stand before that of wait.look, which would see notify.set.
    pub fn wait(&self, mut is_there: impl FnMut() -> bool) {
        while !is_there() {
            // Relaxed, all: fenced, and `is_there` acquires what it needs.
            self.waiters.fetch_add(1, Ordering::Relaxed);
            let epoch = self.epoch.load(Ordering::Relaxed);
            fence(Ordering::SeqCst);
            let there = is_there();
            if !there {
                wait(&self.epoch, epoch);
            }
            self.waiters.fetch_sub(1, Ordering::Relaxed);
            if there {
                return;
            }
        }
    }

    /// Wakes up to `most` threads, after their condition was made true.
    pub fn notify(&self, most: i32) {
        fence(Ordering::SeqCst);
        self.notify_fenced(most);
    }

    /// Wakes up to `most` threads. A fence has followed the write that made their condition true.
    pub fn notify_fenced(&self, most: i32) {
        // Relaxed, both: fenced.
        if self.waiters.load(Ordering::Relaxed) != 0 {
            self.epoch.fetch_add(1, Ordering::Relaxed);
            wake(&self.epoch, most);
        }
    }
}
