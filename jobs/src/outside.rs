//! Commands and requests: begun in batches, each run in a thread, settled in batches.

use crate::command::Failed;
use crate::db::Link;
use crate::held::{Ended, Held};
use crate::job::{latest, Job, Kind};
use crate::outcome::{
    plan, settle, settle_after, steps, until_answered, DISABLED, LONGEST_WAIT, SHORTLY,
};
use crate::recur::LAST;
use crate::stop::Stop;
use crate::{clock, command, http};
use jiff::Timestamp;
use sha2::{Digest as _, Sha256};
use std::collections::{HashMap, HashSet};
use std::fmt::Write as _;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::Arc;
use std::thread;
use std::time::Duration;
use tokio_postgres::Row;

/// One run of a command or request.
pub struct Run {
    pub key: String,
    /// The time that the run is for.
    pub occurrence: Timestamp,
    /// 1 for the first.
    pub attempt: i32,
    /// A command, or a URL.
    pub target: String,
    /// JSON, or nothing.
    pub payload: Option<String>,
    /// Of a request. Their texts may be secrets.
    pub headers: Vec<(String, String)>,
    /// The trace that the run belongs to.
    pub traceparent: Option<String>,
    pub time_limit: Duration,
}

impl Run {
    fn read(row: &Row, job: &Job) -> Result<Run, tokio_postgres::Error> {
        let names: Vec<String> = row.try_get("header_names")?;
        let texts: Vec<String> = row.try_get("header_texts")?;
        Ok(Run {
            key: row.try_get("key")?,
            occurrence: row.try_get("occurrence")?,
            attempt: row.try_get("attempt")?,
            target: row.try_get("target")?,
            payload: row.try_get("payload")?,
            headers: names.into_iter().zip(texts).collect(),
            traceparent: row.try_get("traceparent")?,
            time_limit: Duration::from_millis(job.timeout_ms.unsigned_abs()),
        })
    }

    /// All attempts at one run share it, and no other run has it: the time that the run is for,
    /// and the beginning of a SHA-256 of the key and the content of the job. A job that becomes
    /// another one under the same key is another run, and one that is scheduled again after a lost
    /// answer is not.
    pub fn name(&self) -> String {
        let mut hash = Sha256::new();
        let payload = self.payload.as_deref().unwrap_or_default();
        for part in [&self.key, &self.target, payload] {
            hash.update((part.len() as u64).to_le_bytes());
            hash.update(part);
        }
        let mut name = self.occurrence.as_microsecond().to_string() + "-";
        for byte in &hash.finalize()[..16] {
            let _ = write!(name, "{byte:02x}");
        }
        name
    }
}

/// Runs jobs, `slots` at once, until the node closes and the last one has ended.
pub fn work(held: &Arc<Held>, mut link: Link, slots: usize) {
    // By id and fence. After a lost answer a job may be due twice here.
    let mut running = HashSet::new();
    while let Some((ended, mut due)) = held.take_outside(slots - running.len(), running.len()) {
        // One whose end is written down late ended before.
        let queues: Vec<_> = ended
            .iter()
            .filter(|ended| running.remove(&(ended.job.id, ended.job.fence)))
            .map(|ended| ended.job.queue.clone())
            .collect();
        let now = held.now();
        let may_wait = |job: &Job| now.duration_since(job.occurrence) < LONGEST_WAIT;
        let (waiting, ended) = ended
            .into_iter()
            .partition(|ended| !ended.has_begun && may_wait(&ended.job));
        put_off(held, &mut link, waiting);
        end(held, &mut link, ended);
        held.finished(&queues);
        let taken: Vec<_> = due
            .iter()
            .map(|job| (job.id, job.fence, job.queue.clone()))
            .collect();
        let is_running = |job: &Job| running.contains(&(job.id, job.fence));
        let twice: Vec<_> = due
            .iter()
            .filter(|job| is_running(job))
            .map(|job| job.queue.clone())
            .collect();
        due.retain(|job| !is_running(job) && !held.is_unwritten(job));
        due = latest(due);

        let (due, skipping) = steps(held, due);
        plan(held, &mut link, &skipping);
        let (lost, due): (Vec<_>, Vec<_>) = due.into_iter().partition(|(job, _)| job.is_exhausted);
        let error = || Some("the node was lost while the job ran".to_owned());
        let lost: Vec<_> = lost
            .into_iter()
            .map(|(job, step)| (job, step, error()))
            .collect();
        settle(held, &mut link, &lost);
        let due: Vec<Job> = due.into_iter().map(|(job, _)| job).collect();
        running.extend(begin(held, &mut link, &due));
        // A job that has not begun does not count as running.
        let idle = taken
            .iter()
            .filter(|(id, fence, _)| !running.contains(&(*id, *fence)))
            .map(|(.., queue)| queue);
        held.finished(idle.chain(&twice));
    }
}

