//! The core under the model checker: every interleaving, and every value that
//! the memory model lets a load see, of two or three threads on a wheel of
//! shrunken constants. Each test is named after the race that it covers; races
//! 1 to 4 are drawn in `wheel.rs`.
//!
//! `make loom` runs them. The checker finds where to preempt a thread from the
//! last access to a word alone, and so misses a write of one thread before a
//! read of the other if the writer reads the word first. Each duel is therefore
//! run with either thread going first.

mod memory;
mod pairs;

use super::{at, config, Heap, Own, Spin};
use crate::keys::{Keys, Target, Timers};
use crate::ring::Ring;
use crate::slab::AUTO;
use crate::state::{NEVER, SHUT};
use crate::sweep::Fired;
use crate::sync::{AtomicU32, AtomicU64, Ordering};
use crate::wheel::{Caller, Error, Handle, How, Park, Spec, Token, Wheel};
use loom::sync::Arc;
use loom::thread;

/// A wheel with a token for each thread, and what has fired.
struct World {
    wheel: Wheel<Heap>,
    tokens: [Token; 2],
    fired: AtomicU64,
}

// SAFETY: each thread uses its own token.
unsafe impl Send for World {}
// SAFETY: as above.
unsafe impl Sync for World {}

impl World {
    fn new(levels: u32, slot_bits: u32, start: u64) -> World {
        let wheel = Wheel::new(Heap, config(levels, slot_bits, start)).unwrap();
        let tokens = [wheel.attach().unwrap(), wheel.attach().unwrap()];
        World {
            wheel,
            tokens,
            fired: AtomicU64::new(0),
        }
    }

    fn own(&self, n: usize) -> Own {
        Own(self.tokens[n])
    }

    /// The driver as a caller: it has a shard of its own.
    fn driver(&self) -> Own {
        Own(Token(self.wheel.own().as_ptr()))
    }

    fn timer(&self, due: Option<u64>) -> Handle {
        let spec = Spec::default();
        self.wheel.setup(&self.own(0), spec, due.map(at)).unwrap()
    }

    /// How many fire by `target`.
    fn advance(&self, target: u64) -> u64 {
        let mut n = 0;
        let mut last = 0;
        if !self.wheel.nothing_due(target) {
            self.wheel.drive().unwrap().advance(target, |f: &Fired| {
                assert!(f.tick <= target && f.tick >= last);
                last = f.tick;
                n += 1;
                if f.func != 0 {
                    self.wheel.finish(&self.driver(), f.handle, &Spin);
                }
                true
            });
        }
        self.fired.fetch_add(n, Ordering::Relaxed);
        n
    }

    fn fired(&self) -> u64 {
        self.fired.load(Ordering::Relaxed)
    }

    fn arm(&self, n: usize, timer: Handle, tick: u64) -> bool {
        self.wheel
            .arm(&self.own(n), timer, at(tick), How::Always)
            .unwrap()
    }

    fn cancel(&self, n: usize, timer: Handle) -> bool {
        self.wheel.cancel(&self.own(n), timer, 0).unwrap()
    }
}

/// How many executions there were, and whether `LOOM_MAX_DURATION` cut them off.
#[derive(Clone, Copy)]
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

/// Explores `f` to the bound of `LOOM_MAX_PREEMPTIONS`, or without one.
fn explore(preemptions: Option<usize>, f: impl Fn() + Sync + Send + 'static) -> Explored {
    let mut b = loom::model::Builder::new();
    b.max_branches = 20_000;
    b.preemption_bound = match (preemptions, b.preemption_bound) {
        (Some(x), Some(y)) => Some(x.min(y)),
        (x, y) => x.or(y),
    };
    let executions = std::sync::Arc::new(std::sync::atomic::AtomicU64::new(0));
    let count = executions.clone();
    let (longest, begin) = (b.max_duration, std::time::Instant::now());
    b.check(move || {
        count.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        f();
    });
    Explored {
        executions: executions.load(std::sync::atomic::Ordering::Relaxed),
        cut_off: longest.is_some_and(|most| begin.elapsed() >= most),
    }
}

fn report(explored: Explored) {
    let thread = std::thread::current();
    let name = thread.name().unwrap_or("?").rsplit("::").next();
    println!("{}: {explored}", name.unwrap_or("?"));
}

