//! Handles of timers, events, and the bounds and the result of a call that drives.

use super::time::{nanos, Time};
use crate::core::driver::{Fired, DRAINED};
use crate::core::state::Handle;
use crate::runtime::drive::Bounds;
use crate::runtime::Host;
use std::time::Duration;

/// The handle of a timer.
///
/// A handle may outlive its timer. Its use then returns
/// [`Error::Stale`](crate::Error::Stale), and so does its use in another wheel: no
/// other timer ever gets the same handle.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Timer {
    pub(crate) handle: Handle,
    /// The id of its wheel: in another wheel a timer may have the same number.
    pub(crate) wheel: u64,
}

impl Timer {
    /// The timer with this handle; the default one for 0.
    pub(crate) fn new(host: &Host, handle: Handle) -> Timer {
        match handle {
            0 => Timer::default(),
            _ => Timer {
                handle,
                wheel: host.id,
            },
        }
    }
}

/// A timer that has fired, or that the wheel has handed back or listed. A default
/// event is an empty place for another.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Event {
    /// The handle; the default one for a timer with a key. If the timer freed
    /// itself, the handle is already stale.
    pub timer: Timer,
    /// The value that the caller gave with the timer.
    pub cookie: u64,
    /// The time of the timer's tick: the caller's time, rounded up to a tick. For a
    /// period it is the exact time, unless the timer was moved.
    /// [`Wheel::list`](crate::Wheel::list) always gives the time of the tick, which for a
    /// period includes its slack.
    pub deadline: Time,
    /// The number of periods that were skipped.
    pub missed: u32,
    /// [`Wheel::drain`](crate::Wheel::drain) handed the timer back; it has not fired.
    pub drained: bool,
}

impl Event {
    pub(crate) fn new(host: &Host, fired: &Fired) -> Event {
        Event {
            timer: Timer::new(host, fired.handle),
            cookie: fired.cookie,
            deadline: Time::from_nanos(fired.deadline_ns),
            missed: fired.missed,
            drained: fired.flags & DRAINED != 0,
        }
    }
}

#[cfg(all(test, not(checked)))]
mod tests {
    use super::*;
    use crate::{Error, Options};
    use std::time::Duration;

    /// After many lives and wheels a timer has the number of another wheel's.
    #[test]
    fn a_handle_of_another_wheel_is_stale_whatever_its_number_is() {
        let [a, b] = [(); 2].map(|()| Options::new().create().unwrap());
        let soon = Duration::from_millis(1);
        let timer = a.once(Duration::MAX, 0).unwrap();
        let foreign = Timer {
            wheel: Timer::new(b.host(), 1).wheel,
            ..timer
        };
        for refused in [
            a.arm(foreign, soon),
            a.reduce(foreign, soon),
            a.arm_if_pending(foreign, soon),
            a.arm_range(foreign, soon, soon),
            a.set_period(foreign, soon).map(|()| true),
            a.delete(foreign),
            a.delete_sync(foreign),
            a.shutdown(foreign),
            a.shutdown_sync(foreign),
            a.free(foreign),
            a.pending(foreign),
            a.deadline(foreign).map(|_| true),
        ] {
            assert_eq!(refused, Err(Error::Stale));
        }
        assert_eq!(a.arm_many(&[(foreign, soon.into())]), Ok(0));
        assert_eq!(a.delete_many(&[foreign]), Ok(0));
        assert_eq!(a.delete(timer), Ok(true));
    }
}

impl Bounds {
    /// No bounds.
    pub fn new() -> Bounds {
        Bounds::default()
    }

    /// The maximum number of timers to fire; zero for no limit.
    pub fn timers(mut self, most: u32) -> Bounds {
        self.items = most.into();
        self
    }

    /// The time after which to stop; zero for no limit. A running handler is not
    /// interrupted.
    pub fn time(mut self, most: Duration) -> Bounds {
        self.ns = nanos(most);
        self
    }
}

/// The result of one call that drives.
#[derive(Clone, Copy, Debug)]
pub struct Run<'e> {
    /// The events, for timers that the handler does not get.
    pub events: &'e [Event],
    /// True if the call stopped at a bound or with a full slice, so that due timers
    /// may be left.
    pub left: bool,
    /// When to call again; [`Time::NEVER`] if no timer is pending that ever fires.
    pub next: Time,
}
