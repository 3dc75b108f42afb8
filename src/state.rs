//! The state word: the whole truth about one timer in 64 bits.
//!
//! ```text
//!  63        48 47 46 45                                   6 5      0
//! +------------+-----+--------------------------------------+--------+
//! | generation | exp |          deadline mantissa           | flags  |
//! +------------+-----+--------------------------------------+--------+
//! ```
//!
//! The word changes by read-modify-write alone, so its modification order is
//! the history of the timer; every transition's linearization point is here.
//!
//! # The deadline
//!
//! A deadline is a 64-bit tick, of which 42 bits fit. It is kept as a coarse
//! float relative to the wheel's hand: `mantissa << (12 * exp)`, the mantissa
//! being taken modulo 2^40 and put back together by [`decode`] near the
//! current tick.
//!
//! | exp | unit (ticks) | used for delays (ticks) | worst rounding (late)    |
//! |-----|--------------|-------------------------|--------------------------|
//! | 0   | 1            | below 2^38              | none                     |
//! | 1   | 2^12         | below 2^50              | 2^12 / 2^38 < 2 * 10^-8  |
//! | 2   | 2^24         | the rest                | 2^24 / 2^50 < 2 * 10^-8  |
//! | 3   | -            | never, or beyond 2^63    | none                     |
//!
//! Decoding is exact as long as the hand is within half the range of the
//! deadline, which is twice the greatest delay of its unit: the other half is
//! for a sweep that decodes, from where it is, what was armed from where it
//! goes. A visit is promised at or before the deadline, so the hand cannot run
//! away from an armed timer, and an arming thread that was stopped for that
//! long sees it when it checks the hand after its push. It can from one that came
//! due while its callback runs in another thread, and has no promise until that is
//! over: OWED says that the deadline has passed, however it looks.
//!
//! # Vocabulary of the flags
//!
//! | flags                     | the timer                                       |
//! |---------------------------|-------------------------------------------------|
//! | none                      | rests                                           |
//! | ARMED                     | is pending                                      |
//! | RUNNING                   | is in its callback                              |
//! | ARMED, RUNNING            | is in its callback and pending again            |
//! | SHUT                      | can never be armed again                        |
//! | ZOMBIE, RUNNING           | was freed inside or beside its callback         |
//! | WAITED, RUNNING           | has somebody asleep until the callback is over  |
//! | OWED, ARMED, RUNNING      | came due while its callback runs in a worker    |
//! | OWED, ARMED               | that is over, and a visit is promised           |
//!
//! ```text
//!   setup -> resting -- arm --> ARMED -- visit --> RUNNING -- end --> resting
//!               ^                | ^                  |
//!               +---- cancel ----+ +-- arm, period ---+
//!   free: from any of them to the next generation, through ZOMBIE if RUNNING
//! ```

use crate::sync::planted;

/// Pending: a callback or an event is owed.
pub(crate) const ARMED: u64 = 1;
/// The driver is inside this timer's callback.
pub(crate) const RUNNING: u64 = 2;
/// Shut down: can never be armed again.
pub(crate) const SHUT: u64 = 4;
/// Freed, but its callback still runs; the driver gives the node back.
pub(crate) const ZOMBIE: u64 = 8;
/// Somebody sleeps until RUNNING is cleared.
pub(crate) const WAITED: u64 = 16;
/// Was due while its callback ran; the end of that promises a visit.
pub(crate) const OWED: u64 = 32;
/// What a timer loses that is cancelled or fires.
pub(crate) const PENDING: u64 = ARMED | OWED;

const FLAGS_BITS: u32 = 6;
const MANT_BITS: u32 = 40;
const MANT_MASK: u64 = (1 << MANT_BITS) - 1;
const EXP_SHIFT: u32 = FLAGS_BITS + MANT_BITS;
const GEN_SHIFT: u32 = EXP_SHIFT + 2;
const UNIT_BITS: u32 = 12;

/// The tick of a timer that is armed and due never.
pub(crate) const NEVER: u64 = u64::MAX;
/// The greatest tick that a deadline can name; arithmetic saturates here.
pub(crate) const MAX_TICK: u64 = (1 << 63) - 1;

const DEADLINE_MASK: u64 = ((1 << (MANT_BITS + 2)) - 1) << FLAGS_BITS;

/// How far ahead of the hand a deadline is exact in the state word.
pub(crate) const NEAR: u64 = 1 << (MANT_BITS - 2);

/// `encode` for a tick less than [`NEAR`] ahead of the hand.
#[inline(always)]
pub(crate) fn encode_near(d: u64) -> u64 {
    (d & MANT_MASK) << FLAGS_BITS
}

/// Whether `state` is of `generation` with none of `flags` set: one comparison.
#[inline(always)]
pub(crate) fn is_plain(state: u64, generation: u64, flags: u64) -> bool {
    (state ^ (generation << GEN_SHIFT)) & ((u64::MAX << GEN_SHIFT) | flags) == 0
}

