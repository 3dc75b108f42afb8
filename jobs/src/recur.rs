//! When a recurring job runs next.

use crate::cron::Cron;
use jiff::tz::{TimeZone, TimeZoneDatabase};
use jiff::{SignedDuration, Timestamp};
use std::sync::OnceLock;
use tokio_postgres::Row;

/// The runs of a cron expression that were missed are counted up to this number.
const COUNTED: i32 = 1000;

#[derive(Debug)]
pub struct Recurrence {
    rhythm: Rhythm,
    missed: Missed,
    grace: SignedDuration,
}

#[derive(Debug)]
enum Rhythm {
    Every(SignedDuration),
    Cron { expression: String, zone: String },
}

/// How runs are handled that no node made in time.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Missed {
    /// A run that is late by more than the grace is left out.
    Skip,
    /// One run makes up for all that were missed.
    Once,
    /// Each missed run is made, one after another.
    All,
}

/// The next run after an occurrence.
#[derive(Debug, PartialEq)]
pub struct Step {
    /// The next run; none after the last one.
    pub next: Option<Timestamp>,
    /// Occurrences in between that are left out.
    pub skipped: i32,
}

/// The step of a job that does not recur.
pub const LAST: Step = Step {
    next: None,
    skipped: 0,
};

impl Recurrence {
    pub fn of(row: &Row) -> Result<Option<Recurrence>, tokio_postgres::Error> {
        let every: Option<i64> = row.try_get("every_us")?;
        let cron: Option<String> = row.try_get("cron")?;
        let rhythm = match (every, cron) {
            // No function stores an interval below 1 ms.
            (Some(us), _) => Rhythm::Every(SignedDuration::from_micros(us.max(1000))),
            (None, Some(expression)) => Rhythm::Cron {
                expression,
                zone: row.try_get("zone")?,
            },
            (None, None) => return Ok(None),
        };
        let missed = match row.try_get("missed")? {
            "skip" => Missed::Skip,
            "all" => Missed::All,
            _ => Missed::Once,
        };
        let grace = SignedDuration::from_micros(row.try_get("grace_us")?);
        Ok(Some(Recurrence {
            rhythm,
            missed,
            grace,
        }))
    }

    /// The first run at `from` or later.
    pub fn first(&self, from: Timestamp) -> Result<Timestamp, String> {
        match &self.rhythm {
            Rhythm::Every(_) => Ok(from),
            Rhythm::Cron { expression, zone } => {
                let first = occurrence(expression, zone, from, true)?;
                first.ok_or_else(|| format!("\"{expression}\" never occurs"))
            }
        }
    }

    /// The step without the run for `occurrence`, if the attempt at it, which was due at
    /// `due`, is too late now. It leads to the last occurrence that is within the grace,
    /// or else to the next one.
    pub fn skip(
        &self,
        occurrence: Timestamp,
        due: Timestamp,
        now: Timestamp,
    ) -> Result<Option<Step>, String> {
        if self.missed != Missed::Skip || now.duration_since(due) <= self.grace {
            return Ok(None);
        }
        if let Some(last) = self.last_until(occurrence, now)? {
            let Step { skipped, .. } = self.after_all(occurrence, last)?;
            return Ok(Some(Step {
                next: Some(last),
                skipped,
            }));
        }
        let Step { next, skipped } = self.after_all(occurrence, now)?;
        let skipped = skipped.saturating_add(1);
        Ok(Some(Step { next, skipped }))
    }

    /// The last occurrence after one that is not later than `now`, within the grace.
    fn last_until(&self, one: Timestamp, now: Timestamp) -> Result<Option<Timestamp>, String> {
        let earliest = one.max(now.saturating_sub(self.grace).unwrap_or(Timestamp::MIN));
        let last = match &self.rhythm {
            Rhythm::Every(interval) => {
                let late = now.duration_since(one).as_nanos().max(0);
                let since = late / interval.as_nanos() * interval.as_nanos();
                Timestamp::from_nanosecond(one.as_nanosecond() + since).ok()
            }
            Rhythm::Cron { expression, zone } => {
                // Looks back further each time, so that a long grace costs little.
                let mut span = SignedDuration::from_mins(1);
                loop {
                    let from = now.saturating_sub(span).unwrap_or(Timestamp::MIN);
                    let mut last = None;
                    let mut next = occurrence(expression, zone, from.max(earliest), true)?;
                    while let Some(time) = next.filter(|time| *time <= now) {
                        last = Some(time);
                        next = self.after(time)?;
                    }
                    if last.is_some() || from <= earliest {
                        break last;
                    }
                    span *= 2;
                }
            }
        };
        Ok(last.filter(|last| *last > one && *last >= earliest))
    }

