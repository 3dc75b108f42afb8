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
