//! How a wheel is made.

use super::pool::Crew;
pub(crate) use super::pool::Overload;
use super::pool::{LONGEST_QUEUE, MOST_WORKERS};
use super::time;
use super::{Errno, Host};
use crate::core::driver::Fired;
use crate::core::slab::MOST;
use crate::sys::clock::Clock;

/// How a wheel is made.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Options {
    pub clock: Clock,
    pub tick_ns: u64,
    pub levels: u32,
    pub slots: u32,
    pub max_timers: u32,
    pub start_ns: u64,
    /// Delays are counted from a cheaper reading of CLOCK_MONOTONIC.
    pub coarse: bool,
    /// Callbacks run in threads of their own, or an executor's.
    pub crew: Option<Crew>,
    pub executor: Option<Executor>,
}

/// Bounds of a sweep: a number of timers, and nanoseconds. Zero is no limit.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Budget {
    pub items: u32,
    pub ns: u64,
}

/// Told when a callback was queued: calls the caller's function.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Executor {
    pub call: unsafe fn(&Host, Executor),
    pub func: *const (),
    pub arg: *mut libc::c_void,
}

// SAFETY: a function and its argument, which the caller hands over for any thread.
unsafe impl Send for Executor {}
// SAFETY: as above.
unsafe impl Sync for Executor {}

/// Calls the function of a timer that has fired.
pub(crate) type Call = unsafe fn(&Host, &Fired);

const EINVAL: Errno = -libc::EINVAL;

impl Default for Options {
    fn default() -> Options {
        Options {
            clock: Clock::System(libc::CLOCK_MONOTONIC),
            tick_ns: 1_000_000,
            levels: 4,
            slots: 256,
            max_timers: MOST,
            start_ns: 0,
            coarse: false,
            crew: None,
            executor: None,
        }
    }
}

impl Options {
    /// With threads of the wheel's own or the caller's, if there are any, and a
    /// queue for them; a length of 0 is the default.
    pub fn with_crew(
        self,
        workers: u32,
        queue: u32,
        overload: Overload,
        executor: Option<Executor>,
    ) -> Result<Options, Errno> {
        let queue = if queue == 0 { 1024 } else { queue };
        if workers > MOST_WORKERS
            || (workers != 0 && executor.is_some())
            || !queue.is_power_of_two()
            || queue > LONGEST_QUEUE
        {
            return Err(EINVAL);
        }
        let crew = Crew {
            workers,
            queue,
            overload,
        };
        Ok(Options {
            crew: (workers != 0 || executor.is_some()).then_some(crew),
            executor,
            ..self
        })
    }

    /// Refuses what is out of range. `Wheel::new` refuses shapes that do not fit.
    pub fn check(&self) -> Result<&Options, Errno> {
        let monotonic = self.clock == Clock::System(libc::CLOCK_MONOTONIC);
        time::clock(self.start_ns)?;
        if self.tick_ns > 3_600_000_000_000
            || self.max_timers > MOST
            || (self.coarse && !monotonic)
            || (self.clock != Clock::Manual && self.start_ns != 0)
            || self.slots > 65_536
        {
            return Err(EINVAL);
        }
        Ok(self)
    }
}
