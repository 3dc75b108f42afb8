//! One call that drives: its bounds and its result.

use super::event::Event;
use super::time::{nanos, Time};
use crate::runtime::drive::Bounds;
use std::time::Duration;

impl Bounds {
    /// No bounds.
    pub fn new() -> Bounds {
        Bounds::default()
    }

    /// The maximum number of timers to fire; zero for no limit.
    pub fn timers(mut self, most: u32) -> Bounds {
        self.items = most;
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
