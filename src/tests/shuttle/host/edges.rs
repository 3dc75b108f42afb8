//! Threads that wait for edges of one descriptor.

use super::*;
use crate::sys::alarm::Alarm;

/// Each thread that is woken polls, and is refused while another one polls. All that is
/// due fires nevertheless.
#[test]
fn a_refused_poll_loses_no_edge() {
    check(|rng, tally| {
        let w = World::new(Clock::Monotonic, None, Manner::Refuses);
        let host = w.host();
        let alarm = Alarm {
            fd: host.descriptor().unwrap(),
            clock: libc::CLOCK_MONOTONIC,
        };
        let is_over = AtomicBool::new(false);
        together(&w, rng, 4, |n, rng| {
            if n == 0 {
                for _ in 0..6 {
                    w.arm(host, rng);
                    system().pass(rng.below(2 * TICK));
                }
                system().pass(FAR);
                // A callback may have armed one again.
                while host.wheel.pending(NUMBERS) != 0 {
                    system().pass(TICK);
                    thread::yield_now();
                }
                is_over.store(true, Ordering::Relaxed);
                alarm.set(0).unwrap();
                return;
            }
            while !is_over.load(Ordering::Relaxed) {
                alarm.wait();
                w.drive(host, rng);
            }
            // The next one.
            alarm.set(0).unwrap();
        });
        w.close(tally, rng);
    });
}
