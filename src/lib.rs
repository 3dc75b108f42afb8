//! hwheel: a lock-free timing wheel.
#![warn(unsafe_op_in_unsafe_fn, clippy::undocumented_unsafe_blocks)]

mod bucket;
#[cfg(not(loom))]
pub mod capi;
mod geometry;
#[cfg(not(loom))]
mod host;
#[cfg(not(loom))]
mod local;
mod memory;
#[cfg(not(loom))]
mod os;
mod scale;
mod shard;
mod slab;
mod state;
mod sweep;
mod sync;
mod wheel;

#[cfg(test)]
mod tests;
