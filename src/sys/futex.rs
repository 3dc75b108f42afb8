//! Sleeping until a word changes, by the kernel's futex.

use super::quietly;
use crate::sync::AtomicU32;

/// Returns if the word is not `seen`, on a wake-up, and on a signal.
pub(super) fn wait(word: &AtomicU32, seen: u32) {
    futex(word, libc::FUTEX_WAIT, seen);
}

/// Wakes up to `most` waiting threads. The word need not be mapped any more.
pub(super) fn wake(word: *const AtomicU32, most: i32) {
    futex(word, libc::FUTEX_WAKE, most as u32);
}

fn futex(word: *const AtomicU32, call: i32, number: u32) {
    let call = call | libc::FUTEX_PRIVATE_FLAG;
    let no_limit = core::ptr::null::<libc::timespec>();
    // SAFETY: the kernel reads the word at most, and refuses what is not mapped.
    quietly(|| unsafe { libc::syscall(libc::SYS_futex, word, call, number, no_limit) });
}
