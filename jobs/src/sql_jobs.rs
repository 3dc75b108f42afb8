//! Firing of SQL jobs: a batch is one call of `hwheel._fire`.

use crate::db::{self, Failure, Link, Session};
use crate::held::{Held, Pause};
use crate::job::Job;
use crate::outcome::{plan, settle, steps, take_in};
use crate::recur::Step;
use jiff::{SignedDuration, Timestamp};
use postgres::{Error, Row};

/// Each job is a subtransaction, and PostgreSQL keeps up to 64 of a transaction in
/// shared memory.
const BATCH: usize = 60;

/// How long a job waits if the server cannot work, as with a full disk.
const DISABLED: Pause = SignedDuration::from_secs(2)..=SignedDuration::from_secs(10);

/// Fires batches until the node closes.
pub fn work(held: &Held, mut link: Link) {
    // So the first batch finds a connection and plans. An error will come again.
    let _ = link.ask(|session| call(session, &[]));
    while let Some(batch) = held.take_sql(BATCH) {
        fire(held, &mut link, batch);
    }
}

/// Fires a batch. If the call fails as a whole, each job gets a call of its own, so
/// that a bad one does not harm the others.
fn fire(held: &Held, link: &mut Link, batch: Vec<Job>) {
    let (running, skipping) = steps(held, batch);
    plan(held, link, &skipping);
    if running.is_empty() {
        return;
    }
    let answer = loop {
        let answer = link.ask(|session| call(session, &running));
        match answer {
            Err(e) if db::failure(&e) == Failure::Connection => {
                held.unsure();
                link.back_off(&e);
                if held.is_closing() {
                    return;
                }
            }
            answer => break answer,
        }
    };
    match answer {
        Ok(rows) => {
            link.works();
            let jobs = running.iter().map(|(job, _)| job);
            take_in(held, link, jobs, &rows);
        }
        Err(e) if running.len() > 1 => {
            log::warn!(
                "a batch of {} failed, each is tried alone: {}",
                running.len(),
                db::describe(&e)
            );
            for (job, _) in running {
                fire(held, link, vec![job]);
            }
        }
        Err(e) => {
            let (job, step) = running.into_iter().next().expect("one");
            if db::failure(&e) == Failure::Server {
                log::error!("job {} waits: {}", job.id, db::describe(&e));
                held.arm_later(job, DISABLED);
            } else {
                settle(held, link, &[(job, step, Some(db::describe(&e)))]);
            }
        }
    }
}

fn call(session: &mut Session, batch: &[(Job, Step)]) -> Result<Vec<Row>, Error> {
    if let Some((job, _)) = batch.first() {
        session.limit(job.timeout_ms)?;
    }
    let ids: Vec<i64> = batch.iter().map(|(job, _)| job.id).collect();
    let fences: Vec<i64> = batch.iter().map(|(job, _)| job.fence).collect();
    let nexts: Vec<Option<Timestamp>> = batch.iter().map(|(_, step)| step.next).collect();
    let skips: Vec<i32> = batch.iter().map(|(_, step)| step.skipped).collect();
    let sql = "SELECT * FROM hwheel._fire($1, $2, $3, $4)";
    session.query(sql, &[&ids, &fences, &nexts, &skips])
}
