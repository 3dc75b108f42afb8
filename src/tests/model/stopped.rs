//! A thread is stopped for ever before any of its accesses: what the others
//! were promised holds. The stopped call has happened or not; whatever the
//! others have armed fires in time, and the driver's alarm is early enough.

use super::{explore, report, two, Alarm, World};
use crate::core::arm::How;
use crate::core::state::Handle;
use crate::core::tunables::MASK_BITS;
use crate::sync::stopped_before;
use crate::tests::checker::at;
use crate::tests::Waking;
use loom::sync::Arc;
use loom::thread;
use std::sync::atomic::{AtomicBool, Ordering};

struct Scene {
    world: World,
    t: Handle,
    u: Handle,
    alarm: Alarm,
}

impl Scene {
    fn new() -> Scene {
        let (world, t, u) = two();
        Scene {
            world,
            t,
            u,
            alarm: Alarm::new(),
        }
    }

    /// The same where two threads share a bit in the masks of buckets, and a third has a
    /// timer that is due.
    fn crowded() -> Scene {
        let mut s = Scene::new();
        s.world.timer(Some(1));
        for _ in 0..MASK_BITS {
            s.world.tokens[0] = s.world.wheel.attach().unwrap();
        }
        s
    }

    fn arm(&self, n: usize, timer: Handle, tick: u64) -> bool {
        let caller = self.alarm.caller(self.world.tokens[n]);
        self.world
            .wheel
            .arm(&caller, timer, at(tick), How::Always)
            .unwrap()
    }

    /// What another has armed fires in time, unless it is moved.
    fn fires(&self, timer: Handle, tick: u64) {
        let fired = |timer| matches!(self.world.wheel.due(timer), Ok(None));
        self.world.advance(tick);
        assert!(fired(timer), "late or lost");
    }
}

/// `maker` is stopped before each of its accesses in turn, beside `other` and
/// `driver`, to at most the given number of preemptions; then `end` judges.
fn beside_a_stopped_thread<A: Send + 'static>(
    preemptions: usize,
    make: impl Fn() -> Scene + Copy + Send + Sync + 'static,
    maker: impl Fn(&Scene) + Copy + Send + Sync + 'static,
    other: impl Fn(&Scene) -> A + Copy + Send + Sync + 'static,
    driver: impl Fn(&Scene) + Copy + Send + Sync + 'static,
    end: impl Fn(&Scene, A) + Copy + Send + Sync + 'static,
) {
    let mut explored = None;
    for n in 0.. {
        let stopped = std::sync::Arc::new(AtomicBool::new(false));
        let was_stopped = stopped.clone();
        let more = explore(Some(preemptions), move || {
            let s = Arc::new(make());
            let (v, x) = (s.clone(), s.clone());
            let stopped = was_stopped.clone();
            let first = thread::spawn(move || {
                if stopped_before(n, || maker(&v)).is_none() {
                    stopped.store(true, Ordering::Relaxed);
                }
            });
            let second = thread::spawn(move || other(&x));
            driver(&s);
            first.join().unwrap();
            let done = second.join().unwrap();
            end(&s, done);
        });
        explored = Some(explored.map_or(more, |all| all + more));
        if !stopped.load(Ordering::Relaxed) {
            break;
        }
    }
    report(explored.unwrap());
}

/// Race 3: another timer is armed for the same tick, or a later one, while the
/// driver goes to sleep.
#[test]
fn stopped_arm_against_arm_and_sleep() {
    beside_a_stopped_thread(
        2,
        Scene::new,
        |s| _ = s.arm(1, s.t, 3),
        |s| s.arm(0, s.u, 4),
        |s| s.world.sleep(&s.alarm),
        |s, _| {
            assert!(s.alarm.get() <= 4, "asleep over a deadline");
            s.fires(s.u, 4);
        },
    );
}

