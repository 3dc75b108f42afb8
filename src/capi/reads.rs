//! The time of a wheel, its pending timers, and its counts.

use super::args::{size_said, with, ConstWheel, EINVAL};
use super::event::{fill, hwheel_event};
use crate::runtime::drive::Room;
use crate::runtime::stats::{stats, Stats};
use core::ffi::c_int;
use core::mem::MaybeUninit;

/// hwheel_now() - Get the time on the wheel's clock.
/// @wheel: the wheel.
/// @now_ns: receives the time in nanoseconds.
///
/// If the system clock steps back, the wheel's time does not go below the last
/// tick to which the wheel was driven. It stays there until the clock catches
/// up.
///
/// Return:
/// * 0 - @now_ns is set.
/// * -EINVAL - an argument is NULL.
/// * -ESHUTDOWN - this is a forked child.
///
/// Context: any thread, also in a callback. Wait-free.
#[no_mangle]
pub extern "C" fn hwheel_now(
    wheel: ConstWheel<'_>,
    now_ns: Option<&mut MaybeUninit<u64>>,
) -> c_int {
    with(wheel, |host| {
        let now_ns = now_ns.ok_or(EINVAL)?;
        host.check_ours()?;
        now_ns.write(host.now());
        Ok(0)
    })
}

/// hwheel_next_expiry() - Get the time at which to drive the wheel next.
/// @wheel: the wheel.
/// @time_ns: receives the time in nanoseconds on the wheel's clock.
///
/// The time is never later than the next timer. It may be past, and the call may
/// return 1 although no timer is pending: after a timer was cancelled or moved
/// to a later time, until the wheel is driven; after a call that stopped at a
/// bound; in a callback; and while another thread drives. The number of pending
/// timers is in hwheel_stats.pending.
///
/// Do not sleep until this time: this call announces nothing, so that an arm of
/// another thread would not wake the caller. A loop sleeps until
/// hwheel_run.next_ns of the last call that drove the wheel, which is also more
/// exact.
///
/// A timer that is due while its own callback still runs does not count: the end
/// of the callback wakes the driver. Once hwheel_drain() has begun, the time may
/// also be later than a timer that was not handed back yet.
///
/// Return:
/// * 1 - @time_ns is set.
/// * 0 - no timer is pending, or none of them ever fires; @time_ns is not
///   written.
/// * -EINVAL - an argument is NULL.
/// * -ESHUTDOWN - this is a forked child.
///
/// Context: any thread, also in a callback. Never blocks, and never disturbs a
/// thread that drives.
#[no_mangle]
#[must_use]
pub extern "C" fn hwheel_next_expiry(
    wheel: ConstWheel<'_>,
    time_ns: Option<&mut MaybeUninit<u64>>,
) -> c_int {
    with(wheel, |host| {
        let time_ns = time_ns.ok_or(EINVAL)?;
        let next = host.next_expiry()?;
        Ok(next.map(|ns| time_ns.write(ns)).is_some())
    })
}

/// hwheel_list() - Walk over the pending timers.
/// @wheel: the wheel.
/// @cursor: where the walk continues. The caller sets it to 0 before the first
///   call; each call moves it on.
/// @events: receives the timers, in no particular order, with
///   HWHEEL_EVENT_LISTED.
/// @max: number of events that @events has room for, at least 1.
///
/// Serves to inspect, to debug, and to cancel all timers that match. A timer
/// with a key has the handle 0; only hwheel_key_delete() cancels it.
///
/// A timer that is pending during the whole walk is listed exactly once. A timer
/// that is armed, fires or is cancelled during the walk may or may not be
/// listed. A listed timer may have fired when this call returns. The walk may
/// take longer while other threads create timers. It ends at the latest after
/// @max_timers timers.
///
/// Return:
/// * n - the number of timers written. Fewer than @max means that the walk is
///   over.
/// * -EINVAL - an argument is NULL, or @max is 0 or above 2147483647.
/// * -ESHUTDOWN - this is a forked child.
///
/// Context: any thread, also in a callback. Lock-free for timers without a key;
/// takes the lock of each key that it lists. A walk visits every timer once. It
/// takes milliseconds for a million timers, some hundred milliseconds if they
/// have keys.
#[no_mangle]
#[must_use]
pub unsafe extern "C" fn hwheel_list(
    wheel: ConstWheel<'_>,
    cursor: Option<&mut u64>,
    events: *mut hwheel_event,
    max: u32,
) -> c_int {
    with(wheel, |host| {
        let cursor = cursor.ok_or(EINVAL)?;
        // A cursor beyond all timers is at the end of the walk.
        let from = u32::try_from(*cursor).unwrap_or(u32::MAX);
        let list = |room: Room<'_>| host.list(from, room.ok_or(EINVAL)?);
        // SAFETY: the caller's promise.
        let (n, next) = unsafe { fill(events, max, list) }?;
        *cursor = next.into();
        Ok(n)
    })
}

/// hwheel_get_stats() - Get the counts of a wheel.
/// @wheel: the wheel.
/// @stats: receives the counts. Its @size says how much of it to write.
///
/// The library sets members that this version does not know to 0.
///
/// Return:
/// * 0 - @stats is set.
/// * -EINVAL - an argument is NULL, or @size is below 8.
/// * -E2BIG - @size is above 4096.
/// * -ESHUTDOWN - this is a forked child.
///
/// Context: any thread, also in a callback. Never blocks. Sums the counts of all
/// threads, which takes nanoseconds for each thread and each queued callback,
/// however many timers there are.
#[no_mangle]
pub unsafe extern "C" fn hwheel_get_stats(wheel: ConstWheel<'_>, stats: *mut Stats) -> c_int {
    with(wheel, |host| {
        if stats.is_null() {
            return Err(EINVAL);
        }
        // SAFETY: not null, and at least the first word is there.
        let size = unsafe { size_said(stats) }?;
        let all = Stats {
            size: size as u32,
            ..self::stats(host)?
        };
        // SAFETY: `size` bytes are writable, by the caller's promise.
        unsafe {
            let ours = size_of::<Stats>().min(size);
            let to = stats.cast::<u8>();
            core::ptr::copy_nonoverlapping((&raw const all).cast::<u8>(), to, ours);
            core::ptr::write_bytes(to.add(ours), 0, size - ours);
        }
        Ok(0)
    })
}
