//! Takes jobs, runs their functions, and ends the jobs.

use crate::calls::{is, is_refusal, to_ascii, Control};
use crate::calls::{CHECK, DONE, DONE_ONE, FAIL, LOCKED, SNOOZE, STALE, TAKE};
use crate::database::{Name, Over, Run, Shared, State, PATIENCE};
use crate::job::{attempt, text_of, Failure, Job, JobResult, Report, Stop, Stopped};
use crate::Queue;
use log::warn;
use std::collections::{HashMap, HashSet};
use std::future::{poll_fn, Future};
use std::pin::pin;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::sync::Arc;
use std::task::Poll;
use std::thread;
use std::time::{Duration, Instant, SystemTime};
use tokio::time::{sleep, timeout, timeout_at};
use tokio_postgres::{Notification, Row};

pub(crate) type Function = dyn Fn(&Job) -> Result<(), Failure> + Send + Sync;

/// A worker looks though nobody wakes it: there may have been no node.
const LOOK: Duration = Duration::from_secs(5);
/// After the functions have to end, a worker waits for this time at its end.
const LAST: Duration = Duration::from_secs(5);

/// When a job is ended again that somebody has locked, or whose end the database refuses.
const AGAIN: Duration = Duration::from_secs(1);

/// The state of a worker from the beginning of a call to its end.
pub(crate) struct Session<'w> {
    shared: &'w Arc<Shared>,
    queues: &'w [Queue],
    control: Control<'w>,
}

