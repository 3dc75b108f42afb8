//! Memory from the operating system: anonymous private mappings, zeroed, in large steps, and
//! with a result if there is none.

use super::quietly;
use core::sync::atomic::{AtomicPtr, Ordering};

const HUGE: usize = 2 << 20;
const WRITABLE: libc::c_int = libc::PROT_READ | libc::PROT_WRITE;
/// Bytes of the smallest page.
pub(crate) const PAGE: usize = 4096;

/// The pages of a mapping.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Pages {
    /// Small pages: a page that is not touched takes no memory. They are requested explicitly,
    /// because the kernel may join neighbours and put a huge page under them.
    Small,
    /// Huge pages, if the system has them and the size is a multiple: the records of a million
    /// timers then take 50 entries of the TLB instead of 25,000.
    Huge,
}

fn anonymous(bytes: usize, access: libc::c_int) -> *mut u8 {
    // SAFETY: an anonymous mapping at an address of the kernel's choice
    // touches no existing memory.
    let p = unsafe {
        libc::mmap(
            core::ptr::null_mut(),
            bytes,
            access,
            libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE,
            -1,
            0,
        )
    };
    if p == libc::MAP_FAILED {
        core::ptr::null_mut()
    } else {
        p.cast()
    }
}

/// Returns `bytes` of zeroed memory, aligned to a page, or null.
pub(crate) fn map(bytes: usize, pages: Pages) -> *mut u8 {
    #[cfg(test)]
    if crate::tests::is_refused() {
        return core::ptr::null_mut();
    }
    quietly(|| match pages {
        Pages::Huge if bytes % HUGE == 0 => map_huge(bytes),
        _ => map_small(bytes),
    })
}

/// Zeros that can only be read, or null without memory. They take none, locked or not: each
/// page is the kernel's page of zeros. One size in the whole library: the first call maps
/// them, and they stay.
pub(crate) fn zeros(bytes: usize) -> *const u8 {
    static ZEROS: AtomicPtr<u8> = AtomicPtr::new(core::ptr::null_mut());
    // Acquire: pairs with the Release below.
    let at = ZEROS.load(Ordering::Acquire);
    if !at.is_null() {
        return at;
    }
    quietly(|| {
        let fresh = anonymous(bytes, libc::PROT_READ);
        if fresh.is_null() {
            return fresh;
        }
        // SAFETY: mapped above. A huge page of zeros is memory, if not of this process. A
        // kernel without huge pages refuses.
        unsafe { libc::madvise(fresh.cast(), bytes, libc::MADV_NOHUGEPAGE) };
        let null = core::ptr::null_mut();
        match ZEROS.compare_exchange(null, fresh, Ordering::AcqRel, Ordering::Acquire) {
            Ok(_) => fresh,
            Err(first) => {
                // SAFETY: mapped above, and known to nobody.
                unsafe { libc::munmap(fresh.cast(), bytes) };
                first
            }
        }
    })
}

/// # Safety
/// `at` came from `map(bytes)` and is used no more.
pub(crate) unsafe fn unmap(at: *mut u8, bytes: usize) {
    // SAFETY: the caller's promise.
    quietly(|| unsafe { libc::munmap(at.cast(), bytes) });
}

fn map_small(bytes: usize) -> *mut u8 {
    let at = anonymous(bytes, WRITABLE);
    if !at.is_null() {
        // SAFETY: mapped above. A kernel without huge pages refuses.
        unsafe { libc::madvise(at.cast(), bytes, libc::MADV_NOHUGEPAGE) };
    }
    at
}

fn map_huge(bytes: usize) -> *mut u8 {
    let wide = anonymous(bytes + HUGE, WRITABLE);
    if wide.is_null() {
        return map_small(bytes);
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
