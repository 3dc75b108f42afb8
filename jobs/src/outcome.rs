//! The outcome of a job that is due: it runs or is skipped, and the database answers
//! what follows.

use crate::clock;
use crate::db::{self, Error, Failure, Link, Session};
use crate::held::{Held, Pause};
use crate::job::{Job, Kind};
use crate::recur::{Step, LAST};
use jiff::{SignedDuration, Timestamp};
use std::collections::HashSet;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;
use tokio_postgres::Row;

/// How long a job waits that is locked, or early by a little.
pub const SHORTLY: Pause = SignedDuration::from_millis(2)..=SignedDuration::from_secs(1);

/// How long a job waits if the server or the machine cannot work, as with a full disk.
pub const DISABLED: Pause = SignedDuration::from_secs(2)..=SignedDuration::from_secs(10);

/// A job that has waited for that long has failed.
pub const LONGEST_WAIT: SignedDuration = SignedDuration::from_hours(1);

/// A job that does not run now: its next run, or why it has none.
pub type Planned = (Job, Result<Step, String>);

/// Divides jobs that are due into those that run, each with its next run, and those
/// that do not.
pub fn steps(held: &Held, jobs: Vec<Job>) -> (Vec<(Job, Step)>, Vec<Planned>) {
    let now = held.now();
    let (mut running, mut skipping) = (Vec::new(), Vec::new());
    for job in jobs {
        let Some(recurrence) = &job.recurrence else {
            running.push((job, LAST));
            continue;
        };
        match recurrence.skip(job.occurrence, job.due.expect("armed"), now) {
            Ok(None) => {}
            Ok(Some(step)) => {
                skipping.push((job, Ok(step)));
                continue;
            }
            Err(why) => {
                skipping.push((job, Err(why)));
                continue;
            }
        }
        match recurrence.step(job.occurrence, now) {
            Ok(step) => running.push((job, step)),
            Err(why) => skipping.push((job, Err(why))),
        }
    }
    (running, skipping)
}

/// Gives jobs their next run without an attempt. One that somebody has locked is planned later.
pub fn plan(held: &Held, link: &mut Link, jobs: &[Planned]) {
    let step = |step: &Result<Step, String>| {
        step.as_ref()
            .ok()
            .map_or((None, 0), |s| (s.next, s.skipped))
    };
    let sql = "SELECT * FROM hwheel._plan5($1, $2, $3, $4, $5)";
    let answers = each_answered(held, link, jobs, |session, jobs, is_plain| {
        let ids: Vec<i64> = jobs.iter().map(|(job, _)| job.id).collect();
        let fences: Vec<i64> = jobs.iter().map(|(job, _)| job.fence).collect();
        let nexts: Vec<Option<Timestamp>> = jobs.iter().map(|(_, s)| step(s).0).collect();
        let skips: Vec<i32> = jobs.iter().map(|(_, s)| step(s).1).collect();
        let errors: Vec<Option<String>> = jobs
            .iter()
            .map(|(_, s)| s.as_ref().err().map(|why| storable(why, is_plain)))
            .collect();
        session.query(sql, &[&ids, &fences, &nexts, &skips, &errors])
    });
    let (mut rearmed, mut later) = (Vec::new(), Vec::new());
    for (job, step) in jobs {
        let row = answers
            .rows
            .iter()
            .find(|row| row.get::<_, i64>("id") == job.id);
        let outcome = row.map(|row| row.get::<_, &str>("outcome"));
        match (outcome, step) {
            (Some("gone"), _) => {
                held.metrics.gone.fetch_add(1, Relaxed);
                continue;
            }
            (Some("kept" | "planned"), Err(why)) => {
                held.metrics.dead.fetch_add(1, Relaxed);
                log::error!("{job} is dead: {}", in_one_line(why));
            }
            (Some("kept" | "planned"), Ok(step)) => {
                if step.skipped > 0 {
                    log::warn!("{job} skips {} runs that were missed", step.skipped);
                }
            }
            // The node asks for what it owns.
            (None, _) if !answers.unsettled.contains(&job.id) => continue,
            _ => later.push(job.clone()),
        }
        // The time of another one may be infinite, which this program cannot read.
        if let (Some("kept"), Some(row)) = (outcome, row) {
            let due = row.get("due");
            rearmed.push(job.again(row.get("fence"), due, due));
        }
    }
    held.arm(rearmed);
    let (due, new): (Vec<Job>, Vec<Job>) = later.into_iter().partition(|job| job.due.is_some());
    for job in due {
        held.arm_later(job, SHORTLY);
    }
    held.plan_later(new);
}

