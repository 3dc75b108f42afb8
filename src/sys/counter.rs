//! A cheaper reading of CLOCK_MONOTONIC that is never behind it: for arming by
//! delay.
//!
//! The kernel's own coarse clock stands still while its tick is late, which has no
//! bound on an overcommitted machine. So a timer armed by it may be early. This
//! clock uses the processor's counter, which the kernel reads, too. Each thread
//! keeps a [`Base`]: a value of the counter, and a later value of the clock. From
//! there the time advances faster than it can pass:
//!
//! - The kernel converts the counter to nanoseconds by a factor that it adjusts by
//!   at most 11 per cent either way, to follow NTP. So one factor is at most 1.11 /
//!   0.89 < 4/3 of another, and 4/3 of the measured rate is an upper bound.
//! - A base is used for [`WINDOW_NS`], so that the result is ahead by at most two
//!   fifths of that (if the factor moves from one end to the other), and by twice
//!   [`SLACK_NS`].
//! - The counter is read without a barrier, so that it may be read before earlier
//!   instructions have finished, by less than [`SLACK_NS`].
//!
//! This requires that the kernel uses the same counter: the processor says that the
//! counter runs at one rate and never stops, and the kernel says that it is its
//! clock source. If that is not so, or cannot be found out, there is no such clock.
//! If the kernel abandons the counter later, a thread that renews its base sees
//! that the clock has advanced further than the counter allows. From then on the
//! precise clock is read.
//!
//! BOOTTIME and REALTIME may jump where the counter does not.

use crate::sys::clock;
use crate::sys::uncancelled;
use std::cell::Cell;
use std::fs::File;
use std::io::Read;
use std::sync::atomic::{AtomicBool, Ordering};

/// How long a base is used.
const WINDOW_NS: u64 = 200_000;
/// How much earlier than its place in the program the counter may be read; and
/// how long a base may take to make.
const SLACK_NS: u64 = 5_000;
/// How long, and how often, the rate is measured.
const MEASURE_NS: u64 = 20_000;
const MEASURES: usize = 5;

/// A moment on the counter, and a time of CLOCK_MONOTONIC that is not before it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Base {
    count: u64,
    ns: u64,
}

impl Base {
    /// Of no use: its time is over, or was never.
    pub const NONE: Base = Base { count: 0, ns: 0 };
}

/// The counter, with its rate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Counter {
    /// Nanoseconds of a count, at most; 32 bits of them behind the point.
    rate: u64,
    /// Counts in `WINDOW_NS` at that rate.
    window: u64,
}

/// The clock was seen to be ahead of the counter.
static DOUBTED: AtomicBool = AtomicBool::new(false);

impl Counter {
    /// The counter of this processor, if the kernel goes by it. Takes a tenth of
    /// a millisecond.
    pub fn measure() -> Option<Counter> {
        if !arch::is_constant() || !is_clock_source(arch::NAME) {
            return None;
        }
        // Each is at least the true rate: the time from before the one sample
        // to after the other, by the counts between them.
        let rates = (0..MEASURES).filter_map(|_| {
            let (_, from, begin) = sample();
            let (end, to, _) = std::iter::repeat_with(sample)
                .find(|&(_, ns, _)| ns.wrapping_sub(from) >= MEASURE_NS)?;
            Counter::rate(end.wrapping_sub(begin), to - from)
        });
        Counter::new(rates.min()?)
    }

    /// 4/3 of the rate at which `counts` pass in `ns`.
    fn rate(counts: u64, ns: u64) -> Option<u64> {
        let rate = (u128::from(ns) << 32) * 4 / 3;
        u64::try_from(rate.checked_div(u128::from(counts))?).ok()
    }

    fn new(rate: u64) -> Option<Counter> {
        let window = (WINDOW_NS << 32).checked_div(rate)?;
        Some(Counter { rate, window })
    }

    /// A time of CLOCK_MONOTONIC that is not before now, and less than a tenth of
    /// a millisecond after it.
    #[inline]
    pub fn now(&self, base: &Cell<Base>) -> u64 {
        match self.count_on(base.get(), arch::count()) {
            Some(ns) => ns,
            None => self.renew(base),
        }
    }

    /// What `count` is at most, while `base` may be used.
    #[inline(always)]
    fn count_on(&self, base: Base, count: u64) -> Option<u64> {
        let passed = count.wrapping_sub(base.count);
        (passed < self.window).then(|| base.ns + SLACK_NS + ((passed * self.rate) >> 32))
    }

    #[cold]
    fn renew(&self, base: &Cell<Base>) -> u64 {
        let (before, ns, after) = sample();
        let old = base.replace(Base::NONE);
        if self.is_behind(old, before, ns) {
            // Relaxed: a sign for later.
            DOUBTED.store(true, Ordering::Relaxed);
        }
        // If the thread was held up between the two, the time is too late for
        // the count: right, but of no use.
        let prompt = self.nanoseconds(after.wrapping_sub(before)) <= u128::from(SLACK_NS);
        if prompt && !DOUBTED.load(Ordering::Relaxed) {
            base.set(Base { count: before, ns });
        }
        ns
    }

    fn nanoseconds(&self, counts: u64) -> u128 {
        (u128::from(counts) * u128::from(self.rate)) >> 32
    }

    /// Whether the clock has come further since `old` than the counter says.
    fn is_behind(&self, old: Base, count: u64, ns: u64) -> bool {
        let passed = self.nanoseconds(count.wrapping_sub(old.count));
        old.ns != 0 && u128::from(ns) > u128::from(old.ns + SLACK_NS) + passed
    }
}

