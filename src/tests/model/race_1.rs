//! Race 1: a timer is armed while its promise is visited.

use super::{duel, one};

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
