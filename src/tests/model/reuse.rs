//! Nodes that are freed, and used again by the same thread or by another.

use super::{duel, one};
use crate::tests::{at, Heap};
use crate::wheel::{Error, Spec, Wheel};

/// A stale cancel does not touch the next user of the node, nor its promise.
#[test]
fn free_and_reuse_against_stale_cancel() {
    duel(
        || one(Some(2)),
        |(w, t)| w.wheel.cancel(&w.own(1), *t, 0),
        |(w, t)| {
            assert!(w.wheel.free(&w.own(0), *t).is_ok());
            w.timer(Some(2))
        },
        |(w, t), cancelled, next| {
            assert_ne!(next, *t);
            assert_eq!(Wheel::<Heap>::index_of(next), Wheel::<Heap>::index_of(*t));
            assert!(matches!(cancelled, Ok(true) | Err(Error::Stale)));
            assert_eq!(w.advance(2), 1);
        },
    );
}

/// A timer is moved by the short way, which counts the move after it has let go
/// of the node: the node may be free by then, and is handed out once all the
/// same.
#[test]
fn free_and_reuse_against_a_move_without_a_push() {
    duel(
        || one(Some(2)),
        |(w, t)| w.wheel.rearm(*t, at(3), |_| (), || (), |_| (), || ()),
        |(w, t)| {
            assert!(w.wheel.free(&w.own(0), *t).is_ok());
            [w.timer(None), w.timer(None)]
        },
        |(w, _), (), made| {
            let [a, b] = made.map(Wheel::<Heap>::index_of);
            assert_ne!(a, b);
            assert_eq!(w.wheel.live(), 2);
        },
    );
}

/// A free list is taken by one thread while its owner uses it.
#[test]
fn steal_against_setup() {
    duel(
        || {
            let (w, first) = one(None);
            w.wheel.free(&w.own(0), first).unwrap();
            w
        },
        |w| w.wheel.setup(&w.own(1), Spec::default(), None).unwrap(),
        |w| w.timer(None),
        |w, theirs, mine| {
            let index = Wheel::<Heap>::index_of;
            assert_ne!(index(mine), index(theirs));
            assert_eq!(w.wheel.live(), 2);
        },
    );
}
