//! Nanoseconds, ticks and periods: pure arithmetic, without a division on the usual path.
//!
//! The core counts ticks from a point before the clock's zero. The distance, the
//! *bias*, is a power of two of ticks, more than 2^61 ns and at most 2^62 ns. So no caller
//! can name a small tick, and the gate has room for values that are not a hand
//! (`gate.rs`). One addition to the nanoseconds adds the bias and rounds up, so the
//! bias costs nothing.

use super::state::{NEVER, STEP};

/// Times from here on are negative numbers that were cast.
pub(crate) const END_OF_TIME: u64 = 1 << 63;
/// Below this, 109 years, the reciprocal is exact, bias and rounding included: the sum is below
/// 2^63. Only such times take the short ways to arm.
pub(crate) const EXACT_BELOW: u64 = 3 << 60;
/// The maximum delay of the short way to arm. No tick is so small, so that none is near the hand
/// of a gate that was wiped.
const NEAREST: u64 = 1 << 60;
/// The shortest tick. A link has room for the ticks of a clock whose ticks are this long.
pub(crate) const SHORTEST_TICK: u64 = 1000;
const _: () = assert!((1 << 52) + END_OF_TIME / SHORTEST_TICK < super::record::FIRST_NOTE);
/// The longest tick, 2^46 ns: nineteen hours.
pub(crate) const LONGEST_TICK: u64 = 1 << 46;

#[derive(Clone, Copy, Debug)]
pub(crate) struct Ticks {
    /// Added before the division that rounds up: the bias and a tick less 1; and
    /// before one that rounds down.
    up: u64,
    down: u64,
    /// 2^(63 + bits) / tick_ns, rounded up; bits are those of a tick.
    reciprocal: u64,
    shift: u32,
    /// Deadlines of the short ways to arm are less than this many ticks ahead of the hand. So a
    /// word reads right until the hand is a step behind the tick.
    pub near: u64,
    pub tick_ns: u64,
    bias: u64,
}

impl Ticks {
    pub fn new(tick_ns: u64) -> Self {
        debug_assert!((SHORTEST_TICK..=LONGEST_TICK).contains(&tick_ns));
        // The smallest number with tick_ns <= 2^bits. So the reciprocal is below 2^64.
        let bits = 64 - (tick_ns - 1).leading_zeros();
        let bias = 1 << (62 - bits);
        let reciprocal = (1u128 << (63 + bits)).div_ceil(u128::from(tick_ns)) as u64;
        Ticks {
            up: bias * tick_ns + tick_ns - 1,
            down: bias * tick_ns,
            reciprocal,
            shift: bits - 1,
            near: (NEAREST / tick_ns).min(STEP - 1),
            tick_ns,
            bias,
        }
    }

    #[inline(always)]
    fn divide(&self, biased: u64) -> u64 {
        ((u128::from(biased) * u128::from(self.reciprocal)) >> 64) as u64 >> self.shift
    }

    /// The first tick at or after `ns`, if that is below [`EXACT_BELOW`]; any number otherwise.
    #[inline(always)]
    pub fn at_or_after_exactly(&self, ns: u64) -> u64 {
        self.divide(ns.wrapping_add(self.up))
    }

    /// The first tick at or after `ns`.
    #[inline]
    pub fn at_or_after(&self, ns: u64) -> u64 {
        if ns < EXACT_BELOW {
            self.at_or_after_exactly(ns)
        } else {
            ns.div_ceil(self.tick_ns) + self.bias
        }
    }

    /// The last tick at or before `ns`.
    #[inline]
    pub fn at_or_before(&self, ns: u64) -> u64 {
        if ns < EXACT_BELOW {
            self.divide(ns + self.down)
        } else {
            // A tick is not 0; this spares the check.
            ns / self.tick_ns.max(1) + self.bias
        }
    }

    /// The beginning of a tick; [`NEVER`] after the end of time.
    #[inline]
    pub fn ns(&self, tick: u64) -> u64 {
        tick.wrapping_sub(self.bias)
            .checked_mul(self.tick_ns)
            .filter(|ns| *ns < END_OF_TIME)
            .unwrap_or(NEVER)
    }

    /// The last tick from `first` to `last` that the clock reaches; `first` if it reaches none.
    #[inline]
    pub fn last_reached(&self, first: u64, last: u64) -> u64 {
        match self.ns(last) {
            NEVER => self.at_or_before(END_OF_TIME - 1).max(first),
            _ => last,
        }
    }

    /// The beginning of a tick; 0 before the clock's zero, [`END_OF_TIME`] after the end.
    #[inline(always)]
    pub fn ns_or_end(&self, tick: u64) -> u64 {
        let since = tick.saturating_sub(self.bias);
        since.saturating_mul(self.tick_ns).min(END_OF_TIME)
    }

    /// The beginning of a tick that the clock has reached.
    #[inline(always)]
    pub fn ns_of_reached(&self, tick: u64) -> u64 {
        tick.wrapping_sub(self.bias).wrapping_mul(self.tick_ns)
    }
}

const LONG: u64 = 1 << 47;
const UNIT_BITS: u32 = 16;

