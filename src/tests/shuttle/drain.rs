//! The end of a wheel that is in use: race 4.

use super::{check, together, World};
use std::sync::atomic::Ordering;

/// Each armed timer is handed back once, and from then on none is armed.
#[test]
fn stop_and_drain_against_three_threads() {
    check(|rng, tally| {
        let w = World::new(rng);
        together(
            rng,
            |n, rng| w.live(n, rng, 2, 12),
            |rng| {
                for _ in 0..rng.below(6) {
                    w.advance(w.now() + 1 + rng.below(4), |f| {
                        w.fire(f);
                        true
                    });
                }
                w.closing.store(true, Ordering::Relaxed);
                w.drain();
            },
        );
        assert_eq!(w.drain(), 0, "left to a second drain");
        w.close(tally);
    });
}
