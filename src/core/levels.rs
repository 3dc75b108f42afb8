//! Levels and slots: pure arithmetic. `lib.rs` says which tick belongs to which level.
//!
//! # Why nothing is passed over
//!
//! An entry for tick `k`, placed when the hand was at `h < k`, lies on the level of the highest
//! bit in which `k` and `h` differ, in the slot of `k`. So `k` and the hand have the same digits
//! on the levels above, and `k` has the greater digit on this one. That stays so until the hand
//! *enters* the slot, at the first tick that has the digits of `k` from this level up. The
//! hand goes from entered slot to entered slot, and over a slot only if the slot is empty. So the
//! first slot is on the lowest level that has one, behind the digit of the hand.

use super::tunables::{OVERFLOW_BITS, WORD};

const MOST_LEVELS: usize = 64;

/// A level: 2^bits slots of 2^shift ticks.
#[derive(Clone, Copy, Debug, Default)]
struct Level {
    /// The number of slots less 1.
    mask: u32,
    /// Buckets of the levels below; a multiple of [`WORD`].
    base: u32,
    shift: u32,
}

/// The shape of a wheel.
pub(crate) struct Levels {
    levels: [Level; MOST_LEVELS],
    /// The level of the highest bit that differs.
    of_bit: [u8; 64],
    pub count: u32,
    pub buckets: u32,
}

impl Levels {
    /// `levels` levels of `2^slot_bits` slots, and the overflow levels. At least
    /// one level, at least one bit, at most 48 bits in all.
    pub fn new(levels: u32, slot_bits: u32) -> Self {
        let mut all = Levels {
            levels: [Level::default(); MOST_LEVELS],
            of_bit: [0; 64],
            count: 0,
            buckets: 0,
        };
        let mut shift = 0;
        while shift < 64 {
            let bits = if all.count < levels {
                slot_bits
            } else {
                OVERFLOW_BITS
            }
            .min(64 - shift);
            all.of_bit[shift as usize..(shift + bits) as usize].fill(all.count as u8);
            all.levels[all.count as usize] = Level {
                mask: (1 << bits) - 1,
                base: all.buckets,
                shift,
            };
            all.buckets += (1u32 << bits).max(WORD);
            all.count += 1;
            shift += bits;
        }
        all
    }

    /// Buckets of a level: the number of the first, and how many.
    pub fn slots(&self, level: u32) -> (u32, u32) {
        let l = self.levels[level as usize % MOST_LEVELS];
        (l.base, l.mask + 1)
    }

    /// The level that an entry for tick `k` belongs to while the hand is at `hand`: the
    /// lowest, if that is the same tick.
    #[inline(always)]
    pub fn level(&self, k: u64, hand: u64) -> u32 {
        u32::from(self.of_bit[63 - ((k ^ hand) | 1).leading_zeros() as usize])
    }

    /// The bucket of tick `k` on a level.
    #[inline(always)]
    pub fn bucket(&self, k: u64, level: u32) -> u32 {
        let l = self.levels[level as usize % MOST_LEVELS];
        l.base + ((k >> l.shift) as u32 & l.mask)
    }

    /// The tick at which the hand, which is at `hand`, enters a slot of a level, behind the one
    /// that it is in.
    #[inline(always)]
    pub fn entered(&self, hand: u64, level: u32, slot: u32) -> u64 {
        let l = self.levels[level as usize % MOST_LEVELS];
        ((hand >> l.shift) & !u64::from(l.mask) | u64::from(slot)) << l.shift
    }

    /// The slot of the hand on a level.
    #[inline(always)]
    pub fn digit(&self, hand: u64, level: u32) -> u32 {
        let l = self.levels[level as usize % MOST_LEVELS];
        (hand >> l.shift) as u32 & l.mask
    }
}

#[cfg(all(test, not(checked)))]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// Also from a hand that has moved on since, up to that tick.
        #[test]
        fn a_slot_is_entered_after_the_hand_and_not_after_the_tick(
            bits in 1u32..9, count in 1u32..6, hand in 0u64..1 << 62, by in 0u32..62, low: u64,
            part in 0.0f64..1.0,
        ) {
            let levels = Levels::new(count, bits);
            let k = hand + (1 << by) + (low & ((1 << by) - 1));
            let level = levels.level(k, hand);
            let slot = levels.bucket(k, level) - levels.slots(level).0;
            let entered = levels.entered(hand, level, slot);
            prop_assert!(hand < entered && entered <= k);
            prop_assert!(levels.digit(hand, level) < slot);
            let to = hand + ((entered - hand) as f64 * part) as u64;
            if to < entered {
                prop_assert_eq!(levels.entered(to, level, slot), entered);
                prop_assert!(levels.digit(to, level) < slot);
            }
        }
    }

    #[test]
    fn the_default_shape_has_ten_levels() {
        let levels = Levels::new(4, 8);
        assert_eq!(levels.count, 10);
        assert_eq!(levels.buckets, 4 * 256 + 6 * 64);
        assert_eq!(levels.bucket(5, levels.level(5, 4)), 5);
        assert_eq!(levels.level(0x312, 5), 1);
        assert_eq!(levels.bucket(0x312, 1), 256 + 3);
        assert_eq!(levels.entered(5, 1, 3), 0x300);
        // The topmost level has two bits.
        assert_eq!(
            levels.bucket(1 << 63, levels.level(1 << 63, 5)),
            4 * 256 + 5 * 64 + 2
        );
    }
}
