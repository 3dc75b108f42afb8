//! Callbacks in other threads than the one that drives: workers of the wheel's
//! own, or the caller's executor.
//!
//! The driver puts a fired timer, which is in RUNNING, into a bounded queue and
//! goes on. Whoever takes it out calls the callback and ends RUNNING. So one
//! timer is never in the queue twice, nor in two threads: what comes due while
//! RUNNING is left out or owed (race 5 in `wheel.rs`).
//!
//! `unfinished` counts what is queued and what runs. Stop and destroy run what
//! is queued themselves, and wait until it is zero.

use crate::runtime::ring::Ring;
use crate::sweep::Fired;
use crate::sync::{AtomicU32, AtomicU64, Ordering};
use crate::sys::event::Event;
use crate::sys::maps::Mmap;
use crate::sys::thread::{self, Thread};
use std::cell::UnsafeCell;

/// The most workers of a wheel.
pub(crate) const MOST_WORKERS: u32 = 256;
/// The longest queue.
pub(crate) const LONGEST_QUEUE: u32 = 1 << 20;

/// What happens to a callback for which the queue has no room.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Overload {
    /// The driver runs it.
    Run,
    /// The driver waits for room.
    Block,
    /// It is not run; that is counted.
    Drop,
}

/// How a pool is made.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Crew {
    /// Threads of the wheel's own; 0 with an executor.
    pub workers: u32,
    /// The length of the queue, a power of two.
    pub queue: u32,
    pub overload: Overload,
}

/// What the driver does with a fired timer.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Offer {
    Taken,
    /// The driver runs it itself.
    Refused,
    Dropped,
}

pub(crate) struct Pool {
    ring: Ring,
    overload: Overload,
    quit: AtomicU32,
    unfinished: AtomicU64,
    pub dropped: AtomicU64,
    /// Something is in the queue, or all is over.
    work: Event,
    /// There is room in the queue.
    room: Event,
    /// Nothing is unfinished.
    rest: Event,
    /// Those that were started.
    threads: UnsafeCell<[Option<Thread>; MOST_WORKERS as usize]>,
}

// SAFETY: `threads` is used by the thread that creates or destroys the wheel.
unsafe impl Sync for Pool {}
// SAFETY: as above.
unsafe impl Send for Pool {}

impl Pool {
    /// A pool without threads; `None` without memory.
    pub fn new(crew: &Crew) -> Option<Self> {
        Some(Pool {
            ring: Ring::new(&Mmap, crew.queue)?,
            overload: crew.overload,
            quit: AtomicU32::new(0),
            unfinished: AtomicU64::new(0),
            dropped: AtomicU64::new(0),
            work: Event::default(),
            room: Event::default(),
            rest: Event::default(),
            threads: UnsafeCell::new([None; MOST_WORKERS as usize]),
        })
    }

    /// Starts `n` threads that run `body(arg)`; or none, and the error.
    ///
    /// # Safety
    /// Called once, before the pool is used.
    pub unsafe fn hire(
        &self,
        n: u32,
        body: extern "C" fn(*mut libc::c_void) -> *mut libc::c_void,
        arg: *mut libc::c_void,
    ) -> Result<(), i32> {
        // SAFETY: the caller's promise.
        let threads = unsafe { &mut *self.threads.get() };
        for place in &mut threads[..n as usize] {
            match thread::start(body, arg) {
                Ok(thread) => *place = Some(thread),
                Err(e) => {
                    self.dismiss();
                    return Err(e);
                }
            }
        }
        Ok(())
    }

    /// Ends the workers, when nothing is unfinished. Only once.
    pub fn dismiss(&self) {
        // Release: pairs with the Acquire in `next`.
        self.quit.store(1, Ordering::Release);
        self.work.notify(i32::MAX);
        // SAFETY: the only thread left that knows the pool, or the one that
        // has just made it.
        for place in unsafe { &mut *self.threads.get() } {
            if let Some(thread) = place.take() {
                thread::join(thread);
            }
        }
    }

    /// Offers a timer in RUNNING, as its driver.
    pub fn offer(&self, fired: &Fired) -> Offer {
        // AcqRel: counted before anybody can finish it.
        self.unfinished.fetch_add(1, Ordering::AcqRel);
        let mut taken = self.ring.push(fired);
        if !taken && self.overload == Overload::Block {
            self.room.wait(|| {
                taken = taken || self.ring.push(fired);
                taken
            });
        }
        if taken {
            self.work.notify(1);
            return Offer::Taken;
        }
        self.finished();
        if self.overload == Overload::Drop {
            // Relaxed: a count.
            self.dropped.fetch_add(1, Ordering::Relaxed);
            return Offer::Dropped;
        }
        Offer::Refused
    }

    /// The next of the queue; its callback runs, then comes `finished`.
    pub fn take(&self) -> Option<Fired> {
        let fired = self.ring.pop()?;
        self.room.notify(1);
        Some(fired)
    }

    /// The same for a worker: sleeps until there is one; `None` at the end.
    pub fn next(&self) -> Option<Fired> {
        loop {
            if let Some(fired) = self.take() {
                return Some(fired);
            }
            // Acquire: pairs with the Release in `dismiss`.
            if self.quit.load(Ordering::Acquire) != 0 {
                return None;
            }
            self.wait_or(|| self.quit.load(Ordering::Acquire) != 0);
        }
    }

    /// Sleeps until there is something in the queue, or `over`.
    pub fn wait_or(&self, over: impl Fn() -> bool) {
        self.work.wait(|| self.ring.len() != 0 || over());
    }

    /// What somebody waits for in `wait_or` has perhaps come.
    pub fn stir(&self) {
        self.work.notify(i32::MAX);
    }

    /// A callback is over.
    pub fn finished(&self) {
        // AcqRel: what the callback did is seen by whoever waits for all.
        if self.unfinished.fetch_sub(1, Ordering::AcqRel) == 1 {
            self.rest.notify(i32::MAX);
        }
    }

    /// Waits until nothing runs that was queued, the queue being empty.
    pub fn wait_for_rest(&self) {
        // Acquire: pairs with `finished`.
        self.rest
            .wait(|| self.unfinished.load(Ordering::Acquire) == 0);
    }

    /// How many are waiting in the queue.
    pub fn queued(&self) -> u64 {
        self.ring.len()
    }

    /// # Safety
    /// Nobody uses the pool any more.
    pub unsafe fn unmap(&self) {
        // SAFETY: the caller's promise.
        unsafe { self.ring.unmap(&Mmap) };
    }
}
