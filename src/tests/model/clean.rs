//! Dead entries are cleaned up while timers are armed, with pushes and relying
//! on promises: drawn in `core/driver/clean.rs`.

use super::{duel, duel_to, explore, one, report, shape, two, yes, Alarm, World};
use crate::core::arm::How;
use crate::core::driver::Fired;
use crate::core::state::Handle;
use crate::core::wheel::Config;
use crate::tests::checker::at;
use crate::tests::{Collect, Waking};
use loom::sync::Arc;
use loom::thread;

/// A timer that was moved earlier so often that a clean-up was asked for. It is
/// due at tick 7.
fn moved() -> (World, Handle) {
    let (w, t) = one(None);
    for tick in [12, 11, 10, 9, 8, 7] {
        arm(&w, 1, t, tick);
    }
    (w, t)
}

/// Promises are suspended during a clean-up, so an arm may call the driver.
fn arm(w: &World, n: usize, t: Handle, tick: u64) -> bool {
    let own = Waking(w.tokens[n], || ());
    w.wheel.arm(&own, t, at(tick), How::Always).unwrap()
}

/// The same by the short way or the long one.
fn arm_either_way(w: &World, t: Handle, tick: u64, short: bool) {
    if short {
        yes(w.wheel.arm_at(&Waking(w.tokens[0], || ()), t, at(tick)));
    } else {
        arm(w, 0, t, tick);
    }
}

/// Two pieces of the clean-up; nothing is due.
fn clean_up(w: &World) {
    assert!(!w.wheel.nothing_due(at(1)), "it was not asked for");
    assert_eq!(w.advance(1) + w.advance(2), 0);
}

/// Fires it: at its deadline and not before.
fn judge(w: &World, t: Handle) {
    let due = w.due(t);
    assert!(due > 2);
    assert_eq!(w.advance(due - 1), 0, "early");
    assert_eq!(w.advance(due), 1, "late or lost");
    assert_eq!(w.advance(20), 0, "twice");
}

/// The same of one that relies on the promise of tick 3 again, when `other` is gone.
fn judge_again(w: &World, t: Handle, other: Handle) {
    w.cancel(0, other);
    arm(w, 0, t, 3);
    judge(w, t);
}

/// An entry that is being pushed or published is kept.
#[test]
fn clean_up_against_a_push() {
    for shard in [0, 1] {
        duel(
            moved,
            move |(w, t)| arm(w, shard, *t, 3),
            |(w, _)| clean_up(w),
            |(w, t), _, ()| judge(w, *t),
        );
    }
}

/// An entry whose promise is published is kept, although its timer rests: the next arm
/// relies on it.
#[test]
fn clean_up_against_a_push_that_is_cancelled() {
    for (short, marked) in [(false, false), (true, false), (true, true)] {
        duel(
            move || {
                let (w, t) = moved();
                let u = w.timer(None);
                if marked {
                    // Its bucket is marked, and the driver wakes by then.
                    arm(&w, 0, u, 3);
                }
                (w, t, u)
            },
            move |(w, t, _)| {
                arm_either_way(w, *t, 3, short);
                w.cancel(0, *t);
            },
            |(w, ..)| clean_up(w),
            |(w, t, u), (), ()| judge_again(w, *t, *u),
        );
    }
}

/// The same, and the thread pushes for another timer next: the driver sees the number of
/// that one, and must see the promise that was published before it.
#[test]
fn clean_up_against_a_push_before_that_of_another_timer() {
    for short in [false, true] {
        duel(
            || {
                let (w, t) = moved();
                let u = w.timer(None);
                (w, t, u)
            },
            move |(w, t, u)| {
                arm_either_way(w, *t, 3, short);
                w.cancel(0, *t);
                arm_either_way(w, *u, 6, short);
            },
            |(w, ..)| clean_up(w),
            |(w, t, u), (), ()| judge_again(w, *t, *u),
        );
    }
}

/// A timer that rests is armed, relying on a promise whose entry is looked at
/// meanwhile.
#[test]
fn clean_up_against_a_thread_that_relies() {
    for tick in [7, 8] {
        duel(
            || {
                let (w, t) = moved();
                w.cancel(0, t);
                (w, t)
            },
            move |(w, t)| arm(w, 0, *t, tick),
            |(w, _)| clean_up(w),
            |(w, t), _, ()| judge(w, *t),
        );
    }
}

/// One thread relies on a promise that another writes over with a later one. At
/// two preemptions.
#[test]
fn clean_up_against_a_promise_that_is_written_over() {
    report(explore(Some(2), || {
        let w = Arc::new(moved());
        let (v, x) = (w.clone(), w.clone());
        let later = thread::spawn(move || arm(&v.0, 1, v.1, 5));
        let relies = thread::spawn(move || {
            arm(&x.0, 0, x.1, 3);
            arm(&x.0, 0, x.1, 4)
        });
        clean_up(&w.0);
        later.join().unwrap();
        relies.join().unwrap();
        judge(&w.0, w.1);
    }));
}

