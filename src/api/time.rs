//! Times on a wheel's clock.

use crate::runtime::times::{time, NEVER};
use std::ops::{Add, Sub};
use std::time::{Duration, Instant};

/// A point in time on a wheel's clock.
///
/// The times of two wheels compare only if both have the same clock.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Time(u64);

impl Time {
    /// A time that never comes.
    pub const NEVER: Time = Time(NEVER);

    /// The time that is `ns` nanoseconds after the clock's zero. A time of 2^63 or
    /// above, other than [`NEVER`](Time::NEVER), is
    /// [`Error::Invalid`](crate::Error::Invalid) when it is used.
    pub const fn from_nanos(ns: u64) -> Time {
        Time(ns)
    }

    /// The number of nanoseconds since the clock's zero.
    pub const fn as_nanos(self) -> u64 {
        self.0
    }
}

/// A sum of 2^63 nanoseconds or more is [`Time::NEVER`].
impl Add<Duration> for Time {
    type Output = Time;

    fn add(self, span: Duration) -> Time {
        time(self.0.saturating_add(nanos(span))).map_or(Time::NEVER, Time)
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

/// When a timer fires: after a [`Duration`], at a [`Time`], or at an [`Instant`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum When {
    /// After a delay; [`Duration::MAX`] is never.
    After(Duration),
    /// At a time on the wheel's clock.
    At(Time),
    /// At an instant: at the same distance from the wheel's time as the instant is
    /// from now.
    Instant(Instant),
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

impl From<Instant> for When {
    fn from(instant: Instant) -> When {
        When::Instant(instant)
    }
}

/// A span of 2^63 nanoseconds or more is never.
#[inline]
pub(crate) fn nanos(span: Duration) -> u64 {
    i64::try_from(span.as_nanos()).map_or(NEVER, |ns| ns as u64)
}
