//! The core under the model checker: every interleaving, and every value that
//! the memory model lets a load see, of two or three threads on a wheel of
//! shrunken constants. Each test is named after the race that it covers: those
//! are drawn in `core`.
//!
//! `make loom` runs them. The checker finds where to preempt a thread from the
//! last access to a word alone, and so misses a write of one thread before a
//! read of the other if the writer reads the word first. Each duel is therefore
//! run with either thread going first.

/// Tests that each call one function, with arguments of their own.
macro_rules! tests {
    ($function:ident: $($(#[doc = $doc:literal])* $name:ident($($argument:expr),+);)+) => {
        $($(#[doc = $doc])*
        #[test]
        fn $name() {
            $function($($argument),+);
        })+
    };
}

mod before;
mod cancels;
mod host;
mod keys;
mod memory;
mod owned;
mod pairs;
mod pool;
mod race_1;
mod race_2;
mod race_3;
mod race_4;
mod race_5;
mod race_6;
mod reuse;
mod step;
mod stopped;

use super::checker::{at, called, shape, Futex};
use super::{Everywhere, Waking};
use crate::core::arm::How;
use crate::core::driver::Fired;
use crate::core::life::Spec;
use crate::core::record::{Link, Reason};
use crate::core::state::{index_of, Handle, NEVER};
use crate::core::wheel::Config;
use crate::core::Error;
use crate::core::Thread;
use crate::sync::{stopped_before, AtomicU64, Ordering};
use loom::sync::Arc;
use loom::thread;
// Of the standard library. The model checker takes no access to them for a step, and they order
// nothing.
use std::sync::atomic::{AtomicBool, AtomicU64 as Count};

/// A wheel, the alarm of its driver, and what has fired.
struct World {
    wheel: Everywhere,
    alarm: Alarm,
    fired: AtomicU64,
}

impl World {
    fn new(levels: u32, slot_bits: u32, start: u64) -> World {
        World::of(shape(levels, slot_bits, start))
    }

    fn of(config: Config) -> World {
        World {
            wheel: Everywhere::new(config).unwrap(),
            alarm: Alarm::new(),
            fired: AtomicU64::new(0),
        }
    }

    /// The thread `n`, from 0, whose driver sleeps on the alarm.
    fn own(&self, n: Thread) -> Waking<impl Fn() + '_> {
        self.alarm.caller(n)
    }

    /// A thread that gets no number.
    fn stranger(&self) -> Waking<impl Fn() + '_> {
        Waking(Err(Error::Threads), || self.alarm.set(0))
    }

    fn timer(&self, due: Option<u64>) -> Handle {
        self.make(Spec::default(), due)
    }

    /// A timer with a callback.
    fn called(&self, due: u64) -> Handle {
        self.make(called(1), Some(due))
    }

    /// A timer that the thread `n` makes.
    fn timer_of(&self, n: Thread, due: u64) -> Handle {
        self.make_by(n, Spec::default(), Some(due))
    }

    fn make(&self, spec: Spec, due: Option<u64>) -> Handle {
        self.make_by(0, spec, due)
    }

    fn make_by(&self, n: Thread, spec: Spec, due: Option<u64>) -> Handle {
        self.wheel.setup(&self.own(n), spec, due.map(at)).unwrap()
    }

    /// The driver takes the notes. From then on links name ticks.
    fn collect(&self) {
        let mut drive = self.wheel.drive(0).unwrap();
        let fired = drive.told(self.wheel.hand_ns(), |f| f.handle);
        assert_eq!(fired, [], "early");
    }

    /// How many fire by `target`.
    fn advance(&self, target: u64) -> u64 {
        let in_time = |f: &Fired| assert!(f.deadline_ns <= at(target), "early");
        let n = self.wheel.told(at(target), in_time).len() as u64;
        self.fired.fetch_add(n, Ordering::Relaxed);
        n
    }

    fn fired(&self) -> u64 {
        self.fired.load(Ordering::Relaxed)
    }

    /// An advance to `tick`, by which `number` timers have fired in all.
    fn have_fired(&self, number: u64, tick: u64) {
        self.advance(tick);
        assert_eq!(self.fired(), number, "late or lost");
    }

    /// What is pending fires at `tick`, and not before.
    fn fires_at(&self, tick: u64) {
        assert_eq!(self.advance(tick - 1), 0, "early");
        assert_eq!(self.advance(tick), 1, "late or lost");
    }

    fn arm(&self, n: Thread, timer: Handle, tick: u64) -> bool {
        let was = self.wheel.arm(&self.own(n), timer, at(tick), How::Always);
        was.unwrap()
    }

    /// The short way to arm.
    fn short_arm(&self, n: Thread, timer: Handle, tick: u64) -> bool {
        yes(self.wheel.arm_at(&self.own(n), timer, at(tick)))
    }

    /// Arms a timer that may be gone, by the short way or the long one; the answer.
    fn arm_either_way(&self, n: Thread, timer: Handle, tick: u64, short: bool) -> i32 {
        let own = self.own(n);
        if short {
            return self.wheel.arm_at(&own, timer, at(tick));
        }
        let armed = self.wheel.arm(&own, timer, at(tick), How::Always);
        armed.map_or_else(|e| e as i32, i32::from)
    }

    fn cancel(&self, n: Thread, timer: Handle) -> bool {
        self.try_cancel(n, timer).unwrap()
    }

    /// Cancels a timer that may be gone.
    fn try_cancel(&self, n: Thread, timer: Handle) -> Result<bool, Error> {
        self.wheel.cancel(&self.own(n), timer, false)
    }

    fn free(&self, n: Thread, timer: Handle) -> bool {
        self.wheel.free(&self.own(n), timer).unwrap()
    }

    /// The thread `n` ends a callback.
    fn finish(&self, n: Thread, timer: Handle) {
        self.wheel.finish(&self.own(n), timer, || ());
    }

    /// The short way to cancel.
    fn short_cancel(&self, n: Thread, timer: Handle) -> bool {
        yes(self.wheel.cancel_plain(&self.own(n), timer))
    }

    /// The tick that a timer is due at, or 0.
    fn due(&self, timer: Handle) -> u64 {
        self.wheel.due(timer).unwrap().unwrap_or(0) >> super::checker::TICK_BITS
    }

    /// Fails if the link names a note that the driver has taken: places repeat.
    fn names_no_taken_note(&self, timer: Handle) {
        let link = &self.wheel.slab.hot(index_of(timer)).link;
        if let Reason::Note(place) = Link(link.load(Ordering::Relaxed)).reason() {
            assert!(self.wheel.inboxes.holds(place), "taken: {place:?}");
        }
    }

    /// The driver goes to sleep.
    fn sleep(&self) {
        let mut drive = self.wheel.drive(0).unwrap();
        drive.fall_asleep(|ns| self.alarm.set(ns));
    }

    /// Fails if the driver sleeps until a later tick.
    fn wakes_by(&self, tick: u64) {
        let alarm = self.alarm.get();
        assert!(alarm <= tick, "asleep until {alarm}, over {tick}");
    }
}

/// Whether a timer was pending, of a call that must not fail.
fn yes(answer: i32) -> bool {
    assert!((0..=1).contains(&answer), "refused: {answer}");
    answer == 1
}

/// How many executions there were, and whether `LOOM_MAX_DURATION` cut them off.
#[derive(Clone, Copy, Default)]
struct Explored {
    executions: u64,
    cut_off: bool,
}

impl std::ops::Add for Explored {
    type Output = Explored;
    fn add(self, other: Explored) -> Explored {
        Explored {
            executions: self.executions + other.executions,
            cut_off: self.cut_off || other.cut_off,
        }
    }
}

impl std::fmt::Display for Explored {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let cut_off = if self.cut_off { ", cut off" } else { "" };
        write!(f, "{} executions{cut_off}", self.executions)
    }
}

