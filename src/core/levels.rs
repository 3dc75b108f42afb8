//! Levels and slots: pure arithmetic. `lib.rs` says which tick belongs to which level.
//!
//! # Why nothing is passed over
//!
//! An entry for tick `k`, placed when the hand was at `h < k`, lies in the slot
//! of `k` on its level. The hand *enters* that slot at [`Place::entered`], which
//! is after `h` and at or before `k`. When the hand moves from `a` to `b`, it
//! enters the slot where it lands on each level whose digit changes. It passes over
//! a slot only if the slot is empty.

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
    bits: u32,
}

/// The shape of a wheel.
pub(crate) struct Levels {
    levels: [Level; MOST_LEVELS],
    /// The level of the highest bit that differs.
    of_bit: [u8; 64],
    pub count: u32,
    pub buckets: u32,
}

/// A bucket, and the tick at which the hand enters its slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    pub bucket: u32,
    pub entered: u64,
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
                bits,
            };
            all.buckets += (1u32 << bits).max(WORD);
            all.count += 1;
            shift += bits;
        }
        all
    }

    /// Buckets of a level: the number of the first, and how many.
    pub fn slots(&self, level: u32) -> (u32, u32) {
        let l = self.levels[level as usize];
        (l.base, l.mask + 1)
    }

    #[inline(always)]
    pub fn is_lowest(&self, bucket: u32) -> bool {
        bucket <= self.levels[0].mask
    }

    /// The level that an entry for tick `k` belongs to while the hand is at
    /// `hand`, which is another tick.
    #[inline(always)]
    pub fn level(&self, k: u64, hand: u64) -> u32 {
        debug_assert_ne!(k, hand);
        // The difference is never 0; `| 1` spares the check.
        u32::from(self.of_bit[63 - ((k ^ hand) | 1).leading_zeros() as usize])
    }

    /// Where an entry for tick `k` goes while the hand is at `hand < k`.
    #[inline(always)]
    pub fn place(&self, k: u64, hand: u64) -> Place {
        self.place_on(k, self.level(k, hand))
    }

    /// The slot of tick `k` on a level.
    #[inline(always)]
    pub fn place_on(&self, k: u64, level: u32) -> Place {
        let l = self.levels[level as usize % MOST_LEVELS];
        let slot = k >> l.shift;
        Place {
            bucket: l.base + (slot as u32 & l.mask),
            entered: slot << l.shift,
        }
    }

    /// The first marked tick after the hand, if it is of the lowest level, in the same
    /// turn and in the word of bits that the next tick is in. `word` has the bits.
    #[inline]
    pub fn next_lowest(&self, hand: u64, word: impl FnOnce(u32) -> u64) -> Option<u64> {
        let next = hand + 1;
        let digit = next as u32 & self.levels[0].mask;
        let marked = word(digit) >> (digit % WORD);
        (digit != 0 && marked != 0).then(|| next + u64::from(marked.trailing_zeros()))
    }

    /// The slot after the one under the hand, on a level.
    #[inline]
    pub fn next_digit(&self, hand: u64, level: u32) -> u32 {
        let l = self.levels[level as usize];
        ((hand >> l.shift) + 1) as u32 & l.mask
    }

    /// The tick at which the hand enters the slot `distance` after the next one, and
    /// whether that is in the same turn of the level.
    #[inline]
    pub fn entered(&self, hand: u64, level: u32, distance: u32) -> (u64, bool) {
        let l = self.levels[level as usize];
        let next = (hand >> l.shift) + 1;
        let at = next + u64::from(distance);
        let same_turn = at >> l.bits == hand >> l.shift >> l.bits;
        // Past the last tick of 64 bits there is no slot: the result is not after the hand.
        (at << l.shift, same_turn)
    }
}

#[cfg(all(test, not(checked)))]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// The first tick after `hand` at which a bucket's slot is entered.
    fn next_entered(levels: &Levels, level: u32, bucket: u32, hand: u64) -> u64 {
        let (base, n) = levels.slots(level);
        let distance = (bucket - base).wrapping_sub(levels.next_digit(hand, level)) & (n - 1);
        levels.entered(hand, level, distance).0
    }

    proptest! {
        #[test]
        fn a_bucket_is_entered_after_the_hand_and_not_after_the_tick(
            bits in 1u32..9, count in 1u32..6, hand in 0u64..1 << 62, by in 0u32..62, low: u64,
        ) {
            let levels = Levels::new(count, bits);
            let k = hand + (1 << by) + (low & ((1 << by) - 1));
            let at = levels.place(k, hand);
            prop_assert!(hand < at.entered && at.entered <= k);
            prop_assert_eq!(next_entered(&levels, levels.level(k, hand), at.bucket, hand), at.entered);
        }

        /// Also from a hand that is still before the one an entry was placed
        /// for, as in a sweep.
        #[test]
        fn no_entry_is_passed_over(
            bits in 1u32..9, count in 1u32..6, hand in 1u64..1 << 62, by in 0u32..62, low: u64,
            back in 0u32..62, part in 0.0f64..1.0,
        ) {
            let levels = Levels::new(count, bits);
            let k = hand + (1 << by) + (low & ((1 << by) - 1));
            let level = levels.level(k, hand);
            let at = levels.place(k, hand);
            let behind = hand.saturating_sub(1 << back);
            prop_assert!(next_entered(&levels, level, at.bucket, behind) <= k);
            let to = hand + ((at.entered - hand) as f64 * part) as u64;
            if to < at.entered {
                prop_assert!(next_entered(&levels, level, at.bucket, to) <= k);
            }
        }
    }

    #[test]
    fn the_default_shape_has_ten_levels() {
        let levels = Levels::new(4, 8);
        assert_eq!(levels.count, 10);
        assert_eq!(levels.buckets, 4 * 256 + 6 * 64);
        assert_eq!(
            levels.place(5, 4),
            Place {
                bucket: 5,
                entered: 5
            }
        );
        assert_eq!(
            levels.place(0x312, 5),
            Place {
                bucket: 256 + 3,
                entered: 0x300
            }
        );
        // The topmost level has two bits.
        assert_eq!(levels.place(1 << 63, 5).bucket, 4 * 256 + 5 * 64 + 2);
    }
}
