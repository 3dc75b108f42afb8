//! The core: timers, and the driver that fires them. It makes no system call but for memory. The
//! model checkers run it unchanged.
//!
//! Here is what all its files share: why a call is refused, the number of a thread, and sizes.

pub(crate) mod alarm;
pub(crate) mod arm;
mod buckets;
pub(crate) mod driver;
mod gate;
pub(crate) mod inbox;
pub(crate) mod life;
mod owner;
mod query;
pub(crate) mod record;
pub(crate) mod slab;
pub(crate) mod state;
pub(crate) mod stats;
pub(crate) mod ticks;
pub(crate) mod wheel;

/// The reason why a call is refused. The numbers are those that the C functions return:
/// negative values of Linux's errno.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(i32)]
pub(crate) enum Error {
    /// No such timer, or no longer.
    Stale = -libc::ESTALE,
    /// The limit on live timers is reached.
    Limit = -libc::ENOSPC,
    /// No memory; nothing has changed.
    Memory = -libc::ENOMEM,
    /// More threads use timers than there are numbers for.
    Threads = -libc::EUSERS,
    /// Another thread drives.
    Busy = -libc::EBUSY,
    /// An argument is out of range.
    Invalid = -libc::EINVAL,
    /// Another thread owns the wheel, or nobody does.
    NotOwner = -libc::EPERM,
    /// The call comes from a callback that it would wait for.
    Inside = -libc::EDEADLK,
    /// The wheel or the timer is shut down, or belongs to another process.
    Shutdown = -libc::ESHUTDOWN,
}

/// The answer of a call on a timer: 1 the timer was pending, 0 it was not, or an
/// [`Error`]. It is the number that the C functions return.
pub(crate) type Answer = i32;

#[inline]
fn answer(result: Result<bool, Error>) -> Answer {
    result.map_or_else(|error| error as Answer, Answer::from)
}

/// The number of a thread, as long as it uses timers: 0 is none.
pub(crate) type Thread = u32;

/// Bits of the number in the identity of a thread (`wheel::Caller::identity`).
pub(crate) const NUMBER_BITS: u32 = 16;
const _: () = assert!(THREADS <= 1 << NUMBER_BITS);

/// The number in an identity.
#[inline(always)]
pub(crate) fn number_of(identity: u64) -> Thread {
    identity as u16 as Thread
}

// Sizes that shrink under the model checkers, so that wraps, cascades, full chunks and
// reuse happen within a handful of steps.

/// Whether this build runs under a model checker.
pub(crate) const CHECKED: bool = cfg!(checked);

/// Threads that can use timers at the same time, and one: the number 0 is no thread.
pub(crate) const THREADS: usize = if cfg!(loom) {
    8
} else if cfg!(shuttle) {
    64
} else {
    1 << 15
};

/// Notes of a chunk. A chunk is 256 bytes: a link and the notes.
pub(crate) const NOTES: usize = if CHECKED { 2 } else { 63 };
/// Chunks of notes that are mapped at once, as a power of two.
pub(crate) const NOTE_CHUNK_BITS: u32 = if CHECKED { 3 } else { 13 };
/// The number of such mappings: places for half a billion notes.
pub(crate) const NOTE_BLOCKS: usize = if CHECKED { 8 } else { 1024 };
/// Notes that a driver takes from an inbox at once.
pub(crate) const BATCH: usize = if CHECKED { 2 } else { 32 };

/// Lists of a bucket: a power of two. Eight fill a cache line.
pub(crate) const LANES: u32 = if CHECKED { 2 } else { 8 };

/// Timers of a block of the slab, as a power of two. A block holds 2 MB of hot
/// records, which one huge page maps.
pub(crate) const BLOCK_BITS: u32 = if CHECKED {
    3
} else if cfg!(miri) {
    6
} else {
    17
};
/// Blocks of a slab.
pub(crate) const BLOCKS: usize = if cfg!(loom) {
    2
} else if cfg!(shuttle) {
    8
} else if cfg!(miri) {
    64
} else {
    1 << (state::INDEX_BITS - BLOCK_BITS)
};
/// Timers that a thread takes from the slab at once: whole cache lines.
pub(crate) const RUN: u32 = if CHECKED {
    1
} else if cfg!(miri) {
    4
} else {
    64
};

/// Slots of an overflow level, as a power of two.
pub(crate) const OVERFLOW_BITS: u32 = if CHECKED { 3 } else { 6 };
/// Buckets of a word of bits. A level has whole words.
pub(crate) const WORD: u32 = if CHECKED { 8 } else { 64 };

/// Entries that the driver drops or moves before a sleep.
pub(crate) const SETTLE: usize = if CHECKED { 4 } else { 64 };
/// Tries of an allocation to find a free node.
pub(crate) const TRIES: u32 = if cfg!(loom) { 1 } else { 64 };
