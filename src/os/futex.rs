//! Sleeping until a state word changes: a futex on its low half, which holds
//! the flags.

use super::quietly;
use crate::sync::AtomicU64;
use crate::wheel::Park;

pub(crate) struct Futex;

fn low_half(word: &AtomicU64) -> *const u32 {
    let at = std::ptr::from_ref(word).cast::<u32>();
    if cfg!(target_endian = "big") {
        at.wrapping_add(1)
    } else {
        at
    }
}

impl Park for Futex {
    fn wait(&self, word: &AtomicU64, seen: u64) {
        // SAFETY: the word lies in a node, which stays mapped. It returns if
        // the low half is not `seen`, on a wake-up, and on a signal.
        quietly(|| unsafe {
            libc::syscall(
                libc::SYS_futex,
                low_half(word),
                libc::FUTEX_WAIT | libc::FUTEX_PRIVATE_FLAG,
                seen as u32,
                std::ptr::null::<libc::timespec>(),
            )
        });
    }

    fn wake(&self, word: &AtomicU64) {
        // SAFETY: as above.
        quietly(|| unsafe {
            libc::syscall(
                libc::SYS_futex,
                low_half(word),
                libc::FUTEX_WAKE | libc::FUTEX_PRIVATE_FLAG,
                i32::MAX,
            )
        });
    }
}
