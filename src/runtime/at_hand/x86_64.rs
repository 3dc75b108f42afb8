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
