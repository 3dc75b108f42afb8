//! The tick thread: start and stop; and the body of a worker.

use super::drive::{DRIVEN, IDLE, STOPPING};
use super::{Budget, Errno, Host};
use crate::sync::{fence, Ordering};
use crate::sys::thread::{self, Thread};

/// Bits of `stop`.
pub(super) const STOP: u32 = 1;
const READY: u32 = 2;

impl Host {
    /// Starts the tick thread.
    pub fn start(&self) -> Result<(), Errno> {
        self.descriptor()?;
        // Acquire: pairs with the Release in `stop`.
        self.drive
            .compare_exchange(IDLE, DRIVEN, Ordering::AcqRel, Ordering::Acquire)
            .map_err(|_| -libc::EBUSY)?;
        // Pairs with the fence in `take`.
        fence(Ordering::SeqCst);
        match self.start_thread() {
            Ok(thread) => {
                // SAFETY: this thread has moved `drive` out of IDLE, and `stop`
                // waits for READY.
                unsafe { *self.thread.get() = Some(thread) };
                self.is_ready();
                Ok(())
            }
            Err(e) => {
                let idle =
                    self.drive
                        .compare_exchange(DRIVEN, IDLE, Ordering::AcqRel, Ordering::Relaxed);
                if idle.is_err() {
                    // A stop waits already, for no thread then.
                    self.is_ready();
                }
                Err(e)
            }
        }
    }

    fn is_ready(&self) {
        // AcqRel: `thread`; pairs with the Acquire in `stop_thread`.
        self.stop.fetch_or(READY, Ordering::AcqRel);
        self.ready.notify(i32::MAX);
    }

    fn start_thread(&self) -> Result<Thread, Errno> {
        // Refused while somebody polls, advances or drains.
        drop(self.wheel.drive()?);
        if self.wheel.gate.is_closed() {
            return Err(-libc::ESHUTDOWN);
        }
        self.stop.store(0, Ordering::Release);
        thread::start(tick, std::ptr::from_ref(self).cast_mut().cast()).map_err(|e| -e)
    }

    /// Ends the tick thread, if there is one, and runs what is queued. It ends when
    /// the running callbacks and the executor's function have returned.
    pub fn stop(&self) -> Result<(), Errno> {
        self.check()?;
        if self.is_inside() {
            return Err(-libc::EDEADLK);
        }
        // From here on the driver does not wait for room in the queue.
        if let Some(pool) = &self.pool {
            pool.close();
        }
        let stopped =
            match self
                .drive
                .compare_exchange(DRIVEN, STOPPING, Ordering::AcqRel, Ordering::Acquire)
            {
                Ok(_) => {
                    self.stop_thread();
                    Ok(())
                }
                Err(IDLE) => {
                    self.wait_for_driver();
                    Ok(())
                }
                Err(_) => Err(-libc::EBUSY),
            };
        if let Some(pool) = &self.pool {
            // The queued timers have fired: their callbacks run, here or elsewhere.
            if stopped.is_ok() {
                pool.empty(|fired| self.run_queued(pool, fired));
            }
            pool.open();
        }
        self.check()?;
        stopped
    }

    /// Waits until a thread that polls or advances has come to the end of that.
    fn wait_for_driver(&self) {
        // Acquire: what its callbacks did; pairs with the Release of its lock.
        let driving = || self.wheel.shared.driving.load(Ordering::Acquire);
        let seen = driving();
        while seen % 2 == 1 && driving() == seen {
            thread::nap();
        }
    }

    fn stop_thread(&self) {
        self.ready
            .wait(|| self.stop.load(Ordering::Acquire) & READY != 0);
        self.stop.fetch_or(STOP, Ordering::AcqRel);
        self.alarm_now();
        // SAFETY: READY: it was written, and only one thread is STOPPING.
        if let Some(thread) = unsafe { (*self.thread.get()).take() } {
            thread::join(thread);
        }
        self.stop.store(0, Ordering::Relaxed);
        // A first poll finds what is left.
        self.alarm_now();
        self.drive.store(IDLE, Ordering::Release);
    }

    /// The tick thread. Ends also in a child that a callback has forked, and with it
    /// that process.
    fn live(&self) {
        while self.is_ours() && self.stop.load(Ordering::Acquire) & STOP == 0 {
            let Ok(mut drive) = self.wheel.drive() else {
                // A poll has the lock, and is about to find that this thread drives.
                // Its thread may have a lower priority.
                thread::nap();
                continue;
            };
            if !self.sweep(&mut drive, self.now(), Budget::default(), None) {
                continue;
            }
            let is_set = self.sleep(&mut drive);
            drop(drive);
            // A stop that came before the alarm was set has set it to now,
            // or is seen here.
            fence(Ordering::SeqCst);
            if self.stop.load(Ordering::Acquire) & STOP != 0 {
                break;
            }
            if !is_set || !self.alarm().is_some_and(|alarm| alarm.wait()) {
                // The descriptor is broken, for example closed by mistake. Timers
                // still fire, because this thread looks again.
                thread::nap();
            }
            self.wakeups.bump(1);
        }
    }
}

/// The body of a worker.
pub(super) extern "C" fn work(host: *mut libc::c_void) -> *mut libc::c_void {
    // SAFETY: `create` passed its host, which outlives the thread: destroy joins it
    // first.
    let host = unsafe { &*host.cast::<Host>() };
    if let Some(pool) = &host.pool {
        while pool
            .next()
            .is_some_and(|fired| host.run_queued(pool, &fired))
        {}
    }
    std::ptr::null_mut()
}

/// The body of the tick thread.
extern "C" fn tick(host: *mut libc::c_void) -> *mut libc::c_void {
    // SAFETY: `start` passed its host; otherwise as above.
    unsafe { &*host.cast::<Host>() }.live();
    std::ptr::null_mut()
}
