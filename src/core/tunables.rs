//! Sizes that shrink under the model checkers, so that wraps, cascades, full
//! chunks and reuse happen within a handful of steps.

/// Whether this build runs under a model checker.
pub(crate) const CHECKED: bool = cfg!(checked);

/// Entries of a chunk. A chunk is 256 bytes: a link and 31 entries.
pub(crate) const ENTRIES: usize = if CHECKED { 2 } else { 31 };
/// Bytes of the first region that a shard takes for chunks. Each region is
/// twice as large as the one before, up to [`LARGEST_REGION`].
pub(crate) const FIRST_REGION: usize = if CHECKED { 1024 } else { 16 << 10 };
pub(crate) const LARGEST_REGION: usize = if CHECKED { 2048 } else { 2 << 20 };

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
    1 << (super::state::INDEX_BITS - BLOCK_BITS)
};
/// Timers that a thread takes from the slab at once: whole cache lines.
pub(crate) const RUN: u32 = if CHECKED {
    1
} else if cfg!(miri) {
    4
} else {
    64
};

/// Shards that have a mask bit of their own. Beyond that shards share bits.
pub(crate) const MASK_BITS: u32 = if cfg!(loom) { 2 } else { 64 };
/// Slots of an overflow level, as a power of two.
pub(crate) const OVERFLOW_BITS: u32 = if CHECKED { 3 } else { 6 };
/// Buckets of a word of the summary. A level has whole words.
pub(crate) const WORD: u32 = if CHECKED { 8 } else { 64 };

/// Entries read before a sleep, in one bucket and in all.
pub(crate) const PEEK: usize = if CHECKED { 4 } else { 64 };
pub(crate) const SETTLE: usize = if CHECKED { 4 } else { 512 };

/// Pushes of a thread between two checks for a majority of dead entries.
pub(crate) const CLEAN_OFTEN: u64 = if CHECKED { 2 } else { 8192 };
/// Entries that one sweep cleans up.
pub(crate) const CLEAN_PIECE: usize = if CHECKED { 4 } else { 4096 };
/// Tries of an allocation to find a free node.
pub(crate) const TRIES: u32 = if cfg!(loom) { 1 } else { 64 };
