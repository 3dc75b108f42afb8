//! A timer is cancelled, or gets a period, while it fires: one of the two comes first.

use super::{called, duel, one, one_of, report, with_two_others, World};
use crate::core::life::Spec;
use crate::core::state::Handle;
use crate::core::ticks::AUTO;
use crate::core::Error;
use crate::tests::checker::at;
use crate::tests::NUMBERS;

/// One of cancel and fire has it.
#[test]
fn cancel_against_fire() {
    duel(
        || one(Some(2)),
        |(w, t)| w.cancel(1, *t),
        |(w, _)| w.advance(2),
        |(w, _), cancelled, _| w.have_fired(1 - u64::from(cancelled), 9),
    );
}

/// A world with one timer that frees itself.
fn auto(number: usize, period: u64) -> (World, Handle) {
    let spec = Spec {
        period: at(period),
        kind: AUTO,
        ..called(number)
    };
    one_of(spec, Some(1))
}

/// A timer that frees itself is cancelled while it fires, as an event or with a
/// callback.
#[test]
fn cancel_against_fire_of_a_timer_that_frees_itself() {
    for callback in [0, 1] {
        duel(
            move || auto(callback, 0),
            |(w, t)| w.try_cancel(1, *t),
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
        |(w, t)| w.try_cancel(1, *t),
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
    let make = || one(None);
    let arm = |(w, t): &(World, Handle)| assert!(!w.arm(0, *t, 1));
    let cancel = |(w, t): &(World, Handle)| w.cancel(1, *t);
    let sweep = |(w, _): &(World, Handle)| _ = w.advance(2);
    let end =
        |(w, _): &(World, Handle), (), cancelled, ()| w.have_fired(1 - u64::from(cancelled), 8);
    let first = with_two_others(Some(3), make, arm, cancel, sweep, end);
    let second = with_two_others(Some(3), make, sweep, cancel, arm, end);
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
