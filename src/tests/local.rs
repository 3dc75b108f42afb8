//! The shards that a thread holds.

use super::*;
use crate::api::Wheel;
use crate::sync::Ordering;
use std::sync::mpsc::channel;
use std::thread;
use std::time::Duration;

fn owned(wheel: &Wheel) -> usize {
    let mut n = 0;
    wheel.host().wheel.find_shard(|shard| {
        n += usize::from(shard.owned.load(Ordering::Relaxed) != 0);
        false
    });
    n
}

/// As if the thread that holds the lock were stopped.
#[test]
fn an_arm_waits_for_no_lock() {
    // Three pages.
    const MANY: usize = 600;
    let wheels: Vec<_> = (0..table::PLACES + MANY)
        .map(|_| Wheel::new().unwrap())
        .collect();
    let one_more = Wheel::new().unwrap();
    let (wheels, one_more) = (&wheels, &one_more);
    let usual = owned(one_more);
    let arm = |wheel: &Wheel| wheel.once(Duration::from_secs(3600), 0).unwrap();
    let (all_armed, wait_for_arms) = channel();
    let (unlocked, wait_for_lock) = channel();
    thread::scope(|s| {
        let locked = lock(REGISTER.get().unwrap());
        let arms = s.spawn(move || {
            for _ in 0..2 {
                wheels.iter().for_each(|w| _ = arm(w));
                assert_eq!(table::beyond(), MANY);
            }
            all_armed.send(()).unwrap();
            wait_for_lock.recv().unwrap();
            arm(one_more);
            assert_eq!(table::beyond(), 0);
            // The thread has given up one of its places, and all beyond the table; no other.
            let kept = wheels.iter().filter(|w| owned(w) > usual).count();
            assert_eq!(kept, table::PLACES - 1);
            wheels.iter().for_each(|w| _ = arm(w));
        });
        wait_for_arms.recv().unwrap();
        drop(locked);
        unlocked.send(()).unwrap();
        // The scope may end before the thread has given back its shards; a join does not.
        arms.join().unwrap();
    });
    assert!(wheels.iter().all(|w| owned(w) == usual));
    assert_eq!(owned(one_more), usual);
}
