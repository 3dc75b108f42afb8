//! Race 2: a promise is pushed while the hand passes its tick.

use super::{duel, explore, one, report, World};
use loom::sync::Arc;
use loom::thread;

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
    for arm in [World::arm, World::short_arm] {
        for (shard, tick) in [(0, 1), (0, 2), (1, 1), (1, 2)] {
            duel(
                || {
                    let w = World::new(1, 2, 0);
                    let t = w.timer(None);
                    w.timer(Some(1));
                    w.timer(Some(2));
                    (w, t)
                },
                move |(w, t)| arm(w, shard, *t, tick),
                |(w, _)| w.advance(2),
                |(w, _), was, _| {
                    assert!(!was);
                    w.advance(3);
                    assert_eq!(w.fired(), 3, "late or lost");
                },
            );
        }
    }
}

/// Race 2 with another timer due behind: the first slot that the driver finds is not that
/// of the arm. It has emptied no bucket yet, so its announcement alone has a fence.
#[test]
fn race_2_arm_before_the_first_slot_of_a_sweep() {
    for arm in [World::arm, World::short_arm] {
        duel(
            || {
                let w = World::new(1, 2, 0);
                let t = w.timer(None);
                w.timer(Some(2));
                (w, t)
            },
            move |(w, t)| arm(w, 1, *t, 1),
            |(w, _)| w.advance(2),
            |(w, _), was, _| {
                assert!(!was);
                w.advance(3);
                assert_eq!(w.fired(), 2, "late or lost");
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

/// Race 2 on the hashed wheel: what is pushed into a bucket that the driver
/// empties is read whole, in the same chunk or in a new one.
#[test]
fn race_2_arm_into_a_bucket_being_emptied() {
    for due_now in [1, 2] {
        duel(
            move || {
                let w = World::new(1, 1, 0);
                (0..due_now).for_each(|_| _ = w.timer(Some(1)));
                let t = w.timer(None);
                (w, t)
            },
            |(w, t)| w.arm(0, *t, 1),
            |(w, _)| w.advance(1),
            move |(w, _), _, _| {
                w.advance(2);
                assert_eq!(w.fired(), due_now + 1, "late or lost");
            },
        );
    }
}

/// Race 2 over a turn of the lowest level: an entry for the next turn is pushed into a
/// bucket that the driver is emptying. The hand counts as behind that bucket already. The
/// thread's bit in the mask is set already, or another one is.
#[test]
fn race_2_arm_for_the_next_turn_of_a_bucket_being_emptied() {
    for arm in [World::arm, World::short_arm] {
        for shard in [0, 1] {
            duel(
                || {
                    let (w, t) = one(None);
                    w.timer(Some(1));
                    (w, t)
                },
                move |(w, t)| arm(w, shard, *t, 3),
                |(w, _)| w.advance(2),
                |(w, _), was, _| {
                    assert!(!was);
                    w.advance(3);
                    assert_eq!(w.fired(), 2, "late or lost");
                },
            );
        }
    }
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
            let due = w.due(*t);
            assert_eq!(w.advance(due - 1), 0);
            assert_eq!(w.advance(due), 1);
            assert_eq!(w.advance(9), 0);
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
            // During the sweep the other arms for the next tick.
            assert!(w.advance(2) == 1 || w.due(*t) > 2, "relied on and not met");
            was
        },
        |(w, _), a, b| {
            w.advance(9);
            assert_eq!(w.fired(), if a || b { 1 } else { 2 });
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