    /// The step after `occurrence`, which runs or is skipped now.
    pub fn step(&self, occurrence: Timestamp, now: Timestamp) -> Result<Step, String> {
        match self.missed {
            Missed::All => Ok(Step {
                next: self.after(occurrence)?,
                skipped: 0,
            }),
            Missed::Skip | Missed::Once => self.after_all(occurrence, now),
        }
    }

    /// The occurrence after one.
    fn after(&self, one: Timestamp) -> Result<Option<Timestamp>, String> {
        match &self.rhythm {
            Rhythm::Every(interval) => Ok(one.checked_add(*interval).ok()),
            Rhythm::Cron { expression, zone } => occurrence(expression, zone, one, false),
        }
    }

    /// The first occurrence after both.
    fn after_all(&self, one: Timestamp, now: Timestamp) -> Result<Step, String> {
        match &self.rhythm {
            Rhythm::Every(interval) => {
                let late = now.duration_since(one).as_nanos().max(0);
                let skipped = late / interval.as_nanos();
                let ahead = (skipped + 1) * interval.as_nanos();
                let next = Timestamp::from_nanosecond(one.as_nanosecond() + ahead).ok();
                Ok(Step {
                    next,
                    skipped: i32::try_from(skipped).unwrap_or(i32::MAX - 1),
                })
            }
            Rhythm::Cron { expression, zone } => {
                let next = occurrence(expression, zone, one.max(now), false)?;
                let mut skipped = 0;
                let mut passed = self.after(one)?;
                while let Some(time) = passed.filter(|time| *time <= now && skipped < COUNTED) {
                    skipped += 1;
                    passed = self.after(time)?;
                }
                Ok(Step { next, skipped })
            }
        }
    }
}

/// A time zone by its name. The system may lack one that it had before: Debian has moved old names to
/// another package. In this case the copy in the program counts.
pub fn zone(name: &str) -> Result<TimeZone, String> {
    static COPY: OnceLock<TimeZoneDatabase> = OnceLock::new();
    let copy = || COPY.get_or_init(TimeZoneDatabase::bundled);
    let found = TimeZone::get(name).or_else(|e| copy().get(name).map_err(|_| e));
    found.map_err(|e| e.to_string())
}

