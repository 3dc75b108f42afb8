//! A driver that sleeps while nothing is due: race 3.

use super::{check, describe, together, World};
use crate::core::state::STEP;
use crate::sync::Mutex;
use crate::tests::checker::{thread, Condvar, TICK_BITS};
use crate::tests::{Rng, Waking};
use std::sync::atomic::Ordering;

/// How far ahead the driver sets its alarm if nothing is due, or nearly.
const FAR: u64 = STEP / 2;

/// The system's alarm: a tick, 0 for now.
struct Alarm {
    tick: Mutex<u64>,
    rings: Condvar,
}

impl Alarm {
    fn set(&self, tick: u64) {
        *self.tick.lock().unwrap() = tick;
        self.rings.notify_all();
    }

    /// Sleeps until it rings, or for as long as it is set. Time leaps then; where
    /// nothing is due it stands still.
    fn sleep(&self, rng: &mut Rng, w: &World) {
        let mut tick = self.tick.lock().unwrap();
        while *tick != 0 {
            if *tick >= w.now() + FAR {
                tick = self.rings.wait(tick).unwrap();
            } else if rng.below(4) != 0 {
                drop(tick);
                thread::yield_now();
                tick = self.tick.lock().unwrap();
            } else {
                // Whoever arms from here on comes too late to wake anybody.
                assert!(w.promises(*tick - 1).is_empty(), "overslept");
                w.now.fetch_max(*tick, Ordering::Relaxed);
                return;
            }
        }
    }
}

/// The driver is woken by whatever is due before its alarm, or a thread that
/// waits for its timer never returns.
#[test]
fn arms_against_a_driver_that_sleeps() {
    check(|rng, tally| {
        let w = World::new(rng);
        let alarm = Alarm {
            tick: Mutex::new(0),
            rings: Condvar::new(),
        };
        // How many threads are not done. Held by whoever looks whether its timer has
        // fired, until it sleeps; and by the driver before it wakes those.
        let busy = Mutex::new(super::THREADS);
        let fired = Condvar::new();
        let body = |n: usize, rng: &mut Rng| {
            let number = w.take_number();
            let caller = Waking(Ok(number), || alarm.set(0));
            for _ in 0..6 {
                for _ in 0..=rng.below(3) {
                    w.call(n, rng, &caller);
                }
                let mut held = busy.lock().unwrap();
                while w.watches[n].lock().unwrap().is_open() {
                    held = fired.wait(held).unwrap();
                }
            }
            *busy.lock().unwrap() -= 1;
            // As a stop does: nothing is due, and it looks all the same.
            alarm.set(0);
            w.give_back(number);
        };
        let mut rounds = 0;
        together(rng, body, |rng| loop {
            rounds += 1;
            assert!(
                rounds < 2000,
                "does not fall asleep: {}, now {}, alarm {}",
                describe(&w.wheel),
                w.now(),
                alarm.tick.lock().unwrap()
            );
            w.sweep(w.now(), true, |f| {
                w.fire(f);
                true
            });
            drop(busy.lock().unwrap());
            fired.notify_all();
            let mut drive = w.wheel.drive(0).unwrap();
            drive.fall_asleep(|ns| alarm.set(ns >> TICK_BITS));
            drop(drive);
            if *busy.lock().unwrap() == 0 {
                break;
            }
            alarm.sleep(rng, &w);
        });
        w.close(tally);
    });
}
