//! Calls of functions that are not the library's.

/// Runs `f`, and ends the process if it is left by an exception or a panic: a sweep
/// cannot be left in its middle.
#[inline(always)]
pub(crate) fn guarded<R>(f: impl FnOnce() -> R) -> R {
    struct Guard;
    impl Drop for Guard {
        fn drop(&mut self) {
            std::process::abort();
        }
    }
    let guard = Guard;
    let result = f();
    std::mem::forget(guard);
    result
}

/// A function of the library's own, as such a number. It is short, and the driver runs
/// it itself, whether or not there is a pool.
pub(crate) const PROMPT: usize = usize::MAX;

/// A function or an object as the core keeps it: a number, 0 for none.
#[inline(always)]
pub(crate) fn number_of<T>(at: *const T) -> usize {
    at.expose_provenance()
}

/// The pointer that such a number was made of.
#[inline(always)]
pub(crate) fn pointer_of<T>(number: usize) -> *const T {
    std::ptr::with_exposed_provenance(number)
}
