//! The thread-local memory of the library: the number of the thread, which every arm and
//! cancel reads, and the innermost frame of a callback.
//!
//! They lie in the static part of thread-local memory if it has room. glibc reserves some
//! hundred bytes of that part for all libraries that are loaded late, and musl none. If the
//! room is used up, a library that insists on it (the initial-exec model) is refused. This
//! one asks for the address by a *TLS descriptor*: a call of a function that changes no
//! register but one, and otherwise allocates the words when a thread first comes. In a program
//! that contains the library, the linker puts the address there instead. Stable Rust can say
//! that only in assembly.

use crate::core::inbox::number_of;
use core::cell::Cell;
use core::ffi::c_void;

/// All zero: no number, and no frame.
#[repr(C)]
pub(super) struct AtHand {
    /// The identity of the thread: its number in the low 16 bits, or 0 if it has none, and above
    /// that how many numbers were given out before.
    pub identity: Cell<u64>,
    /// The innermost frame of `frames.rs`, or null.
    pub inside: Cell<*const c_void>,
}

// The words, as a thread-local variable of the calling thread.
#[cfg(all(
    any(target_arch = "x86_64", target_arch = "aarch64"),
    not(any(miri, checked))
))]
core::arch::global_asm!(
    ".pushsection .tbss.hwheel_at_hand,\"awT\",%nobits",
    ".globl hwheel_at_hand",
    ".hidden hwheel_at_hand",
    ".type hwheel_at_hand, %object",
    ".size hwheel_at_hand, 16",
    ".p2align 4",
    "hwheel_at_hand:",
    ".zero 16",
    ".popsection",
);

const _: () = assert!(size_of::<AtHand>() == 16 && align_of::<AtHand>() <= 16);

#[cfg(all(target_arch = "x86_64", not(any(miri, checked))))]
#[path = "at_hand/x86_64.rs"]
mod place;

#[cfg(all(target_arch = "aarch64", not(any(miri, checked))))]
#[path = "at_hand/aarch64.rs"]
mod place;

#[cfg(not(checked))]
#[cfg(any(not(any(target_arch = "x86_64", target_arch = "aarch64")), miri))]
mod place {
    use super::{AtHand, Cell};

    #[cfg(not(any(feature = "std", test)))]
    compile_error!("without its feature std, hwheel is for x86_64 and aarch64");

    #[cfg(any(feature = "std", test))]
    std::thread_local! {
        static AT_HAND: AtHand = const {
            AtHand {
                identity: Cell::new(0),
                inside: Cell::new(core::ptr::null()),
            }
        };
    }

    #[inline(always)]
    pub fn with<R>(f: impl FnOnce(&AtHand) -> R) -> R {
        AT_HAND.with(f)
    }
}

#[cfg(checked)]
#[path = "../tests/sys/at_hand.rs"]
mod place;

pub(super) use place::with;

/// The identity of the thread.
#[inline(always)]
pub(super) fn identity() -> u64 {
    with(|mine| mine.identity.get())
}

/// The number of the thread, or 0.
#[inline(always)]
pub(super) fn thread() -> u32 {
    number_of(identity())
}
