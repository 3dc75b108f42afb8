//! Callbacks: threads that wait for their end, workers that run them, and those of a key.

use super::{add, awake, check, together, World, LONGEST, THREADS};
use crate::core::driver::Fired;
use crate::core::life::Spec;
use crate::core::state::Handle;
use crate::core::ticks::KEYED;
use crate::core::wheel::Caller;
use crate::core::Error;
use crate::runtime::keys::Keys;
use crate::runtime::options::{Options, Overload};
use crate::runtime::pool::{Offer, Pool};
use crate::tests::checker::{at, func, thread};
use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::Mutex;

/// A periodic timer, which one thread arms and deletes.
struct Periodic {
    timer: Handle,
    inside: AtomicBool,
    ran: AtomicU64,
}

impl Periodic {
    fn new(w: &World, n: usize, period: u64) -> Periodic {
        let spec = Spec {
            func: func(2 + n),
            period: at(period),
            ..Spec::default()
        };
        Periodic {
            timer: w.wheel.setup(&w.driver(), spec, None).unwrap(),
            inside: AtomicBool::new(false),
            ran: AtomicU64::new(0),
        }
    }

    fn ran(&self) -> u64 {
        assert!(!self.inside.load(Ordering::Relaxed), "still running");
        self.ran.load(Ordering::Relaxed)
    }
}

/// After a sync delete, or a shutdown, a callback is over and does not begin.
#[test]
fn sync_deletes_against_periodic_timers() {
    check(|rng, tally| {
        let w = World::new(rng);
        let all: [_; THREADS] = std::array::from_fn(|n| Periodic::new(&w, n, 1 + rng.below(3)));
        together(
            rng,
            |n, rng| {
                let number = w.take_number();
                let own = awake(number);
                let mine = &all[n];
                for leave in [false, false, false, false, true] {
                    assert_eq!(w.arm(&own, mine.timer, w.soon(rng)), Ok(false));
                    for _ in 0..rng.below(4) {
                        w.call(n, rng, &own);
                    }
                    let waits = w.futex.waits();
                    let was = w.wheel.cancel_sync(&own, mine.timer, leave, waits);
                    assert_eq!(was, Ok(true), "it is always pending");
                    let ran = mine.ran();
                    w.call(n, rng, &own);
                    w.await_end(rng, &own);
                    assert_eq!(mine.ran(), ran, "it began afterwards");
                }
                let armed = w.arm(&own, mine.timer, w.soon(rng));
                assert_eq!(armed, Err(Error::Shutdown));
                w.give_back(number);
            },
            |rng| {
                for _ in 0..30 {
                    let target = w.now() + 1 + rng.below(3);
                    w.advance(target, |f| {
                        let Some(periodic) = f.func.checked_sub(2) else {
                            return w.fire(f);
                        };
                        let periodic = &all[periodic];
                        periodic.inside.store(true, Ordering::Relaxed);
                        periodic.ran.fetch_add(1, Ordering::Relaxed);
                        w.share(rng, &w.driver());
                        periodic.inside.store(false, Ordering::Relaxed);
                    });
                }
            },
        );
        for periodic in &all {
            assert_eq!(w.wheel.free(&w.driver(), periodic.timer), Ok(false));
        }
        w.close(tally);
    });
}

// Callbacks in two workers, behind a queue that is often full: race 6.

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
        let w = self.world;
        w.wheel.finish(own, f.handle, || w.futex.wake());
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
        let crew = Options {
            workers: 2,
            queue: 1 << rng.below(2),
            overload: [Overload::Run, Overload::Drop][rng.below(2) as usize] as u32,
            ..Options::default()
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
                    while let Some(fired) = work.pool.wait_for_work() {
                        work.run_queued(&own, &fired);
                    }
                }
                w.give_back(number);
            },
            |rng| {
                for _ in 0..24 {
                    w.advance(w.now() + 1 + rng.below(4), |f| work.fire(f));
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

// One key, which three threads set, move and delete while it fires.

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
                return w.fire(f);
            }
            let cookie = keys.release(f).expect("each has its entry").cookie;
            assert!(cookies.lock().unwrap().insert(cookie), "fired twice");
        };
        together(
            rng,
            |n, rng| {
                let number = w.take_number();
                let own = awake(number);
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
                        4 => _ = count(&gone, keys.cancel(&w.wheel, &own, b"k")),
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
