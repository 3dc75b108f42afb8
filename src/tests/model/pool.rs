//! The pool, the events on which its threads sleep, and the queue of callbacks on their way to
//! them. A thread that is not woken sleeps without end.

use super::{duel, explore_stops, report, with_another, with_two_others, Plain};
use crate::core::driver::Fired;
use crate::runtime::options::{Options, Overload};
use crate::runtime::pool::{Offer, Pool};
use crate::runtime::ring::Ring;
use crate::sync::{AtomicU64, Ordering};
use crate::sys::event::Event;
use crate::tests::checker::func;
use loom::sync::Arc;
use loom::thread;
use std::sync::atomic::AtomicU64 as Count;

/// A timer that has fired for the `n`th time.
fn one(handle: u64, n: u64) -> Fired {
    Fired {
        handle,
        func: func(1),
        cookie: !n,
        deadline_ns: n,
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
        assert_eq!(c.pool.offer(&one(1, 0)), Offer::Taken);
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
        let offer = self.pool.offer(&one(handle, 0));
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

/// A queue that is full of the timers 1, 2 and so on.
fn full(size: u32) -> Ring {
    let ring = Ring::new(size).unwrap();
    for n in 1..=u64::from(size) {
        assert!(ring.push(&one(n, 0)));
    }
    ring
}

/// Empties the queue, unless a thread is stopped in it.
fn rest(ring: &Ring) -> Vec<Fired> {
    let rest = std::iter::from_fn(|| ring.pop()).collect();
    assert!(ring.pop().is_none() && ring.waiting() == 0 && ring.has_room());
    rest
}

/// The queue from the driver to two workers: each timer goes to one of them, in
/// order, and a full queue takes none.
#[test]
fn queue_of_the_pool() {
    for size in [1, 2] {
        report(with_two_others(
            None,
            move || Ring::new(size).unwrap(),
            Ring::pop,
            Ring::pop,
            |ring| (1..=3).filter(|n| ring.push(&one(*n, 0))).collect(),
            move |ring, a, b, pushed: Vec<u64>| {
                assert!(pushed.starts_with(&[1, 2][..size as usize]));
                let mut popped: Vec<_> = [a, b].into_iter().flatten().collect();
                popped.sort_unstable_by_key(|f| f.handle);
                popped.extend(rest(ring));
                assert!(pushed.iter().all(|n| popped.contains(&one(*n, 0))));
                assert!(popped.windows(2).all(|f| f[0].handle < f[1].handle));
            },
        ));
    }
}

/// The slot at the tail is filled and another one is empty: the driver skips a position,
/// which threads at the head step over.
#[test]
fn queue_of_the_pool_and_a_place_in_the_middle() {
    for revoked in [2, 3] {
        report(with_two_others(
            None,
            move || {
                let ring = full(4);
                assert!(ring.revoke(revoked, &mut 0));
                ring
            },
            Ring::pop,
            Ring::pop,
            |ring| {
                assert!(ring.push(&one(5, 0)), "there is a place");
                ring.push(&one(6, 0))
            },
            move |ring, a, b, is_sixth| {
                let mut popped = [a, b].map(|f| f.expect("there are four"));
                popped.sort_unstable_by_key(|f| f.handle);
                let popped = popped.into_iter().chain(rest(ring));
                let all: Vec<_> = popped.map(|f| f.handle).collect();
                let mut want: Vec<u64> = (1..=5 + u64::from(is_sixth)).collect();
                want.retain(|handle| *handle != revoked);
                assert_eq!(all, want, "lost, doubled or out of order");
            },
        ));
    }
}

/// A timer is taken by a worker, or out of the middle, and comes again, perhaps into the
/// same slot: each time one thread has it, with all of its event.
#[test]
fn queue_of_the_pool_and_a_timer_that_is_taken_out() {
    for (size, timer) in [(1, 1), (2, 1), (2, 2)] {
        report(with_two_others(
            None,
            move || full(size),
            Ring::pop,
            move |ring| ring.revoke(timer, &mut 0),
            // There is room for it when the first timer has ended.
            |ring| ring.push(&one(1, 1)),
            move |ring, popped, revoked, again| {
                let popped: Vec<_> = popped.into_iter().chain(rest(ring)).collect();
                let ended = popped.len() + usize::from(revoked);
                assert_eq!(ended, size as usize + usize::from(again), "lost or doubled");
                for (n, f) in popped.iter().enumerate() {
                    assert_eq!(*f, one(f.handle, f.deadline_ns), "not of one event");
                    assert!(!popped[..n].contains(f), "doubled");
                }
            },
        ));
    }
}

/// A thread that looks for a timer finds it, or looks at its position again.
#[test]
fn queue_of_the_pool_and_a_look_for_a_timer() {
    report(with_another(
        None,
        || Ring::new(2).unwrap(),
        |ring| {
            let mut from = 0;
            let revoked = ring.revoke(2, &mut from);
            assert_eq!(revoked, from == 2, "passed over");
            revoked
        },
        |ring| assert!(ring.push(&one(1, 0)) && ring.push(&one(2, 0))),
        |ring, revoked, ()| {
            assert_eq!(ring.waiting(), 2 - usize::from(revoked));
            assert_eq!(rest(ring).len(), 2 - usize::from(revoked));
        },
    ));
}

/// A timer is taken out of the middle while the driver looks for room: the driver finds it, then
/// or later.
#[test]
fn queue_of_the_pool_and_room_in_the_middle() {
    report(with_another(
        None,
        || full(2),
        |ring| assert!(ring.revoke(2, &mut 0)),
        |ring| ring.push(&one(3, 0)),
        |ring, (), pushed| {
            assert!(pushed || ring.push(&one(3, 0)), "there is a place");
            assert_eq!(rest(ring), [one(1, 0), one(3, 0)]);
        },
    ));
}

/// A thread that is stopped in the queue keeps at most the timer that it has taken: the
/// others get the rest, and the driver has room.
#[test]
fn queue_of_the_pool_and_a_thread_that_is_stopped() {
    type Step = fn(&Ring);
    let steps: [Step; 2] = [|ring| _ = ring.pop(), |ring| _ = ring.revoke(2, &mut 0)];
    let explored = steps.map(|step| {
        explore_stops(None, move |stop| {
            let ring = Arc::new(full(2));
            let (first, second) = (ring.clone(), ring.clone());
            let first = thread::spawn(move || _ = stop.run(|| step(&first)));
            let second = thread::spawn(move || usize::from(second.pop().is_some()));
            first.join().unwrap();
            let taken = second.join().unwrap() + std::iter::from_fn(|| ring.pop()).count();
            assert!((1..=2).contains(&taken));
            assert!(ring.push(&one(3, 0)) && ring.push(&one(4, 0)));
            assert_eq!(rest(&ring), [one(3, 0), one(4, 0)]);
        })
    });
    report(explored[0] + explored[1]);
}
