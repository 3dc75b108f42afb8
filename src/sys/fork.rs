//! Telling a forked child from its parent with one load: a page that the
//! kernel wipes in the child.

use super::maps::Mmap;
use super::quietly;
use crate::core::memory::{Memory, Pages};
use std::sync::atomic::{AtomicPtr, AtomicU64, Ordering};

const PAGE: usize = 4096;

static MARK: AtomicPtr<AtomicU64> = AtomicPtr::new(std::ptr::null_mut());
/// Never goes back, and a child inherits it: no two marks of a line of
/// processes are equal.
static NEXT: AtomicU64 = AtomicU64::new(1);

/// Has the kernel clear a page in forked children. A kernel before 4.14 refuses,
/// and then a child is not told apart.
pub(crate) fn wipe_in_child(page: *mut u8) {
    // SAFETY: of a page, it changes nothing in this process.
    quietly(|| unsafe { libc::madvise(page.cast(), PAGE, libc::MADV_WIPEONFORK) });
}

/// The process that something was made in.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Process {
    page: &'static AtomicU64,
    mark: u64,
}

impl Process {
    /// The calling process; `None` without memory for the page.
    pub fn current() -> Option<Self> {
        // Acquire: pairs with the Release below.
        let mut page = MARK.load(Ordering::Acquire);
        if page.is_null() {
            let fresh = Mmap.map(PAGE, Pages::Small);
            if fresh.is_null() {
                return None;
            }
            wipe_in_child(fresh);
            match MARK.compare_exchange(
                std::ptr::null_mut(),
                fresh.cast(),
                Ordering::AcqRel,
                Ordering::Acquire,
            ) {
                Ok(_) => page = fresh.cast(),
                Err(seen) => {
                    // SAFETY: nobody has seen `fresh`.
                    unsafe { Mmap.unmap(fresh, PAGE) };
                    page = seen;
                }
            }
        }
        // SAFETY: mapped above, zeroed, and never unmapped.
        let page = unsafe { &*page };
        // Relaxed: a fork copies memory, no ordering is involved.
        let fresh = NEXT.fetch_add(1, Ordering::Relaxed);
        let mark = match page.compare_exchange(0, fresh, Ordering::Relaxed, Ordering::Relaxed) {
            Ok(_) => fresh,
            Err(seen) => seen,
        };
        Some(Process { page, mark })
    }

    /// What tells it from every other process.
    pub fn mark(&self) -> u64 {
        self.mark
    }

    /// Whether the caller is still in that process.
    #[inline]
    pub fn is_current(&self) -> bool {
        self.page.load(Ordering::Relaxed) == self.mark
    }
}
