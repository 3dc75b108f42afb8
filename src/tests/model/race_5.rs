//! Race 5: a thread waits until a callback is over.

use super::{after, duel, spin, Futex, World};
use crate::core::driver::Fired;
use crate::core::state::Handle;
use crate::core::wheel::Config;
use crate::sync::{AtomicU32, Mutex, Ordering};
use crate::tests::cases;
use crate::tests::checker::{at, shape, Waker};

/// A timer whose callback takes a while.
struct Slow {
    world: World,
    timer: Handle,
    pooled: bool,
    futex: Futex,
    inside: AtomicU32,
    ran: AtomicU32,
    /// Its callback arms it again. No access that orders another.
    again: std::sync::atomic::AtomicBool,
}

impl Slow {
    fn new(pooled: bool) -> Slow {
        let world = World::of(Config {
            pooled,
            ..shape(2, 1, 0)
        });
        Slow {
            timer: world.called(1),
            world,
            pooled,
            futex: Futex::default(),
            inside: AtomicU32::new(0),
            ran: AtomicU32::new(0),
            again: false.into(),
        }
    }

    fn run(&self) {
        self.inside.store(1, Ordering::Relaxed);
        self.ran.fetch_add(1, Ordering::Relaxed);
        if self.again.load(Ordering::Relaxed) {
            self.world.arm(0, self.timer, 3);
        }
        self.inside.store(0, Ordering::Relaxed);
    }

    /// What the callback is seen to have done, by a thread for which it is over.
    fn over(&self) -> u32 {
        assert_eq!(self.inside.load(Ordering::Relaxed), 0, "still running");
        self.ran.load(Ordering::Relaxed)
    }

    /// A sweep. In a pooled wheel the caller runs what is due.
    fn advance(&self, target: u64) -> Vec<Handle> {
        let mut fired = Vec::new();
        let take = |f: &Fired| {
            fired.push(f.handle);
            if !self.pooled {
                self.run();
            }
            true
        };
        let mut drive = self.world.wheel.drive(0).unwrap();
        drive.advance(at(target), Waker(&self.futex, take));
        fired
    }

    /// A worker has taken a fired timer out of the queue.
    fn work(&self, timer: Handle) {
        self.run();
        let (wheel, worker) = (&self.world.wheel, self.world.own(0));
        wheel.finish(&worker, timer, || self.futex.wake());
    }

    /// A sweep, and all of what it fires.
    fn fire(&self) {
        for timer in self.advance(1) {
            if self.pooled {
                self.work(timer);
            }
        }
    }

    fn delete(&self, shut: bool) -> Result<bool, crate::core::Error> {
        let (wheel, caller) = (&self.world.wheel, self.world.own(1));
        wheel.cancel_sync(&caller, self.timer, shut, self.futex.waits())
    }
}

/// After a sync delete the callback is over and does not begin: the running
/// word, or RUNNING in a pooled wheel.
#[test]
fn race_5_sync_delete_against_callback() {
    for [pooled, shut] in cases() {
        duel(
            move || Slow::new(pooled),
            move |s| (s.delete(shut).unwrap(), s.over()),
            Slow::fire,
            |s, (was, before), ()| {
                assert_eq!(s.over(), before, "it began afterwards");
                assert_eq!(before, u32::from(!was));
            },
        );
    }
}

/// The callback arms its timer again, at any moment: afterwards it is not pending.
#[test]
fn race_5_sync_delete_against_callback_that_arms_again() {
    for pooled in [false, true] {
        duel(
            move || Slow {
                again: true.into(),
                ..Slow::new(pooled)
            },
            |s| (s.delete(false).unwrap(), s.over()),
            Slow::fire,
            |s, (was, before), ()| {
                assert_eq!(s.over(), before, "it began afterwards");
                assert!(was && before <= 1);
                assert_eq!(s.world.due(s.timer), 0, "armed again");
            },
        );
    }
}

/// The callback is already running, in a worker, when a thread begins to wait.
#[test]
fn race_5_sync_delete_against_the_end_of_a_callback() {
    duel(
        || after(Slow::new(true), |s| assert_eq!(s.advance(1), [s.timer])),
        |s| (s.delete(false), s.over()),
        |s| s.work(s.timer),
        |_, (was, before), ()| {
            assert_eq!(was, Ok(false));
            assert_eq!(before, 1, "it was not waited for");
        },
    );
}

/// The timer is freed while a thread waits for its callback, and its node may be
/// in use again: the thread does not wait for that, and it ends.
#[test]
fn race_5_sync_delete_against_free_and_reuse() {
    for pooled in [false, true] {
        duel(
            move || {
                let s = Slow::new(pooled);
                s.world.free(0, s.timer);
                // The next life of the node.
                let next = s.world.called(1);
                (s, next)
            },
            |(s, _)| s.delete(false),
            |(s, next)| {
                for timer in s.advance(1) {
                    assert_eq!(timer, *next);
                    if s.pooled {
                        s.work(timer);
                    }
                }
            },
            |(s, _), was, ()| {
                assert!(was.is_err(), "stale");
                assert_eq!(s.over(), 1);
            },
        );
    }
}

/// A timer waits for nobody: it is deleted, and its callback waited for, while
/// another callback runs.
#[test]
fn race_5_sync_delete_beside_another_callback() {
    duel(
        || {
            let s = Slow::new(false);
            let other = s.world.called(1);
            s.world.cancel(0, s.timer);
            (s, other)
        },
        |(s, _)| s.delete(false),
        |(s, other)| assert_eq!(s.advance(1), [*other]),
        |_, was, ()| assert_eq!(was, Ok(false)),
    );
}

/// The driver waits as well, when the callback is over.
#[test]
fn race_5_two_threads_delete() {
    duel(
        || Slow::new(false),
        |s| {
            let was = s.delete(false).unwrap();
            (was, s.over())
        },
        |s| {
            s.advance(1);
            let (wheel, own) = (&s.world.wheel, s.world.own(0));
            wheel.cancel_sync(&own, s.timer, false, spin).unwrap()
        },
        |s, (first, _), second| {
            assert!(!second, "it has fired, or was cancelled before");
            assert_eq!(s.over(), u32::from(!first));
        },
    );
}

/// The next callback takes a lock that the waiting thread holds. So the driver must
/// wake that thread before, not behind it.
#[test]
fn race_5_the_end_is_told_before_the_next_callback() {
    duel(
        || {
            let s = Slow::new(false);
            let next = s.world.called(1);
            (s, next, Mutex::new(()))
        },
        |(s, _, lock)| {
            let _held = lock.lock().unwrap();
            s.delete(false)
        },
        |(s, next, lock)| {
            let take = |f: &Fired| {
                if f.handle == *next {
                    drop(lock.lock().unwrap());
                } else {
                    s.run();
                }
                true
            };
            let mut drive = s.world.wheel.drive(0).unwrap();
            drive.advance(at(1), Waker(&s.futex, take));
        },
        |_, was, ()| assert!(was.is_ok()),
    );
}
