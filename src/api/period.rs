//! How a periodic timer repeats.

use super::options::Missed;
use std::time::Duration;

/// How a periodic timer repeats. A [`Duration`] is a period without slack that skips
/// what was missed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Period {
    pub(crate) length: Duration,
    pub(crate) slack: Duration,
    pub(crate) missed: Missed,
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

    /// Each time may come up to this much after its deadline, so that the timer
    /// shares a wake-up with others. Slack above a period counts as one period.
    pub const fn slack(mut self, slack: Duration) -> Period {
        self.slack = slack;
        self
    }

    /// How the wheel treats periods that pass while nobody drives it.
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
