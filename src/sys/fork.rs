//! Memory that the kernel clears in a forked child. So a child is told from its parent
//! with one load, and finds free what a thread of its parent has locked.

use super::maps::Mmap;
use super::quietly;
use crate::core::memory::{Memory, Pages};
use crate::sync::Fresh;
use std::sync::atomic::{AtomicPtr, Ordering};

const PAGE: usize = 4096;

/// Has the kernel clear a page in forked children. A kernel before 4.14 refuses,
/// and then a child is not told apart.
pub(crate) fn wipe_in_child(page: *mut u8) {
    // SAFETY: of a page, it changes nothing in this process.
    quietly(|| unsafe { libc::madvise(page.cast(), PAGE, libc::MADV_WIPEONFORK) });
}

/// A value of each process, in a page of its own. A child begins with a fresh one.
pub(crate) struct PerProcess<T>(AtomicPtr<T>);

impl<T: Fresh> PerProcess<T> {
    pub const fn new() -> Self {
        const { assert!(size_of::<T>() <= PAGE) };
        PerProcess(AtomicPtr::new(std::ptr::null_mut()))
    }

    /// The value of the calling process; `None` without memory for the page.
    pub fn get(&self) -> Option<&T> {
        // Acquire: pairs with the Release below.
        let mut page = self.0.load(Ordering::Acquire);
        if page.is_null() {
            let fresh = Mmap.map(PAGE, Pages::Small);
            if fresh.is_null() {
                return None;
            }
            wipe_in_child(fresh);
            page = fresh.cast();
            let null = std::ptr::null_mut();
            let exchanged =
                self.0
                    .compare_exchange(null, page, Ordering::AcqRel, Ordering::Acquire);
            if let Err(seen) = exchanged {
                // SAFETY: nobody has seen `fresh`.
                unsafe { Mmap.unmap(fresh, PAGE) };
                page = seen;
            }
        }
        // SAFETY: mapped above, zeroed, and never unmapped.
        Some(unsafe { &*page })
    }
}

#[cfg(all(test, not(any(checked, miri))))]
mod tests {
    use super::*;
    use crate::sync::AtomicU64;

    #[test]
    fn a_child_finds_a_fresh_value_and_leaves_that_of_its_parent() {
        static VALUE: PerProcess<AtomicU64> = PerProcess::new();
        let value = VALUE.get().unwrap();
        value.store(1, Ordering::Relaxed);
        // SAFETY: the child makes no call that could wait for another thread.
        unsafe {
            let child = libc::fork();
            if child == 0 {
                libc::_exit(value.swap(2, Ordering::Relaxed) as i32);
            }
            let mut status = 0;
            assert_eq!(libc::waitpid(child, &mut status, 0), child);
            assert_eq!(status, 0);
        }
        assert_eq!(value.load(Ordering::Relaxed), 1);
    }
}