/// `f` and `g` at the same time in a world of `make`; then `end` judges.
fn duel<W, A, B>(
    make: impl Fn() -> W + Copy + Send + Sync + 'static,
    f: impl Fn(&W) -> A + Copy + Send + Sync + 'static,
    g: impl Fn(&W) -> B + Copy + Send + Sync + 'static,
    end: impl Fn(&W, A, B) + Copy + Send + Sync + 'static,
) where
    W: Send + Sync + 'static,
    A: Send + 'static,
    B: Send + 'static,
{
    let first = explore(None, move || {
        let w = Arc::new(make());
        let v = w.clone();
        let a = thread::spawn(move || f(&v));
        let b = g(&w);
        end(&w, a.join().unwrap(), b);
    });
    let second = explore(None, move || {
        let w = Arc::new(make());
        let v = w.clone();
        let b = thread::spawn(move || g(&v));
        let a = f(&w);
        end(&w, a, b.join().unwrap());
    });
    report(first + second);
}

/// A world with one timer, which is armed if `due` says so.
fn one(due: Option<u64>) -> (World, Handle) {
    let w = World::new(2, 1, 0);
    let t = w.timer(due);
    (w, t)
}

/// Race 1: a timer is moved later, trusting the promise it has, while the
/// driver visits that promise.
#[test]
fn race_1_rearm_later_against_visit() {
    duel(
        || one(Some(1)),
        |(w, t)| w.arm(0, *t, 3),
        |(w, _)| w.advance(1),
        |(w, t), was, _| {
            w.advance(3);
            assert_eq!(w.fired(), if was { 1 } else { 2 });
            assert_eq!(w.wheel.due(*t).unwrap().map(|d| d.tick), None);
        },
    );
}

/// Race 1: a timer is cancelled and armed again while its promise is visited.
#[test]
fn race_1_cancel_and_arm_against_visit() {
    duel(
        || one(Some(1)),
        |(w, t)| {
            let cancelled = w.cancel(0, *t);
            assert!(!w.arm(0, *t, 2));
            cancelled
        },
        |(w, _)| w.advance(2),
        |(w, _), cancelled, _| {
            w.advance(9);
            assert_eq!(w.fired(), if cancelled { 1 } else { 2 });
        },
    );
}

/// Race 2: a first promise is pushed while the hand passes its tick; with a
/// cascade on the way.
#[test]
fn race_2_arm_against_sweep() {
    for tick in [1, 2, 3] {
        duel(
            || one(None),
            move |(w, t)| w.arm(0, *t, tick),
            |(w, _)| w.advance(2),
            |(w, _), was, _| {
                assert!(!was);
                w.advance(8);
                assert_eq!(w.fired(), 1);
            },
        );
    }
}

/// Race 2 with another timer due in the same or in another shard, so that the
/// driver is sweeping indeed, and perhaps the very bucket that is pushed into.
/// Four slots: a bucket that was missed would be met again too late.
#[test]
fn race_2_arm_against_sweep_under_way() {
    for (shard, tick) in [(0, 1), (0, 2), (1, 1), (1, 2)] {
        duel(
            || {
                let w = World::new(1, 2, 0);
                let t = w.timer(None);
                w.timer(Some(1));
                w.timer(Some(2));
                (w, t)
            },
            move |(w, t)| w.arm(shard, *t, tick),
            |(w, _)| w.advance(2),
            |(w, _), was, _| {
                assert!(!was);
                w.advance(3);
                assert_eq!(w.fired(), 3, "late or lost");
            },
        );
    }
}

/// The same with a cascade: the bucket on the upper level is being emptied.
#[test]
fn race_2_arm_against_cascade_under_way() {
    for shard in [0, 1] {
        duel(
            || {
                let w = World::new(2, 1, 0);
                let t = w.timer(None);
                w.timer(Some(2));
                (w, t)
            },
            move |(w, t)| w.arm(shard, *t, 3),
            |(w, _)| w.advance(2),
            |(w, _), was, _| {
                assert!(!was);
                w.advance(3);
                assert_eq!(w.fired(), 2, "late or lost");
            },
        );
    }
}

/// Race 2 on the hashed wheel, over its wrap, beside another timer.
#[test]
fn race_2_arm_against_sweep_over_the_wrap() {
    const BASE: u64 = (1 << 32) - 1;
    duel(
        || {
            let w = World::new(1, 1, BASE);
            w.timer(Some(BASE + 3));
            let t = w.timer(None);
            (w, t)
        },
        |(w, t)| w.arm(1, *t, BASE + 2),
        |(w, _)| w.advance(BASE + 3),
        |(w, _), was, _| {
            assert!(!was);
            w.advance(BASE + 9);
            assert_eq!(w.fired(), 2);
        },
    );
}

