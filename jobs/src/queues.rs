//! Queues as a node knows them: jobs that are due, by queue and priority; the limits of the
//! queues that are leased to this node; and the times at which applications are woken.
//!
//! The limits of a queue are leased to one node at a time, with the node's own lease. So
//! that node can keep them without a question to the database.

use crate::job::Job;
use jiff::Timestamp;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet, VecDeque};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// The highest priority first, then the one that was due first.
type Place = (Reverse<i32>, Option<Timestamp>, i64);

/// Priorities are from 0 to 9.
pub const PRIORITIES: usize = 10;

fn level(priority: i32) -> usize {
    usize::try_from(priority).map_or(0, |level| level.min(PRIORITIES - 1))
}

/// The jobs of a queue that are due.
#[derive(Default)]
struct Line {
    jobs: BTreeMap<Place, Job>,
    /// How many of each priority.
    counts: [usize; PRIORITIES],
}

/// Jobs that are due. The queues take turns.
#[derive(Default)]
pub struct Ready {
    queues: HashMap<Arc<str>, Line>,
    turns: VecDeque<Arc<str>>,
    len: usize,
}

impl Ready {
    pub fn len(&self) -> usize {
        self.len
    }

    pub fn push(&mut self, job: Job) {
        let place = (Reverse(job.priority), job.due, job.id);
        let line = self.queues.entry(job.queue.clone()).or_insert_with(|| {
            self.turns.push_back(job.queue.clone());
            Line::default()
        });
        // After a lost answer a job may be due twice here. The later fence counts.
        match line.jobs.get(&place) {
            Some(same) if !job.replaces(same) => {}
            Some(_) => drop(line.jobs.insert(place, job)),
            None => {
                line.counts[level(job.priority)] += 1;
                line.jobs.insert(place, job);
                self.len += 1;
            }
        }
    }

    /// The queues, and how many of their jobs have a priority of 0 or more, 1 or more, and so on.
    pub fn counts(&self) -> impl Iterator<Item = (&Arc<str>, [usize; PRIORITIES])> {
        self.queues.iter().map(|(queue, line)| {
            let mut counts = line.counts;
            for level in (1..PRIORITIES).rev() {
                counts[level - 1] += counts[level];
            }
            (queue, counts)
        })
    }

    pub fn jobs(&self) -> impl Iterator<Item = &Job> {
        self.queues.values().flat_map(|line| line.jobs.values())
    }

    /// How many jobs of a queue are due.
    pub fn count(&self, queue: &str) -> usize {
        self.queues.get(queue).map_or(0, |line| line.jobs.len())
    }

    /// Whether a single job is the first of its queue.
    pub fn has_single(&self, is_single: impl Fn(&Job) -> bool) -> bool {
        let mut firsts = self
            .queues
            .values()
            .filter_map(|line| line.jobs.values().next());
        firsts.any(is_single)
    }

    /// Takes one job that is single, or up to a number of others with the same limit.
    /// A batch runs its jobs one after the other: it is one run of each of its queues, which
    /// are returned.
    pub fn take_batch(
        &mut self,
        limits: &mut Limits,
        at_most: usize,
        now: Instant,
        is_single: impl Fn(&Job) -> bool,
    ) -> (Vec<Job>, Vec<Arc<str>>) {
        let (mut batch, mut queues): (Vec<Job>, Vec<Arc<str>>) = Default::default();
        for _ in 0..self.turns.len() {
            let room = limits
                .starts(&self.turns[0], now)
                .min(at_most - batch.len());
            let suits = |first: &Job, job: &Job| {
                !is_single(first) && !is_single(job) && job.batch_limit() == first.batch_limit()
            };
            let taken = self.take_turn(room, suits, &mut batch);
            if let Some((queue, count)) = taken {
                limits.started(&queue, count, 1, now);
                queues.push(queue);
            }
            if batch.len() == at_most || batch.first().is_some_and(&is_single) {
                break;
            }
        }
        (batch, queues)
    }

