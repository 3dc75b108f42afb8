//! The low part of a generation wraps while a thread publishes a promise for
//! the node: drawn in `core/life.rs`.

use super::{duel, World};
use crate::core::error::Error;
use crate::core::life::first_generation;
use crate::core::state::{handle_of, high_of, Handle, GEN_BITS, GEN_HIGH_BITS};
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

/// An arm that pushes and publishes.
#[test]
fn high_part_against_publish() {
    for short in [false, true] {
        duel(
            last,
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

/// The driver makes a promise for the node of the life before.
#[test]
fn high_part_against_visit() {
    duel(
        || {
            let (w, t) = last();
            // The promise at tick 1 is kept at the next one.
            w.arm(0, t, 1);
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
