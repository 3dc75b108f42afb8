//! The wheel for Rust, over the same host as the C functions.

pub(crate) mod error;
pub(crate) mod event;
mod handler;
mod keyed;
pub(crate) mod options;
pub(crate) mod owned;
pub(crate) mod period;
pub(crate) mod prompt;
pub(crate) mod time;
pub(crate) mod wake;
pub(crate) mod wheel;

pub use wheel::Wheel;
