//! One key, which three threads set, move and delete while it fires.

use super::{add, awake, check, together, World, LONGEST};
use crate::core::driver::Fired;
use crate::core::period::KEYED;
use crate::runtime::keys::Keys;
use crate::tests::checker::{at, func};
use crate::tests::Own;
use std::collections::BTreeSet;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::Mutex;

/// Each set has ended once: fired, with its own cookie, or deleted or replaced.
#[test]
fn three_threads_on_one_key() {
    check(|rng, tally| {
        let w = World::new(rng);
        let keys = Keys::new(0);
        let (sets, gone) = (AtomicU64::new(0), AtomicU64::new(0));
        let count = |of: &AtomicU64, by: bool| of.fetch_add(by.into(), Ordering::Relaxed);
        let cookies = Mutex::new(BTreeSet::new());
        let fire = |f: &Fired| {
            if f.kind & KEYED == 0 {
                w.fire(f);
                return true;
            }
            let cookie = keys.fetch(f).expect("each has its entry").cookie;
            assert!(cookies.lock().unwrap().insert(cookie), "fired twice");
            true
        };
        together(
            rng,
            |n, rng| {
                let number = w.take_number();
                let own = Own(number);
                for _ in 0..20 {
                    let due = at(w.soon(rng));
                    match rng.below(6) {
                        0..=2 => {
                            let func = func(rng.below(2) as usize);
                            let cookie = count(&sets, true);
                            let set = keys.set(&w.wheel, &own, b"k", func, cookie, due);
                            count(&gone, set.unwrap());
                        }
                        3 => _ = keys.shift(&w.wheel, &own, b"k", due).unwrap(),
                        4 => _ = count(&gone, keys.delete(&w.wheel, &own, b"k")),
                        _ => w.call(n, rng, &awake(number)),
                    }
                }
                w.give_back(number);
            },
            |rng| {
                for _ in 0..20 {
                    w.advance(w.now() + 1 + rng.below(4), fire);
                }
            },
        );
        w.advance(w.now() + LONGEST, fire);
        let fired = cookies.lock().unwrap().len() as u64;
        let [sets, gone] = [sets, gone].map(AtomicU64::into_inner);
        assert_eq!(sets, gone + fired);
        add(&w.ended, sets);
        assert!(keys.is_empty());
        w.close(tally);
    });
}
