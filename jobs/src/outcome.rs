//! The outcome of a job that is due: it runs or is skipped, and the database answers
//! what follows.

use crate::clock;
use crate::db::{self, Error, Failure, Link, Session};
use crate::held::{Held, Pause};
use crate::job::{Job, Kind};
use crate::recur::{Step, LAST};
use jiff::{SignedDuration, Timestamp};
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;
use tokio_postgres::Row;

/// How long a job waits that is locked, or early by a little.
pub const SHORTLY: Pause = SignedDuration::from_millis(2)..=SignedDuration::from_secs(1);

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

/// Gives jobs their next run without an attempt.
pub fn plan(held: &Held, link: &mut Link, jobs: &[Planned]) {
    if jobs.is_empty() {
        return;
    }
    let ids: Vec<i64> = jobs.iter().map(|(job, _)| job.id).collect();
    let fences: Vec<i64> = jobs.iter().map(|(job, _)| job.fence).collect();
    let step = |step: &Result<Step, String>| {
        step.as_ref()
            .ok()
            .map_or((None, 0), |s| (s.next, s.skipped))
    };
    let nexts: Vec<Option<Timestamp>> = jobs.iter().map(|(_, s)| step(s).0).collect();
    let skips: Vec<i32> = jobs.iter().map(|(_, s)| step(s).1).collect();
    let errors: Vec<Option<&str>> = jobs
        .iter()
        .map(|(_, s)| s.as_ref().err().map(String::as_str))
        .collect();
    let sql = "SELECT * FROM hwheel._plan($1, $2, $3, $4, $5)";
    let rows = until_answered(held, link, |session| {
        session.query(sql, &[&ids, &fences, &nexts, &skips, &errors])
    });
    if rows.is_some() {
        for (job, step) in jobs {
            match step {
                Err(why) => {
                    held.metrics.dead.fetch_add(1, Relaxed);
                    log::error!("{job} is dead: {}", in_one_line(why));
                }
                Ok(step) if step.skipped > 0 => {
                    log::warn!("{job} skips {} runs that were missed", step.skipped);
                }
                Ok(_) => {}
            }
        }
    }
    let rearmed = rows.iter().flatten().filter_map(|row| {
        let (job, _) = jobs
            .iter()
            .find(|(job, _)| job.id == row.get::<_, i64>("id"))?;
        let due = row.get("due");
        Some(job.again(row.get("fence"), due, due))
    });
    held.arm(rearmed);
}

/// Ends attempts, each with an error or none. The start of a command or request was
/// recorded when it began.
pub fn settle(held: &Held, link: &mut Link, ended: &[(Job, Step, Option<String>)]) {
    end(held, link, ended, &[], false);
}

/// Ends attempts, some of them with the time that the next attempt has to wait.
pub fn settle_after(
    held: &Held,
    link: &mut Link,
    ended: &[(Job, Step, Option<String>)],
    waits: &[Option<Duration>],
) {
    end(held, link, ended, waits, false);
}

/// Ends attempts with which a connection was lost.
pub fn settle_lost(held: &Held, link: &mut Link, ended: &[(Job, Step, Option<String>)]) {
    end(held, link, ended, &[], true);
}

fn end(
    held: &Held,
    link: &mut Link,
    ended: &[(Job, Step, Option<String>)],
    waits: &[Option<Duration>],
    is_lost: bool,
) {
    if ended.is_empty() {
        return;
    }
    let ids: Vec<i64> = ended.iter().map(|(job, ..)| job.id).collect();
    let fences: Vec<i64> = ended.iter().map(|(job, ..)| job.fence).collect();
    let errors: Vec<Option<&str>> = ended.iter().map(|(.., error)| error.as_deref()).collect();
    let nexts: Vec<Option<Timestamp>> = ended.iter().map(|(_, step, _)| step.next).collect();
    let skips: Vec<i32> = ended.iter().map(|(_, step, _)| step.skipped).collect();
    let now = held.now();
    let started: Vec<Option<Timestamp>> = ended
        .iter()
        .map(|(job, ..)| (job.kind == Kind::Sql).then_some(now))
        .collect();
    let waits: Vec<Option<i64>> = waits
        .iter()
        .map(|wait| wait.map(|time| time.as_millis() as i64))
        .collect();
    let sql = "SELECT * FROM hwheel._settle($1, $2, $3, $4, $5, $6, $7, $8)";
    let rows = until_answered(held, link, |session| {
        let lost = &is_lost;
        session.query(
            sql,
            &[
                &ids, &fences, &errors, &nexts, &skips, &started, lost, &waits,
            ],
        )
    });
    if let Some(rows) = rows {
        let jobs = ended.iter().map(|(job, ..)| job);
        take_in(held, link, jobs, &rows, is_lost);
    }
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
                again.push(job.clone());
                continue;
            }
            "busy" => {
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

/// Asks again after errors of the connection and of the server. Returns `None` if the node
/// closes, or if the statement is wrong.
pub fn until_answered(
    held: &Held,
    link: &mut Link,
    mut ask: impl FnMut(&mut Session) -> Result<Vec<Row>, Error>,
) -> Option<Vec<Row>> {
    loop {
        let answer = link.ask(&mut ask);
        match answer {
            Ok(rows) => {
                link.works();
                return Some(rows);
            }
            Err(e) if db::failure(&e) == Failure::Statement => {
                log::error!("{}", db::describe(&e));
                held.unsure();
                return None;
            }
            Err(e) => {
                held.unsure();
                link.back_off(&e);
            }
        }
        if held.is_closing() {
            return None;
        }
    }
}
