//! The one interface through which the core takes memory: in large, zeroed
//! steps, fallibly. The operating-system side implements it with `mmap`.

/// A source of zeroed memory.
pub(crate) trait Memory: Send + Sync {
    /// `bytes` of zeroed memory aligned to at least 64, or null.
    fn map(&self, bytes: usize) -> *mut u8;
    /// # Safety
    /// `at` came from `map(bytes)` of the same source and is used no more.
    unsafe fn unmap(&self, at: *mut u8, bytes: usize);
}
