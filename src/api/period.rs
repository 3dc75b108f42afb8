//! How a periodic timer repeats.

use crate::core::ticks::{BURST, DELAY};
use std::time::Duration;

/// How the wheel treats periods that pass while no thread drives it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Missed {
    /// The timer fires once, counts the others as missed, and keeps its rhythm.
    #[default]
    Skip,
    /// Each of them fires, one after another, until the timer has caught up.
    Burst,
    /// The timer fires once, and the next period starts now.
    Delay,
}

impl Missed {
    pub(crate) fn kind(self) -> u16 {
        match self {
            Missed::Skip => 0,
            Missed::Burst => BURST,
            Missed::Delay => DELAY,
        }
    }
}

/// How a periodic timer repeats. A [`Duration`] is a period without slack that skips
/// missed periods.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Period {
    /// The time from each deadline to the next.
    pub length: Duration,
    /// How long after each deadline the timer may fire.
    pub slack: Duration,
    /// How the wheel treats periods that pass while no thread drives it.
    pub missed: Missed,
}

impl Period {
    /// The time from each deadline to the next.
    pub const fn new(length: Duration) -> Period {
        Period {
            length,
            slack: Duration::ZERO,
            missed: Missed::Skip,
        }
    }

    /// How long after each deadline the timer may fire, to share a wake-up with
    /// other timers. Slack is limited to one period, and to 2^47 ns (39 hours).
    pub const fn slack(mut self, slack: Duration) -> Period {
        self.slack = slack;
        self
    }

    /// How the wheel treats periods that pass while no thread drives it.
    pub const fn missed(mut self, missed: Missed) -> Period {
        self.missed = missed;
        self
    }
}

impl From<Duration> for Period {
    fn from(length: Duration) -> Period {
        Period::new(length)
    }
}
