//! The thread-local memory of the library: the thread's last wheel and its shard
//! there, which every arm and cancel reads; the base of the coarse clock; the table
//! of further wheels; and the innermost frame of a callback.
//!
//! Where the platform allows it, these words lie in the static part of thread-local
//! memory (the initial-exec model). A shared library then reads them with two
//! instructions, where the usual model calls a function. The C library reserves
//! some hundred bytes of that memory for all libraries that are loaded late, so
//! `make check-exports` limits its use. Stable Rust can define such a symbol only
//! in assembly.

use crate::core::wheel::Token;
use crate::sys::counter::Base;
use std::cell::Cell;
use std::ffi::c_void;

/// A shard that the thread holds.
#[derive(Clone, Copy)]
#[repr(C)]
pub(super) struct Held {
    /// The id of the wheel.
    pub id: u64,
    pub token: Token,
}

/// Not 0, which a wheel's id is in a forked child.
pub(super) const NONE: Held = Held {
    id: u64::MAX,
    token: Token(std::ptr::null_mut()),
};

#[repr(C)]
pub(super) struct AtHand {
    pub last: Cell<Held>,
    pub base: Cell<Base>,
    /// The first page of `table.rs`, or null.
    pub table: Cell<*const c_void>,
    /// The innermost frame of `frames.rs`, or null.
    pub inside: Cell<*const c_void>,
}

#[cfg(all(
    target_env = "gnu",
    any(target_arch = "x86_64", target_arch = "aarch64"),
    not(any(miri, checked))
))]
mod place {
    use super::{AtHand, Held};
    #[cfg(target_arch = "x86_64")]
    use crate::core::wheel::{Shard, Token};

    // As the thread-local variable below. Its zeros: no base has the time 0, and no
    // page the address 0.
    std::arch::global_asm!(
        ".pushsection .tdata.hwheel_at_hand,\"awT\",%progbits",
        ".globl hwheel_at_hand",
        ".hidden hwheel_at_hand",
        ".type hwheel_at_hand, %object",
        ".size hwheel_at_hand, 48",
        ".p2align 4",
        "hwheel_at_hand:",
        ".quad -1",
        ".zero 40",
        ".popsection",
    );

    const _: () = assert!(size_of::<AtHand>() == 48 && align_of::<AtHand>() <= 16);

    /// The last wheel and the shard there, in the fewest instructions.
    #[cfg(target_arch = "x86_64")]
    #[inline(always)]
    pub fn last() -> Held {
        let (id, shard): (u64, *mut Shard);
        // SAFETY: reads the first two words of the calling thread's
        // `hwheel_at_hand`.
        unsafe {
            std::arch::asm!(
                "mov {0}, qword ptr [rip + hwheel_at_hand@GOTTPOFF]",
                "mov {1}, qword ptr fs:[{0}]",
                "mov {0}, qword ptr fs:[{0} + 8]",
                out(reg) shard,
                out(reg) id,
                options(pure, readonly, nostack, preserves_flags),
            );
        }
        Held {
            id,
            token: Token(shard),
        }
    }

    #[cfg(not(target_arch = "x86_64"))]
    #[inline(always)]
    pub fn last() -> Held {
        with(|mine| mine.last.get())
    }

    #[inline(always)]
    pub fn with<R>(f: impl FnOnce(&AtHand) -> R) -> R {
        let at: *const AtHand;
        // SAFETY: computes the address of the calling thread's `hwheel_at_hand`.
        #[cfg(target_arch = "x86_64")]
        unsafe {
            std::arch::asm!(
                "mov {0}, qword ptr [rip + hwheel_at_hand@GOTTPOFF]",
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
                "adrp {1}, :gottprel:hwheel_at_hand",
                "ldr {1}, [{1}, #:gottprel_lo12:hwheel_at_hand]",
                "add {0}, {0}, {1}",
                out(reg) at,
                out(reg) _,
                options(pure, readonly, nostack, preserves_flags),
            );
        }
        // SAFETY: 48 bytes of this thread, which lives while this runs; at first they
        // are no wheel with a null token, no base, and null pointers.
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
    use super::{AtHand, Base, Cell, NONE};

    thread_local! {
        static AT_HAND: AtHand = const {
            AtHand {
                last: Cell::new(NONE),
                base: Cell::new(Base::NONE),
                table: Cell::new(std::ptr::null()),
                inside: Cell::new(std::ptr::null()),
            }
        };
    }

    #[inline(always)]
    pub fn with<R>(f: impl FnOnce(&AtHand) -> R) -> R {
        AT_HAND.with(f)
    }

    #[inline(always)]
    pub fn last() -> super::Held {
        with(|mine| mine.last.get())
    }
}

#[cfg(checked)]
#[path = "../tests/sys/at_hand.rs"]
mod place;

pub(super) use place::{last, with};

/// The address of the calling thread's memory: no other living thread has it.
#[inline(always)]
pub(super) fn address() -> *mut () {
    with(|mine| std::ptr::from_ref(mine).cast_mut().cast())
}