/// The deadline part of a state word for tick `d`, seen from the hand at `now`.
#[inline]
pub(crate) fn encode(d: u64, now: u64) -> u64 {
    if d == NEVER {
        return 3 << EXP_SHIFT;
    }
    let d = d.min(MAX_TICK);
    let delta = d.saturating_sub(now);
    let exp: u32 = if delta < NEAR {
        0
    } else if delta < NEAR << UNIT_BITS {
        1
    } else {
        2
    };
    let shift = exp * UNIT_BITS;
    // Round up: late by less than a unit, never early.
    let up = d & ((1 << shift) - 1) != 0 && !planted("deadline_is_rounded_down");
    let m = (d >> shift) + u64::from(up);
    (u64::from(exp) << EXP_SHIFT) | ((m & MANT_MASK) << FLAGS_BITS)
}

/// The deadline tick of a state word, seen from the hand at `now`.
#[inline]
pub(crate) fn decode(state: u64, now: u64) -> u64 {
    let exp = ((state >> EXP_SHIFT) & 3) as u32;
    if exp == 3 {
        return NEVER;
    }
    let shift = exp * UNIT_BITS;
    let m = (state >> FLAGS_BITS) & MANT_MASK;
    if exp == 2 {
        return m << shift;
    }
    let base = now >> shift;
    // The signed distance modulo 2^40 from the hand.
    let diff = ((m.wrapping_sub(base) << (64 - MANT_BITS)) as i64) >> (64 - MANT_BITS);
    let tick = base.saturating_add_signed(diff) << shift;
    if state & OWED != 0 {
        tick.min(now)
    } else {
        tick
    }
}

/// The word of a timer of `generation` that rests. The upper generation bits
/// stand where a deadline would, so that such a word does not come back after
/// 2^16 reuses of a node while somebody is about to exchange it.
pub(crate) fn resting(generation: u64) -> u64 {
    (generation << GEN_SHIFT) | ((generation >> (64 - GEN_SHIFT)) << FLAGS_BITS) & DEADLINE_MASK
}

/// Whether `state` belongs to `generation`, as far as its low bits tell.
pub(crate) fn same_gen(state: u64, generation: u64) -> bool {
    state >> GEN_SHIFT == (generation << GEN_SHIFT) >> GEN_SHIFT
        || planted("generation_is_not_checked")
}

/// `state` with another deadline, armed.
#[inline]
pub(crate) fn armed(state: u64, deadline_bits: u64) -> u64 {
    (state & !(DEADLINE_MASK | OWED)) | deadline_bits | ARMED
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn near_deadlines_are_exact_next_to_every_reserved_value() {
        for hand in [
            0,
            1,
            (1 << 38) - 1,
            1 << 38,
            1 << 39,
            1 << 40,
            (1 << 40) + 1,
            1 << 62,
        ] {
            for delta in [0, 1, 63, 64, (1 << 36) - 1, 1 << 36, (1 << 38) - 1] {
                assert_eq!(decode(encode(hand + delta, hand), hand), hand + delta);
            }
        }
    }

    /// What is armed from where a leap goes is decoded from where it is.
    #[test]
    fn a_deadline_is_exact_from_a_leap_behind() {
        for goal in [NEAR - 1, 1 << 40, 1 << 62] {
            for delta in [0, 1, NEAR - 1] {
                let word = encode(goal + delta, goal);
                assert_eq!(decode(word, goal - (NEAR - 1)), goal + delta);
            }
        }
    }

    #[test]
    fn a1_the_greatest_delays_do_not_wrap() {
        for d in [MAX_TICK - 1, MAX_TICK, MAX_TICK + 1, u64::MAX - 1] {
            assert!(decode(encode(d, 5), 5) >= MAX_TICK);
        }
        assert_eq!(decode(encode(NEVER, 5), 5), NEVER);
    }

    #[test]
    fn the_parts_of_the_word_do_not_overlap() {
        let s = armed(
            resting(0xffff) | RUNNING | SHUT | ZOMBIE,
            encode(MAX_TICK, 0),
        );
        assert!(same_gen(s, 0xffff) && same_gen(s, 0xabcd_ffff));
        assert_eq!(s & (ARMED | RUNNING | SHUT | ZOMBIE), 15);
        assert_ne!(resting(1), resting(1 + (1 << 16)));
        assert_eq!(
            resting(u64::MAX) & (ARMED | RUNNING | SHUT | ZOMBIE | WAITED),
            0
        );
        assert!(!same_gen(armed(resting(1), encode(NEVER, 0)), 2));
    }

    proptest! {
        #[test]
        fn the_short_way_to_encode_is_the_same(hand in 0..1u64 << 62, ahead in 0..NEAR) {
            prop_assert_eq!(encode_near(hand + ahead), encode(hand + ahead, hand));
        }

        #[test]
        fn never_early_and_late_by_less_than_a_fifty_millionth(
            hand in 0..1u64 << 62, delay_bits in 0u32..62, low in any::<u64>(), walk in 0.0f64..1.0,
        ) {
            let delay = (1u64 << delay_bits) | (low & ((1 << delay_bits) - 1));
            let d = hand + delay;
            // The hand may be anywhere between the arming and the deadline.
            let seen = hand + (delay as f64 * walk * 0.999) as u64;
            let got = decode(encode(d, hand), seen);
            prop_assert!(got >= d);
            if delay < NEAR {
                prop_assert_eq!(got, d);
            } else {
                prop_assert!(got - d <= delay / 50_000_000 + 1);
            }
        }
    }
}
