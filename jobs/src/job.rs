//! A job as a node knows it.

use crate::recur::Recurrence;
use clap::ValueEnum;
use jiff::Timestamp;
use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;
use tokio_postgres::Row;

#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub enum Kind {
    /// A function of the database, which runs in the transaction that settles it.
    Sql,
    Command,
    Http,
    /// An application takes it. The node computes its runs.
    #[value(skip)]
    App,
}

/// The word of the database and the command line.
pub fn word(value: impl ValueEnum) -> String {
    let value = value.to_possible_value().expect("no value is skipped");
    value.get_name().to_owned()
}

/// The server ends a batch of SQL jobs after this time. The job that runs then is slow.
const LONGEST_BATCH: Duration = Duration::from_millis(500);

/// A claimed job. The fence is the right to act on it.
#[derive(Clone, Debug)]
pub struct Job {
    pub id: i64,
    pub key: Arc<str>,
    pub fence: i64,
    pub kind: Kind,
    /// When the next attempt is due, by the database's clock. None: the first run is
    /// still to be computed.
    pub due: Option<Timestamp>,
    /// The run that the attempt is for.
    pub occurrence: Timestamp,
    pub recurrence: Option<Arc<Recurrence>>,
    pub timeout_ms: i64,
    /// No attempt is left: the last one was lost with its node.
    pub is_exhausted: bool,
    /// A number for each SQL function.
    pub function: i32,
    /// It gets a transaction of its own.
    pub alone: bool,
    /// Its connection was lost while it ran: it may be the reason.
    pub is_suspect: bool,
    pub queue: Arc<str>,
    /// From 0 to 9. The highest runs first.
    pub priority: i32,
    /// The run of this occurrence was made.
    pub ran: bool,
}

/// From rows of the SQL type `hwheel.claim3`: jobs, and those that cannot be read, with the
/// reason. Of these only the number, the key and the fence are right.
pub fn read(rows: &[Row]) -> (Vec<Job>, Vec<(Job, String)>) {
    let (mut jobs, mut unreadable) = (Vec::new(), Vec::new());
    for row in rows {
        match Job::read(row) {
            Ok(job) => jobs.push(job),
            Err(e) => {
                let job = Job::named(row.get("id"), row.get("fence"), row.try_get("key").ok());
                let cause =
                    std::error::Error::source(&e).map_or(String::new(), |e| format!(": {e}"));
                unreadable.push((job, format!("the row cannot be read: {e}{cause}")));
            }
        }
    }
    (jobs, unreadable)
}

/// Of the jobs that are there twice, those with the later fence. A job that is scheduled again
/// while it waits for its run is due here as what it was and as what it is.
pub fn latest(jobs: Vec<Job>) -> Vec<Job> {
    let mut fences: HashMap<i64, i64> = HashMap::new();
    for job in &jobs {
        let fence = fences.entry(job.id).or_insert(job.fence);
        *fence = job.fence.max(*fence);
    }
    let mut jobs = jobs;
    // One of several with the same fence.
    jobs.retain(|job| fences.get(&job.id) == Some(&job.fence) && fences.remove(&job.id).is_some());
    jobs
}

impl Job {
    fn read(row: &Row) -> Result<Job, tokio_postgres::Error> {
        let kind = match row.try_get("kind")? {
            "sql" => Kind::Sql,
            "command" => Kind::Command,
            "app" => Kind::App,
            _ => Kind::Http,
        };
        Ok(Job {
            id: row.try_get("id")?,
            key: row.try_get::<_, &str>("key")?.into(),
            fence: row.try_get("fence")?,
            kind,
            due: row.try_get("due")?,
            occurrence: row.try_get("occurrence")?,
            recurrence: Recurrence::of(row)?.map(Arc::new),
            timeout_ms: row.try_get("timeout_ms")?,
            is_exhausted: row.try_get("exhausted")?,
            function: row.try_get("function")?,
            alone: row.try_get("alone")?,
            is_suspect: row.try_get("suspect")?,
            queue: row.try_get::<_, &str>("queue")?.into(),
            priority: row.try_get("priority")?,
            ran: row.try_get("ran")?,
        })
    }

    /// A job of which nothing else is known.
    fn named(id: i64, fence: i64, key: Option<&str>) -> Job {
        Job {
            id,
            key: key.unwrap_or("?").into(),
            fence,
            kind: Kind::Sql,
            due: None,
            occurrence: Timestamp::UNIX_EPOCH,
            recurrence: None,
            timeout_ms: 0,
            is_exhausted: false,
            function: 0,
            alone: false,
            is_suspect: false,
            queue: "default".into(),
            priority: 0,
            ran: false,
        }
    }
}

/// Its number and its key, as in each line of the log about a job.
impl fmt::Display for Job {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        write!(f, "job {} {:?}", self.id, self.key)
    }
}

impl Job {
    /// Whether what is known of it here is newer than what another copy says. One under suspicion
    /// is marked as running, and the other copies are not.
    pub fn replaces(&self, other: &Job) -> bool {
        (self.fence, self.is_suspect) > (other.fence, other.is_suspect)
    }

    /// Whether it is never in a batch with others.
    pub fn runs_alone(&self) -> bool {
        self.alone || self.is_suspect
    }

    /// The limit of a batch with this job. Jobs of a batch have the same.
    pub fn batch_limit(&self) -> Duration {
        Duration::from_millis(self.timeout_ms.unsigned_abs()).min(LONGEST_BATCH)
    }

    /// The job after a call that has left it to this node.
    pub fn again(&self, fence: i64, due: Timestamp, occurrence: Timestamp) -> Job {
        let due = Some(due);
        let is_exhausted = false;
        Job {
            fence,
            due,
            occurrence,
            is_exhausted,
            ..self.clone()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_a_job_that_is_there_twice_the_later_one_counts() {
        let jobs = [(1, 4), (2, 7), (1, 5), (1, 3), (1, 5)];
        let jobs = jobs.map(|(id, fence)| Job::named(id, fence, None));
        let left = latest(jobs.into());
        let left: Vec<_> = left.iter().map(|job| (job.id, job.fence)).collect();
        assert_eq!(left, [(2, 7), (1, 5)]);
    }
}
