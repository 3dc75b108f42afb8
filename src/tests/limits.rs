//! The ends of what the core takes.

use super::{shape, Collect, Own};
use crate::core::driver::Fired;
use crate::core::error::Error;
use crate::core::life::Spec;
use crate::core::state::NEVER;
use crate::core::ticks::{END_OF_TIME, LONGEST_TICK, SHORTEST_TICK};
use crate::core::wheel::{Config, Wheel};
use crate::tests::NUMBERS;

#[test]
fn a_wheel_out_of_range_is_refused() {
    let usual = shape(4, 8, 0);
    let made = |config| Wheel::new(config).map(|_| ()).err();
    for (levels, slot_bits) in [(1, 1), (1, 16), (3, 16), (6, 8), (8, 6)] {
        let last = Config {
            start_ns: END_OF_TIME - 1,
            ..shape(levels, slot_bits, 0)
        };
        assert_eq!(made(last), None);
    }
    for (levels, slot_bits) in [(0, 8), (9, 1), (4, 0), (1, 17), (4, 13), (7, 7)] {
        let wrong = shape(levels, slot_bits, 0);
        assert_eq!(made(wrong), Some(Error::Invalid), "{levels} {slot_bits}");
    }
    let tick = |tick_ns| Config { tick_ns, ..usual };
    assert_eq!(made(tick(SHORTEST_TICK)), None);
    assert_eq!(made(tick(LONGEST_TICK)), None);
    for wrong in [
        Config { limit: 0, ..usual },
        tick(0),
        tick(SHORTEST_TICK - 1),
        tick(LONGEST_TICK + 1),
        Config {
            start_ns: END_OF_TIME,
            ..usual
        },
    ] {
        assert_eq!(made(wrong), Some(Error::Invalid), "{wrong:?}");
    }
}

/// Whatever the length of a tick, a timer for the last ticks of all fires in
/// them, or is due never if it was rounded up beyond them; one for later is due
/// never.
#[test]
fn a_timer_at_the_end_of_time() {
    for tick_ns in [SHORTEST_TICK, 1 << 10, 1 << 20, LONGEST_TICK] {
        let config = Config {
            tick_ns,
            ..shape(4, 8, 0)
        };
        let w = Wheel::new(config).unwrap();
        let own = &Own(1);
        let last = (END_OF_TIME - 1) / tick_ns * tick_ns;
        let h = w
            .setup(own, Spec::default(), Some(last - 5 * tick_ns))
            .unwrap();
        let never = w.setup(own, Spec::default(), Some(END_OF_TIME)).unwrap();
        assert_eq!(w.due(never), Ok(Some(NEVER)));
        let due = w.due(h).unwrap().unwrap();
        assert!(due >= last - 5 * tick_ns);
        let mut fired = Vec::new();
        for now in [last - 6 * tick_ns, last, u64::MAX] {
            let mut drive = w.drive(0).unwrap();
            assert!(drive.advance(
                now,
                Collect(|f: &Fired| {
                    fired.push((f.handle, f.deadline_ns));
                    true
                }),
            ));
            assert_eq!(fired.is_empty(), now < due || due == NEVER);
        }
        assert_eq!(fired, if due == NEVER { vec![] } else { vec![(h, due)] });
        assert_eq!(w.due(never), Ok(Some(NEVER)));
    }
}

/// A wheel that is full takes another timer once one is freed, whichever
/// thread has freed it.
#[test]
fn a_limit_is_exact() {
    for limit in [1, 63, 64, 65, 200] {
        let config = Config {
            limit,
            ..shape(4, 8, 0)
        };
        let w = Wheel::new(config).unwrap();
        let [one, other] = [1, 2].map(Own);
        let mut all = Vec::new();
        for n in 0..limit {
            let by = if n % 3 == 0 { &one } else { &other };
            all.push(w.setup(by, Spec::default(), None).unwrap());
        }
        for _ in 0..3 {
            for by in [&one, &other] {
                assert_eq!(w.setup(by, Spec::default(), None), Err(Error::Limit));
            }
            assert_eq!(w.live(NUMBERS), u64::from(limit));
            assert_eq!(w.free(&other, all.remove(0)), Ok(false));
            all.push(w.setup(&one, Spec::default(), None).unwrap());
        }
    }
}
