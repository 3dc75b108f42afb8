//! Callbacks that wait for other callbacks, in all wheels of the process: a wait
//! that would close a cycle is refused.
//!
//! A thread inside a callback waits for one timer, or for all callbacks of a wheel. Each
//! callback that it waits for runs on a thread that may wait itself. If one of these
//! chains leads back to the first thread, all of them would wait forever.

use super::frames::{Frame, Target};
use super::list::{List, Node};

/// A thread that waits inside a callback. This lies on the thread's stack.
pub(super) struct Wait {
    /// The callbacks that the thread is in.
    inside: *const Frame,
    target: Target,
}

impl Wait {
    /// A wait for `target`; `None` outside of callbacks.
    pub fn new(target: Target) -> Option<Wait> {
        let inside = Frame::innermost();
        (!inside.is_null()).then_some(Wait { inside, target })
    }

    /// Whether this thread runs `target`.
    fn runs(&self, target: Target) -> bool {
        // SAFETY: a thread that waits does not leave its callbacks; nor does this one.
        unsafe { Frame::is_inside(self.inside, target) }
    }

    /// Whether this thread runs `target`, or `target` waits for it. The others alone form no
    /// cycle.
    pub fn is_waited_for(&self, others: &List<Wait>, target: Target) -> bool {
        let goes_on = |wait: &Node<Wait>| {
            let wait = &wait.value;
            wait.runs(target) && self.is_waited_for(others, wait.target)
        };
        self.runs(target) || others.find(goes_on).is_some()
    }
}
