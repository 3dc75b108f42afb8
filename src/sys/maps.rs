//! Memory from the operating system: anonymous private mappings.

use super::quietly;
use crate::core::memory::{Memory, Pages};

const HUGE: usize = 2 << 20;

/// Maps and unmaps pages. Small pages are requested explicitly, because the kernel
/// may join neighbours and put a huge page under them. Multiples of two megabytes are
/// aligned to two megabytes, with a request for huge pages: a million timers then
/// take 32 entries of the TLB instead of 16,384.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Mmap;

fn anonymous(bytes: usize) -> *mut u8 {
    // SAFETY: an anonymous mapping at an address of the kernel's choice
    // touches no existing memory.
    let p = unsafe {
        libc::mmap(
            std::ptr::null_mut(),
            bytes,
            libc::PROT_READ | libc::PROT_WRITE,
            libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE,
            -1,
            0,
        )
    };
    if p == libc::MAP_FAILED {
        std::ptr::null_mut()
    } else {
        p.cast()
    }
}

impl Memory for Mmap {
    fn map(&self, bytes: usize, pages: Pages) -> *mut u8 {
        quietly(|| map(bytes, pages))
    }

    unsafe fn unmap(&self, at: *mut u8, bytes: usize) {
        // SAFETY: the caller's promise.
        quietly(|| unsafe { libc::munmap(at.cast(), bytes) });
    }
}

fn map(bytes: usize, pages: Pages) -> *mut u8 {
    if pages == Pages::Small || bytes % HUGE != 0 {
        let at = anonymous(bytes);
        if !at.is_null() {
            // SAFETY: mapped above. A kernel without huge pages refuses.
            unsafe { libc::madvise(at.cast(), bytes, libc::MADV_NOHUGEPAGE) };
        }
        return at;
    }
    let wide = anonymous(bytes + HUGE);
    if wide.is_null() {
        return anonymous(bytes);
    }
    let before = wide.align_offset(HUGE);
    // SAFETY: `before` is below HUGE, and both trims lie in the mapping.
    unsafe {
        let at = wide.add(before);
        if before != 0 {
            libc::munmap(wide.cast(), before);
        }
        libc::munmap(at.add(bytes).cast(), HUGE - before);
        libc::madvise(at.cast(), bytes, libc::MADV_HUGEPAGE);
        at
    }
}
