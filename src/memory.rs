//! The one interface through which the core takes memory: in large, zeroed
//! steps, fallibly. The operating-system side implements it with `mmap`.

/// A source of zeroed, cache-line-aligned memory.
pub(crate) trait Memory: Send + Sync {
    /// `bytes` of zeroed memory aligned to at least 64, or null.
    fn map(&self, bytes: usize) -> *mut u8;
    /// # Safety
    /// `at` came from `map(bytes)` of the same source and is used no more.
    unsafe fn unmap(&self, at: *mut u8, bytes: usize);
}

/// Anonymous private mappings.
#[derive(Clone)]
pub(crate) struct Mmap;

impl Memory for Mmap {
    fn map(&self, bytes: usize) -> *mut u8 {
        // SAFETY: an anonymous mapping at an address of the kernel's choice
        // touches no existing memory.
        let p = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                bytes,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE,
                -1,
                0,
            )
        };
        if p == libc::MAP_FAILED {
            std::ptr::null_mut()
        } else {
            p.cast()
        }
    }

    unsafe fn unmap(&self, at: *mut u8, bytes: usize) {
        // SAFETY: the caller's promise.
        unsafe { libc::munmap(at.cast(), bytes) };
    }
}
