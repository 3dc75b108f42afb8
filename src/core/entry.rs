//! An entry: in a bucket of the driver, a node and the tick at which the driver visits it.
//!
//! ```text
//!  63    62               26 25        0
//! +-----+-------------------+-----------+
//! | far | tick              |   index   |
//! +-----+-------------------+-----------+
//! ```
//! The tick is kept modulo 2^37. An entry for a deadline beyond the [`HORIZON`] is *far*: it
//! counts units of 2^24 ticks, and names a tick less than 2^24 before the deadline, or one
//! 2^58 ticks away if the deadline is further. At that tick the node gets another entry. An
//! entry is never 0: the slab has no node 0.

use super::state::INDEX_BITS;

const FAR_SHIFT: u32 = 63;
const TICK_BITS: u32 = FAR_SHIFT - INDEX_BITS;
const FAR_UNIT_BITS: u32 = 24;
/// Entries beyond this distance are far. Together with the longest step it is
/// half the range of an entry.
pub(crate) const HORIZON: u64 = (1 << (TICK_BITS - 2)) - 1;
/// No entry is further away than this.
const FARTHEST: u64 = 1 << (TICK_BITS + FAR_UNIT_BITS - 3);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Entry(pub u64);

/// The tick at or before `tick` that an entry can have while the hand is at
/// `hand`, which is before it.
#[inline]
pub(crate) fn entry_tick(tick: u64, hand: u64) -> u64 {
    if tick - hand <= HORIZON {
        tick
    } else {
        tick.min(hand + FARTHEST) & (u64::MAX << FAR_UNIT_BITS)
    }
}

impl Entry {
    /// An entry for the tick that [`entry_tick`] returns, and that tick.
    #[inline(always)]
    pub fn by(index: u32, tick: u64, hand: u64) -> (Self, u64) {
        if tick - hand <= HORIZON {
            return (Entry::near(index, tick), tick);
        }
        let tick = entry_tick(tick, hand);
        let far = Entry::near(index, tick >> FAR_UNIT_BITS).0 | 1 << FAR_SHIFT;
        (Entry(far), tick)
    }

    /// For a tick at most [`HORIZON`] ahead.
    #[inline(always)]
    pub fn near(index: u32, tick: u64) -> Self {
        Entry((tick << INDEX_BITS | u64::from(index)) & !(1 << FAR_SHIFT))
    }

    #[inline(always)]
    pub fn index(self) -> u32 {
        self.0 as u32 & ((1 << INDEX_BITS) - 1)
    }

    /// The whole tick, which lies within half the range of `near`.
    #[inline(always)]
    pub fn tick(self, near: u64) -> u64 {
        if self.0 >> FAR_SHIFT == 0 {
            return self.next_to(near);
        }
        self.next_to(near >> FAR_UNIT_BITS) << FAR_UNIT_BITS
    }

    #[inline(always)]
    fn next_to(self, near: u64) -> u64 {
        let ahead = ((self.0 >> INDEX_BITS).wrapping_sub(near) << (64 - TICK_BITS)) as i64;
        near.wrapping_add_signed(ahead >> (64 - TICK_BITS))
    }
}

#[cfg(all(test, not(checked)))]
mod tests {
    use super::super::state::STEP;
    use super::*;

    #[test]
    fn an_entry_keeps_index_and_tick() {
        const INDEX: u32 = (1 << INDEX_BITS) - 1;
        for hand in [1 << 36, (1 << 37) - 1, 1 << 37, (1 << 62) + 12345] {
            for ahead in [1, 2, 1000, HORIZON, HORIZON + 1, 1 << 40, 1 << 57, 1 << 62] {
                let tick = entry_tick(hand + ahead, hand);
                assert!(hand < tick && tick <= hand + ahead);
                assert!(tick == hand + ahead || ahead > HORIZON);
                let (e, of) = Entry::by(INDEX, hand + ahead, hand);
                assert_eq!(of, tick);
                // An entry that is placed again keeps its tick.
                assert_eq!(Entry::by(INDEX, tick, hand).1, tick);
                assert_eq!(e.index(), INDEX);
                // From the old hand, and from the new one.
                assert_eq!(e.tick(hand), tick);
                assert_eq!(e.tick(hand - STEP.min(hand)), tick);
                assert_eq!(e.tick(hand + (tick - hand).min(STEP)), tick);
                assert_eq!(e.tick(tick), tick);
            }
        }
    }
}
