//! A wheel on a clock: nanoseconds instead of ticks, three ways to drive, and
//! the life of the whole. The C functions are a thin layer over this folder.
//!
//! | file        | what                                                    |
//! |-------------|---------------------------------------------------------|
//! | `host`      | a wheel and its surroundings: made, identified, given up |
//! | `options`   | how a wheel is made                                     |
//! | `timers`    | the calls on timers and keys: check, convert, call      |
//! | `drive`     | advance, poll, drain, the alarm, the next expiry        |
//! | `thread`    | the tick thread: start, stop                            |
//! | `callbacks` | running one, here or in the pool; being inside of one   |
//! | `foreign`   | calls of functions that are not the library's           |
//! | `waits`     | callbacks that wait for each other are refused          |
//! | `pool`      | workers and the executor's queue                        |
//! | `ring`      | that queue                                              |
//! | `keys`      | timers by name                                          |
//! | `local`     | which shard the calling thread owns                     |

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
mod options;
#[cfg(not(loom))]
pub(crate) mod pool;
pub(crate) mod ring;
#[cfg(not(loom))]
mod thread;
#[cfg(not(loom))]
mod timers;
#[cfg(not(loom))]
mod waits;

#[cfg(not(loom))]
pub(crate) use host::Host;
#[cfg(not(loom))]
pub(crate) use options::{Budget, Call, Executor, Options};
#[cfg(not(loom))]
pub(crate) use timers::When;

use crate::wheel::Error;

/// A negative errno value.
pub(crate) type Errno = i32;

impl From<Error> for i32 {
    fn from(e: Error) -> Errno {
        -match e {
            Error::Stale => libc::ESTALE,
            Error::Limit => libc::ENOSPC,
            Error::Memory => libc::ENOMEM,
            Error::Busy => libc::EBUSY,
            Error::Invalid => libc::EINVAL,
            Error::Shutdown => libc::ESHUTDOWN,
        }
    }
}

/// A result as C has it. Where all callers of a function ask for no more, its
/// registers hold no more.
#[inline(always)]
pub(crate) fn number(result: Result<i32, Errno>) -> i32 {
    match result {
        Ok(n) | Err(n) => n,
    }
}
