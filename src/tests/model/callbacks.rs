//! Callbacks on their way to the threads that run them.

use crate::core::driver::Fired;
use crate::runtime::ring::Ring;
use crate::tests::checker::func;
use crate::tests::Heap;
use loom::sync::Arc;
use loom::thread;

/// The queue from the driver to two workers: each timer goes to one of them, in
/// order, and a full queue takes none.
#[test]
fn queue_of_the_pool() {
    fn one(n: u64) -> Fired {
        Fired {
            handle: n,
            func: func(1),
            cookie: !n,

            deadline_ns: n,
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