/// A timer is moved earlier while the driver sweeps over both deadlines.
#[test]
fn race_2_rearm_earlier_against_sweep() {
    duel(
        || one(Some(3)),
        |(w, t)| w.arm(1, *t, 1),
        |(w, _)| w.advance(3),
        |(w, _), was, _| {
            w.advance(8);
            assert_eq!(w.fired(), if was { 1 } else { 2 });
        },
    );
}

/// Two threads move one timer; the driver sweeps afterwards.
#[test]
fn race_2_two_threads_arm_one_timer() {
    duel(
        || one(None),
        |(w, t)| w.arm(0, *t, 2),
        |(w, t)| w.arm(1, *t, 1),
        |(w, t), a, b| {
            assert!(a != b);
            let due = w.wheel.due(*t).unwrap().unwrap().tick;
            assert_eq!(w.advance(due - 1), 0);
            assert_eq!(w.advance(due), 1);
            assert_eq!(w.advance(9), 0);
        },
    );
}

/// One of cancel and fire has it.
#[test]
fn cancel_against_fire() {
    duel(
        || one(Some(2)),
        |(w, t)| w.cancel(1, *t),
        |(w, _)| w.advance(2),
        |(w, _), cancelled, _| {
            w.advance(9);
            assert_eq!(u64::from(cancelled) + w.fired(), 1);
        },
    );
}

/// A stale cancel does not touch the next user of the node, nor its promise.
#[test]
fn free_and_reuse_against_stale_cancel() {
    duel(
        || one(Some(2)),
        |(w, t)| w.wheel.cancel(&w.own(1), *t, 0),
        |(w, t)| {
            assert!(w.wheel.free(&w.own(0), *t).is_ok());
            w.timer(Some(2))
        },
        |(w, t), cancelled, next| {
            assert_ne!(next, *t);
            assert_eq!(Wheel::<Heap>::index_of(next), Wheel::<Heap>::index_of(*t));
            assert!(matches!(cancelled, Ok(true) | Err(Error::Stale)));
            assert_eq!(w.advance(2), 1);
        },
    );
}

/// A timer is moved by the short way, which counts the move after it has let go
/// of the node: the node may be free by then, and is handed out once all the
/// same.
#[test]
fn free_and_reuse_against_a_move_without_a_push() {
    duel(
        || one(Some(2)),
        |(w, t)| w.wheel.rearm(*t, at(3), |_| (), || (), |_| (), || ()),
        |(w, t)| {
            assert!(w.wheel.free(&w.own(0), *t).is_ok());
            [w.timer(None), w.timer(None)]
        },
        |(w, _), (), made| {
            let [a, b] = made.map(Wheel::<Heap>::index_of);
            assert_ne!(a, b);
            assert_eq!(w.wheel.live(), 2);
        },
    );
}

/// A world with one timer that frees itself.
fn auto(func: usize, period: u64) -> (World, Handle) {
    let w = World::new(2, 1, 0);
    let spec = Spec {
        func,
        period,
        kind: AUTO,
        ..Spec::default()
    };
    let t = w.wheel.setup(&w.own(0), spec, Some(at(1))).unwrap();
    (w, t)
}

/// A timer that frees itself is cancelled while it fires.
#[test]
fn cancel_against_fire_of_a_timer_that_frees_itself() {
    duel(
        || auto(0, 0),
        |(w, t)| w.wheel.cancel(&w.own(1), *t, 0),
        |(w, _)| w.advance(1),
        |(w, _), cancelled, fired| {
            match cancelled {
                Ok(true) => assert_eq!(fired, 0),
                Err(Error::Stale) => assert_eq!(fired, 1),
                other => panic!("{other:?}"),
            }
            assert_eq!(w.wheel.live(), 0);
        },
    );
}

/// A periodic timer is cancelled from elsewhere while its callback runs: it
/// does not come back.
#[test]
fn cancel_against_the_callback_of_a_periodic_timer() {
    duel(
        || auto(1, 1),
        |(w, t)| w.wheel.cancel(&w.own(1), *t, 0),
        |(w, _)| w.advance(1),
        |(w, _), cancelled, ran| {
            assert_eq!(cancelled, Ok(true), "it is always pending");
            assert!(ran <= 1);
            assert_eq!(w.advance(4), 0);
            assert_eq!(w.wheel.live(), 0);
        },
    );
}