impl<'w> Session<'w> {
    pub fn new(shared: &'w Arc<Shared>, queues: &'w [Queue]) -> Session<'w> {
        *shared.state() = State::new(queues.len());
        Session {
            shared,
            queues,
            control: Control::new(shared),
        }
    }

    pub fn close(self) {
        self.shared.stop_all();
        *self.shared.state() = State::new(0);
        self.shared.close();
        self.shared.is_quiet.store(false, SeqCst);
        self.shared.is_stopped.store(false, SeqCst);
        self.shared.is_busy.store(false, SeqCst);
    }

    pub async fn serve(&mut self) -> Result<(), Failure> {
        let names: Vec<&str> = self.queues.iter().map(|queue| &*queue.name).collect();
        self.control.start().await?;
        self.control.call(CHECK, &[&names]).await?;
        self.control.extend(&[]).await?; // A role without the rights ends here.
        let shared = self.shared;
        let listening = repeat(shared, async || listen(shared, &names).await, || false);
        let is_idle = || shared.is_stopped.load(SeqCst) && shared.state().runs.is_empty();
        let working = repeat(shared, async || self.turn(true).await, is_idle);
        first(listening, first(end(shared), working)).await;
        let state = shared.state();
        let left: Vec<&str> = state.runs.values().map(|run| &*run.job.key).collect();
        match left[..] {
            [] => Ok(()),
            _ => Err(format!("these jobs do not end: {}", left.join(", ")).into()),
        }
    }

    pub async fn drain(&mut self, limit: usize) -> Result<Vec<JobResult>, Failure> {
        let shared = self.shared;
        self.control.start().await?;
        let mut results = Vec::new();
        while results.len() < limit {
            let mut taken = 0;
            for queue in 0..self.queues.len() {
                shared.state().may_have_more[queue] = true;
                taken = self.take(queue, 1).await?;
                if taken > 0 {
                    break;
                }
            }
            if taken == 0 {
                break;
            }
            let has_ended = || shared.state().last.is_some();
            repeat(shared, async || self.turn(false).await, has_ended).await;
            results.extend(shared.state().last.take());
        }
        Ok(results)
    }

    /// Waits for something to do, and does it.
    async fn turn(&mut self, takes: bool) -> Result<(), Failure> {
        let shared = self.shared;
        let next = {
            let state = shared.state();
            state.next_look.min(state.next_beat)
        };
        let _ = timeout_at(next.into(), shared.wake.notified()).await;
        // First, so that no report delays it.
        self.beat().await?;
        let mut is_idle = self.report().await? == 0;
        {
            let mut state = shared.state();
            if Instant::now() >= state.next_look {
                state.next_look = Instant::now() + LOOK;
                state.may_have_more.fill(true);
            }
        }
        for queue in 0..if takes { self.queues.len() } else { 0 } {
            let room = self.queues[queue].concurrency - shared.state().running[queue];
            is_idle &= self.take(queue, room).await? == 0;
        }
        if is_idle {
            sleep(Duration::from_millis(10)).await; // Anybody may send notifications.
        }
        Ok(())
    }

    async fn take(&mut self, number: usize, room: usize) -> Result<usize, Failure> {
        let shared = self.shared;
        let is_quiet = shared.is_quiet.load(SeqCst);
        if room == 0 || is_quiet || !std::mem::take(&mut shared.state().may_have_more[number]) {
            return Ok(0);
        }
        let (queue, began) = (&self.queues[number], Instant::now());
        let (at_most, lease) = (room as i32, shared.options.lease.as_secs_f64());
        let rows = self
            .control
            .call(TAKE, &[&queue.name, &at_most, &lease])
            .await;
        let is_full = rows.as_ref().map_or(true, |rows| rows.len() >= room);
        shared.state().may_have_more[number] |= is_full;
        let rows = rows?;
        for row in &rows {
            let run = Run {
                job: Arc::new(self.job(row, queue, began)?),
                queue: number,
            };
            self.begin(run);
        }
        Ok(rows.len())
    }

    fn job(&self, row: &Row, queue: &Queue, began: Instant) -> Result<Job, tokio_postgres::Error> {
        // An interval of the database may be longer than a time of this process can be.
        let timeout = Duration::from_secs_f64(row.try_get::<_, f64>(7)?.clamp(0.0, 1e9));
        Ok(Job {
            id: row.try_get(0)?,
            lease: row.try_get(1)?,
            key: row.try_get(2)?,
            queue: queue.name.clone(),
            due: row.try_get::<_, SystemTime>(3)?,
            payload: row.try_get(4)?,
            attempt: row.try_get(5)?,
            traceparent: row.try_get(6)?,
            stop: Stop::new(began + self.shared.options.lease, began + timeout),
            has_committed: AtomicBool::new(false),
            shared: self.shared.clone(),
        })
    }

    fn begin(&self, run: Run) {
        let (shared, job) = (self.shared.clone(), run.job.clone());
        let function = self.queues[run.queue].function.clone();
        {
            let mut state = shared.state();
            let before = state.runs.values().filter(|other| other.job.id == job.id);
            before.for_each(|other| other.job.stop.set(Stopped::Lost));
            state.running[run.queue] += 1;
            if state.ends {
                job.stop.set(Stopped::Ends);
            }
            state.runs.insert((job.id, job.lease), run);
        }
        let thread = thread::Builder::new().name(format!("hwheel {}", job.key));
        let (in_thread, its_job) = (shared.clone(), job.clone());
        let begun = thread.spawn(move || {
            let (report, error) = attempt(&its_job, |job| function(job));
            in_thread.over(&its_job, report, error);
        });
        if let Err(why) = begun {
            // Not the fault of the job: the attempt does not count.
            warn!("{}: no thread for {:?}: {why}", job.queue, job.key);
            shared.over(&job, Report::Later(1.0), Some(why.to_string()));
        }
    }

    /// Ends the jobs whose functions are over. One that somebody has locked, or whose end the database
    /// refuses, has to wait.
    async fn report(&mut self) -> Result<usize, Failure> {
        let now = Instant::now();
        let mut batch = self.shared.state().over.clone();
        batch.retain(|over| over.again <= now);
        let is_done = |over: &&Over| matches!(over.report, Report::Done);
        let done: Vec<&Over> = batch.iter().filter(is_done).collect();
        let mut left: Vec<&Over> = batch.iter().collect();
        if done.len() > 1 {
            let (ids, leases): (Vec<i64>, Vec<i64>) = done.iter().map(|over| over.name).unzip();
            match self.control.call(DONE, &[&ids, &leases]).await {
                Ok(rows) => {
                    let ended: HashSet<i64> = rows.iter().map(|row| row.get(0)).collect();
                    for over in done {
                        let has_ended = ended.contains(&over.name.0);
                        self.free(over, if has_ended { "done" } else { "lost" });
                    }
                    left.retain(|over| !is_done(over));
                }
                Err(error) if is_refusal(&error) => {} // One by one.
                Err(error) => return Err(error),
            }
        }
        for over in left {
            self.report_one(over.clone()).await?;
        }
        Ok(batch.len())
    }

    async fn report_one(&mut self, mut over: Over) -> Result<(), Failure> {
        let (id, lease) = over.name;
        loop {
            let answer = match &over.report {
                Report::Committed => Ok(Vec::new()),
                Report::Done => self.control.call(DONE_ONE, &[&id, &lease]).await,
                Report::Later(time) => self.control.call(SNOOZE, &[&id, &lease, time]).await,
                Report::Fail(text, retry_after, is_final) => {
                    self.control
                        .call(FAIL, &[&id, &lease, text, retry_after, is_final])
                        .await
                }
            };
            let has_committed = matches!(over.report, Report::Committed);
            let error = match answer {
                Ok(rows) => {
                    let none = if has_committed { "done" } else { "lost" };
                    let outcome = rows.first().map_or(Ok(none), |row| row.try_get(0))?;
                    self.free(&over, outcome);
                    return Ok(());
                }
                Err(error) => error,
            };
            if is(&error, STALE) {
                self.free(&over, "lost");
                return Ok(());
            }
            // The database lacks a character, or the time is too long.
            let other = match &over.report {
                _ if !is(&error, "22") => None,
                Report::Later(_) => Some(Report::Fail(text_of(&*error), None, false)),
                Report::Fail(text, time, is_final) if !text.is_ascii() => {
                    Some(Report::Fail(to_ascii(text), *time, *is_final))
                }
                Report::Fail(text, Some(_), is_final) => {
                    Some(Report::Fail(text.clone(), None, *is_final))
                }
                _ => None,
            };
            if let Some(other) = other {
                over.report = other;
                continue;
            } else if !is_refusal(&error) {
                return Err(error);
            }
            self.report_later(&over, &error);
            return Ok(());
        }
    }

    fn report_later(&self, over: &Over, why: &Failure) {
        if !is(why, LOCKED) {
            let (id, why) = (over.name.0, text_of(&**why));
            warn!("the end of job {id} is refused: {why}");
        }
        let mut state = self.shared.state();
        let same = state
            .over
            .iter_mut()
            .filter(|other| other.name == over.name);
        same.for_each(|other| other.again = Instant::now() + AGAIN);
        drop(state);
        let shared = self.shared.clone();
        tokio::spawn(async move {
            sleep(AGAIN).await;
            shared.wake.notify_one();
        });
    }

    fn free(&self, over: &Over, outcome: &str) {
        let mut state = self.shared.state();
        state.over.retain(|other| other.name != over.name);
        let Some(run) = state.runs.remove(&over.name) else {
            return;
        };
        state.running[run.queue] -= 1;
        let job = &run.job;
        // A function may have ended its job itself, by hwheel.done().
        if outcome == "lost" && (job.stop.why().is_some() || over.error.is_some()) {
            warn!("{}: {:?} has ended without this run", job.queue, job.key);
        }
        state.last = Some(JobResult {
            key: job.key.clone(),
            attempt: job.attempt,
            outcome: outcome.to_owned(),
            error: over.error.clone(),
        });
    }

    /// Extends the leases, and finds out which have ended.
    async fn beat(&mut self) -> Result<(), Failure> {
        let began = Instant::now();
        let jobs: Vec<Arc<Job>> = {
            let state = self.shared.state();
            if began < state.next_beat {
                return Ok(());
            }
            let jobs = state.runs.values().map(|run| run.job.clone());
            jobs.filter(|job| job.stop.needs_lease()).collect()
        };
        let names: Vec<Name> = jobs.iter().map(|job| (job.id, job.lease)).collect();
        let outcomes = match names[..] {
            [] => HashMap::new(),
            _ => self.control.extend(&names).await?,
        };
        let lease = self.shared.options.lease;
        self.shared.state().next_beat = began + lease / 3;
        for job in jobs {
            match outcomes.get(&job.id).map(String::as_str) {
                Some("cancelled") => job.stop.set(Stopped::Cancelled),
                Some("extended" | "busy") => job.stop.lease_until(began + lease),
                _ => job.stop.set(Stopped::Lost),
            }
        }
        Ok(())
    }
}

