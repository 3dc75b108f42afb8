//! How a wheel is made.

use super::pool::Crew;
use super::Host;
use crate::sweep::Fired;
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
    pub budget: Budget,
    /// Callbacks run in threads of their own, or an executor's.
    pub crew: Option<Crew>,
    pub executor: Option<Executor>,
}

/// When a sweep stops that is not done: after so many items, after so many
/// nanoseconds. Zero is no limit.
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

/// Calls the function of a timer that has fired.
pub(crate) type Call = unsafe fn(&Host, &Fired);
