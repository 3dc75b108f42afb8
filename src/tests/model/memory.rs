//! Memory that one thread makes and another uses: shards, blocks of the slab,
//! chunks of the buckets. The checker refuses a load that is not ordered after
//! the making of what it reads.

use super::{duel, one, two, World};
use crate::core::life::Spec;
use crate::core::state::index_of;
use crate::tests::checker::at;

/// A thread comes, with a shard that the driver has never seen.
#[test]
fn new_shard_against_sweep() {
    duel(
        || {
            let (w, t) = one(None);
            w.timer(Some(1));
            (w, t)
        },
        |(w, t)| w.arm_by_another(*t, 2),
        |(w, _)| w.advance(2),
        |(w, _), was, _| {
            assert!(!was);
            w.advance(3);
            assert_eq!(w.fired(), 2);
        },
    );
}

/// Two threads come.
#[test]
fn new_shard_against_new_shard() {
    duel(
        two,
        |(w, t, _)| w.arm_by_another(*t, 2),
        |(w, _, u)| w.arm_by_another(*u, 1),
        |(w, _, _), _, _| assert_eq!(w.advance(2), 2),
    );
}

/// Two threads need the same new block of the slab.
#[test]
fn fresh_block_against_fresh_block() {
    duel(
        || World::new(2, 1, 0),
        |w| {
            let spec = Spec::default();
            w.wheel.setup(&w.own(1), spec, Some(at(1))).unwrap()
        },
        |w| w.timer(Some(2)),
        |w, theirs, mine| {
            assert_ne!(index_of(mine), index_of(theirs));
            assert_eq!(w.advance(2), 2);
        },
    );
}

/// A timer of a new block fires while the thread that made it still arms it.
#[test]
fn fresh_block_against_sweep() {
    duel(
        || {
            let w = World::new(2, 1, 0);
            w.timer(Some(1));
            w.timer(None);
            w
        },
        |w| {
            let spec = Spec::default();
            w.wheel.setup(&w.own(1), spec, Some(at(1))).unwrap()
        },
        |w| w.advance(1),
        |w, _, _| {
            w.advance(3);
            assert_eq!(w.fired(), 2);
        },
    );
}

/// The driver gives an emptied chunk back while its owner runs out of them.
#[test]
fn chunk_given_back_against_push() {
    duel(
        || {
            let w = World::new(1, 2, 0);
            (0..3).for_each(|_| _ = w.timer(Some(1)));
            let t = w.timer(None);
            (w, t)
        },
        |(w, t)| {
            w.arm(0, *t, 3);
            w.arm(0, *t, 2);
        },
        |(w, _)| w.advance(1),
        |(w, t), (), _| {
            assert_eq!(w.advance(2), 1);
            // What was given back is good for another push.
            w.arm(0, *t, 5);
            w.arm(0, *t, 4);
            assert_eq!(w.advance(9), 1);
            assert_eq!(w.fired(), 5);
        },
    );
}

/// A shard goes from a thread that ends to one that begins, entries and all.
#[test]
fn shard_hand_over() {
    duel(
        two,
        |(w, t, _)| {
            w.arm(1, *t, 2);
            w.wheel.detach(w.tokens[1]);
        },
        |(w, _, u)| w.arm_by_another(*u, 2),
        |(w, _, _), (), _| assert_eq!(w.advance(2), 2),
    );
}

/// Chunks that the driver has given back go on with their shard.
#[test]
fn shard_hand_over_with_returned_chunks() {
    duel(
        || {
            let (w, t, u) = two();
            for timer in [t, u, w.timer(None)] {
                w.arm(1, timer, 1);
            }
            (w, t, u)
        },
        |(w, _, u)| {
            w.arm(1, *u, 5);
            w.wheel.detach(w.tokens[1]);
        },
        |(w, t, _)| {
            let fired = w.advance(1);
            w.arm_by_another(*t, 7);
            fired
        },
        |(w, _, _), (), fired| {
            let rest = w.advance(9);
            // The one that is armed meanwhile has fired before, or not.
            assert!(fired + rest == 4 || fired + rest == 5, "{fired} {rest}");
        },
    );
}
