//! The job that a function receives, and the errors that the function may return.

use crate::database::{lock, Shared};
use postgres::Transaction;
use std::error::Error;
use std::fmt;
use std::panic::{catch_unwind, AssertUnwindSafe};
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::sync::{Arc, Condvar, Mutex};
use std::time::{Duration, Instant, SystemTime};

/// An error of a function: an attempt that failed, unless it is a [`Snooze`].
pub type Failure = Box<dyn Error + Send + Sync>;

/// Why a function has to end. It may return this as its error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stopped {
    /// The lease has ended: the job may run elsewhere.
    Lost,
    /// Somebody has cancelled the job.
    Cancelled,
    /// The run took longer than the timeout of the job.
    Timeout,
    /// The worker ends.
    Ends,
}

impl fmt::Display for Stopped {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str(match self {
            Stopped::Lost => "the lease has ended",
            Stopped::Cancelled => "the job is cancelled",
            Stopped::Timeout => "the run took longer than the timeout of the job",
            Stopped::Ends => "the worker ends",
        })
    }
}

impl Error for Stopped {}

/// Runs the job again after this time. No attempt is counted.
#[derive(Clone, Copy, Debug)]
pub struct Snooze(pub Duration);

impl fmt::Display for Snooze {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        write!(f, "run the job again after {:?}", self.0)
    }
}

impl Error for Snooze {}

/// The attempt failed with this error. Any other error is followed by the next attempt, after the
/// backoff of the job.
#[derive(Debug)]
pub enum Fail {
    /// There is no other attempt.
    Final(Failure),
    /// The next attempt is after this time.
    RetryAfter(Duration, Failure),
}

impl Fail {
    fn error(&self) -> &(dyn Error + 'static) {
        match self {
            Fail::Final(error) | Fail::RetryAfter(_, error) => &**error,
        }
    }
}

impl fmt::Display for Fail {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        fmt::Display::fmt(self.error(), f)
    }
}

impl Error for Fail {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        Some(self.error())
    }
}

/// What [`Worker::drain`](crate::Worker::drain) did with a job.
#[derive(Clone, Debug)]
pub struct JobResult {
    /// The key of the job.
    pub key: String,
    /// The number of the attempt.
    pub attempt: i32,
    /// done, retry, dead, snoozed, cancelled or lost
    pub outcome: String,
    /// The text of the error that the function returned.
    pub error: Option<String>,
}

/// Says whether a function has to end. Its clones say the same, in any thread.
#[derive(Clone)]
pub struct Stop(Arc<(Mutex<Until>, Condvar)>);

struct Until {
    why: Option<Stopped>,
    lease: Instant,
    timeout: Instant,
    is_over: bool,
}

impl Until {
    /// A lease that has ended stays so.
    fn why(&mut self) -> Option<Stopped> {
        if self.why.is_none() && !self.is_over && Instant::now() >= self.lease.min(self.timeout) {
            let is_lost = self.lease < self.timeout;
            self.why = Some(if is_lost {
                Stopped::Lost
            } else {
                Stopped::Timeout
            });
        }
        self.why
    }
}

impl Stop {
    pub(crate) fn new(lease: Instant, timeout: Instant) -> Stop {
        let until = Until {
            why: None,
            lease,
            timeout,
            is_over: false,
        };
        Stop(Arc::new((Mutex::new(until), Condvar::new())))
    }

    /// Why the function has to end, or `None`: it need not.
    pub fn why(&self) -> Option<Stopped> {
        lock(&self.0 .0).why()
    }

    /// An error if the function has to end.
    pub fn check(&self) -> Result<(), Stopped> {
        self.why().map_or(Ok(()), Err)
    }

    /// Waits for this time. An error says that the function has to end before.
    pub fn wait(&self, time: Duration) -> Result<(), Stopped> {
        let end = Instant::now().checked_add(time);
        let (until, changed) = &*self.0;
        let mut until = lock(until);
        loop {
            let now = Instant::now();
            match until.why() {
                Some(why) => return Err(why),
                None if end.is_some_and(|end| end <= now) => return Ok(()),
                None => {}
            }
            // After the end of its job there is no lease: this looks once a minute.
            let next = if until.is_over {
                now + Duration::from_secs(60)
            } else {
                until.lease.min(until.timeout)
            };
            let wait = end.map_or(next, |end| end.min(next)) - now;
            until = match changed.wait_timeout(until, wait) {
                Ok((until, _)) => until,
                Err(poisoned) => poisoned.into_inner().0,
            };
        }
    }

    pub(crate) fn set(&self, why: Stopped) {
        let mut until = lock(&self.0 .0);
        if until.why().is_none() && !until.is_over {
            until.why = Some(why);
        }
        self.0 .1.notify_all();
    }

    pub(crate) fn lease_until(&self, lease: Instant) {
        let mut until = lock(&self.0 .0);
        if until.why().is_none() {
            until.lease = lease;
        }
    }

    pub(crate) fn needs_lease(&self) -> bool {
        let mut until = lock(&self.0 .0);
        until.why().is_none() && !until.is_over
    }