/// A thread has read a promise that a sleep then moves to a later tick, and relies on it
/// while the clean-up drops its entry. The alarm is before that promise: only the
/// suspension tells the thread, or the driver, of the other. At two preemptions.
#[test]
fn clean_up_against_a_promise_that_a_sleep_has_moved() {
    duel_to(
        Some(2),
        || {
            let (w, t, u) = two();
            for tick in [13, 12, 11, 10, 9, 3] {
                arm(&w, 0, t, tick);
            }
            // Relies on the promise of tick 3, which the sleep moves.
            arm(&w, 0, t, 7);
            arm(&w, 1, u, 2);
            (w, t, u)
        },
        |(w, t, _)| arm(w, 0, *t, 5),
        |(w, _, u)| {
            w.sleep(&Alarm::new());
            arm(w, 1, *u, 1);
            assert_ne!(w.wheel.requests_to_clean(), 0, "it was not asked for");
            w.advance(1);
        },
        |(w, _, _), _, ()| {
            w.advance(4);
            assert_eq!(w.fired(), 1, "early");
            w.advance(5);
            assert_eq!(w.fired(), 2, "late or lost");
        },
    );
}

/// A tick with units of two.
const SHORT: u32 = 11;

/// A timer that has six entries at tick 10, the first of two that the link names. A
/// clean-up has left them, and a thorough one is to follow. The timer may rest by then.
fn armed_again(cancelled: bool) -> (World, Handle) {
    let w = World::of(Config {
        tick_ns: 1 << SHORT,
        ..shape(2, 1, 0)
    });
    let t = w.timer(None);
    for _ in 0..6 {
        arm_short(&w, 1, t, 10);
    }
    assert_eq!(sweep(&w, 1) + sweep(&w, 2), 0);
    assert_eq!(w.wheel.entries(), 6);
    assert_ne!(w.wheel.requests_to_clean(), 0, "one is enough");
    if cancelled {
        w.cancel(0, t);
    }
    (w, t)
}

fn arm_short(w: &World, n: usize, t: Handle, tick: u64) -> bool {
    let own = Waking(w.tokens[n], || ());
    yes(w.wheel.arm_at(&own, t, tick << SHORT))
}

/// How many fire by `tick`.
fn sweep(w: &World, tick: u64) -> u64 {
    let mut n = 0;
    let take = |f: &Fired| {
        assert!(f.deadline_ns <= tick << SHORT, "early");
        n += 1;
        true
    };
    let now = tick << SHORT;
    w.wheel.advance(now, Collect(take)).unwrap();
    n
}

/// The promise of a timer that has many entries is changed to one of the unit before, or
/// to none. A thread arms the timer meanwhile: there, where it relies on the old promise,
/// and before it.
#[test]
fn clean_up_that_is_thorough_against_a_thread_that_arms() {
    for (tick, cancelled) in [(10, false), (10, true), (11, false), (11, true), (7, false)] {
        duel(
            move || armed_again(cancelled),
            move |(w, t)| arm_short(w, 0, *t, tick),
            |(w, _)| assert_eq!(sweep(w, 3) + sweep(w, 4), 0),
            move |(w, t), _, ()| {
                assert_eq!(w.wheel.due(*t), Ok(Some(tick << SHORT)));
                assert_eq!(sweep(w, tick - 1), 0, "early");
                assert_eq!(sweep(w, tick), 1, "late or lost");
                assert_eq!(sweep(w, 20), 0, "twice");
            },
        );
    }
}

/// A thread that is about to publish the unit of the old promise once more.
#[test]
fn clean_up_that_is_thorough_against_a_push_that_is_cancelled() {
    for cancelled in [false, true] {
        duel(
            move || armed_again(cancelled),
            |(w, t)| {
                arm_short(w, 0, *t, 10);
                w.cancel(0, *t);
            },
            |(w, _)| assert_eq!(sweep(w, 3) + sweep(w, 4), 0),
            |(w, t), (), ()| {
                arm_short(w, 0, *t, 11);
                assert_eq!(sweep(w, 10), 0, "early");
                assert_eq!(sweep(w, 11), 1, "late or lost");
            },
        );
    }
}

/// The same while the clock stands still. So the gate tells the thread nothing, and the
/// driver falls asleep with promises suspended.
#[test]
fn clean_up_before_a_sleep_against_a_thread_that_relies() {
    for cancelled in [false, true] {
        duel(
            move || armed_again(cancelled),
            |(w, t)| arm_short(w, 0, *t, 11),
            |(w, _)| {
                assert_eq!(sweep(w, 2) + sweep(w, 2), 0);
                w.sleep(&Alarm::new());
            },
            |(w, t), _, ()| {
                assert_eq!(w.wheel.due(*t), Ok(Some(11 << SHORT)));
                assert_eq!(sweep(w, 10), 0, "early");
                assert_eq!(sweep(w, 11), 1, "late or lost");
            },
        );
    }
}
