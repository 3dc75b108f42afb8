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

/// A function of the library, as the number that the core keeps for a function. It is
/// short: the driver runs it, with or without a pool.
pub(crate) const PROMPT: usize = usize::MAX;
