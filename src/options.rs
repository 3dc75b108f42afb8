//! What the options of a wheel may be: defaults and ranges, for C and for Rust.

use crate::host::{Errno, Executor, Options};
use crate::os::clock::Clock;
pub(crate) use crate::pool::Overload;
use crate::pool::{Crew, LONGEST_QUEUE, MOST_WORKERS};
use crate::slab::MOST;
use crate::time;

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