/// As many preemptions as there can be, also where the others have a bound: a loop that
/// two threads can go on without end is found.
const NO_BOUND: Option<usize> = Some(usize::MAX);

/// Explores `f` to the bound of `LOOM_MAX_PREEMPTIONS`, or to a lower one.
fn explore(preemptions: Option<usize>, f: impl Fn() + Sync + Send + 'static) -> Explored {
    let mut b = loom::model::Builder::new();
    b.max_branches = 20_000;
    // How often it looks at the clock.
    b.checkpoint_interval = 500;
    b.preemption_bound = match (preemptions, b.preemption_bound) {
        (NO_BOUND, _) => None,
        (Some(x), Some(y)) => Some(x.min(y)),
        (x, y) => x.or(y),
    };
    let executions = std::sync::Arc::new(Count::new(0));
    let count = executions.clone();
    let (longest, begin) = (b.max_duration, std::time::Instant::now());
    b.check(move || {
        count.fetch_add(1, Ordering::Relaxed);
        f();
    });
    Explored {
        executions: executions.load(Ordering::Relaxed),
        cut_off: longest.is_some_and(|most| begin.elapsed() >= most),
    }
}

/// The access before which a thread of a test is stopped for good.
struct Stop {
    before: u32,
    /// A thread has come to it.
    was_reached: AtomicBool,
}

