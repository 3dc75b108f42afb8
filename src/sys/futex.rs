//! Sleeping until a word changes: what the kernel has for it.

use super::quietly;

/// Returns if the word is not `seen`, on a wake-up, and on a signal.
///
/// # Safety
/// `word` stays mapped.
pub(super) unsafe fn wait(word: *const u32, seen: u32) {
    // SAFETY: the caller's promise.
    quietly(|| unsafe {
        libc::syscall(
            libc::SYS_futex,
            word,
            libc::FUTEX_WAIT | libc::FUTEX_PRIVATE_FLAG,
            seen,
            std::ptr::null::<libc::timespec>(),
        )
    });
}

/// Wakes up to `most` that wait. A word that is mapped no more is no matter.
pub(super) fn wake(word: *const u32, most: i32) {
    // SAFETY: the kernel only takes the address.
    quietly(|| unsafe {
        libc::syscall(
            libc::SYS_futex,
            word,
            libc::FUTEX_WAKE | libc::FUTEX_PRIVATE_FLAG,
            most,
        )
    });
}
