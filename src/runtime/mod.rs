//! A wheel on a clock: nanoseconds instead of ticks, three ways to drive, and
//! the life of the whole. The C functions are a thin layer over this folder.

pub(crate) mod callbacks;
mod drive;
mod host;
pub(crate) mod keys;
mod local;
pub(crate) mod options;
pub(crate) mod pool;
mod register;
pub(crate) mod ring;
pub(crate) mod stats;
mod thread;
pub(crate) mod time;
mod timers;
mod waits;
pub(crate) mod words;

pub(crate) use host::Host;
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
