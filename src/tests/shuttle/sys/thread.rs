//! Threads of the model checker; the system may refuse one.

use crate::tests::shuttle::host::system;
use shuttle::thread;

#[derive(Clone, Copy, Debug)]
pub(crate) struct Thread(usize);

pub(crate) type Body = extern "C" fn(*mut libc::c_void) -> *mut libc::c_void;

struct Argument(*mut libc::c_void);
// SAFETY: it is what a thread of the system would get, too.
unsafe impl Send for Argument {}

pub(crate) fn start(body: Body, arg: *mut libc::c_void) -> Result<Thread, i32> {
    system().refused().map_or(Ok(()), Err)?;
    let arg = Argument(arg);
    let handle = thread::spawn(move || {
        let arg = arg;
        body(arg.0);
    });
    let mut state = system().lock();
    state.threads.push(Some(handle));
    Ok(Thread(state.threads.len() - 1))
}

pub(crate) fn join(thread: Thread) {
    let handle = system().lock().threads[thread.0].take();
    handle.expect("joined once").join().unwrap();
}

pub(crate) fn nap() {
    thread::yield_now();
}