/// The system's alarm: a tick, 0 for now. Under a mutex, as the kernel's is.
struct Alarm(loom::sync::Mutex<u64>);

impl Alarm {
    fn new() -> Self {
        Alarm(loom::sync::Mutex::new(NEVER))
    }
    fn set(&self, tick: u64) {
        *self.0.lock().unwrap() = tick;
    }
    fn get(&self) -> u64 {
        *self.0.lock().unwrap()
    }
}

/// A caller whose driver can sleep.
struct Sleeper<'a> {
    token: Token,
    alarm: &'a Alarm,
}

impl Caller for Sleeper<'_> {
    fn token(&self) -> Result<Token, Error> {
        Ok(self.token)
    }
    fn wake_driver(&self) {
        self.alarm.set(0);
    }
}

/// The driver goes to sleep while `t` is armed to `tick` through a shard. It
/// sleeps no longer than that; and a second look says so, too.
fn sleep_against_arm(
    make: impl Fn() -> (World, Handle) + Copy + Send + Sync + 'static,
    shard: usize,
    tick: u64,
) {
    duel(
        move || {
            let (w, t) = make();
            (w, t, Alarm::new())
        },
        move |(w, t, alarm)| {
            let caller = Sleeper {
                token: w.tokens[shard],
                alarm,
            };
            w.wheel.arm(&caller, *t, at(tick), How::Always).unwrap()
        },
        |(w, _, alarm)| {
            w.wheel.drive().unwrap().settle();
            w.wheel.doze(1 << 36, |tick| alarm.set(tick));
        },
        move |(w, _, alarm), _, ()| {
            assert!(alarm.get() <= tick, "asleep until {}", alarm.get());
            w.wheel.awake();
            w.wheel.drive().unwrap().settle();
            w.wheel.doze(1 << 36, |tick| alarm.set(tick));
            assert!(alarm.get() <= tick);
            assert!(w.advance(tick) >= 1);
        },
    );
}

/// Race 3: a new earliest.
#[test]
fn race_3_sleep_against_arm() {
    sleep_against_arm(
        || {
            let (w, t) = one(None);
            w.timer(Some(7));
            (w, t)
        },
        1,
        3,
    );
}

/// Race 3 in one bucket: what the driver looks at early is just being pushed,
/// beside a promise that nobody wants.
#[test]
fn race_3_settle_against_arm_in_one_bucket() {
    sleep_against_arm(
        || {
            let (w, t) = one(None);
            let gone = w.timer(Some(3));
            w.cancel(0, gone);
            (w, t)
        },
        0,
        3,
    );
}

/// The same with a promise that is being outlived: settle moves it while the
/// timer is moved back.
#[test]
fn race_3_settle_against_rearm() {
    sleep_against_arm(
        || {
            let (w, t) = one(Some(1));
            w.arm(0, t, 3);
            (w, t)
        },
        0,
        2,
    );
}

/// A driver that wakes, fires and sleeps again, while the thread whose arm has
/// woken it is still arming; then the next arm must wake it, too.
#[test]
fn race_3_two_arms_against_a_driver_that_sleeps_again() {
    duel(
        || {
            let (w, t) = one(None);
            (w, t, Alarm::new())
        },
        |(w, t, alarm)| {
            let caller = Sleeper {
                token: w.tokens[1],
                alarm,
            };
            w.wheel.arm(&caller, *t, at(1), How::Always).unwrap()
        },
        |(w, _, alarm)| {
            w.wheel.doze(1 << 36, |tick| alarm.set(tick));
            w.wheel.awake();
            w.advance(2);
            w.wheel.drive().unwrap().settle();
            w.wheel.doze(1 << 36, |tick| alarm.set(tick));
        },
        |(w, t, alarm), _, ()| {
            if w.fired() == 0 {
                assert!(alarm.get() <= 3);
                return;
            }
            let caller = Sleeper {
                token: w.tokens[0],
                alarm,
            };
            w.wheel.arm(&caller, *t, at(4), How::Always).unwrap();
            assert!(alarm.get() <= 4, "asleep until {}", alarm.get());
        },
    );
}

