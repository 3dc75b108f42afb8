//! Errors as an enum.

use crate::core;
use crate::runtime::{words, Errno};
use std::fmt;

/// The reason why a call failed. A call that fails changes nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Error {
    /// The timer no longer exists.
    Stale,
    /// The limit on live timers is reached.
    Limit,
    /// Out of memory.
    NoMemory,
    /// The wheel is in use by a driver or by a stop.
    Busy,
    /// An argument is not valid, or not valid for this wheel.
    Invalid,
    /// The timer was shut down, the wheel was drained, or this is a forked child.
    Shutdown,
    /// The call would wait for itself.
    Deadlock,
    /// Another thread owns the wheel, or the system refuses.
    NotPermitted,
    /// The time has passed, and the future is not ready: `timeout` of the crate
    /// hwheel-async.
    TimedOut,
    /// An error of the system: its number, as in `EMFILE`.
    System(i32),
}

impl Error {
    /// The system's number of the error, above 0.
    pub fn errno(self) -> i32 {
        match self {
            Error::Stale => libc::ESTALE,
            Error::Limit => libc::ENOSPC,
            Error::NoMemory => libc::ENOMEM,
            Error::Busy => libc::EBUSY,
            Error::Invalid => libc::EINVAL,
            Error::Shutdown => libc::ESHUTDOWN,
            Error::Deadlock => libc::EDEADLK,
            Error::NotPermitted => libc::EPERM,
            Error::TimedOut => libc::ETIMEDOUT,
            Error::System(errno) => errno,
        }
    }
}

impl From<core::Error> for Error {
    fn from(error: core::Error) -> Error {
        Errno::from(error).into()
    }
}

impl From<Errno> for Error {
    fn from(negative: Errno) -> Error {
        use Error::{Busy, Deadlock, Invalid, Limit, NoMemory, NotPermitted, Shutdown, Stale};
        let known = [
            Stale,
            Limit,
            NoMemory,
            Busy,
            Invalid,
            Shutdown,
            Deadlock,
            NotPermitted,
        ];
        let error = known.into_iter().find(|error| error.errno() == -negative);
        error.unwrap_or(Error::System(-negative))
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Error::TimedOut = self {
            return f.write_str("the time is over");
        }
        match words(-self.errno()).map(|words| words.to_str()) {
            Some(Ok(words)) => f.write_str(words),
            _ => std::io::Error::from_raw_os_error(self.errno()).fmt(f),
        }
    }
}

impl std::error::Error for Error {}

impl From<Error> for std::io::Error {
    fn from(error: Error) -> std::io::Error {
        std::io::Error::from_raw_os_error(error.errno())
    }
}
