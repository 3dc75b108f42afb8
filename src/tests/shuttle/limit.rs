//! The limit on live timers.

use super::*;

/// Calls that make a timer, of each thread.
const ROUNDS: u64 = 8;

struct Shared(Wheel);
// SAFETY: each thread has a number of its own.
unsafe impl Sync for Shared {}

impl Shared {
    fn wheel(&self) -> &Wheel {
        &self.0
    }
}

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
        let shared = Shared(Wheel::new(config).unwrap());
        let permits = AtomicU64::new(THREADS as u64 - 1);
        let made: [AtomicU64; THREADS] = Default::default();
        let take = |n: u64| n.checked_sub(1);
        let take_permit = || {
            permits
                .fetch_update(Ordering::Relaxed, Ordering::Relaxed, take)
                .is_ok()
        };
        let make = |n: usize, _: &mut Rng| {
            let wheel = shared.wheel();
            let number = n as Thread + 1;
            for _ in 0..ROUNDS {
                while made[n].load(Ordering::Relaxed) != 0 || !take_permit() {
                    thread::yield_now();
                }
                let timer = wheel.setup(&awake(number), called(0), None);
                made[n].store(timer.expect("there is a node"), Ordering::Relaxed);
            }
        };
        let free = |_: &mut Rng| {
            let wheel = shared.wheel();
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
