//! Memory whose bounds the checking tools know.

pub(crate) use crate::tests::Heap as Mmap;