/// Asking for the next expiry beside a driver that fires and goes to sleep: the
/// answer is never later than the truth, and the sleep is not spoilt.
#[test]
fn race_3_sleep_against_asking() {
    duel(
        || {
            let (w, _) = one(Some(1));
            w.timer(Some(5));
            (w, Alarm::new())
        },
        |(w, _)| w.wheel.next_while_driven(),
        |(w, alarm)| {
            w.advance(1);
            let mut drive = w.wheel.drive().unwrap();
            drive.settle();
            w.wheel.doze(1 << 36, |tick| alarm.set(tick));
        },
        |(_, alarm), next, ()| {
            assert!(next <= 5, "next at {next}");
            assert_eq!(alarm.get(), 5);
        },
    );
}

/// The same, from another thread that may drive: what it asks does not make an
/// arm or an advance believe that nothing is due.
#[test]
fn race_3_asking_against_arm() {
    duel(
        || one(Some(4)),
        |(w, t)| w.arm(1, *t, 2),
        |(w, _)| w.wheel.drive().unwrap().next(),
        |(w, _), _, next| {
            assert!(next <= 4);
            assert!(!w.wheel.nothing_due(2));
            assert_eq!(w.advance(2), 1);
        },
    );
}

/// Race 3 against an ordinary advance: what it leaves as the next visit is not
/// later than what was armed meanwhile.
#[test]
fn race_3_next_visit_against_arm() {
    duel(
        || {
            let (w, t) = one(None);
            w.timer(Some(1));
            (w, t)
        },
        |(w, t)| w.arm(1, *t, 3),
        |(w, _)| w.advance(1),
        |(w, _), _, _| {
            assert!(!w.wheel.nothing_due(3));
            assert_eq!(w.advance(3), 1);
        },
    );
}

/// Two threads arm one timer for the same tick, and one of them then drives: it
/// trusts a promise of the other only once that can be met.
#[test]
fn race_2_arm_and_sweep_against_arm_for_the_same_tick() {
    duel(
        || one(None),
        |(w, t)| w.arm(0, *t, 2),
        |(w, t)| {
            let was = w.arm(1, *t, 2);
            let due = |t| w.wheel.due(t).unwrap().map_or(0, |d| d.tick);
            assert!(w.advance(2) == 1 || due(*t) > 2, "trusted and not met");
            was
        },
        |(w, _), a, b| {
            w.advance(9);
            assert_eq!(w.fired(), if a || b { 1 } else { 2 });
        },
    );
}

/// Race 2 in a leap too long to tell entries apart: what is pushed into a bucket
/// that is being emptied for another round is kept.
#[test]
fn race_2_push_against_a_leap() {
    const LEAP: u64 = 1 << 28;
    duel(
        || {
            let w = World::new(1, 1, 0);
            // In the same bucket of the same shard.
            w.arm(1, w.timer(None), 1);
            let t = w.timer(None);
            (w, t)
        },
        |(w, t)| w.arm(1, *t, LEAP + 3),
        |(w, _)| w.advance(LEAP),
        |(w, _), _, fired| {
            assert_eq!(fired, 1);
            assert_eq!(w.advance(LEAP + 2), 0);
            assert_eq!(w.advance(LEAP + 3), 1);
        },
    );
}

/// Dead entries are swept while their timer is armed again: no promise is lost,
/// published or not.
#[test]
fn tidying_against_arm() {
    duel(
        || {
            let (w, t) = one(None);
            for tick in [6, 5, 4] {
                w.arm(1, t, tick);
            }
            w.wheel.hot.tidy.store(1, Ordering::Relaxed);
            w.wheel.hot.next_visit.store(0, Ordering::Relaxed);
            (w, t)
        },
        |(w, t)| w.arm(1, *t, 3),
        |(w, _)| w.advance(1),
        |(w, _), was, fired| {
            assert!(was && fired == 0);
            assert_eq!(w.advance(2), 0);
            assert_eq!(w.advance(3), 1);
            assert_eq!(w.advance(9), 0);
        },
    );
}

/// How many a drain hands back.
fn drained(w: &World) -> u64 {
    let mut handed = 0;
    assert!(w.wheel.drive().unwrap().drain(|_| {
        handed += 1;
        true
    }));
    handed
}

