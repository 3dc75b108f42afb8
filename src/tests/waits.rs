//! Threads that wait inside a callback.

use super::*;
use crate::api::Wheel;
use crate::runtime::frames::{Frame, ANY};

/// As if another thread had held the lock at the fork.
#[test]
fn a_child_does_not_wait_for_the_lock_of_its_parent() {
    let wheel = Wheel::new().unwrap();
    let waits = WAITS.get().unwrap();
    let fork = || {
        let held = lock(waits);
        // SAFETY: the child makes no call that could wait for another thread.
        let child = unsafe { libc::fork() };
        if child == 0 {
            // SAFETY: ends a child that hangs.
            unsafe { libc::alarm(10) };
            std::mem::forget(held);
        }
        child
    };
    let child = Frame::enter(wheel.host().id, |_| wait_for(waits, (u64::MAX, ANY), fork));
    // SAFETY: as above.
    unsafe {
        if child == Some(0) {
            libc::_exit(0);
        }
        let mut status = -1;
        assert_eq!(
            libc::waitpid(child.unwrap(), &mut status, 0),
            child.unwrap()
        );
        assert_eq!(status, 0);
    }
}
