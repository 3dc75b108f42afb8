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

    /// Requests a look at a timer whose state was exchanged before, by a note that no link
    /// names. Without memory for that, the driver looks at every timer.
    pub(super) fn request_look(&self, caller: &impl Caller, index: u32) {
        let noted = caller.thread().and_then(|thread| {
            self.inboxes.reserve(thread)?;
            Ok(thread)
        });
        let thread = noted.unwrap_or(0);
        if thread != 0 {
            self.inboxes.append(thread, index);
            fence(Ordering::SeqCst);
            self.inboxes.mark(thread);
        } else {
            // Release: pairs with the Acquire in `collect`.
            self.shared.look_at_all.store(1, Ordering::Release);
            fence(Ordering::SeqCst);
        }
        // It is due now.
        self.wake_for(caller, thread, 0);
    }
}
