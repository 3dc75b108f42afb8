//! A call at the end of each thread of the model checker that asked for it.

pub(crate) trait AtEnd {
    fn call();
}

struct End(std::cell::Cell<Option<fn()>>);

impl Drop for End {
    fn drop(&mut self) {
        if let Some(call) = self.0.get() {
            call();
        }
    }
}

shuttle::thread_local! {
    static END: End = End(std::cell::Cell::new(None));
}

std::thread_local! {
    static CALL: std::cell::Cell<Option<fn()>> = const { std::cell::Cell::new(None) };
}

pub(crate) fn prepare<E: AtEnd>() -> bool {
    CALL.set(Some(E::call));
    true
}

pub(crate) fn call_at_end() -> bool {
    END.with(|end| end.0.set(CALL.get()));
    true
}
