//! The ends of what the core takes.

use super::{at, config, Heap, Own};
use crate::state::MAX_TICK;
use crate::wheel::{Config, Error, Spec, Wheel, GENERATION_MASK};
use std::sync::atomic::Ordering;

#[test]
fn a_wheel_out_of_range_is_refused() {
    let usual = config(4, 8, 0);
    let made = |config| Wheel::new(Heap, config).map(|_| ()).err();
    for (levels, slot_bits) in [(1, 1), (1, 16), (3, 16), (6, 8), (8, 6)] {
        let shape = config(levels, slot_bits, MAX_TICK / 2);
        assert_eq!(made(shape), None);
    }
    for (levels, slot_bits) in [(0, 8), (9, 1), (4, 0), (1, 17), (4, 13), (7, 7)] {
        let shape = config(levels, slot_bits, 0);
        assert_eq!(made(shape), Some(Error::Invalid), "{levels} {slot_bits}");
    }
    for wrong in [
        Config { limit: 0, ..usual },
        Config {
            tick_ns: 0,
            ..usual
        },
        config(4, 8, MAX_TICK / 2 + 1),
    ] {
        assert_eq!(made(wrong), Some(Error::Invalid), "{wrong:?}");
    }
}

#[test]
fn a_node_whose_generations_are_used_up_is_not_used_again() {
    let w = Wheel::new(Heap, config(4, 8, 0)).unwrap();
    let own = &Own(w.attach().unwrap());
    let first = w.setup(own, Spec::default(), None).unwrap();
    assert_eq!(w.free(own, first), Ok(false));
    let node = w.slab.get(0).unwrap();
    node.generation
        .store(GENERATION_MASK - 5, Ordering::Relaxed);
    for left in [2, 1] {
        let h = w.setup(own, Spec::default(), Some(at(9))).unwrap();
        assert_eq!(Wheel::<Heap>::index_of(h), 0, "{left} left");
        assert_eq!(w.free(own, h), Ok(true));
        assert_eq!(w.free(own, h), Err(Error::Stale));
    }
    let other = w.setup(own, Spec::default(), None).unwrap();
    assert_eq!(Wheel::<Heap>::index_of(other), 1);
    assert_eq!(w.live(), 1);
}
