//! Stand-ins for the parts of the operating system that the pool uses: under the model
//! checker there is no other.

pub(crate) mod maps {
    pub(crate) use crate::tests::Heap as Mmap;
}

/// One lock for all words, where the kernel has one for each.
pub(crate) mod futex {
    use crate::sync::{AtomicU32, Ordering};
    use loom::sync::{Condvar, Mutex};

    loom::lazy_static! {
        static ref ASLEEP: (Mutex<()>, Condvar) = Default::default();
    }

    /// Returns if the word is not `seen`, and on any wake-up.
    pub(crate) fn wait(word: &AtomicU32, seen: u32) {
        let held = ASLEEP.0.lock().unwrap();
        if word.load(Ordering::Relaxed) == seen {
            drop(ASLEEP.1.wait(held).unwrap());
        }
    }

    /// Wakes all that wait: no test here has two that wait for one thing.
    pub(crate) fn wake(_: *const AtomicU32, _: i32) {
        drop(ASLEEP.0.lock().unwrap());
        ASLEEP.1.notify_all();
    }
}

/// A test starts the threads.
pub(crate) mod thread {
    #[derive(Clone, Copy)]
    pub(crate) struct Thread;
    pub(crate) type Body = extern "C" fn(*mut libc::c_void) -> *mut libc::c_void;

    pub(crate) fn start(_: Body, _: *mut libc::c_void) -> Result<Thread, i32> {
        Err(libc::EAGAIN)
    }
    pub(crate) fn join(_: Thread) {}
}
