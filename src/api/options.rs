//! How a wheel is made.

use super::error::Error;
use super::event::Event;
use super::handler::Handler;
use super::time::{nanos, Time};
use super::wheel::{call_handler, Wheel};
use crate::runtime::options::Overload;
use crate::runtime::Host;
use crate::sys::clock::Clock;
use std::time::Duration;

/// How to make a wheel. An option that is not set, or zero, has its default value.
///
/// ```
/// use hwheel::Options;
/// use std::time::Duration;
///
/// let wheel = Options::new()
///     .tick(Duration::from_micros(100))
///     .max_timers(1_000_000)
///     .create()?;
/// # Ok::<(), hwheel::Error>(())
/// ```
#[must_use]
#[derive(Default)]
pub struct Options {
    given: crate::runtime::Options,
    handler: Option<Box<Handler<Wheel>>>,
}

impl Options {
    /// The defaults.
    pub fn new() -> Options {
        Options::default()
    }

    /// The clock; [`Clock::Monotonic`] by default.
    pub fn clock(mut self, clock: Clock) -> Options {
        self.given.clock = clock as u32;
        self
    }

    /// The initial time of a manual clock: below 2^63 ns; zero by default.
    pub fn start(mut self, now: Time) -> Options {
        self.given.start_ns = now.as_nanos();
        self
    }

    /// The length of a tick: 1 us to 1 h; 1 ms by default. A timer fires at the
    /// first tick at or after its deadline.
    pub fn tick(mut self, tick: Duration) -> Options {
        self.given.tick_ns = nanos(tick);
        self
    }

    /// One level for the hashed wheel, 2 to 8 for the hierarchical
    /// wheel; 4 by default.
    pub fn levels(mut self, levels: u32) -> Options {
        self.given.levels = levels;
        self
    }

    /// The number of slots of each level: a power of two from 2 to 65536; 256 by
    /// default. `levels` times the logarithm of `slots` is at most 48.
    pub fn slots(mut self, slots: u32) -> Options {
        self.given.slots = slots;
        self
    }

    /// The maximum number of live timers: up to 67000000, which is the default.
    pub fn max_timers(mut self, limit: u32) -> Options {
        self.given.max_timers = limit;
        self
    }

    /// A closure that the driving thread calls for each timer that fires. It may do
    /// anything with the wheel except drive, stop, drain or wait for itself. The
    /// wheel then has no events: [`Wheel::poll`] and [`Wheel::advance`] call the
    /// handler.
    ///
    /// If the handler panics, the wheel continues, and the next call of
    /// [`Wheel::poll`], [`Wheel::advance`] or [`Wheel::stop`] resumes the panic.
    pub fn handler<F>(mut self, function: F) -> Options
    where
        F: Fn(&Wheel, &Event) + Send + Sync + 'static,
    {
        self.handler = Some(Box::new(Handler::new(Box::new(function))));
        self
    }

    /// The number of threads that call the handler, so that a slow call does not
    /// delay the rest: up to 256; by default the driving thread calls it. The
    /// threads start with the wheel. The handler never runs for one timer on two
    /// threads at once.
    pub fn workers(mut self, workers: u32) -> Options {
        self.given.workers = workers;
        self
    }

    /// The maximum number of expired timers that wait for a worker, and what happens
    /// when the queue is full. A power of two up to 1048576; 1024 by default.
    pub fn queue(mut self, length: u32, overload: Overload) -> Options {
        self.given.queue = length;
        self.given.overload = overload as u32;
        self
    }

    /// One thread is to own the wheel.
    pub(super) fn set_owned(&mut self) {
        self.given.owned = 1;
    }

    /// Makes the wheel.
    ///
    /// # Errors
    /// [`Error::Invalid`] if something is out of range; [`Error::NoMemory`];
    /// [`Error::System`] if no thread can be started.
    pub fn create(self) -> Result<Wheel, Error> {
        let host = Host::create(self.given, call_handler)?;
        let handler = self.handler.map_or(std::ptr::null_mut(), Box::into_raw);
        Ok(Wheel { host, handler })
    }
}

impl Wheel {
    /// A wheel with default [`Options`]: the monotonic clock, ticks of 1 ms.
    ///
    /// # Errors
    /// [`Error::NoMemory`].
    pub fn new() -> Result<Wheel, Error> {
        Options::new().create()
    }
}