/// Race 4: what an arm under way has armed is handed back, or the arm refused.
#[test]
fn race_4_arm_against_drain() {
    duel(
        || one(None),
        |(w, t)| w.wheel.arm(&w.own(1), *t, at(3), How::Always),
        |(w, _)| drained(w),
        |(w, t), armed, handed| {
            assert_eq!(drained(w), 0, "left to a second drain");
            match armed {
                Ok(false) => assert_eq!(handed, 1),
                Err(Error::Shutdown) => assert_eq!(handed, 0),
                other => panic!("{other:?}"),
            }
            assert!(w.wheel.due(*t).unwrap().is_none());
        },
    );
}

/// Race 4 with a node that was never used before.
#[test]
fn race_4_setup_against_drain() {
    duel(
        || World::new(2, 1, 0),
        |w| {
            let due = Some(at(3));
            w.wheel.setup(&w.own(1), Spec::default(), due)
        },
        |w| drained(w),
        |w, made, handed| match made {
            Ok(t) => {
                assert_eq!(handed, 1, "armed and forgotten");
                assert!(w.wheel.due(t).unwrap().is_none());
            }
            Err(Error::Shutdown) => assert_eq!(handed, 0),
            other => panic!("{other:?}"),
        },
    );
}

/// Waits as on a futex: who is not woken waits for ever, and the checker says
/// so.
#[derive(Default)]
struct Futex {
    lock: loom::sync::Mutex<()>,
    woken: loom::sync::Condvar,
}

impl Park for Futex {
    fn wait(&self, word: &AtomicU64, seen: u64) {
        let held = self.lock.lock().unwrap();
        if word.load(Ordering::Relaxed) == seen {
            drop(self.woken.wait(held).unwrap());
        }
    }
    fn wake(&self, _: &AtomicU64) {
        drop(self.lock.lock().unwrap());
        self.woken.notify_all();
    }
}

/// After a sync delete the callback is over and does not begin.
#[test]
fn sync_delete_against_callback() {
    for leave in [0, SHUT] {
        duel(
            || {
                let w = World::new(2, 1, 0);
                let spec = Spec {
                    func: 1,
                    ..Spec::default()
                };
                let t = w.wheel.setup(&w.own(0), spec, Some(at(1))).unwrap();
                let callback = (AtomicU32::new(0), AtomicU32::new(0));
                (w, t, Futex::default(), callback)
            },
            move |(w, t, futex, (inside, ran))| {
                let was = w.wheel.cancel_sync(&w.own(0), *t, leave, futex).unwrap();
                assert_eq!(inside.load(Ordering::Relaxed), 0, "still running");
                (was, ran.load(Ordering::Relaxed))
            },
            |(w, _, futex, (inside, ran))| {
                w.wheel.drive().unwrap().advance(1, |f: &Fired| {
                    inside.store(1, Ordering::Relaxed);
                    ran.fetch_add(1, Ordering::Relaxed);
                    inside.store(0, Ordering::Relaxed);
                    w.wheel.finish(&w.driver(), f.handle, futex);
                    true
                })
            },
            |(_, _, _, (_, ran)), (was, before), _| {
                assert_eq!(ran.load(Ordering::Relaxed), before, "it began afterwards");
                assert_eq!(before, u32::from(!was));
            },
        );
    }
}

/// Race 5: a timer is due again while its callback runs in a worker. It is fired
/// after that, and never in two threads at once.
#[test]
fn race_5_due_again_against_the_end_of_a_callback() {
    duel(
        || {
            let w = World::new(2, 1, 0);
            let spec = Spec {
                func: 1,
                ..Spec::default()
            };
            let t = w.wheel.setup(&w.own(0), spec, Some(at(1))).unwrap();
            // The worker has it.
            w.wheel.drive().unwrap().advance(1, |_: &Fired| true);
            w.arm(0, t, 2);
            (w, t)
        },
        |(w, t)| w.wheel.finish(&w.own(1), *t, &Spin),
        |(w, _)| w.advance(2),
        |(w, _), (), early| {
            assert!(early <= 1);
            assert_eq!(early + w.advance(4), 1);
        },
    );
}

