//! Memory that is refused, in the thread that asks for that; and how much is mapped.

use std::cell::Cell;

thread_local! {
    /// How many mappings are still granted. The model checkers run all threads of an execution
    /// in one of the system's.
    static GRANTED: Cell<u64> = const { Cell::new(u64::MAX) };
    /// Bytes that are mapped by this thread, less those that it has unmapped.
    static MAPPED: Cell<isize> = const { Cell::new(0) };
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

/// Memory was mapped or, if it is negative, unmapped.
pub(crate) fn count(bytes: isize) {
    MAPPED.set(MAPPED.get() + bytes);
}

#[cfg(not(checked))]
pub(crate) fn mapped() -> isize {
    MAPPED.get()
}
