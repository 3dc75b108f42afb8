//! Race 1: a timer is armed, relying on a promise, while that is visited.

use super::{duel, one, World};

/// Race 1: a timer is moved later, trusting the promise it has, while the
/// driver visits that promise.
#[test]
fn race_1_rearm_later_against_visit() {
    for arm in [World::arm, World::short_arm] {
        duel(
            || one(Some(1)),
            move |(w, t)| arm(w, 0, *t, 3),
            |(w, _)| w.advance(1),
            |(w, t), was, _| {
                w.advance(3);
                assert_eq!(w.fired(), if was { 1 } else { 2 });
                assert_eq!(w.due(*t), 0);
            },
        );
    }
}

/// Race 1: a timer is cancelled and armed again while its promise is visited.
#[test]
fn race_1_cancel_and_arm_against_visit() {
    for arm in [World::arm, World::short_arm] {
        duel(
            || one(Some(1)),
            move |(w, t)| {
                let cancelled = w.cancel(0, *t);
                assert!(!arm(w, 0, *t, 2));
                cancelled
            },
            |(w, _)| w.advance(2),
            |(w, _), cancelled, _| {
                // What has passed during a sweep is due at the next tick.
                w.advance(3);
                assert_eq!(w.fired(), if cancelled { 1 } else { 2 }, "late or lost");
            },
        );
    }
}

/// Race 1: a timer that rests is armed, relying on the promise of its last
/// deadline, while the driver passes that and goes on.
#[test]
fn race_1_rely_against_visit() {
    for arm in [World::arm, World::short_arm] {
        for tick in [1, 2] {
            duel(
                || {
                    let (w, t) = one(Some(1));
                    w.cancel(0, t);
                    (w, t)
                },
                move |(w, t)| arm(w, 1, *t, tick),
                |(w, _)| w.advance(2),
                |(w, _), was, _| {
                    assert!(!was);
                    w.advance(3);
                    assert_eq!(w.fired(), 1, "late or lost");
                },
            );
        }
    }
}
