//! Periods, and the kinds of timers: pure arithmetic.

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
pub(crate) fn slack(ticks: u64) -> u16 {
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
