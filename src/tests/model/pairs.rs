//! Every pair of the things that can be done to a timer, at the same time: two
//! operations begin together, on one timer, and the books must balance when
//! both have ended. What was armed has ended once: fired, cancelled, freed or
//! handed back; and the next visit and the alarm are not after the deadline.
//! The thread that cancelled a timer learns it, each time; a synchronous cancel, which may
//! meet its timer again after the wait for the callback, at least once.
//!
//! Each pair meets on two wheels: one of two levels, where the deadline is on the upper one,
//! the driver has made the entry, and the sweep cascades; and one of one level whose hand goes
//! over a wrap, where the note is in the inbox. Triples are at three preemptions.

use super::{explore, Futex, World};
use crate::core::driver::Fired;
use crate::core::life::Spec;
use crate::core::state::Handle;
use crate::core::Error;
use crate::core::Thread;
use crate::sync::{AtomicU32, Ordering};
use crate::tests::checker::{at, called, Waker, TICK_BITS};
use crate::tests::{result, NUMBERS};
use loom::sync::Arc;
use loom::thread;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Op {
    /// Arms a timer that rests.
    Arm,
    Earlier,
    Later,
    Cancel,
    /// Frees the timer, and makes another of its node.
    Reuse,
    /// Arms the timer; then a thread that has taken over the number arms it.
    HandOver,
    /// Waits for the callback.
    SyncDelete,
    /// A sweep up to the deadline.
    Fire,
    /// What the tick thread does before it sleeps.
    Sleep,
    /// Closes the wheel.
    Drain,
}
use Op::*;

const OPS: [Op; 10] = [
    Arm, Earlier, Later, Cancel, Reuse, HandOver, SyncDelete, Fire, Sleep, Drain,
];

/// Two levels, from tick 0; and one level before a wrap of many bits.
const WHEELS: [(u32, u64); 2] = [(2, 0), (1, (1 << 32) - 1)];

/// How many arms an operation has begun, how many fired in it or were handed
/// back, and how many it says that it cancelled.
#[derive(Clone, Copy, Default)]
struct Books {
    armed: u64,
    fired: u64,
    told: u64,
}

impl std::ops::Add for Books {
    type Output = Books;
    fn add(self, other: Books) -> Books {
        Books {
            armed: self.armed + other.armed,
            fired: self.fired + other.fired,
            told: self.told + other.told,
        }
    }
}

fn armed(armed: u64) -> Books {
    Books {
        armed,
        ..Books::default()
    }
}

fn fired(fired: u64) -> Books {
    Books {
        fired,
        ..Books::default()
    }
}

struct Scene {
    world: World,
    base: u64,
    timer: Handle,
    futex: Futex,
    /// 1 while the callback runs.
    inside: AtomicU32,
}

impl Scene {
    fn new(ops: &[Op], (levels, base): (u32, u64), is_placed: bool) -> (Scene, Books) {
        let world = World::new(levels, 1, base);
        let mut books = Books::default();
        let mut make = |number, due| {
            books.armed += u64::from(due != 0);
            world.make(called(number), (due != 0).then_some(base + due))
        };
        let number = usize::from(ops.contains(&SyncDelete));
        let timer = make(number, if ops.contains(&Arm) { 0 } else { 2 });
        if ops.contains(&Fire) {
            // So that a sweep finds something, whatever becomes of the timer.
            make(0, 1);
        }
        let s = Scene {
            world,
            base,
            timer,
            futex: Futex::default(),
            inside: AtomicU32::new(0),
        };
        if is_placed {
            let mut drive = s.world.wheel.drive(0).unwrap();
            drive.advance(at(base), Waker(&s.futex, |_: &Fired| panic!("early")));
        }
        (s, books)
    }

    /// Arms the timer, which may be gone, by the short way or the long one.
    fn arm(&self, n: Thread, ahead: u64, short: bool) -> Books {
        let tick = self.base + ahead;
        let was = result(self.world.arm_either_way(n, self.timer, tick, short));
        armed(u64::from(was == Ok(false)))
    }

    /// The books of an operation that says whether it cancelled.
    fn ending(&self, was: Result<bool, Error>) -> Books {
        let told = match was {
            Ok(was) => was.into(),
            Err(Error::Stale) => 0,
            Err(e) => panic!("{e:?}"),
        };
        Books {
            told,
            ..Books::default()
        }
    }

    fn advance(&self, ahead: u64) -> Books {
        let target = at(self.base + ahead);
        let mut n = 0;
        let take = |f: &Fired| {
            assert!(f.deadline_ns <= target, "early");
            n += 1;
            if f.func != 0 {
                self.inside.store(1, Ordering::Relaxed);
                self.inside.store(0, Ordering::Relaxed);
            }
            true
        };
        _ = self.world.wheel.advance(target, Waker(&self.futex, take));
        fired(n)
    }

    fn drain(&self) -> Books {
        match self.world.wheel.drive(0) {
            Ok(mut drive) => fired(drive.handed(|_| ()).len() as u64),
            Err(_) => Books::default(),
        }
    }

    fn sleep(&self) {
        let Ok(mut drive) = self.world.wheel.drive(0) else {
            return self.world.alarm.set(0);
        };
        drive.fall_asleep(|ns| self.world.alarm.set(ns));
    }

