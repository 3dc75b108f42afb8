//! Threads of a model checker; the system may refuse one.

use crate::tests::checker::thread;
use crate::tests::system::system;

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
    let mut threads = system().threads.lock().unwrap();
    threads.push(Some(handle));
    Ok(Thread(threads.len() - 1))
}

pub(crate) fn join(thread: Thread) {
    let handle = system().threads.lock().unwrap()[thread.0].take();
    handle.expect("joined once").join().unwrap();
}

pub(crate) fn nap() {
    thread::yield_now();
}
