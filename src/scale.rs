//! Nanoseconds to ticks and back, without a 64-bit division on any hot path.

/// The length of a tick, with its reciprocal.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Scale {
    tick_ns: u64,
    /// floor(2^64 / tick_ns), saturated for a tick of 1 ns.
    reciprocal: u64,
}

impl Scale {
    /// `tick_ns` is at least 1.
    pub fn new(tick_ns: u64) -> Self {
        let reciprocal = u64::try_from((1u128 << 64) / u128::from(tick_ns)).unwrap_or(u64::MAX);
        Scale {
            tick_ns,
            reciprocal,
        }
    }

    /// Quotient and remainder, the latter perhaps too great by one tick: the
    /// estimate is short by at most one.
    #[inline(always)]
    fn divide(&self, ns: u64) -> (u64, u64) {
        let q = ((u128::from(ns) * u128::from(self.reciprocal)) >> 64) as u64;
        (q, ns - q * self.tick_ns)
    }

    /// The first tick at or after `ns`: a timer is never early.
    #[inline(always)]
    pub fn tick_at_or_after(&self, ns: u64) -> u64 {
        let (q, r) = self.divide(ns);
        q + u64::from(r != 0) + u64::from(r > self.tick_ns)
    }

    /// The last tick at or before `ns`: where a clock that shows `ns` is.
    #[inline(always)]
    pub fn tick_at_or_before(&self, ns: u64) -> u64 {
        let (q, r) = self.divide(ns);
        q + u64::from(r >= self.tick_ns)
    }

    /// When a tick begins; saturates.
    #[inline]
    pub fn ns(&self, tick: u64) -> u64 {
        tick.saturating_mul(self.tick_ns)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn the_reciprocal_divides_exactly(ns: u64, bits in 0u32..64, low: u64) {
            let tick = (1u64 << bits) | (low & ((1 << bits) - 1));
            let s = Scale::new(tick);
            prop_assert_eq!(s.tick_at_or_before(ns), ns / tick);
            prop_assert_eq!(s.tick_at_or_after(ns), ns.div_ceil(tick));
        }
    }

    #[test]
    fn the_ends_of_the_range() {
        for tick in [1, 2, 3, 1_000_000, u64::MAX] {
            let s = Scale::new(tick);
            for ns in [0, 1, tick - 1, tick, u64::MAX - 1, u64::MAX] {
                assert_eq!(s.tick_at_or_after(ns), ns.div_ceil(tick));
            }
        }
    }
}