impl Stop {
    /// Runs `f` up to that access; `None` if the thread was stopped there.
    fn run<R>(&self, f: impl FnOnce() -> R) -> Option<R> {
        let returned = stopped_before(self.before, f);
        self.was_reached
            .fetch_or(returned.is_none(), Ordering::Relaxed);
        returned
    }
}

/// Explores `f` with a stop before the first access of a thread, before the second one, and so on,
/// until no execution comes to the stop.
fn explore_stops(preemptions: Option<usize>, f: impl Fn(std::sync::Arc<Stop>) + Part) -> Explored {
    let mut explored = Explored::default();
    for before in 0.. {
        let stop = std::sync::Arc::new(Stop {
            before,
            was_reached: AtomicBool::new(false),
        });
        let given = stop.clone();
        explored = explored + explore(preemptions, move || f(given.clone()));
        if !stop.was_reached.load(Ordering::Relaxed) {
            break;
        }
    }
    explored
}

fn report(explored: Explored) {
    let thread = std::thread::current();
    let name = thread.name().unwrap_or("?").rsplit("::").next();
    println!("{}: {explored}", name.unwrap_or("?"));
}

/// A part of a test, which runs anew in each execution.
trait Part: Copy + Send + Sync + 'static {}

impl<F: Copy + Send + Sync + 'static> Part for F {}

/// What the threads of a test share.
trait Shared: Send + Sync + 'static {}

impl<W: Send + Sync + 'static> Shared for W {}

/// What a thread of a test leaves.
trait Left: Send + 'static {}

impl<A: Send + 'static> Left for A {}

/// `f` and `g` at the same time in a world of `make`; then `end` judges.
fn duel<W: Shared, A: Left, B: Left>(
    make: impl Fn() -> W + Part,
    f: impl Fn(&W) -> A + Part,
    g: impl Fn(&W) -> B + Part,
    end: impl Fn(&W, A, B) + Part,
) {
    duel_to(None, make, f, g, end);
}

/// How a test arms a timer: by the long way or the short one.
type Arm = fn(&World, Thread, Handle, u64) -> bool;

/// A duel for each way to arm, with which `f` arms the timer of `make`.
fn duels_of_arms<A: Left, B: Left>(
    make: impl Fn() -> (World, Handle) + Part,
    f: impl Fn(&World, Handle, Arm) -> A + Part,
    g: impl Fn(&World, Handle) -> B + Part,
    end: impl Fn(&World, Handle, A, B) + Part,
) {
    let ways: [Arm; 2] = [World::arm, World::short_arm];
    for arm in ways {
        duel(
            make,
            move |(w, t)| f(w, *t, arm),
            move |(w, t)| g(w, *t),
            move |(w, t), a, b| end(w, *t, a, b),
        );
    }
}

/// `f` and `g` at the same time, to a number of preemptions.
fn duel_to<W: Shared, A: Left, B: Left>(
    preemptions: Option<usize>,
    make: impl Fn() -> W + Part,
    f: impl Fn(&W) -> A + Part,
    g: impl Fn(&W) -> B + Part,
    end: impl Fn(&W, A, B) + Part,
) {
    let first = with_another(preemptions, make, f, g, end);
    let second = with_another(preemptions, make, g, f, move |w, b, a| end(w, a, b));
    report(first + second);
}

/// `first`, the thread of the test, at the same time as another one.
fn with_another<W: Shared, A: Left, B>(
    preemptions: Option<usize>,
    make: impl Fn() -> W + Part,
    other: impl Fn(&W) -> A + Part,
    first: impl Fn(&W) -> B + Part,
    end: impl Fn(&W, A, B) + Part,
) -> Explored {
    explore(preemptions, move || {
        let w = Arc::new(make());
        let v = w.clone();
        let other = thread::spawn(move || other(&v));
        let ended = first(&w);
        end(&w, other.join().unwrap(), ended);
    })
}

/// `f` and `g` at the same time as `first`, the thread of the test.
fn with_two_others<W: Shared, A: Left, B: Left, C>(
    preemptions: Option<usize>,
    make: impl Fn() -> W + Part,
    f: impl Fn(&W) -> A + Part,
    g: impl Fn(&W) -> B + Part,
    first: impl Fn(&W) -> C + Part,
    end: impl Fn(&W, A, B, C) + Part,
) -> Explored {
    explore(preemptions, move || {
        let w = Arc::new(make());
        let (v, x) = (w.clone(), w.clone());
        let a = thread::spawn(move || f(&v));
        let b = thread::spawn(move || g(&x));
        let ended = first(&w);
        end(&w, a.join().unwrap(), b.join().unwrap(), ended);
    })
}

