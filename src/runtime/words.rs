//! Words for errors. The C library's words for the same numbers are about files and
//! locks.

use std::ffi::CStr;

/// The words for a negative errno value; `None` for one that no function returns.
pub(crate) fn words(error: i32) -> Option<&'static CStr> {
    Some(match error.wrapping_neg() {
        libc::ESTALE => c"the timer no longer exists",
        libc::EINVAL => c"an argument is not valid",
        libc::ENOSPC => c"the limit on live timers is reached",
        libc::ENOMEM => c"out of memory",
        libc::EBUSY => c"the wheel is in use by a driver or by a stop",
        libc::EDEADLK => c"the call would wait for itself",
        libc::ESHUTDOWN => c"the timer or the wheel is shut down, or this is a forked child",
        libc::E2BIG => c"a struct has members that this version does not know",
        libc::EMFILE => c"the process has no free descriptor",
        libc::ENFILE => c"the system has no free descriptor",
        libc::EAGAIN => c"the system cannot start a thread",
        _ => return None,
    })
}