    fn act(&self, op: Op, n: Thread) -> Books {
        let caller = self.world.own(n);
        match op {
            Arm => self.arm(n, 2, false),
            Earlier => self.arm(n, 1, false),
            Later => self.arm(n, 3, true),
            Cancel => self.ending(result(self.world.wheel.cancel_plain(&caller, self.timer))),
            Reuse => {
                let freed = self.ending(self.world.wheel.free(&caller, self.timer));
                let due = Some(at(self.base + 2));
                let again = self.world.wheel.setup(&caller, Spec::default(), due);
                assert!(matches!(again, Ok(_) | Err(Error::Shutdown)));
                freed + armed(u64::from(again.is_ok()))
            }
            HandOver => {
                let first = self.arm(n, 2, false);
                // The thread has ended, and another one has taken the number.
                first + self.arm(n, 1, false)
            }
            SyncDelete => {
                let (wheel, waits) = (&self.world.wheel, self.futex.waits());
                let was = wheel.cancel_sync(&caller, self.timer, false, waits);
                assert_eq!(self.inside.load(Ordering::Relaxed), 0, "still running");
                self.ending(was)
            }
            Fire => self.advance(2),
            Sleep => {
                self.sleep();
                Books::default()
            }
            Drain => self.drain(),
        }
    }

    fn judge(&self, ops: &[Op], books: Books) {
        let mut fired = books.fired;
        if let Ok(Some(due)) = self.world.wheel.due(self.timer) {
            // Armed for a tick that the hand came to: the next sweep.
            let due = due.max(self.world.wheel.hand_ns());
            let is_known = !self.world.wheel.nothing_due(due);
            assert!(is_known, "the next visit is later");
            if ops.contains(&Sleep) {
                assert!(at(self.world.alarm.get()) <= due, "asleep over a deadline");
            }
            fired += self.advance((due >> TICK_BITS) - self.base).fired;
            assert!(self.world.wheel.due(self.timer).unwrap().is_none(), "late");
        }
        if ops.contains(&Drain) {
            assert_eq!(self.drain().fired, 0, "left to a second drain");
        }
        fired += self.advance(9).fired;
        let cancelled = self.world.wheel.total(NUMBERS, |c| &c.cancels);
        let told = match ops.contains(&SyncDelete) {
            true => books.told > 0 || cancelled == 0,
            false => books.told == cancelled,
        };
        assert!(told, "cancelled {cancelled}, told {}", books.told);
        assert_eq!(books.armed, fired + cancelled, "lost, or twice");
    }
}

/// All of `ops` at the same time, each of them once on the first thread.
fn meet<const N: usize>(ops: [Op; N], preemptions: Option<usize>) {
    // Without a sweep a wheel's shape is not looked at.
    let shapes = 1 + usize::from(ops.contains(&Fire) || ops.contains(&Sleep));
    for wheel in WHEELS.into_iter().take(shapes) {
        let is_placed = wheel.0 == 2;
        let explored = (0..N).map(|first| {
            explore(preemptions, move || {
                let (scene, mut books) = Scene::new(&ops, wheel, is_placed);
                let scene = Arc::new(scene);
                let others: Vec<_> = (0..N)
                    .filter(|n| *n != first)
                    .map(|n| {
                        let s = scene.clone();
                        thread::spawn(move || s.act(ops[n], n as Thread))
                    })
                    .collect();
                books = books + scene.act(ops[first], first as Thread);
                for other in others {
                    books = books + other.join().unwrap();
                }
                scene.judge(&ops, books);
            })
        });
        let explored = explored.reduce(|a, b| a + b).unwrap();
        println!("{ops:?}, levels {}: {explored}", wheel.0);
    }
}

/// An operation concurrently with itself and each that comes after it.
fn pairs_of(op: Op) {
    for other in OPS.into_iter().skip_while(|o| *o != op) {
        meet([op, other], None);
    }
}

tests! { pairs_of:
    pairs_of_arm(Arm);
    pairs_of_rearm_earlier(Earlier);
    pairs_of_rearm_later(Later);
    pairs_of_cancel(Cancel);
    pairs_of_reuse(Reuse);
    pairs_of_hand_over(HandOver);
    pairs_of_sync_delete(SyncDelete);
    pairs_of_fire(Fire);
    pairs_of_sleep(Sleep);
    pairs_of_drain(Drain);
}

/// Three threads, one of which drives.
fn triple(ops: [Op; 3]) {
    meet(ops, Some(3));
}

tests! { triple:
    triple_arm_cancel_fire([Arm, Cancel, Fire]);
    triple_arm_cancel_sleep([Arm, Cancel, Sleep]);
    triple_arm_cancel_drain([Arm, Cancel, Drain]);
    triple_earlier_later_sleep([Earlier, Later, Sleep]);
    triple_arm_hand_over_sleep([Arm, HandOver, Sleep]);
    triple_earlier_cancel_fire([Earlier, Cancel, Fire]);
    triple_later_cancel_fire([Later, Cancel, Fire]);
    triple_later_sync_delete_fire([Later, SyncDelete, Fire]);
    triple_cancel_sync_delete_fire([Cancel, SyncDelete, Fire]);
    triple_reuse_cancel_sleep([Reuse, Cancel, Sleep]);
    triple_reuse_arm_drain([Reuse, Later, Drain]);
}
