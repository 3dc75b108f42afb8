//! The jobs that a node holds, from the claim to the call that settles them.
//!
//! A job is armed, and when its timer expires it goes into one of two queues. A job
//! that leaves a queue belongs to the thread that took it. The database may have given
//! any of them to another node meanwhile. The fence shows that when the job fires.

use crate::clock::Bounds;
use crate::job::{Job, Kind};
use crate::metrics::Metrics;
use crate::queues::{Bells, Limits, Pace, Ready};
use crate::wheel::Alarms;
use jiff::{SignedDuration, Timestamp};
use std::collections::HashMap;
use std::ops::RangeInclusive;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, Weak};
use std::time::{Duration, Instant};

/// A change of the offset by more than this arms everything anew.
const TOLERANCE: SignedDuration = SignedDuration::from_millis(1);

/// How long a job waits at least and at most that could not be fired.
pub type Pause = RangeInclusive<SignedDuration>;

/// A command or request that has ended.
pub struct Ended {
    pub job: Job,
    pub error: Option<String>,
    /// How long the next attempt has to wait at least.
    pub wait: Option<Duration>,
}

pub struct Held {
    state: Mutex<State>,
    /// SQL jobs are due, or the node closes.
    sql_due: Condvar,
    /// Other jobs are due or have ended, or the node closes.
    outside_due: Condvar,
    /// Applications are to be woken, or the node closes.
    bell_due: Condvar,
    /// For the closures of the wheel.
    me: Weak<Held>,
    pub metrics: Metrics,
}

struct State {
    node: Option<i64>,
    alarms: Option<Alarms>,
    armed: HashMap<i64, Job>,
    sql: Ready,
    /// How many threads wait for SQL jobs.
    idle: usize,
    /// Of the batches of SQL jobs.
    pace: Pace,
    outside: Ready,
    /// Of the queues whose limits are leased to this node.
    limits: Limits,
    /// When applications are to be woken.
    bells: Bells,
    /// Whether SQL functions were quick when they last ran alone. One that was too slow for a
    /// batch was not.
    were_quick: HashMap<i32, bool>,
    ended: Vec<Ended>,
    /// The database's clock less this machine's.
    offset: SignedDuration,
    /// An answer of the database was lost, so the node may own more than it knows.
    is_unsure: bool,
    is_closing: bool,
    /// When the node last renewed its lease, and how long that is.
    lease: Option<(Instant, Duration)>,
}

impl Held {
    pub fn new() -> Arc<Held> {
        Arc::new_cyclic(|me| Held {
            state: Mutex::new(State {
                node: None,
                alarms: None,
                armed: HashMap::new(),
                sql: Ready::default(),
                idle: 0,
                pace: Pace::new(Instant::now()),
                outside: Ready::default(),
                limits: Limits::default(),
                bells: Bells::default(),
                were_quick: HashMap::new(),
                ended: Vec::new(),
                offset: SignedDuration::ZERO,
                is_unsure: false,
                is_closing: false,
                lease: None,
            }),
            sql_due: Condvar::new(),
            outside_due: Condvar::new(),
            bell_due: Condvar::new(),
            me: me.clone(),
            metrics: Metrics::new(),
        })
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state
            .lock()
            .expect("a thread that holds the jobs has panicked")
    }

    // Arming.

    /// Arms jobs. One that is armed with the same fence, or a later one, stays.
    pub fn arm(&self, jobs: impl IntoIterator<Item = Job>) {
        let mut state = self.lock();
        for job in jobs {
            state.arm(job, None, self);
        }
    }

    /// Arms a job that could not be fired now. It waits for a quarter of its lateness.
    pub fn arm_later(&self, job: Job, pause: Pause) {
        let mut state = self.lock();
        let now = state.now();
        let late = now.duration_since(job.due.unwrap_or(now));
        let wait = (late / 4).clamp(*pause.start(), *pause.end());
        state.arm(job, Some(now + wait), self);
    }

    /// The job is no longer this node's.
    pub fn revoke(&self, id: i64, fence: i64) {
        let mut state = self.lock();
        if state.armed.get(&id).is_some_and(|job| job.fence == fence) {
            state.armed.remove(&id);
            if let Some(alarms) = &state.alarms {
                alarms.cancel(id);
            }
        }
    }

    /// None of the jobs is this node's any more.
    pub fn forget(&self) {
        let mut state = self.lock();
        state.armed.clear();
        state.sql = Ready::default();
        state.outside = Ready::default();
        state.bells = Bells::default();
        let old = state.alarms.take();
        drop(state);
        // Not under the lock: it waits for a thread that may want it.
        drop(old);
    }

