//! A call at the end of each thread of the model checker that asked for it.

type Call = extern "C" fn(*mut libc::c_void);

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

std::thread_local! {
    static CALL: std::cell::Cell<Option<Call>> = const { std::cell::Cell::new(None) };
}

pub(crate) fn prepare(f: Call) -> bool {
    CALL.set(Some(f));
    true
}

pub(crate) fn call_at_end() -> bool {
    END.with(|end| end.0.set(CALL.get()));
    true
}