/// A period in 48 bits. Below 2^47 ns (39 hours) it is exact. Above that it is in
/// units of 2^16 ns, rounded up, so that a timer is never early. `ns` is below 2^63.
pub(crate) fn encode_period(ns: u64) -> u64 {
    if ns < LONG {
        return ns;
    }
    ns.div_ceil(1 << UNIT_BITS).min(LONG - 1) | LONG
}

pub(crate) fn decode_period(value: u64) -> u64 {
    if value & LONG == 0 {
        return value;
    }
    match value & !LONG {
        // The largest value stands for the longest period, 292 years.
        most if most == LONG - 1 => (1 << 63) - 1,
        units => units << UNIT_BITS,
    }
}

/// The node frees itself when it has fired for the last time.
pub(crate) const AUTO: u16 = 1;
/// Missed periods fire one by one.
pub(crate) const BURST: u16 = 2;
/// After a miss, the next period begins when this one fires.
pub(crate) const DELAY: u16 = 4;
/// The caller knows the timer by a key, not by its handle.
pub(crate) const KEYED: u16 = 8;
/// The bits from here on: the slack of a period, as a power of two of ticks.
const SLACK_SHIFT: u32 = 8;

/// The slack of a period in a timer's kind: up to `ticks`, at most 2^47.
pub(crate) fn slack_in_kind(ticks: u64) -> u16 {
    ((ticks.min((1 << 47) - 1) + 1).ilog2() as u16) << SLACK_SHIFT
}

/// The tick from `first` to `last` that other timers with slack pick, too: the one
/// that is divisible by the largest power of two.
#[inline]
pub(crate) fn shared_tick(first: u64, last: u64) -> u64 {
    let differ = first.wrapping_sub(1) ^ last;
    last & (u64::MAX << differ.checked_ilog2().unwrap_or(0))
}

/// The last tick that the slack of `kind` allows for a period that is due at tick `due`.
#[inline]
pub(crate) fn last_tick(due: u64, kind: u16) -> u64 {
    due.saturating_add((1 << (kind >> SLACK_SHIFT)) - 1)
}

/// As `last_tick`, for a period that may have become shorter than the slack.
#[inline]
pub(crate) fn last_tick_in(due: u64, kind: u16, period: u64, tick_ns: u64) -> u64 {
    match kind >> SLACK_SHIFT {
        0 => due,
        _ => last_tick(due, kind).min(due.saturating_add((period / tick_ns).saturating_sub(1))),
    }
}

#[cfg(all(test, not(checked)))]
mod tests {
    use super::*;
    use crate::core::record::VALUE;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn the_reciprocal_divides_exactly(ns in 0..END_OF_TIME, short in 0u32..63, bits in 10u32..46, low: u64) {
            let ns = ns >> short;
            let tick_ns = (1u64 << bits) | (low & ((1 << bits) - 1));
            let t = Ticks::new(tick_ns);
            prop_assert_eq!(t.at_or_before(ns) - t.bias, ns / tick_ns);
            prop_assert_eq!(t.at_or_after(ns) - t.bias, ns.div_ceil(tick_ns));
            prop_assert_eq!(t.ns(t.at_or_before(ns)), ns / tick_ns * tick_ns);
        }
    }

    #[test]
    fn a11_the_ends_of_the_range() {
        for tick_ns in [1000, 1001, 1024, 1_000_000, 1 << 45, LONGEST_TICK] {
            let t = Ticks::new(tick_ns);
            for ns in [
                0,
                1,
                tick_ns - 1,
                tick_ns,
                EXACT_BELOW - 1,
                EXACT_BELOW,
                END_OF_TIME - 1,
            ] {
                assert_eq!(t.at_or_after(ns) - t.bias, ns.div_ceil(tick_ns));
                assert_eq!(t.at_or_before(ns) - t.bias, ns / tick_ns);
            }
        }
    }

    /// In a forked child the word of the gate reads 0, and the limit stays.
    #[test]
    fn no_tick_is_near_the_hand_of_a_gate_that_was_wiped() {
        for tick_ns in [SHORTEST_TICK, 1_000_000, 3_600_000_000_000, LONGEST_TICK] {
            let t = Ticks::new(tick_ns);
            assert!(t.at_or_after(0) >= t.near, "{tick_ns}");
        }
    }

    #[test]
    fn the_shared_tick_is_in_the_range_and_the_roundest() {
        for tick in 1..200u64 {
            for ticks in 0..200 {
                let best = (tick..=tick + ticks).max_by_key(|t| t.trailing_zeros());
                assert_eq!(
                    Some(shared_tick(tick, tick + ticks)),
                    best,
                    "{tick} {ticks}"
                );
            }
        }
    }

    #[test]
    fn a_period_is_exact_below_39_hours_and_never_short() {
        for ns in [
            1,
            1000,
            LONG - 1,
            LONG,
            LONG + 1,
            86_400_000_000_000,
            (1 << 63) - 1,
        ] {
            let kept = decode_period(encode_period(ns));
            assert!(kept >= ns && kept - ns < 1 << UNIT_BITS);
            assert!(kept == ns || ns >= LONG);
            assert_eq!(encode_period(ns) & !VALUE, 0);
        }
    }
}
