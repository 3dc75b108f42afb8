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
