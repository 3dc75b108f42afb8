//! Memory whose bounds the checking tools know.

use std::alloc::Layout;
#[cfg(not(checked))]
use std::sync::{
    atomic::{AtomicPtr, Ordering::Relaxed},
    OnceLock,
};

pub(crate) const PAGE: usize = 4096;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Pages {
    Small,
    Huge,
}

fn layout(bytes: usize) -> Layout {
    Layout::from_size_align(bytes, 256).unwrap()
}

pub(crate) fn map(bytes: usize, _: Pages) -> *mut u8 {
    if crate::tests::is_refused() {
        return std::ptr::null_mut();
    }
    // SAFETY: never of size zero.
    unsafe { std::alloc::alloc_zeroed(layout(bytes)) }
}

pub(crate) unsafe fn unmap(at: *mut u8, bytes: usize) {
    // SAFETY: as mapped.
    unsafe { std::alloc::dealloc(at, layout(bytes)) }
}

#[cfg(not(checked))]
pub(crate) fn zeros(bytes: usize) -> *const u8 {
    static ZEROS: OnceLock<AtomicPtr<u8>> = OnceLock::new();
    // SAFETY: as in `map`.
    let make = || AtomicPtr::new(unsafe { std::alloc::alloc_zeroed(layout(bytes)) });
    ZEROS.get_or_init(make).load(Relaxed)
}
