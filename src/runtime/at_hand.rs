//! The thread-local memory of the library: the number of the thread, which every arm and
//! cancel reads, and the innermost frame of a callback.
//!
//! Where the platform allows it, these words lie in the static part of thread-local
//! memory (the initial-exec model). A shared library then reads them with two
//! instructions, where the usual model calls a function. The C library reserves
//! some hundred bytes of that memory for all libraries that are loaded late, so
//! `make check-exports` limits its use. Stable Rust can define such a symbol only
//! in assembly.

use core::cell::Cell;
use core::ffi::c_void;

/// All zero: no number, and no frame.
#[repr(C)]
pub(super) struct AtHand {
    /// The number of the thread, or 0.
    pub thread: Cell<u64>,
    /// The innermost frame of `frames.rs`, or null.
    pub inside: Cell<*const c_void>,
}

#[cfg(all(
    target_env = "gnu",
    any(target_arch = "x86_64", target_arch = "aarch64"),
    not(any(miri, checked))
))]
mod place {
    use super::AtHand;

    // As the thread-local variable below.
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

    #[inline(always)]
    pub fn with<R>(f: impl FnOnce(&AtHand) -> R) -> R {
        let at: *const AtHand;
        // SAFETY: computes the address of the calling thread's `hwheel_at_hand`.
        #[cfg(target_arch = "x86_64")]
        unsafe {
            core::arch::asm!(
                "mov {0}, qword ptr [rip + hwheel_at_hand@GOTTPOFF]",
                "add {0}, qword ptr fs:[0]",
                out(reg) at,
                options(pure, readonly, nostack),
            );
        }
        // SAFETY: as above.
        #[cfg(target_arch = "aarch64")]
        unsafe {
            core::arch::asm!(
                "mrs {0}, tpidr_el0",
                "adrp {1}, :gottprel:hwheel_at_hand",
                "ldr {1}, [{1}, #:gottprel_lo12:hwheel_at_hand]",
                "add {0}, {0}, {1}",
                out(reg) at,
                out(reg) _,
                options(pure, readonly, nostack, preserves_flags),
            );
        }
        // SAFETY: 16 bytes of this thread, which lives while this runs; at first they
        // are zeros.
        f(unsafe { &*at })
    }
}

#[cfg(not(checked))]
#[cfg(not(all(
    target_env = "gnu",
    any(target_arch = "x86_64", target_arch = "aarch64"),
    not(any(miri, checked))
)))]
mod place {
    use super::{AtHand, Cell};

    thread_local! {
        static AT_HAND: AtHand = const {
            AtHand {
                thread: Cell::new(0),
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

/// The number of the thread, or 0.
#[inline(always)]
pub(super) fn thread() -> u32 {
    with(|mine| mine.thread.get()) as u32
}
