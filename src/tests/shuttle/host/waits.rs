//! Callbacks that wait for others.

use super::*;

/// In two workers, an executor's thread and the driver callbacks wait for others that do not
/// wait for them: no thread waits without end, and what is taken out of the queue is counted as
/// cancelled.
#[test]
fn callbacks_wait_for_others() {
    let make = |rng: &mut Rng| World::started(Some(crew_that_drops_none(rng)), Manner::Late);
    lives(2, make, |w, _, rng| {
        for _ in 0..8 {
            match rng.below(4) {
                0 => w.wait_for_another(rng),
                1 => system().pass(rng.below(4 * TICK)),
                _ => w.arm(rng),
            }
        }
    });
}

/// Wherever it is, in the queue or running: who deletes it and waits gets it, though the executor refuses.
#[test]
fn a_sync_delete_beside_an_executor_that_refuses() {
    let make = |_: &mut Rng| World::started(Some(executor(1)), Manner::Refuses);
    lives(2, make, |w, _, rng| {
        for _ in 0..4 {
            w.arm(rng);
            system().pass(rng.below(4 * TICK));
            w.wait_for_another(rng);
        }
    });
}

/// A delete waits for a callback, and learns that the callback was put into the queue. With
/// `locked` it holds the lock that the executor takes.
fn hear_of_the_queue(manner: Manner, locked: bool) {
    let make = move |_: &mut Rng| World::started(Some(executor(2)), manner);
    lives(1, make, move |w, _, rng| {
        let timer = w.pick(rng);
        for _ in 0..8 {
            w.book(1);
            let due = w.host.after(0);
            assert_eq!(w.host.arm(timer, due, How::Always), Ok(false));
            system().pass(2 * TICK);
            // At any point of what the driver does.
            for _ in 0..rng.below(400) {
                thread::yield_now();
            }
            let lock = locked.then(|| w.asked.lock().unwrap());
            w.await_end(timer);
            drop(lock);
        }
    });
}

/// Nothing else happens after the push.
#[test]
fn a_sync_delete_hears_of_the_queue() {
    hear_of_the_queue(Manner::Refuses, false);
}

/// After the push the executor waits for a lock of the thread that deletes.
#[test]
fn a_sync_delete_hears_of_the_queue_before_the_executor() {
    hear_of_the_queue(Manner::Locks, true);
}

/// A stop during a call of a thread that drives hears that this has put a callback into the queue,
/// which nobody else runs.
#[test]
fn a_stop_hears_of_the_queue() {
    let make = |_: &mut Rng| World::new(Clock::Manual, Some(executor(2)), Manner::Refuses);
    lives(2, make, |w, n, rng| {
        for _ in 0..8 {
            if n == 0 {
                w.arm(rng);
                w.drive(rng);
            } else {
                for _ in 0..rng.below(100) {
                    thread::yield_now();
                }
                right(w.host.stop().map(|()| 0), &[]);
            }
        }
    });
}
