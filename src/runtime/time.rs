//! The rule for a number of nanoseconds, for C and for Rust.
//!
//! A time is below 2^63, or it is [`NEVER`]. Any other value is a negative number
//! that was cast, and an error.

pub(crate) use crate::core::state::NEVER;
use crate::runtime::Errno;
/// The longest time that is not never: 292 years.
pub(crate) const LONGEST: u64 = i64::MAX as u64;

/// A delay, a deadline, a period or a slack.
#[inline]
pub(crate) fn time(ns: u64) -> Result<u64, Errno> {
    match ns {
        NEVER => Ok(NEVER),
        _ => clock(ns),
    }
}

/// A time that a clock can show: not never.
#[inline]
pub(crate) fn clock(ns: u64) -> Result<u64, Errno> {
    (ns <= LONGEST).then_some(ns).ok_or(-libc::EINVAL)
}
