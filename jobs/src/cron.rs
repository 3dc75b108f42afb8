//! Cron expressions as Debian's cron reads them.
//!
//! A range that runs backwards, as `fri-sun`, has no number: Sunday is 0. A step beyond its range
//! leaves the first number. Debian's cron ignores the rest of a field that it cannot read, as in
//! `1-5/2-3`; here it is an error.
//!
//! A *fixed* expression names its hours and minutes: neither field begins with a star.
//! Lists, ranges and steps of numbers are fixed too. When the clocks go forward, a fixed
//! time that is skipped runs at the end of the gap. Several of them are one run, because
//! a run is named by its time; Debian's cron makes one for each. When the clocks go back,
//! a fixed time does not run again. The other expressions, such as `*/10 * * * *`, follow
//! the clocks as they are. Cron takes a change of three hours or more for a correction: a
//! fixed time runs as often as the clocks show it.
//!
//! ```text
//! 30 2,14 * * *       30 and 2,14 are fixed
//! 0 0-23/2 * * *      fixed, although it runs every two hours
//! 0 */2 * * *         not fixed
//! ```

use jiff::civil::{Date, DateTime, Time};
use jiff::tz::{Offset, TimeZone};
use jiff::{SignedDuration, Timestamp, ToSpan};

/// The days of the Gregorian calendar repeat after this time.
const CYCLE: SignedDuration = SignedDuration::from_hours(146_097 * 24);

/// The longest gap whose times cron makes up for, and the longest repetition in which it
/// waits for new times.
const LONGEST_GAP: SignedDuration = SignedDuration::from_mins(179);
const LONGEST_REPETITION: SignedDuration = SignedDuration::from_mins(180);

const MONTHS: [&str; 12] = [
    "jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec",
];
const DAYS: [&str; 7] = ["sun", "mon", "tue", "wed", "thu", "fri", "sat"];

/// Each set of numbers is a word of bits.
#[derive(Debug)]
pub struct Cron {
    minutes: u64,
    hours: u64,
    days: u64,
    months: u64,
    weekdays: u64,
    /// A day has to be in both sets of days, because one of the fields begins with a
    /// star. Otherwise one of them is enough.
    both_days: bool,
    is_fixed: bool,
}

impl Cron {
    pub fn parse(text: &str) -> Result<Cron, String> {
        // Only letters and white space of ASCII count.
        let text = text.trim_ascii().to_ascii_lowercase();
        let text = match text.as_str() {
            "@yearly" | "@annually" => "0 0 1 1 *",
            "@monthly" => "0 0 1 * *",
            "@weekly" => "0 0 * * 0",
            "@daily" | "@midnight" => "0 0 * * *",
            "@hourly" => "0 * * * *",
            other => other,
        };
        let fields: Vec<&str> = text.split_ascii_whitespace().collect();
        let [minute, hour, day, month, weekday] = fields[..] else {
            return Err(format!("it has {} fields instead of five", fields.len()));
        };
        let weekdays = set(weekday, 0, 7, &DAYS, 0)?;
        let star = |field: &str| field.starts_with('*');
        Ok(Cron {
            minutes: set(minute, 0, 59, &[], 0)?,
            hours: set(hour, 0, 23, &[], 0)?,
            days: set(day, 1, 31, &[], 0)?,
            months: set(month, 1, 12, &MONTHS, 1)?,
            // Sunday is 0 and 7.
            weekdays: weekdays | weekdays >> 7,
            both_days: star(day) || star(weekday),
            is_fixed: !star(minute) && !star(hour),
        })
    }

