//! Times on a wheel's clock.

use crate::runtime;
use std::ops::{Add, Sub};
use std::time::Duration;

/// A point in time on a wheel's clock.
///
/// The times of two wheels compare only if both have the same clock.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Time(u64);

impl Time {
    /// A deadline that never comes.
    pub const NEVER: Time = Time(u64::MAX);

    /// So many nanoseconds after the clock's zero.
    pub const fn from_nanos(ns: u64) -> Time {
        Time(ns)
    }

    /// Nanoseconds since the clock's zero.
    pub const fn as_nanos(self) -> u64 {
        self.0
    }
}

/// A sum that is too great is [`Time::NEVER`].
impl Add<Duration> for Time {
    type Output = Time;

    fn add(self, span: Duration) -> Time {
        Time(self.0.saturating_add(nanos(span)))
    }
}

/// Zero if `earlier` is later; [`Duration::MAX`] from any time to
/// [`Time::NEVER`].
impl Sub for Time {
    type Output = Duration;

    fn sub(self, earlier: Time) -> Duration {
        match self {
            Time::NEVER => Duration::MAX,
            Time(ns) => Duration::from_nanos(ns.saturating_sub(earlier.0)),
        }
    }
}

/// When a timer is to fire: a [`Duration`] from now or a [`Time`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum When {
    /// After a delay; [`Duration::MAX`] is never.
    After(Duration),
    /// At a deadline on the wheel's clock.
    At(Time),
}

impl When {
    pub(crate) fn of_host(self) -> runtime::When {
        match self {
            When::After(delay) => runtime::When::After(nanos(delay)),
            When::At(deadline) => runtime::When::At(deadline.0),
        }
    }

    /// In nanoseconds on the wheel's clock.
    #[inline]
    pub(crate) fn deadline(self, now: impl FnOnce() -> u64) -> u64 {
        match self {
            When::After(delay) => now().saturating_add(nanos(delay)),
            When::At(deadline) => deadline.0,
        }
    }
}

impl From<Duration> for When {
    fn from(delay: Duration) -> When {
        When::After(delay)
    }
}

impl From<Time> for When {
    fn from(deadline: Time) -> When {
        When::At(deadline)
    }
}

/// What is too long is never.
pub(crate) fn nanos(span: Duration) -> u64 {
    u64::try_from(span.as_nanos()).unwrap_or(u64::MAX)
}