    /// A timer has expired.
    fn expired(&self, id: i64) {
        let mut state = self.lock();
        if id < 0 {
            let now = state.now();
            state.bells.expired(id, now);
            state.set_bell(id, self);
            self.bell_due.notify_one();
            return;
        }
        // A job that was revoked or forgotten just now is not there.
        let Some(job) = state.armed.remove(&id) else {
            return;
        };
        if job.kind == Kind::Sql {
            state.sql.push(job);
            // notify_one() makes a system call even if no thread waits.
            if state.idle > 0 {
                self.sql_due.notify_one();
            }
        } else {
            state.outside.push(job);
            self.outside_due.notify_one();
        }
    }

    // Time.

    /// The database's time.
    pub fn now(&self) -> Timestamp {
        self.lock().now()
    }

    pub fn offset(&self) -> SignedDuration {
        self.lock().offset
    }

    /// Takes in a measurement of the offset. If the offset was wrong by much, a clock
    /// was set, and a new wheel gets all jobs: the timers of the old one were computed
    /// with the old offset, and a wheel whose clock is set back holds its time.
    pub fn measured(&self, bounds: Bounds) {
        let mut state = self.lock();
        let offset = bounds.correct(state.offset);
        let change = (offset - state.offset).abs();
        state.offset = offset;
        if change <= TOLERANCE {
            return;
        }
        log::info!("the database's clock is {offset:?} ahead of this one's");
        let old = state.alarms.take();
        let jobs: Vec<Job> = state.armed.values().cloned().collect();
        for job in jobs {
            state.set(&job, None, self);
        }
        for id in state.bells.ids() {
            state.set_bell(id, self);
        }
        drop(state);
        drop(old);
    }

    // Queues.

    /// Takes in the limits that are leased to this node.
    pub fn set_limits(&self, limits: impl Iterator<Item = (String, Option<i32>, Option<f64>)>) {
        self.lock().limits.set(limits, Instant::now());
        self.sql_due.notify_all();
        self.outside_due.notify_all();
    }

    /// A batch, or a run, with jobs of these queues has ended.
    pub fn finished<'q>(&self, queues: impl IntoIterator<Item = &'q Arc<str>>) {
        if self.lock().limits.finished(queues) {
            self.sql_due.notify_all();
            self.outside_due.notify_all();
        }
    }

    /// Takes in when applications are to be woken: queues and times. Times that were known
    /// before and are not here are forgotten.
    pub fn set_bells(&self, bells: impl Iterator<Item = (String, Timestamp)>) {
        let mut state = self.lock();
        for id in state.bells.set(bells) {
            state.set_bell(id, self);
        }
    }

    /// Waits until applications are to be woken. Returns the queues, and the time before
    /// which they must not be woken. None: the node closes.
    pub fn take_bells(&self) -> Option<(Vec<String>, Timestamp)> {
        let mut state = self.lock();
        loop {
            if state.is_closing {
                return None;
            }
            if let Some(ringing) = state.bells.take() {
                return Some(ringing);
            }
            state = self.bell_due.wait(state).expect("see lock()");
        }
    }

    // Jobs that are due.

    /// Waits until SQL jobs are due. Takes one job that runs alone, or several jobs that have the
    /// same limit, and the queues that `finished` gets when these jobs have ended. Returns `None`
    /// if the node closes.
    pub fn take_sql(&self, at_most: usize) -> Option<(Vec<Job>, Vec<Arc<str>>)> {
        let mut state = self.lock();
        loop {
            if state.is_closing {
                return None;
            }
            let State {
                sql,
                pace,
                limits,
                were_quick,
                ..
            } = &mut *state;
            let now = Instant::now();
            let is_slow = |job: &Job| were_quick.get(&job.function) == Some(&false);
            let is_single = |job: &Job| job.runs_alone() || is_slow(job);
            let mut wait = pace.wait(sql.len(), now);
            if wait.is_none() || sql.has_single(is_single) {
                let batch = sql.take_batch(limits, at_most, now, is_single);
                if let Some(first) = batch.0.first() {
                    if !is_single(first) {
                        pace.started(now);
                    }
                    return Some(batch);
                }
                wait = limits.next(sql, now);
            }
            state.idle += 1;
            state = wait_for(&self.sql_due, state, wait);
            state.idle -= 1;
        }
    }

    /// Takes back SQL jobs that were not fired. From now on the functions of slow ones run
    /// alone.
    pub fn take_back(&self, later: Vec<Job>, slow: Vec<Job>) {
        if later.is_empty() && slow.is_empty() {
            return;
        }
        let mut state = self.lock();
        state
            .were_quick
            .extend(slow.iter().map(|job| (job.function, false)));
        for job in later.into_iter().chain(slow) {
            state.limits.not_started(&job.queue);
            state.sql.push(job);
        }
        drop(state);
        self.sql_due.notify_all();
    }

    /// The function of a job has run quickly.
    pub fn was_quick(&self, job: &Job) {
        self.lock().were_quick.insert(job.function, true);
    }

    /// Whether the function of a job is perhaps not quick enough for a batch.
    pub fn may_be_slow(&self, job: &Job) -> bool {
        self.lock().were_quick.get(&job.function) != Some(&true)
    }

    /// Waits for other jobs, and takes those that have ended and up to `free` of those
    /// that are due. Returns `None` if the node closes and no job is `running`.
    pub fn take_outside(&self, free: usize, running: usize) -> Option<(Vec<Ended>, Vec<Job>)> {
        let mut state = self.lock();
        loop {
            let free = if state.is_closing { 0 } else { free };
            let State {
                outside, limits, ..
            } = &mut *state;
            let due = outside.take_each(limits, free, Instant::now());
            if !due.is_empty() || !state.ended.is_empty() {
                return Some((std::mem::take(&mut state.ended), due));
            }
            if state.is_closing && running == 0 {
                return None;
            }
            let wait = if free == 0 {
                None
            } else {
                state.limits.next(&state.outside, Instant::now())
            };
            state = wait_for(&self.outside_due, state, wait);
        }
    }

    pub fn ended(&self, ended: Ended) {
        self.lock().ended.push(ended);
        self.outside_due.notify_one();
    }

    /// The number of jobs armed or due.
    pub fn len(&self) -> usize {
        let state = self.lock();
        state.armed.len() + state.sql.len() + state.outside.len()
    }

    // The state of the node.

    /// The number of the node, if it has entered.
    pub fn node(&self) -> Option<i64> {
        self.lock().node
    }

    pub fn set_node(&self, id: Option<i64>) {
        self.lock().node = id;
    }

    /// The lease was renewed just now.
    pub fn renewed(&self, lease: Duration) {
        self.lock().lease = Some((Instant::now(), lease));
    }

    /// Whether the node can run jobs, in a line. The error says why not.
    pub fn health(&self) -> Result<String, String> {
        let state = self.lock();
        if state.is_closing {
            return Err("the node is closing".to_owned());
        }
        let (Some(id), Some((renewed, lease))) = (state.node, state.lease) else {
            return Err("the node has not entered".to_owned());
        };
        let silent = renewed.elapsed();
        if silent >= lease {
            return Err(format!(
                "node {id} last renewed its lease of {lease:?} {:.1} s ago",
                silent.as_secs_f64()
            ));
        }
        let held = state.armed.len() + state.sql.len() + state.outside.len();
        Ok(format!("node {id} holds {held} jobs"))
    }

    /// An answer was lost.
    pub fn unsure(&self) {
        self.lock().is_unsure = true;
    }

    /// Whether an answer was lost since this was last asked.
    pub fn was_unsure(&self) -> bool {
        std::mem::take(&mut self.lock().is_unsure)
    }

    pub fn close(&self) {
        self.lock().is_closing = true;
        self.sql_due.notify_all();
        self.outside_due.notify_all();
        self.bell_due.notify_all();
    }

    pub fn is_closing(&self) -> bool {
        self.lock().is_closing
    }
}

