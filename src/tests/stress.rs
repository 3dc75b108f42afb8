//! Many threads on one wheel; the counts must add up.

use super::{config, Collect, Heap, Own, Rng, Waking};
use crate::core::arm::How;
use crate::core::driver::Fired;
use crate::core::error::{Answer, Error};
use crate::core::life::Spec;
use crate::core::node::AUTO;
use crate::core::wheel::{Config, Wheel};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// A wheel that all threads use.
struct Everywhere(Wheel<Heap>);

// SAFETY: every operation of the wheel may run in any thread.
unsafe impl Sync for Everywhere {}

impl std::ops::Deref for Everywhere {
    type Target = Wheel<Heap>;
    fn deref(&self) -> &Self::Target {
        &self.0
    }
}

/// What happened, summed over all threads.
#[derive(Default)]
struct Tally {
    armed: AtomicU64,
    cancelled: AtomicU64,
    fired: AtomicU64,
    stale: AtomicU64,
    operations: AtomicU64,
}

/// What the short calls answer, as the others do.
fn result(answer: Answer) -> Result<bool, Error> {
    match answer {
        n if n >= 0 => Ok(n == 1),
        n if n == Error::Stale as i32 => Err(Error::Stale),
        n => panic!("{n}"),
    }
}

/// `spread` is in ticks.
fn storm(levels: u32, bits: u32, tick_ns: u64, threads: u64, each: u64, spread: u64) {
    let config = Config {
        tick_ns,
        ..config(levels, bits, 0)
    };
    let w = Everywhere(Wheel::new(Heap, config).unwrap());
    let t = Tally::default();
    let stop = AtomicBool::new(false);
    let add = |word: &AtomicU64, n: u64| _ = word.fetch_add(n, Ordering::Relaxed);
    // Handles shared by all: any thread may find any of them stale.
    let slots: Vec<AtomicU64> = (0..256).map(|_| AtomicU64::new(0)).collect();
    std::thread::scope(|s| {
        let driver = s.spawn(|| {
            let mut now = 0;
            while !stop.load(Ordering::Acquire) {
                now += tick_ns;
                let mut n = 0;
                let mut drive = w.drive().unwrap();
                if drive.nothing_due(now) {
                    drive.leave();
                    continue;
                }
                let done = drive.advance(
                    now,
                    Collect(|f: &Fired| {
                        assert!(f.deadline_ns <= now, "early");
                        n += 1;
                        n % 64 != 0
                    }),
                );
                add(&t.fired, n);
                // It does not stay asleep, but arms must see the alarm.
                if done && now / tick_ns % 16 == 0 {
                    drive.sleep(|_| ());
                }
            }
            now
        });
        let workers: Vec<_> = (0..threads)
            .map(|n| {
                let (w, t, slots) = (&w, &t, &slots);
                s.spawn(move || {
                    let mut rng = Rng(0x9876_5432_1234 + n);
                    let token = w.attach().unwrap();
                    let own = &Waking(token, || ());
                    let (mut armed, mut cancelled, mut stale) = (0, 0, 0);
                    for _ in 0..each {
                        let slot = &slots[rng.below(256) as usize];
                        let h = slot.load(Ordering::Acquire);
                        let due = w.hand_ns() + rng.below(spread * tick_ns);
                        let r = match rng.below(16) {
                            0 => {
                                let auto = rng.below(2) == 0;
                                let kind = if auto { AUTO } else { 0 };
                                let spec = Spec {
                                    kind,
                                    ..Spec::default()
                                };
                                let fresh = w.setup(own, spec, auto.then_some(due)).unwrap();
                                armed += u64::from(auto);
                                let old = slot.swap(fresh, Ordering::AcqRel);
                                w.free(own, old).map(|was| cancelled += u64::from(was))
                            }
                            1..=4 => {
                                result(w.arm_at(own, h, due)).map(|was| armed += u64::from(!was))
                            }
                            5..=8 => w
                                .arm(own, h, due, How::Always)
                                .map(|was| armed += u64::from(!was)),
                            9 => w
                                .arm(own, h, due, How::Earlier)
                                .map(|was| armed += u64::from(!was)),
                            10 => w.arm(own, h, due, How::Pending).map(|_| ()),
                            11..=12 => w
                                .cancel(own, h, false)
                                .map(|was| cancelled += u64::from(was)),
                            _ => result(w.cancel_plain(own, h))
                                .map(|was| cancelled += u64::from(was)),
                        };
                        match r {
                            Ok(()) => {}
                            Err(Error::Stale) => stale += 1,
                            Err(e) => panic!("{e:?}"),
                        }
                    }
                    w.detach(token);
                    add(&t.armed, armed);
                    add(&t.cancelled, cancelled);
                    add(&t.stale, stale);
                    add(&t.operations, each);
                })
            })
            .collect();
        let ended: Vec<_> = workers.into_iter().map(|w| w.join()).collect();
        // The driver ends, even if a worker has panicked.
        stop.store(true, Ordering::Release);
        let now = driver.join().unwrap();
        ended.into_iter().for_each(|worker| worker.unwrap());
        let mut n = 0;
        let done = w.drive().unwrap().advance(
            now + spread * tick_ns / 2,
            Collect(|_: &Fired| {
                n += 1;
                true
            }),
        );
        assert!(done);
        add(&t.fired, n);
    });
    let mut drained = 0;
    assert!(w.drive().unwrap().drain(|_| {
        drained += 1;
        true
    }));
    let token = w.attach().unwrap();
    for slot in &slots {
        let h = slot.load(Ordering::Relaxed);
        let r = w.free(&Own(token), h);
        assert!(matches!(r, Ok(false) | Err(Error::Stale)));
    }
    let sum = |word: &AtomicU64| word.load(Ordering::Relaxed);
    println!(
        "{levels} levels: {} operations, armed {}, fired {}, cancelled {}, drained {drained}, stale {}",
        sum(&t.operations), sum(&t.armed), sum(&t.fired), sum(&t.cancelled), sum(&t.stale)
    );
    assert_eq!(sum(&t.armed), sum(&t.fired) + sum(&t.cancelled) + drained);
    assert_eq!(w.live(), 0);
    assert!(sum(&t.stale) > 0 && sum(&t.fired) > 0 && sum(&t.cancelled) > 0);
}

#[test]
fn two_threads_and_a_driver_and_the_counts_add_up() {
    let each = if cfg!(miri) { 300 } else { 1_000_000 };
    storm(4, 6, 1, 2, each, 300);
    storm(1, 6, 1 << 13, 2, each, 300);
    storm(3, 2, 1 << 13, 2, each, 3000);
    storm(4, 6, 1, 2, each, 1 << 20);
}
