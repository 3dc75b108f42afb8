//! Clocks in nanoseconds.

/// The clock of a wheel.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Clock {
    /// `CLOCK_MONOTONIC`, the clock of [`Instant`](std::time::Instant).
    #[default]
    Monotonic,
    /// `CLOCK_BOOTTIME`, which also counts time spent in suspend.
    Boottime,
    /// `CLOCK_REALTIME`, the wall clock. Timers follow when it is set.
    Realtime,
    /// The caller's own clock, moved by [`Wheel::advance`](crate::Wheel::advance).
    Manual,
}

impl Clock {
    /// The system's clock, unless it is the caller's.
    pub(crate) fn id(self) -> Option<libc::clockid_t> {
        match self {
            Clock::Monotonic => Some(libc::CLOCK_MONOTONIC),
            Clock::Boottime => Some(libc::CLOCK_BOOTTIME),
            Clock::Realtime => Some(libc::CLOCK_REALTIME),
            Clock::Manual => None,
        }
    }
}

/// The time of a clock that a test moves.
#[cfg(checked)]
pub(crate) fn now(_: libc::clockid_t) -> u64 {
    crate::tests::system::now()
}

/// The time of a system clock; 0 if it cannot be read.
#[cfg(not(checked))]
#[inline]
pub(crate) fn now(clock: libc::clockid_t) -> u64 {
    // SAFETY: plain old data.
    let mut t: libc::timespec = unsafe { std::mem::zeroed() };
    // SAFETY: `t` is valid for the write.
    if unsafe { libc::clock_gettime(clock, &mut t) } != 0 {
        return 0;
    }
    (t.tv_sec as u64)
        .wrapping_mul(1_000_000_000)
        .wrapping_add(t.tv_nsec as u64)
}
