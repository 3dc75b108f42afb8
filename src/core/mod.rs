//! The core: timers, and the driver that fires them. It makes no system call but for memory. The
//! model checkers run it unchanged.

pub(crate) mod alarm;
pub(crate) mod arm;
mod buckets;
mod cancel;
mod chunks;
pub(crate) mod driver;
pub(crate) mod error;
mod gate;
pub(crate) mod inbox;
mod levels;
pub(crate) mod life;
pub(crate) mod link;
mod owner;
pub(crate) mod period;
mod query;
pub(crate) mod record;
pub(crate) mod slab;
mod stack;
pub(crate) mod state;
pub(crate) mod stats;
pub(crate) mod ticks;
pub(crate) mod timer;
pub(crate) mod tunables;
pub(crate) mod wheel;
