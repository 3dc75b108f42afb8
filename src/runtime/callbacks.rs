//! Running callbacks, here or in the pool; and whether this thread is in one.

use super::pool::{Offer, Pool};
use super::waits::Wait;
use super::{local, Errno, Host};
use crate::core::driver::Fired;
use crate::core::node::KEYED;
use crate::core::state::Handle;
use crate::sync::{AtomicU64, Ordering};
use std::cell::Cell;

/// A function of the library, as the number that the core keeps for a function. It is
/// short: the driver runs it, with or without a pool.
pub(crate) const PROMPT: usize = usize::MAX;

/// Calls the function of a timer that has fired.
pub(crate) type Call = unsafe fn(&Host, &Fired);

/// What a thread may be inside of, or wait for: the id of a wheel, and the handle of the
/// timer whose callback it is, or ANY.
pub(super) type Target = (u64, Handle);
/// Any callback of the wheel, or its executor. No timer has this handle.
pub(super) const ANY: Handle = 0;

/// Where this thread calls the caller's functions: callbacks, or the executor. A
/// sweep has one for all of its calls.
pub(super) struct Frame {
    host: u64,
    /// The timer whose callback runs; 0 in the executor.
    timer: Cell<Handle>,
    outer: *const Frame,
}

impl Frame {
    /// Runs `f`, which calls the caller's functions. An exception or a panic of theirs
    /// ends the process.
    pub(super) fn enter<R>(host: &Host, f: impl FnOnce(&Frame) -> R) -> R {
        let frame = Frame {
            host: host.id,
            timer: Cell::new(0),
            outer: Frame::innermost(),
        };
        local::inside(|innermost| innermost.set(&frame));
        let result = guarded(|| f(&frame));
        local::inside(|innermost| innermost.set(frame.outer));
        result
    }

    /// The innermost frame of this thread.
    pub(super) fn innermost() -> *const Frame {
        local::inside(Cell::get)
    }

    /// Whether the thread of these frames is inside `target`.
    ///
    /// # Safety
    /// `at` is the innermost frame of a thread that does not leave it.
    pub(super) unsafe fn is_inside(mut at: *const Frame, (host, timer): Target) -> bool {
        // SAFETY: frames live on their thread's stack, outer ones longer.
        while let Some(frame) = unsafe { at.as_ref() } {
            if frame.host == host && (timer == ANY || frame.timer.get() == timer) {
                return true;
            }
            at = frame.outer;
        }
        false
    }
}

/// Runs `f`. No exception and no panic leaves an `extern "C"` function, but ends the
/// process: a sweep cannot be left in its middle.
#[inline(always)]
extern "C" fn guarded<R>(f: impl FnOnce() -> R) -> R {
    f()
}

impl Host {
    /// Whether this thread is inside the callback of that timer, or of ANY.
    #[inline(never)]
    pub(super) fn is_inside(&self, timer: Handle) -> bool {
        // SAFETY: this thread's own.
        unsafe { Frame::is_inside(Frame::innermost(), (self.id, timer)) }
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
    /// a child that the callback has forked, which must run no other.
    pub(super) fn run_queued(&self, pool: &Pool, fired: &Fired) -> bool {
        Frame::enter(self, |frame| self.run(frame, fired));
        self.finish(fired.handle);
        pool.finished();
        self.is_ours()
    }

    /// Has the callback of a timer run, here or in the pool.
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
                if let Some(executor) = self.executor {
                    let host = std::ptr::from_ref(self).cast_mut();
                    let arg = std::ptr::with_exposed_provenance_mut(executor.arg);
                    // SAFETY: the function came with its argument.
                    unsafe { (executor.func)(host, arg) };
                }
            }
            Offer::Refused => {
                self.run(frame, fired);
                self.finish(fired.handle);
            }
            Offer::Dropped => self.finish(fired.handle),
            Offer::Revoked => {}
        }
    }

    /// Runs one queued callback; false if there is none.
    pub fn work(&self) -> Result<bool, Errno> {
        self.check()?;
        let pool = self.pool.as_ref().ok_or(-libc::EINVAL)?;
        let run = pool.take().map(|fired| self.run_queued(pool, &fired));
        Ok(run.is_some())
    }

    /// The numbers of callbacks that are queued, were dropped, and were taken out.
    pub fn queue(&self) -> (u64, u64, u64) {
        self.pool.as_ref().map_or((0, 0, 0), |pool| {
            // Relaxed, both: counts.
            let [dropped, revoked] =
                [&pool.dropped, &pool.revoked].map(|n| n.load(Ordering::Relaxed));
            (pool.queued(), dropped, revoked)
        })
    }

    /// Cancels a timer and waits for the end of its callback: true if it was armed, or
    /// if its callback was taken out of the queue.
    pub fn cancel_sync(&self, timer: Handle, shut: bool) -> Result<bool, Errno> {
        self.check()?;
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
            if pool.wait_for(timer, &mut from, over) {
                revoked = true;
                self.finish(timer);
                pool.finished();
            }
        };
        let cancel = || self.wheel.cancel_sync(self, timer, shut, wait);
        let was = Wait::during(self.register, (self.id, timer), cancel).ok_or(-libc::EDEADLK)?;
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
