//! The C functions: validate, call, map the error. Their documentation is the
//! header's; `hwheel.h.in` puts it in order.
//!
//! `build.rs` adds the parameters, errors and context that most functions share.
//!
//! The caller promises that pointers are what the documentation says. Where a type of Rust
//! says it too, the function has that type; the others are unsafe.
//!
//! No panic crosses this boundary: the library is built to abort on one, and
//! nothing here can cause one.

// Names and comments are for readers of C, and so are constants that the library
// itself has no use for.
#![allow(
    non_camel_case_types,
    rustdoc::broken_intra_doc_links,
    unreachable_pub,
    dead_code
)]

pub(crate) mod args;
pub(crate) mod drive;
pub(crate) mod event;
mod key;
mod library;
mod once;
pub(crate) mod options;
pub(crate) mod reads;
pub(crate) mod reusable;
