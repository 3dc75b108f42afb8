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

use crate::core::number_of;
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
mod place {
    //! On x86-64 the call costs a nanosecond and some instructions around it. So the library looks
    //! first whether it knows the *distance*: from the thread pointer to the words. It is the same
    //! in each thread if the words lie in the static part. They lie below the thread pointer then,
    //! and the descriptor has the distance as its argument.

    use super::AtHand;

    core::arch::global_asm!(
        // A variable that is 0 or the distance.
        ".pushsection .bss.hwheel_distance,\"aw\",%nobits",
        ".globl hwheel_distance",
        ".hidden hwheel_distance",
        ".type hwheel_distance, %object",
        ".size hwheel_distance, 8",
        ".p2align 3",
        "hwheel_distance:",
        ".zero 8",
        ".popsection",
        // Returns the distance in rax and keeps all other registers, but for the flags and those
        // that glibc loses. Stores it if it is that of each thread: the argument of the
        // descriptor is the distance, which is negative, and not a pointer. In a program the
        // linker puts the distance in place of the address of the descriptor.
        ".pushsection .text.hwheel_find_at_hand,\"ax\",%progbits",
        ".globl hwheel_find_at_hand",
        ".hidden hwheel_find_at_hand",
        ".type hwheel_find_at_hand, %function",
        "hwheel_find_at_hand:",
        ".cfi_startproc",
        "push rbp",
        ".cfi_def_cfa_offset 16",
        ".cfi_offset rbp, -16",
        "mov rbp, rsp",
        ".cfi_def_cfa_register rbp",
        "push rcx",
        "and rsp, -16",
        "lea rax, [rip + hwheel_at_hand@TLSDESC]",
        "mov rcx, rax",
        "call qword ptr [rax + hwheel_at_hand@TLSCALL]",
        "test rax, rax",
        "jns 3f",
        "cmp rcx, rax",
        "je 2f",
        "cmp qword ptr [rcx + 8], rax",
        "jne 3f",
        "2:",
        "mov qword ptr [rip + hwheel_distance], rax",
        "3:",
        "mov rcx, qword ptr [rbp - 8]",
        "leave",
        ".cfi_def_cfa rsp, 8",
        "ret",
        ".cfi_endproc",
        ".size hwheel_find_at_hand, . - hwheel_find_at_hand",
        ".popsection",
    );

    #[inline(always)]
    pub fn with<R>(f: impl FnOnce(&AtHand) -> R) -> R {
        let at: *const AtHand;
        // SAFETY: computes the address of the calling thread's `hwheel_at_hand`. The call steps over
        // the 128 bytes below the stack that belong to the compiler. When it allocates, glibc before
        // 2.40 may lose vector registers.
        unsafe {
            core::arch::asm!(
                "mov rax, qword ptr [rip + hwheel_distance]",
                "test rax, rax",
                "jnz 2f",
                "lea rsp, [rsp - 128]",
                "call hwheel_find_at_hand",
                "lea rsp, [rsp + 128]",
                "2:",
                "add rax, qword ptr fs:[0]",
                out("rax") at,
                out("xmm0") _, out("xmm1") _, out("xmm2") _, out("xmm3") _,
                out("xmm4") _, out("xmm5") _, out("xmm6") _, out("xmm7") _,
                out("xmm8") _, out("xmm9") _, out("xmm10") _, out("xmm11") _,
                out("xmm12") _, out("xmm13") _, out("xmm14") _, out("xmm15") _,
                options(pure, readonly, nostack),
            );
        }
        // SAFETY: 16 bytes of this thread, which lives while this runs; at first they are zeros.
        f(unsafe { &*at })
    }
}

#[cfg(all(target_arch = "aarch64", not(any(miri, checked))))]
mod place {
    //! As a compiler for aarch64 writes it for any shared library.

    use super::AtHand;

    #[inline(always)]
    pub fn with<R>(f: impl FnOnce(&AtHand) -> R) -> R {
        let at: *const AtHand;
        // SAFETY: computes the address of the calling thread's `hwheel_at_hand`. The linker knows
        // this sequence, and its registers. The call keeps all others, but for the flags.
        unsafe {
            core::arch::asm!(
                "adrp x0, :tlsdesc:hwheel_at_hand",
                "ldr x1, [x0, #:tlsdesc_lo12:hwheel_at_hand]",
                "add x0, x0, :tlsdesc_lo12:hwheel_at_hand",
                ".tlsdesccall hwheel_at_hand",
                "blr x1",
                "mrs x1, tpidr_el0",
                "add x0, x0, x1",
                out("x0") at,
                out("x1") _,
                out("x30") _,
                options(pure, readonly),
            );
        }
        // SAFETY: 16 bytes of this thread, which lives while this runs; at first they are zeros.
        f(unsafe { &*at })
    }
}

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
