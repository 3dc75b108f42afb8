//! A thread that blocks all signals, started fallibly.

/// A started thread, to be joined.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Thread(pub libc::pthread_t);

/// Starts `body(arg)` in a thread with all signals blocked.
pub(crate) fn start(
    body: extern "C" fn(*mut libc::c_void) -> *mut libc::c_void,
    arg: *mut libc::c_void,
) -> Result<Thread, i32> {
    // SAFETY: plain old data, filled by the calls below.
    let (mut all, mut old): (libc::sigset_t, libc::sigset_t) =
        unsafe { (std::mem::zeroed(), std::mem::zeroed()) };
    let mut thread: libc::pthread_t = 0;
    // SAFETY: valid pointers to locals; the new thread inherits the mask.
    let error = unsafe {
        libc::sigfillset(&mut all);
        libc::pthread_sigmask(libc::SIG_SETMASK, &all, &mut old);
        let error = libc::pthread_create(&mut thread, std::ptr::null(), body, arg);
        libc::pthread_sigmask(libc::SIG_SETMASK, &old, std::ptr::null_mut());
        error
    };
    if error != 0 {
        return Err(error);
    }
    // A name for ps and top; a failure is nobody's trouble.
    // SAFETY: a thread that has not been joined, and a terminated name.
    unsafe { libc::pthread_setname_np(thread, c"hwheel".as_ptr()) };
    Ok(Thread(thread))
}

/// Waits for the end of a thread.
pub(crate) fn join(thread: Thread) {
    // SAFETY: started by `start` and joined once.
    unsafe { libc::pthread_join(thread.0, std::ptr::null_mut()) };
}
