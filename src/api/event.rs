//! Handles of timers, and events.

use super::time::Time;
use crate::core::driver::Fired;

/// The handle of a timer.
///
/// A handle may outlive its timer. Its use is [`Error::Stale`](crate::Error::Stale)
/// then: no other timer ever gets the same handle.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Timer(pub(crate) u64);

/// A timer that has fired, or that the wheel has handed back or listed. The default
/// event is room for another.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Event {
    /// The handle. It is stale already if the timer freed itself. The default one
    /// for a timer with a key.
    pub timer: Timer,
    /// The value that the caller gave with the timer.
    pub cookie: u64,
    /// The time of the timer's tick: the time that the caller gave, rounded up. When
    /// a periodic timer fires, the exact time, unless the timer was moved.
    pub deadline: Time,
    /// The number of periods that were left out.
    pub missed: u32,
    /// [`Wheel::drain`](crate::Wheel::drain) handed the timer back; it has not fired.
    pub drained: bool,
}

impl Event {
    pub(crate) fn new(fired: &Fired, drained: bool) -> Event {
        Event {
            timer: Timer(fired.handle),
            cookie: fired.cookie,
            deadline: Time::from_nanos(fired.deadline_ns),
            missed: u32::try_from(fired.missed).unwrap_or(u32::MAX),
            drained,
        }
    }
}
