//! The operating system of a model checker, in place of the files of `sys`.

pub(crate) mod end {
    //! A call at the end of each thread of a model checker that asked for it.

    type Call = extern "C" fn(*mut libc::c_void);

    std::thread_local! {
        static CALL: std::cell::Cell<Option<Call>> = const { std::cell::Cell::new(None) };
    }

    pub(crate) fn prepare(f: Call) -> bool {
        CALL.set(Some(f));
        true
    }

    #[cfg(shuttle)]
    pub(crate) fn call_at_end() -> bool {
        struct End(std::cell::Cell<Option<Call>>);

        impl Drop for End {
            fn drop(&mut self) {
                if let Some(call) = self.0.get() {
                    call(std::ptr::null_mut());
                }
            }
        }

        shuttle::thread_local! {
            static END: End = End(std::cell::Cell::new(None));
        }
        END.with(|end| end.0.set(CALL.get()));
        true
    }

    /// There is one round.
    pub(crate) fn call_again(_: *mut libc::c_void) -> bool {
        false
    }

    /// Here the thread itself ends by [`now`]: a thread can be joined before its values are
    /// dropped.
    #[cfg(loom)]
    pub(crate) fn call_at_end() -> bool {
        true
    }

    /// The calling thread ends.
    #[cfg(loom)]
    pub(crate) fn now() {
        if let Some(call) = CALL.get() {
            call(std::ptr::null_mut());
        }
    }
}

pub(crate) mod fork {
    //! A model checker does not fork.

    use crate::sys::maps::{map, unmap, Pages};

    pub(crate) fn map_to_wipe(bytes: usize) -> *mut u8 {
        map(bytes, Pages::Small)
    }

    pub(crate) unsafe fn unmap_wiped(at: *mut u8, bytes: usize) {
        // SAFETY: the caller's promise.
        unsafe { unmap(at, bytes) };
    }

    pub(crate) fn wipe_in_child(_: *mut u8) -> bool {
        true
    }

    pub(crate) fn call_in_child(_: extern "C" fn()) -> bool {
        true
    }
}

pub(crate) mod futex {
    //! What the kernel has for sleeping until a word changes, for threads of a model
    //! checker: a thread that is not woken never returns, and the checker says so.

    use crate::sync::{lock, AtomicU32, Mutex, Ordering};
    use crate::tests::checker::{tool, Condvar};
    use std::collections::HashMap;
    use std::sync::Arc;

    tool::lazy_static! {
        /// Where threads sleep, by word.
        static ref ASLEEP: Mutex<HashMap<usize, Arc<Condvar>>> = Mutex::new(HashMap::new());
    }

    /// Returns if the word is not `seen`, and on a wake-up.
    pub(crate) fn wait(word: &AtomicU32, seen: u32) {
        let mut asleep = lock(&ASLEEP);
        if word.load(Ordering::Relaxed) == seen {
            let place = asleep.entry(std::ptr::from_ref(word).addr()).or_default();
            let place = place.clone();
            drop(place.wait(asleep).unwrap());
        }
    }

    /// Wakes one that waits, or all.
    pub(crate) fn wake(word: *const AtomicU32, most: i32) {
        let place = lock(&ASLEEP).get(&word.addr()).cloned();
        match place {
            Some(place) if most == 1 => place.notify_one(),
            Some(place) => place.notify_all(),
            None => {}
        }
    }
}

pub(crate) mod thread {
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

    pub(crate) fn tid() -> u64 {
        0
    }

    pub(crate) fn is_gone(_: u64) -> bool {
        false
    }
}

pub(crate) mod timerfd {
    //! The alarm of a test: it goes off by the clock that the test moves, or when it is
    //! set to a time that has passed; and now and then for nothing, as by a signal.

    use crate::tests::checker::thread;
    use crate::tests::system::system;

    #[derive(Clone, Copy, Debug)]
    pub(crate) struct Alarm {
        pub fd: libc::c_int,
        pub clock: libc::clockid_t,
    }

    impl Alarm {
        pub fn new(clock: libc::clockid_t) -> Result<Self, i32> {
            system().refused().map_or(Ok(()), Err)?;
            let fd = system().make_bell() as libc::c_int;
            Ok(Alarm { fd, clock })
        }

        pub fn set(&self, at_ns: u64) -> Result<(), i32> {
            system().bell(self.fd as usize).set(at_ns);
            Ok(())
        }

        pub fn wait(&self) -> bool {
            // A system is fair to the threads that a driver may wait for.
            thread::yield_now();
            system().bell(self.fd as usize).wait();
            true
        }

        pub fn clear(&self) {}

        pub fn close(self) {
            system().bell(self.fd as usize).close();
        }
    }
}
