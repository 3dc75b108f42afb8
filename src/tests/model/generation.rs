//! The low part of a generation wraps while a thread or the driver writes a
//! reason into the link.

use super::{duel, Alarm, World};
use crate::core::error::Error;
use crate::core::life::Spec;
use crate::core::state::{handle_of, high_of, Handle, GEN_BITS, GEN_HIGH_BITS};
use crate::core::timer::first_generation;
use crate::core::wheel::Config;
use crate::tests::checker::{at, shape};

/// The last generation before the wrap.
const LAST: u32 = (1 << (GEN_BITS - GEN_HIGH_BITS)) - 1;

/// A timer of that generation.
fn last() -> (World, Handle) {
    let w = World::of(Config {
        salt: u64::from(LAST.wrapping_sub(first_generation(0, 1))),
        ..shape(2, 1, 0)
    });
    let t = w.timer(Some(5));
    assert_eq!(t, handle_of(1, LAST));
    (w, t)
}

/// Frees it, and makes another, perhaps of the same node.
fn free_and_reuse(w: &World, t: Handle) -> (bool, Handle) {
    let was = w.wheel.free(&w.own(0), t).unwrap();
    (was, w.timer(Some(4)))
}

fn judge(w: &World, t: Handle, made: Handle) {
    assert_ne!(t, made);
    assert_eq!(w.wheel.due(t), Err(Error::Stale));
    assert_eq!(
        w.wheel.due(made),
        Ok(Some(at(4))),
        "the high part was written over"
    );
    assert_eq!(w.advance(3), 0);
    assert_eq!(w.advance(4), 1);
    assert_eq!(w.advance(9), 0);
    assert!(w.wheel.free(&w.own(0), made).is_ok());
}

/// An arm with a note.
#[test]
fn high_part_against_publish() {
    for short in [false, true] {
        duel(
            || {
                let (w, t) = last();
                w.collect();
                (w, t)
            },
            move |(w, t)| w.arm_either_way(1, *t, 3, short),
            |(w, t)| free_and_reuse(w, *t),
            |(w, t), armed, (was, made)| {
                assert!(was, "armed before and after");
                assert!(armed == 1 || armed == Error::Stale as i32);
                judge(w, *t, made);
            },
        );
    }
}

/// The driver has taken a note, and makes an entry for the node of the life before.
#[test]
fn high_part_against_look() {
    duel(
        last,
        |(w, _)| w.advance(1),
        |(w, t)| free_and_reuse(w, *t),
        |(w, t), fired, (was, made)| {
            assert!(was && fired == 0);
            judge(w, *t, made);
        },
    );
}

/// The driver drops or moves the entry before it sleeps.
#[test]
fn high_part_against_settle() {
    for cancels in [true, false] {
        duel(
            move || {
                let (w, t) = last();
                w.collect();
                match cancels {
                    true => assert!(w.cancel(0, t)),
                    false => assert!(w.arm(0, t, 6)),
                }
                (w, t, Alarm::new())
            },
            |(w, _, alarm)| w.sleep(alarm),
            |(w, t, alarm)| {
                w.wheel.free(&w.own(0), *t).unwrap();
                let caller = alarm.caller(0);
                let due = Some(at(4));
                w.wheel.setup(&caller, Spec::default(), due).unwrap()
            },
            |(w, t, alarm), (), made| {
                assert!(alarm.get() <= 4, "asleep until {}", alarm.get());
                judge(w, *t, made);
            },
        );
    }
}

/// The driver makes an entry for the node of the life before.
#[test]
fn high_part_against_visit() {
    duel(
        || {
            let (w, t) = last();
            w.arm(0, t, 1);
            w.collect();
            w.arm(0, t, 5);
            (w, t)
        },
        |(w, _)| w.advance(1),
        |(w, t)| free_and_reuse(w, *t),
        |(w, t), fired, (was, made)| {
            assert!(was && fired == 0);
            assert_ne!(high_of(*t), high_of(made));
            judge(w, *t, made);
        },
    );
}
