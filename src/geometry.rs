//! Levels and slots: pure arithmetic.
//!
//! One level is the hashed wheel with rounds (Varghese and Lauck, scheme 6),
//! more are the hierarchical wheel (scheme 7). A tick belongs to the level of
//! the highest digit in which it differs from the hand; the top level wraps
//! and counts rounds, so there is no greatest delay.
//!
//! # Why nothing is passed over
//!
//! An entry for tick `k`, placed when the hand was at `h < k`, lies in the
//! bucket of digit `digit(k, level)`, and the hand *enters* that slot at
//! [`Geometry::entry_tick`], which is after `h` and not after `k`. When the
//! hand jumps from `a` to `b`, it enters, on each level, the one slot that it
//! lands in, if [`Geometry::enters`] says so; it jumps over slots in between
//! only when no entry there is due by `b`.

/// The shape of a wheel.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Geometry {
    pub levels: u32,
    pub slot_bits: u32,
}

/// A bucket's place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct At {
    pub level: u32,
    pub slot: u32,
}

impl Geometry {
    pub const fn buckets(&self) -> usize {
        (self.levels as usize) << self.slot_bits
    }

    #[inline]
    pub fn top(&self) -> u32 {
        self.levels - 1
    }

    #[inline]
    pub fn digit(&self, tick: u64, level: u32) -> u32 {
        ((tick >> (self.slot_bits * level)) & ((1 << self.slot_bits) - 1)) as u32
    }

    /// Where an entry for tick `k` goes when the hand is at `hand < k`.
    #[inline]
    pub fn place(&self, k: u64, hand: u64) -> At {
        debug_assert!(k > hand);
        let high = 63 - (k ^ hand).leading_zeros();
        let mut level = 0;
        // A division by slot_bits, but the levels are few.
        while level < self.top() && high >= self.slot_bits * (level + 1) {
            level += 1;
        }
        At {
            level,
            slot: self.digit(k, level),
        }
    }

    /// When the hand enters the slot of tick `k` on `level`.
    #[inline]
    pub fn entry_tick(&self, k: u64, level: u32) -> u64 {
        k & (u64::MAX << (self.slot_bits * level))
    }

    /// When the hand, at `hand` now, next enters a slot.
    #[inline]
    pub fn next_entry(&self, at: At, hand: u64) -> u64 {
        let span = 1u64 << (self.slot_bits * at.level);
        let turn = span << self.slot_bits;
        let v = (hand & !(turn - 1)) + u64::from(at.slot) * span;
        if v <= hand {
            v + turn
        } else {
            v
        }
    }

    /// Whether the hand enters a slot of `level` when it goes from `a` to `b`.
    #[inline]
    pub fn enters(&self, a: u64, b: u64, level: u32) -> bool {
        (a ^ b) >> (self.slot_bits * level) != 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_bucket_is_entered_after_the_hand_and_not_after_the_tick(
            bits in 1u32..9, levels in 1u32..6, hand in 0u64..1 << 50, by in 0u32..36, low: u64,
        ) {
            let g = Geometry { levels, slot_bits: bits };
            let k = hand + (1 << by) + (low & ((1 << by) - 1));
            let at = g.place(k, hand);
            let v = g.next_entry(at, hand);
            prop_assert!(hand < v && v <= g.entry_tick(k, at.level));
            prop_assert!(g.entry_tick(k, at.level) <= k);
            prop_assert!(g.enters(hand, v, at.level));
            prop_assert_eq!(g.digit(v, at.level), at.slot);
        }

        #[test]
        fn no_entry_is_passed_over_by_a_jump_to_its_tick_or_before(
            bits in 1u32..9, levels in 1u32..6, hand in 0u64..1 << 50, by in 0u32..36, low: u64,
            part in 0.0f64..1.0,
        ) {
            let g = Geometry { levels, slot_bits: bits };
            let k = hand + (1 << by) + (low & ((1 << by) - 1));
            let at = g.place(k, hand);
            let to = hand + 1 + ((k - hand - 1) as f64 * part) as u64;
            let entered = g.enters(hand, to, at.level) && g.digit(to, at.level) == at.slot;
            // Not entered: it is entered later, in time.
            prop_assert!(entered || g.next_entry(at, to) <= k);
        }
    }
}
