//! Threads that wait for the end of callbacks, which arm other timers.

use super::{awake, check, together, World, THREADS};
use crate::core::error::Error;
use crate::core::life::Spec;
use crate::core::state::Handle;
use crate::tests::checker::{at, func};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

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
                    let was = w.wheel.cancel_sync(&own, mine.timer, leave, |word, seen| {
                        w.futex.wait(word, seen)
                    });
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
                            w.fire(f);
                            return true;
                        };
                        let periodic = &all[periodic];
                        periodic.inside.store(true, Ordering::Relaxed);
                        periodic.ran.fetch_add(1, Ordering::Relaxed);
                        w.share(rng, &w.driver());
                        periodic.inside.store(false, Ordering::Relaxed);
                        true
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
