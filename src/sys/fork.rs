//! Memory that the kernel clears in a forked child. So one load distinguishes a child
//! from its parent, and the child has locks that no thread of its parent holds.

use super::maps::{map, unmap, Pages, PAGE};
use super::{errno, quietly};
use core::sync::atomic::{AtomicBool, AtomicPtr, Ordering};

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

/// A value that each process has for itself: a forked child makes a new one. The pointer
/// to the value lies in a page that the kernel clears in a child.
pub(crate) struct PerProcess<T>(AtomicPtr<AtomicPtr<T>>);

impl<T: Default + Sync> PerProcess<T> {
    pub const fn new() -> Self {
        const { assert!(size_of::<T>() <= PAGE) };
        PerProcess(AtomicPtr::new(core::ptr::null_mut()))
    }

    /// The value of the calling process; `None` without memory.
    pub fn get(&self) -> Option<&T> {
        let page = made(&self.0, |page| wipe_in_child(page.cast()))?;
        made(page, |at| {
            // SAFETY: a page of its own.
            unsafe { at.write(T::default()) };
            true
        })
    }
}

/// The value behind a pointer. The first thread maps a page and makes the value there;
/// `make` returns false without memory.
fn made<T>(pointer: &AtomicPtr<T>, make: impl FnOnce(*mut T) -> bool) -> Option<&T> {
    // Acquire: pairs with the Release below.
    let mut at = pointer.load(Ordering::Acquire);
    if at.is_null() {
        let fresh = map_to_wipe(PAGE);
        if fresh.is_null() {
            return None;
        }
        at = fresh.cast();
        let null = core::ptr::null_mut();
        let exchanged = match make(at) {
            true => pointer.compare_exchange(null, at, Ordering::AcqRel, Ordering::Acquire),
            false => Err(null),
        };
        if let Err(first) = exchanged {
            // SAFETY: nobody has seen `fresh`.
            unsafe { unmap_wiped(fresh, PAGE) };
            at = first;
        }
    }
    // SAFETY: null, or made and never unmapped.
    unsafe { at.as_ref() }
}

#[cfg(all(test, not(any(checked, miri))))]
mod tests {
    use super::*;
    use std::sync::{Barrier, Mutex};
    use std::thread;

    #[test]
    fn threads_that_come_first_get_one_value() {
        const THREADS: usize = 4;
        let together = Barrier::new(THREADS);
        let get = |value: &PerProcess<Mutex<u64>>| {
            together.wait();
            *value.get().unwrap().lock().unwrap() += 1;
        };
        for _ in 0..100 {
            let value = PerProcess::new();
            thread::scope(|s| (0..THREADS).for_each(|_| _ = s.spawn(|| get(&value))));
            assert_eq!(*value.get().unwrap().lock().unwrap(), THREADS as u64);
        }
    }

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
