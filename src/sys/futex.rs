//! Sleeping until a word changes: what the kernel has for it.

use super::quietly;
use crate::sync::AtomicU64;

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

/// The half of a state word that holds the flags.
fn low_half(word: &AtomicU64) -> *const u32 {
    let at = std::ptr::from_ref(word).cast::<u32>();
    if cfg!(target_endian = "big") {
        at.wrapping_add(1)
    } else {
        at
    }
}

/// Returns soon after a state word, which is `seen`, has other flags.
pub(crate) fn wait_for_state(word: &AtomicU64, seen: u64) {
    // SAFETY: the word lies in a node.
    unsafe { wait(low_half(word), seen as u32) };
}

pub(crate) fn wake_for_state(word: &AtomicU64) {
    wake(low_half(word), i32::MAX);
}
