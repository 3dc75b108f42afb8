//! The alarm of a test: it goes off by the clock that the test moves, or when it is
//! set to a time that has passed; and now and then for nothing, as by a signal.

use crate::tests::checker::thread;
use crate::tests::system::system;

#[derive(Clone, Copy, Debug)]
pub(crate) struct Alarm {
    pub fd: libc::c_int,
    pub clock: libc::clockid_t,
}

impl Alarm {
    pub fn new(clock: libc::clockid_t) -> Result<Self, i32> {
        system().refused().map_or(Ok(()), Err)?;
        let fd = system().make_bell() as libc::c_int;
        Ok(Alarm { fd, clock })
    }

    pub fn set(&self, at_ns: u64) -> Result<(), i32> {
        system().bell(self.fd as usize).set(at_ns);
        Ok(())
    }

    pub fn wait(&self) -> bool {
        // A system is fair to the threads that a driver may wait for.
        thread::yield_now();
        system().bell(self.fd as usize).wait();
        true
    }

    pub fn clear(&self) {}

    pub fn close(self) {
        system().bell(self.fd as usize).close();
    }
}