    /// The first run after `from`, or at it. None: there is no such day.
    pub fn next(&self, zone: &TimeZone, from: Timestamp, or_at: bool) -> Option<Timestamp> {
        if self.minutes == 0 || self.hours == 0 || self.months == 0 {
            return None;
        }
        let earliest = if or_at {
            from
        } else {
            from.checked_add(1.nanosecond()).ok()?
        };
        let after = earliest.checked_add(1.nanosecond()).ok()?;
        let last = earliest.checked_add(CYCLE).unwrap_or(Timestamp::MAX);
        // The time since the clocks were last set, and each time between two changes.
        let mut begin = zone.preceding(after).next().map(|t| t.timestamp());
        let mut changes = zone.following(earliest).map(|t| t.timestamp());
        loop {
            let end = changes.next().unwrap_or(Timestamp::MAX).min(last);
            let run = self.between(zone, begin, end, earliest);
            if run.is_some() || end == last {
                return run;
            }
            begin = Some(end);
        }
    }

    /// The first run at `earliest` or later, from one change of the clocks up to the next.
    fn between(
        &self,
        zone: &TimeZone,
        begin: Option<Timestamp>,
        end: Timestamp,
        earliest: Timestamp,
    ) -> Option<Timestamp> {
        let start = begin.unwrap_or(Timestamp::MIN).max(earliest);
        let offset = zone.to_offset(start);
        let mut from = offset.to_datetime(start);
        if let (Some(begin), true) = (begin, self.is_fixed) {
            let old = before(zone, begin).to_datetime(begin);
            let new = offset.to_datetime(begin);
            let gap = new.duration_since(old);
            let is_made_up = gap > SignedDuration::ZERO && gap <= LONGEST_GAP;
            if is_made_up && begin >= earliest && self.local(old, new).is_some() {
                return Some(begin);
            }
            if gap >= -LONGEST_REPETITION {
                from = from.max(old);
            }
        }
        let local = self.local(from, offset.to_datetime(end))?;
        offset.to_timestamp(local).ok()
    }

    /// The first time on the clock at `from` or later that is before `end`.
    fn local(&self, from: DateTime, end: DateTime) -> Option<DateTime> {
        let mut date = from.date();
        let mut not_before = minutes_of(from.time());
        while date <= end.date() {
            if self.has_day(date) {
                if let Some(time) = self.time(not_before) {
                    return Some(date.to_datetime(time)).filter(|found| *found < end);
                }
            }
            date = date.tomorrow().ok()?;
            not_before = 0;
        }
        None
    }

    fn has_day(&self, date: Date) -> bool {
        let is_in = |set: u64, number: i8| set >> number & 1 == 1;
        let day = is_in(self.days, date.day());
        let weekday = is_in(self.weekdays, date.weekday().to_sunday_zero_offset());
        is_in(self.months, date.month())
            && if self.both_days {
                day && weekday
            } else {
                day || weekday
            }
    }

    /// The first time of a day that is not before a minute of it.
    fn time(&self, not_before: u32) -> Option<Time> {
        let first = |set: u64, least: u32| {
            let rest = set.checked_shr(least).unwrap_or(0);
            (rest != 0).then(|| rest.trailing_zeros() + least)
        };
        let (hour, minute) = (not_before / 60, not_before % 60);
        let this_hour = (self.hours >> hour & 1 == 1)
            .then(|| first(self.minutes, minute).map(|minute| (hour, minute)))
            .flatten();
        let (hour, minute) = match this_hour {
            Some(time) => time,
            None => (first(self.hours, hour + 1)?, first(self.minutes, 0)?),
        };
        Some(Time::constant(hour as i8, minute as i8, 0, 0))
    }
}

/// The minute of a day, rounded up.
fn minutes_of(time: Time) -> u32 {
    let since = time.duration_since(Time::midnight());
    (since.as_nanos() as u64).div_ceil(60_000_000_000) as u32
}

/// The offset just before a change of the clocks.
fn before(zone: &TimeZone, change: Timestamp) -> Offset {
    let just_before = change.checked_sub(1.nanosecond()).unwrap_or(change);
    zone.to_offset(just_before)
}

