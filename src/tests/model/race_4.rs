//! Race 4: a timer is armed while the wheel is drained.

use super::{
    after, drained, duel, marked, one, one_of, placed, report, resting, with_two_others, World,
};
use crate::core::arm::How;
use crate::core::life::Spec;
use crate::core::state::{Handle, NEVER};
use crate::core::wheel::Config;
use crate::core::Error;
use crate::tests::checker::{at, shape};
use crate::tests::{cases, result};

/// Race 4: what an arm under way has armed is handed back, or the arm refused.
#[test]
fn race_4_arm_against_drain() {
    duel(
        || one(None),
        |(w, t)| w.wheel.arm(&w.own(1), *t, at(3), How::Always),
        |(w, _)| drained(w),
        |(w, t), armed, handed| {
            assert_eq!(drained(w), 0, "left to a second drain");
            is_handed_back_or_refused(armed, handed);
            assert_eq!(w.due(*t), 0);
        },
    );
}

/// Of an arm of a timer that was not pending. The drain has handed back that number.
fn is_handed_back_or_refused(armed: Result<bool, Error>, handed: u64) {
    match armed {
        Ok(false) => assert_eq!(handed, 1, "armed and forgotten"),
        Err(Error::Shutdown) => assert_eq!(handed, 0),
        other => panic!("{other:?}"),
    }
}

/// Race 4: what a short arm under way has armed is handed back, or the arm refused. Some ticks
/// are so long that a biased tick is a small number. If another timer is due before, the driver
/// comes without being woken, and the short way goes to its end.
#[test]
fn race_4_short_arm_against_drain() {
    for (tick_ns, others) in [(1 << 20, 0), (1 << 40, 0), (1 << 20, 1)] {
        duel(
            move || {
                let w = World::of(Config {
                    tick_ns,
                    ..shape(2, 1, 0)
                });
                let t = w.timer(None);
                w.wheel.inboxes.reserve(2).unwrap();
                for _ in 0..others {
                    w.timer(Some(1));
                }
                (w, t)
            },
            move |(w, t)| w.wheel.arm_at(&w.own(1), *t, 3 * tick_ns),
            |(w, _)| drained(w),
            move |(w, t), armed, handed| {
                is_handed_back_or_refused(result(armed), handed - others);
                assert_eq!(w.due(*t), 0);
            },
        );
    }
}

/// Race 4 with a node that was never used before; due never, too, for then no
/// note is written and the two threads meet in the slab's counter alone.
#[test]
fn race_4_setup_against_drain() {
    for due in [at(3), NEVER] {
        duel(
            || World::new(2, 1, 0),
            move |w| w.wheel.setup(&w.own(1), Spec::default(), Some(due)),
            drained,
            |w, made, handed| match made {
                Ok(t) => {
                    assert_eq!(handed, 1, "armed and forgotten");
                    assert!(w.wheel.due(t).unwrap().is_none());
                }
                Err(Error::Shutdown) => assert_eq!(handed, 0),
                other => panic!("{other:?}"),
            },
        );
    }
}

/// Race 4 with a node that was used before, whose entry is left: nothing
/// but its state word goes from one thread to the other. The drain reports the
/// timer that it hands back, and not the one before.
#[test]
fn race_4_setup_of_a_used_node_against_drain() {
    duel(
        || after(placed(3), |(w, t)| w.free(0, *t)).0,
        |w| w.wheel.setup(&w.own(0), marked(2), Some(at(3))),
        reported,
        |w, made, handed| match made {
            Ok(t) => {
                assert_eq!(handed, [(t, 2)], "armed and forgotten");
                assert!(w.wheel.due(t).unwrap().is_none());
            }
            Err(Error::Shutdown) => assert!(handed.is_empty()),
            other => panic!("{other:?}"),
        },
    );
}

/// A timer is freed and another made of its node while the drain is about to
/// hand it back.
#[test]
fn race_4_free_and_reuse_against_drain() {
    duel(
        || one_of(marked(1), Some(3)),
        |(w, t)| {
            let was = w.free(0, *t);
            (was, w.wheel.setup(&w.own(0), marked(2), Some(at(3))))
        },
        |(w, _)| reported(w),
        |(_, t), (was, made), handed| {
            let mut expected = Vec::new();
            if !was {
                expected.push((*t, 1));
            }
            if let Ok(next) = made {
                expected.push((next, 2));
            }
            assert_eq!(handed, expected);
        },
    );
}

/// Two threads arm one timer, and neither sees before that the wheel is closed: each
/// arming is handed back or refused.
#[test]
fn race_4_two_arms_against_drain() {
    for (short, first) in [(false, 3), (true, 3), (true, 2)] {
        report(with_two_others(
            Some(3),
            || one(None),
            move |(w, t)| w.arm_either_way(0, *t, 5 - first, short),
            move |(w, t)| w.arm_either_way(1, *t, first, short),
            |(w, _)| drained(w),
            |(w, t), a, b, handed| {
                let armed = u64::from(a == 0) + u64::from(b == 0);
                assert_eq!(handed, armed, "{a} {b}");
                assert_eq!(drained(w), 0, "left to a second drain");
                assert_eq!(w.due(*t), 0);
            },
        ));
    }
}

/// Race 4 of an arm that relies on a tick.
#[test]
fn race_4_rely_against_drain() {
    for [short, was] in cases() {
        duel(
            move || if was { placed(2) } else { resting(2) },
            move |(w, t)| w.arm_either_way(1, *t, 3, short),
            |(w, _)| drained(w),
            move |(w, t), armed, handed| {
                assert_eq!(drained(w), 0, "left to a second drain");
                let shut = armed == Error::Shutdown as i32;
                match was {
                    true => assert!(handed == 1 && (shut || armed == 1)),
                    false => assert!(handed == u64::from(armed == 0) && (shut || armed == 0)),
                }
                assert_eq!(w.due(*t), 0);
            },
        );
    }
}

/// What a drain says of those that it hands back.
fn reported(w: &World) -> Vec<(Handle, u64)> {
    let mut drive = w.wheel.drive(0).unwrap();
    drive.handed(|f| (f.handle, f.cookie))
}
