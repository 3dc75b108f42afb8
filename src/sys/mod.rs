//! The operating system as the library needs it, each part in its own file.

pub(crate) mod clock;
#[cfg(not(checked))]
pub(crate) mod end;
pub(crate) mod event;
#[cfg(not(checked))]
pub(crate) mod fork;
#[cfg(not(checked))]
pub(crate) mod futex;
// Miri has no mapping with these flags.
#[cfg_attr(any(checked, miri), path = "../tests/sys/maps.rs")]
pub(crate) mod maps;
#[cfg(not(checked))]
pub(crate) mod thread;
#[cfg(not(checked))]
pub(crate) mod timerfd;

#[cfg(checked)]
pub(crate) use crate::tests::sys::{end, fork, futex, thread, timerfd};

/// The error number of the call that has just failed.
pub(crate) fn errno() -> i32 {
    // SAFETY: the calling thread's own `errno`.
    unsafe { *libc::__errno_location() }
}

/// Random bits that the kernel left for this process when it began.
pub(crate) fn seed() -> u64 {
    // SAFETY: the address of sixteen bytes that stay, or 0.
    quietly(|| unsafe {
        match libc::getauxval(libc::AT_RANDOM) {
            0 => 0,
            at => (at as *const u64).read_unaligned(),
        }
    })
}

/// Runs system calls and leaves the caller's `errno` as it was: the library
/// returns its errors.
pub(crate) fn quietly<R>(f: impl FnOnce() -> R) -> R {
    // SAFETY: the calling thread's own `errno`.
    unsafe {
        let errno = libc::__errno_location();
        let before = *errno;
        let result = f();
        *errno = before;
        result
    }
}

/// As `quietly`, for calls in which `pthread_cancel()` could end the thread: the wheel
/// would stay half stopped forever.
pub(crate) fn uncancelled<R>(f: impl FnOnce() -> R) -> R {
    extern "C" {
        fn pthread_setcancelstate(state: libc::c_int, old: *mut libc::c_int) -> libc::c_int;
    }
    const DISABLE: libc::c_int = 1;
    if cfg!(miri) {
        return quietly(f); // Miri lacks the function below.
    }
    let mut old = DISABLE;
    // SAFETY: the calling thread's own state, and a local.
    unsafe { pthread_setcancelstate(DISABLE, &mut old) };
    let result = quietly(f);
    // SAFETY: as above.
    unsafe { pthread_setcancelstate(old, &mut old) };
    result
}
