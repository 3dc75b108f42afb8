//! Timers and what they become when they are due.

use super::time::Time;
use crate::sweep::Fired;

/// The name of a timer of one wheel.
///
/// A name may outlive its timer, and is then [`Error::Stale`](crate::Error::Stale)
/// for ever: it is not given to another.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Timer(pub(crate) u64);

/// A timer that has fired, or was drained. The default one is a place to be
/// filled.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Event {
    /// Stale already if the timer was one that frees itself; the default one if
    /// the timer was keyed.
    pub timer: Timer,
    /// What the caller gave when it made the timer.
    pub cookie: u64,
    /// When it was due.
    pub deadline: Time,
    /// How many periods were left out.
    pub missed: u32,
    /// Handed back by [`Wheel::drain`](crate::Wheel::drain), not fired.
    pub drained: bool,
}

impl Event {
    pub(crate) fn new(fired: &Fired, drained: bool) -> Event {
        Event {
            timer: Timer(fired.handle),
            cookie: fired.cookie,
            deadline: Time::from_nanos(fired.due_ns),
            missed: u32::try_from(fired.missed).unwrap_or(u32::MAX),
            drained,
        }
    }
}

/// A caller's slice, as far as it is filled.
pub(crate) struct Batch<'e> {
    events: &'e mut [Event],
    len: usize,
    drained: bool,
}

impl<'e> Batch<'e> {
    pub fn new(events: &'e mut [Event], drained: bool) -> Self {
        Batch {
            events,
            len: 0,
            drained,
        }
    }

    /// There is room. True if there is more of it.
    pub fn put(&mut self, fired: &Fired) -> bool {
        self.events[self.len] = Event::new(fired, self.drained);
        self.len += 1;
        self.len < self.events.len()
    }

    pub fn filled(self) -> &'e [Event] {
        &self.events[..self.len]
    }
}
