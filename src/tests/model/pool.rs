//! The pool, and the events on which its threads sleep: a thread that is not woken sleeps
//! without end.

use super::{duel, Plain};
use crate::core::driver::Fired;
use crate::runtime::options::{Options, Overload};
use crate::runtime::pool::{Offer, Pool};
use crate::sync::{AtomicU64, Ordering};
use crate::sys::event::Event;
use crate::tests::checker::func;
use std::sync::atomic::AtomicU64 as Count;

fn timer(handle: u64) -> Fired {
    Fired {
        handle,
        func: func(1),
        cookie: 0,
        deadline_ns: 0,
        missed: 0,
        flags: 0,
        kind: 0,
    }
}

/// A pool with a queue of one, whose callbacks write plain memory.
struct Callbacks {
    pool: Pool,
    written: Plain,
    /// Written by the driver before it offers a timer.
    offered: Plain,
    ran: Count,
}

impl Callbacks {
    fn new(overload: Overload) -> Callbacks {
        let options = Options {
            queue: 1,
            overload: overload as u32,
            ..Options::default()
        };
        Callbacks {
            pool: Pool::new(&options).unwrap(),
            written: Plain::default(),
            offered: Plain::default(),
            ran: Count::new(0),
        }
    }

    /// With a callback of timer 1 in the queue.
    fn full() -> Callbacks {
        let c = Callbacks::new(Overload::Run);
        assert_eq!(c.pool.offer(&timer(1)), Offer::Taken);
        c
    }

    fn run(&self) {
        self.written.set(self.written.get() + 1);
        self.ran.fetch_add(1, Ordering::Relaxed);
    }

    fn run_queued(&self) -> bool {
        self.run();
        self.pool.finished();
        true
    }

    /// Drives: offers a timer, and runs its callback if that is refused.
    fn drive(&self, handle: u64) -> Offer {
        self.offered.set(handle);
        let offer = self.pool.offer(&timer(handle));
        if offer == Offer::Refused {
            self.run();
        }
        offer
    }

    /// Waits for a timer, which it takes out of the hands of others.
    fn take_away(&self, handle: u64) {
        assert!(self.pool.wait_or_revoke(handle, &mut 0, || false));
        assert_eq!(self.offered.get(), handle);
        self.pool.finished();
    }

    /// The end of a stop: what is queued runs, and what runs has ended.
    fn empty(&self) {
        self.pool.empty(|_| self.run_queued());
        assert_eq!(self.written.get(), self.ran.load(Ordering::Relaxed));
    }

    /// A stop, after which that number of callbacks has run.
    fn stop(&self, ran: u64) {
        self.pool.close();
        self.empty();
        assert_eq!(self.ran.load(Ordering::Relaxed), ran);
    }
}

/// Waits on an event until the condition of the other thread is true.
#[test]
fn event_wait_against_notify() {
    duel(
        || (Event::default(), AtomicU64::new(0)),
        |(event, word)| event.wait(|| word.load(Ordering::Relaxed) != 0),
        |(event, word)| {
            word.store(1, Ordering::Relaxed);
            event.notify(1);
        },
        |_, (), ()| {},
    );
}

/// A worker runs what is offered, and ends; who stops the pool sees what the callback did.
#[test]
fn pool_worker_against_a_driver_that_stops() {
    duel(
        || Callbacks::new(Overload::Run),
        |c| while c.pool.wait_for_work().is_some_and(|_| c.run_queued()) {},
        |c| {
            assert_eq!(c.drive(1), Offer::Taken);
            c.pool.close();
            c.empty();
            c.pool.dismiss();
        },
        |c, (), ()| assert_eq!(c.ran.load(Ordering::Relaxed), 1),
    );
}

/// A stop sees the last use of the pool by a thread of the caller.
#[test]
fn pool_stop_against_the_end_of_a_guest() {
    duel(
        Callbacks::full,
        |c| {
            if c.pool.take().is_some() {
                c.run();
                c.offered.set(2);
                c.pool.finished();
            }
        },
        |c| {
            c.stop(1);
            assert!(c.offered.get() <= 2);
        },
        |_, (), ()| {},
    );
}

/// A thread that waits for a timer hears that it was put into the queue.
#[test]
fn pool_push_against_a_wait() {
    duel(
        || Callbacks::new(Overload::Run),
        |c| assert_eq!(c.drive(1), Offer::Taken),
        |c| c.take_away(1),
        |c, (), ()| {
            c.empty();
            assert_eq!(c.ran.load(Ordering::Relaxed), 0);
        },
    );
}
