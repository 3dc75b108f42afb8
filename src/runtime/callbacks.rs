//! Running callbacks, here or in the pool, and waiting for them.

use super::frames::{Frame, ANY};
use super::pool::{Offer, Pool};
use super::{Errno, Host};
use crate::core::driver::Fired;
use crate::core::state::Handle;
use crate::core::ticks::KEYED;
use crate::sync::{AtomicU64, Ordering};

/// A function of the library, as the number that the core keeps for a function. It is
/// short. The driver runs it, with or without a pool.
pub(crate) const PROMPT: usize = usize::MAX;

impl Host {
    /// Whether this thread is inside the callback of that timer, or of ANY.
    #[inline(never)]
    pub(super) fn is_inside(&self, timer: Handle) -> bool {
        Frame::find(self.id, timer, |_| {})
    }

    /// Calls the callback of a timer.
    #[inline]
    pub(super) fn run(&self, frame: &Frame, fired: &Fired) {
        if fired.kind & KEYED == 0 {
            return self.show(frame, fired.handle, fired);
        }
        // The handle of a timer with a key is not the caller's.
        let nameless = Fired {
            handle: 0,
            ..*fired
        };
        self.show(frame, fired.handle, &nameless);
    }

    /// Calls the callback of `timer` with the event `fired`.
    #[inline(always)]
    pub(super) fn show(&self, frame: &Frame, timer: Handle, fired: &Fired) {
        frame.timer.set(timer);
        // SAFETY: `func` was given to `setup` for this very call.
        unsafe { (self.call)(self, fired) };
        frame.timer.set(0);
    }

    /// Runs the callback of a timer that was in the queue, and ends it. Returns false in
    /// a child that the callback has forked: the child must run no other callback.
    pub(super) fn run_queued(&self, pool: &Pool, fired: &Fired) -> bool {
        Frame::enter(self.id, false, |frame| self.run(frame, fired));
        self.finish(fired.handle);
        let is_ours = self.is_ours();
        pool.finished();
        is_ours
    }

    /// Runs the callback of a timer here, or passes it to the pool.
    #[inline]
    pub(super) fn dispatch(&self, frame: &Frame, fired: &Fired) {
        match &self.pool {
            None => self.run(frame, fired),
            Some(pool) => self.queue_up(frame, pool, fired),
        }
    }

    #[inline(never)]
    fn queue_up(&self, frame: &Frame, pool: &Pool, fired: &Fired) {
        let offer = match fired.func {
            PROMPT => Offer::Refused,
            _ => pool.offer(fired),
        };
        match offer {
            Offer::Taken => {
                if let Some(executor) = self.options.executor {
                    // SAFETY: the function came with its argument.
                    unsafe { executor(self.in_c(), self.options.executor_arg) };
                }
            }
            Offer::Refused => {
                self.run(frame, fired);
                self.finish(fired.handle);
            }
            Offer::Dropped => self.finish(fired.handle),
        }
    }

    /// Runs one queued callback; false if there is none.
    pub fn work(&self) -> Result<bool, Errno> {
        self.check_mine()?;
        let pool = self.pool.as_ref().ok_or(-libc::EINVAL)?;
        let run = pool.take().map(|fired| self.run_queued(pool, &fired));
        Ok(run.is_some())
    }

    /// The numbers of callbacks that are queued, were dropped, and were taken out.
    pub fn queue(&self) -> (u64, u64, u64) {
        let counts = |pool: &Pool| (pool.queued(), pool.dropped.get(), pool.revoked.get());
        self.pool.as_ref().map_or((0, 0, 0), counts)
    }

    /// Cancels a timer and waits for the end of its callback: true if it was armed, or
    /// if its callback was taken out of the queue.
    pub fn cancel_sync(&self, timer: Handle, shut: bool) -> Result<bool, Errno> {
        self.check_mine()?;
        if timer == ANY {
            // No timer, and no wait for all callbacks of the wheel.
            return Err(-libc::ESTALE);
        }
        if self.is_inside(timer) {
            // A stale handle is -ESTALE, whoever asks.
            self.wheel.is_pending(timer)?;
            return Err(-libc::EDEADLK);
        }
        // The position up to which the queue was searched.
        let mut from = 0;
        let mut revoked = false;
        let wait = |word: &AtomicU64, seen| {
            // Relaxed: the core looks again.
            let over = || word.load(Ordering::Relaxed) != seen;
            let Some(pool) = &self.pool else {
                return self.end.wait(over);
            };
            if pool.wait_or_revoke(timer, &mut from, over) {
                revoked = true;
                self.finish(timer);
                pool.finished();
            }
        };
        let was = self.wheel.cancel_sync(self, timer, shut, wait);
        Ok(revoked || was?)
    }

    /// The end of a timer's callback, after [`dispatch`](Host::dispatch).
    pub(super) fn finish(&self, timer: Handle) {
        self.wheel.finish(self, timer, || self.wake());
    }

    /// Wakes the threads that wait for the end of a callback.
    pub(super) fn wake(&self) {
        match &self.pool {
            Some(pool) => pool.stir(),
            None => self.end.notify(i32::MAX),
        }
    }
}
