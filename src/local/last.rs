//! The thread's last wheel and its shard there: two words of thread-local
//! memory that every arm and cancel reads.
//!
//! Where the platform has it they lie in the static part of thread-local memory
//! (the initial-exec model), two instructions away also in a shared library,
//! where the usual model calls a function; the sixteen bytes come out of the
//! reserve that the C library keeps for that. Stable Rust has no other way to
//! ask for it than to define the symbol in assembly.

use super::Held;
use std::cell::Cell;

#[cfg(all(
    target_os = "linux",
    target_env = "gnu",
    any(target_arch = "x86_64", target_arch = "aarch64"),
    not(miri)
))]
mod place {
    use super::{Cell, Held};

    // Zeros: no wheel has the id 0.
    std::arch::global_asm!(
        ".pushsection .tbss.hwheel_last,\"awT\",%nobits",
        ".globl hwheel_last",
        ".hidden hwheel_last",
        ".type hwheel_last, %object",
        ".size hwheel_last, 16",
        ".p2align 4",
        "hwheel_last:",
        ".zero 16",
        ".popsection",
    );

    const _: () = assert!(size_of::<Held>() == 16 && align_of::<Held>() <= 16);

    #[inline(always)]
    pub fn with<R>(f: impl FnOnce(&Cell<Held>) -> R) -> R {
        let at: *const Cell<Held>;
        // SAFETY: computes the address of the calling thread's `hwheel_last`.
        #[cfg(target_arch = "x86_64")]
        unsafe {
            std::arch::asm!(
                "mov {0}, qword ptr [rip + hwheel_last@GOTTPOFF]",
                "add {0}, qword ptr fs:[0]",
                out(reg) at,
                options(pure, readonly, nostack),
            );
        }
        // SAFETY: as above.
        #[cfg(target_arch = "aarch64")]
        unsafe {
            std::arch::asm!(
                "mrs {0}, tpidr_el0",
                "adrp {1}, :gottprel:hwheel_last",
                "ldr {1}, [{1}, #:gottprel_lo12:hwheel_last]",
                "add {0}, {0}, {1}",
                out(reg) at,
                out(reg) _,
                options(pure, readonly, nostack, preserves_flags),
            );
        }
        // SAFETY: sixteen bytes of this thread, which lives while this runs;
        // zeros are a `Held`, of no wheel and with a null token.
        f(unsafe { &*at })
    }
}

#[cfg(not(all(
    target_os = "linux",
    target_env = "gnu",
    any(target_arch = "x86_64", target_arch = "aarch64"),
    not(miri)
)))]
mod place {
    use super::super::NONE;
    use super::{Cell, Held};

    thread_local! {
        static LAST: Cell<Held> = const { Cell::new(NONE) };
    }

    #[inline(always)]
    pub fn with<R>(f: impl FnOnce(&Cell<Held>) -> R) -> R {
        LAST.with(f)
    }
}

#[inline(always)]
pub(super) fn get() -> Held {
    place::with(Cell::get)
}

pub(super) fn set(held: Held) {
    place::with(|last| last.set(held));
}