/// The queue from the driver to two workers: each timer goes to one of them, in
/// order, and a full queue takes none.
#[test]
fn queue_of_the_pool() {
    fn one(n: u64) -> Fired {
        Fired {
            handle: n,
            func: 1,
            cookie: !n,
            tick: n,
            due_ns: n,
            missed: 0,
            kind: 0,
        }
    }
    loom::model(|| {
        let ring = Arc::new(Ring::new(&Heap, 2).unwrap());
        let workers: Vec<_> = (0..2)
            .map(|_| {
                let ring = ring.clone();
                thread::spawn(move || ring.pop())
            })
            .collect();
        let mut pushed: Vec<u64> = (1..=3).filter(|n| ring.push(&one(*n))).collect();
        assert!(pushed.starts_with(&[1, 2]));
        let mut popped = Vec::new();
        for worker in workers {
            popped.extend(worker.join().unwrap());
        }
        popped.sort_unstable_by_key(|f| f.handle);
        while let Some(f) = ring.pop() {
            popped.push(f);
        }
        pushed.retain(|n| !popped.contains(&one(*n)));
        assert!(pushed.is_empty() && ring.len() == 0);
        assert!(popped.windows(2).all(|f| f[0].handle < f[1].handle));
        // SAFETY: the only user.
        unsafe { ring.unmap(&Heap) };
    });
}

/// A shard goes from a thread that ends to one that begins, entries and all.
#[test]
fn shard_hand_over() {
    duel(
        || {
            let (w, t) = one(None);
            let u = w.timer(None);
            (w, t, u)
        },
        |(w, t, _)| {
            w.arm(1, *t, 2);
            w.wheel.detach(w.tokens[1]);
        },
        |(w, _, u)| {
            let token = w.wheel.attach().unwrap();
            w.wheel.arm(&Own(token), *u, at(2), How::Always).unwrap()
        },
        |(w, _, _), (), _| assert_eq!(w.advance(2), 2),
    );
}

/// A free list is taken by one thread while its owner uses it.
#[test]
fn steal_against_setup() {
    duel(
        || {
            let (w, first) = one(None);
            w.wheel.free(&w.own(0), first).unwrap();
            w
        },
        |w| w.wheel.setup(&w.own(1), Spec::default(), None).unwrap(),
        |w| w.timer(None),
        |w, theirs, mine| {
            let index = Wheel::<Heap>::index_of;
            assert_ne!(index(mine), index(theirs));
            assert_eq!(w.wheel.live(), 2);
        },
    );
}

/// Three threads: two arm timers of their own, one of which is cascaded, while
/// the driver sweeps. At three preemptions.
#[test]
fn race_2_two_arms_against_sweep() {
    let make = || {
        let w = World::new(2, 1, 0);
        let (t, u) = (w.timer(None), w.timer(None));
        Arc::new((w, t, u))
    };
    let end = |w: &World| {
        w.advance(8);
        assert_eq!(w.fired(), 2);
    };
    let first = explore(Some(3), move || {
        let w = make();
        let (v, x) = (w.clone(), w.clone());
        let a = thread::spawn(move || v.0.arm(0, v.1, 1));
        let b = thread::spawn(move || x.0.arm(1, x.2, 2));
        w.0.advance(2);
        a.join().unwrap();
        b.join().unwrap();
        end(&w.0);
    });
    let second = explore(Some(3), move || {
        let w = make();
        let (v, x) = (w.clone(), w.clone());
        let a = thread::spawn(move || v.0.advance(2));
        let b = thread::spawn(move || x.0.arm(1, x.2, 2));
        w.0.arm(0, w.1, 1);
        a.join().unwrap();
        b.join().unwrap();
        end(&w.0);
    });
    report(first + second);
}

/// Three threads on one timer: arm, cancel, sweep. At three preemptions.
#[test]
fn arm_and_cancel_against_fire() {
    let end = |w: &World, cancelled: bool| {
        w.advance(8);
        assert_eq!(u64::from(cancelled) + w.fired(), 1);
    };
    let first = explore(Some(3), move || {
        let w = Arc::new(one(None));
        let (v, x) = (w.clone(), w.clone());
        let a = thread::spawn(move || v.0.arm(0, v.1, 1));
        let b = thread::spawn(move || x.0.cancel(1, x.1));
        w.0.advance(2);
        assert!(!a.join().unwrap());
        end(&w.0, b.join().unwrap());
    });
    let second = explore(Some(3), move || {
        let w = Arc::new(one(None));
        let (v, x) = (w.clone(), w.clone());
        let a = thread::spawn(move || v.0.advance(2));
        let b = thread::spawn(move || x.0.cancel(1, x.1));
        assert!(!w.0.arm(0, w.1, 1));
        a.join().unwrap();
        end(&w.0, b.join().unwrap());
    });
    report(first + second);
}