    /// Takes up to a number of jobs, each of which is a run of its own.
    pub fn take_each(&mut self, limits: &mut Limits, at_most: usize, now: Instant) -> Vec<Job> {
        let mut jobs = Vec::new();
        for _ in 0..self.turns.len() {
            let queue = &self.turns[0];
            let room = limits.starts(queue, now).min(limits.free(queue));
            let room = room.min(at_most - jobs.len());
            if let Some((queue, count)) = self.take_turn(room, |_, _| true, &mut jobs) {
                limits.started(&queue, count, count, now);
            }
        }
        jobs
    }

    /// Takes jobs of the queue whose turn it is, and makes it the last one. They have to suit
    /// the first one that was taken. Returns the queue and their number, if there are any.
    fn take_turn(
        &mut self,
        room: usize,
        suits: impl Fn(&Job, &Job) -> bool,
        into: &mut Vec<Job>,
    ) -> Option<(Arc<str>, usize)> {
        let queue = self.turns.pop_front()?;
        let line = self.queues.get_mut(&queue).expect("it has a turn");
        let mut count = 0;
        while count < room {
            let Some((_, next)) = line.jobs.first_key_value() else {
                break;
            };
            if into.first().is_some_and(|first| !suits(first, next)) {
                break;
            }
            line.counts[level(next.priority)] -= 1;
            into.extend(line.jobs.pop_first().map(|(_, job)| job));
            count += 1;
        }
        self.len -= count;
        if line.jobs.is_empty() {
            self.queues.remove(&queue);
        } else {
            self.turns.push_back(queue.clone());
        }
        (count > 0).then_some((queue, count))
    }
}

/// When the next batch may start. Each batch is a query. So a node that fires many jobs
/// waits a little and gets more of them with one query. A node that fires few does not wait.
pub struct Pace(Instant);

impl Pace {
    /// The time between two batches, in the long run.
    const PERIOD: Duration = Duration::from_micros(6500);

    /// The number of batches that may start at once after a rest.
    const SAVED: u32 = 10;

    /// A batch with this number of jobs does not wait.
    const ENOUGH: usize = 16;

    pub fn new(now: Instant) -> Pace {
        Pace(now)
    }

    /// How long the next batch has to wait while this number of jobs is due. Without a job there
    /// is no batch.
    pub fn wait(&self, due: usize, now: Instant) -> Option<Duration> {
        let wait = self.0.saturating_duration_since(now);
        ((1..Pace::ENOUGH).contains(&due) && !wait.is_zero()).then_some(wait)
    }

    pub fn started(&mut self, now: Instant) {
        let rest = Pace::PERIOD * (Pace::SAVED - 1);
        let earliest = now.checked_sub(rest).unwrap_or(now);
        // Batches that did not wait leave no debt: the few jobs behind a burst of many do not
        // wait longer than others.
        self.0 = self.0.max(earliest).min(now) + Pace::PERIOD;
    }
}

/// The limits that are leased to this node, and the runs that are under way here, also those of queues without
/// limits: a queue may get a limit while its runs are under way.
#[derive(Default)]
pub struct Limits(HashMap<Arc<str>, Limit>);

struct Limit {
    max_running: Option<usize>,
    /// Starts per second.
    rate: Option<f64>,
    running: usize,
    /// Starts that are left.
    tokens: f64,
    refilled: Instant,
}

impl Limit {
    fn none(now: Instant) -> Limit {
        Limit {
            max_running: None,
            rate: None,
            running: 0,
            tokens: 1.0,
            refilled: now,
        }
    }

    fn is_there(&self) -> bool {
        self.max_running.is_some() || self.rate.is_some()
    }

    /// A twentieth of a second's starts at most are saved.
    fn refill(&mut self, now: Instant) {
        if let Some(rate) = self.rate {
            let more = rate * now.duration_since(self.refilled).as_secs_f64();
            self.tokens = (self.tokens + more).min((rate / 20.0).max(1.0));
        }
        self.refilled = now;
    }

