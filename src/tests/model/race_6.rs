//! Race 6: a timer comes due again while its callback runs in another thread.

use super::{after, assert_apart, duel, pooled, running, World};
use crate::core::life::Spec;
use crate::core::state::Handle;
use crate::core::ticks::BURST;
use crate::tests::checker::{at, called};
use crate::tests::NUMBERS;

/// A pooled wheel with a timer that a worker has.
fn taken() -> (World, Handle) {
    let (w, [t]) = running();
    (w, t)
}

/// The timer is armed for tick 2 meanwhile.
fn taken_and_armed() -> (World, Handle) {
    after(taken(), |(w, t)| w.arm(0, *t, 2))
}

/// A worker ends the callback.
fn finish((w, t): &(World, Handle)) {
    w.finish(1, *t);
}

/// Fires what is due, and runs it at once.
fn run(w: &World, target: u64) -> u64 {
    let fired = w.wheel.told(at(target), |f| f.handle);
    fired.iter().for_each(|timer| w.finish(0, *timer));
    fired.len() as u64
}

/// It is fired after the callback, in time, and never in two threads at once.
#[test]
fn race_6_due_again_against_finish() {
    duel(
        taken_and_armed,
        finish,
        |(w, _)| w.advance(2),
        |(w, _), (), early| {
            assert!(early <= 1);
            assert_eq!(early + w.advance(2), 1, "late or lost");
        },
    );
}

/// A callback ends in a worker whose inbox has a note already, and whose bit is set.
#[test]
fn race_6_due_again_against_finish_with_a_bit_that_is_set() {
    duel(
        || {
            let (w, t) = taken_and_armed();
            let u = w.timer(None);
            w.advance(2);
            w.arm(1, u, 3);
            (w, t)
        },
        finish,
        |(w, _)| w.advance(2),
        |(w, _), (), early| {
            assert_eq!(early + w.advance(2), 1, "late or lost");
            assert_eq!(w.advance(3), 1);
        },
    );
}

/// A callback ends in a worker while the driver arms its timer for a time that has passed: the
/// timer fires once more, and is not late.
#[test]
fn race_6_arm_against_finish() {
    duel(
        taken,
        finish,
        |(w, t)| {
            w.arm(0, *t, 1);
            w.advance(2)
        },
        |(w, _), (), early| {
            assert!(early <= 1);
            assert_eq!(early + w.advance(2), 1, "late or lost");
        },
    );
}

/// A period that comes due meanwhile is owed, or left out.
#[test]
fn race_6_period_against_finish() {
    for kind in [0, BURST] {
        duel(
            move || {
                let w = pooled();
                let spec = Spec {
                    period: at(1),
                    kind,
                    ..called(1)
                };
                let t = w.make(spec, Some(1));
                assert_eq!(w.advance(1), 1);
                (w, t)
            },
            finish,
            |(w, _)| run(w, 2),
            move |(w, t), (), early| {
                let all = early + run(w, 2) + run(w, 3);
                assert!(all == 2 || kind != BURST && all == 1, "{all} of 2");
                assert!(w.due(*t) > 3);
            },
        );
    }
}

/// It is freed while its callback runs: the node is given back once, by the end
/// of the callback.
#[test]
fn race_6_free_against_finish() {
    duel(
        taken,
        finish,
        |(w, t)| w.wheel.free(&w.own(0), *t),
        |(w, _), (), was| {
            assert_eq!(was, Ok(false));
            assert_eq!(w.wheel.live(NUMBERS), 0);
            // The node may be in the list of either thread, but only once.
            let make = |n| w.wheel.setup(&w.own(n), Spec::default(), None).unwrap();
            assert_apart(w, &[0, 0, 1, 1].map(make));
        },
    );
}
