//! The jobs that a node holds, from the claim to the call that settles them.
//!
//! A job is armed, and when its timer expires it goes into one of two queues. A job
//! that leaves a queue belongs to the thread that took it. The database may have given
//! any of them to another node meanwhile. The fence shows that when the job fires.

use crate::clock::Bounds;
use crate::job::{Job, Kind};
use crate::metrics::Metrics;
use crate::queues::{Bells, Limits, Pace, Ready, PRIORITIES};
use crate::stop::Stops;
use crate::wheel::Alarms;
use jiff::{SignedDuration, Timestamp};
use std::collections::HashMap;
use std::ops::RangeInclusive;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, Weak};
use std::time::{Duration, Instant};
use tokio::sync::Notify;

/// A change of the offset by more than this arms everything anew.
const TOLERANCE: SignedDuration = SignedDuration::from_millis(1);

/// The jobs of a queue and a priority that are due here are this many at most.
const LARGEST_SHARE: usize = 2000;

/// How long the end of a job waits at first that could not be written down. It doubles.
const LATER: Duration = Duration::from_millis(10);

/// How long a job waits at least and at most that could not be fired.
pub type Pause = RangeInclusive<SignedDuration>;

/// A command or request that has ended.
pub struct Ended {
    pub job: Job,
    pub error: Option<String>,
    /// False: the node could not begin it.
    pub has_begun: bool,
    /// How long the next attempt has to wait at least.
    pub wait: Option<Duration>,
    /// How often the end could not be written down, because somebody has locked the job.
    pub tries: u32,
}

impl Ended {
    pub fn failed(job: Job, error: String) -> Ended {
        Ended {
            job,
            error: Some(error),
            has_begun: true,
            wait: None,
            tries: 0,
        }
    }

    pub fn not_begun(job: Job, error: String) -> Ended {
        let has_begun = false;
        Ended {
            has_begun,
            ..Ended::failed(job, error)
        }
    }
}

/// The room that a node has for claims: see hwheel._turn5().
pub struct Rooms {
    pub at_most: i64,
    pub cap: i64,
    pub ahead: i64,
    pub queues: Vec<String>,
    pub counts: Vec<i64>,
}

pub struct Held {
    state: Mutex<State>,
    /// SQL jobs are due, or the node closes.
    sql_due: Condvar,
    /// Other jobs are due or have ended, or the node closes.
    outside_due: Condvar,
    /// Applications are to be woken, or the node closes.
    bell_due: Condvar,
    /// The thread that claims has something to do.
    pub wake: Notify,
    /// For the closures of the wheel.
    me: Weak<Held>,
    pub metrics: Metrics,
    pub stops: Stops,
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
    /// Those that are to be written down later, and when.
    unwritten: Vec<(Instant, Ended)>,
    /// Jobs whose first run was computed, and could not be written down.
    unplanned: Vec<Job>,
    /// How many jobs of each queue are armed.
    armed_of: HashMap<Arc<str>, usize>,
    /// Queues that have more jobs than this node holds, and the number of jobs that are due here
    /// below which it claims again.
    hungry: HashMap<Arc<str>, usize>,
    /// The database's clock less this machine's.
    offset: SignedDuration,
    /// An answer of the database was lost, so the node may own more than it knows.
    lost: Option<Lost>,
    is_closing: bool,
    lease: Option<Lease>,
}

/// A lost answer. The server may still be at work on the call, and may commit it at any later time.
struct Lost {
    at: Instant,
    /// When the node last asked for all that it owns; `None` if it has not asked since.
    asked: Option<Instant>,
}