/// Race 3: the other relies on a promise of the one that is stopped, of the same
/// timer.
#[test]
fn stopped_arm_against_a_thread_that_relies_and_sleep() {
    beside_a_stopped_thread(
        2,
        Scene::new,
        |s| _ = s.arm(1, s.t, 3),
        |s| s.arm(0, s.t, 4),
        |s| s.world.sleep(&s.alarm),
        |s, _| {
            assert!(s.alarm.get() <= 4, "asleep over a deadline");
            s.fires(s.t, 4);
        },
    );
}

/// Races 1 and 2: the timer is armed by both, while the driver sweeps.
#[test]
fn stopped_arm_against_arm_and_sweep() {
    beside_a_stopped_thread(
        2,
        || {
            let s = Scene::new();
            s.arm(1, s.t, 1);
            s
        },
        |s| _ = s.arm(1, s.t, 2),
        |s| s.arm(0, s.u, 1),
        |s| _ = s.world.advance(1),
        |s, _| {
            s.fires(s.u, 2);
            // For the deadline before, or for that of the stopped thread.
            s.world.advance(3);
            assert!(s.world.fired() >= 2, "late or lost");
        },
    );
}

/// Buckets: the other arms into the same bucket, and finds the bit in its mask, which the
/// thread that is stopped has set as its own.
#[test]
fn stopped_arm_against_an_arm_that_shares_its_mark() {
    beside_a_stopped_thread(
        2,
        Scene::crowded,
        |s| _ = s.arm(1, s.t, 3),
        |s| s.arm(0, s.u, 3),
        |_| (),
        |s, _| s.fires(s.u, 3),
    );
}

/// Buckets: the same while the driver empties that bucket. The entry is for its next turn.
#[test]
fn stopped_arm_against_an_arm_that_shares_its_mark_and_sweep() {
    beside_a_stopped_thread(
        2,
        Scene::crowded,
        |s| _ = s.arm(1, s.t, 3),
        |s| s.arm(0, s.u, 3),
        |s| _ = s.world.advance(2),
        |s, _| s.fires(s.u, 3),
    );
}

/// A timer is freed or made by a thread that is stopped: others can still make
/// theirs, which are no one else's.
#[test]
fn stopped_free_and_setup_against_setup() {
    beside_a_stopped_thread(
        2,
        Scene::new,
        |s| {
            let own = Waking(s.world.tokens[1], || ());
            s.world.wheel.free(&own, s.t).unwrap();
            s.world
                .wheel
                .setup(&own, Default::default(), Some(at(2)))
                .unwrap();
        },
        |s| [s.world.timer(Some(1)), s.world.timer(None)],
        |s| _ = s.world.advance(1),
        |s, [a, b]| {
            assert_ne!(a, b);
            s.fires(a, 2);
            assert_eq!(s.world.due(b), 0);
        },
    );
}

/// The other finds the timer that is being armed early enough, and leaves it alone.
#[test]
fn stopped_arm_against_an_arm_that_leaves_it_alone() {
    for how in [How::Earlier, How::Within(at(4) - at(2))] {
        beside_a_stopped_thread(
            1,
            Scene::new,
            |s| _ = s.arm(1, s.t, 3),
            move |s| {
                let caller = s.alarm.caller(s.world.tokens[0]);
                let tick = if how == How::Earlier { 4 } else { 2 };
                let arm = s.world.wheel.arm(&caller, s.t, at(tick), how);
                arm.unwrap()
            },
            |_| (),
            |s, _| s.fires(s.t, 4),
        );
    }
}

/// Race 1: the same, where the one that is stopped relies on a promise that the driver meets.
#[test]
fn stopped_arm_that_relies_against_one_that_leaves_it_alone() {
    beside_a_stopped_thread(
        1,
        || {
            let s = Scene::new();
            s.arm(1, s.t, 1);
            _ = s.world.wheel.cancel(&s.world.own(1), s.t, false);
            s
        },
        |s| _ = s.arm(1, s.t, 3),
        |s| {
            let caller = s.alarm.caller(s.world.tokens[0]);
            s.world
                .wheel
                .arm(&caller, s.t, at(4), How::Earlier)
                .unwrap()
        },
        |s| _ = s.world.advance(1),
        |s, _| s.fires(s.t, 4),
    );
}