/// A keyed timer in a world, and what came of the cookies that were set.
struct Keyed {
    world: World,
    keys: Keys,
    ended: AtomicU64,
}

/// A keyed world, as one of its threads sees it.
struct Names<'a>(&'a Keyed, usize);

impl Timers for Names<'_> {
    type When = u64;
    type Error = Error;

    fn make(&self, spec: Spec, when: u64) -> Result<Handle, Error> {
        let w = &self.0.world;
        w.wheel.setup(&w.own(self.1), spec, Some(at(when)))
    }
    fn shift(&self, timer: Handle, when: u64) -> Result<bool, Error> {
        let w = &self.0.world;
        w.wheel.arm(&w.own(self.1), timer, at(when), How::Pending)
    }
    fn end(&self, timer: Handle) -> bool {
        let w = &self.0.world;
        w.wheel.cancel(&w.own(self.1), timer, 0) == Ok(true)
    }
    fn is_pending(&self, timer: Handle) -> bool {
        matches!(self.0.world.wheel.due(timer), Ok(Some(_)))
    }
}

impl Keyed {
    /// With a key that is due at tick 1, and has cookie 1.
    fn new() -> Keyed {
        let k = Keyed {
            world: World::new(2, 1, 0),
            keys: Keys::new(0),
            ended: AtomicU64::new(0),
        };
        assert!(!k.set(0, 0, 1, 1));
        k
    }

    fn set(&self, n: usize, func: usize, cookie: u64, tick: u64) -> bool {
        let target = Target { func, cookie };
        self.keys.set(&Names(self, n), b"k", target, tick).unwrap()
    }

    fn advance(&self, target: u64) {
        let mut drive = self.world.wheel.drive().unwrap();
        drive.advance(target, |f: &Fired| {
            let fired = self.keys.fetch(f).expect("each has its entry");
            let before = self
                .ended
                .fetch_add(1 << (8 * fired.cookie), Ordering::Relaxed);
            assert_eq!(before >> (8 * fired.cookie) & 0xff, 0, "fired twice");
            if f.func != 0 {
                let world = &self.world;
                world.wheel.finish(&world.driver(), f.handle, &Spin);
            }
            true
        });
    }

    /// Fires what is left: so many of the sets must have ended so.
    fn end(&self, fired: u32) {
        self.advance(9);
        assert_eq!(self.ended.load(Ordering::Relaxed).count_ones(), fired);
        assert!(!self.keys.pending(&Names(self, 0), b"k"));
        assert!(self.keys.is_empty());
        assert_eq!(self.world.wheel.live(), 0);
    }
}

/// A key is set again while its timer fires, by moving that timer or, with
/// another function, in its place: each set ends once.
#[test]
fn set_of_a_key_against_fire() {
    for func in [0, 1] {
        for tick in [1, 3] {
            duel(
                Keyed::new,
                move |k| k.set(0, func, 2, tick),
                |k| k.advance(1),
                |k, replaced, ()| k.end(2 - u32::from(replaced)),
            );
        }
    }
}

/// A key is deleted, or moved, while its timer fires.
#[test]
fn delete_and_move_of_a_key_against_fire() {
    duel(
        Keyed::new,
        |k| k.keys.delete(&Names(k, 0), b"k"),
        |k| k.advance(1),
        |k, deleted, ()| k.end(1 - u32::from(deleted)),
    );
    duel(
        Keyed::new,
        |k| k.keys.shift(&Names(k, 0), b"k", 3).unwrap(),
        |k| k.advance(1),
        |k, moved, ()| {
            assert_eq!(k.keys.pending(&Names(k, 0), b"k"), moved);
            k.end(1);
        },
    );
}

/// One thread sets a key, another deletes it, and the driver fires it. At two
/// preemptions.
#[test]
fn set_and_delete_of_a_key_against_fire() {
    let executions = explore(Some(2), || {
        let k = Arc::new(Keyed::new());
        let (v, x) = (k.clone(), k.clone());
        let a = thread::spawn(move || v.set(0, 1, 2, 2));
        let b = thread::spawn(move || x.keys.delete(&Names(&x, 1), b"k"));
        k.advance(2);
        let gone = u32::from(a.join().unwrap()) + u32::from(b.join().unwrap());
        k.end(2 - gone);
    });
    report(executions);
}