/// Ends attempts, each with an error or none. The start of a command or request was
/// recorded when it began. A job that somebody has locked is fired again.
pub fn settle(held: &Held, link: &mut Link, ended: &[(Job, Step, Option<String>)]) {
    for place in end(held, link, ended, &[], false) {
        held.arm_later(ended[place].0.clone(), SHORTLY);
    }
}

/// Ends attempts, some of them with the time that the next attempt has to wait. Returns the places
/// of those that are to be ended later.
#[must_use]
pub fn settle_after(
    held: &Held,
    link: &mut Link,
    ended: &[(Job, Step, Option<String>)],
    waits: &[Option<Duration>],
) -> Vec<usize> {
    end(held, link, ended, waits, false)
}

/// Ends attempts with which a connection was lost. A job that somebody has locked is fired again.
pub fn settle_lost(held: &Held, link: &mut Link, ended: &[(Job, Step, Option<String>)]) {
    for place in end(held, link, ended, &[], true) {
        held.arm_later(ended[place].0.clone(), SHORTLY);
    }
}

fn end(
    held: &Held,
    link: &mut Link,
    ended: &[(Job, Step, Option<String>)],
    waits: &[Option<Duration>],
    is_lost: bool,
) -> Vec<usize> {
    let now = held.now();
    let waits = waits.iter().copied().chain(std::iter::repeat(None));
    let all: Vec<_> = ended.iter().zip(waits).collect();
    let sql = "SELECT * FROM hwheel._settle($1, $2, $3, $4, $5, $6, $7, $8)";
    let answers = each_answered(held, link, &all, |session, some, is_plain| {
        let ids: Vec<i64> = some.iter().map(|((job, ..), _)| job.id).collect();
        let fences: Vec<i64> = some.iter().map(|((job, ..), _)| job.fence).collect();
        let errors: Vec<Option<String>> = some
            .iter()
            .map(|((.., error), _)| error.as_deref().map(|error| storable(error, is_plain)))
            .collect();
        let nexts: Vec<Option<Timestamp>> = some.iter().map(|((_, s, _), _)| s.next).collect();
        let skips: Vec<i32> = some.iter().map(|((_, s, _), _)| s.skipped).collect();
        let started: Vec<Option<Timestamp>> = some
            .iter()
            .map(|((job, ..), _)| (job.kind == Kind::Sql).then_some(now))
            .collect();
        let waits: Vec<Option<i64>> = some
            .iter()
            .map(|(_, wait)| wait.map(|time| time.as_millis() as i64))
            .collect();
        session.query(
            sql,
            &[
                &ids, &fences, &errors, &nexts, &skips, &started, &is_lost, &waits,
            ],
        )
    });
    let mut later = answers.unsettled;
    let rows: Vec<Row> = answers
        .rows
        .into_iter()
        .filter(|row| {
            let is_busy = row.get::<_, &str>("outcome") == "busy";
            if is_busy {
                later.insert(row.get("id"));
            }
            !is_busy
        })
        .collect();
    let jobs = ended.iter().map(|(job, ..)| job);
    take_in(held, link, jobs, &rows, is_lost);
    let places = ended.iter().enumerate();
    places
        .filter(|(_, (job, ..))| later.contains(&job.id))
        .map(|(place, _)| place)
        .collect()
}

/// The answers of the database for several jobs.
struct Answers {
    rows: Vec<Row>,
    /// The jobs whose call is wrong.
    unsettled: HashSet<i64>,
}

/// A thing that is about a job.
trait About {
    fn job(&self) -> &Job;
}

impl About for Planned {
    fn job(&self) -> &Job {
        &self.0
    }
}

impl About for (&(Job, Step, Option<String>), Option<Duration>) {
    fn job(&self) -> &Job {
        &self.0 .0
    }
}

/// Asks about all of these, and if that is wrong about each alone, at last with texts that every
/// database can store: so one job costs no other.
fn each_answered<T: About>(
    held: &Held,
    link: &mut Link,
    all: &[T],
    mut ask: impl FnMut(&mut Session, &[T], bool) -> Result<Vec<Row>, Error>,
) -> Answers {
    let mut answers = Answers {
        rows: Vec::new(),
        unsettled: HashSet::new(),
    };
    if all.is_empty() {
        return answers;
    }
    match try_until_answered(held, link, |session| ask(session, all, false)) {
        Answer::Rows(rows) => answers.rows = rows,
        Answer::Closing => {}
        Answer::Wrong(_) => {
            for one in all.chunks(1) {
                let mut is_plain = false;
                loop {
                    match try_until_answered(held, link, |session| ask(session, one, is_plain)) {
                        Answer::Rows(rows) => answers.rows.extend(rows),
                        Answer::Closing => {}
                        Answer::Wrong(_) if !is_plain => {
                            is_plain = true;
                            continue;
                        }
                        Answer::Wrong(e) => {
                            let job = one[0].job();
                            log::error!("{job} stays as it is: {}", db::describe(&e));
                            answers.unsettled.insert(job.id);
                        }
                    }
                    break;
                }
            }
        }
    }
    answers
}

