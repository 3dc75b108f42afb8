//! The reason why a call is refused, and the answer of a call.

/// The reason why a call is refused. The numbers are those that the C functions return:
/// negative values of Linux's errno.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(i32)]
pub(crate) enum Error {
    /// No such timer, or no longer.
    Stale = -libc::ESTALE,
    /// The limit on live timers is reached.
    Limit = -libc::ENOSPC,
    /// No memory; nothing has changed.
    Memory = -libc::ENOMEM,
    /// More threads use timers than there are numbers for.
    Threads = -libc::EUSERS,
    /// Another thread drives.
    Busy = -libc::EBUSY,
    /// An argument is out of range.
    Invalid = -libc::EINVAL,
    /// Another thread owns the wheel, or nobody does.
    NotOwner = -libc::EPERM,
    /// The call comes from a callback that it would wait for.
    Inside = -libc::EDEADLK,
    /// The wheel or the timer is shut down, or belongs to another process.
    Shutdown = -libc::ESHUTDOWN,
}

/// The answer of a call on a timer: 1 the timer was pending, 0 it was not, or an
/// [`Error`]. It is the number that the C functions return.
pub(crate) type Answer = i32;

#[inline]
pub(super) fn answer(result: Result<bool, Error>) -> Answer {
    result.map_or_else(|error| error as Answer, Answer::from)
}