/// The counter, the clock, the counter.
fn sample() -> (u64, u64, u64) {
    let before = arch::count();
    let ns = clock::now(libc::CLOCK_MONOTONIC);
    (before, ns, arch::count())
}

/// Whether the kernel's clocks go by the counter of this name.
fn is_clock_source(name: &[u8]) -> bool {
    let path = "/sys/devices/system/clocksource/clocksource0/current_clocksource";
    let mut text = [0; 32];
    let read = uncancelled(|| File::open(path)?.read(&mut text));
    read.is_ok_and(|length| text[..length].trim_ascii() == name)
}

#[cfg(all(target_arch = "x86_64", not(miri)))]
mod arch {
    use std::arch::x86_64::{__cpuid, _rdtsc};

    pub const NAME: &[u8] = b"tsc";

    #[inline(always)]
    pub fn count() -> u64 {
        // SAFETY: every processor of this kind has it.
        unsafe { _rdtsc() }
    }

    /// One rate at all times, in sleep too: the bit "invariant TSC".
    pub fn is_constant() -> bool {
        const POWER: u32 = 0x8000_0007;
        // SAFETY: every processor of this kind has the instruction. The newer compilers
        // know that.
        #[allow(unused_unsafe)]
        let id = |leaf| unsafe { __cpuid(leaf) };
        id(0x8000_0000).eax >= POWER && id(POWER).edx & (1 << 8) != 0
    }
}

#[cfg(all(target_arch = "aarch64", not(miri)))]
mod arch {
    pub const NAME: &[u8] = b"arch_sys_counter";

    #[inline(always)]
    pub fn count() -> u64 {
        let count: u64;
        // SAFETY: a counter that the kernel lets every program read.
        unsafe {
            std::arch::asm!("mrs {}, cntvct_el0", out(reg) count, options(nostack, nomem));
        }
        count
    }

    /// The architecture promises it.
    pub fn is_constant() -> bool {
        true
    }
}

#[cfg(not(all(any(target_arch = "x86_64", target_arch = "aarch64"), not(miri))))]
mod arch {
    pub const NAME: &[u8] = b"";

    pub fn count() -> u64 {
        0
    }

    pub fn is_constant() -> bool {
        false
    }
}

// Not where cargo does not provide for tests.
#[cfg(all(test, not(fuzzed)))]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const MAX_NS: u64 = 1 << 62;

    proptest! {
        /// Whatever factor the kernel has used while the rate was measured, and
        /// whatever it uses later, both within its limits.
        #[test]
        fn is_never_behind_and_not_far_ahead(
            nominal in 1u64 << 26..1 << 38,
            then in 890u64..=1110,
            now in 890u64..=1110,
            count: u64,
            part in 0u64..1000,
            ns in 0..MAX_NS,
        ) {
            // As many nanoseconds pass in 2^32 counts.
            let measured = nominal * then / 1000;
            let counter = Counter::new(Counter::rate(1 << 32, measured).unwrap()).unwrap();
            let passed = counter.window * part / 1000;
            let truth = ns + ((passed * (nominal * now / 1000)) >> 32);
            let base = Base { count, ns };
            let told = counter.count_on(base, count.wrapping_add(passed)).unwrap();
            prop_assert!(told >= truth, "{told} is before {truth}");
            prop_assert!(told - truth < 100_000, "{told} is long after {truth}");
        }

        /// A counter that stood still, and one that did not.
        #[test]
        fn a_clock_ahead_of_the_counter_is_seen(passed in 0u64..1 << 40, more in 0u64..1 << 40) {
            let counter = Counter::new(1 << 32).unwrap();
            let old = Base { count: 7, ns: 1000 };
            let most = old.ns + SLACK_NS + passed;
            prop_assert!(!counter.is_behind(old, old.count + passed, most));
            prop_assert!(counter.is_behind(old, old.count + passed, most + 1 + more));
            prop_assert!(!counter.is_behind(Base::NONE, passed, u64::MAX));
        }
    }

    #[test]
    fn a_counter_that_has_gone_back_or_far_ahead_is_not_counted_on() {
        let counter = Counter::new(1 << 32).unwrap();
        let base = Base {
            count: 1 << 20,
            ns: 1,
        };
        assert_eq!(counter.count_on(base, base.count - 1), None);
        assert_eq!(counter.count_on(base, base.count + WINDOW_NS), None);
        assert!(counter.count_on(base, base.count + WINDOW_NS - 1).is_some());
    }

    #[test]
    fn other_names_are_not_the_clock_source() {
        assert!(!is_clock_source(b""));
        assert!(!is_clock_source(b"no such clock"));
    }

    /// On a machine that has none there is nothing to compare.
    #[test]
    fn this_machine_s_is_not_behind() {
        let Some(counter) = Counter::measure() else {
            return eprintln!("skipped: the kernel does not go by a counter here");
        };
        let base = Cell::new(Base::NONE);
        let end = clock::now(libc::CLOCK_MONOTONIC) + 50_000_000;
        let mut counted = 0;
        loop {
            let before = clock::now(libc::CLOCK_MONOTONIC);
            counted += u32::from(counter.count_on(base.get(), arch::count()).is_some());
            let told = counter.now(&base);
            let after = clock::now(libc::CLOCK_MONOTONIC);
            assert!(told >= before, "{told} is before {before}");
            assert!(told < after + 100_000, "{told} is long after {after}");
            if after > end {
                break;
            }
        }
        assert!(counted > 0);
    }
}
