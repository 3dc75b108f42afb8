//! A timer is cancelled, or gets a period, while it fires: one of the two comes first.

use super::{duel, explore, one, report, World};
use crate::core::error::Error;
use crate::core::life::Spec;
use crate::core::period::AUTO;
use crate::core::state::Handle;
use crate::tests::checker::{at, func};
use crate::tests::NUMBERS;
use loom::sync::Arc;
use loom::thread;

/// One of cancel and fire has it.
#[test]
fn cancel_against_fire() {
    duel(
        || one(Some(2)),
        |(w, t)| w.cancel(1, *t),
        |(w, _)| w.advance(2),
        |(w, _), cancelled, _| {
            w.advance(9);
            assert_eq!(u64::from(cancelled) + w.fired(), 1);
        },
    );
}

/// A world with one timer that frees itself.
fn auto(number: usize, period: u64) -> (World, Handle) {
    let w = World::new(2, 1, 0);
    let spec = Spec {
        func: func(number),
        period: at(period),
        kind: AUTO,
        ..Spec::default()
    };
    let t = w.make(spec, Some(1));
    (w, t)
}

/// A timer that frees itself is cancelled while it fires, as an event or with a
/// callback.
#[test]
fn cancel_against_fire_of_a_timer_that_frees_itself() {
    for callback in [0, 1] {
        duel(
            move || auto(callback, 0),
            |(w, t)| w.wheel.cancel(&w.own(1), *t, false),
            |(w, _)| w.advance(1),
            move |(w, _), cancelled, fired| {
                match cancelled {
                    Ok(true) => assert_eq!(fired, 0),
                    Err(Error::Stale) => assert_eq!(fired, 1),
                    // It frees the timer, whose callback runs.
                    Ok(false) if callback == 1 => assert_eq!(fired, 1),
                    other => panic!("{other:?}"),
                }
                assert_eq!(w.wheel.live(NUMBERS), 0);
            },
        );
    }
}

/// A periodic timer is cancelled from elsewhere while its callback runs: it
/// does not come back.
#[test]
fn cancel_against_the_callback_of_a_periodic_timer() {
    duel(
        || auto(1, 1),
        |(w, t)| w.wheel.cancel(&w.own(1), *t, false),
        |(w, _)| w.advance(1),
        |(w, _), cancelled, ran| {
            assert_eq!(cancelled, Ok(true), "it is always pending");
            assert!(ran <= 1);
            assert_eq!(w.advance(4), 0);
            assert_eq!(w.wheel.live(NUMBERS), 0);
        },
    );
}

/// Three threads on one timer: arm, cancel, sweep. At three preemptions.
#[test]
fn arm_and_cancel_against_fire() {
    let end = |w: &World, cancelled: bool| {
        w.advance(8);
        assert_eq!(u64::from(cancelled) + w.fired(), 1);
    };
    let first = explore(Some(3), move || {
        let w = Arc::new(one(None));
        let (v, x) = (w.clone(), w.clone());
        let a = thread::spawn(move || v.0.arm(0, v.1, 1));
        let b = thread::spawn(move || x.0.cancel(1, x.1));
        w.0.advance(2);
        assert!(!a.join().unwrap());
        end(&w.0, b.join().unwrap());
    });
    let second = explore(Some(3), move || {
        let w = Arc::new(one(None));
        let (v, x) = (w.clone(), w.clone());
        let a = thread::spawn(move || v.0.advance(2));
        let b = thread::spawn(move || x.0.cancel(1, x.1));
        assert!(!w.0.arm(0, w.1, 1));
        a.join().unwrap();
        end(&w.0, b.join().unwrap());
    });
    report(first + second);
}

/// A timer gets a period while it fires: from this firing on, or from the next one.
#[test]
fn period_against_visit() {
    duel(
        || one(Some(1)),
        |(w, t)| w.wheel.set_period(*t, at(2)).unwrap(),
        |(w, _)| w.advance(1),
        |(w, t), (), fired| {
            assert_eq!(fired, 1);
            if w.due(*t) == 0 {
                w.arm(0, *t, 3);
            }
            assert_eq!((w.due(*t), w.advance(3)), (3, 1));
            assert_eq!(w.due(*t), 5);
        },
    );
}
