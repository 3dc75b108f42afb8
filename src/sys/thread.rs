//! A thread that leaves the program's signals to the other threads, and whose start may
//! fail.

use super::{errno, quietly, uncancelled};

/// A started thread, to be joined.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Thread(pub libc::pthread_t);

/// The signals that are not blocked: that of profilers, and those that a thread causes
/// itself, which reach the program's handler from a callback as well.
const OPEN: [libc::c_int; 7] = [
    libc::SIGSEGV,
    libc::SIGBUS,
    libc::SIGFPE,
    libc::SIGILL,
    libc::SIGTRAP,
    libc::SIGSYS,
    libc::SIGPROF,
];

/// The body of a thread. Its argument is what `start` was given; its result is nothing.
pub(crate) type Body = extern "C" fn(*mut libc::c_void) -> *mut libc::c_void;

/// Starts `body(arg)` in a thread with all other signals blocked.
pub(crate) fn start(body: Body, arg: *mut libc::c_void) -> Result<Thread, i32> {
    // SAFETY: plain old data, filled by the calls below.
    let (mut most, mut old, mut thread): (libc::sigset_t, libc::sigset_t, libc::pthread_t) =
        unsafe { core::mem::zeroed() };
    // SAFETY: valid pointers to locals; the new thread inherits the mask. A name for
    // ps and top, whose failure is nobody's trouble, and a thread that has not been
    // joined.
    let error = quietly(|| unsafe {
        libc::sigfillset(&mut most);
        for signal in OPEN {
            libc::sigdelset(&mut most, signal);
        }
        libc::pthread_sigmask(libc::SIG_SETMASK, &most, &mut old);
        let error = libc::pthread_create(&mut thread, core::ptr::null(), body, arg);
        libc::pthread_sigmask(libc::SIG_SETMASK, &old, core::ptr::null_mut());
        if error == 0 {
            libc::pthread_setname_np(thread, c"hwheel".as_ptr());
        }
        error
    });
    match error {
        0 => Ok(Thread(thread)),
        _ => Err(-error),
    }
}

pub(crate) fn join(thread: Thread) {
    // SAFETY: started by `start` and joined once.
    uncancelled(|| unsafe { libc::pthread_join(thread.0, core::ptr::null_mut()) });
}

/// Sleeps for a millisecond. A signal may end the sleep early: the callers look again.
pub(crate) fn nap() {
    let time = libc::timespec {
        tv_sec: 0,
        tv_nsec: 1_000_000,
    };
    // SAFETY: a valid time; the rest of it is not asked for.
    uncancelled(|| unsafe { libc::nanosleep(&time, core::ptr::null_mut()) });
}

/// The number by which the kernel knows the calling thread.
pub(crate) fn tid() -> u64 {
    // SAFETY: it only reads.
    unsafe { libc::syscall(libc::SYS_gettid) as u64 }
}

/// Whether the kernel knows no thread of this process by that number. It may give the number to
/// another thread.
pub(crate) fn is_gone(id: u64) -> bool {
    // SAFETY: the signal 0 only asks.
    quietly(|| unsafe {
        libc::syscall(libc::SYS_tgkill, libc::getpid(), id, 0) != 0 && errno() == libc::ESRCH
    })
}
