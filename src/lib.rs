//! hwheel: a lock-free timing wheel.
#![warn(unsafe_op_in_unsafe_fn, clippy::undocumented_unsafe_blocks)]
#![allow(dead_code)]

mod bucket;
mod geometry;
mod memory;
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
