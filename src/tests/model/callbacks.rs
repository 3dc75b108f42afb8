//! Callbacks: in one thread at a time, over when somebody has waited for that, and
//! ended by whoever has them (race 5).

use super::{duel, Futex, World};
use crate::runtime::ring::Ring;
use crate::state::SHUT;
use crate::sweep::Fired;
use crate::sync::{AtomicU32, Ordering};
use crate::tests::{Heap, Spin};
use loom::sync::Arc;
use loom::thread;

/// After a sync delete the callback is over and does not begin.
#[test]
fn sync_delete_against_callback() {
    for leave in [0, SHUT] {
        duel(
            || {
                let w = World::new(2, 1, 0);
                let t = w.called(1);
                let callback = (AtomicU32::new(0), AtomicU32::new(0));
                (w, t, Futex::default(), callback)
            },
            move |(w, t, futex, (inside, ran))| {
                let was = w.wheel.cancel_sync(&w.own(0), *t, leave, futex).unwrap();
                assert_eq!(inside.load(Ordering::Relaxed), 0, "still running");
                (was, ran.load(Ordering::Relaxed))
            },
            |(w, _, futex, (inside, ran))| {
                w.wheel.drive().unwrap().advance(1, |f: &Fired| {
                    inside.store(1, Ordering::Relaxed);
                    ran.fetch_add(1, Ordering::Relaxed);
                    inside.store(0, Ordering::Relaxed);
                    w.wheel.finish(&w.driver(), f.handle, futex);
                    true
                })
            },
            |(_, _, _, (_, ran)), (was, before), _| {
                assert_eq!(ran.load(Ordering::Relaxed), before, "it began afterwards");
                assert_eq!(before, u32::from(!was));
            },
        );
    }
}

/// Race 5: a timer is due again while its callback runs in a worker. It is fired
/// after that, and never in two threads at once.
#[test]
fn race_5_due_again_against_the_end_of_a_callback() {
    duel(
        || {
            let w = World::new(2, 1, 0);
            let t = w.called(1);
            // The worker has it.
            w.wheel.drive().unwrap().advance(1, |_: &Fired| true);
            w.arm(0, t, 2);
            (w, t)
        },
        |(w, t)| w.wheel.finish(&w.own(1), *t, &Spin),
        |(w, _)| w.advance(2),
        |(w, _), (), early| {
            assert!(early <= 1);
            assert_eq!(early + w.advance(4), 1);
        },
    );
}

/// The queue from the driver to two workers: each timer goes to one of them, in
/// order, and a full queue takes none.
#[test]
fn queue_of_the_pool() {
    fn one(n: u64) -> Fired {
        Fired {
            handle: n,
            func: 1,
            cookie: !n,
            tick: n,
            due_ns: n,
            missed: 0,
            kind: 0,
        }
    }
    for size in [1, 2] {
        loom::model(move || {
            let ring = Arc::new(Ring::new(&Heap, size).unwrap());
            let workers: Vec<_> = (0..2)
                .map(|_| {
                    let ring = ring.clone();
                    thread::spawn(move || ring.pop())
                })
                .collect();
            let mut pushed: Vec<u64> = (1..=3).filter(|n| ring.push(&one(*n))).collect();
            assert!(pushed.starts_with(&[1, 2][..size as usize]));
            let mut popped = Vec::new();
            for worker in workers {
                popped.extend(worker.join().unwrap());
            }
            popped.sort_unstable_by_key(|f| f.handle);
            while let Some(f) = ring.pop() {
                popped.push(f);
            }
            pushed.retain(|n| !popped.contains(&one(*n)));
            assert!(pushed.is_empty() && ring.len() == 0);
            assert!(popped.windows(2).all(|f| f[0].handle < f[1].handle));
            // SAFETY: the only user.
            unsafe { ring.unmap(&Heap) };
        });
    }
}