/// A text that the database can store. Plain: whatever its encoding is.
fn storable(text: &str, is_plain: bool) -> String {
    let mut stored = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '\0' => stored.push(' '),
            c if is_plain && !c.is_ascii() => stored.extend(c.escape_unicode()),
            c => stored.push(c),
        }
    }
    stored
}

/// Takes in the outcome of each job. Lost: the connection was lost while they ran.
pub fn take_in<'j>(
    held: &Held,
    link: &mut Link,
    jobs: impl Iterator<Item = &'j Job> + Clone,
    rows: &[Row],
    is_lost: bool,
) {
    let metrics = &held.metrics;
    let mut was_early = false;
    let (mut again, mut later, mut slow) = (Vec::new(), Vec::new(), Vec::new());
    for row in rows {
        let id: i64 = row.get("id");
        let Some(job) = jobs.clone().find(|job| job.id == id) else {
            continue;
        };
        match row.get("outcome") {
            "early" => {
                metrics.early.fetch_add(1, Relaxed);
                was_early = true;
                held.not_started(job);
                again.push(job.clone());
                continue;
            }
            "busy" => {
                held.not_started(job);
                held.arm_later(job.clone(), SHORTLY);
                continue;
            }
            "later" => {
                later.push(job.clone());
                continue;
            }
            "slow" => {
                slow.push(job.clone());
                continue;
            }
            "gone" => {
                metrics.gone.fetch_add(1, Relaxed);
                log::debug!("{job} has passed on");
                continue;
            }
            "done" => {
                metrics.done.fetch_add(1, Relaxed);
                log::debug!("{job} is done");
            }
            "cancelled" => {
                metrics.cancelled.fetch_add(1, Relaxed);
                log::info!("{job} is cancelled: {}", in_one_line(row.get("error")));
            }
            outcome => {
                let is_dead = outcome == "dead";
                let error = in_one_line(row.get("error"));
                if is_dead {
                    metrics.dead.fetch_add(1, Relaxed);
                    log::error!("{job} is dead: {error}");
                } else {
                    metrics.retried.fetch_add(1, Relaxed);
                    log::warn!("{job} failed and is tried again: {error}");
                }
            }
        }
        if let Some(us) = row.get("late_us") {
            metrics.late(us);
        }
        if let Some(fence) = row.get("fence") {
            let again = job.again(fence, row.get("due"), row.get("occurrence"));
            held.arm([Job {
                is_suspect: is_lost,
                ..again
            }]);
        }
    }
    held.take_back(later, slow);
    if was_early {
        if let Ok(bounds) = link.ask(clock::measure) {
            held.measured(bounds);
        }
        for job in again {
            held.arm_later(job, SHORTLY);
        }
    }
}

/// The error of a job may have several lines.
fn in_one_line(error: &str) -> String {
    crate::look::in_one_line(error)
}

/// The outcome of a call.
enum Answer {
    Rows(Vec<Row>),
    /// The statement is wrong.
    Wrong(Error),
    /// The node closes, and the call has failed.
    Closing,
}

/// Asks again after errors of the connection and of the server. Returns `None` if the node
/// closes, or if the statement is wrong.
pub fn until_answered(
    held: &Held,
    link: &mut Link,
    ask: impl FnMut(&mut Session) -> Result<Vec<Row>, Error>,
) -> Option<Vec<Row>> {
    match try_until_answered(held, link, ask) {
        Answer::Rows(rows) => Some(rows),
        Answer::Closing => None,
        Answer::Wrong(e) => {
            log::error!("{}", db::describe(&e));
            held.unsure();
            None
        }
    }
}

fn try_until_answered(
    held: &Held,
    link: &mut Link,
    mut ask: impl FnMut(&mut Session) -> Result<Vec<Row>, Error>,
) -> Answer {
    loop {
        match link.ask(&mut ask) {
            Ok(rows) => {
                link.works();
                return Answer::Rows(rows);
            }
            Err(e) if db::failure(&e) == Failure::Statement => return Answer::Wrong(e),
            Err(e) => {
                held.unsure();
                link.back_off(&e);
            }
        }
        if held.is_closing() {
            return Answer::Closing;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_database_can_store_a_plain_text() {
        assert_eq!(storable("5 €\0", false), "5 € ");
        assert_eq!(storable("5 €\0", true), "5 \\u{20ac} ");
    }
}
