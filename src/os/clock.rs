//! Clocks in nanoseconds.

/// What a wheel's time is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Clock {
    /// One of the system's.
    System(libc::clockid_t),
    /// The caller's, through `advance`.
    Manual,
}

/// The time of a system clock; 0 if it cannot be read.
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

/// The cheap form of a system clock, which stands still between the kernel's
/// ticks, and what is added to it so that it is not behind the time: twice its
/// resolution, for a tick may come late. `None` if there is no such form.
pub(crate) fn coarse(clock: libc::clockid_t) -> Option<(libc::clockid_t, u64)> {
    let coarse = match clock {
        libc::CLOCK_MONOTONIC => libc::CLOCK_MONOTONIC_COARSE,
        libc::CLOCK_REALTIME => libc::CLOCK_REALTIME_COARSE,
        _ => return None,
    };
    let mut t = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: `t` is valid for the write.
    let known = unsafe { libc::clock_getres(coarse, &mut t) } == 0;
    known.then_some((coarse, 2 * t.tv_nsec as u64))
}
