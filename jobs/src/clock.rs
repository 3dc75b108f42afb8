//! The offset between the database's clock and this machine's.

use crate::db::{Error, Session};
use jiff::{SignedDuration, Timestamp};

/// Asks the database for the time.
pub fn measure(session: &mut Session) -> Result<Bounds, Error> {
    let asked = Timestamp::now();
    let rows = session.query("SELECT clock_timestamp()", &[])?;
    Ok(Bounds::new(asked, rows[0].get(0), Timestamp::now()))
}

/// The result of one query for the database's time: the offset, which is the
/// database's clock less this machine's, lies between the two.
#[derive(Clone, Copy, Debug)]
pub struct Bounds {
    lowest: SignedDuration,
    highest: SignedDuration,
}

impl Bounds {
    /// The question left at `asked` and the answer came at `answered`, by this
    /// machine's clock; `database` was the time in between.
    pub fn new(asked: Timestamp, database: Timestamp, answered: Timestamp) -> Bounds {
        let lowest = database.duration_since(answered);
        let highest = database.duration_since(asked);
        Bounds { lowest, highest }
    }

    pub fn contains(&self, estimate: SignedDuration) -> bool {
        (self.lowest..=self.highest).contains(&estimate)
    }

    /// An estimate within the bounds stays, so that it does not jitter with the delay
    /// of each answer. Otherwise the lowest is the better one: a timer may then be late
    /// by the delay of that answer, but not early.
    pub fn correct(&self, estimate: SignedDuration) -> SignedDuration {
        if self.contains(estimate) {
            estimate
        } else {
            self.lowest
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_estimate_moves_only_if_the_measurement_refutes_it() {
        let at = |ms| Timestamp::from_millisecond(ms).unwrap();
        let ms = SignedDuration::from_millis;
        let bounds = Bounds::new(at(1000), at(6002), at(1004));
        for (estimate, corrected) in [
            (5002, 5002),
            (4998, 4998),
            (4997, 4998),
            (5003, 4998),
            (0, 4998),
        ] {
            assert_eq!(bounds.correct(ms(estimate)), ms(corrected));
        }
    }
}
