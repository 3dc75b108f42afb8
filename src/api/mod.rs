//! The wheel for Rust, over the same host as the C functions.

pub(crate) mod delay_queue;
pub(crate) mod error;
pub(crate) mod event;
pub(crate) mod futures;
mod handler;
mod keyed;
pub(crate) mod options;
pub(crate) mod period;
pub(crate) mod run;
pub(crate) mod time;
mod virtual_time;
mod waker;
pub(crate) mod wheel;

pub use wheel::Wheel;
