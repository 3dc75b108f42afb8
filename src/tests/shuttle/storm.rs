//! Threads that arm, move, cancel, free and reuse their own timers and each other's, while the
//! driver goes over wraps and cascades: races 1 and 2, and all that they may come to together.
//! The end of such a wheel, its limit, and what a tick costs.

use super::*;

/// Three threads, each with a number of lives, and of calls in a life.
fn storm(rng: &mut Rng, tally: &Tally, lives: u64, calls: u64) {
    let w = World::new(rng);
    together(
        rng,
        |n, rng| w.live(n, rng, lives, calls),
        |rng| {
            for _ in 0..20 {
                let most = 1 + rng.below(6);
                let mut n = 0;
                w.sweep(w.now() + 1 + rng.below(4), false, |f| {
                    w.fire(f);
                    n += 1;
                    n < most
                });
                if rng.below(4) == 0 {
                    // What it finds, it tells nobody: the next sweep wakes.
                    w.wheel.drive(0).unwrap().fall_asleep(|_| ());
                }
            }
        },
    );
    w.close(tally);
}

/// Each timer ends once for each time it was armed, none early and none late.
#[test]
fn three_threads_on_each_others_timers() {
    check(|rng, tally| storm(rng, tally, 1, 24));
}

/// Numbers go from thread to thread, with the notes in their inboxes: each timer still ends once
/// for each time it was armed, none early and none late.
#[test]
fn threads_that_come_and_go() {
    check(|rng, tally| storm(rng, tally, 8, 3));
}

// The end of a wheel that is in use: race 4.

/// Each armed timer is handed back once, and from then on none is armed.
#[test]
fn stop_and_drain_against_three_threads() {
    check(|rng, tally| {
        let w = World::new(rng);
        together(
            rng,
            |n, rng| w.live(n, rng, 2, 12),
            |rng| {
                for _ in 0..rng.below(6) {
                    w.fire_all(w.now() + 1 + rng.below(4));
                }
                w.closing.store(true, Ordering::Relaxed);
                w.drain();
            },
        );
        assert_eq!(w.drain(), 0, "left to a second drain");
        w.close(tally);
    });
}

// The limit on live timers.

/// Calls that make a timer, of each thread.
const ROUNDS: u64 = 8;

/// Threads that make timers have a permit for each node, one thread frees what they
/// make. A node that was freed is found, also while it goes from the list of one thread
/// to that of another; unless a thread is stopped in the middle of that, which this way
/// to draw an order leaves to chance.
#[test]
fn a_free_node_is_found_at_the_limit() {
    let limited = || {
        let config = Config {
            limit: THREADS as u32 - 1,
            ..shape(1, 1, 0)
        };
        let wheel = Everywhere::new(config).unwrap();
        let permits = AtomicU64::new(THREADS as u64 - 1);
        let made: [AtomicU64; THREADS] = Default::default();
        let less = |n: u64| n.checked_sub(1);
        let take = || permits.fetch_update(Ordering::Relaxed, Ordering::Relaxed, less);
        let make = |n: usize, _: &mut Rng| {
            let number = n as Thread + 1;
            for _ in 0..ROUNDS {
                while made[n].load(Ordering::Relaxed) != 0 || take().is_err() {
                    thread::yield_now();
                }
                let timer = wheel.setup(&awake(number), called(0), None);
                made[n].store(timer.expect("there is a node"), Ordering::Relaxed);
            }
        };
        let free = |_: &mut Rng| {
            let number = DRIVER;
            let mut freed = 0;
            while freed != ROUNDS * THREADS as u64 {
                for timer in &made {
                    let handle = timer.load(Ordering::Relaxed);
                    if handle != 0 {
                        assert_eq!(wheel.free(&awake(number), handle), Ok(false));
                        freed += 1;
                        permits.fetch_add(1, Ordering::Relaxed);
                        timer.store(0, Ordering::Relaxed);
                    }
                }
                thread::yield_now();
            }
        };
        together(&mut Rng(1), make, free);
    };
    run(RandomScheduler::new(iterations()), &Arc::new(limited));
}

// The cost of a tick, counted in accesses to shared words, does not depend on the number of
// threads that use the wheel.

/// The accesses of a sweep over one tick in which one timer is due. `threads` threads use
/// the wheel, and each has a timer that is due much later.
fn accesses(threads: u64) -> usize {
    let wheel = Everywhere::new(shape(3, 2, 0)).unwrap();
    for number in 1..=threads {
        let later = wheel.setup(&awake(number as Thread), called(0), Some(at(40)));
        assert!(later.is_ok());
    }
    let mut counted = 0;
    // The first sweeps may do what later ones need not.
    for tick in 1..4 {
        let due = wheel.setup(&awake(1), called(1), Some(at(tick))).unwrap();
        let before = shuttle::current::context_switches();
        let fired = wheel.drive(0).unwrap().told(at(tick), |f| f.handle);
        counted = shuttle::current::context_switches() - before;
        assert_eq!(fired, [due]);
        assert_eq!(wheel.free(&awake(1), due), Ok(false));
    }
    counted
}

#[test]
fn a_tick_costs_what_is_due() {
    // One thread: there is one order.
    let once = RandomScheduler::new(1);
    let compare = || {
        let alone = accesses(1);
        assert!(alone > 0);
        assert_eq!(alone, accesses(7), "more for more threads");
    };
    run(once, &Arc::new(compare));
}