    /// How many runs may begin now.
    fn free(&self) -> usize {
        self.max_running
            .map_or(usize::MAX, |max| max.saturating_sub(self.running))
    }
}

impl Limits {
    fn of(&mut self, queue: &Arc<str>, now: Instant) -> &mut Limit {
        let limit = self.0.entry(queue.clone());
        limit.or_insert_with(|| Limit::none(now))
    }

    /// Takes in the limits of all queues that are leased to this node: how many runs at once,
    /// the rate, and how long ago the queue had no start left. None: it never had none.
    pub fn set(
        &mut self,
        limits: impl Iterator<Item = (String, Option<i32>, Option<f64>, Option<f64>)>,
        now: Instant,
    ) {
        let mut kept = HashSet::new();
        for (queue, max_running, rate, rested_s) in limits {
            let queue: Arc<str> = queue.into();
            let limit = self.of(&queue, now);
            limit.max_running = max_running.map(|count| usize::try_from(count).unwrap_or(0));
            if let (None, Some(rate)) = (limit.rate, rate) {
                limit.tokens = rested_s.map_or(1.0, |s| (s * rate).min((rate / 20.0).max(1.0)));
                limit.refilled = now;
            }
            limit.rate = rate;
            kept.insert(queue);
        }
        // The runs that have not ended count if the queue comes back.
        self.0.retain(|queue, limit| {
            if !kept.contains(queue) {
                (limit.max_running, limit.rate) = (None, None);
            }
            limit.is_there() || limit.running > 0
        });
    }

    /// The queues with a rate, and how many seconds ago each had no start left. Below 0: it has
    /// started more than it had.
    pub fn paced(&mut self, now: Instant) -> impl Iterator<Item = (&Arc<str>, f64)> {
        self.0.iter_mut().filter_map(move |(queue, limit)| {
            limit.refill(now);
            limit.rate.map(|rate| (queue, limit.tokens / rate))
        })
    }

    pub fn has(&self, queue: &str) -> bool {
        self.0.get(queue).is_some_and(Limit::is_there)
    }

    /// How many jobs may start now.
    fn starts(&mut self, queue: &str, now: Instant) -> usize {
        let Some(limit) = self.0.get_mut(queue) else {
            return usize::MAX;
        };
        limit.refill(now);
        if limit.free() == 0 {
            return 0;
        }
        limit
            .rate
            .map_or(usize::MAX, |_| limit.tokens.max(0.0) as usize)
    }

    /// How many runs may begin now.
    fn free(&self, queue: &str) -> usize {
        self.0.get(queue).map_or(usize::MAX, Limit::free)
    }

    fn started(&mut self, queue: &Arc<str>, jobs: usize, runs: usize, now: Instant) {
        let limit = self.of(queue, now);
        limit.running += runs;
        if limit.rate.is_some() {
            limit.tokens -= jobs as f64;
        }
    }

    /// A job that was taken has not started. Its run counts until it is finished.
    pub fn not_started(&mut self, queue: &str) {
        if let Some(limit) = self.0.get_mut(queue) {
            limit.tokens += 1.0;
        }
    }

    /// Runs have ended. True if one of the queues has a limit.
    pub fn finished<'q>(&mut self, queues: impl IntoIterator<Item = &'q Arc<str>>) -> bool {
        let mut any = false;
        for queue in queues {
            if let Some(limit) = self.0.get_mut(queue) {
                limit.running = limit.running.saturating_sub(1);
                if limit.is_there() {
                    any = true;
                } else if limit.running == 0 {
                    self.0.remove(queue);
                }
            }
        }
        any
    }

    /// How long until a rate lets one of these jobs start that nothing else stops.
    pub fn next(&self, ready: &Ready, now: Instant) -> Option<Duration> {
        let wait = |queue: &Arc<str>| {
            let limit = self.0.get(queue)?;
            if limit.free() == 0 {
                return None;
            }
            let since = now.duration_since(limit.refilled).as_secs_f64();
            let missing = (1.0 - limit.tokens) / limit.rate? - since;
            Some(Duration::from_secs_f64(missing.clamp(0.0005, 3600.0)))
        };
        ready.turns.iter().filter_map(wait).min()
    }
}