/// A world, after `f` has done something with it.
fn after<W, R>(world: W, f: impl FnOnce(&W) -> R) -> W {
    f(&world);
    world
}

/// A world with one timer, which is armed if `due` says so.
fn one(due: Option<u64>) -> (World, Handle) {
    one_of(Spec::default(), due)
}

fn one_of(spec: Spec, due: Option<u64>) -> (World, Handle) {
    let w = World::new(2, 1, 0);
    let t = w.make(spec, due);
    (w, t)
}

/// All handles are valid, and no two of them share a node.
fn assert_apart(w: &World, made: &[Handle]) {
    let mut nodes: Vec<u32> = made.iter().map(|t| index_of(*t)).collect();
    nodes.sort_unstable();
    nodes.dedup();
    assert_eq!(nodes.len(), made.len(), "two timers in one node");
    assert!(made.iter().all(|t| w.wheel.due(*t).is_ok()));
}

/// The second thread has its chunks, too. Otherwise it would not arm by the short way.
fn with_chunks(start: (World, Handle)) -> (World, Handle) {
    after(start, |(w, _)| w.wheel.inboxes.reserve(2).unwrap())
}

/// A world with one timer, which has an entry in the wheel.
fn placed(due: u64) -> (World, Handle) {
    after(with_chunks(one(Some(due))), |(w, _)| w.collect())
}

/// A world with one timer, which rests, and has an entry in the wheel.
fn resting(due: u64) -> (World, Handle) {
    after(placed(due), |(w, t)| assert!(w.cancel(0, *t)))
}

/// Both: the timer has a note, or an entry.
const STARTS: [fn(u64) -> (World, Handle); 2] = [|due| one(Some(due)), placed];

/// A world whose callbacks run in other threads, with timers whose callbacks run.
fn running<const N: usize>() -> (World, [Handle; N]) {
    let w = pooled();
    let timers = std::array::from_fn(|n| w.make(called(n + 1), Some(1)));
    assert_eq!(w.advance(1), N as u64);
    (w, timers)
}

/// A world whose callbacks run in other threads.
fn pooled() -> World {
    World::of(Config {
        pooled: true,
        ..shape(2, 1, 0)
    })
}

/// A world with two timers.
fn two() -> (World, Handle, Handle) {
    let (w, t) = one(None);
    let u = w.timer(None);
    (w, t, u)
}

/// A spec that differs from others.
fn marked(cookie: u64) -> Spec {
    Spec {
        cookie,
        ..Spec::default()
    }
}

/// How many a drain hands back.
fn drained(w: &World) -> u64 {
    w.wheel.drive(0).unwrap().handed(|_| ()).len() as u64
}

/// Memory that is no atomic: two accesses that are not ordered fail the test.
#[derive(Default)]
struct Plain(loom::cell::UnsafeCell<u64>);

// SAFETY: the checker watches each access.
unsafe impl Sync for Plain {}

impl Plain {
    fn set(&self, value: u64) {
        // SAFETY: as above.
        self.0.with_mut(|p| unsafe { *p = value });
    }
    fn get(&self) -> u64 {
        // SAFETY: as above.
        self.0.with(|p| unsafe { *p })
    }
}

/// The system's alarm: nanoseconds, 0 for now. Weaker than the kernel's, which has a
/// lock: the wheel counts on nothing but that its settings have an order.
struct Alarm(AtomicU64);

impl Alarm {
    fn new() -> Self {
        Alarm(AtomicU64::new(NEVER))
    }
    fn set(&self, ns: u64) {
        self.0.store(ns, Ordering::Relaxed);
    }
    /// The tick that it rings at.
    fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed) >> super::checker::TICK_BITS
    }
    /// The thread `n`, whose driver sleeps on it.
    fn caller(&self, n: Thread) -> Waking<impl Fn() + '_> {
        Waking(Ok(n + 1), || self.set(0))
    }
}

/// Waits by looking again.
fn spin(word: &AtomicU64, seen: u64) {
    while word.load(Ordering::Acquire) == seen {
        thread::yield_now();
    }
}

/// Two threads drive in turn, each after the one before, or one of them may not.
#[test]
fn driver_against_driver() {
    duel(
        || (one(None), Plain::default()),
        |((w, _), plain)| w.wheel.drive(0).map(|_drive| plain.set(1)).is_ok(),
        |((w, _), plain)| w.wheel.drive(0).map(|_drive| plain.set(2)).is_ok(),
        |_, a, b| assert!(a || b),
    );
}