/// The numbers of a field. A range that runs backwards has no number, and a step beyond the
/// range leaves its first.
fn set(field: &str, low: u32, high: u32, names: &[&str], first: u32) -> Result<u64, String> {
    let digits = |text: &str| -> Option<u32> {
        let is_number = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
        is_number.then(|| text.parse().unwrap_or(u32::MAX))
    };
    let number = |text: &str| -> Result<u32, String> {
        let name = names.iter().zip(first..).find(|(name, _)| **name == text);
        name.map(|(_, number)| number)
            .or_else(|| digits(text))
            .filter(|number| (low..=high).contains(number))
            .ok_or_else(|| format!("\"{text}\" is not from {low} to {high}"))
    };
    let mut set = 0;
    for item in field.split(',') {
        let (range, step) = match item.split_once('/') {
            Some((range, step)) => (range, Some(step)),
            None => (item, None),
        };
        let (from, to) = match range.split_once('-') {
            _ if range == "*" => (low, high),
            Some((from, to)) => (number(from)?, number(to)?),
            None if step.is_some() => return Err(format!("\"{item}\" has a step but no range")),
            None => (number(range)?, number(range)?),
        };
        let step = match step {
            Some(step) => digits(step).filter(|step| *step > 0),
            None => Some(1),
        }
        .ok_or_else(|| format!("\"{item}\" has a step out of range"))?;
        for number in (from..=to).step_by(step as usize) {
            set |= 1 << number;
        }
    }
    Ok(set)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn zone(name: &str) -> TimeZone {
        TimeZone::get(name).unwrap()
    }

    /// The runs from a local time on, each as its local time and offset.
    fn runs(name: &str, cron: &str, from: &str, count: usize) -> Vec<String> {
        let zone = zone(name);
        let cron = Cron::parse(cron).unwrap();
        let from: DateTime = from.parse().unwrap();
        let mut time = from.to_zoned(zone.clone()).unwrap().timestamp();
        let mut seen = Vec::new();
        while seen.len() < count {
            time = cron.next(&zone, time, seen.is_empty()).unwrap();
            let local = time.to_zoned(zone.clone());
            seen.push(local.strftime("%m-%d %H:%M %:z").to_string());
        }
        seen
    }

    /// What Debian's cron does in each minute, by the rules of its main loop: it compares
    /// the clock with the last minute that it has looked at.
    fn debian(cron: &Cron, zone: &TimeZone, from: Timestamp, end: Timestamp) -> Vec<Timestamp> {
        let minute_of = |time: Timestamp| zone.to_datetime(time).duration_since(EPOCH).as_mins();
        let is_on = |minute: i64| {
            let time = EPOCH + SignedDuration::from_mins(minute);
            cron.has_day(time.date())
                && cron.hours >> time.hour() & 1 == 1
                && cron.minutes >> time.minute() & 1 == 1
        };
        const EPOCH: DateTime = DateTime::constant(1800, 1, 1, 0, 0, 0, 0);
        let mut runs = Vec::new();
        let mut looked_at = minute_of(from) - 1;
        let mut time = from;
        while time < end {
            let minute = minute_of(time);
            let (wild, fixed) = match minute - looked_at {
                1 => {
                    looked_at = minute;
                    (is_on(minute), is_on(minute))
                }
                2..=180 => {
                    let skipped = looked_at + 1..=minute;
                    looked_at = minute;
                    (is_on(minute), skipped.into_iter().any(is_on))
                }
                -179..=0 => (is_on(minute), false),
                _ => {
                    looked_at = minute;
                    (is_on(minute), is_on(minute))
                }
            };
            if if cron.is_fixed { fixed } else { wild } {
                runs.push(time);
            }
            time += SignedDuration::from_mins(1);
        }
        runs
    }

    /// Each case: zone, expression, local time from which to look, and the runs. The
    /// dates are those of a change of the clocks in that zone, if not said otherwise. All these
    /// changes are in the past, because a new release of the time zone data may move a future one.
    #[rustfmt::skip]
    const CASES: &[(&str, &str, &str, &[&str])] = &[
        // Berlin goes from 02:00 to 03:00 on 29 March 2026. Fixed times in the gap.
        ("Europe/Berlin", "30 2 * * *", "2026-03-28T00:00", &["03-28 02:30 +01:00", "03-29 03:00 +02:00", "03-30 02:30 +02:00"]),
        ("Europe/Berlin", "0 2 * * *", "2026-03-28T12:00", &["03-29 03:00 +02:00", "03-30 02:00 +02:00"]),
        ("Europe/Berlin", "59 2 * * *", "2026-03-28T12:00", &["03-29 03:00 +02:00", "03-30 02:59 +02:00"]),
        ("Europe/Berlin", "30 2,14 * * *", "2026-03-28T20:00", &["03-29 03:00 +02:00", "03-29 14:30 +02:00", "03-30 02:30 +02:00"]),
        ("Europe/Berlin", "30 1-3 * * *", "2026-03-28T20:00", &["03-29 01:30 +01:00", "03-29 03:00 +02:00", "03-29 03:30 +02:00", "03-30 01:30 +02:00"]),
        ("Europe/Berlin", "30 0-4/2 * * *", "2026-03-28T20:00", &["03-29 00:30 +01:00", "03-29 03:00 +02:00", "03-29 04:30 +02:00", "03-30 00:30 +02:00"]),
        ("Europe/Berlin", "0,30 2 * * *", "2026-03-28T20:00", &["03-29 03:00 +02:00", "03-30 02:00 +02:00", "03-30 02:30 +02:00"]),
        ("Europe/Berlin", "0 2,3 * * *", "2026-03-28T20:00", &["03-29 03:00 +02:00", "03-30 02:00 +02:00", "03-30 03:00 +02:00"]),
        ("Europe/Berlin", "0-59/20 2 * * *", "2026-03-28T20:00", &["03-29 03:00 +02:00", "03-30 02:00 +02:00", "03-30 02:20 +02:00"]),
        ("Europe/Berlin", "30 2 * * MON-FRI", "2026-03-28T20:00", &["03-30 02:30 +02:00", "03-31 02:30 +02:00"]),
        ("Europe/Berlin", "30 2 * * SUN", "2026-03-28T20:00", &["03-29 03:00 +02:00", "04-05 02:30 +02:00"]),
        ("Europe/Berlin", "30 2 29 3 *", "2026-03-28T20:00", &["03-29 03:00 +02:00", "03-29 02:30 +02:00"]),
        ("Europe/Berlin", "30 2 28 3 *", "2026-03-28T20:00", &["03-28 03:00 +02:00"]),
        ("Europe/Berlin", "0 0-23 * * *", "2026-03-29T01:00", &["03-29 01:00 +01:00", "03-29 03:00 +02:00", "03-29 04:00 +02:00"]),
        ("Europe/Berlin", "30 1 * * *", "2026-03-28T20:00", &["03-29 01:30 +01:00", "03-30 01:30 +02:00"]),
        ("Europe/Berlin", "0 3 * * *", "2026-03-28T20:00", &["03-29 03:00 +02:00", "03-30 03:00 +02:00"]),
        ("Europe/Berlin", "30 2 * * *", "2026-03-29T03:00", &["03-29 03:00 +02:00", "03-30 02:30 +02:00"]),
        ("Europe/Berlin", "30 2 * * *", "2026-03-29T03:01", &["03-30 02:30 +02:00"]),
        // Expressions with a star follow the clock.
        ("Europe/Berlin", "*/30 * * * *", "2026-03-29T01:30", &["03-29 01:30 +01:00", "03-29 03:00 +02:00", "03-29 03:30 +02:00"]),
        ("Europe/Berlin", "30 * * * *", "2026-03-29T01:00", &["03-29 01:30 +01:00", "03-29 03:30 +02:00"]),
        ("Europe/Berlin", "* 2 * * *", "2026-03-29T01:00", &["03-30 02:00 +02:00", "03-30 02:01 +02:00"]),
        ("Europe/Berlin", "*/15 2 * * *", "2026-03-29T01:00", &["03-30 02:00 +02:00", "03-30 02:15 +02:00"]),
        ("Europe/Berlin", "0 */2 * * *", "2026-03-29T00:00", &["03-29 00:00 +01:00", "03-29 04:00 +02:00", "03-29 06:00 +02:00"]),
        ("Europe/Berlin", "@hourly", "2026-03-29T01:00", &["03-29 01:00 +01:00", "03-29 03:00 +02:00"]),
        ("Europe/Berlin", "@daily", "2026-03-29T00:00", &["03-29 00:00 +01:00", "03-30 00:00 +02:00"]),
        // Berlin goes from 03:00 back to 02:00 on 25 October 2026.
        ("Europe/Berlin", "30 2 * * *", "2026-10-24T00:00", &["10-24 02:30 +02:00", "10-25 02:30 +02:00", "10-26 02:30 +01:00"]),
        ("Europe/Berlin", "30 2,14 * * *", "2026-10-24T20:00", &["10-25 02:30 +02:00", "10-25 14:30 +01:00", "10-26 02:30 +01:00"]),
        ("Europe/Berlin", "30 1-3 * * *", "2026-10-24T20:00", &["10-25 01:30 +02:00", "10-25 02:30 +02:00", "10-25 03:30 +01:00"]),
        ("Europe/Berlin", "0-59/20 2 * * *", "2026-10-24T20:00", &["10-25 02:00 +02:00", "10-25 02:20 +02:00", "10-25 02:40 +02:00", "10-26 02:00 +01:00"]),
        ("Europe/Berlin", "0 0-23/2 * * *", "2026-10-25T00:00", &["10-25 00:00 +02:00", "10-25 02:00 +02:00", "10-25 04:00 +01:00"]),
        ("Europe/Berlin", "0 3 * * *", "2026-10-24T20:00", &["10-25 03:00 +01:00", "10-26 03:00 +01:00"]),
        ("Europe/Berlin", "*/30 * * * *", "2026-10-25T01:30", &["10-25 01:30 +02:00", "10-25 02:00 +02:00", "10-25 02:30 +02:00", "10-25 02:00 +01:00", "10-25 02:30 +01:00", "10-25 03:00 +01:00"]),
        ("Europe/Berlin", "30 * * * *", "2026-10-25T02:00", &["10-25 02:30 +02:00", "10-25 02:30 +01:00", "10-25 03:30 +01:00"]),
        ("Europe/Berlin", "*/30 2 * * *", "2026-10-25T00:00", &["10-25 02:00 +02:00", "10-25 02:30 +02:00", "10-25 02:00 +01:00", "10-25 02:30 +01:00", "10-26 02:00 +01:00"]),
        ("Europe/Berlin", "0 */2 * * *", "2026-10-25T00:00", &["10-25 00:00 +02:00", "10-25 02:00 +02:00", "10-25 02:00 +01:00", "10-25 04:00 +01:00"]),
        ("Europe/Berlin", "30 2 25 10 *", "2026-10-24T00:00", &["10-25 02:30 +02:00", "10-25 02:30 +02:00"]),
        // New York changes at 02:00 too, London and Lisbon at 01:00, the Azores at 00:00.
        ("America/New_York", "15 2 * * *", "2026-03-07T12:00", &["03-08 03:00 -04:00", "03-09 02:15 -04:00"]),
        ("America/New_York", "15 1,2 * * *", "2026-10-31T12:00", &["11-01 01:15 -04:00", "11-01 02:15 -05:00", "11-02 01:15 -05:00"]),
        ("Europe/London", "30 1 * * 0", "2026-03-28T12:00", &["03-29 02:00 +01:00", "04-05 01:30 +01:00"]),
        ("Europe/London", "30 1 * * 7", "2026-10-24T12:00", &["10-25 01:30 +01:00", "11-01 01:30 +00:00"]),
        ("Europe/Lisbon", "0,30 1 * * *", "2026-10-24T12:00", &["10-25 01:00 +01:00", "10-25 01:30 +01:00", "10-26 01:00 +00:00"]),
        ("Atlantic/Azores", "0 0 * * *", "2026-03-28T12:00", &["03-29 01:00 +00:00", "03-30 00:00 +00:00"]),
        ("Atlantic/Azores", "30 0 * * *", "2026-10-24T12:00", &["10-25 00:30 +00:00", "10-26 00:30 -01:00"]),
        // A day that begins at 01:00, in Cairo, Beirut, Santiago, Havana and Asuncion.
        ("Africa/Cairo", "0 0 * * *", "2026-04-23T12:00", &["04-24 01:00 +03:00", "04-25 00:00 +03:00"]),
        ("Africa/Cairo", "30 23 * * *", "2026-10-29T12:00", &["10-29 23:30 +03:00", "10-30 23:30 +02:00"]),
        ("Africa/Cairo", "*/30 23 * * *", "2026-10-29T12:00", &["10-29 23:00 +03:00", "10-29 23:30 +03:00", "10-29 23:00 +02:00", "10-29 23:30 +02:00", "10-30 23:00 +02:00"]),
        ("Asia/Beirut", "5 0 29 * *", "2026-03-28T12:00", &["03-29 01:00 +03:00", "04-29 00:05 +03:00"]),
        ("America/Santiago", "0 0 * * *", "2026-09-05T12:00", &["09-06 01:00 -03:00", "09-07 00:00 -03:00"]),
        ("America/Havana", "30 0 * * *", "2026-03-07T12:00", &["03-08 01:00 -04:00", "03-09 00:30 -04:00"]),
        ("America/Havana", "30 0 * * *", "2024-11-02T12:00", &["11-03 00:30 -04:00", "11-04 00:30 -05:00"]),
        // A change by half an hour, on Lord Howe Island, and by two hours, at Troll.
        ("Australia/Lord_Howe", "15 2 * * *", "2026-10-03T12:00", &["10-04 02:30 +11:00", "10-05 02:15 +11:00"]),
        ("Australia/Lord_Howe", "45 1 * * *", "2026-04-04T12:00", &["04-05 01:45 +11:00", "04-06 01:45 +10:30"]),
        ("Australia/Lord_Howe", "*/15 * * * *", "2026-04-05T01:30", &["04-05 01:30 +11:00", "04-05 01:45 +11:00", "04-05 01:30 +10:30", "04-05 01:45 +10:30", "04-05 02:00 +10:30"]),
        ("Antarctica/Troll", "30 1-2 * * *", "2026-03-28T12:00", &["03-29 03:00 +02:00", "03-30 01:30 +02:00", "03-30 02:30 +02:00"]),
        ("Antarctica/Troll", "30 1,2 * * *", "2026-10-24T12:00", &["10-25 01:30 +02:00", "10-25 02:30 +02:00", "10-26 01:30 +00:00"]),
        // Casey went from 02:00 to 05:00 on 18 October 2009: cron makes up for less than
        // three hours. On 5 March 2010 it went back by three hours, to 23:00.
        ("Antarctica/Casey", "30 3 * * *", "2009-10-17T12:00", &["10-19 03:30 +11:00", "10-20 03:30 +11:00"]),
        ("Antarctica/Casey", "30 23 * * *", "2010-03-04T12:00", &["03-04 23:30 +11:00", "03-05 23:30 +08:00"]),
        // 30 December 2011 does not exist in Apia, and 31 December 1994 not on Kiritimati.
        ("Pacific/Apia", "0 12 * * *", "2011-12-29T00:00", &["12-29 12:00 -10:00", "12-31 12:00 +14:00", "01-01 12:00 +14:00"]),
        ("Pacific/Apia", "0 12 30 12 *", "2011-01-01T00:00", &["12-30 12:00 +14:00", "12-30 12:00 +14:00"]),
        ("Pacific/Apia", "0 0 * * 5", "2011-12-23T00:00", &["12-23 00:00 -10:00", "01-06 00:00 +14:00"]),
        ("Pacific/Apia", "0 */6 * * *", "2011-12-29T18:00", &["12-29 18:00 -10:00", "12-31 00:00 +14:00"]),
        ("Pacific/Kiritimati", "0 8 31 * *", "1994-12-01T00:00", &["01-31 08:00 +14:00"]),
        // Kwajalein had its 30 September 1969 twice, and no 21 August 1993.
        ("Pacific/Kwajalein", "30 13 30 9 *", "1969-09-30T00:00", &["09-30 13:30 +11:00", "09-30 13:30 -12:00", "09-30 13:30 -12:00"]),
        ("Pacific/Kwajalein", "30 13 * * *", "1993-08-20T00:00", &["08-20 13:30 -12:00", "08-22 13:30 +12:00"]),
        // No change of the clocks: lists, ranges, names, and both days.
        ("UTC", "0 0 13 * FRI", "2026-02-01T00:00", &["02-06 00:00 +00:00", "02-13 00:00 +00:00", "02-20 00:00 +00:00"]),
        ("UTC", "0 0 */2 * MON", "2026-02-01T00:00", &["02-09 00:00 +00:00", "02-23 00:00 +00:00", "03-09 00:00 +00:00"]),
        ("UTC", "0 0 1-7 * */7", "2026-02-01T00:00", &["02-01 00:00 +00:00", "03-01 00:00 +00:00", "04-05 00:00 +00:00"]),
        ("UTC", "0 0 29 2 *", "2026-01-01T00:00", &["02-29 00:00 +00:00", "02-29 00:00 +00:00"]),
        ("UTC", "0 0 29 2 *", "2096-03-01T00:00", &["02-29 00:00 +00:00"]),
        ("UTC", "0 0 31 * *", "2026-01-31T00:00", &["01-31 00:00 +00:00", "03-31 00:00 +00:00", "05-31 00:00 +00:00"]),
        ("Asia/Tokyo", "10-20/5,50 9 * jan-feb mon", "2026-02-22T00:00", &["02-23 09:10 +09:00", "02-23 09:15 +09:00", "02-23 09:20 +09:00", "02-23 09:50 +09:00", "01-04 09:10 +09:00"]),
        ("Asia/Kathmandu", "15 0 1 */6 *", "2026-01-02T00:00", &["07-01 00:15 +05:45", "01-01 00:15 +05:45"]),
        ("Asia/Kolkata", "*/25 5 * * *", "2026-01-02T05:30", &["01-02 05:50 +05:30", "01-03 05:00 +05:30", "01-03 05:25 +05:30"]),
    ];

    #[test]
    fn the_table_of_expressions_zones_and_dates() {
        assert!(CASES.len() >= 60, "{} cases", CASES.len());
        for (zone, cron, from, expected) in CASES {
            assert_eq!(
                runs(zone, cron, from, expected.len()),
                *expected,
                "{zone}: {cron}"
            );
        }
    }

    /// The cases of the table and many more, in the days around changes of the clocks from
    /// 1965 to 2035: the first of each zone, and some that are not by an hour.
    #[test]
    fn runs_are_those_of_debians_cron() {
        let mut expressions: Vec<String> = CASES.iter().map(|c| c.1.to_owned()).collect();
        for minute in ["0", "17", "0,30", "5-50/15", "*/20", "*"] {
            for hour in [
                "0", "1", "2", "3", "23", "0-3", "0-23", "1,2,13", "0-22/2", "*/2", "*",
            ] {
                expressions.push(format!("{minute} {hour} * * *"));
            }
        }
        let expressions: Vec<Cron> = expressions
            .iter()
            .map(|e| Cron::parse(e).unwrap())
            .collect();
        let mut zones: Vec<&str> = CASES.iter().map(|case| case.0).collect();
        zones.sort_unstable();
        zones.dedup();
        let (start, end): (Timestamp, Timestamp) = (
            "1965-01-01T00:00:00Z".parse().unwrap(),
            "2035-01-01T00:00:00Z".parse().unwrap(),
        );
        let mut compared = 0;
        for name in zones {
            let zone = zone(name);
            let changes = zone
                .following(start)
                .map(|t| t.timestamp())
                .take_while(|t| *t < end);
            for (n, change) in changes.enumerate() {
                let offset = |time| i64::from(zone.to_offset(time).seconds());
                let step = offset(change) - offset(change - SignedDuration::from_secs(1));
                if n > 1 && (step.abs() == 3600 || n > 15) {
                    continue;
                }
                let around = SignedDuration::from_hours(30);
                let (from, to) = (change - around, change + around);
                for cron in &expressions {
                    let mut seen = Vec::new();
                    let mut next = cron.next(&zone, from, true);
                    while let Some(time) = next.filter(|time| *time < to) {
                        seen.push(time);
                        next = cron.next(&zone, time, false);
                    }
                    assert_eq!(seen, debian(cron, &zone, from, to), "{name} {n}: {cron:?}");
                    compared += seen.len();
                }
            }
        }
        assert!(compared > 50_000, "only {compared} runs");
    }

    #[test]
    fn a_day_that_never_comes_is_none() {
        for cron in [
            "0 0 * * fri-sun",
            "5-1 * * * *",
            "0 0 * dec-jan *",
            "0 0 30 2 *",
            "0 0 31 4,6,9,11 *",
            "0 0 31 2 */7",
        ] {
            let cron = Cron::parse(cron).unwrap();
            let now = "2026-01-01T00:00:00Z".parse().unwrap();
            assert_eq!(cron.next(&zone("Europe/Berlin"), now, true), None);
            assert_eq!(cron.next(&TimeZone::UTC, Timestamp::MAX, false), None);
        }
        // 29 February is a Sunday every 28 years, and after 40 around 2100.
        let rare = Cron::parse("0 0 29 2 */7").unwrap();
        let now = "2088-03-01T00:00:00Z".parse().unwrap();
        let next = rare.next(&TimeZone::UTC, now, true).unwrap();
        assert_eq!(next.to_string(), "2128-02-29T00:00:00Z");
    }

    #[test]
    fn what_is_no_expression_is_refused_with_the_reason() {
        for (text, why) in [
            ("", "it has 0 fields instead of five"),
            ("* * * * * *", "it has 6 fields instead of five"),
            ("60 * * * *", "\"60\" is not from 0 to 59"),
            ("* * 0 * *", "\"0\" is not from 1 to 31"),
            ("* * * foo *", "\"foo\" is not from 1 to 12"),
            ("* * * * 8", "\"8\" is not from 0 to 7"),
            ("+5 * * * *", "\"+5\" is not from 0 to 59"),
            ("\u{663} * * * *", "\"\u{663}\" is not from 0 to 59"),
            ("* * * * \u{17f}un", "\"\u{17f}un\" is not from 0 to 7"),
            ("0\u{a0}0 * * *", "it has 4 fields instead of five"),
            ("5/10 * * * *", "\"5/10\" has a step but no range"),
            ("*/0 * * * *", "\"*/0\" has a step out of range"),
            ("1,,2 * * * *", "\"\" is not from 0 to 59"),
            ("@reboot", "it has 1 fields instead of five"),
        ] {
            assert_eq!(Cron::parse(text).unwrap_err(), why, "{text}");
        }
    }
}
