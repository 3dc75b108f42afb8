//! Requests to the driver: it wakes by a tick, and looks at a timer.

use super::inbox::Thread;
use super::wheel::{Caller, Wheel};
use crate::sync::{fence, Ordering};

impl Wheel {
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
        // Release: pairs with the Acquire in `collect`.
        self.shared.look_at_all.store(1, Ordering::Release);
        fence(Ordering::SeqCst);
        // One is due now.
        self.wake_for(caller, 0, 0);
    }
}