    /// The job or the function has ended: nothing can stop it any more.
    fn settle(&self) -> Option<Stopped> {
        let mut until = lock(&self.0 .0);
        let why = until.why();
        until.is_over = true;
        why
    }
}

/// An attempt at a job.
pub struct Job {
    /// The number of the job.
    pub id: i64,
    /// What `hwheel.done()` needs beyond the number.
    pub lease: i64,
    /// The key of the job.
    pub key: String,
    /// The queue of the job.
    pub queue: String,
    /// When the job was due.
    pub due: SystemTime,
    /// The text of the JSON, if the job has a payload.
    pub payload: Option<String>,
    /// The number of the attempt, from 1.
    pub attempt: i32,
    /// The trace that the job belongs to.
    pub traceparent: Option<String>,
    /// Says whether the function has to end.
    pub stop: Stop,
    pub(crate) has_committed: AtomicBool,
    pub(crate) shared: Arc<Shared>,
}

impl Job {
    /// Calls a function with a transaction whose commit ends the job. The worker keeps the
    /// connection for others. An error rolls the transaction back. If the lease has ended the
    /// transaction fails with HW003.
    pub fn transaction<T>(
        &self,
        work: impl FnOnce(&mut Transaction) -> Result<T, Failure>,
    ) -> Result<T, Failure> {
        let mut client = self.shared.client()?;
        let mut transaction = client.transaction()?;
        let worked = work(&mut transaction).and_then(|value| {
            let done = "SELECT hwheel.done($1, $2)";
            transaction.execute(done, &[&self.id, &self.lease])?;
            Ok(value)
        });
        let ended = match worked {
            Ok(_) => transaction.commit(),
            Err(_) => transaction.rollback(),
        };
        if let Err(error) = ended {
            return worked.and(Err(error.into()));
        }
        self.shared.keep(client);
        if worked.is_ok() {
            self.has_committed.store(true, SeqCst);
            self.stop.settle();
        }
        worked
    }
}

/// The call that ends a job.
#[derive(Clone)]
pub(crate) enum Report {
    Committed,
    Done,
    /// In seconds.
    Later(f64),
    /// The text, the time until the next attempt in seconds, and whether there is none.
    Fail(String, Option<f64>, bool),
}

/// Calls the function of a job. Whatever that does, this returns the report of the job, and the
/// text of the error.
pub(crate) fn attempt(
    job: &Job,
    function: impl FnOnce(&Job) -> Result<(), Failure>,
) -> (Report, Option<String>) {
    let result = catch(|| function(job)).unwrap_or_else(|text| Err(text.into()));
    let why = job.stop.settle();
    let has_committed = job.has_committed.load(SeqCst);
    let error = match result {
        Ok(()) if has_committed => return (Report::Committed, None),
        Ok(()) => return (Report::Done, None),
        Err(error) => error,
    };
    // Its text and its end are code of somebody else, too.
    let (mut text, wish) = catch(|| read(&*error)).unwrap_or_default();
    if text.is_empty() {
        text = "an error without a text".to_owned();
    }
    let _ = catch(|| drop(error));
    let text: String = text.replace('\0', "\\0").chars().take(10000).collect();
    let report = match (wish.snooze, why) {
        _ if has_committed => Report::Committed,
        (Some(time), _) => Report::Later(time),
        (_, Some(Stopped::Ends)) => Report::Later(0.0),
        (_, why) => {
            let text = match why {
                Some(why) if text != why.to_string() => format!("{why}: {text}"),
                _ => text.clone(),
            };
            Report::Fail(text, wish.retry_after, wish.is_final)
        }
    };
    (report, Some(text))
}

/// The outcome that an error asks for.
#[derive(Default)]
struct Wish {
    snooze: Option<f64>,
    retry_after: Option<f64>,
    is_final: bool,
}

/// The text of an error and of its sources, and the outcome that they ask for.
fn read(error: &(dyn Error + 'static)) -> (String, Wish) {
    let (mut text, mut wish) = (String::new(), Wish::default());
    // The sources may be a circle.
    for error in std::iter::successors(Some(error), |error| (**error).source()).take(20) {
        let part = error.to_string();
        if text.is_empty() {
            text = part;
        } else if !text.contains(&part) {
            text = format!("{text}: {part}");
        }
        if let Some(Snooze(time)) = error.downcast_ref() {
            wish.snooze = Some(time.as_secs_f64());
        }
        match error.downcast_ref() {
            Some(Fail::Final(_)) => wish.is_final = true,
            Some(Fail::RetryAfter(time, _)) => wish.retry_after = Some(time.as_secs_f64()),
            None => {}
        }
    }
    (text, wish)
}

pub(crate) fn text_of(error: &(dyn Error + 'static)) -> String {
    read(error).0
}

/// A panic as a text.
fn catch<T>(act: impl FnOnce() -> T) -> Result<T, String> {
    catch_unwind(AssertUnwindSafe(act)).map_err(|thrown| {
        if let Some(text) = thrown.downcast_ref::<&str>() {
            format!("panic: {text}")
        } else if let Some(text) = thrown.downcast_ref::<String>() {
            format!("panic: {text}")
        } else {
            std::mem::forget(thrown); // Its end may be a panic.
            "panic".to_owned()
        }
    })
}
