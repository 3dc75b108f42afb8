//! Levels and slots: pure arithmetic.
//!
//! One level is the hashed wheel with rounds (Varghese and Lauck, scheme 6),
//! more are the hierarchical wheel (scheme 7). A deadline belongs to the level
//! of the highest digit in which it differs from the hand; the top level wraps
//! and counts rounds, so there is no greatest delay.

#[derive(Clone, Copy, Debug)]
pub(crate) struct Geometry {
    pub levels: u32,
    pub slot_bits: u32,
}

impl Geometry {
    pub const fn buckets(&self) -> usize {
        (self.levels as usize) << self.slot_bits
    }

    pub fn digit(&self, tick: u64, level: u32) -> u32 {
        ((tick >> (self.slot_bits * level)) & ((1 << self.slot_bits) - 1)) as u32
    }

    /// Where an entry for tick `k` goes when the hand is at `hand < k`.
    pub fn place(&self, k: u64, hand: u64) -> (u32, u32) {
        debug_assert!(k > hand);
        let level = ((63 - (k ^ hand).leading_zeros()) / self.slot_bits).min(self.levels - 1);
        (level, self.digit(k, level))
    }

    /// When the hand, at `hand` now, next comes to a bucket.
    pub fn visit_tick(&self, (level, slot): (u32, u32), hand: u64) -> u64 {
        let span = 1u64 << (self.slot_bits * level);
        let turn = span << self.slot_bits;
        let v = (hand & !(turn - 1)) + u64::from(slot) * span;
        if v <= hand {
            v + turn
        } else {
            v
        }
    }

    /// Whether the hand at `tick` has just come to a slot of `level`.
    pub fn comes_to(&self, tick: u64, level: u32) -> bool {
        tick & ((1u64 << (self.slot_bits * level)) - 1) == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_bucket_is_met_after_the_hand_and_not_after_the_tick(
            bits in 2u32..9, levels in 1u32..6, hand in 0u64..1 << 50, by in 0u32..36, low: u64,
        ) {
            let g = Geometry { levels, slot_bits: bits };
            let k = hand + (1 << by) + (low & ((1 << by) - 1));
            let at = g.place(k, hand);
            let v = g.visit_tick(at, hand);
            prop_assert!(hand < v && v <= k);
            prop_assert!(g.comes_to(v, at.0));
            prop_assert_eq!(g.digit(v, at.0), at.1);
        }
    }
}
