//! The interface through which the core takes memory: zeroed, in large steps, and
//! with a result if there is none. `sys/maps.rs` implements it.

/// Bytes of the smallest page. So many at the beginning of a wheel are those that the kernel
/// clears in a forked child.
pub(crate) const PAGE: usize = 4096;

/// The pages of large mappings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Pages {
    /// Small pages: a page that is not touched takes no memory.
    Small,
    /// Huge pages where the system has them.
    Huge,
}

/// A source of zeroed memory.
pub(crate) trait Memory: Send + Sync {
    /// Returns `bytes` of zeroed memory, aligned to at least 256, or null.
    fn map(&self, bytes: usize, pages: Pages) -> *mut u8;
    /// # Safety
    /// `at` came from `map(bytes)` of the same source and is used no more.
    unsafe fn unmap(&self, at: *mut u8, bytes: usize);
}