/// Makes the worker look when a notification says so. None of them does more.
async fn listen(shared: &Arc<Shared>, names: &[&str]) -> Result<(), Failure> {
    let (hearing, queues) = (shared.clone(), names.iter().map(|name| name.to_string()));
    let queues: Vec<String> = queues.collect();
    let hear = move |notice: &Notification| {
        let mut state = hearing.state();
        if let Some(id) = notice.payload().strip_prefix("cancel ") {
            if !state
                .runs
                .keys()
                .any(|(number, _)| number.to_string() == id)
            {
                return;
            }
            state.next_beat = Instant::now();
        } else {
            let channel = notice.channel().strip_prefix("hwheel:");
            let Some(queue) = queues.iter().position(|name| Some(&**name) == channel) else {
                return;
            };
            state.may_have_more[queue] = true;
        }
        hearing.wake.notify_one();
    };
    let mut link = shared.link(Arc::new(hear)).await?;
    for name in names {
        let listen = async { link.client.query("SELECT hwheel.listen($1)", &[name]).await };
        timeout(PATIENCE, listen).await??;
    }
    {
        let mut state = shared.state();
        state.next_look = Instant::now();
        state.next_beat = state.next_look;
    }
    shared.wake.notify_one();
    let _ = (&mut link.task).await;
    Err("the connection that listens is lost".into())
}

