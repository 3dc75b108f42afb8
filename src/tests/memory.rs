//! Memory that is refused, in the thread that asks for that.

use std::cell::Cell;

thread_local! {
    /// How many mappings are still granted. The model checkers run all threads of an execution
    /// in one of the system's.
    static GRANTED: Cell<u64> = const { Cell::new(u64::MAX) };
}

pub(crate) fn is_refused() -> bool {
    GRANTED.with(|granted| match granted.get() {
        u64::MAX => false,
        0 => true,
        left => {
            granted.set(left - 1);
            false
        }
    })
}

/// Runs `f` with `granted` mappings, and refuses more.
pub(crate) fn scarce<R>(granted: u64, f: impl FnOnce() -> R) -> R {
    struct Reset;
    impl Drop for Reset {
        fn drop(&mut self) {
            GRANTED.set(u64::MAX);
        }
    }
    let _reset = Reset;
    GRANTED.set(granted);
    f()
}
