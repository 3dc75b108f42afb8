//! Clocks in nanoseconds.

use crate::sys::counter::Counter;

/// The clock of a wheel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Clock {
    /// One of the system's.
    System(libc::clockid_t),
    /// CLOCK_MONOTONIC; delays are counted from a cheaper reading of it.
    Coarse(Counter),
    /// The caller's, through `advance`.
    Manual,
}

impl Default for Clock {
    fn default() -> Self {
        Clock::System(libc::CLOCK_MONOTONIC)
    }
}

impl Clock {
    /// The system clock that the wheel goes by.
    #[inline(always)]
    pub fn id(self) -> Option<libc::clockid_t> {
        match self {
            Clock::System(clock) => Some(clock),
            Clock::Coarse(_) => Some(libc::CLOCK_MONOTONIC),
            Clock::Manual => None,
        }
    }
}

/// The time of a clock that a test moves.
#[cfg(shuttle)]
pub(crate) fn now(_: libc::clockid_t) -> u64 {
    crate::tests::shuttle::host::now()
}

/// The time of a system clock; 0 if it cannot be read.
#[cfg(not(shuttle))]
#[inline]
pub(crate) fn now(clock: libc::clockid_t) -> u64 {
    let mut t = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: `t` is valid for the write.
    if unsafe { libc::clock_gettime(clock, &mut t) } != 0 {
        return 0;
    }
    (t.tv_sec as u64)
        .wrapping_mul(1_000_000_000)
        .wrapping_add(t.tv_nsec as u64)
}
