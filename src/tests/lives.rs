//! The lives of a node: a handle of an earlier life acts on nothing, and no handle comes again.

use super::{at, shape, Own};
use crate::core::arm::How;
use crate::core::error::Error;
use crate::core::life::Spec;
use crate::core::link::Link;
use crate::core::state::index_of;
use crate::core::wheel::{Config, Wheel};
use crate::sync::Ordering;

#[test]
fn c14_a_stale_handle_acts_on_nothing() {
    let w = Wheel::new(shape(4, 6, 0)).unwrap();
    let own = &Own(1);
    let make = || w.setup(own, Spec::default(), None).unwrap();
    let a = make();
    assert_eq!(w.arm(own, a, 5, How::Always), Ok(false));
    assert_eq!(w.free(own, a), Ok(true));
    // Neither is a name with another flag, index or generation; while the node
    // is free and while it is another timer's.
    let wrongs = [
        vec![a, 0, u64::MAX, 1, 2, 3, 1 << 63],
        (0..64).map(|bit| a ^ 1 << bit).collect(),
    ];
    for again in [false, true] {
        let b = again.then(make).unwrap_or(a);
        for &wrong in wrongs
            .iter()
            .flatten()
            .filter(|&&wrong| !again || wrong != b)
        {
            let stale = Error::Stale as i32;
            assert_eq!(
                w.arm(own, wrong, 5, How::Always),
                Err(Error::Stale),
                "{wrong:x} {b:x}"
            );
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
    let w = Wheel::new(shape(4, 6, 0)).unwrap();
    let own = &Own(1);
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
    let config = Config {
        limit: 1,
        ..shape(4, 6, 0)
    };
    let w = Wheel::new(config).unwrap();
    let own = &Own(1);
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
