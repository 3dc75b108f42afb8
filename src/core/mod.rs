//! The core: no operating system, generic over memory. The model checkers run it
//! unchanged.

pub(crate) mod arm;
mod buckets;
mod cancel;
pub(crate) mod driver;
mod entry;
pub(crate) mod error;
mod gate;
mod kick;
mod levels;
pub(crate) mod life;
pub(crate) mod memory;
pub(crate) mod node;
pub(crate) mod place;
mod queue;
mod shard;
pub(crate) mod slab;
pub(crate) mod state;
pub(crate) mod stats;
pub(crate) mod ticks;
pub(crate) mod tunables;
pub(crate) mod wheel;
