//! Memory that the kernel clears in a forked child. So one load distinguishes a child
//! from its parent.

use super::maps::{map, unmap, Pages, PAGE};
use super::{errno, quietly};
use core::sync::atomic::{AtomicBool, Ordering};

/// By how much the kernel's pages are larger. What is cleared is the end of one.
fn rest_of_page() -> usize {
    // SAFETY: it only reads.
    let bytes = unsafe { libc::sysconf(libc::_SC_PAGESIZE) };
    usize::try_from(bytes).map_or(0, |bytes| bytes.saturating_sub(PAGE))
}

/// Maps memory for [`wipe_in_child`]; null without memory.
pub(crate) fn map_to_wipe(bytes: usize) -> *mut u8 {
    let rest = rest_of_page();
    let at = map(rest + bytes, Pages::Small);
    if at.is_null() {
        return at;
    }
    at.wrapping_add(rest)
}

/// # Safety
/// As of [`unmap`], for what `map_to_wipe` has returned.
pub(crate) unsafe fn unmap_wiped(at: *mut u8, bytes: usize) {
    let rest = rest_of_page();
    // SAFETY: the caller's promise.
    unsafe { unmap(at.wrapping_sub(rest), rest + bytes) };
}

/// Makes the kernel clear the first [`PAGE`] bytes in forked children; false without memory. A
/// kernel before 4.14 cannot do that; there a child is not distinguished from its parent.
pub(crate) fn wipe_in_child(at: *mut u8) -> bool {
    let rest = rest_of_page();
    let page = at.wrapping_sub(rest).cast();
    // SAFETY: of a page, it changes nothing in this process.
    quietly(|| unsafe {
        libc::madvise(page, rest + PAGE, libc::MADV_WIPEONFORK) == 0 || errno() != libc::EAGAIN
    })
}

/// Makes the C library call `f` in forked children; one function in the whole library. False
/// without memory; asked again next time.
pub(crate) fn call_in_child(f: extern "C" fn()) -> bool {
    static IS_SET: AtomicBool = AtomicBool::new(false);
    // Relaxed, all: the C library has a lock. A second handler does what the first has done.
    if !IS_SET.load(Ordering::Relaxed) {
        // SAFETY: a function that lives as long as the library, which is never unloaded.
        let set = quietly(|| unsafe { libc::pthread_atfork(None, None, Some(f)) }) == 0;
        IS_SET.store(set, Ordering::Relaxed);
    }
    IS_SET.load(Ordering::Relaxed)
}
