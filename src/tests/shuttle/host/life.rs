//! Lives of wheels.

use super::*;
use crate::core::Error;
use crate::sys::timerfd::Alarm;

/// The tick thread may look at the clock so often while it sleeps: twice for each tick up to the
/// latest timer. Timers are due within [`SOON`], and with slack within twice that.
const LOOKS: u64 = 4 * SOON / TICK;

pub(super) fn clock(rng: &mut Rng) -> Clock {
    match rng.below(3) {
        0 => Clock::Manual,
        _ => Clock::Monotonic,
    }
}

/// Every call in any order, by three threads: each returns what the header says, stop
/// and destroy return, and each arm ends once.
#[test]
fn three_threads_in_any_calls() {
    let make = |rng: &mut Rng| {
        let w = World::new(clock(rng), crew(rng), manner(rng));
        system().hostile.store(rng.below(2) == 0, Ordering::Relaxed);
        w
    };
    lives(3, make, |w, _, rng| {
        for _ in 0..12 {
            w.call(rng);
        }
    });
}

/// An executor that does nothing, in front of which the queue is full: stop and destroy
/// return.
#[test]
fn stop_beside_an_executor_that_refuses() {
    let make = |rng: &mut Rng| World::new(clock(rng), Some(executor(1)), Manner::Refuses);
    lives(2, make, |w, n, rng| {
        if !w.is_manual() {
            right(w.host.start().map(|()| 0), &[libc::EBUSY]);
        }
        for _ in 0..4 {
            w.arm_one_call(rng);
        }
        system().pass(FAR);
        if w.is_manual() && n == 0 {
            w.drive(rng);
        }
    });
}

impl World {
    /// Lets time pass until all that was armed has ended. The tick thread does not sleep
    /// through that: of ticks that are due within [`SOON`] it may look at a few. An awake one
    /// ends as well, though each of its steps may come after a round of all other threads.
    fn await_all(&self, is_over: impl Fn() -> bool) {
        // Callbacks may arm again, a few times.
        let mut patience = 10_000;
        while !is_over() {
            system().pass(TICK);
            thread::yield_now();
            patience -= 1;
            assert!(
                patience != 0 && system().looks() < LOOKS,
                "overslept: {}",
                self.describe()
            );
        }
    }
}

/// What three threads wait for fires, whoever of them arms first and however the
/// tick thread sleeps; and then it is stopped.
#[test]
fn the_tick_thread_sleeps_past_nothing() {
    let make = |_: &mut Rng| World::started(None, Manner::Inside);
    lives(3, make, |w, _, rng| {
        for _ in 0..3 {
            w.arm_one_call(rng);
            if rng.below(2) == 0 {
                w.host.next_expiry().unwrap();
            }
            w.await_all(|| w.host.wheel.pending(NUMBERS) == 0);
        }
    });
}

/// What is queued runs, whoever is to run it, workers that sleep or an executor that is
/// asked for it; nobody stops the wheel for that.
#[test]
fn what_is_queued_waits_for_no_stop() {
    let make = |rng: &mut Rng| World::started(Some(crew_that_drops_none(rng)), Manner::Inside);
    lives(2, make, |w, _, rng| {
        for _ in 0..3 {
            w.arm_one_call(rng);
            w.await_all(|| w.host.wheel.pending(NUMBERS) == 0 && w.host.queue().0 == 0);
        }
    });
}

/// One thread drives, the others ask: it is never refused, and the answers are
/// not after what is armed.
#[test]
fn a_query_disturbs_no_driver() {
    check(|rng, tally| {
        let w = World::new(clock(rng), None, Manner::Inside);
        let host = &w.host;
        // One that no callback knows.
        let latest = host.now() + FAR;
        let spec = Spec { func: 0, ..kept() };
        w.book(1);
        host.setup(spec, Some(latest)).unwrap();
        together(&w, rng, 3, |n, rng| {
            for _ in 0..10 {
                if n == 0 {
                    system().pass(rng.below(TICK));
                    assert!(w.drive(rng), "refused");
                } else if rng.below(2) == 0 {
                    let next = host.next_expiry().unwrap();
                    assert!(
                        next.is_some_and(|ns| ns <= latest + TICK),
                        "late: {next:?}, {latest}"
                    );
                } else {
                    w.arm_one_call(rng);
                }
            }
        });
        w.close(tally, rng);
    });
}

/// Two threads advance. One whose result says that room is left has left nothing that
/// was due before it called; and the clock does not go back.
#[test]
fn two_that_advance() {
    let make = |_: &mut Rng| World::new(Clock::Manual, None, Manner::Inside);
    lives(2, make, |w, _, rng| {
        for _ in 0..6 {
            let before = w.host.now();
            let due = before + rng.below(SOON);
            let spec = Spec {
                kind: AUTO,
                func: 0,
                ..kept()
            };
            w.book(1);
            let timer = w.host.setup(spec, Some(due)).unwrap();
            // If not: it may have been armed when its time had passed.
            let ahead = w.host.now() < due;
            let mut event = |fired: &Fired| {
                w.fires(fired);
                true
            };
            let goal = due + TICK;
            let advanced = w.host.advance(goal, Bounds::default(), Some(&mut event));
            if right(advanced.map(|d| d.done), &[libc::EBUSY]) == 1 && ahead {
                let left = w.host.wheel.due(timer);
                assert_eq!(left, Err(Error::Stale), "not fired, and said to be");
            }
            assert!(w.host.now() >= before, "back");
            assert!(advanced.is_err() || w.host.now() >= goal, "behind");
            // And where nothing is due.
            let goal = w.host.now() + 1;
            let advanced = w.host.advance(goal, Bounds::default(), None);
            assert!(advanced.is_err() || w.host.now() >= goal, "back");
        }
    });
}

/// Threads that come and go in two wheels, one of which is made and destroyed
/// meanwhile: the inboxes of threads.
#[test]
fn threads_and_wheels_that_come_and_go() {
    let make = |_: &mut Rng| World::new(Clock::Manual, None, Manner::Inside);
    lives(3, make, |w, _, rng| {
        for _ in 0..2 {
            thread::scope(|s| {
                let mut rng = Rng(rng.next() | 1);

                s.spawn(move || w.arm(&mut rng));
            });
            let other = World::new(Clock::Manual, None, Manner::Inside);
            w.arm(rng);
            other.host.setup(kept(), None).unwrap();
            other.host.destroy();
        }
    });
}

// Threads that wait for edges of one descriptor.

/// Each thread that is woken polls, and is refused while another one polls. All that is
/// due fires nevertheless.
#[test]
fn a_refused_poll_loses_no_edge() {
    check(|rng, tally| {
        let w = World::new(Clock::Monotonic, None, Manner::Refuses);
        let host = &w.host;
        let alarm = Alarm {
            fd: host.descriptor().unwrap(),
            clock: libc::CLOCK_MONOTONIC,
        };
        let is_over = AtomicBool::new(false);
        together(&w, rng, 4, |n, rng| {
            if n == 0 {
                for _ in 0..6 {
                    w.arm(rng);
                    system().pass(rng.below(2 * TICK));
                }
                system().pass(FAR);
                // A callback may have armed one again.
                while host.wheel.pending(NUMBERS) != 0 {
                    system().pass(TICK);
                    thread::yield_now();
                }
                is_over.store(true, Ordering::Relaxed);
                alarm.set(0).unwrap();
                return;
            }
            while !is_over.load(Ordering::Relaxed) {
                alarm.wait();
                w.drive(rng);
            }
            // The next one.
            alarm.set(0).unwrap();
        });
        w.close(tally, rng);
    });
}
