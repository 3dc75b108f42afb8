//! A wheel on a clock: its drivers, its callbacks, its keys, and the life of the whole. The
//! interfaces for C and Rust are thin layers over this folder. Here are errors, as numbers and in
//! words.

mod at_hand;
pub(crate) mod callbacks;
mod create;
pub(crate) mod drive;
mod frames;
mod host;
pub(crate) mod keys;
mod numbers;
pub(crate) mod options;
pub(crate) mod pool;
pub(crate) mod ring;
pub(crate) mod stats;
mod tick_thread;
mod timers;
pub(crate) mod times;

pub(crate) use host::Host;
pub(crate) use options::Options;

use crate::core::Error;
use core::ffi::CStr;

/// A negative errno value.
pub(crate) type Errno = i32;

impl From<Error> for i32 {
    fn from(e: Error) -> Errno {
        e as i32
    }
}

/// A result as C has it.
#[inline(always)]
pub(crate) fn number(result: Result<impl Into<i32>, Errno>) -> i32 {
    result.map_or_else(|e| e, Into::into)
}

/// The text for a negative errno value; `None` for one that no function returns. The C
/// library's text for the same numbers is about files and locks.
pub(crate) fn words(error: i32) -> Option<&'static CStr> {
    Some(match error.wrapping_neg() {
        libc::ESTALE => c"the timer no longer exists",
        libc::EINVAL => c"an argument is not valid, or not for this wheel",
        libc::ENOSPC => c"the limit on live timers is reached",
        libc::ENOMEM => c"out of memory",
        libc::EPERM => c"another thread owns the wheel, or the system refuses",
        libc::EUSERS => c"too many threads use timers",
        libc::EBUSY => c"the wheel is in use by a driver or by a stop",
        libc::EDEADLK => c"the call would wait for itself",
        libc::ESHUTDOWN => c"the timer or the wheel is shut down, or this is a forked child",
        libc::E2BIG => c"a struct has members that this version does not know",
        libc::EMFILE => c"the process has no free descriptor",
        libc::ENFILE => c"the system has no free descriptor",
        libc::EAGAIN => c"the system cannot start a thread",
        libc::ENOSYS => c"the system refuses",
        _ => return None,
    })
}
