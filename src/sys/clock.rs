//! Clocks in nanoseconds.

/// The clock of a wheel. The C functions know it by its number.
#[cfg_attr(not(feature = "std"), allow(dead_code))]
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

/// The system's clock for the number of a [`Clock`], unless it is the caller's.
pub(crate) fn id(clock: u32) -> Option<libc::clockid_t> {
    let system = [
        libc::CLOCK_MONOTONIC,
        libc::CLOCK_BOOTTIME,
        libc::CLOCK_REALTIME,
    ];
    system.get(clock as usize).copied()
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
    let mut t: libc::timespec = unsafe { core::mem::zeroed() };
    // SAFETY: `t` is valid for the write.
    if unsafe { libc::clock_gettime(clock, &mut t) } != 0 {
        return 0;
    }
    (t.tv_sec as u64)
        .wrapping_mul(1_000_000_000)
        .wrapping_add(t.tv_nsec as u64)
}
