//! Callbacks on their way to the threads that run them.

use super::{explore, report};
use crate::core::driver::Fired;
use crate::runtime::ring::Ring;
use crate::sync::stopped_before;
use crate::tests::checker::func;
use loom::sync::Arc;
use loom::thread;
use std::sync::atomic::{AtomicBool, Ordering};

/// A timer that has fired for the `n`th time.
fn one(handle: u64, n: u64) -> Fired {
    Fired {
        handle,
        func: func(1),
        cookie: !n,
        deadline_ns: n,
        missed: 0,
        flags: 0,
        kind: 0,
    }
}

/// A queue that is full of the timers 1, 2 and so on.
fn full(size: u32) -> Arc<Ring> {
    let ring = Ring::new(size).unwrap();
    for n in 1..=u64::from(size) {
        assert!(ring.push(&one(n, 0)));
    }
    Arc::new(ring)
}

/// Empties the queue, unless a thread is stopped in it.
fn rest(ring: &Ring) -> Vec<Fired> {
    let rest = std::iter::from_fn(|| ring.pop()).collect();
    assert!(ring.pop().is_none() && ring.waiting() == 0 && ring.has_room());
    rest
}

/// The queue from the driver to two workers: each timer goes to one of them, in
/// order, and a full queue takes none.
#[test]
fn queue_of_the_pool() {
    for size in [1, 2] {
        report(explore(None, move || {
            let ring = Arc::new(Ring::new(size).unwrap());
            let workers: Vec<_> = (0..2)
                .map(|_| {
                    let ring = ring.clone();
                    thread::spawn(move || ring.pop())
                })
                .collect();
            let mut pushed: Vec<u64> = (1..=3).filter(|n| ring.push(&one(*n, 0))).collect();
            assert!(pushed.starts_with(&[1, 2][..size as usize]));
            let mut popped = Vec::new();
            for worker in workers {
                popped.extend(worker.join().unwrap());
            }
            popped.sort_unstable_by_key(|f| f.handle);
            popped.extend(rest(&ring));
            pushed.retain(|n| !popped.contains(&one(*n, 0)));
            assert!(pushed.is_empty());
            assert!(popped.windows(2).all(|f| f[0].handle < f[1].handle));
        }));
    }
}

/// The slot at the tail is filled and another one is empty: the driver skips a position,
/// which threads at the head step over.
#[test]
fn queue_of_the_pool_and_a_place_in_the_middle() {
    for revoked in [2, 3] {
        report(explore(None, move || {
            let ring = full(4);
            assert!(ring.revoke(revoked, &mut 0));
            let workers: Vec<_> = (0..2)
                .map(|_| {
                    let ring = ring.clone();
                    thread::spawn(move || ring.pop())
                })
                .collect();
            assert!(ring.push(&one(5, 0)), "there is a place");
            let is_sixth = ring.push(&one(6, 0));
            let mut popped: Vec<_> = workers.into_iter().map(|w| w.join().unwrap()).collect();
            popped.sort_unstable_by_key(|f| f.map(|f| f.handle));
            let popped = popped.into_iter().map(|f| f.expect("there are four"));
            let all: Vec<_> = popped.chain(rest(&ring)).map(|f| f.handle).collect();
            let mut want: Vec<u64> = (1..=5 + u64::from(is_sixth)).collect();
            want.retain(|handle| *handle != revoked);
            assert_eq!(all, want, "lost, doubled or out of order");
        }));
    }
}

/// A timer is taken by a worker, or out of the middle, and comes again, perhaps into the
/// same slot: each time one thread has it, with all of its event.
#[test]
fn queue_of_the_pool_and_a_timer_that_is_taken_out() {
    for (size, timer) in [(1, 1), (2, 1), (2, 2)] {
        report(explore(None, move || {
            let ring = full(size);
            let (worker, canceller) = (ring.clone(), ring.clone());
            let worker = thread::spawn(move || worker.pop());
            let canceller = thread::spawn(move || canceller.revoke(timer, &mut 0));
            // There is room for it when the first timer has ended.
            let again = ring.push(&one(1, 1));
            let popped = worker.join().unwrap();
            let revoked = canceller.join().unwrap();
            let popped: Vec<_> = popped.into_iter().chain(rest(&ring)).collect();
            let ended = popped.len() + usize::from(revoked);
            assert_eq!(ended, size as usize + usize::from(again), "lost or doubled");
            for (n, f) in popped.iter().enumerate() {
                assert_eq!(*f, one(f.handle, f.deadline_ns), "not of one event");
                assert!(!popped[..n].contains(f), "doubled");
            }
        }));
    }
}

/// A thread that looks for a timer finds it, or looks at its position again.
#[test]
fn queue_of_the_pool_and_a_look_for_a_timer() {
    report(explore(None, || {
        let ring = Arc::new(Ring::new(2).unwrap());
        let canceller = ring.clone();
        let canceller = thread::spawn(move || {
            let mut from = 0;
            let revoked = canceller.revoke(2, &mut from);
            assert_eq!(revoked, from == 2, "passed over");
            revoked
        });
        assert!(ring.push(&one(1, 0)) && ring.push(&one(2, 0)));
        let revoked = canceller.join().unwrap();
        assert_eq!(ring.waiting(), 2 - usize::from(revoked));
        assert_eq!(rest(&ring).len(), 2 - usize::from(revoked));
    }));
}

/// A timer is taken out of the middle while the driver looks for room: the driver finds it, then
/// or later.
#[test]
fn queue_of_the_pool_and_room_in_the_middle() {
    report(explore(None, || {
        let ring = full(2);
        let canceller = ring.clone();
        let canceller = thread::spawn(move || assert!(canceller.revoke(2, &mut 0)));
        let pushed = ring.push(&one(3, 0));
        canceller.join().unwrap();
        assert!(pushed || ring.push(&one(3, 0)), "there is a place");
        assert_eq!(rest(&ring), [one(1, 0), one(3, 0)]);
    }));
}

/// A thread that is stopped in the queue keeps at most the timer that it has taken: the
/// others get the rest, and the driver has room.
#[test]
fn queue_of_the_pool_and_a_thread_that_is_stopped() {
    type Step = fn(&Ring);
    let steps: [Step; 2] = [|ring| _ = ring.pop(), |ring| _ = ring.revoke(2, &mut 0)];
    let mut explored = None;
    for step in steps {
        for n in 0.. {
            let stopped = std::sync::Arc::new(AtomicBool::new(false));
            let was_stopped = stopped.clone();
            let more = explore(None, move || {
                let ring = full(2);
                let (first, second) = (ring.clone(), ring.clone());
                let stopped = was_stopped.clone();
                let first = thread::spawn(move || {
                    if stopped_before(n, || step(&first)).is_none() {
                        stopped.store(true, Ordering::Relaxed);
                    }
                });
                let second = thread::spawn(move || usize::from(second.pop().is_some()));
                first.join().unwrap();
                let taken = second.join().unwrap() + std::iter::from_fn(|| ring.pop()).count();
                assert!((1..=2).contains(&taken));
                assert!(ring.push(&one(3, 0)) && ring.push(&one(4, 0)));
                assert_eq!(rest(&ring), [one(3, 0), one(4, 0)]);
            });
            explored = Some(explored.map_or(more, |all| all + more));
            if !stopped.load(Ordering::Relaxed) {
                break;
            }
        }
    }
    report(explored.unwrap());
}
