//! A job as a node knows it.

use crate::recur::Recurrence;
use clap::ValueEnum;
use jiff::Timestamp;
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

/// From a row of the SQL type `hwheel.claim3`.
impl From<&Row> for Job {
    fn from(row: &Row) -> Job {
        let kind = match row.get("kind") {
            "sql" => Kind::Sql,
            "command" => Kind::Command,
            "app" => Kind::App,
            _ => Kind::Http,
        };
        Job {
            id: row.get("id"),
            key: row.get::<_, &str>("key").into(),
            fence: row.get("fence"),
            kind,
            due: row.get("due"),
            occurrence: row.get("occurrence"),
            recurrence: Recurrence::of(row).map(Arc::new),
            timeout_ms: row.get("timeout_ms"),
            is_exhausted: row.get("exhausted"),
            function: row.get("function"),
            alone: row.get("alone"),
            is_suspect: row.get("suspect"),
            queue: row.get::<_, &str>("queue").into(),
            priority: row.get("priority"),
            ran: row.get("ran"),
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