/// Waits until the worker has to end, and then until its functions had their time.
async fn end(shared: &Shared) {
    while !shared.is_stopped.load(SeqCst) {
        shared.stopping.notified().await;
    }
    shared.wake.notify_one();
    sleep(shared.options.grace).await;
    shared.stop_all();
    sleep(LAST).await;
}

async fn repeat(
    shared: &Shared,
    mut work: impl AsyncFnMut() -> Result<(), Failure>,
    is_over: impl Fn() -> bool,
) {
    let mut delay = Duration::from_millis(100);
    while !is_over() {
        let began = Instant::now();
        let Err(error) = work().await else {
            delay = Duration::from_millis(100);
            continue;
        };
        warn!("{}", text_of(&*error));
        delay = (2 * delay).min(LOOK);
        if began.elapsed() > LOOK {
            delay = Duration::from_millis(100);
        }
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
        let dice = f64::from(now.map_or(0, |now| now.subsec_micros()) % 1000) / 1000.0;
        sleep(delay.mul_f64(0.5 + dice)).await;
        shared.wake.notify_one();
    }
}

/// Runs both until one is over.
async fn first(one: impl Future<Output = ()>, other: impl Future<Output = ()>) {
    let (mut one, mut other) = (pin!(one), pin!(other));
    poll_fn(|cx| match one.as_mut().poll(cx) {
        Poll::Ready(()) => Poll::Ready(()),
        Poll::Pending => other.as_mut().poll(cx),
    })
    .await
}