/// The lease of the node.
struct Lease {
    renewed: Instant,
    length: Duration,
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
                unwritten: Vec::new(),
                unplanned: Vec::new(),
                armed_of: HashMap::new(),
                hungry: HashMap::new(),
                offset: SignedDuration::ZERO,
                lost: None,
                is_closing: false,
                lease: None,
            }),
            sql_due: Condvar::new(),
            outside_due: Condvar::new(),
            bell_due: Condvar::new(),
            wake: Notify::new(),
            me: me.clone(),
            metrics: Metrics::new(),
            stops: Stops::default(),
        })
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state
            .lock()
            .expect("a thread that holds the jobs has panicked")
    }

    // Arming.

    /// Arms jobs. One that is armed with the same fence, or a later one, stays. One that is due
    /// needs no timer.
    pub fn arm(&self, jobs: impl IntoIterator<Item = Job>) {
        let mut state = self.lock();
        let now = state.now();
        let (mut any_sql, mut any_outside) = (false, false);
        for job in jobs {
            if job.due.is_none_or(|due| due > now) {
                state.arm(job, None, self);
            } else if state.disarm(job.id, Some(&job)) {
                any_sql |= job.kind == Kind::Sql;
                any_outside |= job.kind != Kind::Sql;
                state.ready(job);
            }
        }
        if any_sql && state.idle > 0 {
            self.sql_due.notify_all();
        }
        if any_outside {
            self.outside_due.notify_one();
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

    /// Whether a job is armed with this fence.
    pub fn is_armed(&self, id: i64, fence: i64) -> bool {
        let state = self.lock();
        state.armed.get(&id).is_some_and(|job| job.fence == fence)
    }

    /// The jobs that are armed or due: the latest fence of each, and whether the job with that fence is under
    /// suspicion.
    pub fn fences(&self) -> HashMap<i64, (i64, bool)> {
        let state = self.lock();
        let due = state.sql.jobs().chain(state.outside.jobs());
        let mut fences = HashMap::new();
        for job in state.armed.values().chain(due) {
            let known = (job.fence, job.is_suspect);
            let latest = fences.entry(job.id).or_insert(known);
            *latest = known.max(*latest);
        }
        fences
    }

    /// The job is no longer this node's.
    pub fn revoke(&self, id: i64, fence: i64) {
        let mut state = self.lock();
        if state.armed.get(&id).is_some_and(|job| job.fence == fence) {
            state.disarm(id, None);
        }
    }

    /// Keeps jobs whose next run could not be written down.
    pub fn plan_later(&self, jobs: impl IntoIterator<Item = Job>) {
        self.lock().unplanned.extend(jobs);
    }

    pub fn take_unplanned(&self) -> Vec<Job> {
        std::mem::take(&mut self.lock().unplanned)
    }

    pub fn has_unplanned(&self) -> bool {
        !self.lock().unplanned.is_empty()
    }

    /// None of the jobs is this node's any more.
    pub fn forget(&self) {
        let mut state = self.lock();
        state.armed.clear();
        state.armed_of.clear();
        state.unplanned.clear();
        state.unwritten.clear();
        state.hungry.clear();
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
        let Some(job) = state.remove(id) else {
            return;
        };
        let is_sql = job.kind == Kind::Sql;
        state.ready(job);
        if !is_sql {
            self.outside_due.notify_one();
        } else if state.idle > 0 {
            // notify_one() makes a system call even if no thread waits.
            self.sql_due.notify_one();
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
        let side = if offset.is_negative() {
            "behind"
        } else {
            "ahead of"
        };
        log::info!(
            "the database's clock is {:?} {side} this one's",
            offset.unsigned_abs()
        );
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

    /// Takes in the limits that are leased to this node: see Limits::set(). The time is when the
    /// queue had no start left.
    pub fn set_limits(
        &self,
        limits: impl Iterator<Item = (String, Option<i32>, Option<f64>, Option<Timestamp>)>,
    ) {
        let mut state = self.lock();
        let now = state.now();
        let limits = limits.map(|(queue, max, rate, at)| {
            let rested = at.map(|at| now.duration_since(at).as_secs_f64());
            (queue, max, rate, rested)
        });
        state.limits.set(limits, Instant::now());
        drop(state);
        self.sql_due.notify_all();
        self.outside_due.notify_all();
    }

    /// The queues whose rate this node keeps, and when each had no start left.
    pub fn paced(&self) -> (Vec<String>, Vec<Timestamp>) {
        let mut state = self.lock();
        let now = state.now();
        let at = |rested: f64| {
            let rested = SignedDuration::try_from_secs_f64(rested).unwrap_or_default();
            now.saturating_sub(rested).unwrap_or(now)
        };
        let paced = state.limits.paced(Instant::now());
        paced
            .map(|(queue, rested)| (queue.to_string(), at(rested)))
            .unzip()
    }

    /// What may be claimed if the node holds no more than `capacity` jobs. A queue gets a share
    /// that depends on the number of queues: so the jobs of one leave room for all others.
    pub fn rooms(&self, capacity: usize) -> Rooms {
        let state = self.lock();
        let mut queues: HashMap<&Arc<str>, [i64; PRIORITIES + 1]> = HashMap::new();
        for ready in [&state.sql, &state.outside] {
            for (queue, counts) in ready.counts() {
                let all = queues.entry(queue).or_default();
                for (sum, count) in all.iter_mut().zip(counts) {
                    *sum += count as i64;
                }
            }
        }
        for (queue, count) in &state.armed_of {
            queues.entry(queue).or_default()[PRIORITIES] += *count as i64;
        }
        let share = capacity / (PRIORITIES * queues.len().max(2));
        let cap = share.clamp(1, LARGEST_SHARE) as i64;
        // The others count as none: the share is that much larger.
        let many = if queues.len() > 1000 { cap / 2 } else { 0 };
        queues.retain(|_, counts| counts[0] + counts[PRIORITIES] > many);
        let counts = queues.values().flatten().copied().collect();
        Rooms {
            at_most: capacity.saturating_sub(state.len()) as i64,
            cap,
            ahead: (capacity / 2).saturating_sub(state.armed.len()).max(1) as i64,
            queues: queues.keys().map(|queue| queue.to_string()).collect(),
            counts,
        }
    }

    /// Takes in which queues have more, and what the node holds of each at most. True if the node
    /// has room for them at once. Otherwise it wakes the thread that claims when it has.
    pub fn set_hungry(&self, more: impl Iterator<Item = (String, i64)>) -> bool {
        let mut state = self.lock();
        let enough = |most: i64| usize::try_from(most).unwrap_or(1).div_ceil(2);
        state.hungry = more
            .map(|(queue, most)| (queue.into(), enough(most)))
            .collect();
        state.is_hungry()
    }

    /// Whether the limits of one of these queues are leased to this node.
    pub fn have_limits(&self, queues: &[Arc<str>]) -> bool {
        let state = self.lock();
        queues.iter().any(|queue| state.limits.has(queue))
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
    /// True if there is a new one.
    pub fn set_bells(&self, bells: impl Iterator<Item = (String, Timestamp)>) -> bool {
        let mut state = self.lock();
        let (ids, is_new) = state.bells.set(bells);
        for id in ids {
            state.set_bell(id, self);
        }
        is_new
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
                    if state.is_hungry() {
                        state.hungry.clear();
                        self.wake.notify_one();
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

    /// A job that was taken has not started, because somebody has locked it, or because it is early. It uses no
    /// start of its queue.
    pub fn not_started(&self, job: &Job) {
        self.lock().limits.not_started(&job.queue);
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
            let now = Instant::now();
            let due = outside.take_each(limits, free, now);
            let again = state.unwritten.extract_due(now);
            state.ended.extend(again);
            if !due.is_empty() && state.is_hungry() {
                state.hungry.clear();
                self.wake.notify_one();
            }
            if !due.is_empty() || !state.ended.is_empty() {
                return Some((std::mem::take(&mut state.ended), due));
            }
            if state.is_closing && running == 0 && state.unwritten.is_empty() {
                return None;
            }
            let start = if free == 0 {
                None
            } else {
                state.limits.next(&state.outside, now)
            };
            let again = state.unwritten.iter().map(|(at, _)| *at - now).min();
            let wait = start.into_iter().chain(again).min();
            state = wait_for(&self.outside_due, state, wait);
        }
    }

    pub fn ended(&self, ended: Ended) {
        self.lock().ended.push(ended);
        self.outside_due.notify_one();
    }

    /// Keeps ends that could not be written down, because somebody has locked the jobs.
    pub fn end_later(&self, ended: impl IntoIterator<Item = Ended>) {
        let now = Instant::now();
        let later = ended.into_iter().map(|mut ended| {
            let wait = LATER * 2u32.pow(ended.tries.min(7));
            ended.tries += 1;
            (now + wait, ended)
        });
        self.lock().unwritten.extend(later);
    }

    /// Whether the job has ended, and that could not be written down.
    pub fn is_unwritten(&self, job: &Job) -> bool {
        let state = self.lock();
        let mut ends = state.unwritten.iter().map(|(_, ended)| &ended.job);
        ends.any(|ended| (ended.id, ended.fence) == (job.id, job.fence))
    }

    /// The number of jobs armed or due, and of those that are not written down.
    pub fn len(&self) -> usize {
        self.lock().len()
    }

    // The state of the node.

    /// The number of the node, if it has entered.
    pub fn node(&self) -> Option<i64> {
        self.lock().node
    }

    /// The node has entered, and has a lease.
    pub fn entered(&self, id: i64, lease: Duration) {
        let mut state = self.lock();
        state.node = Some(id);
        state.lease = Some(Lease {
            renewed: Instant::now(),
            length: lease,
        });
    }

    /// The lease was renewed at this time, or later. None: it was not.
    pub fn renewed(&self, id: i64, at: Option<Instant>, length: Duration) {
        let mut state = self.lock();
        if state.node == Some(id) {
            if let Some(lease) = &mut state.lease {
                lease.renewed = at.unwrap_or(lease.renewed);
                lease.length = length;
            }
        }
    }

    /// The node is no longer there. False: that was known.
    pub fn expelled(&self, id: i64) -> bool {
        let mut state = self.lock();
        if state.node != Some(id) {
            return false;
        }
        state.node = None;
        drop(state);
        self.wake.notify_one();
        true
    }

    /// Whether the node can run jobs, in a line. The error says why not.
    pub fn health(&self) -> Result<String, String> {
        let calls = crate::db::calls_given_up();
        let add = |line| {
            if calls > 0 {
                format!("{line}; the server is still at work on {calls} calls that it has given up")
            } else {
                line
            }
        };
        self.lease().map(add).map_err(add)
    }

    fn lease(&self) -> Result<String, String> {
        let state = self.lock();
        if state.is_closing {
            return Err("the node is closing".to_owned());
        }
        let (Some(id), Some(lease)) = (state.node, &state.lease) else {
            return Err("the node has not entered".to_owned());
        };
        let silent = lease.renewed.elapsed();
        if silent >= lease.length {
            return Err(format!(
                "node {id} last renewed its lease of {:?} {:.1} s ago",
                lease.length,
                silent.as_secs_f64()
            ));
        }
        let held = state.len();
        Ok(format!("node {id} holds {held} jobs"))
    }

    /// An answer was lost.
    pub fn unsure(&self) {
        self.lock().lost = Some(Lost {
            at: Instant::now(),
            asked: None,
        });
    }

    /// Whether the node is to ask for all that it owns: at once after an answer was lost, and then once per
    /// turn.
    pub fn must_ask(&self, turn: Duration) -> bool {
        let state = self.lock();
        let lost = state.lost.as_ref();
        lost.is_some_and(|lost| lost.asked.is_none_or(|asked| asked.elapsed() >= turn))
    }

    /// The node has asked, at this time or later. It has to ask again unless the answer `is_all`.
    pub fn asked(&self, at: Instant, is_all: bool) {
        let mut state = self.lock();
        // Another answer may be lost meanwhile.
        let Some(lost) = state.lost.as_mut().filter(|lost| lost.at <= at) else {
            return;
        };
        lost.asked = Some(at);
        if is_all {
            state.lost = None;
        }
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

/// Ends that are written down again.
trait ExtractDue {
    fn extract_due(&mut self, now: Instant) -> Vec<Ended>;
}

impl ExtractDue for Vec<(Instant, Ended)> {
    fn extract_due(&mut self, now: Instant) -> Vec<Ended> {
        let (due, later) = std::mem::take(self)
            .into_iter()
            .partition(|(at, _)| *at <= now);
        *self = later;
        due.into_iter()
            .map(|(_, ended): (_, Ended)| ended)
            .collect()
    }
}

impl State {
    fn now(&self) -> Timestamp {
        Timestamp::now() + self.offset
    }

    fn len(&self) -> usize {
        let later = self.unwritten.len() + self.unplanned.len();
        self.armed.len() + self.sql.len() + self.outside.len() + later
    }

    /// Whether a queue has more jobs than this node holds, and the node has room for them.
    fn is_hungry(&self) -> bool {
        let (sql, outside) = (&self.sql, &self.outside);
        let mut hungry = self.hungry.iter();
        hungry.any(|(queue, enough)| sql.count(queue) + outside.count(queue) < *enough)
    }

    fn ready(&mut self, job: Job) {
        if job.kind == Kind::Sql {
            self.sql.push(job);
        } else {
            self.outside.push(job);
        }
    }

    fn remove(&mut self, id: i64) -> Option<Job> {
        let job = self.armed.remove(&id)?;
        if let Some(count) = self.armed_of.get_mut(&job.queue) {
            *count -= 1;
            if *count == 0 {
                self.armed_of.remove(&job.queue);
            }
        }
        Some(job)
    }

    /// Drops the timer of a job, unless another one does not replace it. False: it does not.
    fn disarm(&mut self, id: i64, by: Option<&Job>) -> bool {
        let armed = self.armed.get(&id);
        if armed.is_some_and(|armed| by.is_some_and(|job| !job.replaces(armed))) {
            return false;
        }
        if self.remove(id).is_some() {
            if let Some(alarms) = &self.alarms {
                alarms.cancel(id);
            }
        }
        true
    }

    fn arm(&mut self, job: Job, not_before: Option<Timestamp>, held: &Held) {
        if self
            .armed
            .get(&job.id)
            .is_none_or(|armed| job.replaces(armed))
        {
            self.set(&job, not_before, held);
            self.remove(job.id);
            *self.armed_of.entry(job.queue.clone()).or_default() += 1;
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
