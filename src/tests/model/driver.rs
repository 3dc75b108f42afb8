//! The right to drive: one thread at a time, each after the one before.

use super::{duel, one, Plain};

/// Two threads drive in turn, or one of them may not.
#[test]
fn driver_against_driver() {
    duel(
        || (one(None), Plain::default()),
        |((w, _), plain)| w.wheel.drive(0).map(|_drive| plain.set(1)).is_ok(),
        |((w, _), plain)| w.wheel.drive(0).map(|_drive| plain.set(2)).is_ok(),
        |_, a, b| assert!(a || b),
    );
}
