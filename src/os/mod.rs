//! What the library needs of the operating system, each in its own file.

pub(crate) mod mmap;
