//! How a wheel is made.

use super::error::Error;
use super::event::Event;
use super::handler::{self, Function, Handler};
use super::time::{nanos, Time};
use super::Wheel;
use crate::capi::{self, hwheel_options};
use crate::runtime::Host;
use crate::slab::{BURST, DELAY};
use std::time::Duration;

/// What a wheel counts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Clock {
    /// `CLOCK_MONOTONIC`, that of [`Instant`](std::time::Instant).
    #[default]
    Monotonic,
    /// `CLOCK_BOOTTIME`, which also counts the time the system is suspended.
    Boottime,
    /// `CLOCK_REALTIME`, which follows the wall clock when that is set.
    Realtime,
    /// The caller's own, moved by [`Wheel::advance`].
    Manual,
}

/// What becomes of periods that passed while nobody drove the wheel.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Missed {
    /// They are left out and counted, and the rhythm is kept.
    #[default]
    Skip,
    /// Each is fired, at once, until caught up.
    Burst,
    /// The next period is counted from now.
    Delay,
}

impl Missed {
    pub(crate) fn kind(self) -> u16 {
        match self {
            Missed::Skip => 0,
            Missed::Burst => BURST,
            Missed::Delay => DELAY,
        }
    }
}

/// What happens to a call of the handler for which the queue of the workers has
/// no room.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Overload {
    /// The thread that drives calls it.
    #[default]
    Run,
    /// The thread that drives waits until there is room.
    Block,
    /// It is not called; `Stats::dropped` counts it.
    Drop,
}

/// How a wheel is made. What is not said, or zero, is the default.
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
pub struct Options {
    given: hwheel_options,
    handler: Option<Box<Handler>>,
}

// SAFETY: the one pointer in it, an executor's argument, is null.
unsafe impl Send for Options {}

impl Options {
    /// The defaults.
    pub fn new() -> Options {
        Options {
            given: hwheel_options::DEFAULT,
            handler: None,
        }
    }

    /// The clock; [`Clock::Monotonic`] by default.
    pub fn clock(mut self, clock: Clock) -> Options {
        self.given.clock = match clock {
            Clock::Monotonic => capi::HWHEEL_CLOCK_MONOTONIC,
            Clock::Boottime => capi::HWHEEL_CLOCK_BOOTTIME,
            Clock::Realtime => capi::HWHEEL_CLOCK_REALTIME,
            Clock::Manual => capi::HWHEEL_CLOCK_MANUAL,
        };
        self
    }

    /// Where a manual clock starts: below 2^62 ticks; at zero by default.
    pub fn start(mut self, now: Time) -> Options {
        self.given.start_ns = now.as_nanos();
        self
    }

    /// The length of a tick: 1 ns to 1 h; 1 ms by default. A timer fires at the
    /// first tick at or after its deadline.
    pub fn tick(mut self, tick: Duration) -> Options {
        self.given.tick_ns = nanos(tick);
        self
    }

    /// One level for the hashed wheel with rounds, 2 to 8 for the hierarchical
    /// wheel; 4 by default.
    pub fn levels(mut self, levels: u32) -> Options {
        self.given.levels = levels;
        self
    }

    /// Slots of each level: a power of two from 2 to 65536; 256 by default.
    /// `levels` times the logarithm of `slots` is at most 48.
    pub fn slots(mut self, slots: u32) -> Options {
        self.given.slots = slots;
        self
    }

    /// The limit on live timers: up to 67108864, which is the default.
    pub fn max_timers(mut self, limit: u32) -> Options {
        self.given.max_timers = limit;
        self
    }

    /// A closure that is called for each timer that fires, in the thread that
    /// drives. It may do anything with the wheel but drive, stop, drain or wait
    /// for itself. There are no events then: [`Wheel::poll`] and
    /// [`Wheel::advance`] call it and return none.
    ///
    /// If it panics the wheel goes on, and the next call of [`Wheel::poll`],
    /// [`Wheel::advance`] or [`Wheel::stop`] panics the same way.
    pub fn handler<F>(mut self, function: F) -> Options
    where
        F: Fn(&Wheel, &Event) + Send + Sync + 'static,
    {
        let function: Box<Function> = Box::new(function);
        self.handler = Some(Box::new(Handler::new(function)));
        self
    }

    /// Threads that call the handler, so that one call that takes long does not
    /// delay the rest: up to 256; by default the thread that drives calls it.
    /// The handler never runs for one timer in two threads at once.
    pub fn workers(mut self, workers: u32) -> Options {
        self.given.workers = workers;
        self
    }

    /// How many fired timers may wait for a worker: a power of two up to 1048576;
    /// 1024 by default. And what happens to one for which there is no room.
    pub fn queue(mut self, length: u32, overload: Overload) -> Options {
        self.given.queue = length;
        self.given.overload = match overload {
            Overload::Run => capi::HWHEEL_OVERLOAD_RUN,
            Overload::Block => capi::HWHEEL_OVERLOAD_BLOCK,
            Overload::Drop => capi::HWHEEL_OVERLOAD_DROP,
        };
        self
    }

    /// A sweep stops after so many timers or so long, and the next call that
    /// drives goes on; zero for no limit.
    pub fn budget(mut self, timers: u32, time: Duration) -> Options {
        self.given.budget_items = timers;
        self.given.budget_ns = nanos(time);
        self
    }

    /// Delays are counted from a time that is cheaper to read: never before
    /// CLOCK_MONOTONIC, and less than 0.1 ms after it. For that clock alone.
    pub fn coarse(mut self) -> Options {
        self.given.flags |= capi::HWHEEL_COARSE;
        self
    }

    /// Makes the wheel.
    ///
    /// # Errors
    /// [`Error::Invalid`] if something is out of range; [`Error::NoMemory`];
    /// [`Error::System`] if no thread can be started.
    pub fn create(self) -> Result<Wheel, Error> {
        let host = Host::create(&capi::options(&self.given)?, handler::call)?;
        let handler = self.handler.map_or(std::ptr::null_mut(), Box::into_raw);
        Ok(Wheel { host, handler })
    }
}

impl Default for Options {
    fn default() -> Options {
        Options::new()
    }
}
