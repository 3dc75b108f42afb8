//! The parts that a Rust library without the standard library must bring itself, if no other crate is
//! above it: memory, and the end of the process after a panic. The C library is such a
//! library. `make` builds it with `--cfg alone`, which reaches this crate only. A feature would
//! do that to every program that has the crate and asks for the feature.

use core::alloc::{GlobalAlloc, Layout};
use core::ffi::c_int;
use core::fmt::{self, Write};
use core::panic::PanicInfo;
use core::ptr::null_mut;

/// The memory of the C library.
struct Malloc;

/// The alignment that malloc() gives to a block of at least this size.
const ALIGNED: usize = 16;

// SAFETY: as the C standard and POSIX have it.
unsafe impl GlobalAlloc for Malloc {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let (size, align) = (layout.size(), layout.align());
        if align <= ALIGNED && align <= size {
            // SAFETY: of any size.
            return unsafe { libc::malloc(size) }.cast();
        }
        let (align, mut at) = (align.max(size_of::<usize>()), null_mut());
        // SAFETY: a power of two, and a multiple of the size of a pointer.
        match unsafe { libc::posix_memalign(&mut at, align, size) } {
            0 => at.cast(),
            _ => null_mut(),
        }
    }

    unsafe fn dealloc(&self, at: *mut u8, _: Layout) {
        // SAFETY: from `alloc`.
        unsafe { libc::free(at.cast()) };
    }
}

#[global_allocator]
static MALLOC: Malloc = Malloc;

/// A line for standard error, written by one system call. The end of a long one is cut off.
struct Line {
    text: [u8; 512],
    len: usize,
}

impl Line {
    /// Writes the line, and ends the process.
    fn abort(mut self) -> ! {
        self.text[self.len] = b'\n';
        // SAFETY: readable bytes. Nobody is left to learn of an error.
        unsafe {
            libc::write(libc::STDERR_FILENO, self.text.as_ptr().cast(), self.len + 1);
            libc::abort()
        }
    }
}

impl Write for Line {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        // One byte is for the end of the line, which a message of several lines does not have.
        let room = &mut self.text[self.len..511];
        for (place, byte) in room.iter_mut().zip(text.bytes()) {
            *place = if byte == b'\n' { b' ' } else { byte };
            self.len += 1;
        }
        Ok(())
    }
}

/// Ends the process with a line that says where and why.
fn abort(why: fmt::Arguments<'_>) -> ! {
    let mut line = Line {
        text: [0; 512],
        len: 0,
    };
    _ = line.write_fmt(format_args!("hwheel: {why}"));
    line.abort()
}

#[panic_handler]
fn panic(info: &PanicInfo<'_>) -> ! {
    match info.location() {
        Some(at) => abort(format_args!("panic in {at}: {}", info.message())),
        None => abort(format_args!("panic: {}", info.message())),
    }
}

/// The unwinder asks it, for each function of the library that calls one of the caller's,
/// whether an exception stops there. All of them end the process:
///
/// - A C++ exception finds no handler. So `throw` calls std::terminate(), which says what was
///   thrown.
/// - pthread_exit() and pthread_cancel() do not look for a handler. The line below says what
///   has happened.
extern "C" fn personality(_version: c_int, actions: c_int) -> c_int {
    const SEARCH_PHASE: c_int = 1;
    const FATAL_PHASE1_ERROR: c_int = 3;
    if actions & SEARCH_PHASE != 0 {
        return FATAL_PHASE1_ERROR;
    }
    abort(format_args!(
        "pthread_exit() or pthread_cancel() in a callback"
    ))
}

#[cfg(target_arch = "x86_64")]
macro_rules! jump {
    () => {
        "jmp {personality}"
    };
}
#[cfg(target_arch = "aarch64")]
macro_rules! jump {
    () => {
        "b {personality}"
    };
}

// The name that the tables have for it. Another Rust library of the program has that name, too,
// so this one is weak: stable Rust says that in assembly only. Either one will do: with the
// other one the exception reaches code of this library that panics.
core::arch::global_asm!(
    ".pushsection .text.rust_eh_personality,\"ax\",%progbits",
    ".weak rust_eh_personality",
    ".hidden rust_eh_personality",
    ".type rust_eh_personality, %function",
    "rust_eh_personality:",
    jump!(),
    ".size rust_eh_personality, . - rust_eh_personality",
    ".popsection",
    personality = sym personality,
);
