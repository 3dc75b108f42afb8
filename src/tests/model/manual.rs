//! The manual clock: its keeper, another thread that drives, and one that reads.

use super::{explore, report};
use crate::runtime::manual::Manual;
use crate::sync::{lock, Mutex};
use loom::thread;
use std::sync::Arc;

struct Clock {
    manual: Manual,
    driver: Mutex<()>,
}

impl Clock {
    /// An advance with the driver's lock.
    fn raise(&self, ns: u64) {
        let _drive = lock(&self.driver);
        assert!(self.manual.raise(ns) >= ns);
    }

    /// A thread reads no time before one that it has seen, whichever words it reads.
    fn read(&self) {
        let first = self.manual.now();
        assert!(self.manual.has_reached(first), "not that far");
        let second = self.manual.kept().unwrap_or_else(|| self.manual.now());
        let third = self.manual.now();
        assert!(first <= second && second <= third, "back");
    }
}

/// A clock of which this thread is the keeper.
fn kept() -> Arc<Clock> {
    let clock = Arc::new(Clock {
        manual: Manual::new(0, true),
        driver: Mutex::new(()),
    });
    clock.manual.appoint();
    assert!(clock.manual.is_keeper());
    clock
}

fn beside(clock: &Arc<Clock>, f: fn(&Clock)) -> thread::JoinHandle<()> {
    let clock = clock.clone();
    thread::spawn(move || f(&clock))
}

/// The keeper sets the clock the short way, another thread with the lock.
#[test]
fn keeper_against_driver_and_reader() {
    report(explore(None, || {
        let clock = kept();
        let driver = beside(&clock, |clock| {
            assert!(!clock.manual.is_keeper());
            clock.raise(2);
            clock.read();
        });
        let reader = beside(&clock, Clock::read);
        clock.manual.keep(1);
        clock.read();
        driver.join().unwrap();
        reader.join().unwrap();
        assert_eq!(clock.manual.now(), 2);
    }));
}

/// The keeper drives again after the other thread.
#[test]
fn keeper_that_drives_against_reader() {
    report(explore(None, || {
        let clock = kept();
        let driver = beside(&clock, |clock| clock.raise(1));
        let reader = beside(&clock, Clock::read);
        clock.raise(2);
        clock.manual.keep(3);
        driver.join().unwrap();
        reader.join().unwrap();
        assert_eq!(clock.manual.now(), 3);
    }));
}
