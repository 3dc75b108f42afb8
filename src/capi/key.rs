//! Timers by a key of the caller's.

use super::args::{due, with_mine, ConstWheel, Wheel, EINVAL};
use super::event::{hwheel_fn, number_of_fn};
use crate::runtime::keys::LENGTHS;
use crate::runtime::Errno;
use core::ffi::{c_int, c_void};

/// A caller's key.
///
/// # Safety
/// `key` is null or has `len` bytes.
unsafe fn key_of<'a>(key: *const c_void, len: u32) -> Result<&'a [u8], Errno> {
    if key.is_null() || !LENGTHS.contains(&(len as usize)) {
        return Err(EINVAL);
    }
    // SAFETY: the caller's promise.
    Ok(unsafe { core::slice::from_raw_parts(key.cast(), len as usize) })
}

/// hwheel_key_set() - Give a key a timer that fires once.
/// @wheel: the wheel.
/// @key: any bytes, for example those of a number; the wheel copies them.
/// @key_len: number of bytes, 1 to 255.
/// @time_ns: delay in nanoseconds, or with HWHEEL_ABS a point on the wheel's
///   clock. HWHEEL_NEVER is never.
/// @fn: the callback; NULL for an event.
/// @cookie: any value; the callback or the event receives it.
/// @flags: 0 or HWHEEL_ABS.
///
/// The new timer replaces a pending timer of the same key, which then does not
/// fire. With the same @fn this call moves the timer and needs no memory. With
/// another @fn both timers count as live until this call returns.
///
/// A keyed timer has no handle: @timer of its event is 0. Its key is free before
/// the callback starts, so the callback can set the key again. With workers, two
/// callbacks of one key may then run concurrently. If the old timer comes due
/// during this call, it is either replaced, or it fires and the key gets a new
/// timer.
///
/// Return:
/// * 1 - a pending timer of this key was replaced.
/// * 0 - the key had no pending timer; it has one now.
/// * -EINVAL - @wheel or @key is NULL, @key_len is 0 or above 255, a flag is
///   unknown, or @time_ns is 2^63 or above and not HWHEEL_NEVER.
/// * -ENOSPC - the limit on live timers is reached; nothing has changed.
/// * -ENOMEM - no memory; nothing has changed.
/// * -EUSERS - 32767 other threads of the process use timers.
/// * -ESHUTDOWN - the wheel was drained, or this is a forked child.
///
/// Context: any thread, also in a callback. Briefly takes one of 64 locks,
/// chosen by the key; no callback runs under it. Calls the allocator for a key
/// of more than 30 bytes and when the table grows. The table takes 70 to 150
/// bytes for each key. It shrinks when less than an eighth of it is used.
#[no_mangle]
#[must_use]
pub unsafe extern "C" fn hwheel_key_set(
    wheel: Wheel<'_>,
    key: *const c_void,
    key_len: u32,
    time_ns: u64,
    r#fn: hwheel_fn,
    cookie: u64,
    flags: u32,
) -> c_int {
    // SAFETY: the caller's promise.
    let key = unsafe { key_of(key, key_len) };
    let func = number_of_fn(r#fn);
    with_mine(wheel, |h| {
        h.key_set(key?, func, cookie, due(h, time_ns, flags)?)
    })
}

/// hwheel_key_mod() - Move the pending timer of a key.
/// @wheel: the wheel.
/// @key: the key, as in hwheel_key_set().
/// @key_len: number of bytes, 1 to 255.
/// @time_ns: delay in nanoseconds, or with HWHEEL_ABS a point on the wheel's
///   clock. HWHEEL_NEVER is never.
/// @flags: 0 or HWHEEL_ABS.
///
/// The timer keeps its callback and its cookie.
///
/// Return:
/// * 1 - the timer was pending and has been moved.
/// * 0 - the key has no pending timer; nothing has changed.
/// * -EINVAL - @wheel or @key is NULL, @key_len is 0 or above 255, a flag is
///   unknown, or @time_ns is 2^63 or above and not HWHEEL_NEVER.
/// * -ENOMEM - no memory; nothing has changed.
/// * -EUSERS - 32767 other threads of the process use timers.
/// * -ESHUTDOWN - the wheel was drained, or this is a forked child.
///
/// Context: any thread, also in a callback. Briefly takes the lock of the key.
/// Calls no allocator.
#[no_mangle]
pub unsafe extern "C" fn hwheel_key_mod(
    wheel: Wheel<'_>,
    key: *const c_void,
    key_len: u32,
    time_ns: u64,
    flags: u32,
) -> c_int {
    // SAFETY: the caller's promise.
    let key = unsafe { key_of(key, key_len) };
    with_mine(wheel, |h| h.key_move(key?, due(h, time_ns, flags)?))
}

/// hwheel_key_delete() - Cancel the pending timer of a key.
/// @wheel: the wheel.
/// @key: the key, as in hwheel_key_set().
/// @key_len: number of bytes, 1 to 255.
///
/// Return:
/// * 1 - the timer was pending and will not fire; timer and key are gone.
/// * 0 - the key has no pending timer: none was set, or it has fired.
/// * -EINVAL - @wheel or @key is NULL, or @key_len is 0 or above 255.
/// * -ESHUTDOWN - this is a forked child.
///
/// Context: any thread, also in a callback. Briefly takes the lock of the key.
/// Calls the allocator only to free the memory of a key of more than 30 bytes,
/// and to move a large table that is mostly empty to a smaller one.
#[no_mangle]
pub unsafe extern "C" fn hwheel_key_delete(
    wheel: Wheel<'_>,
    key: *const c_void,
    key_len: u32,
) -> c_int {
    // SAFETY: the caller's promise.
    let key = unsafe { key_of(key, key_len) };
    with_mine(wheel, |h| h.key_delete(key?))
}

/// hwheel_key_pending() - Test whether a key has a pending timer.
/// @wheel: the wheel.
/// @key: the key, as in hwheel_key_set().
/// @key_len: number of bytes, 1 to 255.
///
/// Return:
/// * 1 - the key has a pending timer.
/// * 0 - the key has none.
/// * -EINVAL - @wheel or @key is NULL, or @key_len is 0 or above 255.
/// * -ESHUTDOWN - this is a forked child.
///
/// Context: any thread, also in a callback. Briefly takes the lock of the key.
/// Calls no allocator.
#[no_mangle]
pub unsafe extern "C" fn hwheel_key_pending(
    wheel: ConstWheel<'_>,
    key: *const c_void,
    key_len: u32,
) -> c_int {
    // SAFETY: the caller's promise.
    let key = unsafe { key_of(key, key_len) };
    with_mine(wheel, |h| h.key_pending(key?))
}
