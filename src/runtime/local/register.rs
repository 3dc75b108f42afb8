//! The living wheels of the process, under a lock: a wheel that is in the register
//! is not destroyed while somebody holds that.
//!
//! Whoever makes or destroys a wheel waits for the lock, and a thread that ends.
//! Nobody else does.

use crate::runtime::Host;
use std::cell::UnsafeCell;
use std::sync::atomic::{AtomicU64, Ordering};

/// The wheels of one process, by id.
struct Register {
    mark: u64,
    wheels: Vec<(u64, *const Host)>,
}

/// A lock that belongs to a process: a child which was forked while a thread
/// of its parent held it finds it free and the register empty.
struct Locked {
    /// The mark of the process whose thread holds it, or 0.
    holder: AtomicU64,
    register: UnsafeCell<Register>,
}
// SAFETY: the register is used by the holder alone.
unsafe impl Sync for Locked {}

static REGISTER: Locked = Locked {
    holder: AtomicU64::new(0),
    register: UnsafeCell::new(Register {
        mark: 0,
        wheels: Vec::new(),
    }),
};

/// The register while it is locked.
pub(super) struct Wheels(());

impl Wheels {
    /// Locks it for a thread of the process with that mark; `None` while another
    /// thread of it does.
    pub fn try_lock(mark: u64) -> Option<Wheels> {
        let mut seen = 0;
        // Acquire: pairs with the Release of `drop`.
        while let Err(holder) =
            REGISTER
                .holder
                .compare_exchange(seen, mark, Ordering::Acquire, Ordering::Relaxed)
        {
            if holder == mark {
                return None;
            }
            // Another process's mark is a copy of its lock: take it.
            seen = holder;
        }
        let mut wheels = Wheels(());
        let register = wheels.register();
        if register.mark != mark {
            // A copy of the parent's, perhaps in the middle of a change.
            std::mem::forget(std::mem::take(&mut register.wheels));
            register.mark = mark;
        }
        Some(wheels)
    }

    /// The same, and waits for it.
    pub fn lock(mark: u64) -> Wheels {
        loop {
            if let Some(wheels) = Wheels::try_lock(mark) {
                return wheels;
            }
            // SAFETY: no arguments.
            unsafe { libc::sched_yield() };
        }
    }

    fn register(&mut self) -> &mut Register {
        // SAFETY: this thread holds the lock.
        unsafe { &mut *REGISTER.register.get() }
    }

    /// False without memory.
    pub fn add(&mut self, host: &Host) -> bool {
        let wheels = &mut self.register().wheels;
        let room = wheels.try_reserve(1).is_ok();
        if room {
            wheels.push((host.id(), host));
        }
        room
    }

    pub fn remove(&mut self, host: &Host) {
        self.register().wheels.retain(|(id, _)| *id != host.id());
    }

    /// The wheel with that id, if it lives.
    pub fn find(&mut self, id: u64) -> Option<&Host> {
        let wheels = &self.register().wheels;
        let (_, host) = wheels.iter().find(|(at, _)| *at == id)?;
        // SAFETY: registered in this process, and the lock keeps it alive.
        Some(unsafe { &**host })
    }
}

impl Drop for Wheels {
    fn drop(&mut self) {
        REGISTER.holder.store(0, Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sys::fork::Process;

    /// As in a child that was forked while a thread of its parent held it.
    #[test]
    fn a_lock_that_another_process_holds_is_taken() {
        let mark = Process::current().unwrap().mark();
        let of_parent = u64::MAX;
        let held = || {
            REGISTER
                .holder
                .compare_exchange(0, of_parent, Ordering::Relaxed, Ordering::Relaxed)
        };
        while held().is_err() {
            std::thread::yield_now();
        }
        let _wheels = Wheels::try_lock(mark).expect("a lock that no thread holds");
        assert_eq!(REGISTER.holder.load(Ordering::Relaxed), mark);
    }
}
