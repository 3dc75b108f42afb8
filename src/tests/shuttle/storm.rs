//! Threads that arm, move, cancel, free and reuse their own timers and each
//! other's, while the driver goes over wraps and cascades: races 1 and 2, and all
//! that they may come to together.

use super::{check, together, Tally, World};
use crate::tests::Rng;

/// Three threads, each with a number of lives, and of calls in a life.
fn storm(rng: &mut Rng, tally: &Tally, lives: u64, calls: u64) {
    let w = World::new(rng);
    together(
        rng,
        |n, rng| w.live(n, rng, lives, calls),
        |rng| {
            for _ in 0..20 {
                let most = 1 + rng.below(6);
                let mut n = 0;
                w.advance(w.now() + 1 + rng.below(4), |f| {
                    w.fire(f);
                    n += 1;
                    n < most
                });
                if rng.below(4) == 0 {
                    // What it finds, it tells nobody: the next sweep wakes.
                    w.wheel.drive(0).unwrap().sleep(|_| ());
                }
            }
        },
    );
    w.close(tally);
}

/// Each timer ends once for each time it was armed, none early and none late.
#[test]
fn three_threads_on_each_others_timers() {
    check(|rng, tally| storm(rng, tally, 1, 24));
}

/// The same where numbers go from hand to hand, with the notes in their inboxes.
#[test]
fn threads_that_come_and_go() {
    check(|rng, tally| storm(rng, tally, 8, 3));
}