/// When applications are to be woken. A queue has a number below 0, which names its timer.
#[derive(Default)]
pub struct Bells {
    queues: Vec<(String, BTreeSet<Timestamp>)>,
    indices: HashMap<String, usize>,
    ringing: BTreeMap<usize, Timestamp>,
}

fn index(id: i64) -> usize {
    usize::try_from(-1 - id).unwrap_or(usize::MAX)
}

impl Bells {
    /// Takes in all times to come. Returns the numbers of the queues that have one, and whether
    /// one of the times is new.
    pub fn set(&mut self, bells: impl Iterator<Item = (String, Timestamp)>) -> (Vec<i64>, bool) {
        let old: Vec<_> = self
            .queues
            .iter_mut()
            .map(|(_, times)| std::mem::take(times))
            .collect();
        for (queue, at) in bells {
            let index = *self.indices.entry(queue).or_insert_with_key(|queue| {
                self.queues.push((queue.clone(), BTreeSet::new()));
                self.queues.len() - 1
            });
            self.queues[index].1.insert(at);
        }
        let is_new = self.queues.iter().enumerate().any(|(index, (_, times))| {
            old.get(index)
                .map_or(!times.is_empty(), |old| !times.is_subset(old))
        });
        (self.ids(), is_new)
    }

    /// The numbers of the queues that have a time.
    pub fn ids(&self) -> Vec<i64> {
        let all = self.queues.iter().enumerate();
        all.filter(|(_, (_, times))| !times.is_empty())
            .map(|(index, _)| -1 - index as i64)
            .collect()
    }

    pub fn next(&self, id: i64) -> Option<Timestamp> {
        self.queues.get(index(id))?.1.first().copied()
    }

    /// The timer of a queue has expired.
    pub fn expired(&mut self, id: i64, now: Timestamp) {
        let Some((_, times)) = self.queues.get_mut(index(id)) else {
            return;
        };
        while let Some(at) = times.first().copied().filter(|at| *at <= now) {
            times.pop_first();
            self.ringing.insert(index(id), at);
        }
    }

    /// The queues to ring, and the last of their times.
    pub fn take(&mut self) -> Option<(Vec<String>, Timestamp)> {
        let ringing = std::mem::take(&mut self.ringing);
        let at = ringing.values().max().copied()?;
        let queues = ringing.keys().map(|index| self.queues[*index].0.clone());
        Some((queues.collect(), at))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn batches_wait_only_while_there_are_many_and_small() {
        let begin = Instant::now();
        let mut pace = Pace::new(begin);
        let now = begin + Duration::from_secs(1);
        for _ in 0..Pace::SAVED {
            assert_eq!(pace.wait(1, now), None);
            pace.started(now);
        }
        assert_eq!(pace.wait(1, now), Some(Pace::PERIOD));
        assert_eq!(pace.wait(Pace::ENOUGH, now), None);
        assert_eq!(pace.wait(1, now + Pace::PERIOD), None);
        // One batch for each period.
        pace.started(now + Pace::PERIOD);
        let now = now + Pace::PERIOD;
        assert_eq!(pace.wait(1, now), Some(Pace::PERIOD));
        // Batches that did not wait do not delay the jobs behind them.
        for _ in 0..300 {
            assert_eq!(pace.wait(Pace::ENOUGH, now), None);
            pace.started(now);
        }
        assert_eq!(pace.wait(1, now), Some(Pace::PERIOD));
    }
}
