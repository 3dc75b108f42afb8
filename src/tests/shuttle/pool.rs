//! Callbacks in two workers, behind a queue that is often full: race 6.

use super::{awake, check, together, World};
use crate::core::driver::Fired;
use crate::core::state::Handle;
use crate::core::wheel::Caller;
use crate::runtime::pool::{Crew, Offer, Overload, Pool};
use crate::tests::checker::thread;
use std::collections::BTreeSet;
use std::sync::Mutex;

struct Work<'a> {
    world: &'a World,
    pool: Pool,
    running: Mutex<BTreeSet<Handle>>,
}

impl Work<'_> {
    /// Runs a callback in the calling thread.
    fn run(&self, own: &impl Caller, f: &Fired) {
        let set = || self.running.lock().unwrap();
        assert!(set().insert(f.handle), "in two threads at once");
        thread::yield_now();
        set().remove(&f.handle);
        self.world
            .wheel
            .finish(own, f.handle, || self.world.futex.wake());
    }

    fn run_queued(&self, own: &impl Caller, f: &Fired) {
        self.run(own, f);
        self.pool.finished();
    }

    fn fire(&self, f: &Fired) {
        let w = self.world;
        w.ends(f.handle, Some(f.deadline_ns));
        if f.func == 0 {
            return;
        }
        match self.pool.offer(f) {
            Offer::Taken => {}
            Offer::Refused => self.run(&w.driver(), f),
            Offer::Dropped => w.wheel.finish(&w.driver(), f.handle, || w.futex.wake()),
        }
    }
}

/// Each callback that was queued runs once, in one thread at a time, and at the end
/// the driver knows that all are over. Whoever waits for one is woken.
#[test]
fn two_workers_behind_a_full_queue() {
    check(|rng, tally| {
        let w = World::of(rng, true);
        let crew = Crew {
            workers: 2,
            queue: 1 << rng.below(2),
            overload: [Overload::Run, Overload::Drop][rng.below(2) as usize],
        };
        let work = Work {
            world: &w,
            pool: Pool::new(&crew).unwrap(),
            running: Mutex::default(),
        };
        together(
            rng,
            |n, rng| {
                let number = w.take_number();
                let own = awake(number);
                if n == 0 {
                    for _ in 0..24 {
                        w.call(n, rng, &own);
                        w.await_end(rng, &own);
                    }
                } else {
                    while let Some(fired) = work.pool.next() {
                        work.run_queued(&own, &fired);
                    }
                }
                w.give_back(number);
            },
            |rng| {
                for _ in 0..24 {
                    w.advance(w.now() + 1 + rng.below(4), |f| {
                        work.fire(f);
                        true
                    });
                }
                work.pool.close();
                work.pool.empty(|fired| {
                    work.run_queued(&w.driver(), fired);
                    true
                });
                assert!(work.running.lock().unwrap().is_empty(), "not at rest");
                work.pool.dismiss();
            },
        );
        assert_eq!(work.pool.queued(), 0);
        w.close(tally);
    });
}