fn wait_for<'s>(
    condition: &Condvar,
    state: MutexGuard<'s, State>,
    time: Option<Duration>,
) -> MutexGuard<'s, State> {
    match time {
        Some(time) => condition.wait_timeout(state, time).expect("see lock()").0,
        None => condition.wait(state).expect("see lock()"),
    }
}

impl State {
    fn now(&self) -> Timestamp {
        Timestamp::now() + self.offset
    }

    fn arm(&mut self, job: Job, not_before: Option<Timestamp>, held: &Held) {
        if self
            .armed
            .get(&job.id)
            .is_none_or(|armed| armed.fence < job.fence)
        {
            self.set(&job, not_before, held);
            self.armed.insert(job.id, job);
        }
    }

    /// Arms the timer of a job. A node that cannot do that ends, and its jobs pass on.
    fn set(&mut self, job: &Job, not_before: Option<Timestamp>, held: &Held) {
        let due = job
            .due
            .expect("a job without a due time is planned, not armed");
        self.set_alarm(job.id, not_before.map_or(due, |time| time.max(due)), held);
    }

    /// Arms the timer of a queue whose applications are to be woken, if it has a time.
    fn set_bell(&mut self, id: i64, held: &Held) {
        if let Some(at) = self.bells.next(id) {
            self.set_alarm(id, at, held);
        }
    }

    fn set_alarm(&mut self, id: i64, at: Timestamp, held: &Held) {
        let here = at.saturating_sub(self.offset).unwrap_or(Timestamp::MAX);
        let at_ns = u64::try_from(here.as_nanosecond()).unwrap_or(0);
        let armed = self.alarms(held).and_then(|alarms| alarms.set(id, at_ns));
        if let Err(why) = armed {
            log::error!("cannot arm a timer: {why}");
            std::process::exit(1);
        }
    }

    fn alarms(&mut self, held: &Held) -> std::io::Result<&Alarms> {
        if self.alarms.is_none() {
            let held = held.me.clone();
            self.alarms = Some(Alarms::new(move |id| {
                if let Some(held) = held.upgrade() {
                    held.expired(id);
                }
            })?);
        }
        Ok(self.alarms.as_ref().expect("just made"))
    }
}
