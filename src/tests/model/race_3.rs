//! Race 3: a timer is armed while the driver chooses its next visit, and goes to sleep.

use super::{after, duel, explore, one, placed, report, resting, two, Part, World};
use crate::core::state::Handle;
use crate::core::Thread;
use crate::tests::checker::at;
use loom::sync::Arc;
use loom::thread;

/// The driver goes to sleep while a timer is armed to `tick` by a thread. It
/// sleeps no longer than that; and a second look says so, too.
fn sleep_against_arm(make: impl Fn() -> (World, Handle) + Part, n: Thread, tick: u64) {
    for short in [false, true] {
        duel(
            make,
            move |(w, t)| w.arm_either_way(n, *t, tick, short),
            |(w, _)| w.sleep(),
            move |(w, _), _, ()| {
                w.wakes_by(tick);
                w.sleep();
                w.wakes_by(tick);
                assert!(w.advance(tick) >= 1);
            },
        );
    }
}

/// Race 3: a new earliest.
#[test]
fn race_3_sleep_against_arm() {
    sleep_against_arm(|| after(one(None), |(w, _)| w.timer(Some(7))), 1, 3);
}

/// Race 3 in one bucket, which also has an entry that nobody wants.
#[test]
fn race_3_settle_against_arm_in_one_bucket() {
    let make = || {
        let (w, t) = one(None);
        let gone = w.timer(Some(3));
        w.collect();
        w.cancel(0, gone);
        (w, t)
    };
    sleep_against_arm(make, 0, 3);
}

/// Race 3b: the driver moves the entry of a timer that is due later, while the timer is
/// moved back, relying on the tick of that entry or not.
#[test]
fn race_3b_settle_against_rearm() {
    for to in [1, 2, 4] {
        sleep_against_arm(|| after(placed(1), |(w, t)| w.arm(0, *t, 3)), 0, to);
    }
}

/// Race 3b: the driver drops the entry of a timer that rests, while that is armed, relying on
/// the entry or not.
#[test]
fn race_3b_settle_against_arm_of_a_timer_that_rests() {
    for to in [1, 2, 4] {
        sleep_against_arm(|| resting(2), 1, to);
    }
}

/// Race 3b: the timer is cancelled and armed for the same tick again, in the middle of
/// settle. The state is as it was.
#[test]
fn race_3b_settle_against_cancel_and_arm() {
    for (from, to) in [(3, 2), (3, 3)] {
        duel(
            move || after(placed(2), |(w, t)| w.arm(0, *t, from)),
            move |(w, t)| {
                assert!(w.cancel(1, *t));
                assert!(!w.arm(1, *t, to));
            },
            |(w, _)| w.sleep(),
            move |(w, t), (), ()| {
                w.wakes_by(to);
                assert_eq!(w.due(*t), to);
                w.fires_at(to);
            },
        );
    }
}

/// A driver that wakes, fires and sleeps again, while the thread whose arm has
/// woken it is still arming; then the next arm must wake it, too.
#[test]
fn race_3_two_arms_against_a_driver_that_sleeps_again() {
    duel(
        || one(None),
        |(w, t)| w.arm(1, *t, 1),
        |(w, _)| {
            w.sleep();
            w.advance(2);
            w.sleep();
        },
        |(w, t), _, ()| {
            if w.fired() == 0 {
                return w.wakes_by(3);
            }
            w.arm(0, *t, 4);
            w.wakes_by(4);
        },
    );
}

/// A thread that finds the driver kicked does not kick, while the driver sets the alarm
/// again. The driver must see the thread's arm then.
#[test]
fn race_3_arm_without_a_kick_against_a_driver_that_sleeps_again() {
    duel(
        || {
            let (w, t) = one(None);
            let first = w.timer(None);
            w.sleep();
            w.short_arm(0, first, 5);
            assert_eq!(w.alarm.get(), 0, "nobody has kicked");
            (w, t)
        },
        |(w, t)| w.arm(1, *t, 3),
        |(w, _)| {
            w.advance(1);
            w.sleep();
        },
        |(w, _), _, ()| {
            w.wakes_by(3);
            w.have_fired(1, 3);
        },
    );
}

/// Asking for the next expiry while a driver fires and goes to sleep: the
/// answer is never later than the truth, and the sleep is not spoilt.
#[test]
fn race_3_sleep_against_asking() {
    duel(
        || {
            let (w, _) = one(Some(1));
            w.timer(Some(5));
            w
        },
        |w| w.wheel.next_expiry().unwrap(),
        |w| {
            w.advance(1);
            w.sleep();
        },
        |w, next, ()| {
            assert!(next <= at(5), "next at {next}");
            assert_eq!(w.alarm.get(), 5);
        },
    );
}

/// The answer during an arm is not later than what was armed before, and
/// does not make an advance believe that nothing is due.
#[test]
fn race_3_asking_against_arm() {
    duel(
        || one(Some(4)),
        |(w, t)| w.arm(1, *t, 2),
        |(w, _)| w.wheel.next_expiry().unwrap(),
        |(w, _), _, next| {
            assert!(next <= at(4));
            assert!(!w.wheel.nothing_due(at(2)));
            assert_eq!(w.advance(2), 1);
        },
    );
}

/// Race 3 against an ordinary advance: what it leaves as the next visit is not
/// later than what was armed meanwhile.
#[test]
fn race_3_next_visit_against_arm() {
    duel(
        || after(one(None), |(w, _)| w.timer(Some(1))),
        |(w, t)| w.arm(1, *t, 3),
        |(w, _)| w.advance(1),
        |(w, _), _, _| {
            assert!(!w.wheel.nothing_due(at(3)));
            assert_eq!(w.advance(3), 1);
        },
    );
}

/// Race 3: a thread finds a bit that another one has just set, and that one has not come to
/// its fence. The next visit is early, for a timer that was cancelled.
#[test]
fn race_3_arm_on_the_bit_of_another_against_sleep() {
    for short in [false, true] {
        report(explore(Some(2), move || {
            let (w, t, early) = two();
            w.arm(0, early, 1);
            w.collect();
            w.cancel(0, early);
            let w = Arc::new(w);
            let (u, v, x) = (w.clone(), w.clone(), w.clone());
            // The arm comes last: when it is interrupted, the checker goes on with the first
            // thread, then with the second, and needs only one preemption.
            let threads = [
                thread::spawn(move || u.sleep()),
                thread::spawn(move || v.wheel.inboxes.mark_top()),
                thread::spawn(move || assert_eq!(x.arm_either_way(0, t, 2, short), 0)),
            ];
            for thread in threads {
                thread.join().unwrap();
            }
            w.wakes_by(2);
        }));
    }
}
