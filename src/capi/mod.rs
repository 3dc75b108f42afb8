//! The C functions: validate, call, map the error. Their documentation is the
//! header's; `hwheel.h.in` puts it in order.
//!
//! `build.rs` adds the parameters, errors and context that most functions share.
//!
//! The caller promises that pointers are what the documentation says. Where a type of Rust
//! says it too, the function has that type; the others are unsafe.
//!
//! No panic crosses this boundary: the library is built to abort on one, and
//! nothing here can cause one.

// Names and comments are for readers of C, and so are constants that the library
// itself has no use for.
#![allow(
    non_camel_case_types,
    rustdoc::broken_intra_doc_links,
    unreachable_pub,
    dead_code
)]

pub(crate) mod drive;
mod key;
mod once;
pub(crate) mod options;
pub(crate) mod stats;
pub(crate) mod timer;

use crate::runtime::time::time;
use crate::runtime::{number, words, Errno, Host};
use std::ffi::{c_char, c_int};
use timer::HWHEEL_ABS;

/// Major version: incremented when the binary interface breaks.
pub const HWHEEL_VERSION_MAJOR: u32 = 0;
/// Minor version: incremented when functions are added.
pub const HWHEEL_VERSION_MINOR: u32 = 1;
/// Patch version.
pub const HWHEEL_VERSION_PATCH: u32 = 0;

/// A time that never comes.
pub const HWHEEL_NEVER: u64 = u64::MAX;

/// A timing wheel. hwheel_create() makes one.
pub struct hwheel {
    _opaque: [u8; 0],
}

const EINVAL: Errno = -libc::EINVAL;

/// A wheel as the caller passes it: NULL, or from hwheel_create() and not destroyed. The
/// header calls it `struct hwheel *`, by cbindgen.toml.
///
/// cbindgen:ignore
type Wheel<'a> = Option<&'a Host>;
/// The same in functions that only read: `const struct hwheel *`.
///
/// cbindgen:ignore
type ConstWheel<'a> = Option<&'a Host>;

/// Calls `f`, and returns what C gets.
#[inline(always)]
fn with<R: Into<c_int>>(wheel: Wheel<'_>, f: impl FnOnce(&Host) -> Result<R, Errno>) -> c_int {
    wheel.map_or(EINVAL, |host| number(f(host)))
}

/// The size of a caller's extensible struct, which is its first word.
///
/// # Safety
/// `of` points to it.
unsafe fn size_said<T>(of: *const T) -> Result<usize, Errno> {
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
unsafe fn extensible<T>(from: *const T) -> Result<T, Errno> {
    let ours = size_of::<T>();
    let mut read = std::mem::MaybeUninit::<T>::zeroed();
    if !from.is_null() {
        // SAFETY: the caller's promise covers at least the first word.
        let size = unsafe { size_said(from) }?;
        // SAFETY: `size` bytes are readable, and at most `ours` are written.
        unsafe {
            let (from, to) = (from.cast::<u8>(), read.as_mut_ptr().cast::<u8>());
            std::ptr::copy_nonoverlapping(from, to, size.min(ours));
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
fn due(host: &Host, ns: u64, flags: u32) -> Result<u64, Errno> {
    match flags {
        0 => Ok(host.after(time(ns)?)),
        HWHEEL_ABS => time(ns),
        _ => Err(EINVAL),
    }
}

/// hwheel_version() - Get the version of the library in use.
///
/// Return: the version as in HWHEEL_VERSION.
///
/// Context: any thread, any time. Wait-free.
#[no_mangle]
pub extern "C" fn hwheel_version() -> u32 {
    HWHEEL_VERSION_MAJOR << 16 | HWHEEL_VERSION_MINOR << 8 | HWHEEL_VERSION_PATCH
}

/// hwheel_version_string() - Get the version of the library as text.
///
/// Return: a string such as "0.1.0". It stays valid until the process ends.
///
/// Context: any thread, any time. Wait-free.
#[no_mangle]
pub extern "C" fn hwheel_version_string() -> *const c_char {
    concat!(env!("CARGO_PKG_VERSION"), "\0").as_ptr().cast()
}

/// hwheel_strerror() - Describe an error.
/// @error: a value that a function of this library has returned.
///
/// The text says what the error means for a wheel: "the timer no longer exists"
/// for -ESTALE, where strerror() says "Stale file handle".
///
/// Return: a string that stays valid until the process ends; "success" for 0 and
/// above, "unknown error" for a value that no function returns. Never NULL.
///
/// Context: any thread, any time. Wait-free.
#[no_mangle]
pub extern "C" fn hwheel_strerror(error: c_int) -> *const c_char {
    let text = match error {
        0.. => c"success",
        _ => words(error).unwrap_or(c"unknown error"),
    };
    text.as_ptr()
}
