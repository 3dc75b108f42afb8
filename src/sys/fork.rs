//! Memory that the kernel clears in a forked child. So a child is told from its parent
//! with one load, and has locks that no thread of its parent holds.

use super::maps::Mmap;
use super::quietly;
use crate::core::memory::{Memory, Pages};
use std::sync::atomic::{AtomicPtr, Ordering};

const PAGE: usize = 4096;

/// Has the kernel clear a page in forked children. A kernel before 4.14 refuses,
/// and then a child is not told apart.
pub(crate) fn wipe_in_child(page: *mut u8) {
    // SAFETY: of a page, it changes nothing in this process.
    quietly(|| unsafe { libc::madvise(page.cast(), PAGE, libc::MADV_WIPEONFORK) });
}

/// A value that each process has for itself: a forked child makes a new one. The pointer
/// to the value lies in a page that the kernel clears in a child.
pub(crate) struct PerProcess<T>(AtomicPtr<AtomicPtr<T>>);

impl<T: Default + Sync> PerProcess<T> {
    pub const fn new() -> Self {
        const { assert!(size_of::<T>() <= PAGE) };
        PerProcess(AtomicPtr::new(std::ptr::null_mut()))
    }

    /// The value of the calling process; `None` without memory.
    pub fn get(&self) -> Option<&T> {
        let page = made(&self.0, |page| wipe_in_child(page.cast()))?;
        // SAFETY: a page of its own.
        made(page, |at| unsafe { at.write(T::default()) })
    }
}

/// The value behind a pointer. The first thread maps a page and makes the value there.
fn made<T>(pointer: &AtomicPtr<T>, make: impl FnOnce(*mut T)) -> Option<&T> {
    // Acquire: pairs with the Release below.
    let mut at = pointer.load(Ordering::Acquire);
    if at.is_null() {
        let fresh = Mmap.map(PAGE, Pages::Small);
        if fresh.is_null() {
            return None;
        }
        at = fresh.cast();
        make(at);
        let null = std::ptr::null_mut();
        let exchanged = pointer.compare_exchange(null, at, Ordering::AcqRel, Ordering::Acquire);
        if let Err(first) = exchanged {
            // SAFETY: nobody has seen `fresh`.
            unsafe { Mmap.unmap(fresh, PAGE) };
            at = first;
        }
    }
    // SAFETY: made, and never unmapped.
    Some(unsafe { &*at })
}

#[cfg(all(test, not(any(checked, miri))))]
mod tests {
    use super::*;
    use std::sync::Mutex;

    #[test]
    fn a_child_has_a_value_and_a_lock_of_its_own() {
        static VALUE: PerProcess<Mutex<i32>> = PerProcess::new();
        let mut value = VALUE.get().unwrap().lock().unwrap();
        *value = 1;
        // SAFETY: the child makes no call that could wait for another thread.
        unsafe {
            let child = libc::fork();
            if child == 0 {
                let own = VALUE.get().and_then(|own| own.try_lock().ok());
                libc::_exit(own.map_or(2, |own| *own));
            }
            let mut status = 0;
            assert_eq!(libc::waitpid(child, &mut status, 0), child);
            assert_eq!(status, 0);
        }
        assert_eq!(*value, 1);
    }
}
