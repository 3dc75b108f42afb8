//! The arguments that most functions have: a wheel, a time, a struct that may grow.

use crate::runtime::times::time;
use crate::runtime::{number, Errno, Host};
use core::ffi::c_int;

/// A time that never comes.
pub const HWHEEL_NEVER: u64 = u64::MAX;

/// Flag: the time is a point on the wheel's clock, not a delay.
pub const HWHEEL_ABS: u32 = 1 << 0;

/// A timing wheel. hwheel_create() makes one.
pub struct hwheel {
    _opaque: [u8; 0],
}

pub(super) const EINVAL: Errno = -libc::EINVAL;

/// A wheel as the caller passes it: NULL, or from hwheel_create() and not destroyed. The
/// header calls it `struct hwheel *`, by cbindgen.toml.
///
/// cbindgen:ignore
pub(super) type Wheel<'a> = Option<&'a Host>;
/// A wheel in functions that only read. The header calls it `const struct hwheel *`.
///
/// cbindgen:ignore
pub(super) type ConstWheel<'a> = Option<&'a Host>;

/// Calls `f`, and returns what C gets.
#[inline(always)]
pub(super) fn with<R: Into<c_int>>(
    wheel: Wheel<'_>,
    f: impl FnOnce(&Host) -> Result<R, Errno>,
) -> c_int {
    wheel.map_or(EINVAL, |host| number(f(host)))
}

/// The same of a call that another thread than the owner may not make: that is looked at first.
#[inline(always)]
pub(super) fn with_mine<R: Into<c_int>>(
    wheel: Wheel<'_>,
    f: impl FnOnce(&Host) -> Result<R, Errno>,
) -> c_int {
    with(wheel, |host| {
        host.check_mine()?;
        f(host)
    })
}

/// The size of a caller's extensible struct, which is its first word.
///
/// # Safety
/// `of` points to it.
pub(super) unsafe fn size_said<T>(of: *const T) -> Result<usize, Errno> {
    // SAFETY: the caller's promise.
    match unsafe { of.cast::<u32>().read() } as usize {
        0..8 => Err(EINVAL),
        size @ 8..=4096 => Ok(size),
        _ => Err(-libc::E2BIG),
    }
}

/// Reads an extensible struct the way the kernel does: zeros complete a shorter
/// one, and members beyond this version must be zero. NULL is all zeros.
///
/// # Safety
/// `from` is null or points to the number of bytes that its first word says, and `T` is
/// plain integers and pointers.
pub(super) unsafe fn extensible<T>(from: *const T) -> Result<T, Errno> {
    let ours = size_of::<T>();
    let mut read = core::mem::MaybeUninit::<T>::zeroed();
    if !from.is_null() {
        // SAFETY: the caller's promise covers at least the first word.
        let size = unsafe { size_said(from) }?;
        // SAFETY: `size` bytes are readable, and at most `ours` are written.
        unsafe {
            let (from, to) = (from.cast::<u8>(), read.as_mut_ptr().cast::<u8>());
            core::ptr::copy_nonoverlapping(from, to, size.min(ours));
            for i in ours..size {
                if *from.add(i) != 0 {
                    return Err(-libc::E2BIG);
                }
            }
        }
    }
    // SAFETY: all zero is a value, and so is what the caller has written.
    Ok(unsafe { read.assume_init() })
}

/// The deadline of a call whose only flag is HWHEEL_ABS.
#[inline]
pub(super) fn due(host: &Host, ns: u64, flags: u32) -> Result<u64, Errno> {
    match flags {
        0 => Ok(host.after(time(ns)?)),
        HWHEEL_ABS => time(ns),
        _ => Err(EINVAL),
    }
}
