//! The living wheels of the process, under a lock. While a thread holds the lock, no
//! wheel in the register is destroyed.
//!
//! Three things wait for the lock: making a wheel, destroying one, and the end of a
//! thread.

use crate::runtime::Host;
use crate::sync::each_execution;
use crate::sys::lock::{Locked, PerProcess};

/// By id.
pub(super) struct Wheels(Vec<(u64, *const Host)>);
// SAFETY: used under the lock, and a wheel may be used from any thread.
unsafe impl Send for Wheels {}

each_execution! {
    static REGISTER: PerProcess<Wheels> = PerProcess::new(|| Wheels(Vec::new()));
}

impl Wheels {
    /// Locks it for a thread of the process with that mark; `None` while another
    /// thread of it does.
    pub fn try_lock(mark: u64) -> Option<Locked<'static, Wheels>> {
        REGISTER.try_lock(mark)
    }

    /// The same, but waits for the lock.
    pub fn lock(mark: u64) -> Locked<'static, Wheels> {
        REGISTER.lock(mark)
    }

    /// False without memory.
    pub fn add(&mut self, host: &Host) -> bool {
        let room = self.0.try_reserve(1).is_ok();
        if room {
            self.0.push((host.id, host));
        }
        room
    }

    pub fn remove(&mut self, host: &Host) {
        self.0.retain(|(id, _)| *id != host.id);
    }

    /// The wheel with that id, if it lives.
    pub fn find(&self, id: u64) -> Option<&Host> {
        let (_, host) = self.0.iter().find(|(at, _)| *at == id)?;
        // SAFETY: registered in this process, and the lock keeps it alive.
        Some(unsafe { &**host })
    }
}
