//! What the library needs of the operating system, each in its own file.

pub(crate) mod alarm;
pub(crate) mod clock;
pub(crate) mod fork;
pub(crate) mod futex;
pub(crate) mod mmap;
pub(crate) mod thread;

/// The error number of the call that has just failed.
pub(crate) fn errno() -> i32 {
    std::io::Error::last_os_error()
        .raw_os_error()
        .unwrap_or(libc::EIO)
}
