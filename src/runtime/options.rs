//! How a wheel is made.

use super::pool::{Crew, LONGEST_QUEUE, MOST_WORKERS};
use super::Errno;
use crate::core::slab::MOST;
use crate::sys::clock::Clock;
use std::ffi::c_void;

/// How a wheel is made. A member that is zero has its default value.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Options {
    pub clock: Clock,
    pub tick_ns: u64,
    pub levels: u32,
    pub slots: u32,
    pub max_timers: u32,
    pub start_ns: u64,
    /// Callbacks run in the wheel's own threads, or the executor's.
    pub crew: Crew,
    pub executor: Option<Executor>,
    /// The driver has no descriptor: this wakes it.
    pub wake: Option<Executor>,
}

/// An executor, or a function that wakes a driver, as C has it.
pub(crate) type Function = unsafe extern "C-unwind" fn(wheel: *mut c_void, arg: *mut c_void);

/// A function of the caller's, and its argument.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Executor {
    pub func: Function,
    /// The address of the caller's argument.
    pub arg: usize,
}

impl Options {
    /// Callbacks do not run in the driver's thread.
    pub fn is_pooled(&self) -> bool {
        self.crew.workers != 0 || self.executor.is_some()
    }

    /// Fills in the default values. Refuses values out of range, except those that
    /// `Wheel::make` refuses.
    pub fn check(mut self) -> Result<Options, Errno> {
        fn or<T: Default + PartialEq>(value: &mut T, default: T) {
            if *value == T::default() {
                *value = default;
            }
        }
        or(&mut self.tick_ns, 1_000_000);
        or(&mut self.levels, 4);
        or(&mut self.slots, 256);
        or(&mut self.max_timers, MOST);
        or(&mut self.crew.queue, 1024);
        if self.tick_ns > 3_600_000_000_000
            || !self.slots.is_power_of_two()
            || self.max_timers > MOST
            || (self.clock != Clock::Manual && self.start_ns != 0)
            || self.crew.workers > MOST_WORKERS
            || (self.crew.workers != 0 && self.executor.is_some())
            || !self.crew.queue.is_power_of_two()
            || self.crew.queue > LONGEST_QUEUE
        {
            return Err(-libc::EINVAL);
        }
        Ok(self)
    }
}

impl Executor {
    /// Calls the function. An exception that would leave it ends the process.
    pub fn call(self, host: *mut c_void) {
        let arg = std::ptr::with_exposed_provenance_mut(self.arg);
        // SAFETY: the function came with its argument.
        unsafe { (self.func)(host, arg) };
    }
}
