//! The ends of what the core takes, and of the lives of a node: a handle of an earlier life acts
//! on nothing, and no handle comes again.

use super::{at, awake, shape, Everywhere, NUMBERS};
use crate::core::arm::How;
use crate::core::life::Spec;
use crate::core::record::Link;
use crate::core::state::{index_of, NEVER};
use crate::core::ticks::{END_OF_TIME, LONGEST_TICK, SHORTEST_TICK};
use crate::core::wheel::Config;
use crate::core::Error;
use crate::sync::Ordering;

#[test]
fn a_wheel_out_of_range_is_refused() {
    let usual = shape(4, 8, 0);
    let made = |config| Everywhere::new(config).map(|_| ()).err();
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
    let wrong_ticks = [0, SHORTEST_TICK - 1, LONGEST_TICK + 1].map(tick);
    let no_timers = Config { limit: 0, ..usual };
    let too_late = Config {
        start_ns: END_OF_TIME,
        ..usual
    };
    for wrong in wrong_ticks.into_iter().chain([no_timers, too_late]) {
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
        let w = Everywhere::new(config).unwrap();
        let own = &awake(1);
        let last = (END_OF_TIME - 1) / tick_ns * tick_ns;
        let asked = last - 5 * tick_ns;
        let [h, never] = [asked, END_OF_TIME].map(|ns| w.setup(own, Spec::default(), Some(ns)));
        let [h, never] = [h, never].map(Result::unwrap);
        assert_eq!(w.due(never), Ok(Some(NEVER)));
        let due = w.due(h).unwrap().unwrap();
        assert!(due >= asked);
        let mut fired = Vec::new();
        for now in [last - 6 * tick_ns, last, u64::MAX] {
            let mut drive = w.drive(0).unwrap();
            fired.extend(drive.told(now, |f| (f.handle, f.deadline_ns)));
            assert_eq!(fired.is_empty(), now < due || due == NEVER);
        }
        assert_eq!(fired, if due == NEVER { vec![] } else { vec![(h, due)] });
        assert_eq!(w.due(never), Ok(Some(NEVER)));
    }
}

/// A wheel with room for a number of timers.
fn limited(limit: u32) -> Everywhere {
    let config = Config {
        limit,
        ..shape(4, 8, 0)
    };
    Everywhere::new(config).unwrap()
}

/// A wheel that is full takes another timer once one is freed, whichever
/// thread has freed it.
#[test]
fn a_limit_is_exact() {
    for limit in [1, 63, 64, 65, 200] {
        let w = limited(limit);
        let [one, other] = [1, 2].map(awake);
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

#[test]
fn c14_a_stale_handle_acts_on_nothing() {
    let w = Everywhere::new(shape(4, 6, 0)).unwrap();
    let own = &awake(1);
    let make = || w.setup(own, Spec::default(), None).unwrap();
    let a = make();
    assert_eq!(w.arm(own, a, 5, How::Always), Ok(false));
    assert_eq!(w.free(own, a), Ok(true));
    // Neither is a name with another flag, index or generation; while the node
    // is free and while it is another timer's.
    let mut wrongs = vec![a, 0, u64::MAX, 1, 2, 3, 1 << 63];
    wrongs.extend((0..64).map(|bit| a ^ 1 << bit));
    for again in [false, true] {
        let b = again.then(make).unwrap_or(a);
        for wrong in wrongs.iter().copied() {
            if again && wrong == b {
                continue;
            }
            let stale = Error::Stale as i32;
            let armed = w.arm(own, wrong, 5, How::Always);
            assert_eq!(armed, Err(Error::Stale), "{wrong:x} {b:x}");
            assert_eq!(w.arm_at(own, wrong, at(77)), stale);
            assert_eq!(w.cancel(own, wrong, false), Err(Error::Stale));
            assert_eq!(w.cancel_plain(own, wrong), stale);
            assert_eq!(w.free(own, wrong), Err(Error::Stale));
            assert_eq!(w.set_period(wrong, 1), Err(Error::Stale));
        }
        if again {
            assert_eq!(w.due(b), Ok(None));
            assert_eq!(w.free(own, b), Ok(false));
        }
    }
}

/// A node goes through all its lives: no name comes twice, and then it is not
/// used any more.
#[test]
fn c14_the_generations_of_a_node_are_used_up() {
    const LIVES: u32 = 1 << 19;
    let w = Everywhere::new(shape(4, 6, 0)).unwrap();
    let own = &awake(1);
    let first = w.setup(own, Spec::default(), None).unwrap();
    let mut last = first;
    for _ in 0..LIVES {
        w.free(own, last).unwrap();
        let next = w.setup(own, Spec::default(), Some(at(5))).unwrap();
        assert_eq!(index_of(next), index_of(first));
        assert!(next != last && next != first);
        assert_eq!(w.due(last), Err(Error::Stale));
        last = next;
    }
    // Its low part is that of the first one, as 2^18 divides the number of lives.
    let stale = Error::Stale as i32;
    assert_eq!(w.due(first), Err(Error::Stale));
    assert_eq!(w.arm_at(own, first, at(9)), stale);
    assert_eq!(w.cancel_plain(own, first), stale);
    assert_eq!(w.due(last), Ok(Some(at(5))));
    // One note and one entry for all of them.
    assert_eq!(w.total(2, |c| &c.notes), 1);
    w.drive(0).unwrap().fall_asleep(|_| ());
    assert_eq!(w.entries(), 1);
}

/// A node that is used up is no timer: the limit does not count it.
#[test]
fn a_limit_of_one_outlives_its_node() {
    const LIVES: u32 = 1 << 19;
    let w = limited(1);
    let own = &awake(1);
    let first = w.setup(own, Spec::default(), None).unwrap();
    assert_eq!(w.free(own, first), Ok(false));
    // The last of its high parts.
    let link = &w.slab.hot(index_of(first)).link;
    let last = Link(link.load(Ordering::Relaxed)).high().wrapping_sub(1);
    link.store(Link::none(last).0, Ordering::Relaxed);
    let mut index = index_of(first);
    for _ in 0..LIVES {
        let timer = w.setup(own, Spec::default(), None).unwrap();
        assert_eq!(w.setup(own, Spec::default(), None), Err(Error::Limit));
        index = index_of(timer);
        assert_eq!(w.free(own, timer), Ok(false));
    }
    assert_ne!(index, index_of(first), "its node is used up");
}
