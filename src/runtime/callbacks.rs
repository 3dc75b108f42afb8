//! Running callbacks: here, or in the pool; and whether this thread is inside of
//! one.

use super::pool::{Offer, Pool};
use super::{Errno, Host};
use crate::slab::KEYED;
use crate::sweep::Fired;
use crate::sync::{AtomicU64, Ordering};
use crate::sys::futex::Futex;
use crate::sys::maps::Mmap;
use crate::wheel::{Handle, Park, Wheel};
use std::cell::Cell;

/// A callback that runs on this thread.
struct Frame {
    host: u64,
    index: u32,
    outer: *const Frame,
}

thread_local! {
    static FRAME: Cell<*const Frame> = const { Cell::new(std::ptr::null()) };
}

impl Host {
    /// Whether this thread is inside a callback of this wheel, or of one timer.
    #[inline(never)]
    pub(super) fn is_inside(&self, timer: Option<Handle>) -> bool {
        let mut at = FRAME.get();
        while !at.is_null() {
            // SAFETY: frames live on this thread's stack, outer ones longer.
            let frame = unsafe { &*at };
            let index = timer.map(Wheel::<Mmap>::index_of);
            if frame.host == self.id && index.is_none_or(|i| i == frame.index) {
                return true;
            }
            at = frame.outer;
        }
        false
    }

    /// Calls the callback of a timer in RUNNING, and ends that.
    pub(super) fn run(&self, fired: &Fired) {
        let frame = Frame {
            host: self.id,
            index: Wheel::<Mmap>::index_of(fired.handle),
            outer: FRAME.get(),
        };
        FRAME.set(&raw const frame);
        if fired.kind & KEYED == 0 {
            // SAFETY: `func` was given to `setup` for this very call.
            unsafe { (self.call)(self, fired) };
        } else {
            // Its handle is not the caller's.
            let shown = Fired {
                handle: 0,
                ..*fired
            };
            // SAFETY: as above.
            unsafe { (self.call)(self, &shown) };
        }
        FRAME.set(frame.outer);
        self.wheel.finish(self, fired.handle, self);
    }

    /// The same for one that was queued.
    pub(super) fn run_queued(&self, pool: &Pool, fired: &Fired) {
        self.run(fired);
        pool.finished();
    }

    /// Has the callback of a timer run, here or in the pool.
    pub(super) fn dispatch(&self, fired: &Fired) {
        let Some(pool) = &self.pool else {
            return self.run(fired);
        };
        match pool.offer(fired) {
            Offer::Taken => {
                if let Some(executor) = self.executor {
                    // SAFETY: made together with its `func`.
                    unsafe { (executor.call)(self, executor) };
                }
            }
            Offer::Refused => self.run(fired),
            Offer::Dropped => self.wheel.finish(self, fired.handle, self),
        }
    }

    /// Runs one queued callback; false if there is none.
    pub fn work(&self) -> Result<bool, Errno> {
        self.check()?;
        let pool = self.pool.as_ref().ok_or(-libc::EINVAL)?;
        let fired = pool.take();
        if let Some(fired) = &fired {
            self.run_queued(pool, fired);
        }
        Ok(fired.is_some())
    }

    /// How many callbacks are queued, and how many were dropped.
    pub fn queue(&self) -> (u64, u64) {
        self.pool.as_ref().map_or((0, 0), |pool| {
            // Relaxed: a count.
            (pool.queued(), pool.dropped.load(Ordering::Relaxed))
        })
    }

    /// Whether this is a callback in another thread than the one that drives.
    pub(super) fn is_elsewhere(&self) -> bool {
        self.pool.is_some() && self.is_inside(None)
    }
}

impl Park for Host {
    /// Inside a callback it runs what is queued in the meantime: the callback
    /// waited for may be there, and all workers may wait like this.
    fn wait(&self, word: &AtomicU64, seen: u64) {
        match &self.pool {
            Some(pool) if self.is_inside(None) => {
                pool.wait_or(|| word.load(Ordering::Acquire) != seen);
                if let Some(fired) = pool.take() {
                    self.run_queued(pool, &fired);
                }
            }
            _ => Futex.wait(word, seen),
        }
    }

    fn wake(&self, word: &AtomicU64) {
        Futex.wake(word);
        if let Some(pool) = &self.pool {
            pool.stir();
        }
    }
}
