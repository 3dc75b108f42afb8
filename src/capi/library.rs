//! The version of the library, and words for its errors.

use crate::runtime::words;
use core::ffi::{c_char, c_int};

/// Major version: incremented when the binary interface breaks.
pub const HWHEEL_VERSION_MAJOR: u32 = 0;
/// Minor version: incremented when functions are added.
pub const HWHEEL_VERSION_MINOR: u32 = 1;
/// Patch version.
pub const HWHEEL_VERSION_PATCH: u32 = 0;

/// hwheel_version() - Get the version of the library in use.
///
/// Return: the version as in HWHEEL_VERSION.
///
/// Context: any thread. Wait-free.
#[no_mangle]
pub extern "C" fn hwheel_version() -> u32 {
    HWHEEL_VERSION_MAJOR << 16 | HWHEEL_VERSION_MINOR << 8 | HWHEEL_VERSION_PATCH
}

/// hwheel_version_string() - Get the version of the library as text.
///
/// Return: a string such as "0.1.0". It stays valid until the process ends.
///
/// Context: any thread. Wait-free.
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
/// Context: any thread. Wait-free.
#[no_mangle]
pub extern "C" fn hwheel_strerror(error: c_int) -> *const c_char {
    let text = match error {
        0.. => c"success",
        _ => words(error).unwrap_or(c"unknown error"),
    };
    text.as_ptr()
}
