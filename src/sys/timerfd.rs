//! The alarm: a timerfd, on which the tick thread sleeps or a caller's event
//! loop waits; and waiting for a descriptor.

use super::{errno, quietly, uncancelled};
use core::time::Duration;

/// The descriptor stays open until `close`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Alarm {
    pub fd: libc::c_int,
    pub clock: libc::clockid_t,
}

impl Alarm {
    pub fn new(clock: libc::clockid_t) -> Result<Self, i32> {
        // SAFETY: no memory is involved.
        quietly(
            || match unsafe { libc::timerfd_create(clock, libc::TFD_CLOEXEC) } {
                fd @ 0.. => Ok(Alarm { fd, clock }),
                _ => Err(-errno()),
            },
        )
    }

    /// Sets the alarm to an absolute time. If the time has passed, it goes off at once; if
    /// it is out of the system's range, never. An expiry that was not read yet is
    /// forgotten. Returns the error if the system refuses.
    pub fn set(&self, at_ns: u64) -> Result<(), i32> {
        // SAFETY: plain old data.
        let mut value: libc::itimerspec = unsafe { core::mem::zeroed() };
        // A zero time would disarm it.
        let ns = at_ns.max(1);
        value.it_value.tv_sec = (ns / 1_000_000_000) as _;
        value.it_value.tv_nsec = (ns % 1_000_000_000) as _;
        let mut flags = libc::TFD_TIMER_ABSTIME;
        if self.clock == libc::CLOCK_REALTIME {
            // A step of the wall clock wakes the sleeper as well.
            flags |= libc::TFD_TIMER_CANCEL_ON_SET;
        }
        // SAFETY: `value` is valid; the old value is not asked for.
        quietly(|| unsafe {
            match libc::timerfd_settime(self.fd, flags, &value, core::ptr::null_mut()) {
                0 => Ok(()),
                // The clock was set since the last read. The alarm is set nevertheless.
                _ if errno() == libc::ECANCELED => Ok(()),
                _ => Err(-errno()),
            }
        })
    }

    /// The alarm goes off no more, and its descriptor is not readable.
    pub fn clear(&self) {
        // SAFETY: plain old data, in which zeros disarm it; the old value is not asked for.
        quietly(|| unsafe {
            libc::timerfd_settime(self.fd, 0, &core::mem::zeroed(), core::ptr::null_mut())
        });
    }

    /// Sleeps until the alarm goes off, the clock is set, or a signal arrives. False if
    /// no thread can sleep on the alarm at all.
    pub fn wait(&self) -> bool {
        // A callback may have cancelled this thread. If it ended here, no thread would drive
        // the wheel.
        uncancelled(|| {
            let mut times = 0u64;
            // SAFETY: eight bytes of our own.
            if unsafe { libc::read(self.fd, (&raw mut times).cast(), 8) } == 8 {
                return true;
            }
            match errno() {
                libc::EINTR | libc::ECANCELED => true,
                // An event loop has made the descriptor non-blocking.
                libc::EAGAIN => ready(self.fd, None).is_ok(),
                _ => false,
            }
        })
    }

    /// The last use.
    pub fn close(self) {
        // SAFETY: our own descriptor, used no more.
        uncancelled(|| unsafe { libc::close(self.fd) });
    }
}

/// Blocks until a descriptor is readable, or for a time; `None` is no limit.
/// False if the time is up. A signal ends the call early, with true.
pub(crate) fn ready(fd: i32, timeout: Option<Duration>) -> Result<bool, i32> {
    // Rounded up: not a loop of waits for nothing before the time is up.
    let ms = timeout.map_or(-1, |t| {
        i32::try_from(t.as_nanos().div_ceil(1_000_000)).unwrap_or(i32::MAX)
    });
    let mut poll = libc::pollfd {
        fd,
        events: libc::POLLIN,
        revents: 0,
    };
    // SAFETY: one valid element.
    match unsafe { libc::poll(&mut poll, 1, ms) } {
        0 => Ok(false),
        n if n > 0 => Ok(true),
        _ => match errno() {
            libc::EINTR => Ok(true),
            error => Err(-error),
        },
    }
}
