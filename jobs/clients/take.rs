//! Runs jobs that an application takes from hwheel. Copy this file; it needs postgres 0.19.
//! As a program: DATABASE_URL=... take QUEUE

use postgres::fallible_iterator::FallibleIterator;
use postgres::{Client, NoTls, Row, Transaction};
use std::time::Duration;

type Failure = Box<dyn std::error::Error>;
type Handler = dyn Fn(&mut Transaction, &Row) -> Result<(), Failure>;

/// Calls a handler for each job of the queue that is due. The statements of the handler and
/// the end of the job are one transaction. An error rolls it back, and the job is tried again.
/// All jobs that are taken together have to end within their leases.
fn work(url: &str, queue: &str, handle: &Handler) -> Result<(), Failure> {
    let (mut take, mut effect) = (Client::connect(url, NoTls)?, Client::connect(url, NoTls)?);
    take.execute("SELECT hwheel.listen($1)", &[&queue])?;
    loop {
        let sql = "SELECT id, lease, key, payload::text FROM hwheel.take($1, 10)";
        let jobs = take.query(sql, &[&queue])?;
        for job in &jobs {
            run(&mut effect, job, handle)?;
        }
        if jobs.is_empty() {
            // Now and then it looks by itself: there may have been no node.
            let mut woken = take.notifications();
            woken.timeout_iter(Duration::from_secs(5)).next()?;
        }
    }
}

fn run(effect: &mut Client, job: &Row, handle: &Handler) -> Result<(), Failure> {
    let (id, lease, key): (i64, i64, &str) = (job.get(0), job.get(1), job.get(2));
    let mut attempt = || -> Result<(), Failure> {
        let mut transaction = effect.transaction()?;
        handle(&mut transaction, job)?;
        transaction.execute("SELECT hwheel.done($1, $2)", &[&id, &lease])?;
        Ok(transaction.commit()?)
    };
    if let Err(why) = attempt() {
        eprintln!("job {key} has failed: {why}");
        let fail = "SELECT hwheel.fail($1, $2, $3)";
        match effect.execute(fail, &[&id, &lease, &why.to_string()]) {
            // The lease has ended: the job is not ours any more.
            Err(e) if e.code().is_some_and(|code| code.code() == "HW003") => {}
            failed => return Ok(failed.map(|_| ())?),
        }
    }
    Ok(())
}

fn main() -> Result<(), Failure> {
    let queue = std::env::args().nth(1).ok_or("usage: take QUEUE")?;
    work(
        &std::env::var("DATABASE_URL")?,
        &queue,
        &|transaction, job| {
            if job.get::<_, Option<&str>>(3) == Some("\"fail\"") {
                return Err("it does not work".into());
            }
            transaction.execute(
                "INSERT INTO sent (key) VALUES ($1)",
                &[&job.get::<_, &str>(2)],
            )?;
            Ok(())
        },
    )
}
