//! A wheel on a clock: nanoseconds instead of ticks, three ways to drive, and
//! the life of the whole. The C functions are a thin layer over this folder.

#[cfg(not(loom))]
mod callbacks;
#[cfg(not(loom))]
mod drive;
#[cfg(not(loom))]
pub(crate) mod foreign;
#[cfg(not(loom))]
mod host;
pub(crate) mod keys;
#[cfg(not(loom))]
mod local;
#[cfg(not(loom))]
pub(crate) mod options;
#[cfg(not(loom))]
pub(crate) mod pool;
#[cfg(not(loom))]
mod register;
pub(crate) mod ring;
#[cfg(not(loom))]
pub(crate) mod stats;
#[cfg(not(loom))]
mod thread;
#[cfg(not(loom))]
pub(crate) mod time;
#[cfg(not(loom))]
mod timers;
#[cfg(not(loom))]
mod waits;
#[cfg(not(loom))]
pub(crate) mod words;

#[cfg(not(loom))]
pub(crate) use host::Host;
#[cfg(not(loom))]
pub(crate) use options::{Budget, Call, Executor, Options, Room};

use crate::core::error::Error;

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
