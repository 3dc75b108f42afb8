//! Waiting for a descriptor.

use super::errno;
use std::time::Duration;

/// Blocks until a descriptor is readable, or for so long; `None` is no limit.
/// False if the time was up. A signal ends it early, with true.
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
            error => Err(error),
        },
    }
}
