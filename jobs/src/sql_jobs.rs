//! Firing of SQL jobs: a batch is one call of `hwheel._fire`.
//!
//! A batch ends soon, so that a user who cancels one of its jobs does not wait for the
//! function of another. A function that is too slow for it runs alone.
//!
//! If a batch fails as a whole, each of its jobs is fired alone. If it has lost its
//! connection, perhaps with the server, one of them may be the reason, and each is
//! marked as running before it is fired. So the attempt counts, whatever it takes down.

use crate::db::{self, Error, Failure, Link, Session};
use crate::held::Held;
use crate::job::{latest, Job};
use crate::outcome::{
    plan, settle, settle_lost, steps, take_in, until_answered, DISABLED, LONGEST_WAIT, SHORTLY,
};
use crate::recur::Step;
use jiff::{SignedDuration, Timestamp};
use std::sync::atomic::Ordering::Relaxed;
use std::thread;
use std::time::{Duration, Instant};
use tokio_postgres::types::Type;
use tokio_postgres::Row;

/// Each job is a subtransaction, and PostgreSQL keeps up to 64 of a transaction in
/// shared memory.
const BATCH: usize = 60;

/// No job of a batch starts later than this after the first.
const BUDGET: SignedDuration = SignedDuration::from_millis(200);

/// A function that ends within this time is not slow.
const QUICK: Duration = Duration::from_millis(200);

/// Time between two looks whether the server has ended a call.
const LOOK: Duration = Duration::from_millis(100);

/// Fires batches until the node closes.
pub fn work(held: &Held, link: Link) {
    let mut link = link.without_statements();
    // So the first batch finds a connection and plans. An error will come again.
    let _ = link.ask(|session| call(session, &[], false));
    while let Some((batch, queues)) = held.take_sql(BATCH) {
        let begin = Instant::now();
        fire(held, &mut link, batch);
        if held.have_limits(&queues) {
            wait_for_lost(held, &mut link, begin);
        }
        held.finished(&queues);
    }
}

/// A run whose connection is lost counts until the server has ended it. Runs before `begin` were those of other
/// jobs.
fn wait_for_lost(held: &Held, link: &mut Link, begin: Instant) {
    while link.is_at_work_since(begin) && !held.is_closing() {
        match link.ask(Session::has_ended_all) {
            Ok(_) if link.is_at_work_since(begin) => thread::sleep(LOOK),
            Ok(_) => return,
            Err(e) => link.back_off(&e),
        }
    }
}

/// Fires jobs together.
fn fire(held: &Held, link: &mut Link, batch: Vec<Job>) {
    let (running, skipping) = steps(held, latest(batch));
    plan(held, link, &skipping);
    let (lost, mut running): (Vec<_>, Vec<_>) =
        running.into_iter().partition(|(job, _)| job.is_exhausted);
    let error = || Some("the node was lost while the job ran".to_owned());
    let lost: Vec<_> = lost
        .into_iter()
        .map(|(job, step)| (job, step, error()))
        .collect();
    settle_lost(held, link, &lost);
    let is_single = |job: &Job| job.runs_alone() || held.may_be_slow(job);
    match &running[..] {
        [] => return,
        [(job, _)] if is_single(job) => return alone(held, link, running.remove(0)),
        // One that is quick shares the limit of batches: to change it is another query.
        _ => {}
    }
    let limit = running[0].0.batch_limit();
    let e = match link.ask_within(limit, |session| call(session, &running, false)) {
        Ok(rows) => {
            link.works();
            let jobs = running.iter().map(|(job, _)| job);
            return take_in(held, link, jobs, &rows, false);
        }
        Err(e) => e,
    };
    log::warn!(
        "a batch of {} failed, each is tried alone: {}",
        running.len(),
        db::describe(&e)
    );
    let is_lost = failed(held, link, &e);
    for (job, step) in running {
        if held.is_closing() {
            return;
        }
        let is_suspect = job.is_suspect || is_lost;
        alone(held, link, (Job { is_suspect, ..job }, step));
    }
}