/// Marks jobs as running and starts those that still are this node's. Returns their
/// ids and fences.
fn begin(held: &Arc<Held>, link: &mut Link, jobs: &[Job]) -> Vec<(i64, i64)> {
    let mut started = Vec::new();
    if jobs.is_empty() {
        return started;
    }
    let ids: Vec<i64> = jobs.iter().map(|job| job.id).collect();
    let fences: Vec<i64> = jobs.iter().map(|job| job.fence).collect();
    // Somebody may cancel a job as soon as it is marked.
    let mut stops: HashMap<i64, _> = jobs
        .iter()
        .map(|job| (job.id, held.stops.begins(job)))
        .collect();
    let sql = "SELECT * FROM hwheel._start($1, $2)";
    let rows = until_answered(held, link, |session| session.query(sql, &[&ids, &fences]));
    let mut was_early = false;
    for row in rows.iter().flatten() {
        let id: i64 = row.get("id");
        let job = jobs
            .iter()
            .find(|job| job.id == id)
            .expect("it was asked for")
            .clone();
        match row.get("outcome") {
            "taken" => {
                started.push((id, job.fence));
                let stop = stops.remove(&id).expect("one row for each job");
                match (Run::read(row, &job), stop) {
                    (Ok(run), Ok(stop)) => start(held, job, run, stop),
                    (Err(e), _) => ended(
                        held,
                        Ended::failed(job, format!("the row cannot be read: {e}")),
                    ),
                    (_, Err(e)) => {
                        ended(held, Ended::not_begun(job, format!("cannot start: {e}")));
                    }
                }
            }
            "gone" => {
                held.metrics.gone.fetch_add(1, Relaxed);
            }
            outcome => {
                was_early |= outcome == "early";
                held.not_started(&job);
                held.arm_later(job, SHORTLY);
            }
        }
    }
    for job in jobs.iter().filter(|job| stops.contains_key(&job.id)) {
        held.stops.ended(job);
    }
    if was_early {
        held.metrics.early.fetch_add(1, Relaxed);
        if let Ok(bounds) = link.ask(clock::measure) {
            held.measured(bounds);
        }
    }
    started
}

/// A run has ended. It cannot be asked to end any more.
fn ended(held: &Held, ended: Ended) {
    held.stops.ended(&ended.job);
    held.ended(ended);
}

fn start(held: &Arc<Held>, job: Job, run: Run, stop: Arc<Stop>) {
    let report = held.clone();
    let body = {
        let job = job.clone();
        move || {
            let (error, wait, has_begun) = match job.kind {
                Kind::Http => match http::run(&run, &stop) {
                    Ok(()) => (None, None, true),
                    Err(failed) => (Some(failed.error), failed.wait, true),
                },
                _ => match command::run(&run, &stop) {
                    Ok(()) => (None, None, true),
                    Err(Failed::Begun(why)) => (Some(why), None, true),
                    Err(Failed::NotBegun(why)) => (Some(why), None, false),
                },
            };
            let end = Ended {
                job,
                error,
                has_begun,
                wait,
                tries: 0,
            };
            ended(&report, end);
        }
    };
    if let Err(why) = thread::Builder::new()
        .name(format!("job {}", job.id))
        .spawn(body)
    {
        ended(held, Ended::not_begun(job, format!("no thread: {why}")));
    }
}

/// Gives back the jobs that this machine could not begin. No attempt counts. Another node may have the
/// disk, memory or processes that are missing here.
fn put_off(held: &Held, link: &mut Link, waiting: Vec<Ended>) {
    for Ended { job, error, .. } in waiting {
        log::error!("{job} waits: {}", error.as_deref().unwrap_or_default());
        let sql = "SELECT hwheel._put_off($1, $2, $3)";
        let rows = until_answered(held, link, |session| {
            session.query(sql, &[&job.id, &job.fence, &error])
        });
        if !rows.is_some_and(|rows| rows[0].get(0)) {
            held.arm_later(job, DISABLED); // Somebody has locked it.
        }
    }
}

/// Writes down what has ended. If somebody has locked a job, its end waits.
fn end(held: &Held, link: &mut Link, ended: Vec<Ended>) {
    // The next run counts from now on: what passed during this one was missed.
    let now = held.now();
    let waits: Vec<Option<Duration>> = ended.iter().map(|ended| ended.wait).collect();
    let settled = ended.iter().map(|Ended { job, error, .. }| {
        let step = job
            .recurrence
            .as_ref()
            .map_or(Ok(LAST), |r| r.step(job.occurrence, now));
        match step {
            Ok(step) => (job.clone(), step, error.clone()),
            Err(why) => (job.clone(), LAST, error.clone().or(Some(why))),
        }
    });
    let settled: Vec<_> = settled.collect();
    let busy = settle_after(held, link, &settled, &waits);
    let later = ended.into_iter().enumerate();
    held.end_later(
        later
            .filter(|(place, _)| busy.contains(place))
            .map(|(_, ended)| ended),
    );
}
