//! Race 6: a timer comes due again while its callback runs in another thread.

use super::{assert_apart, duel, pooled, World};
use crate::core::driver::Fired;
use crate::core::life::Spec;
use crate::core::period::BURST;
use crate::core::state::Handle;
use crate::tests::checker::{at, func};
use crate::tests::Collect;
use crate::tests::NUMBERS;

/// A pooled wheel with a timer that a worker has.
fn taken(spec: Spec) -> (World, Handle) {
    let w = pooled();
    let t = w.make(
        Spec {
            func: func(1),
            ..spec
        },
        Some(1),
    );
    assert_eq!(w.advance(1), 1);
    (w, t)
}

/// Fires what is due, and runs it at once.
fn run(w: &World, target: u64) -> u64 {
    let mut ran = 0;
    let mut fired = Vec::new();
    let take = |f: &Fired| {
        fired.push(f.handle);
        true
    };
    w.wheel.advance(at(target), Collect(take)).unwrap();
    for timer in fired {
        w.wheel.finish(&w.own(0), timer, || ());
        ran += 1;
    }
    ran
}

/// It is fired after the callback, in time, and never in two threads at once.
#[test]
fn race_6_due_again_against_finish() {
    duel(
        || {
            let (w, t) = taken(Spec::default());
            w.arm(0, t, 2);
            (w, t)
        },
        |(w, t)| w.wheel.finish(&w.own(1), *t, || ()),
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
            let (w, t) = taken(Spec::default());
            let u = w.timer(None);
            w.arm(0, t, 2);
            w.advance(2);
            w.arm(1, u, 3);
            (w, t)
        },
        |(w, t)| w.wheel.finish(&w.own(1), *t, || ()),
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
        || taken(Spec::default()),
        |(w, t)| w.wheel.finish(&w.own(1), *t, || ()),
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
                taken(Spec {
                    period: at(1),
                    kind,
                    ..Spec::default()
                })
            },
            |(w, t)| w.wheel.finish(&w.own(1), *t, || ()),
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
        || taken(Spec::default()),
        |(w, t)| w.wheel.finish(&w.own(1), *t, || ()),
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