/// Fires one job.
fn alone(held: &Held, link: &mut Link, (job, step): (Job, Step)) {
    if job.is_suspect && !begin(held, link, &job) {
        return;
    }
    let start = Instant::now();
    let fired = [(job, step)];
    let limit = Duration::from_millis(fired[0].0.timeout_ms.unsigned_abs());
    let firing = held.stops.fires(&fired[0].0);
    let set = |process| *firing.lock().expect("no code panics with the lock") = process;
    let answer = link.ask_within(limit, |session| {
        set(Some(session.process()));
        let answer = call(session, &fired, true);
        // From here on this session does something else.
        set(None);
        answer
    });
    held.stops.fired(&fired[0].0);
    let [(job, step)] = fired;
    let e = match answer {
        Ok(rows) => {
            link.works();
            if start.elapsed() < QUICK {
                held.was_quick(&job);
            }
            return take_in(held, link, [&job].into_iter(), &rows, false);
        }
        Err(e) => e,
    };
    let error = Some(db::describe(&e));
    let late = held.now().duration_since(job.due.expect("armed"));
    if failed(held, link, &e) {
        if job.is_suspect {
            let why = format!(
                "the connection was lost while the job ran: {}",
                db::describe(&e)
            );
            settle_lost(held, link, &[(job, step, Some(why))]);
        } else if !held.is_closing() {
            let is_suspect = true;
            alone(held, link, (Job { is_suspect, ..job }, step));
        }
    } else if is_disabled(&e) && late < LONGEST_WAIT {
        log::error!("{job} waits: {}", db::describe(&e));
        note(link, &job, &db::describe(&e));
        held.arm_later(job, DISABLED);
    } else {
        settle(held, link, &[(job, step, error)]);
    }
}

/// Handles the failure of a whole call. True if the connection was lost with it.
fn failed(held: &Held, link: &mut Link, e: &Error) -> bool {
    let is_lost = db::failure(e) == Failure::Connection;
    if is_lost {
        held.unsure();
        link.back_off(e);
    } else {
        // What is not undone with a transaction is not left to the next job.
        link.reconnect();
    }
    is_lost
}

/// Whether the server cannot work, whatever the job does.
fn is_disabled(e: &Error) -> bool {
    use tokio_postgres::error::SqlState;
    db::failure(e) == Failure::Server && e.code() != Some(&SqlState::QUERY_CANCELED)
}

/// Marks a job as running. False if it is not to be fired now.
fn begin(held: &Held, link: &mut Link, job: &Job) -> bool {
    let sql = "SELECT * FROM hwheel._begin($1, $2)";
    let parameters: (&[i64], &[i64]) = (&[job.id], &[job.fence]);
    let rows = until_answered(held, link, |session| {
        session.query(sql, &[&parameters.0, &parameters.1])
    });
    match rows.as_ref().and_then(|rows| rows.first()) {
        Some(row) => match row.get("outcome") {
            "taken" => return true,
            // A lost call has settled it after all.
            "gone" => {
                held.metrics.gone.fetch_add(1, Relaxed);
            }
            _ => held.arm_later(job.clone(), SHORTLY),
        },
        None => held.unsure(),
    }
    false
}

/// Stores why a job waits. If that fails, the log has it.
fn note(link: &mut Link, job: &Job, error: &str) {
    let sql = "SELECT hwheel._note($1, $2, $3)";
    let _ = link.ask(|session| session.query(sql, &[&job.id, &job.fence, &error]));
}

fn call(session: &mut Session, batch: &[(Job, Step)], is_alone: bool) -> Result<Vec<Row>, Error> {
    let begun = batch.first().is_some_and(|(job, _)| job.is_suspect);
    let budget_ms = (!is_alone).then_some(BUDGET.as_millis() as f64);
    let ids: Vec<i64> = batch.iter().map(|(job, _)| job.id).collect();
    let fences: Vec<i64> = batch.iter().map(|(job, _)| job.fence).collect();
    let nexts: Vec<Option<Timestamp>> = batch.iter().map(|(_, step)| step.next).collect();
    let skips: Vec<i32> = batch.iter().map(|(_, step)| step.skipped).collect();
    let sql = "SELECT * FROM hwheel._fire($1, $2, $3, $4, $5, $6)";
    session.client.query_once(
        sql,
        &[
            (&ids, Type::INT8_ARRAY),
            (&fences, Type::INT8_ARRAY),
            (&nexts, Type::TIMESTAMPTZ_ARRAY),
            (&skips, Type::INT4_ARRAY),
            (&begun, Type::BOOL),
            (&budget_ms, Type::FLOAT8),
        ],
    )
}
