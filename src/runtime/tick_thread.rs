//! The tick thread: start and stop; the body of a worker.

use super::drive::{Sleep, Until, DRIVEN, IDLE, STOPPING};
use super::frames::ANY;
use super::pool::Pool;
use super::{Errno, Host};
use crate::core::alarm::Sleeper;
use crate::sync::{lock, try_lock, Ordering};
use crate::sys::thread::{self, Thread};

impl Host {
    /// Starts the tick thread.
    pub fn start(&self) -> Result<(), Errno> {
        self.check_mine()?;
        if self.clock.is_none() || self.options.wake.is_some() || self.options.owned != 0 {
            return Err(-libc::EINVAL);
        }
        // A thread that stops the wheel, or starts it, has the lock.
        let mut thread = try_lock(&self.thread).ok_or(-libc::EBUSY)?;
        if thread.is_some() {
            return Err(-libc::EBUSY);
        }
        // Relaxed: `start_thread` has the driver's lock after this.
        self.drive.store(DRIVEN, Ordering::Relaxed);
        let started = self.start_thread().inspect_err(|_| self.set_idle())?;
        *thread = Some(started);
        Ok(())
    }

    fn start_thread(&self) -> Result<Thread, Errno> {
        // Refused while somebody polls, advances or drains.
        drop(self.right_to_drive()?);
        self.check_open()?;
        self.descriptor()?;
        thread::start(tick, self.in_c())
    }

    /// Ends the tick thread, if there is one, and runs what is queued. It ends when
    /// the running callbacks and the executor's function have returned.
    pub fn stop(&self) -> Result<(), Errno> {
        self.check_mine()?;
        if self.is_inside(ANY) {
            return Err(-libc::EDEADLK);
        }
        // Acquire: what callbacks did before the last stop; pairs with the Release below.
        self.stopping
            .compare_exchange(0, 1, Ordering::Acquire, Ordering::Relaxed)
            .map_err(|_| -libc::EBUSY)?;
        // From here on the driver does not fill the queue.
        self.pool.iter().for_each(Pool::close);
        self.stop_driver();
        if let Some(pool) = &self.pool {
            // The queued timers have fired: their callbacks run, here or elsewhere.
            pool.empty(|fired| self.run_queued(pool, fired));
            pool.open();
        }
        let stopped = self.check_ours();
        // Release: this thread no longer uses the wheel, which another may destroy now.
        self.stopping.store(0, Ordering::Release);
        stopped
    }

    /// Ends the tick thread, or waits for the end of another driver's call.
    fn stop_driver(&self) {
        let mut thread = lock(&self.thread);
        let Some(running) = thread.take() else {
            drop(thread);
            return self.wait_for_driver();
        };
        // Relaxed: `live` says when it is seen.
        self.drive.store(STOPPING, Ordering::Relaxed);
        self.alarm_now();
        thread::join(running);
        self.set_idle();
    }

    /// Waits until a thread that polls or advances has finished that call.
    fn wait_for_driver(&self) {
        // Acquire: what its callbacks did; pairs with the Release of its lock.
        let driving = || self.wheel.shared.driving.load(Ordering::Acquire);
        let seen = driving();
        while seen % 2 == 1 && driving() == seen {
            thread::nap();
        }
    }

    /// There is no tick thread any more, or it was not started. The next poll finds the
    /// remaining timers: a poll that was refused until now may have used up its wake-up.
    fn set_idle(&self) {
        // Relaxed: the lock of `thread`, and the join, order the rest.
        self.drive.store(IDLE, Ordering::Relaxed);
        self.alarm_now();
    }

    /// The tick thread. Ends also in a child that a callback has forked, and with it
    /// that process.
    fn live(&self) {
        while self.is_ours() && !self.is_stopping() {
            let Ok(mut drive) = self.right_to_drive() else {
                // A poll has the lock, and is about to find that this thread drives.
                // Its thread may have a lower priority.
                thread::nap();
                continue;
            };
            if !self.sweep(&mut drive, self.now(), Until::NEVER, None) {
                continue;
            }
            let (_, sleep) = self.sleep(&mut drive, Sleeper::System, Until::NEVER);
            drop(drive);
            if sleep == Sleep::Not {
                continue;
            }
            // Either the stop sets the alarm after this thread, or this thread sees the stop:
            // the kernel's lock of the alarm is between the two settings.
            if self.is_stopping() {
                break;
            }
            if sleep == Sleep::Nap || !self.alarm().is_some_and(|alarm| alarm.wait()) {
                // The descriptor is broken, for example closed by mistake. Timers
                // still fire, because this thread looks again.
                thread::nap();
            }
            self.wakeups.bump(1);
        }
    }
}

/// The body of a worker.
pub(super) extern "C" fn worker(host: *mut libc::c_void) -> *mut libc::c_void {
    // SAFETY: `create` passed its host, which outlives the thread: destroy joins it
    // first.
    let host = unsafe { &*host.cast::<Host>() };
    if let Some(pool) = &host.pool {
        while pool
            .wait_for_work()
            .is_some_and(|fired| host.run_queued(pool, &fired))
        {}
    }
    core::ptr::null_mut()
}

/// The body of the tick thread.
extern "C" fn tick(host: *mut libc::c_void) -> *mut libc::c_void {
    // SAFETY: `start` passed its host; otherwise as above.
    unsafe { &*host.cast::<Host>() }.live();
    core::ptr::null_mut()
}
