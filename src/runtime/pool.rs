//! Callbacks that do not run on the driving thread: the wheel's own workers run
//! them, or the caller's executor.
//!
//! The driver sets RUNNING in the state of a fired timer, puts the timer into a
//! bounded queue and continues. The thread that takes it out calls the callback
//! and clears RUNNING. So one timer is never in the queue twice, and its callback
//! never runs on two threads. A period that comes due meanwhile is skipped or owed
//! (race 6 in `core/driver/visit.rs`).
//!
//! `unfinished` counts the queued and the running callbacks. Stop and destroy run
//! the queued ones themselves, and wait until the count is zero. Meanwhile the
//! queue is closed: the driver runs callbacks itself.
//! So the count falls, whatever the workers and the executor do.
//!
//! # Taking a callback out of the queue
//!
//! A thread that waits for a timer's callback takes the timer out of the queue. So it waits
//! only for a running callback.
//!
//! ```text
//!   waiting thread                      driver
//!   cancel.exchange  state     (RMW)    visit.claim  state: RUNNING   (RMW)
//!   pool.wait   until RUNNING is gone,  pool.push    into the queue
//!               or the timer is in      --- fence ---
//!               the queue: take it out  pool.stir    wake threads in pool.wait
//! ```
//! Either pool.wait sees the push, or pool.stir sees that a thread waits
//! (`Event`).

use super::options::{Options, Overload};
use super::ring::Ring;
use crate::core::driver::Fired;
use crate::core::state::Handle;
use crate::core::stats::Tally;
use crate::sync::{fence_after_rmw, lock, AtomicU32, AtomicU64, Mutex, Ordering};
use crate::sys::event::Event;
use crate::sys::thread::{self, Body, Thread};
use alloc::vec::Vec;

/// The pool's answer when the driver offers a fired timer.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Offer {
    Taken,
    /// The driver runs it itself.
    Refused,
    Dropped,
}

pub(crate) struct Pool {
    ring: Ring,
    /// A callback does not run if the queue is full.
    drops: bool,
    quit: AtomicU32,
    unfinished: AtomicU64,
    /// The number of stops that are under way.
    closed: AtomicU32,
    pub dropped: Tally,
    pub revoked: Tally,
    /// A callback is in the queue, or the workers are to end.
    work: Event,
    /// A callback was put into the queue, or has ended: for threads in pool.wait.
    change: Event,
    /// The threads that were started.
    threads: Mutex<Vec<Thread>>,
}

impl Pool {
    /// A pool without threads; `None` without memory.
    pub fn new(options: &Options) -> Option<Self> {
        Some(Pool {
            ring: Ring::new(options.queue)?,
            drops: options.overload == Overload::Drop as u32,
            quit: AtomicU32::new(0),
            unfinished: AtomicU64::new(0),
            closed: AtomicU32::new(0),
            dropped: Tally::default(),
            revoked: Tally::default(),
            work: Event::default(),
            change: Event::default(),
            threads: Mutex::new(Vec::new()),
        })
    }

    /// Starts `n` threads that run `body(arg)`; or none, and the error.
    pub fn hire(&self, n: u32, body: Body, arg: *mut libc::c_void) -> Result<(), i32> {
        let mut threads = Vec::new();
        threads
            .try_reserve_exact(n as usize)
            .map_err(|_| -libc::ENOMEM)?;
        let started = (0..n).try_for_each(|_| {
            threads.push(thread::start(body, arg)?);
            Ok(())
        });
        *lock(&self.threads) = threads;
        started.inspect_err(|_| self.dismiss())
    }

    /// Ends the workers, when nothing is unfinished. Only once.
    pub fn dismiss(&self) {
        // Relaxed: `notify` has the fence.
        self.quit.store(1, Ordering::Relaxed);
        self.work.notify(i32::MAX);
        lock(&self.threads).drain(..).for_each(thread::join);
    }

    /// Offers a timer that is RUNNING. Driver only.
    pub fn offer(&self, fired: &Fired) -> Offer {
        // Relaxed: counted before anybody can finish it; the ring publishes it.
        self.unfinished.fetch_add(1, Ordering::Relaxed);
        let closed = self.is_closed();
        if !closed && self.push(fired) {
            return Offer::Taken;
        }
        self.finished();
        if !closed && self.drops {
            self.dropped.add(1);
            return Offer::Dropped;
        }
        Offer::Refused
    }

    fn push(&self, fired: &Fired) -> bool {
        let pushed = self.ring.push(fired);
        if pushed {
            self.work.notify(1);
            // The fence of `notify` serves both.
            self.change.notify_fenced(i32::MAX);
        }
        pushed
    }

    /// Takes a timer out of the queue: true if it was there, and then no other thread runs its
    /// callback. `from` is the position up to which the queue was searched.
    fn revoke(&self, handle: Handle, from: &mut u64) -> bool {
        let revoked = self.ring.revoke(handle, from);
        if revoked {
            self.revoked.add(1);
        }
        revoked
    }

    /// Step pool.wait: until `over`, or until the timer was taken out: then true.
    pub fn wait_or_revoke(&self, timer: Handle, from: &mut u64, over: impl Fn() -> bool) -> bool {
        let mut revoked = false;
        self.change.wait(|| {
            revoked = self.revoke(timer, from);
            revoked || over()
        });
        revoked
    }

    /// Step pool.stir: threads in pool.wait look again.
    pub fn stir(&self) {
        self.change.notify(i32::MAX);
    }

    /// The next timer of the queue. The caller runs its callback, then calls
    /// `finished`.
    pub fn take(&self) -> Option<Fired> {
        self.ring.pop()
    }

    /// The next timer of the queue. The worker that calls it sleeps until there is one. `None` if
    /// the worker must end.
    pub fn wait_for_work(&self) -> Option<Fired> {
        let mut taken = None;
        self.work.wait(|| {
            taken = self.take();
            // Relaxed: the event has the fence.
            taken.is_some() || self.quit.load(Ordering::Relaxed) != 0
        });
        taken
    }

    /// A callback is over. For a thread that `dismiss` does not join this is the last use of
    /// the wheel: a stop that waits for all callbacks may be followed by a destroy.
    pub fn finished(&self) {
        // Release: what the callback did, and that use; pairs with the Acquire in `empty`.
        self.unfinished.fetch_sub(1, Ordering::Release);
    }

    fn is_closed(&self) -> bool {
        // Relaxed: a thread that closes the queue looks at it afterwards. Both
        // sides have a fence in between.
        self.closed.load(Ordering::Relaxed) != 0
    }

    /// From now on the driver does not fill the queue. Followed by a fence.
    pub fn close(&self) {
        // Relaxed: the fence orders it.
        self.closed.fetch_add(1, Ordering::Relaxed);
        fence_after_rmw();
    }

    pub fn open(&self) {
        // Relaxed: a driver that sees it late runs callbacks itself meanwhile.
        self.closed.fetch_sub(1, Ordering::Relaxed);
    }

    /// Runs the queued callbacks by `run`, and waits until all have ended. In a closed pool
    /// this takes as long as the callbacks, whatever the executor does. Returns at once if
    /// `run` returns false.
    pub fn empty(&self, mut run: impl FnMut(&Fired) -> bool) {
        // Acquire: pairs with `finished`.
        while self.unfinished.load(Ordering::Acquire) != 0 {
            match self.take() {
                Some(fired) if !run(&fired) => return,
                Some(_) => {}
                None => thread::nap(),
            }
        }
    }

    /// The number of timers in the queue.
    pub fn queued(&self) -> u64 {
        self.ring.waiting() as u64
    }
}