/// The first time of a cron expression after `from`, or at it.
fn occurrence(
    expression: &str,
    zone: &str,
    from: Timestamp,
    or_at: bool,
) -> Result<Option<Timestamp>, String> {
    let zone = self::zone(zone)?;
    let cron = Cron::parse(expression).map_err(|why| format!("\"{expression}\": {why}"))?;
    Ok(cron.next(&zone, from, or_at))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(text: &str) -> Timestamp {
        text.parse().unwrap()
    }

    fn recurrence(rhythm: Rhythm, missed: Missed) -> Recurrence {
        let grace = SignedDuration::from_secs(60);
        Recurrence {
            rhythm,
            missed,
            grace,
        }
    }

    fn every(seconds: i64, missed: Missed) -> Recurrence {
        recurrence(Rhythm::Every(SignedDuration::from_secs(seconds)), missed)
    }

    fn cron(expression: &str, zone: &str, missed: Missed) -> Recurrence {
        let (expression, zone) = (expression.into(), zone.into());
        recurrence(Rhythm::Cron { expression, zone }, missed)
    }

    fn step(next: &str, skipped: i32) -> Step {
        let next = Some(at(next));
        Step { next, skipped }
    }

    /// The runs of an expression after a time, if each is made in time.
    fn runs(expression: &str, zone: &str, from: &str, count: usize) -> Vec<String> {
        let recurrence = cron(expression, zone, Missed::Once);
        let mut times = vec![recurrence.first(at(from)).unwrap()];
        while times.len() < count {
            let last = *times.last().unwrap();
            times.push(recurrence.step(last, last).unwrap().next.unwrap());
        }
        let zone = jiff::tz::TimeZone::get(zone).unwrap();
        times
            .iter()
            .map(|t| {
                t.to_zoned(zone.clone())
                    .strftime("%d. %H:%M %z")
                    .to_string()
            })
            .collect()
    }

    #[test]
    fn an_interval_does_not_drift() {
        let start = at("2026-01-01T00:00:00.25Z");
        let next = every(10, Missed::Once).step(start, at("2026-01-01T00:00:03Z"));
        assert_eq!(next.unwrap(), step("2026-01-01T00:00:10.25Z", 0));
    }

    #[test]
    fn missed_runs_of_an_interval() {
        let (start, now) = (at("2026-01-01T00:00:00Z"), at("2026-01-01T00:05:05Z"));
        let next = |missed| every(10, missed).step(start, now).unwrap();
        assert_eq!(next(Missed::Once), step("2026-01-01T00:05:10Z", 30));
        assert_eq!(next(Missed::Skip), step("2026-01-01T00:05:10Z", 30));
        assert_eq!(next(Missed::All), step("2026-01-01T00:00:10Z", 0));
    }

    #[test]
    fn only_a_run_later_than_the_grace_is_skipped_and_only_if_the_job_says_so() {
        let due = at("2026-01-01T00:00:00Z");
        let (in_time, late) = (at("2026-01-01T00:01:00Z"), at("2026-01-01T00:01:01Z"));
        let skip = |missed, now| every(3600, missed).skip(due, due, now).unwrap();
        assert_eq!(skip(Missed::Skip, in_time), None);
        let next = step("2026-01-01T01:00:00Z", 1);
        assert_eq!(skip(Missed::Skip, late), Some(next));
        assert_eq!(skip(Missed::Once, late), None);
        assert_eq!(skip(Missed::All, late), None);
    }

    /// The grace is a minute.
    #[test]
    fn the_last_of_several_missed_runs_is_made_if_it_is_within_the_grace() {
        let start = at("2026-01-01T00:00:00Z");
        for (rhythm, now, next, skipped) in [
            (every(300, Missed::Skip), "00:10:59", "00:10:00", 2),
            (every(300, Missed::Skip), "00:11:00", "00:10:00", 2),
            (every(300, Missed::Skip), "00:11:01", "00:15:00", 3),
            (every(7, Missed::Skip), "00:02:00", "00:01:59", 17),
            (
                cron("*/5 * * * *", "UTC", Missed::Skip),
                "00:11:00",
                "00:10:00",
                2,
            ),
            (
                cron("*/5 * * * *", "UTC", Missed::Skip),
                "00:11:01",
                "00:15:00",
                3,
            ),
            (
                cron("* * * * *", "UTC", Missed::Skip),
                "22:22:22",
                "22:22:00",
                1000,
            ),
        ] {
            let now = at(&format!("2026-01-01T{now}Z"));
            let expected = step(&format!("2026-01-01T{next}Z"), skipped);
            assert_eq!(rhythm.skip(start, start, now).unwrap(), Some(expected));
        }
        // With a long grace, the last one of many is found as well.
        let yearly = Recurrence {
            grace: SignedDuration::from_hours(24 * 365),
            ..cron("0 3 1 2 *", "UTC", Missed::Skip)
        };
        let (start, now) = (at("2020-02-01T03:00:00Z"), at("2026-01-01T00:00:00Z"));
        let expected = step("2025-02-01T03:00:00Z", 5);
        assert_eq!(yearly.skip(start, start, now).unwrap(), Some(expected));
    }

    #[test]
    fn missed_runs_of_a_cron_expression() {
        let (start, now) = (at("2026-01-01T00:00:00Z"), at("2026-01-01T00:05:05Z"));
        let next = |missed| cron("* * * * *", "UTC", missed).step(start, now).unwrap();
        assert_eq!(next(Missed::Once), step("2026-01-01T00:06:00Z", 5));
        assert_eq!(next(Missed::Skip), step("2026-01-01T00:06:00Z", 5));
        assert_eq!(next(Missed::All), step("2026-01-01T00:01:00Z", 0));
    }

    /// On 29 March 2026 the clocks of Berlin go from 02:00 to 03:00.
    #[test]
    fn a_fixed_time_in_the_gap_runs_once_just_after_it() {
        let seen = runs("30 2 * * *", "Europe/Berlin", "2026-03-28T00:00:00Z", 3);
        assert_eq!(
            seen,
            ["28. 02:30 +0100", "29. 03:00 +0200", "30. 02:30 +0200"]
        );
    }

    /// On 25 October 2026 they go from 03:00 back to 02:00.
    #[test]
    fn a_fixed_time_in_the_doubled_hour_runs_once() {
        let seen = runs("30 2 * * *", "Europe/Berlin", "2026-10-24T00:00:00Z", 3);
        assert_eq!(
            seen,
            ["24. 02:30 +0200", "25. 02:30 +0200", "26. 02:30 +0100"]
        );
    }

    #[test]
    fn a_rhythm_goes_through_the_doubled_hour_twice() {
        let seen = runs("*/30 * * * *", "Europe/Berlin", "2026-10-24T23:45:00Z", 6);
        let expected = [
            "02:00 +0200",
            "02:30 +0200",
            "02:00 +0100",
            "02:30 +0100",
            "03:00 +0100",
        ];
        assert_eq!(seen[..5], expected.map(|time| format!("25. {time}")));
    }

    #[test]
    fn a_time_that_never_comes_is_an_error() {
        let why = cron("0 0 30 2 *", "UTC", Missed::Once).first(at("2026-01-01T00:00:00Z"));
        assert_eq!(why.unwrap_err(), "\"0 0 30 2 *\" never occurs");
    }

    #[test]
    fn an_unknown_zone_is_an_error() {
        let why =
            cron("0 0 * * *", "Europe/Atlantis", Missed::Once).first(at("2026-01-01T00:00:00Z"));
        assert!(why.unwrap_err().contains("Atlantis"));
    }
}
