//! Race 4: a timer is armed while the wheel is drained.

use super::{duel, one, World};
use crate::tests::at;
use crate::wheel::{Error, How, Spec};

/// How many a drain hands back.
fn drained(w: &World) -> u64 {
    let mut handed = 0;
    assert!(w.wheel.drive().unwrap().drain(|_| {
        handed += 1;
        true
    }));
    handed
}

/// Race 4: what an arm under way has armed is handed back, or the arm refused.
#[test]
fn race_4_arm_against_drain() {
    duel(
        || one(None),
        |(w, t)| w.wheel.arm(&w.own(1), *t, at(3), How::Always),
        |(w, _)| drained(w),
        |(w, t), armed, handed| {
            assert_eq!(drained(w), 0, "left to a second drain");
            match armed {
                Ok(false) => assert_eq!(handed, 1),
                Err(Error::Shutdown) => assert_eq!(handed, 0),
                other => panic!("{other:?}"),
            }
            assert!(w.wheel.due(*t).unwrap().is_none());
        },
    );
}

/// Race 4 with a node that was never used before.
#[test]
fn race_4_setup_against_drain() {
    duel(
        || World::new(2, 1, 0),
        |w| {
            let due = Some(at(3));
            w.wheel.setup(&w.own(1), Spec::default(), due)
        },
        |w| drained(w),
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
